"""Pictures of what releases cost. Needs matplotlib: ``pip install "ferrodp[plot]"``.

Lines are upper bounds, which is what is guaranteed; where an accountant knows a lower bound, the space between is
shaded, and the exact value lies in it. Every function takes one accountant, or several in a mapping by the names that
the legend is to show, draws into `axes` or a new figure, and returns the axes. Where curves bend or cross they are
computed at more points. Titles name noise σ, sampling q and steps T where they are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ferrodp._base import _validate
from ferrodp._base._pictures import LIMIT, axes_of, finish, line_of, power
from ferrodp._base._validate import Real
from ferrodp.accounting.accountants.base import PrivacyAccountant
from ferrodp.accounting.curve import Curve
from ferrodp.accounting.reports._curves import Array, epsilon_over_counts, privacy_profile, trade_off
from ferrodp.accounting.reports._refinement import refined
from ferrodp.accounting.reports._titles import of_accountants, of_steps
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import PrivacyEvent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes: TypeAlias = Any

_SMALLEST_DELTA = 1e-12  # down to which a privacy profile is drawn unless told otherwise
_BELOW_THE_PLOT = 1e-307  # drawn for a δ of 0, which a logarithmic axis cannot show
_NUM_FIRST_POINTS = 49
_MOST_POINTS = 300
_NUM_PROFILE_POINTS = 401
"""Of the profile that a trade-off curve is put together from: its bounds are then closer than a line is wide."""
_MOST_COUNTS = 65  # each costs an answer
_ORDERS = (1.0 + np.geomspace(0.01, 1000.0, 129)).tolist()


def plot_epsilon_over_steps(
    accountants: PrivacyAccountant | Mapping[str, PrivacyAccountant],
    event: PrivacyEvent,
    *,
    count: int,
    delta: Real,
    budget: Real | None = None,
    log: bool = False,
    axes: Axes | None = None,
) -> Axes:
    """Draw how ε grows while an event happens again and again.

    Parameters
    ----------
    accountants : accountant or mapping of accountants
        What was released before; left as they are.
    event : PrivacyEvent
        What happens in each step.
    count : int
        How many steps to draw; at least 1. The curve is computed at up to 65 of them.
    delta : float
        In (0, 1).
    budget : float, optional
        An ε to draw as a horizontal line.
    log : bool
        Whether the axes are logarithmic.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a new figure if left out.

    Returns
    -------
    matplotlib.axes.Axes
        With a shaded band down to the lower bound, where one is known.

    Raises
    ------
    MissingPackage
        If matplotlib is not installed.
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, PldAccountant
    >>> from ferrodp.accounting.reports import plot_epsilon_over_steps
    >>> axes = plot_epsilon_over_steps(PldAccountant(), GaussianEvent(noise_multiplier=5.0), count=10, delta=1e-5)
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('steps', 'ε at δ = 10⁻⁵')
    """
    count = _validate.count("count", count)
    checked = _validate.delta(delta)
    limit = None if budget is None else _validate.positive("budget", budget, toward="down")
    log = _validate.truth("log", log)
    spaced = np.geomspace(1, count, 17) if log else count * np.linspace(0, 1, 17) ** 2  # ε grows like a root at first
    counts = sorted({min(round(each), count) for each in spaced.tolist()})

    def over(accountant: PrivacyAccountant) -> Callable[[Array], Curve]:
        return lambda at: epsilon_over_counts(accountant, event, [min(int(each), count) for each in at], checked)

    named = _named(accountants)
    curves = refined(
        {name: over(each) for name, each in named.items()},
        np.array(counts, dtype=np.float64),
        most=_MOST_COUNTS,
        log_x=log,
        log_y=log,
        whole=True,
    )
    axes = axes_of(axes)
    for name, curve in curves.items():
        _draw(axes, curve, name)
    if limit is not None:
        axes.axhline(limit, label=f"budget ε = {limit:g}", **LIMIT)
        for name, accountant in named.items():
            _mark_last_within(axes, curves[name], (accountant, event, checked), limit)
    if log:
        axes.set_xscale("log")
        axes.set_xlim(1, max(count, 2))
        _log_y(axes, *(curve.upper for curve in curves.values()))
    else:
        axes.set_xlim(0, count)
        axes.set_ylim(bottom=0.0)
    return finish(axes, "steps", f"ε at δ = {power(checked)}", f"Privacy loss over steps{of_steps(event, count)}")


def plot_privacy_profile(
    accountants: PrivacyAccountant | Mapping[str, PrivacyAccountant],
    *,
    epsilons: Sequence[float] | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw δ as a function of ε.

    Parameters
    ----------
    accountants : accountant or mapping of accountants
        What was released.
    epsilons : sequence of float, optional
        Where to compute δ; finite, ≥ 0. If left out, from 0 to where δ has fallen to 10⁻¹².
    axes : matplotlib.axes.Axes, optional
        Where to draw; a new figure if left out.

    Returns
    -------
    matplotlib.axes.Axes
        With a logarithmic axis for δ; where δ is 0 the line leaves the plot.

    Raises
    ------
    MissingPackage
        If matplotlib is not installed.
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, PldAccountant
    >>> from ferrodp.accounting.reports import plot_privacy_profile
    >>> accountant = PldAccountant()
    >>> accountant.compose(GaussianEvent(noise_multiplier=5.0))
    >>> plot_privacy_profile(accountant).get_yscale()
    'log'
    """
    named = _named(accountants)
    grid = _grid(named, epsilons, _SMALLEST_DELTA)

    def profile(accountant: PrivacyAccountant) -> Callable[[Array], Curve]:
        return lambda at: privacy_profile(accountant, at)

    sources = {name: profile(accountant) for name, accountant in named.items()}
    curves = refined(sources, grid, most=_MOST_POINTS if epsilons is None else 0, log_y=True, floor=_SMALLEST_DELTA)
    axes = axes_of(axes)
    for name, curve in curves.items():
        _draw(axes, curve._replace(upper=np.maximum(curve.upper, _BELOW_THE_PLOT)), name)
    axes.set_yscale("log")
    axes.set_xlim(grid[0], grid[-1])
    smallest = min((float(each.upper[each.upper > 0.0].min(initial=1.0)) for each in curves.values()), default=1.0)
    axes.set_ylim(min(max(smallest, _SMALLEST_DELTA) if epsilons is None else smallest, 0.1), 1.5)
    return finish(axes, "ε", "δ", f"Privacy profile{of_accountants(named)}")


