"""The picture of a training: accuracy above, what it cost below."""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ferrodp.demo._training import Settings, Training

_PRIVATE, _OPEN, _INK, _LIMIT = "#0b6e4f", "#8a8f98", "#22262b", "#b3261e"


@dataclass(frozen=True, slots=True)
class Words:
    """What a picture calls things: its title, the curve of the private training, and what happens once in each step."""

    title: str = "Handwritten digits, 100 clients"
    private: str = "private for every client"
    step: str = "round"


def draw(
    training: Training,
    without_privacy: Sequence[float],
    settings: Settings,
    scope: str | None = None,
    words: Words = Words(),  # immutable
) -> bytes:
    """Return a PNG. With `scope`, ε is what the ledger shows as charged to that scope.

    Raises
    ------
    ModuleNotFoundError
        Without matplotlib.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # heavy, and not needed by the rest of the package
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    rounds = range(1, len(training.rounds) + 1)
    accuracies = [100 * each.accuracy for each in training.rounds]
    epsilons = [each.epsilon for each in training.rounds]
    baseline = [100 * each for each in without_privacy]

    figure = Figure(figsize=(8, 6), dpi=150, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    figure.suptitle(
        f"{words.title}: {accuracies[-1]:.1f} % private, {baseline[-1]:.1f} % without privacy",
        fontsize=13,
        color=_INK,
        x=0.01,
        ha="left",
    )

    marker = {"marker": "o", "markersize": 3.5 if len(epsilons) <= 60 else 2.0}
    above.plot(rounds, baseline, color=_OPEN, lw=1.8, label="without privacy", **marker)
    above.plot(rounds, accuracies, color=_PRIVATE, lw=2.2, label=words.private, **marker)
    above.set_ylabel("test accuracy (%)")
    above.set_ylim(min(50.0, *accuracies, *baseline) - 2, 101)
    above.legend(loc="lower right", frameon=False)

    below.plot(rounds, epsilons, color=_PRIVATE, lw=2.2, **marker)
    below.axhline(settings.epsilon, color=_LIMIT, lw=1.2, ls=(0, (5, 3)))
    note = functools.partial(below.annotate, textcoords="offset points", color=_LIMIT)
    budget = f"budget: ε = {settings.epsilon:g} at δ = {settings.delta:g}"
    note(budget, (0.01, settings.epsilon), xycoords=("axes fraction", "data"), xytext=(0, 4), va="bottom")
    if training.next_epsilon > settings.epsilon:
        refused = len(epsilons) + 1
        below.plot([refused], [training.next_epsilon], "x", color=_LIMIT, ms=7, mew=1.8)
        reached = (
            f"{words.step} {refused} would reach ε = {math.ceil(1000 * training.next_epsilon) / 1000:.3f}: refused"
        )
        note(reached, (refused, training.next_epsilon), xytext=(4, 7), ha="right")
    below.set_ylabel("ε spent" if scope is None else "ε in the ledger")
    below.set_xlabel(words.step)
    below.set_ylim(0, 1.22 * max(settings.epsilon, training.next_epsilon))
    below.set_xlim(0.5, len(epsilons) + 1.5)
    below.xaxis.get_major_locator().set_params(integer=True)

    for axes in (above, below):
        axes.grid(axis="y", color="#e3e5e8", lw=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=_INK)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def check_installed() -> None:
    """Raise ModuleNotFoundError without matplotlib, before anything was trained."""
    import matplotlib  # noqa: F401  # requested, not used
