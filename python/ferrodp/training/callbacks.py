"""Callbacks that watch the cost: `PrivacyMonitor` shows it, `BudgetStop` keeps a training within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting.accountants.registry import accountant_maker
from ferrodp.errors import InvalidParameter, UnsupportedEventError
from ferrodp.events import NeighboringRelation
from ferrodp.training.loop import Callback, Progress

__all__ = ["BudgetStop", "PrivacyMonitor"]


class PrivacyMonitor(Callback):
    """Print and record ε after steps, by several accountants side by side; the certified bound comes first.

    All of them read the plan that draws the noise, so what is shown cannot differ from what is done. The least of them
    holds; "pld" is the tightest.

    Parameters
    ----------
    delta : float
        In (0, 1). Rounded down if not exactly representable.
    measures : sequence of str
        Names of accountants. "pld" is moved to the front. One that has no bound for the plan's steps shows "-": zCDP
        says nothing about samples.
    every : int
        Number of steps between two lines; the last step always has one.
    verbose : bool
        Whether to print, or only to record.

    Attributes
    ----------
    history : list of dict
        For each line "step", the number of steps done, and ε by measure, None where there is no bound.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
    >>> from ferrodp.training import SGD, PrivacyMonitor, fit
    >>> plan = PrivacyPlan(
    ...     population_size=10,
    ...     sampling=FullBatch(),
    ...     num_steps=2,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(10.0),
    ... )
    >>> run = plan.start(np.zeros(1))
    >>> monitor = PrivacyMonitor(1e-5)
    >>> done = fit(run, np.zeros(1), lambda w, step: np.ones((10, 1)), optimizer=SGD(0.1), callbacks=[monitor])
    step 1 of 2: epsilon 0.3407 (pld), 0.3753 (rdp), 0.3753 (zcdp) at delta 1e-05
    step 2 of 2: epsilon 0.4970 (pld), 0.5458 (rdp), 0.5458 (zcdp) at delta 1e-05
    """

    def __init__(
        self,
        delta: Real,
        measures: Sequence[str] = ("pld", "rdp", "zcdp"),
        *,
        every: int = 1,
        verbose: bool = True,
    ) -> None:
        self.delta = _validate.delta(delta)
        if isinstance(measures, str) or not measures or not all(isinstance(name, str) for name in measures):
            raise InvalidParameter("measures must be names of accountants, such as ('pld', 'rdp')")
        for name in measures:
            accountant_maker(name, NeighboringRelation.ADD_OR_REMOVE_ONE)
        self.measures = tuple(sorted(dict.fromkeys(measures), key=lambda name: name != "pld"))
        self._every = _validate.count("every", every)
        self._verbose = _validate.truth("verbose", verbose)
        self.history: list[dict[str, float | None]] = []

    def _after(self, progress: Progress) -> None:
        """Show what was spent so far."""
        done, last = progress.num_steps, progress.run.plan.num_steps
        if done % self._every == 0 or done == last:
            self._show(progress)

    def _end(self, progress: Progress) -> None:
        """Show the last step, if it was not shown."""
        shown = self.history[-1]["step"] if self.history else 0
        if progress.num_steps != shown and progress.gradient is not None:
            self._show(progress)

    def _show(self, progress: Progress) -> None:
        spent = {name: self._epsilon(progress, name) for name in self.measures}
        self.history.append({"step": progress.num_steps, **spent})
        progress.values |= {f"epsilon_{name}": value for name, value in spent.items()}
        if self._verbose:
            shown = ", ".join(f"{_up(value)} ({name})" for name, value in spent.items())
            last = progress.run.plan.num_steps
            print(f"step {progress.num_steps} of {last}: epsilon {shown} at delta {self.delta:g}")

    def _epsilon(self, progress: Progress, measure: str) -> float | None:
        try:
            return progress.epsilon(self.delta, accountant=measure)
        except UnsupportedEventError:
            return None


class BudgetStop(Callback):
    """Stop before the step that would exceed (ε, δ): nothing is drawn or charged for it.

    Parameters
    ----------
    epsilon : float
        Finite, > 0. Rounded down if not exactly representable.
    delta : float
        In (0, 1). Rounded down if not exactly representable.
    accountant : str
        As for `PrivacyPlan.epsilon`.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    The last safe step is known before the training begins: `PrivacyPlan.max_steps`. What else was spent on the same
    data is not known here; a ledger counts that.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
    >>> from ferrodp.training import SGD, BudgetStop, fit
    >>> plan = PrivacyPlan(
    ...     population_size=10,
    ...     sampling=FullBatch(),
    ...     num_steps=100,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(10.0),
    ... )
    >>> run, stop = plan.start(np.zeros(1)), BudgetStop(epsilon=1.0, delta=1e-5)
    >>> done = fit(run, np.zeros(1), lambda w, step: np.ones((10, 1)), optimizer=SGD(0.1), callbacks=[stop])
    >>> done.num_steps, plan.max_steps(epsilon=1.0, delta=1e-5), done.stop_reason
    (7, 7, 'step 8 would exceed epsilon 1 at delta 1e-05')
    """

    def __init__(self, epsilon: Real, delta: Real, *, accountant: str = "pld") -> None:
        self.epsilon = _validate.positive("epsilon", epsilon, toward="down")
        self.delta = _validate.delta(delta)
        accountant_maker(accountant, NeighboringRelation.ADD_OR_REMOVE_ONE)
        self._accountant = accountant
        self._allowed = 0

    def _begin(self, progress: Progress) -> None:
        """Find the last safe step of the plan."""
        self._allowed = progress.run.plan.max_steps(epsilon=self.epsilon, delta=self.delta, accountant=self._accountant)

    def _before(self, progress: Progress) -> None:
        """Stop before the first step beyond it."""
        # mutant: budget-stop-after-the-step
        if progress.num_steps >= self._allowed:
            following = progress.num_steps + 1
            progress.stop(f"step {following} would exceed epsilon {self.epsilon:g} at delta {self.delta:g}")


def _up(epsilon: float | None) -> str:
    """Return ε with four digits after the point, rounded up."""
    if epsilon is None:
        return "-"
    if epsilon > 1e9:
        return f"{epsilon:g}"
    return str(Decimal(epsilon).quantize(Decimal("0.0001"), ROUND_CEILING))
