"""The loop: plan, gradients, optimizer and callbacks together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ferrodp._base._validate import Real
from ferrodp.accounting.accountants.registry import AccountantChoice
from ferrodp.errors import InvalidType
from ferrodp.plan import PlanRun, PlanStep
from ferrodp.training.optimizers import Optimizer

__all__ = ["Callback", "Progress", "fit"]


class Progress:
    """Where a training stands: what callbacks are given.

    Attributes
    ----------
    run : PlanRun
        The run of the plan.
    parameters : tree of ndarrays
        After the last step.
    gradient : tree of ndarrays, or None
        What the last step released; None before the first one.
    stop_reason : str or None
        Why the training ended before the plan did: what a callback said, or the ledger.
    values : dict
        What callbacks recorded for the last step, by name; emptied before each step. Logs write it.

    Examples
    --------
    >>> from ferrodp.training import Callback
    >>> class HalfIsEnough(Callback):
    ...     def on_step_begin(self, progress):
    ...         if progress.epsilon(1e-5) > 0.5:
    ...             progress.stop("half an epsilon is enough")
    """

    def __init__(self, run: PlanRun[Any], parameters: Any) -> None:
        self.run, self.parameters = run, parameters
        self.gradient: Any = None
        self.stop_reason: str | None = None
        self.values: dict[str, float | None] = {}

    @property
    def num_steps(self) -> int:
        """How many steps of the plan are over: the number of the next one."""
        return self.run.step_number

    def epsilon(self, delta: Real, *, accountant: AccountantChoice = "pld") -> float:
        """Return an upper bound on the ε spent so far, as the plan states it; infinite if the source is seeded.

        Parameters
        ----------
        delta : float
            In (0, 1).
        accountant : str or callable
            As for `PrivacyPlan.epsilon`.

        Returns
        -------
        float
            ε ≥ 0.

        Raises
        ------
        InvalidParameter, InvalidType, UnsupportedEventError
            As for `PrivacyPlan.epsilon`.
        """
        return self.run.epsilon(delta, accountant=accountant)

    def stop(self, reason: str) -> None:
        """End the training before the next step.

        Parameters
        ----------
        reason : str
            Kept as `stop_reason`.

        Raises
        ------
        InvalidType
            If it is no str.
        """
        if not isinstance(reason, str):
            raise InvalidType(f"reason must be a str, got {type(reason).__name__}")
        self.stop_reason = self.stop_reason or reason


class Callback:
    """Base class of callbacks: override the methods that matter. Each is given the `Progress`, and does nothing here.

    Examples
    --------
    `fit` calls them; a loop of your own does so like this:

    >>> import numpy as np
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
    >>> from ferrodp.training import PrivacyMonitor, Progress
    >>> plan = PrivacyPlan(
    ...     population_size=10,
    ...     sampling=FullBatch(),
    ...     num_steps=2,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(10.0),
    ... )
    >>> model = np.zeros(1)
    >>> run, monitor = plan.start(model), PrivacyMonitor(1e-5, ("pld",), verbose=False)
    >>> progress = Progress(run, model)
    >>> monitor.on_train_begin(progress)
    >>> while not progress.stop_reason and run.step_number < plan.num_steps:
    ...     monitor.on_step_begin(progress)
    ...     step = next(run)
    ...     step.add(np.ones((10, 1)))
    ...     progress.gradient = step.release()
    ...     monitor.on_step_end(progress)
    >>> monitor.on_train_end(progress)
    >>> len(monitor.history)
    2
    """

    def on_train_begin(self, progress: Progress) -> None:
        """Run once, before the first step.

        Parameters
        ----------
        progress : Progress
            Where the training stands.

        Raises
        ------
        Exception
            Ends the training.
        """
        self._begin(progress)

    def on_step_begin(self, progress: Progress) -> None:
        """Run before each step, before anything is drawn or charged for it: here a training can be stopped in time.

        Parameters
        ----------
        progress : Progress
            Where the training stands.

        Raises
        ------
        Exception
            Ends the training.
        """
        self._before(progress)

    def on_step_end(self, progress: Progress) -> None:
        """Run after each step.

        Parameters
        ----------
        progress : Progress
            Where the training stands.

        Raises
        ------
        Exception
            Ends the training; the run can be resumed.
        """
        self._after(progress)

    def on_train_end(self, progress: Progress) -> None:
        """Run once, after the last step, also when an exception ends the training.

        Parameters
        ----------
        progress : Progress
            Where the training stands.

        Raises
        ------
        Exception
            Is the caller's.
        """
        self._end(progress)

    # what the callbacks of this package override

    def _begin(self, progress: Progress) -> None:
        pass

    def _before(self, progress: Progress) -> None:
        pass

    def _after(self, progress: Progress) -> None:
        pass

    def _end(self, progress: Progress) -> None:
        pass


def fit(
    run: PlanRun[Any],
    parameters: Any,
    gradients: Callable[[Any, PlanStep[Any]], Any],
    *,
    optimizer: Optimizer,
    callbacks: Sequence[Callback] = (),
) -> Progress:
    """Train: for each step of a run, add the gradients of those drawn, release their sum, and let the optimizer move.

    Parameters
    ----------
    run : PlanRun
        What `PrivacyPlan.start` returned, over a template like `parameters`. It may be resumed.
    parameters : tree of ndarrays
        Where to begin. Not changed.
    gradients : callable
        From the parameters and the step to the stacked gradients of the units in ``step.indices``: a tree like the
        parameters with one more axis in front, or an iterator of such trees, if they are too large for one. It may
        also add them to the step itself and return None.
    optimizer : Optimizer
        Moves the parameters. Post-processing: no choice of it changes the cost.
    callbacks : sequence of Callback
        Called in this order.

    Returns
    -------
    Progress
        With the parameters, and why the training ended.

    Raises
    ------
    InvalidType
        If the optimizer or a callback is not one. Nothing was drawn.
    FerroError
        As `PlanStep.add` and `PlanStep.release`. The run can be resumed.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling, PrivacyPlan
    >>> from ferrodp.training import SGD, BudgetStop, fit
    >>> points = np.ones((1000, 2))
    >>> plan = PrivacyPlan(
    ...     population_size=1000,
    ...     sampling=PoissonSampling(0.1),
    ...     num_steps=50,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(2.0),
    ... )
    >>> def toward_mean(center, step):
    ...     return center - points[step.indices]
    >>> stop = BudgetStop(epsilon=1.0, delta=1e-5)
    >>> done = fit(plan.start(np.zeros(2)), np.zeros(2), toward_mean, optimizer=SGD(0.5), callbacks=[stop])
    >>> done.num_steps, done.epsilon(1e-5) <= 1.0
    (16, True)
    """
    if not isinstance(run, PlanRun):
        raise InvalidType(f"run must be what plan.start(...) returned, got {type(run).__name__}")
    if not isinstance(optimizer, Optimizer):
        raise InvalidType(f"optimizer must be an Optimizer such as SGD(0.1), got {type(optimizer).__name__}")
    check_callbacks(callbacks)
    progress = Progress(run, parameters)

    def take(step: PlanStep[Any]) -> None:
        _add(step, gradients(progress.parameters, step))
        progress.gradient = step.release()
        progress.parameters = optimizer.step(progress.parameters, progress.gradient)

    drive(progress, take, callbacks)
    return progress


def drive(progress: Progress, take: Callable[[PlanStep[Any]], None], callbacks: Sequence[Callback]) -> None:
    """Take each step that the run and the callbacks allow; `take` has to release it."""
    try:
        for callback in callbacks:
            callback.on_train_begin(progress)
        for step in _steps(progress, callbacks):
            take(step)
            progress.values = {}
            for callback in callbacks:
                callback.on_step_end(progress)
    finally:
        for callback in callbacks:
            callback.on_train_end(progress)
    progress.stop_reason = progress.stop_reason or progress.run.stop_reason


def check_callbacks(callbacks: Sequence[Callback]) -> None:
    """Refuse what is no callback."""
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise InvalidType(f"callbacks must be instances of Callback, got {type(callback).__name__}")


def _steps(progress: Progress, callbacks: Sequence[Callback]) -> Iterator[PlanStep[Any]]:
    """Yield steps until the run ends; ask the callbacks before each, when nothing is charged for it yet."""
    while True:
        if progress.run.step_number < progress.run.plan.num_steps:
            for callback in callbacks:
                callback.on_step_begin(progress)
        # mutant: training-goes-on-after-a-callback-stopped-it
        step = None if progress.stop_reason else next(progress.run, None)
        if step is None:
            return
        yield step


def _add(step: PlanStep[Any], gradients: Any) -> None:
    if isinstance(gradients, Iterator):
        for chunk in gradients:
            step.add(chunk)
    elif gradients is not None:
        step.add(gradients)
