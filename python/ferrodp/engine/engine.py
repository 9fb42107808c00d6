"""The engine: clip, sum, noise and account from one configuration, and refuse when the budget is spent."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NoReturn, TypeAlias, TypedDict, TypeVar, Unpack, overload

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._trees import Shape
from ferrodp._base._validate import Real
from ferrodp._numerics.rounding import product_up
from ferrodp.audit import AuditReport, audit_callable
from ferrodp.clipping import Order, clip_by_global_norm
from ferrodp.engine import _accounts, _gradients, _sums
from ferrodp.engine._counter import RoundCounter
from ferrodp.engine._gradients import tree
from ferrodp.engine._step import Step, step_of
from ferrodp.engine.records import CertifiedReport, DPConfig, NoiseMechanism, PrivacyBudget, config_of, member
from ferrodp.engine.sampling import Sampling, poisson_sample, uniform_sample
from ferrodp.errors import BudgetExceeded, InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.plan import ConstantNoise, FlatClipping, PrivacyPlan
from ferrodp.random.samples import Indices
from ferrodp.tickets import Ticket, TicketLedger, TicketState

__all__ = ["DifferentialPrivacyEngine"]

Updates: TypeAlias = "Iterable[Mapping[str, Any]] | Mapping[str, Any]"
Doubles: TypeAlias = npt.NDArray[np.float64]
Arrays = TypeVar("Arrays")
"""An array, or a tree of arrays: what a name stands for in a model."""


class RoundOptions(TypedDict, total=False):
    """Keywords of a round, besides the template."""

    denominator: Real | None
    key: str | None
    cast: npt.DTypeLike | None
    skip: Collection[str]


class RunOptions(TypedDict, total=False):
    """Keywords of a run of rounds, besides the template."""

    num_rounds: int | None
    denominator: Real | None
    cast: npt.DTypeLike | None
    skip: Collection[str]


class DifferentialPrivacyEngine:
    r"""Run the rounds of a training under one configuration, and not one more than its budget allows.

    A round clips every contribution to C, sums them exactly, and releases the sum once, with noise of z·C. The unit of
    privacy is a *contribution*: a client's update, or the gradient of a record. All rounds together are
    (`target_epsilon`, `target_delta`)-private against an adversary who sees all noised sums but not who was sampled;
    the round that would exceed that is refused before anything is added or drawn. As the configuration never changes,
    the cost of a round does not depend on earlier results, and composition is adaptive in the data alone: clients may
    train on what earlier rounds released.

    Parameters
    ----------
    config : DPConfig, optional
        By default `DPConfig()`.
    sampling : Sampling
        How clients are drawn (the member, or its value): "poisson", where neighboring datasets differ by one client
        added or removed, or "uniform", a fixed number without replacement, where one client is replaced: sums are then
        2C apart, which the cost includes.
    population_size : int, optional
        Number of clients there are; a public number. Needed for "uniform" and for `sample`. A uniform sample has
        `sampling_rate` times as many, rounded to the nearest number, at least one; that number is what is accounted.
    ledger : PrivacyLedger, optional
        Limits rounds instead of a counter in memory: every round is reserved there and spent at its first random bit,
        so the budget of the ledger holds across processes and crashes. The targets of the configuration do not limit
        rounds then.
    scope : str, optional
        The scope of the ledger that rounds are charged to.

    Raises
    ------
    UnsupportedEventError
        If the configured accounting has no bound for such rounds, and the message says which methods do; or if the
        ledger has none.
    InvalidParameter, InvalidType
        If a parameter is not accepted, or only one of `ledger` and `scope` is given.
    LedgerError
        If the ledger cannot be read.

    Notes
    -----
    The engine may be shared by threads of one process. It cannot be copied or pickled, and is refused in a forked
    child: the copy would have a budget of its own. To share a budget among processes, use a ledger.

    ======================  =========================================  =================================================
    mechanism               what is clipped and noised                 accounting
    ======================  =========================================  =================================================
    gaussian                L2; exactly rounded Gaussian noise         all methods; "zcdp" without sampling only
    laplace                 L1; exactly rounded Laplace noise          all methods; "zcdp" without sampling only
    discrete_gaussian       L2, as integers on a grid; noise on ℤ      all methods; "zcdp" without sampling only
    ======================  =========================================  =================================================

    Examples
    --------
    >>> import numpy as np
    >>> engine = DifferentialPrivacyEngine(DPConfig(noise_multiplier=1.0, sampling_rate=0.5), population_size=20)
    >>> model = {"w": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.float32)}
    >>> def train(clients):  # what each sampled client sends
    ...     return [{"w": np.ones((2, 3), np.float32), "b": np.zeros(3, np.float32)} for _ in clients]
    >>> for noised in engine.run_rounds(train, template=model, num_rounds=2, denominator=10):
    ...     model = {name: model[name] + noised[name] for name in model}
    >>> engine.budget.rounds_consumed, engine.budget.consumed_epsilon < 8.0
    (2, True)
    """

    __slots__ = ("_config", "_counter", "_ledger", "_population_size", "_sampling", "_scope", "_step")

    def __init__(
        self,
        config: DPConfig | None = None,
        *,
        sampling: Sampling = Sampling.POISSON,
        population_size: int | None = None,
        ledger: TicketLedger | None = None,
        scope: str | None = None,
    ) -> None:
        self._config = config_of(DPConfig() if config is None else config)
        self._sampling = member(Sampling, "sampling", sampling)
        if population_size is not None:
            population_size = _validate.count("population_size", population_size)
        self._population_size = population_size
        self._step = step_of(self._config, self._sampling, population_size)
        _validate.ledger_and_scope(ledger, scope)
        self._ledger, self._scope = ledger, scope
        _accounts.check(self._step)
        target = f"epsilon={self._config.target_epsilon!r} at delta={self._config.target_delta!r}"
        self._counter = RoundCounter(functools.partial(_accounts.largest_count, self._step), target)
        # mutant: what-ledger-cannot-bound-found-out-in-first
        if ledger is not None and scope is not None:
            ledger.remaining_count(scope, self.event)  # refuses an unknown scope, and rounds it has no measure for

    @property
    def config(self) -> DPConfig:
        """Noise, clipping, sampling and accounting."""
        return self._config

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """Which datasets the guarantee tells apart."""
        return self._step.relation

    @property
    def sample_size(self) -> int | None:
        """Number of clients in a round, of a uniform sample; None for Poisson sampling, where it is random."""
        return self._step.sample_size

    @property
    def event(self) -> PrivacyEvent:
        """What one round costs, for accountants and ledgers; for discrete noise in any number of coordinates."""
        return self._step.event

    @property
    def budget(self) -> PrivacyBudget:
        """The targets, and what the rounds run so far consume of them, by the configured accounting.

        With a ledger it is the budget of its scope, and what all charges to that consume, those of earlier processes
        and of others too; its rounds are the releases that are charged and not cancelled.

        A guarantee for a number of rounds fixed in advance. If the results decide when training stops, only the targets
        are guaranteed: they hold whenever it stops. With a ledger, `PrivacyLedger.odometer` bounds the loss at any
        time.
        """
        read = getattr(self._ledger, "report", None)  # other ledgers need not have one
        if read is not None and self._scope is not None:
            report = read(self._scope)
            # mutant: budget-after-a-resume-says-nothing-was-spent
            return PrivacyBudget(
                epsilon=report.epsilon,
                delta=report.delta,
                consumed_epsilon=report.epsilon_charged,
                consumed_delta=report.delta_charged,
                rounds_consumed=report.held + report.armed + report.spent,
            )
        rounds = self._counter.spent
        return PrivacyBudget(
            epsilon=self._config.target_epsilon,
            delta=self._config.target_delta,
            consumed_epsilon=_accounts.epsilon(self._step, rounds),
            consumed_delta=self._config.target_delta if rounds else 0.0,
            rounds_consumed=rounds,
        )

    @property
    def remaining_rounds(self) -> int:
        """How many more rounds are allowed; with a ledger, unless others draw on it."""
        if self._ledger is not None and self._scope is not None:
            return self._ledger.remaining_count(self._scope, self.event)
        return self._counter.remaining

    def plan(self, num_rounds: int) -> PrivacyPlan:
        """Return so many rounds of this engine as a plan: the same samples, clipping, noise and cost.

        Parameters
        ----------
        num_rounds : int
            From 1.

        Returns
        -------
        PrivacyPlan
            Of clients, under this engine's neighboring relation. Its cost is what `AccountingMethod.PLD` says here.

        Raises
        ------
        InvalidParameter, InvalidType
            If the noise is not Gaussian, or `num_rounds` is out of its domain.

        Examples
        --------
        >>> engine = DifferentialPrivacyEngine(DPConfig(accounting="pld"), population_size=6000)
        >>> engine.plan(100).epsilon(1e-5) == engine.compute_privacy_spent(engine.config, 100).epsilon_spent
        True
        """
        if self._config.mechanism is not NoiseMechanism.GAUSSIAN:
            raise InvalidParameter(f"mechanism must be gaussian for a plan, got {self._config.mechanism.value}")
        _validate.count("num_rounds", num_rounds)
        return PrivacyPlan(
            unit="client",
            population_size=self._population_size,
            sampling=self._step.sampling,
            num_steps=num_rounds,
            clipping=FlatClipping(self._config.max_grad_norm),
            noise=ConstantNoise(self._config.noise_multiplier),
            neighboring_relation=self._step.relation,
        )

    def sample(self) -> Indices:
        """Draw the clients of a round from cryptographic bits, exactly as accounted.

        Returns
        -------
        (m,) ndarray of int64
            Indices below `population_size`, in increasing order. *Secret:* amplification holds against those who do not
            know who was sampled.

        Raises
        ------
        InvalidParameter
            If the engine was not told the `population_size`.

        Examples
        --------
        >>> engine = DifferentialPrivacyEngine(DPConfig(sampling_rate=0.3), sampling="uniform", population_size=20)
        >>> len(engine.sample())
        6
        """
        if self._population_size is None:
            raise InvalidParameter("population_size must be given to the engine before it can draw samples")
        if self._step.sample_size is None:
            return poisson_sample(self._population_size, self._config.sampling_rate)
        return uniform_sample(self._population_size, self._step.sample_size)

    @overload
    def round(
        self, updates: Updates, *, template: Mapping[str, Shape], **options: Unpack[RoundOptions]
    ) -> dict[str, Doubles]: ...
    @overload
    def round(
        self, updates: Updates, *, template: Mapping[str, Arrays], **options: Unpack[RoundOptions]
    ) -> dict[str, Arrays]: ...
    @overload
    def round(
        self, updates: Iterable[object], *, template: list[Arrays], **options: Unpack[RoundOptions]
    ) -> list[Arrays]: ...
    @overload
    def round(
        self, updates: Iterable[object], *, template: tuple[Arrays, ...], **options: Unpack[RoundOptions]
    ) -> tuple[Arrays, ...]: ...
    def round(
        self,
        updates: Any,
        *,
        template: Any,
        denominator: Real | None = None,
        key: str | None = None,
        cast: npt.DTypeLike | None = None,
        skip: Collection[str] = (),
    ) -> Any:
        """Return the noised sum of the updates of one round, for publication.

        The round is reserved first, before `updates` is looked at; it is spent at the first random bit, and given back
        if an exception comes before that.

        Parameters
        ----------
        updates : iterable of trees of ndarrays, or one dict of stacked ndarrays
            What the sampled clients sent, each like the template, possibly none; an iterator is consumed one by one.
            A dict holds them all, with one more axis in front, such as per-sample gradients. Never written to. Each is
            clipped to `max_grad_norm`; one that holds NaN or infinity counts as zeros.
        template : dict, list or tuple of ndarrays
            What an update looks like, such as the model: structure, shapes and dtype are used. Shapes may stand for
            arrays of float64.
        denominator : float, optional
            Divides the result: a *public* number, such as the expected number of clients, for a mean.
        key : str, optional
            Name of the round in the ledger: a round that is repeated under its key is neither charged nor released
            twice.
        cast : dtype, optional
            float32 or float64: what arrays of different float types are cast to before they are clipped together. The
            result has the types of the template.
        skip : collection of str
            Keys that are no part of the update, such as integer counters: whole keys, or what follows their last dot.

        Returns
        -------
        dict, list or tuple of ndarrays
            Like the template, without the keys that are skipped.

        Raises
        ------
        BudgetExceeded
            If the round would exceed the budget. Nothing was added, drawn or charged.
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
            If an argument is not accepted. Nothing was drawn; the round is given back.
        EntropyError
            If the operating system gives no key; the round is spent.

        Notes
        -----
        The caller promises that `updates` come from clients who were drawn as configured; `sample` draws them. Batches
        cut from a shuffled dataset are another law of sampling: account for them without sampling.

        Examples
        --------
        >>> import numpy as np
        >>> engine = DifferentialPrivacyEngine(DPConfig(sampling_rate=0.5), population_size=8)
        >>> updates = [{"w": np.ones(3)} for _ in engine.sample()]
        >>> engine.round(updates, template={"w": (3,)}, denominator=4)["w"].shape
        (3,)

        Updates as frameworks send them: lists of arrays, mixed types, counters.

        >>> model = [np.zeros((2, 3), np.float16), np.zeros(3, np.float32)]
        >>> noised = engine.round([[array + 1 for array in model]], template=model, cast=np.float32)
        >>> [array.dtype.name for array in noised]
        ['float16', 'float32']
        >>> model = {"norm.weight": np.zeros(3), "norm.num_batches_tracked": np.array(7)}
        >>> list(engine.round([model], template=model, skip=("num_batches_tracked",)))
        ['norm.weight']
        """
        total = _sums.sum_for(self._step, tree("template", template), cast, skip)
        divisor = None if denominator is None else _validate.positive("denominator", denominator)
        return self._run(total, lambda: updates, divisor, key)

    @overload
    def run_rounds(
        self, train: Callable[[Indices], Updates], *, template: Mapping[str, Shape], **options: Unpack[RunOptions]
    ) -> Iterator[dict[str, Doubles]]: ...
    @overload
    def run_rounds(
        self, train: Callable[[Indices], Updates], *, template: Mapping[str, Arrays], **options: Unpack[RunOptions]
    ) -> Iterator[dict[str, Arrays]]: ...
    @overload
    def run_rounds(
        self,
        train: Callable[[Indices], Iterable[object]],
        *,
        template: list[Arrays] | tuple[Arrays, ...],
        **options: Unpack[RunOptions],
    ) -> Iterator[list[Arrays] | tuple[Arrays, ...]]: ...
    def run_rounds(
        self,
        train: Callable[[Indices], Any],
        *,
        template: Any,
        num_rounds: int | None = None,
        denominator: Real | None = None,
        cast: npt.DTypeLike | None = None,
        skip: Collection[str] = (),
    ) -> Iterator[Any]:
        """Run rounds one after the other: draw clients, have them trained, and yield the noised sum of their updates.

        Parameters
        ----------
        train : callable
            From the indices of the sampled clients to their updates, as `round` takes them. Called once a round, after
            the round was reserved and the result of the one before was used.
        template, denominator, cast, skip
            As for `round`.
        num_rounds : int, optional
            How many; by default as many as the budget allows, exactly.

        Yields
        ------
        dict, list or tuple of ndarrays
            As `round` returns them.

        Raises
        ------
        BudgetExceeded
            If the budget does not allow `num_rounds`, at the call, before the first of them; with a ledger on which
            others draw, also before any later one.
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError, EntropyError
            As for `round`.
        """
        if not callable(train):
            raise InvalidType(f"train must be a function, got {type(train).__name__}")
        if self._population_size is None:
            raise InvalidParameter("population_size must be given to the engine before it can draw samples")
        _sums.sum_for(self._step, tree("template", template), cast, skip)
        divisor = None if denominator is None else _validate.positive("denominator", denominator)
        if num_rounds is not None:
            num_rounds = _validate.count("num_rounds", num_rounds, minimum=0)
            left = self.remaining_rounds
            # mutant: run-begins-that-budget-does-not-allow
            if num_rounds > left:
                raise BudgetExceeded(f"num_rounds must be at most {left}, what the budget allows, got {num_rounds}")
        return self._rounds(train, (template, cast, skip), num_rounds, divisor)

    def clip_gradients(self, gradients: Mapping[str, Arrays], max_norm: Real) -> tuple[dict[str, Arrays], float]:
        """Return the gradients, as one vector scaled to an L2 norm of at most `max_norm`, and the norm they had.

        Parameters
        ----------
        gradients : dict of ndarrays
            All float32 or all float64. Never written to.
        max_norm : float
            The bound, which holds in exact arithmetic; finite, > 0.

        Returns
        -------
        clipped : dict of ndarrays
            New arrays of the same shapes.
        norm : float
            Before clipping. *Not private.*

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            As for `ferrodp.clip_by_global_norm`.

        Examples
        --------
        >>> import numpy as np
        >>> DifferentialPrivacyEngine().clip_gradients({"w": np.array([3.0, 4.0])}, 10.0)
        ({'w': array([3., 4.])}, 5.0)
        """
        clipped, norm = clip_by_global_norm(tree("gradients", gradients), clip_norm=max_norm)
        return clipped, norm

    def per_sample_clip(
        self, gradients: Mapping[str, Arrays], max_norm: Real, *, ord: Order | float = 2
    ) -> tuple[dict[str, Arrays], Doubles]:
        """Clip the gradient of every sample by itself, all its arrays together as one vector.

        Parameters
        ----------
        gradients : dict of ndarrays
            All float32 or all float64, with one more axis in front than the model: entry i of each array belongs to
            sample i. Never written to.
        max_norm : float
            The bound on each norm; finite, > 0.
        ord : {1, 2, inf}
            Which norm; Laplace noise needs 1, Gaussian noise 2.

        Returns
        -------
        clipped : dict of ndarrays
            New arrays of the same shapes.
        norms : (n,) float64 ndarray
            Of each sample before clipping. *Not private.*

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            If an argument is not accepted.

        Notes
        -----
        For a sum of clipped gradients pass them to `round` unclipped: it clips, truncates to a grid and sums in one
        pass, without a second copy, and its sensitivity is exact, unlike that of a sum of floats.

        Examples
        --------
        >>> import numpy as np
        >>> engine = DifferentialPrivacyEngine()
        >>> clipped, norms = engine.per_sample_clip({"w": np.array([[3.0, 4.0], [0.3, 0.4]])}, 1.0)
        >>> norms
        array([5. , 0.5])
        """
        clipped, norms = _gradients.clipped_samples(gradients, max_norm, ord)
        return clipped, norms

    def add_noise(
        self, gradients: Mapping[str, Arrays], config: DPConfig, *, ticket: Ticket | None = None
    ) -> dict[str, Arrays]:
        """Return the gradients with exactly sampled noise of standard deviation (Laplace: scale) z·C everywhere.

        All arrays are one vector. The caller promises that those of neighbors are within C = `max_grad_norm` of each
        other, in the norm of the noise: clipping ensures it for one contribution, `round` for a sum. Noise alone is
        charged to no budget, unless a ticket pays for it; `round` charges by itself.

        Parameters
        ----------
        gradients : dict of ndarrays
            All float32 or all float64. Never written to.
        config : DPConfig
            `mechanism`, `noise_multiplier` and `max_grad_norm` are used.
        ticket : Ticket, optional
            What pays for the release.

        Returns
        -------
        dict of ndarrays
            New arrays of the same shapes and dtype.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            If an argument is not accepted. Nothing was drawn.

        Notes
        -----
        Discrete Gaussian noise needs integers: values are truncated toward zero to multiples of g, C·2⁻³⁰ < g ≤ C·2⁻²⁹.
        That can move neighbors apart by √d·g in d coordinates, so the noise is z·(C + √d·g), at the same cost.
        Coordinates that are not finite count as 0.

        Examples
        --------
        >>> import numpy as np
        >>> noised = DifferentialPrivacyEngine().add_noise({"w": np.zeros(3, np.float32)}, DPConfig())
        >>> noised["w"].dtype
        dtype('float32')
        """
        noised: dict[str, Arrays] = _gradients.noised(gradients, config, ticket)
        return noised

    def audit(self, draws: int, config: DPConfig | None = None, *, delta: Real | None = None) -> AuditReport:
        """Test statistically whether `add_noise` keeps the (ε, δ) of its noise: hypothesis tests on its own draws.

        A value is released on neighbors that are `max_grad_norm` apart. The event that shows most is chosen on a part
        of the draws and counted on the others; bounds on ε are exact for binomial counts. Nothing is charged: the
        neighbors are 0 and `max_grad_norm`, and nobody's data is touched.

        Parameters
        ----------
        draws : int
            Of each neighbor; at least 100.
        config : DPConfig, optional
            What is tested; by default that of the engine.
        delta : float, optional
            δ of the claim; by default `target_delta`.

        Returns
        -------
        AuditReport
            Of the claim that one call of `add_noise` has the ε of its noise at δ.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is outside its domain.

        Examples
        --------
        >>> report = DifferentialPrivacyEngine().audit(20_000)
        >>> report.violation, 0.0 < report.epsilon_lower_bound < 1.3 * report.epsilon
        (False, True)
        """
        checked = self._config if config is None else config_of(config)
        failure = checked.target_delta if delta is None else _validate.delta(delta)
        distance = checked.max_grad_norm

        def release_many(value: float, count: int) -> npt.NDArray[np.float64]:
            noised: npt.NDArray[np.float64] = self.add_noise({"value": np.full(count, value)}, checked)["value"]
            return noised

        report = audit_callable(
            lambda value: release_many(value, 1)[0],
            neighbors=(0.0, distance),
            epsilon=_sums.epsilon_of_noise(checked, failure),
            delta=failure,
            draws=draws,
            release_many=release_many,
        )
        return dataclasses.replace(report, claim=f"add_noise with {checked.mechanism.value} noise")

    def compute_privacy_spent(self, config: DPConfig, num_steps: int) -> CertifiedReport:
        """Return the cost of a number of rounds of a configuration, under the sampling of this engine.

        Parameters
        ----------
        config : DPConfig
            What is accounted, and how.
        num_steps : int
            Number of rounds, from 0.

        Returns
        -------
        CertifiedReport
            A `PrivacyReport` with the certified bound beside the configured one: ε at the target δ as an upper bound,
            and how many more rounds stay within the target.

        Raises
        ------
        UnsupportedEventError
            If the configured accounting has no bound for such rounds; the message says which methods do.

        Notes
        -----
        ==========  ==============================================================================================
        moments     `MomentsAccountant`: Abadi et al., "Deep learning with differential privacy", CCS 2016, Theorem 2
        renyi       `RdpAccountant` at exactly `renyi_orders`: Mironov, "Rényi differential privacy", CSF 2017;
                    conversion of Balle et al. 2020, Theorem 21
        basic       each round has the ε that its own curve gives for δ/n: Dwork et al., EUROCRYPT 2006, Theorem 1
        advanced    a part of δ is divided among the rounds, the rest is the δ′ of Kairouz, Oh, Viswanath, ICML 2015,
                    Theorem 3.5
        optimal     likewise, composed by their Theorem 3.3; by Theorem 3.5 beyond 10⁹ rounds
        pld         `PldAccountant`: the privacy loss itself, on a certified grid or contour
        zcdp        `ZcdpAccountant`: ρ adds up (Bun, Steinke, TCC 2016); without sampling only
        ==========  ==============================================================================================

        Examples
        --------
        >>> engine = DifferentialPrivacyEngine()
        >>> report = engine.compute_privacy_spent(DPConfig(), 1000)
        >>> round(report.epsilon_spent, 4), report.estimated_rounds_left
        (1.7256, 15895)
        >>> round(report.certified_epsilon, 4), report.certified_rounds_left
        (1.5154, 20078)
        """
        checked = config_of(config)
        steps = _validate.count("num_steps", num_steps, minimum=0)
        step = self._step_of(checked)
        spent = _accounts.epsilon(step, steps)
        certified = _accounts.certified(step, steps)
        return CertifiedReport(
            epsilon_spent=spent,
            delta_spent=checked.target_delta if steps else 0.0,
            noise_scale=product_up(checked.noise_multiplier, checked.max_grad_norm),
            num_compositions=steps,
            budget_remaining=_left(checked.target_epsilon, spent),
            estimated_rounds_left=max(_accounts.largest_count(step) - steps, 0),
            accounting_method=checked.accounting,
            certified_epsilon=None if certified is None else certified[0],
            certified_rounds_left=None if certified is None else max(certified[1] - steps, 0),
        )

    def get_noise_multiplier(
        self, target_epsilon: Real, target_delta: Real, sampling_rate: Real, num_steps: int
    ) -> float:
        """Return the least noise multiplier for which a number of rounds keeps the target, rounded up.

        It is proven to be enough by the accounting of this engine: an engine with that multiplier and these targets
        allows `num_steps` rounds. With `AccountingMethod.PLD` it is the least that can be proven by any of them.

        Parameters
        ----------
        target_epsilon : float
            Finite, > 0.
        target_delta : float
            In (0, 1).
        sampling_rate : float
            In (0, 1].
        num_steps : int
            Number of rounds, from 1.

        Returns
        -------
        float
            The noise multiplier.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.
        UnsupportedEventError
            If the configured accounting has no bound for such rounds.
        CalibrationError
            If no multiplier up to 10⁶ is proven to be enough, as may happen with few Rényi orders.

        Examples
        --------
        >>> engine = DifferentialPrivacyEngine(DPConfig(accounting="pld"))
        >>> round(engine.get_noise_multiplier(8, 1e-5, 0.01, 1000), 4)
        0.5863
        """
        config = DPConfig(
            mechanism=self._config.mechanism,
            accounting=self._config.accounting,
            target_epsilon=target_epsilon,  # type: ignore[arg-type]  # a Real, made a float there
            target_delta=target_delta,  # type: ignore[arg-type]
            sampling_rate=sampling_rate,  # type: ignore[arg-type]
            renyi_orders=self._config.renyi_orders,
        )
        steps = _validate.count("num_steps", num_steps)
        return _accounts.noise_multiplier(self._step_of(config), steps)

    def check_budget(self, budget: PrivacyBudget) -> bool:
        """Return whether what was consumed is within the budget: neither ε nor δ is larger than allowed.

        Parameters
        ----------
        budget : PrivacyBudget
            Such as `DifferentialPrivacyEngine.budget`.

        Returns
        -------
        bool
            False if either is exceeded.

        Raises
        ------
        InvalidType
            If it is no `PrivacyBudget`.

        Examples
        --------
        >>> engine = DifferentialPrivacyEngine()
        >>> engine.check_budget(engine.budget)
        True
        """
        if not isinstance(budget, PrivacyBudget):
            raise InvalidType(f"budget must be a PrivacyBudget, got {type(budget).__name__}")
        # mutant: budget-may-exceeded-in-delta
        return budget.consumed_epsilon <= budget.epsilon and budget.consumed_delta <= budget.delta

    def renyi_divergence(self, alpha: Real, sigma: Real) -> float:
        """Return α/2σ², the Rényi divergence of order α of Gaussian noise of σ sensitivities, rounded up.

        Parameters
        ----------
        alpha : float
            α; finite, ≥ 1.
        sigma : float
            σ, the standard deviation of the noise divided by its sensitivity; finite, > 0.

        Returns
        -------
        float
            The divergence of [Mir17] Proposition 7.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.

        References
        ----------
        [Mir17] Mironov, "Rényi differential privacy", CSF 2017, Proposition 7.

        Examples
        --------
        >>> DifferentialPrivacyEngine().renyi_divergence(2, 1)
        1.0
        """
        order, deviation = _validate.exact("alpha", alpha), _validate.exact("sigma", sigma)
        if order < 1:
            raise _validate.out_of_domain("alpha", "finite and >= 1", alpha)
        if deviation <= 0:
            raise _validate.out_of_domain("sigma", "finite and > 0", sigma)
        return _validate.rounded(order / (2 * deviation**2), "up")

    def _step_of(self, config: DPConfig) -> Step:
        return step_of(config, self._sampling, self._population_size)

    def _rounds(
        self, train: Callable[[Indices], Updates], of: tuple[Any, ...], num_rounds: int | None, divisor: float | None
    ) -> Iterator[Any]:
        done = 0
        while self.remaining_rounds if num_rounds is None else done < num_rounds:
            total = _sums.sum_for(self._step, *of)
            yield self._run(total, lambda: train(self.sample()), divisor, None)
            done += 1

    def _run(
        self, total: _sums.RoundSum, updates: Callable[[], Updates], divisor: float | None, key: str | None
    ) -> Any:
        """Reserve, then add, then release; what fails before the first random bit gives the round back."""
        # mutant: updates-looked-at-before-round-reserved
        with self._reserved(self._step.sampled(total.event), key) as ticket:
            _add_all(total, updates())
            try:
                noised = total.release(ticket, divisor)
            finally:
                # mutant: rounds-that-ledger-paid-for-not-counted
                if self._ledger is not None and ticket.state is TicketState.ARMED:
                    self._counter.arm(ticket)
        return noised

    def _reserved(self, event: PrivacyEvent, key: str | None) -> Ticket:
        # mutant: ledger-not-asked
        if self._ledger is None or self._scope is None:
            if key is not None:
                raise InvalidParameter("key must be None without a ledger, got one")
            return self._counter.reserve(event, self._step.relation)
        # mutant: rounds-of-an-engine-recorded-without-words
        ticket = self._ledger.reserve(self._scope, event, key=key, statistics=self._step.words)
        # mutant: scope-of-another-relation-taken
        if ticket.neighboring_relation is not self._step.relation:
            ticket.close()
            here, there = self._step.relation.name, ticket.neighboring_relation.name
            raise InvalidParameter(f"scope must have the neighboring_relation {here} of the sampling, got {there}")
        return ticket

    def __repr__(self) -> str:
        return f"DifferentialPrivacyEngine({self._config!r}, sampling={self._sampling.value!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an engine cannot be copied or pickled: the copy would have a budget of its own; use a ledger")


def _add_all(total: _sums.RoundSum, updates: object) -> None:
    if isinstance(updates, Mapping):
        total.add_many(updates)
    elif isinstance(updates, Iterable):
        for update in updates:
            total.add(update)
    else:
        raise InvalidType(f"updates must be an iterable or a mapping of arrays, got {type(updates).__name__}")


def _left(target: float, spent: float) -> float:
    """Return target − spent, rounded down, or 0."""
    # mutant: budget-left-rounded-up
    return _validate.rounded(Fraction(target) - Fraction(spent), "down") if spent < target else 0.0
