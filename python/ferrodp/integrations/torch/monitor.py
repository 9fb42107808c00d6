"""A callback that watches ε in Hugging Face's Trainer and in Lightning, and stops before a budget is exceeded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.errors import BudgetExceeded, InvalidType

__all__ = ["PrivacyMonitor"]


class PrivacyMonitor:
    """Records ε after each step, and ends the training before the step that would exceed a budget.

    A callback for ``transformers.Trainer(callbacks=[...])`` and for ``lightning.Trainer(callbacks=[...])``; both find
    the methods that they know by name, and neither is needed. It does not account by itself: it asks a run of a plan,
    or an accountant of `ferrodp.integrations.opacus`, what was released.

    Parameters
    ----------
    source : TorchRun, PlanRun or CertifiedAccountant
        What knows ε, so far and after one more step.
    delta : float
        In (0, 1).
    epsilon : float, optional
        The budget. The training ends while ε is still at most this. Without it, nothing is ended.
    every : int
        Ask for ε after every so many steps; whether the next step would exceed the budget is asked after each.
    report : callable, optional
        Called with the number of steps and ε whenever ε was requested; ``print`` is one.

    Attributes
    ----------
    history : list of (int, float)
        Numbers of steps, and ε after them.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is not accepted.

    Examples
    --------
    >>> from ferrodp.integrations.opacus import CertifiedAccountant
    >>> from ferrodp.integrations.torch import PrivacyMonitor
    >>> accountant = CertifiedAccountant()
    >>> monitor = PrivacyMonitor(accountant, delta=1e-5, epsilon=3.0)
    >>> while not monitor.must_stop():
    ...     accountant.step(noise_multiplier=1.5, sample_rate=0.25)
    ...     monitor.record()
    >>> monitor.history[-1][0], monitor.history[-1][1] <= 3.0, accountant.epsilon_after_next(1e-5) > 3.0
    (9, True, True)
    >>> monitor.num_steps, monitor.epsilon() == monitor.history[-1][1], monitor.state_dict()
    (9, True, {})

    What the frameworks call:

    >>> from types import SimpleNamespace
    >>> control, trainer = SimpleNamespace(should_training_stop=False), SimpleNamespace(should_stop=False)
    >>> monitor = PrivacyMonitor(accountant, delta=1e-5, epsilon=4.0)
    >>> monitor.on_train_begin()  # Hugging Face
    >>> monitor.on_train_start()  # Lightning
    >>> monitor.on_step_end(None, None, control).should_training_stop
    False
    >>> logs = {"loss": 0.5}
    >>> monitor.on_log(None, None, control, logs) is control, sorted(logs)
    (True, ['epsilon', 'loss'])
    >>> module = SimpleNamespace(log=lambda name, value, batch_size: None)
    >>> monitor.on_train_batch_end(trainer, module)
    >>> trainer.should_stop
    False
    """

    def __init__(
        self,
        source: Any,
        *,
        delta: Real,
        epsilon: Real | None = None,
        every: int = 1,
        report: Callable[[int, float], object] | None = None,
    ) -> None:
        if not (hasattr(source, "plan") or hasattr(source, "epsilon_after_next")):
            raise InvalidType(f"source must be a run of a plan or an accountant of Opacus, got {type(source).__name__}")
        if report is not None and not callable(report):
            raise InvalidType(f"report must be callable, got {type(report).__name__}")
        self._source, self._report = source, report
        self._delta = _validate.delta(delta)
        self._epsilon = None if epsilon is None else _validate.positive("epsilon", epsilon, toward="down")
        self._every = _validate.count("every", every)
        self.history: list[tuple[int, float]] = []
        # By which Lightning tells callbacks apart, in memory and in its checkpoints.
        self.state_key = self._legacy_state_key = f"{type(self).__qualname__}-{id(self)}"

    @property
    def num_steps(self) -> int:
        """How many steps were charged so far."""
        return int(self._source.step_number) if hasattr(self._source, "plan") else len(self._source)

    def epsilon(self) -> float:
        """Return ε so far.

        Returns
        -------
        float
            An upper bound; 0 before the first step.
        """
        if not self.num_steps:
            return 0.0
        if hasattr(self._source, "plan"):
            return float(self._source.epsilon(self._delta))
        return float(self._source.get_epsilon(self._delta))

    def must_stop(self) -> bool:
        """Return whether there is no further step, or it would exceed the budget.

        Returns
        -------
        bool
            False before the first step of an accountant, whose cost is not known yet.
        """
        source, done = self._source, self.num_steps
        if hasattr(source, "plan"):
            if done >= source.plan.num_steps or source.stopped is not None:
                return True
            return self._epsilon is not None and source.plan.epsilon_after(done + 1, self._delta) > self._epsilon
        return bool(done and self._epsilon is not None and source.epsilon_after_next(self._delta) > self._epsilon)

    def record(self) -> None:
        """Ask for ε, keep it in `history` and report it, if it is its turn."""
        done = self.num_steps
        if done and done % self._every == 0 and (not self.history or self.history[-1][0] != done):
            self.history.append((done, self.epsilon()))
            if self._report is not None:
                self._report(*self.history[-1])

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Refuse a training whose first step would exceed the budget. Called by both frameworks.

        Raises
        ------
        BudgetExceeded
            Before anything was drawn.
        """
        if self.must_stop():
            raise BudgetExceeded("the next step would exceed the epsilon of the monitor, or the plan has none left")

    on_train_start = on_train_begin

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Record, and ask Hugging Face's trainer to stop where the next step must not happen.

        Parameters
        ----------
        args, state, control
            As Hugging Face's trainer gives them; ``control.should_training_stop`` is set.

        Returns
        -------
        object
            `control`.

        Raises
        ------
        InvalidParameter, UnsupportedEventError
            If what was released cannot be accounted for.
        """
        self.record()
        if self.must_stop():
            control.should_training_stop = True
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> Any:
        """Add ``epsilon`` to what Hugging Face's trainer logs.

        Parameters
        ----------
        args, state, control, logs
            As Hugging Face's trainer gives them.

        Returns
        -------
        object
            `control`.

        Raises
        ------
        TypeError
            If `logs` takes no key.
        """
        if logs is not None and self.history:
            logs["epsilon"] = self.history[-1][1]
        return control

    def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
        """Record, log ``epsilon``, and ask Lightning's trainer to stop where the next step must not happen.

        Parameters
        ----------
        trainer, module
            As Lightning gives them; ``trainer.should_stop`` is set.

        Raises
        ------
        InvalidParameter, UnsupportedEventError
            If what was released cannot be accounted for.
        """
        self.record()
        if self.history:
            module.log("epsilon", self.history[-1][1], batch_size=1)
        if self.must_stop():
            trainer.should_stop = True

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: what was spent is in the run's or the accountant's own state. Called by Lightning."""
        return {}

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Return, for the hooks of both frameworks that are not used here, a function that does nothing."""
        if name.startswith("on_") or name in ("setup", "teardown", "load_state_dict"):
            return _do_nothing
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _do_nothing(*_: Any, **__: Any) -> None:
    return None
