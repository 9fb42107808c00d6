"""A picture of ε over noise and number of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ferrodp._base import _validate
from ferrodp._base._pictures import axes_of, power
from ferrodp._base._validate import Real
from ferrodp.accounting.accountants.pld import PldAccountant
from ferrodp.errors import InvalidParameter
from ferrodp.events import GaussianEvent, PoissonSampledEvent, PrivacyEvent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes: TypeAlias = Any

__all__ = ["plot_sweep"]


def plot_sweep(
    *,
    noise_multipliers: Sequence[Real],
    counts: Sequence[int],
    delta: Real,
    sampling_probability: Real = 1.0,
    accountant: Callable[[], Any] = PldAccountant,
    axes: Axes | None = None,
) -> Axes:
    """Draw ε of sampled Gaussian steps as a map over noise multipliers and numbers of steps.

    Parameters
    ----------
    noise_multipliers : sequence of float
        One row each; at least one.
    counts : sequence of int
        Numbers of steps, one column each; at least one.
    delta : float
        In (0, 1).
    sampling_probability : float
        Of each record in each step.
    accountant : callable
        Makes an accountant.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a new figure if left out.

    Returns
    -------
    matplotlib.axes.Axes
        Each cell has its certified upper bound as a number, rounded up: darker is more.

    Raises
    ------
    MissingPackage
        If matplotlib is not installed.
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Examples
    --------
    >>> from ferrodp.accounting.reports import plot_sweep
    >>> axes = plot_sweep(noise_multipliers=[1.0, 2.0], counts=[100, 1000], delta=1e-5, sampling_probability=0.01)
    >>> [text.get_text() for text in axes.texts]
    ['0.719', '1.83', '0.19', '0.623']
    """
    levels = [_validate.positive("noise_multipliers", each, toward="down") for each in noise_multipliers]
    steps = [_validate.count("counts", each) for each in counts]
    chance = _validate.probability("sampling_probability", sampling_probability)
    checked = _validate.delta(delta)
    if not levels or not steps:
        raise InvalidParameter("noise_multipliers and counts must have at least one value each, got none")
    found = np.array([[_epsilon(accountant, _step(z, chance), count, checked) for count in steps] for z in levels])
    axes = axes_of(axes)
    shades = np.log10(np.where(np.isfinite(found) & (found > 0.0), found, np.nan))
    axes.imshow(shades, cmap="Greys", aspect="auto", origin="lower", vmin=-2.0, vmax=2.0)
    for row, column in np.ndindex(found.shape):
        value = float(found[row, column])
        dark = np.isfinite(shades[row, column]) and shades[row, column] > 0.5
        shown = f"{np.ceil(value * 10 ** _places(value)) / 10 ** _places(value):g}" if np.isfinite(value) else "∞"
        axes.text(column, row, shown, ha="center", va="center", color="white" if dark else "black")
    axes.set_xticks(range(len(steps)), [power(each) for each in steps])
    axes.set_yticks(range(len(levels)), [f"{each:g}" for each in levels])
    axes.set_xlabel("steps T")
    axes.set_ylabel("noise multiplier σ")
    axes.set_title(f"ε at δ = {power(checked)}, sampling probability q = {power(chance)}")
    return axes


def _step(noise_multiplier: float, chance: float) -> PrivacyEvent:
    gaussian = GaussianEvent(noise_multiplier=noise_multiplier)
    return gaussian if chance == 1.0 else PoissonSampledEvent(sampling_probability=chance, event=gaussian)


def _epsilon(accountant: Callable[[], Any], event: PrivacyEvent, count: int, delta: float) -> float:
    spent = accountant()
    spent.compose(event, count)
    return float(spent.epsilon_bounds(delta).upper)


def _places(value: float) -> int:
    """Return the decimals of a number with three digits."""
    return max(0, 2 - int(np.floor(np.log10(value)))) if value > 0.0 else 0