def plot_trade_off(
    accountants: PrivacyAccountant | Mapping[str, PrivacyAccountant],
    *,
    epsilons: Sequence[float] | None = None,
    log: bool = False,
    axes: Axes | None = None,
) -> Axes:
    """Draw how well the best test can tell whether one unit of privacy took part.

    Parameters
    ----------
    accountants : accountant or mapping of accountants
        What was released.
    epsilons : sequence of float, optional
        Where δ(ε) is computed, from which the curve is put together; beginning with 0. The more, the closer the bounds.
    log : bool
        False: the trade-off function, least false negative rate over false positive rate. True: the highest true
        positive rate instead, with logarithmic axes, as membership inference is reported.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a new figure if left out.

    Returns
    -------
    matplotlib.axes.Axes
        With the guaranteed curve and that of guessing.

    Raises
    ------
    MissingPackage
        If matplotlib is not installed.
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Notes
    -----
    Drawn is the side that is guaranteed: no test has fewer false negatives (more true positives) than the line says.
    Source: Dong, Roth, Su, "Gaussian differential privacy", JRSS B 2022, Proposition 2.12. A picture takes one set of ε
    for all its points; `true_positive_rate` finds the best one for each and proves the number.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, PldAccountant
    >>> from ferrodp.accounting.reports import plot_trade_off
    >>> accountant = PldAccountant()
    >>> accountant.compose(GaussianEvent(noise_multiplier=1.0))
    >>> plot_trade_off(accountant).get_xlabel()
    'false positive rate'
    """
    named = _named(accountants)
    grid = _grid(named, epsilons, 1e-10, _NUM_PROFILE_POINTS)
    if grid[0] != 0.0:
        raise _validate.out_of_domain("epsilons", "rising from 0", float(grid[0]))
    log = _validate.truth("log", log)
    rates = np.geomspace(1e-6, 1.0, 400) if log else np.linspace(0.0, 1.0, 501)
    axes = axes_of(axes)
    about = of_accountants(named)
    for name, accountant in named.items():
        profile = privacy_profile(accountant, grid)
        curve = trade_off(profile, rates)
        guaranteed, other = (1.0 - curve.lower, 1.0 - curve.upper) if log else (curve.lower, curve.upper)
        [line] = axes.plot(rates, guaranteed, label=name or "guaranteed", **line_of(len(axes.get_lines())))
        if profile.lower.any():
            _shade(axes, line, rates, other, guaranteed, name)
    axes.plot(rates, rates if log else 1.0 - rates, color="gray", linestyle=":", linewidth=1.0, label="guessing")
    axes.set_xlim(rates[0], 1.0)
    if log:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(rates[0], 1.5)
        return finish(axes, "false positive rate", "largest true positive rate", f"What an attacker can reach{about}")
    axes.set_ylim(0.0, 1.0)
    axes.set_aspect("equal")
    return finish(axes, "false positive rate", "least false negative rate", f"Trade-off function{about}")


