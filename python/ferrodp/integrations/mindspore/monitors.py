"""Privacy monitors under the names of the earlier toolkit: callbacks that report what the plan of a training costs."""

from __future__ import annotations

import abc
import math
from typing import TYPE_CHECKING, Any

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting import PrivacyAccountant, RdpAccountant, ZcdpAccountant
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.integrations.mindspore import _plans, _settings
from ferrodp.integrations.mindspore._settings import NOISE_DECAYS, DefaultName, DefaultNumber, is_stated
from ferrodp.integrations.mindspore.mechanisms import AdaClippingWithGaussianRandom, decaying
from ferrodp.plan import ConstantNoise, FullBatch, GivenOrder, PoissonSampling, PrivacyPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrodp.integrations.mindspore.model import DPModel

__all__ = ["PrivacyMonitorFactory", "RDPMonitor", "ZCDPMonitor"]

_MOST_EPOCHS = 10_000
_MOST_STEPS = 10**7
_MULTIPLIER, _MAX_EPS, _RATE = DefaultNumber(1.5), DefaultNumber(10.0), DefaultNumber(6e-4)
_MODE, _GIVEN_ORDER = DefaultName("Time"), DefaultName("given_order")


class Monitor(abc.ABC):
    """Base class of the monitors: all but the accountant."""

    def __init__(
        self,
        num_samples: int,
        batch_size: int,
        initial_noise_multiplier: Real,
        max_eps: Real | None,
        target_delta: Real | None,
        max_delta: Real | None,
        target_eps: Real | None,
        noise_decay_mode: str | None,
        noise_decay_rate: Real,
        per_print_times: int,
        dataset_sink_mode: bool,
        *,
        sampling: str,
        micro_batches: int | None,
        clip_mech: AdaClippingWithGaussianRandom | None,
    ) -> None:
        self._num_samples = _validate.count("num_samples", num_samples)
        self._batch_size = _validate.count("batch_size", batch_size)
        if self._batch_size > self._num_samples:
            raise _validate.out_of_domain("batch_size", f"at most num_samples = {num_samples}", batch_size)
        self._multiplier = initial_noise_multiplier
        _validate.positive("initial_noise_multiplier", initial_noise_multiplier)
        self._target_delta = None if target_delta is None else _validate.delta(target_delta, name="target_delta")
        self._target_eps = None if target_eps is None else _validate.non_negative("target_eps", target_eps)
        if (self._target_delta is None) == (self._target_eps is None):
            raise InvalidParameter(
                "exactly one of target_delta and target_eps must be given; target_delta has a default: set it to None "
                "where target_eps is given"
            )
        has_limit = max_eps is not None and (is_stated(max_eps) or self._target_delta is not None)
        self._max_eps = _validate.positive("max_eps", max_eps, toward="down") if has_limit else None
        self._max_delta = None if max_delta is None else _validate.delta(max_delta, name="max_delta")
        self._mode = noise_decay_mode
        if noise_decay_mode is not None:
            _settings.one_of("noise_decay_mode", noise_decay_mode, NOISE_DECAYS)
        self._rate = noise_decay_rate
        _settings.decay_rate(noise_decay_rate)
        self._interval = _validate.count("per_print_times", per_print_times)
        if not isinstance(dataset_sink_mode, bool):
            raise InvalidType(f"dataset_sink_mode must be a bool, got {type(dataset_sink_mode).__name__}")
        if dataset_sink_mode:
            self._interval = self._num_samples // self._batch_size
        self._sampling = sampling
        _settings.one_of("sampling", sampling, ("given_order", "poisson"))
        self._micro_batches = None if not micro_batches else _validate.count("micro_batches", micro_batches)
        self._clip_mech = clip_mech
        self._printed = 0

    @abc.abstractmethod
    def _accountant(self, relation: NeighboringRelation) -> PrivacyAccountant:
        """Return an empty accountant."""

    @abc.abstractmethod
    def _event(self, event: PrivacyEvent) -> PrivacyEvent:
        """Return an event in a form that the accountant bounds."""

    def cost(self, event: PrivacyEvent, neighboring_relation: NeighboringRelation) -> tuple[float, float]:
        """Return (ε, δ) of an event by this monitor's accountant, one of them being the target.

        Parameters
        ----------
        event : PrivacyEvent
            Such as `PrivacyPlan.event`.
        neighboring_relation : NeighboringRelation
            For which the event is stated.

        Returns
        -------
        tuple of float
            Upper bounds.

        Raises
        ------
        UnsupportedEventError
            If the accountant has no bound for the event.
        """
        accountant = self._accountant(neighboring_relation)
        accountant.compose(self._event(event))
        if self._target_eps is not None:
            return self._target_eps, accountant.delta(self._target_eps)
        assert self._target_delta is not None
        return accountant.epsilon(self._target_delta), self._target_delta

    def plan(self, epochs: int) -> PrivacyPlan:
        """Return the plan that the monitor's own parameters describe; a training has its own.

        Parameters
        ----------
        epochs : int
            At least 1.

        Returns
        -------
        PrivacyPlan
            Of `num_samples // batch_size` steps an epoch.

        Raises
        ------
        InvalidParameter, InvalidType
            If the parameters do not fit together.
        """
        batches = self._batches()
        rate = float(self._rate)
        return _plans.plan_of(
            batches,
            _plans.checked_epochs(epochs),
            schedule=decaying(_validate.positive("", self._multiplier), self._mode and str(self._mode), rate),
            norm_bound=1.0,
            clip_mech=self._clip_mech,
            micro_batches=self._groups(),
        )

    def _groups(self) -> int | None:
        """Return the number of groups; where it divides no batch, one of all: any group of several costs the same."""
        groups = self._micro_batches
        return groups if groups is None or self._batch_size % groups == 0 else 1

    def _batches(self) -> _plans.Batches:
        poisson = self._sampling == "poisson"
        return _plans.Batches(
            sampling=(
                _plans.poisson_or_full(self._batch_size, self._num_samples) if poisson else GivenOrder(self._batch_size)
            ),
            population_size=self._num_samples,
            batch_size=self._batch_size,
            steps_per_epoch=self._num_samples // self._batch_size,
            once_an_epoch=not poisson,
        )

    def max_epoch_suggest(self, model: DPModel | None = None, train_dataset: Any = None) -> int:
        """Return the last number of epochs whose cost keeps to `max_eps` and `max_delta`; one more does not.

        Changes nothing, and does not ask what was spent before.

        Parameters
        ----------
        model : DPModel, optional
            Whose training is asked about. By default the monitor's own parameters are: see `plan`.
        train_dataset : dataset, optional
            That of the training; needed with `model`.

        Returns
        -------
        int
            0 if not even one epoch keeps to them; at most 10⁴, and at most 10⁷ steps.

        Raises
        ------
        InvalidParameter, InvalidType
            If what limits the target's counterpart is missing, or the parameters do not fit together.
        """
        if self._target_eps is None and self._max_eps is None:
            raise InvalidParameter("max_eps must be given where target_delta is")
        if self._target_delta is None and self._max_delta is None:
            raise InvalidParameter("max_delta must be given where target_eps is")

        def is_safe(epochs: int) -> bool:
            plan = self.plan(epochs) if model is None else model.privacy_plan(epochs, train_dataset)
            epsilon, delta = self.cost(plan.event, plan.neighboring_relation)
            return epsilon <= (self._max_eps or math.inf) and delta <= (self._max_delta or 1.0)

        first = self.plan(1) if model is None else model.privacy_plan(1, train_dataset)
        most = min(_MOST_EPOCHS, _MOST_STEPS // first.num_steps)
        low, high = 0, 1
        guess = self._guess(first)
        if 0 < guess < most and is_safe(guess):
            low, high = guess, guess + 1
        while high <= most and is_safe(high):
            low, high = high, 2 * high if high == most else min(2 * high, most)
        high = min(high, most + 1)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if is_safe(middle) else (low, middle)
        # mutant: first-violating-epoch-suggested
        return low

    def _guess(self, first: PrivacyPlan) -> int:
        """Return a number of epochs near the last safe one, for plans whose steps all cost the same; else 0."""
        epsilon = self._max_eps if self._target_eps is None else self._target_eps
        delta = self._max_delta if self._target_delta is None else self._target_delta
        if (
            not epsilon
            or not delta
            or isinstance(first.sampling, GivenOrder)
            or not isinstance(first.noise, ConstantNoise)
        ):
            return 0
        step = self._event(first.event_after(1))
        accountant = self._accountant(first.neighboring_relation)
        return accountant.remaining_count(step, epsilon=epsilon, delta=delta) // first.num_steps

    # as a callback of DPModel.train

    def on_train_begin(self, run_context: Any) -> None:
        """Refuse a training that the monitor's stated parameters contradict.

        Parameters
        ----------
        run_context : RunContext
            Of `DPModel.train`.

        Raises
        ------
        InvalidParameter
            If a parameter was stated and is another one in the training, or the training is not private. Nothing was
            drawn or charged.
        """
        training = _plans.training_of(run_context)
        mechanism = training.mechanism
        self._agree("batch_size", self._batch_size, training.batches.batch_size)
        if isinstance(training.batches.sampling, (PoissonSampling, FullBatch)):
            self._agree("num_samples", self._num_samples, training.batches.population_size)
        if is_stated(self._multiplier):
            stated = _validate.positive("", self._multiplier)
            self._agree("initial_noise_multiplier", stated, mechanism.initial_noise_multiplier)
        if is_stated(self._mode):
            self._agree("noise_decay_mode", self._mode, mechanism.decay_policy)
        if is_stated(self._rate) and mechanism.is_adaptive:
            self._agree("noise_decay_rate", float(self._rate), mechanism.noise_decay_rate)
        self._printed = 0

    def _agree(self, name: str, stated: object, true: object) -> None:
        # mutant: monitor-contradicts-mechanism
        if stated != true:
            raise InvalidParameter(f"{name} of the monitor is {stated!r}, but {true!r} in the training it reports on")

    def on_train_step_end(self, run_context: Any) -> None:
        """Print what was spent, after every `per_print_times` steps.

        Parameters
        ----------
        run_context : RunContext
            Of `DPModel.train`.

        Raises
        ------
        InvalidParameter
            If the training is not private.
        """
        if run_context.original_args()["cur_step_num"] % self._interval == 0:
            self._report(run_context)

    def on_train_end(self, run_context: Any) -> None:
        """Print what was spent, unless the last step did.

        Parameters
        ----------
        run_context : RunContext
            Of `DPModel.train`.

        Raises
        ------
        InvalidParameter
            If the training is not private.
        """
        # mutant: last-window-of-a-monitor-not-counted
        if run_context.original_args()["cur_step_num"] != self._printed:
            self._report(run_context)

    def _report(self, run_context: Any) -> None:
        training, seen = _plans.training_of(run_context), run_context.original_args()
        epsilon, delta = self.cost(training.event, training.plan.neighboring_relation)
        within = (seen["cur_step_num"] - 1) % seen["batch_num"] + 1
        limits = [("max_eps", epsilon, self._max_eps), ("max_delta", delta, self._max_delta)]
        over = "".join(f", over {name} {most}" for name, found, most in limits if most is not None and found > most)
        print(f"epoch: {seen['cur_epoch_num']} step: {within}, delta is {delta}, eps is {epsilon}{over}", flush=True)
        self._printed = seen["cur_step_num"]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, num_samples={self._num_samples}, batch_size={self._batch_size}>"


class RDPMonitor(Monitor):
    """Report the cost of a training by its Rényi divergences.

    As a callback of `DPModel.train` it reads the plan that the training runs by, so the numbers it prints are those of
    the noise that is drawn: parameters that were not stated are ignored, and stated ones that contradict the training
    are refused before its first step. Before a training, `max_epoch_suggest` answers for the plan that the parameters
    describe.

    Parameters
    ----------
    num_samples : int
        Records of the dataset; ≥ 1.
    batch_size : int
        Records of a batch; from 1 to `num_samples`.
    initial_noise_multiplier : float
        Of the first step; finite, > 0.
    max_eps : float, optional
        ε that `max_epoch_suggest` keeps to.
    target_delta : float, optional
        δ at which ε is reported; in (0, 1).
    max_delta : float, optional
        δ that `max_epoch_suggest` keeps to.
    target_eps : float, optional
        ε at which δ is reported, instead of `target_delta`, which then has to be None.
    orders : sequence of float, optional
        Use these Rényi orders only, in any sequence; each > 1. By default the best order is searched for.
    noise_decay_mode : {"Time", "Step", "Exp", None}
        Rule of decay; None for constant noise.
    noise_decay_rate : float
        In [0, 1).
    per_print_times : int
        Steps between two reports; the last one comes at the end of the training, whatever the number of steps.
    dataset_sink_mode : bool
        Report once an epoch.
    sampling : {"given_order", "poisson"}
        What `max_epoch_suggest` assumes: a loader that gives each record once an epoch, which amplifies nothing, or
        Poisson samples, as of an `IndexedDataset`.
    micro_batches : int, optional
        As of `DPModel`; for `max_epoch_suggest`.
    clip_mech : AdaClippingWithGaussianRandom, optional
        As of `DPModel`; for `max_epoch_suggest`.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain, or not exactly one target is given.
    UnknownName
        If there is no such mode or sampling.

    Examples
    --------
    >>> from ferrodp.integrations.mindspore import PrivacyMonitorFactory
    >>> monitor = PrivacyMonitorFactory.create(
    ...     "rdp",
    ...     num_samples=60_000,
    ...     batch_size=256,
    ...     initial_noise_multiplier=1.0,
    ...     noise_decay_mode=None,
    ...     max_eps=2.0,
    ...     target_delta=1e-5,
    ...     sampling="poisson",
    ...     micro_batches=None,
    ... )
    >>> epochs = monitor.max_epoch_suggest()
    >>> plans = [monitor.plan(epochs), monitor.plan(epochs + 1)]
    >>> [monitor.cost(plan.event, plan.neighboring_relation)[0] <= 2.0 for plan in plans]
    [True, False]
    """

    def __init__(
        self,
        num_samples: int,
        batch_size: int,
        initial_noise_multiplier: Real = _MULTIPLIER,
        max_eps: Real | None = _MAX_EPS,
        target_delta: Real | None = 1e-3,
        max_delta: Real | None = None,
        target_eps: Real | None = None,
        orders: Sequence[float] | None = None,
        noise_decay_mode: str | None = _MODE,
        noise_decay_rate: Real = _RATE,
        per_print_times: int = 50,
        dataset_sink_mode: bool = False,
        *,
        sampling: str = _GIVEN_ORDER,
        micro_batches: int | None = 2,
        clip_mech: AdaClippingWithGaussianRandom | None = None,
    ) -> None:
        super().__init__(
            num_samples, batch_size, initial_noise_multiplier, max_eps, target_delta, max_delta, target_eps,
            noise_decay_mode, noise_decay_rate, per_print_times, dataset_sink_mode,
            sampling=sampling, micro_batches=micro_batches, clip_mech=clip_mech,
        )  # fmt: skip
        self._orders = None if orders is None else sorted({float(order) for order in orders})
        self._accountant(NeighboringRelation.ADD_OR_REMOVE_ONE)  # refuses orders that are no Rényi orders

    def _accountant(self, relation: NeighboringRelation) -> PrivacyAccountant:
        return RdpAccountant(self._orders, neighboring_relation=relation)

    def _event(self, event: PrivacyEvent) -> PrivacyEvent:
        return event


class ZCDPMonitor(Monitor):
    """Report the cost of a training by zero-concentrated differential privacy.

    As `RDPMonitor`, without orders and with δ as the target. Sampling reduces no ρ: Poisson samples are charged as if
    every record took part in every step, so `RDPMonitor` reports less for them.

    Parameters
    ----------
    num_samples, batch_size, initial_noise_multiplier, max_eps, target_delta, noise_decay_mode, noise_decay_rate
        As for `RDPMonitor`.
    per_print_times, dataset_sink_mode, sampling, micro_batches, clip_mech
        As for `RDPMonitor`.

    Raises
    ------
    InvalidParameter, InvalidType, UnknownName
        As for `RDPMonitor`.

    Examples
    --------
    >>> from ferrodp.integrations.mindspore import ZCDPMonitor
    >>> monitor = ZCDPMonitor(1000, 100, initial_noise_multiplier=8.0, noise_decay_mode=None, micro_batches=None)
    >>> monitor.max_epoch_suggest()
    333
    """

    def __init__(
        self,
        num_samples: int,
        batch_size: int,
        initial_noise_multiplier: Real = _MULTIPLIER,
        max_eps: Real | None = _MAX_EPS,
        target_delta: Real | None = 1e-3,
        noise_decay_mode: str | None = _MODE,
        noise_decay_rate: Real = _RATE,
        per_print_times: int = 50,
        dataset_sink_mode: bool = False,
        *,
        sampling: str = _GIVEN_ORDER,
        micro_batches: int | None = 2,
        clip_mech: AdaClippingWithGaussianRandom | None = None,
    ) -> None:
        super().__init__(
            num_samples, batch_size, initial_noise_multiplier, max_eps, target_delta, None, None,
            noise_decay_mode, noise_decay_rate, per_print_times, dataset_sink_mode,
            sampling=sampling, micro_batches=micro_batches, clip_mech=clip_mech,
        )  # fmt: skip

    def _accountant(self, relation: NeighboringRelation) -> PrivacyAccountant:
        return ZcdpAccountant(neighboring_relation=relation)

    def _event(self, event: PrivacyEvent) -> PrivacyEvent:
        return _plans.unsampled(event)


class PrivacyMonitorFactory:
    """Makes privacy monitors by name.

    Examples
    --------
    >>> from ferrodp.integrations.mindspore import PrivacyMonitorFactory
    >>> PrivacyMonitorFactory.create("zcdp", num_samples=1000, batch_size=100)
    <ZCDPMonitor, num_samples=1000, batch_size=100>
    """

    @staticmethod
    def create(policy: str, *args: Any, **kwargs: Any) -> RDPMonitor | ZCDPMonitor:
        """Return a monitor.

        Parameters
        ----------
        policy : {"rdp", "zcdp"}
            Which accountant reports.
        *args, **kwargs
            As for `RDPMonitor` or `ZCDPMonitor`.

        Returns
        -------
        RDPMonitor or ZCDPMonitor

        Raises
        ------
        UnknownName
            If there is no such monitor.
        InvalidParameter, InvalidType
            As for the classes.
        """
        monitors: dict[str, type[RDPMonitor | ZCDPMonitor]] = {"rdp": RDPMonitor, "zcdp": ZCDPMonitor}
        return monitors[_settings.one_of("policy", policy, monitors)](*args, **kwargs)
