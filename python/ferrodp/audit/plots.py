"""Picture of an audit. Needs matplotlib: ``pip install "ferrodp[plot]"``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ferrodp._base._pictures import axes_of, finish, line_of, power
from ferrodp.accounting.reports import trade_off_curve
from ferrodp.audit.canaries import CanaryReport
from ferrodp.audit.report import AuditReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes: TypeAlias = Any


def plot_roc(report: AuditReport | CanaryReport, *, curve: Any = None, axes: Axes | None = None) -> Axes:
    """Draw how often a test detects against how often it raises a false alarm, below what the claim allows.

    Parameters
    ----------
    report : AuditReport or CanaryReport
        Its `roc` is drawn: rates that were seen, without confidence bounds.
    curve : accountant or callable, optional
        Where the whole curve δ(ε) is claimed: its trade-off curve is drawn as well.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a new figure if left out.

    Returns
    -------
    matplotlib.axes.Axes
        With both rates from 0 to 1.

    Raises
    ------
    MissingPackage
        If matplotlib is not installed.
    InvalidParameter, InvalidType
        If `curve` is not accepted.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.audit import audit_canaries, plot_roc
    >>> included = np.random.default_rng(0).random(500) < 0.5
    >>> report = audit_canaries(included + np.random.default_rng(1).normal(size=500), included, epsilon=4.4, delta=1e-5)
    >>> plot_roc(report).get_ylabel()
    'true alarms'
    """
    axes = axes_of(axes)
    rates = np.linspace(0.0, 1.0, 201)
    factor = np.exp(min(report.epsilon, 700.0))
    most = np.minimum(np.minimum(report.delta + factor * rates, 1.0), 1.0 - (1.0 - report.delta - rates) / factor)
    allowed = f"({report.epsilon:.4g}, {power(report.delta)}) allows"
    axes.plot(rates, np.clip(most, 0.0, 1.0), label=allowed, **line_of(0))
    if curve is not None:
        some = np.linspace(0.0, 1.0, 41)
        axes.plot(some, 1.0 - trade_off_curve(curve, some), label="claimed trade-off curve allows", **line_of(2))
    axes.plot(*np.array(sorted(report.roc)).T, drawstyle="steps-post", label="seen", **line_of(1))
    axes.plot([0.0, 1.0], [0.0, 1.0], linestyle=":", color="gray", label="guessing")
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.02)
    title = report.claim if len(report.claim) <= 60 else report.claim[:57] + "..."
    return finish(axes, "false alarms", "true alarms", title)