def plot_rdp_curve(
    curves: Any,
    *,
    orders: Sequence[float] | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw Rényi divergences over their orders.

    Parameters
    ----------
    curves : accountant, mechanism or function, or a mapping of them
        Anything with a method ``rdp(orders)``, or a function of the orders, that returns as many numbers.
    orders : sequence of float, optional
        Orders α > 1; 129 from 1.01 to 1001 if left out.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a new figure if left out.

    Returns
    -------
    matplotlib.axes.Axes
        With logarithmic axes: a Gaussian release is a straight line.

    Raises
    ------
    MissingPackage
        If matplotlib is not installed.
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.accounting.reports import plot_rdp_curve
    >>> axes = plot_rdp_curve({"Gaussian": lambda orders: np.asarray(orders) / 2})
    >>> axes.get_xlabel()
    'order α'
    """
    named = curves if isinstance(curves, Mapping) else {"": curves}
    at = np.asarray(_ORDERS if orders is None else orders, dtype=np.float64)
    if at.ndim != 1 or not at.size or not np.isfinite(at).all() or not (at > 1.0).all():
        raise InvalidParameter("orders must be a sequence of finite numbers > 1, at least one")
    values = {name: _rdp(source, at) for name, source in named.items()}
    axes = axes_of(axes)
    for name, divergences in values.items():
        drawn = np.where(np.isfinite(divergences), divergences, np.nan)
        axes.plot(at, drawn, label=name or None, **line_of(len(axes.get_lines())))
    axes.set_xscale("log")
    axes.set_xlim(at.min() / 1.05, at.max() * 1.05)
    _log_y(axes, *values.values())
    return finish(axes, "order α", "Rényi divergence", "Rényi differential privacy")


def _rdp(source: Any, orders: Array) -> Array:
    function: Callable[[Array], Any] | None = getattr(source, "rdp", source if callable(source) else None)
    if function is None:
        raise InvalidType(f"curves must have a method rdp or be functions, got {type(source).__name__}")
    values = np.asarray(function(orders), dtype=np.float64)
    if values.shape != orders.shape:
        raise InvalidParameter(f"curves must return {orders.size} numbers, got the shape {values.shape}")
    return values


def _named(accountants: PrivacyAccountant | Mapping[str, PrivacyAccountant]) -> Mapping[str, PrivacyAccountant]:
    named = accountants if isinstance(accountants, Mapping) else {"": accountants}
    for accountant in named.values():
        if not hasattr(accountant, "epsilon_bounds") or not hasattr(accountant, "delta_bounds"):
            kind = type(accountant).__name__
            raise InvalidType(
                f"accountants must be an accountant, or a dict of some, got {kind}; "
                f"for example {{'RDP': RdpAccountant()}}"
            )
    return named


def _grid(
    named: Mapping[str, PrivacyAccountant],
    epsilons: Sequence[float] | None,
    delta: float,
    size: int = _NUM_FIRST_POINTS,
) -> Array:
    """Return the given ε, or evenly spaced ones up to where every δ has fallen to `delta`."""
    if epsilons is not None:
        grid = np.array([_validate.non_negative("epsilons", each) for each in epsilons])
        if grid.size < 2 or not (np.diff(grid) > 0.0).all():
            raise InvalidParameter("epsilons must be at least two numbers in rising order")
        return grid
    ends = [accountant.epsilon_bounds(delta).upper for accountant in named.values()]
    end = max((each for each in ends if math.isfinite(each)), default=0.0)
    return np.linspace(0.0, end or 1.0, size)


def _draw(axes: Axes, curve: Curve, name: str) -> None:
    """Draw an upper bound, and shade down to the lower one if any is known."""
    lower, upper = (np.where(np.isfinite(each), each, np.nan) for each in (curve.lower, curve.upper))
    what = "upper bound" if np.isfinite(upper).any() else "no finite bound"
    [line] = axes.plot(curve.x, upper, label=f"{name} ({what})" if name else what, **line_of(len(axes.get_lines())))
    if (lower > 0.0).any():
        _shade(axes, line, curve.x, lower, upper, name)


def _mark_last_within(
    axes: Axes, curve: Curve, of: tuple[PrivacyAccountant, PrivacyEvent, float], limit: float
) -> None:
    """Mark the last step whose certified ε is within a budget, if a later one is drawn."""
    inside = np.flatnonzero(np.asarray(curve.upper) <= limit)
    if not inside.size or inside[-1] + 1 == len(curve.x):
        return
    first, last = int(curve.x[inside[-1]]), int(curve.x[inside[-1] + 1])
    while last - first > 1:  # ε rises with the steps
        between = sorted({round(each) for each in np.linspace(first, last, 17).tolist()})
        bounds = epsilon_over_counts(of[0], of[1], between, of[2])
        allowed = [step for step, epsilon in zip(between, bounds.upper, strict=True) if epsilon <= limit]
        first = max([first, *allowed])
        last = min([last, *(step for step in between if step > first)])
    axes.plot([first], [limit], marker="o", color="black", markersize=4, linestyle="none")
    axes.annotate(f"{first}", (first, limit), textcoords="offset points", xytext=(4, -11), fontsize="small")


def _log_y(axes: Axes, *values: Array) -> None:
    """Make the vertical axis logarithmic if there is something to see on it."""
    if any((np.isfinite(each) & (each > 0.0)).any() for each in values):
        axes.set_yscale("log")


def _shade(axes: Axes, line: Any, x: Array, one: Array, other: Array, name: str) -> None:
    """Shade between two bounds, in the color of a line."""
    label = None if name else "between the bounds"
    axes.fill_between(x, one, other, color=line.get_color(), alpha=0.25, linewidth=0.0, label=label)
