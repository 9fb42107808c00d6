"""The engine: clip, sum, noise and account from one configuration, and refuse when the budget is gone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn, TypeAlias

from ferrodp import _validate
from ferrodp._validate import Real
from ferrodp.engine import _accounts, _sums
from ferrodp.engine._counter import RoundCounter
from ferrodp.engine._gradients import GradientMethods, Model, mapping
from ferrodp.engine._spending import SpendingMethods
from ferrodp.engine._step import step_of
from ferrodp.engine.protocol import RoundLedger
from ferrodp.engine.records import DPConfig, PrivacyBudget, config_of, member
from ferrodp.engine.sampling import Sampling, poisson_sample, uniform_sample
from ferrodp.errors import BudgetExceeded, InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.random.samples import Indices
from ferrodp.tickets import Ticket, TicketState

__all__ = ["DifferentialPrivacyEngine"]

Updates: TypeAlias = "Iterable[Mapping[str, Any]] | Mapping[str, Any]"


class DifferentialPrivacyEngine(GradientMethods, SpendingMethods):
    r"""Run the rounds of a training under one configuration, and not one more than its budget allows.

    A round clips every contribution to C, adds them up exactly, and releases the sum once, with noise of z·C. The
    guarantee is for a *contribution*: a client's update, or the gradient of a record. All rounds together are
    (`target_epsilon`, `target_delta`)-private, for whoever sees all noised sums but not who was sampled; the round that
    would exceed that is refused before anything is added or drawn. As all parameters are fixed by a configuration that
    never changes, what one round costs does not depend on earlier results, and composition is adaptive in the data
    alone: clients may train on what earlier rounds released.

    Parameters
    ----------
    config : DPConfig, optional
        By default `DPConfig()`.
    sampling : Sampling
        How clients are drawn (the member, or its value): "poisson", where the guarantee tells apart datasets with one
        client more or less, or "uniform", a fixed number without replacement, where it tells apart datasets with
        another client in one place: sums are then 2C apart, which the cost includes.
    population_size : int, optional
        Number of clients there are; a public number. Needed for "uniform" and for `sample`. A uniform sample has
        `sampling_rate` times as many, rounded to the nearest number, at least one; that number is what is accounted.
    ledger : PrivacyLedger, optional
        Who decides, instead of a counter in memory: every round is reserved there and spent at its first random bit,
        so that the budget of the ledger holds across processes and crashes. The targets of the configuration do not
        limit rounds then.
    scope : str, optional
        Where in the ledger.

    Raises
    ------
    UnsupportedEventError
        If the configured accounting has no bound for such rounds, and the message says which methods do; or if the
        ledger has none.
    InvalidParameter, InvalidType, LedgerError

    Notes
    -----
    The engine may be shared by threads of one process. It cannot be copied or pickled, and is refused in a forked
    child: the copy would have a budget of its own. That is what a ledger is for.

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
        ledger: RoundLedger | None = None,
        scope: str | None = None,
    ) -> None:
        self._config = config_of(DPConfig() if config is None else config)
        self._sampling = member(Sampling, "sampling", sampling)
        if population_size is not None:
            population_size = _validate.count("population_size", population_size)
        self._population_size = population_size
        self._step = step_of(self._config, self._sampling, population_size)
        if (ledger is None) != (scope is None):
            raise InvalidParameter("ledger and scope must be given together")
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
        """The targets, and what so many rounds as were run consume of them, by the configured accounting.

        A guarantee for a number of rounds fixed in advance. Who stops in view of results has the targets: they hold
        whenever it is done. With a ledger `PrivacyLedger.odometer` bounds the loss so far at every moment.
        """
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
        """How many more rounds are allowed: exactly so many run, unless others draw on the same ledger."""
        if self._ledger is not None and self._scope is not None:
            return self._ledger.remaining_count(self._scope, self.event)
        return self._counter.remaining

    def sample(self) -> Indices:
        """Draw the clients of a round, as the accounting says: indices below `population_size`, in increasing order.

        They are drawn from cryptographic bits. *Secret:* amplification holds for those who do not know who was sampled.

        Raises
        ------
        InvalidParameter
            If the engine was not told the `population_size`.
        """
        if self._population_size is None:
            raise InvalidParameter("population_size must be given to the engine before it can draw samples")
        if self._step.sample_size is None:
            return poisson_sample(self._population_size, self._config.sampling_rate)
        return uniform_sample(self._population_size, self._step.sample_size)

    def round(
        self,
        updates: Updates,
        *,
        template: Mapping[str, Any],
        denominator: Real | None = None,
        key: str | None = None,
    ) -> Model:
        """Return the noised sum of the updates of one round: the one thing here that may be published.

        The round is reserved first, before `updates` is looked at; it is spent at the first random bit, and given back
        if an exception comes before that.

        Parameters
        ----------
        updates : iterable of dicts of ndarrays, or one dict of stacked ndarrays
            What the sampled clients sent, each like the template, perhaps none at all; an iterator is taken one by one.
            A dict holds them all, with one more axis in front, such as per-sample gradients. Never written to. Each is
            clipped to `max_grad_norm`; one that holds NaN or infinity counts as zeros.
        template : dict of ndarrays
            What an update looks like, such as the model: structure, shapes and dtype are used. Shapes may stand for
            arrays of float64.
        denominator : float, optional
            Divides the result: a *public* number, such as the expected number of clients, for a mean.
        key : str, optional
            Name of the round in the ledger: a round that is repeated under its key is not charged twice, and not
            released twice.

        Returns
        -------
        dict of ndarrays
            Like the template.

        Raises
        ------
        BudgetExceeded
            If the round would exceed the budget. Nothing was added, drawn or charged.
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
            Before anything is drawn; the round is given back.
        EntropyError
            If the operating system gives no key; the round is spent.

        Notes
        -----
        That `updates` are those of clients who were drawn as the configuration says is the caller's promise; `sample`
        draws them. Who shuffles once and cuts batches must account without sampling.
        """
        total = _sums.sum_for(self._step, mapping("template", template))
        divisor = None if denominator is None else _validate.positive("denominator", denominator)
        return self._run(total, lambda: updates, divisor, key)

    def run_rounds(
        self,
        train: Callable[[Indices], Updates],
        *,
        template: Mapping[str, Any],
        num_rounds: int | None = None,
        denominator: Real | None = None,
    ) -> Iterator[Model]:
        """Run rounds one after the other: draw clients, have them trained, and yield the noised sum of their updates.

        Parameters
        ----------
        train : callable
            From the indices of the sampled clients to their updates, as `round` takes them. Called once a round, after
            the round was reserved and the result of the one before was used.
        template, denominator
            As for `round`.
        num_rounds : int, optional
            How many; by default as many as the budget allows, exactly.

        Yields
        ------
        dict of ndarrays
            Like the template.

        Raises
        ------
        BudgetExceeded
            If the budget does not allow `num_rounds`, at the call, before the first of them; with a ledger on which
            others draw, also before any later one.
        """
        if not callable(train):
            raise InvalidType(f"train must be a function, got {type(train).__name__}")
        if self._population_size is None:
            raise InvalidParameter("population_size must be given to the engine before it can draw samples")
        _sums.sum_for(self._step, mapping("template", template))
        divisor = None if denominator is None else _validate.positive("denominator", denominator)
        if num_rounds is not None:
            num_rounds = _validate.count("num_rounds", num_rounds, minimum=0)
            left = self.remaining_rounds
            # mutant: run-begins-that-budget-does-not-allow
            if num_rounds > left:
                raise BudgetExceeded(f"num_rounds must be at most {left}, what the budget allows, got {num_rounds}")
        return self._rounds(train, template, num_rounds, divisor)

    def _rounds(
        self, train: Callable[[Indices], Updates], template: object, num_rounds: int | None, divisor: float | None
    ) -> Iterator[Model]:
        done = 0
        while self.remaining_rounds if num_rounds is None else done < num_rounds:
            total = _sums.sum_for(self._step, template)
            yield self._run(total, lambda: train(self.sample()), divisor, None)
            done += 1

    def _run(
        self, total: _sums.RoundSum, updates: Callable[[], Updates], divisor: float | None, key: str | None
    ) -> Model:
        """Reserve, then add, then release; what fails before the first random bit gives the round back."""
        # mutant: updates-looked-at-before-round-reserved
        with self._reserved(self._step.sampled(total.event), key) as ticket:
            _add_all(total, updates())
            try:
                noised: Model = total.release(ticket, divisor)
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
        ticket = self._ledger.reserve(self._scope, event, key=key)
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
