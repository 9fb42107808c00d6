"""Rounds of a plan whose noise the clients draw: local, distributed and shuffled placements."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._casting import casting
from ferrodp._base._validate import Real
from ferrodp.errors import BudgetExceeded, FerroError, InvalidParameter, InvalidType
from ferrodp.events import ComposedEvent, NonPrivateEvent, PrivacyEvent
from ferrodp.federated.placements import DistributedPlacement, Placement, Total
from ferrodp.federated.records import Records
from ferrodp.federated.shuffled import public_seed
from ferrodp.plan import CorrelatedNoise, FlatClipping, FullBatch, PrivacyPlan
from ferrodp.plan.payments import Payments, Words
from ferrodp.plan.sampling import Charge
from ferrodp.random import NoiseSource
from ferrodp.random.noise import source_or_default

__all__ = ["PlacedRound", "PlacedRun"]


class PlacedRound:
    """One round: clients encode their updates, messages are added, and their sum is released, once.

    Handed out by `PlacedRun`.

    Attributes
    ----------
    number : int
        From 0.
    mechanism : LocalNoise, SecureSum or ShuffledReports
        What clients do: send its parameters to them.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.events import NeighboringRelation
    >>> from ferrodp.federated import LocalPlacement, PlacedRun
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     unit="client",
    ...     population_size=3,
    ...     sampling=FullBatch(),
    ...     num_steps=1,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(8.0),
    ...     neighboring_relation=NeighboringRelation.REPLACE_ONE,
    ... )
    >>> round_ = next(PlacedRun(plan, np.zeros(4), LocalPlacement()))
    >>> for _ in range(3):
    ...     round_.add(round_.encode(np.ones(4)))
    >>> round_.release().shape
    (4,)
    """

    __slots__ = ("_messages", "_over", "_paid", "_run", "mechanism", "number")

    def __init__(self, run: PlacedRun, number: int, mechanism: Any) -> None:
        self._run, self.number, self.mechanism = run, number, mechanism
        self._messages: list[Any] = []
        self._paid = self._over = False

    def encode(self, update: Any) -> Any:
        """Return what a client sends for its update. The first call, here or of `add`, spends what the round costs.

        Parameters
        ----------
        update : tree of ndarrays
            Like the template. One that holds NaN or infinity counts as zeros, which nobody is told.

        Returns
        -------
        tree of ndarrays, or ndarray
            The message, as `mechanism` makes it.

        Raises
        ------
        InvalidArray, InvalidArrayType
            If the update does not look like the template. Nothing was drawn.
        FerroError
            If the round was released.
        BudgetExceeded, TicketError, EntropyError
            If the ledger refuses in between, or the operating system gives no key.
        """
        self._check_open()
        vector = self._run._casting.vector(update)
        self._pay()
        return self._run._placement._message(self.mechanism, vector, self._run._drawn_from)

    def add(self, message: Any) -> None:
        """Add a client's message.

        Parameters
        ----------
        message : tree of ndarrays, or ndarray
            From `encode`, here or on a client's device. One for each client.

        Raises
        ------
        FerroError
            If the round was released, or there are more messages than clients.
        BudgetExceeded, TicketError
            If the ledger refuses in between.
        """
        self._check_open()
        if len(self._messages) >= (self._run.plan.population_size or 0):
            raise FerroError("a round must not have more messages than the plan has clients")
        self._pay()
        self._messages.append(message)

    def begin(self) -> None:
        """Spend what the round costs: before clients are asked who draw their noise elsewhere.

        Raises
        ------
        FerroError
            If the round was released.
        BudgetExceeded, TicketError
            If the ledger refuses in between. Then no client must be asked.

        Examples
        --------
        >>> import numpy as np
        >>> from ferrodp.events import NeighboringRelation
        >>> from ferrodp.federated import DistributedPlacement, PlacedRun
        >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
        >>> plan = PrivacyPlan(
        ...     unit="client",
        ...     population_size=3,
        ...     sampling=FullBatch(),
        ...     num_steps=1,
        ...     clipping=FlatClipping(1.0),
        ...     noise=ConstantNoise(8.0),
        ...     neighboring_relation=NeighboringRelation.REPLACE_SPECIAL,
        ... )
        >>> round_ = next(PlacedRun(plan, np.zeros(4), DistributedPlacement(min_clients=3)))
        >>> round_.begin()
        >>> for _ in range(3):
        ...     round_.add(round_.encode(np.ones(4)))
        >>> round_.release().shape
        (4,)
        """
        self._check_open()
        self._pay()

    def add_total(self, total: Any, *, num_clients: int) -> None:
        """Add what a protocol of secure aggregation shows: the sum of several messages.

        Parameters
        ----------
        total : ndarray
            Residues of the sum, for a `DistributedPlacement`.
        num_clients : int
            How many messages it holds: what finished, not what was asked. At least 1.

        Raises
        ------
        InvalidParameter, InvalidType
            If the placement is another one, or the number out of its domain.
        FerroError
            If the round was released, or there are more messages than clients.
        BudgetExceeded, TicketError
            If the ledger refuses in between.

        Examples
        --------
        >>> import numpy as np
        >>> from ferrodp.events import NeighboringRelation
        >>> from ferrodp.federated import DistributedPlacement, PlacedRun
        >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
        >>> plan = PrivacyPlan(
        ...     unit="client",
        ...     population_size=3,
        ...     sampling=FullBatch(),
        ...     num_steps=1,
        ...     clipping=FlatClipping(1.0),
        ...     noise=ConstantNoise(8.0),
        ...     neighboring_relation=NeighboringRelation.REPLACE_SPECIAL,
        ... )
        >>> round_ = next(PlacedRun(plan, np.zeros(4), DistributedPlacement(min_clients=3)))
        >>> messages = [round_.encode(np.ones(4)) for _ in range(3)]
        >>> round_.add_total(np.sum(messages, axis=0, dtype=np.uint32), num_clients=3)
        >>> round_.release().shape
        (4,)
        """
        self._check_open()
        if not isinstance(self._run._placement, DistributedPlacement):
            raise InvalidParameter("a total is of messages under secure aggregation: the placement must be distributed")
        count = _validate.count("num_clients", num_clients)
        if sum(getattr(each, "clients", 1) for each in self._messages) + count > (self._run.plan.population_size or 0):
            raise FerroError("a round must not have more messages than the plan has clients")
        self._pay()
        self._messages.append(Total(total, count))

    def release(self, *, denominator: Real | None = None) -> Any:
        """Return the sum of the messages, divided by a public number, and end the round.

        Parameters
        ----------
        denominator : float, optional
            By default the plan's number of clients, however many came.

        Returns
        -------
        tree of ndarrays
            Like the template, in its dtypes, without the keys that are skipped.

        Raises
        ------
        FerroError
            If the round was released, or too few clients sent messages: the round is lost then, and stays charged.
        InvalidParameter, InvalidType, InvalidArray, InvalidArrayType
            If an argument or a message is not accepted.
        BudgetExceeded, TicketError
            If the ledger refuses in between.
        """
        self._check_open()
        population = self._run.plan.population_size
        divisor = _validate.positive("denominator", population if denominator is None else denominator)
        self._pay()
        self._over = True
        messages, self._messages = self._messages, []
        try:
            return self._run._released(self, messages, divisor)
        finally:
            self._run._finish(self)

    def _pay(self) -> None:
        if not self._paid:
            # mutant: messages-of-clients-are-free
            self._run._payments.pay(self.number)
            self._paid = True

    def _check_open(self) -> None:
        if self._over:
            raise FerroError(f"round {self.number} was released, or its run has ended; go on with the next one")


class PlacedRun(Records):
    """The rounds of a plan whose noise is drawn by the clients, as an iterator.

    The placements other than the central one of `FederatedRun`, with the same rounds, records and budgets. Whoever sees
    what the placement shows learns no more about a client than `epsilon` says. A round is reserved in the ledger before
    it is handed out, and spent before its first message is made: also one that is lost then.

    Parameters
    ----------
    plan : PrivacyPlan
        With ``unit="client"``, a `population_size`, `FullBatch` (whom a server asks is no secret to it),
        `FlatClipping`, and a neighboring relation of the placement's. Its noise multipliers mean what the placement
        says; ε is that of the placement's own events.
    template : tree of ndarrays
        What an update looks like, as for `FederatedRun`.
    placement : Placement
        `LocalPlacement`, `DistributedPlacement` or `ShuffledPlacement`.
    delta, max_epsilon, cast, skip, ledger, scope, key
        As for `FederatedRun`.
    source : NoiseSource, optional
        None, or a seeded source for tests.

    Attributes
    ----------
    stopped : {None, "finished", "target", "budget"}
        Why iteration ended; None before.

    Raises
    ------
    InvalidParameter, InvalidType, InvalidArray, InvalidArrayType, UnsupportedEventError
        If a parameter is not accepted. Nothing was charged.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.events import NeighboringRelation
    >>> from ferrodp.federated import DistributedPlacement, PlacedRun
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     unit="client",
    ...     population_size=10,
    ...     sampling=FullBatch(),
    ...     num_steps=2,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(1.0),
    ...     neighboring_relation=NeighboringRelation.REPLACE_SPECIAL,
    ... )
    >>> model = {"w": np.zeros(4, np.float32)}
    >>> with PlacedRun(plan, model, DistributedPlacement(min_clients=8), delta=1e-5) as run:
    ...     for round_ in run:
    ...         for client in range(9):  # one of ten is missing
    ...             round_.add(round_.encode({"w": np.ones(4, np.float32)}))
    ...         change = round_.release()
    >>> change["w"].dtype, len(run.records), run.stopped, run.records[-1].epsilon == run.epsilon(1e-5)
    (dtype('float32'), 2, 'finished', True)
    >>> run.plan == plan, run.event.events[0].num_shares
    (True, 8)
    >>> run.close()

    Where a protocol shows the sum alone, the round begins, and is paid for, before clients are asked:

    >>> round_ = next(PlacedRun(plan, model, DistributedPlacement(min_clients=8)))
    >>> round_.begin()
    >>> messages = [round_.mechanism.encode({"w": np.ones(4, np.float32)}) for _ in range(9)]  # on nine devices
    >>> round_.add_total(sum(messages[1:], messages[0]), num_clients=9)
    >>> round_.release()["w"].shape
    (4,)
    """

    __slots__ = (
        "_casting", "_current", "_drawn_from", "_events", "_name", "_next", "_payments", "_placement", "_plan",
        "_source", "_stopped",
    )  # fmt: skip

    def __init__(
        self,
        plan: PrivacyPlan,
        template: Any,
        placement: Placement[Any],
        *,
        delta: Real = 1e-5,
        max_epsilon: Real | None = None,
        cast: npt.DTypeLike | None = None,
        skip: Collection[str] = (),
        ledger: Any = None,
        scope: str | Sequence[str] | None = None,
        key: str | None = None,
        source: NoiseSource | None = None,
    ) -> None:
        if not isinstance(plan, PrivacyPlan):
            raise InvalidType(f"plan must be a PrivacyPlan, got {type(plan).__name__}")
        if not isinstance(placement, Placement):
            raise InvalidType(f"placement must be a Placement such as LocalPlacement(), got {type(placement).__name__}")
        if plan.unit != "client" or plan.population_size is None or plan.records_per_group != 1:
            raise InvalidParameter('plan must have unit="client", a population_size and one vector for each client')
        # mutant: placed-rounds-amplified-by-sampling
        if not isinstance(plan.sampling, FullBatch) or not isinstance(plan.clipping, FlatClipping):
            raise InvalidParameter("plan must have FullBatch, as who is asked is no secret here, and FlatClipping")
        if isinstance(plan.noise, CorrelatedNoise):
            raise InvalidParameter(
                "plan must have independent noise where clients draw it, such as ConstantNoise, got CorrelatedNoise: "
                "its steps share one key, which only a server can hold"
            )
        if plan.neighboring_relation not in placement.relations:
            allowed = " or ".join(each.name for each in placement.relations)
            raise InvalidParameter(f"plan must have the neighboring_relation {allowed} for {type(placement).__name__}")
        if key is not None and ledger is None:
            raise InvalidParameter("key must be None without a ledger")
        super().__init__(delta, max_epsilon)
        self._source = source_or_default(source)
        if ledger is not None and not self._source.is_private:
            raise InvalidParameter("source must be private where a ledger pays; whoever has the seed has the noise")
        self._drawn_from = None if self._source.is_private else self._source
        self._plan, self._placement, self._casting = plan, placement, casting(template, cast, skip)
        self._name = key or secrets.token_hex(16)
        made: dict[float, PrivacyEvent] = {}
        for number, multiplier in enumerate(plan.noise_multipliers):
            if multiplier not in made:
                made[multiplier] = self._mechanism(number).event
        self._events = [made[multiplier] for multiplier in plan.noise_multipliers]
        charges = [Charge(event, 1) for event in self._events]
        self._payments = Payments(charges, plan.neighboring_relation, ledger, scope, self._name, words=Words.of(plan))
        self._next = 0
        self._current: PlacedRound | None = None
        self._stopped: Literal["finished", "target", "budget"] | None = None

    @property
    def plan(self) -> PrivacyPlan:
        """What is run."""
        return self._plan

    @property
    def event(self) -> PrivacyEvent:
        """What was charged for rounds that have begun; `NonPrivateEvent` if seeded."""
        if not self._source.is_private and self._payments.begun:
            return NonPrivateEvent()
        return ComposedEvent(events=self._payments.events)

    @property
    def stopped(self) -> Literal["finished", "target", "budget"] | None:
        """Why iteration ended; None before."""
        return self._stopped

    def __iter__(self) -> Iterator[PlacedRound]:
        return self

    def __next__(self) -> PlacedRound:
        self._payments.check_process()
        if self._current is not None:
            raise FerroError(f"round {self._current.number} must be released before the next one")
        while self._stopped is None and self._next < self._plan.num_steps:
            number = self._next
            ahead = ComposedEvent(events=tuple(self._events[: number + 1]))
            if self._max_epsilon is not None and self._epsilon_of(ahead, self._delta) > self._max_epsilon:
                self._stopped = "target"
                break
            try:
                reserved = self._payments.reserve(number)
            except BudgetExceeded:
                self._stopped = "budget"
                break
            if reserved:
                self._current = PlacedRound(self, number, self._mechanism(number))
                return self._current
            self._next += 1  # charged before, and perhaps released: left out
        self._stopped = self._stopped or "finished"
        raise StopIteration

    def close(self) -> None:
        """End the run: a round that is reserved and has not begun is given back to the ledger."""
        self._payments.check_process()
        if self._current is not None:
            self._current._over = True
            if self._current._paid:
                self._payments.finish(self._current.number)
        self._payments.give_back()
        self._current = None
        self._stopped = self._stopped or "finished"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._payments.is_ours:
            self.close()

    def _mechanism(self, number: int) -> Any:
        seed = public_seed(self._name, number)
        return self._placement._mechanism(self._plan, number, self._casting.template, seed)

    def _released(self, current: PlacedRound, messages: list[Any], divisor: float) -> Any:
        released = self._placement._sum(current.mechanism, self._casting.template, messages, divisor)
        value = self._casting.restored(released)
        multiplier = self._plan.noise.at(current.number, self._plan.num_steps)
        self._note(current.number, multiplier, self._plan.clipping.initial_norm, divisor)
        return value

    def _finish(self, current: PlacedRound) -> None:
        self._payments.finish(current.number)
        self._next, self._current = current.number + 1, None
