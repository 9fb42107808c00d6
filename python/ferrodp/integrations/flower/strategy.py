"""A strategy of Flower whose rounds are steps of a plan: sampled, clipped, summed and noised by it."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._casting import Casting, casting, widest
from ferrodp._base._validate import Real
from ferrodp.errors import FerroError, InvalidParameter, InvalidType
from ferrodp.federated import FederatedRound, FederatedRun, RoundCheckpoint, RoundRecord
from ferrodp.integrations.flower._inner import InnerState
from ferrodp.integrations.flower._library import array_of, array_record, library, model_of
from ferrodp.integrations.flower._rounds import exhausted, run_rounds
from ferrodp.plan import CorrelatedNoise, CyclicPoisson, PrivacyPlan, RandomAllocation

__all__ = ["PrivateStrategy"]

_LOGGER = logging.getLogger("ferrodp.flower")
_ORDER_STATISTICS = {"FedMedian", "FedTrimmedAvg", "Krum", "MultiKrum", "Bulyan"}
_NOT_MEANS = {"QFedAvg", "FedXgbBagging", "FedXgbCyclic"}


class PrivateStrategy:
    """Wrap a strategy of Flower so that each round releases one noised mean of clipped updates, and nothing else.

    The plan's unit is a client. Each round is a step of the plan: the ledger is charged before clients are asked, the
    plan draws who is asked, each reply's update (its arrays less the model it was sent) is clipped and added as
    integers, and the inner strategy receives a single reply: the model plus the noised mean. What it does with it
    (momentum, Adam, Yogi) is post-processing. Everybody but the server learns no more about a client than the plan's ε
    says.

    Parameters
    ----------
    inner : flwr.serverapp.strategy.Strategy
        `FedAvg`, `FedAvgM`, `FedAdam`, `FedYogi`, `FedAdagrad`, `FedProx`, or another subclass of `FedAvg` that
        aggregates one reply to itself. Strategies that compare replies (Krum, medians) are refused: they would see one.
    plan : PrivacyPlan
        With ``unit="client"``, a `population_size` (the public number of clients), and any sampling that draws.
    ledger : PrivacyLedger, optional
        Charged for each round before it begins; the budget holds across restarts.
    scope : str or sequence of str, optional
        Of the ledger.
    key : str, optional
        Names the training in the ledger: started again under it, rounds that were charged are left out.
    plan_delta : float, optional
        Charges all rounds as one (ε, δ) before the first, as for `PrivacyPlan.start`.
    noise_file : path, optional
        Keeps the secret key of a plan's `CorrelatedNoise`, with `key`; as for `PrivacyPlan.start`: a
        server that starts again goes on with the same noise.
    delta : float
        At which ε is reported; in (0, 1).
    max_epsilon : float, optional
        No round begins that would bring ε above this; finite, > 0.
    skip : sequence of str
        Names of arrays that are not trained, such as counters: they keep the server's value. Others must be floats.
    checkpoint : str or Path, optional
        A file in which `start` keeps the model, what the inner strategy remembers, and the run, after each round. A
        server that was killed and starts again with it goes on with all of them, and loses no round that was paid for:
        `ferrodp.federated.RoundCheckpoint` has the rules. With a ledger it needs a `key`; with `CorrelatedNoise` a
        ledger, a key and a `noise_file`.
    on_exhausted : {"end", "fail"}
        What `start` does before a round that the budget or `max_epsilon` does not allow: return what there is, or raise
        Flower's ``PrivacyBudgetExhausted``, with which a run fails with code 200 in its log.
    log : str or Path, optional
        A CSV file, to which each round appends its `RoundRecord`, with ε so far.
    share_evaluation : bool
        Whether clients may be asked to evaluate, as the inner strategy does. *Not private:* what they report is
        averaged without noise. By default they are not asked; evaluate on public data with ``evaluate_fn``.
    wait : float
        How many seconds to wait for the plan's population to be connected, each round; clients that are missing then
        count as zeros.

    Raises
    ------
    InvalidParameter, InvalidType
        If an argument is not accepted.
    MissingPackage
        If Flower is not installed.

    Notes
    -----
    ==============================  ====================================================================
    a reply with an error, or none  the client counts as zeros; the denominator stays
    NaN, infinity, huge updates     zeros; clipped
    other names, shapes or dtypes   zeros: a client cannot stop a round, or move it by more than the bound
    two replies of one client       the first counts
    metrics of clients              dropped; those of a round are ε, δ and the plan's own numbers
    empty round                     noised and charged like any other
    a client that connects late     zeros until the next epoch of `RandomAllocation` or `CyclicPoisson`
    ==============================  ====================================================================

    Examples
    --------
    >>> from flwr.serverapp.strategy import FedAvg
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     unit="client",
    ...     population_size=100,
    ...     sampling=PoissonSampling(0.2),
    ...     num_steps=30,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(1.0),
    ... ).calibrated(epsilon=8.0, delta=1e-5)
    >>> strategy = PrivateStrategy(FedAvg(), plan=plan)
    >>> strategy.plan.epsilon(1e-5) <= 8.0, strategy.epsilon
    (True, 0.0)
    >>> def main(grid, arrays):  # of a server app
    ...     return strategy.start(grid, arrays).arrays
    >>> def one_round(grid, arrays, config):  # of which `start` runs as many as the plan has
    ...     strategy.summary()
    ...     replies = grid.send_and_receive(strategy.configure_train(1, arrays, config, grid))
    ...     arrays, metrics = strategy.aggregate_train(1, replies)
    ...     replies = grid.send_and_receive(strategy.configure_evaluate(1, arrays, config, grid))
    ...     return arrays, metrics, strategy.aggregate_evaluate(1, replies)
    """

    def __init__(
        self,
        inner: Any,
        *,
        plan: PrivacyPlan,
        ledger: Any = None,
        scope: str | Sequence[str] | None = None,
        key: str | None = None,
        plan_delta: Real | None = None,
        delta: Real = 1e-5,
        max_epsilon: Real | None = None,
        skip: Sequence[str] = (),
        checkpoint: str | Path | None = None,
        on_exhausted: Literal["end", "fail"] = "end",
        log: str | Path | None = None,
        share_evaluation: bool = False,
        wait: Real = 60.0,
        noise_file: str | Path | None = None,
    ) -> None:
        _check_inner(inner)
        if not isinstance(plan, PrivacyPlan):
            raise InvalidType(
                f"plan must be a PrivacyPlan, got {type(plan).__name__}; as in PrivateStrategy(FedAvg(), plan=plan)"
            )
        # mutant: plan-of-records-runs-clients
        if plan.unit != "client":
            raise InvalidParameter(
                f'plan must have unit="client": a client is what sends an update; got {plan.unit!r}, write '
                'unit="client" in the plan'
            )
        if plan.population_size is None or plan.records_per_group != 1:
            raise InvalidParameter(
                "plan must have a population_size and one vector for each client, got "
                f"population_size={plan.population_size} and records_per_group={plan.records_per_group}; write "
                "population_size=... in the plan"
            )
        if type(plan.sampling).__name__ == "GivenOrder":
            raise InvalidParameter("plan must draw its samples: the strategy asks the clients that it draws")
        if isinstance(skip, str) or not all(isinstance(name, str) for name in skip):
            raise InvalidType(f"skip must be a sequence of names, got {type(skip).__name__}; for example skip=['bias']")
        self._inner, self._plan = inner, plan
        self._payment = {
            "ledger": ledger,
            "scope": scope,
            "key": key,
            "plan_delta": plan_delta,
            "noise_file": noise_file,
        }
        self._delta = _validate.delta(delta)
        self._max_epsilon = (
            None if max_epsilon is None else _validate.positive("max_epsilon", max_epsilon, toward="down")
        )
        if on_exhausted not in ("end", "fail"):
            raise _validate.out_of_domain("on_exhausted", "'end' or 'fail'", on_exhausted)
        if checkpoint is not None and not isinstance(checkpoint, (str, Path)):
            raise InvalidType(
                f"checkpoint must be a path or None, got {type(checkpoint).__name__}; for example 'training.round'"
            )
        # mutant: flower-checkpoint-of-a-training-without-a-name
        if checkpoint is not None and ledger is not None and key is None:
            raise InvalidParameter(
                "key must be given with a ledger and a checkpoint: it names the charges of this training, which a "
                "server that starts again has to find; for example key='training-1'"
            )
        # mutant: flower-checkpoint-with-correlated-noise
        if checkpoint is not None and isinstance(plan.noise, CorrelatedNoise) and None in (ledger, key, noise_file):
            raise InvalidParameter(
                "a checkpoint needs a ledger, a key and a noise_file with CorrelatedNoise: its rounds share one stream "
                "of noise, and the ledger alone knows which were drawn; for example ledger=ledger, scope='app', "
                "key='training', noise_file='training.noise'"
            )
        self._checkpoint = None if checkpoint is None else Path(checkpoint)
        self._on_exhausted = on_exhausted
        self._inner_state = InnerState(inner)
        self._skip = tuple(skip)
        self._log = None if log is None else Path(log)
        self._share_evaluation = _validate.truth("share_evaluation", share_evaluation)
        self._wait = _validate.non_negative("wait", wait)
        self._run: FederatedRun | None = None
        self._is_over = False
        self._round: FederatedRound | None = None
        self._casting: Casting | None = None
        self._base: dict[str, npt.NDArray[Any]] = {}  # the model as updates are: what they are differences from
        self._dtype = np.dtype(np.float32)  # of updates: strategies such as FedAdam change that of the model
        self._slots: dict[int, int] = {}
        self._since: dict[int, int] = {}  # the round in which each node was first seen
        self._asked: set[int] = set()
        self._model: Any = None
        library("flwr.serverapp.strategy").Strategy.register(type(self))

    @property
    def plan(self) -> PrivacyPlan:
        """What is run."""
        return self._plan

    @property
    def run(self) -> FederatedRun | None:
        """The run of the plan; None before the first round."""
        return self._run

    @property
    def epsilon(self) -> float:
        """Upper bound on ε, at `delta`, of the rounds so far."""
        return 0.0 if self._run is None else self._run.epsilon(self._delta)

    @property
    def records(self) -> tuple[RoundRecord, ...]:
        """What may be told of each round that was released, since this strategy was made or its checkpoint began."""
        return () if self._run is None else self._run.records

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Iterable[Any]:
        """Reserve a round and return the messages to the clients that the plan drew; none if the budget is spent.

        Parameters
        ----------
        server_round, arrays, config, grid
            As for every strategy of Flower.

        Returns
        -------
        list of Message
            Empty, too, where nobody was drawn: that round is noised like any other.

        Raises
        ------
        InvalidParameter, InvalidArrayType
            If more clients are connected than the plan's population, or the model has arrays that are not floats and
            not skipped. Nothing was charged.
        FerroError
            With a checkpoint, outside of `start`; or if the round before was not aggregated.
        """
        model = model_of(arrays, self._skip)
        if self._run is None and self._checkpoint is not None:
            raise FerroError("rounds with a checkpoint are run by start(grid, initial_arrays)")
        nodes = self._connected(grid)
        if self._run is None:
            self._begin(model, widest(model, self._skip), None)
        assert self._run is not None
        self._casting = casting(model, self._dtype, self._skip)
        if self._round is not None:
            raise FerroError("a round must be aggregated before the next one is configured")
        self._model, self._base = model, self._casting.cast(model, "model")
        self._round = next(self._run, None)
        if self._round is None:
            self._announce_end(server_round)
            return []
        if self._round.clients is None:  # complete, kept by a server that was killed
            self._asked = set()
            self._content(server_round, arrays, config, grid)
            return []
        drawn, number = set(self._round.clients.tolist()), self._round.number
        period = _period(self._plan)
        for node in nodes:
            # A node of the very first round cannot have taken part under another name.
            self._since.setdefault(node, number if number else -period)
        # mutant: client-that-comes-back-takes-part-twice
        begun = number - number % period
        if period > 1 and isinstance(self._plan.noise, CorrelatedNoise):
            # In another place of the next stretch it would be nearer than the strategy allows.
            # mutant: client-that-comes-back-takes-part-too-soon
            begun -= period
        self._asked = {node for node in nodes if self._slots[node] in drawn and self._since[node] <= begun}
        self._round.add_missing(len(drawn) - len(self._asked))
        return self._messages(server_round, arrays, config, grid)

    def _announce_end(self, server_round: int) -> None:
        """Say once, and where everybody looks, that this round and all later ones are not begun."""
        if self._is_over:
            return
        self._is_over = True
        _LOGGER.warning(
            "round %d and later ones ask no client and leave the model as it is: %s", server_round, self._why()
        )

    def _why(self) -> str:
        """Return why no round is begun any more."""
        assert self._run is not None
        whys = {"finished": f"the plan has {self._plan.num_steps} rounds", "target": "max_epsilon is reached"}
        return whys.get(str(self._run.stopped), "the ledger's budget is spent")

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        """Clip and add the updates, release their noised mean, and hand it to the inner strategy as one reply.

        Parameters
        ----------
        server_round, replies
            As for every strategy of Flower. Replies are consumed one by one.

        Returns
        -------
        arrays : ArrayRecord or None
            The new model; None if the round was not begun.
        metrics : MetricRecord or None
            ε so far and the plan's numbers.

        Raises
        ------
        FerroError
            If the ledger refuses in between. Nothing was drawn then.
        """
        current, run = self._round, self._run
        if current is None or run is None:
            for _ in replies:  # of a round that was not begun
                pass
            return None, None
        waiting = set(self._asked)
        for reply in replies if not current.is_kept else ():
            # mutant: one-client-replies-twice
            if reply.metadata.src_node_id in waiting and not reply.has_error():
                waiting.discard(reply.metadata.src_node_id)
                sent = self._sent(reply)
                if sent is None:
                    current.add_missing(1)
                else:
                    # mutant: whole-model-added-for-the-update
                    current.add(sent, minus=self._base)
        if not current.is_kept:
            current.add_missing(len(waiting))
        noised = current.release()
        arrays, _ = self._inner.aggregate_train(server_round, [self._reply(noised)])
        if self._checkpoint is not None:
            self._save(server_round, self._model if arrays is None else model_of(arrays, self._skip))
        self._round = None
        return arrays, self._report(server_round, run.records[-1])

    def configure_evaluate(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Iterable[Any]:
        """Return the inner strategy's messages if evaluation is shared, else none.

        Parameters
        ----------
        server_round, arrays, config, grid
            As for every strategy of Flower.

        Returns
        -------
        iterable of Message

        Raises
        ------
        FerroError
            Never by itself.
        """
        if not self._share_evaluation:
            return []
        messages: Iterable[Any] = self._inner.configure_evaluate(server_round, arrays, config, grid)
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Any]) -> Any:
        """Return the inner strategy's metrics if evaluation is shared, else None.

        Parameters
        ----------
        server_round, replies
            As for every strategy of Flower.

        Returns
        -------
        MetricRecord or None

        Raises
        ------
        FerroError
            Never by itself.
        """
        return self._inner.aggregate_evaluate(server_round, replies) if self._share_evaluation else None

    def summary(self) -> None:
        """Log the plan, and what the inner strategy says of itself."""
        log, info = library("flwr.supercore").log, logging.INFO
        plan = self._plan
        log(info, "\t├──> Differential privacy of clients (ferrodp):")
        log(info, "\t│\t├──Sampling: %s of %s clients", plan.sampling, plan.population_size)
        log(info, "\t│\t├──Clipping: %s", plan.clipping)
        log(info, "\t│\t├──Noise: %s", plan.noise)
        epsilon = plan.epsilon(self._delta)
        log(info, "\t│\t└──Epsilon of %d rounds: %.4f at delta %g", plan.num_steps, epsilon, self._delta)
        self._inner.summary()

    def start(
        self,
        grid: Any,
        initial_arrays: Any,
        num_rounds: int | None = None,
        timeout: float = 3600.0,
        train_config: Any = None,
        evaluate_config: Any = None,
        evaluate_fn: Callable[[int, Any], Any] | None = None,
    ) -> Any:
        """Run the rounds, as `flwr.serverapp.strategy.Strategy.start` does, until the plan or the budget ends.

        Parameters
        ----------
        grid, initial_arrays, timeout, train_config, evaluate_config, evaluate_fn
            As there. With a checkpoint that has a model, that one is used instead of `initial_arrays`.
        num_rounds : int, optional
            By default the plan's number of steps. With a checkpoint, those before it count.

        Returns
        -------
        flwr.serverapp.strategy.Result
            With the newest model, also if no round was run.

        Raises
        ------
        flwr.serverapp.exception.PrivacyBudgetExhausted
            With ``on_exhausted="fail"``, before the first round that the budget or `max_epsilon` does not allow.
        FerroError
            As for the other methods; or if another server has the checkpoint open.
        """
        rounds = self._plan.num_steps if num_rounds is None else _validate.count("num_rounds", num_rounds)
        settings = {
            "num_rounds": rounds,
            "timeout": timeout,
            "train_config": train_config,
            "evaluate_config": evaluate_config,
            "evaluate_fn": evaluate_fn,
        }
        if self._checkpoint is None:
            result = run_rounds(self, grid, initial_arrays, done=0, **settings)
        else:
            with RoundCheckpoint(self._checkpoint) as kept:
                done, arrays = self._resumed(kept, initial_arrays)
                result = run_rounds(self, grid, arrays, done=done, **settings)
        stopped = None if self._run is None else self._run.stopped
        if self._on_exhausted == "fail" and stopped in ("budget", "target"):
            raise exhausted(f"{self._why()}; epsilon is {self.epsilon:.6g} at delta {self._delta:g}")
        return result

    def _begin(self, model: dict[str, Any], dtype: np.dtype[Any], kept: RoundCheckpoint | None) -> None:
        """Start the run, or go on with that of a checkpoint."""
        self._dtype = dtype
        self._run = FederatedRun(
            self._plan,
            casting(model, dtype, self._skip).template,
            delta=self._delta,
            max_epsilon=self._max_epsilon,
            checkpoint=kept,
            **self._payment,
        )

    def _resumed(self, kept: RoundCheckpoint, initial_arrays: Any) -> tuple[int, Any]:
        """Return how many rounds are done, and the model after them."""
        if self._run is not None:
            raise FerroError("a strategy with a checkpoint is started once: make another one")
        saved, notes = kept.arrays, kept.notes
        if saved is None:
            model = model_of(initial_arrays, self._skip)
            self._begin(model, widest(model, self._skip), kept)
            self._save(0, model)
            return 0, initial_arrays
        model = {name.removeprefix("model/"): array for name, array in saved.items() if name.startswith("model/")}
        self._begin(model, np.dtype(notes["dtype"]), kept)
        self._inner_state.restore(notes["inner"], saved)
        self._slots, self._since = dict(notes["slots"]), dict(notes["since"])
        if self._log is not None and self._run is not None:
            self._run.append_missing_to(self._log)
        return notes["server_round"], array_record(model)

    def _save(self, server_round: int, model: dict[str, Any]) -> None:
        """Write all of it to the checkpoint; what was released may be told from then on."""
        assert self._run is not None
        arrays = {f"model/{name}": np.asarray(array) for name, array in model.items()}
        notes = {
            "server_round": server_round,
            "dtype": self._dtype.name,
            "inner": self._inner_state.saved(arrays),
            "slots": list(self._slots.items()),
            "since": list(self._since.items()),
        }
        self._run.save(arrays, notes=notes)

    def _connected(self, grid: Any) -> list[int]:
        """Return the connected nodes, each with a slot of the population that it keeps."""
        assert self._plan.population_size is not None
        end = time.monotonic() + self._wait
        nodes = sorted(grid.get_node_ids())
        while len(nodes) < self._plan.population_size and time.monotonic() < end:
            time.sleep(min(1.0, self._wait))
            nodes = sorted(grid.get_node_ids())
        # mutant: more-clients-than-the-plan-knows
        if len(nodes) > self._plan.population_size:
            raise InvalidParameter(
                f"plan must have a population_size of at least {len(nodes)}, the number of clients that are "
                f"connected, got {self._plan.population_size}"
            )
        for node in nodes:
            if node not in self._slots:
                self._slots[node] = self._free_slot(nodes)
        return nodes

    def _free_slot(self, nodes: Iterable[int]) -> int:
        """Return a slot that nobody has had; if there is none, one of a node that is gone.

        Flower gives a client that was started again another node. One that comes back after its slot was taken counts
        as new: where a draw covers several rounds, it may have taken part in this one.
        """
        assert self._plan.population_size is not None
        known = set(self._slots.values())
        if len(known) < self._plan.population_size:
            return next(slot for slot in range(self._plan.population_size) if slot not in known)
        gone = min(set(self._slots) - set(nodes), key=self._slots.__getitem__)
        # mutant: client-that-lost-its-slot-takes-part-twice
        self._since.pop(gone, None)
        return self._slots.pop(gone)

    def _messages(self, server_round: int, arrays: Any, config: Any, grid: Any) -> list[Any]:
        """Return a message with what the inner strategy would send for each client that is asked."""
        app = library("flwr.app")
        content = self._content(server_round, arrays, config, grid)
        kind = app.MessageType.TRAIN
        return [app.Message(content=content, message_type=kind, dst_node_id=node) for node in sorted(self._asked)]

    def _content(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        """Return what the inner strategy would send; it is called in every round, as it may keep the model then."""
        app = library("flwr.app")
        for message in self._inner.configure_train(server_round, arrays, config, self._nodes(grid)):
            return message.content
        config["server-round"] = server_round
        return app.RecordDict({self._key("arrayrecord_key"): arrays, self._key("configrecord_key"): config})

    def _nodes(self, grid: Any) -> Any:
        """Return a grid of as many nodes as the inner strategy waits for: its messages are not sent to them."""
        least = [getattr(self._inner, name, 0) for name in ("min_available_nodes", "min_train_nodes")]
        return _Nodes(grid, range(1, 1 + max(2, len(self._asked), *map(int, least))))

    def _key(self, name: str) -> str:
        return str(getattr(self._inner, name, {"arrayrecord_key": "arrays", "configrecord_key": "config"}.get(name)))

    def _sent(self, reply: Any) -> Any:
        """Return the model that a client sent, in the type of updates; None if it does not look like ours."""
        assert self._casting is not None
        try:
            record = reply.content.array_records[self._key("arrayrecord_key")]
            return self._casting.cast({name: array_of(record[name]) for name in self._model}, "sent")
        except Exception:  # whatever a client sent: it counts as zeros, and nothing of it is told
            return None

    def _reply(self, noised: dict[str, npt.NDArray[Any]]) -> Any:
        assert self._casting is not None
        app = library("flwr.app")
        new = {**self._model, **self._casting.moved(self._model, noised)}
        weight = app.MetricRecord({getattr(self._inner, "weighted_by_key", "num-examples"): 1})
        content = app.RecordDict({self._key("arrayrecord_key"): array_record(new), "metrics": weight})
        return app.Message(content=content, message_type=app.MessageType.TRAIN, dst_node_id=1)

    def _report(self, server_round: int, record: RoundRecord) -> Any:
        if self._log is not None:
            record.append_to(self._log)
        _LOGGER.info("round %d: epsilon %.6f at delta %g", server_round, record.epsilon, self._delta)
        told = {name: value for name, value in dataclasses.asdict(record).items() if name != "round"}
        return library("flwr.app").MetricRecord({name: value for name, value in told.items() if value is not None})

    def __repr__(self) -> str:
        return f"PrivateStrategy({type(self._inner).__name__}, epsilon={self.epsilon:.4g} at delta={self._delta:g})"


def _period(plan: PrivacyPlan) -> int:
    """Return in how many rounds together each client takes part as often as was charged; 1 where each is by itself.

    A node that appears in the midst of them may be a client that took part already, under another name: Flower gives a
    new one to a client that was started again. It is asked from the next of these stretches on; with correlated noise,
    whose cost depends on how far apart the rounds of a client are, from the one after that.
    """
    sampling = plan.sampling
    if isinstance(sampling, RandomAllocation):
        return sampling.num_steps
    return sampling.num_parts if isinstance(sampling, CyclicPoisson) else 1


class _Nodes:
    """A grid with other nodes; everything else is the grid's."""

    def __init__(self, grid: Any, nodes: Iterable[int]) -> None:
        self._grid, self._nodes = grid, sorted(nodes)

    def get_node_ids(self) -> list[int]:
        return self._nodes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)


def _check_inner(inner: Any) -> None:
    strategies = library("flwr.serverapp.strategy")
    if not isinstance(inner, strategies.Strategy):
        made = f"the class {inner.__name__}: make one" if isinstance(inner, type) else type(inner).__name__
        raise InvalidType(f"inner must be a strategy of Flower such as FedAvg(), got {made}")
    names = {each.__name__ for each in type(inner).__mro__}
    # mutant: strategy-that-compares-replies-accepted
    if names & _ORDER_STATISTICS:
        raise InvalidParameter(
            f"inner must not compare replies, as {type(inner).__name__} does: it receives one, the noised mean. "
            "Clipping bounds what a client can do: use FedAvg()"
        )
    if isinstance(inner, PrivateStrategy) or "DifferentialPrivacy" in "".join(names):
        raise InvalidParameter(f"inner must not add noise of its own, as {type(inner).__name__} does")
    if not isinstance(inner, strategies.FedAvg) or names & _NOT_MEANS:
        raise InvalidParameter(
            "inner must be FedAvg, FedAvgM, FedAdam, FedYogi, FedAdagrad or FedProx, or derive from FedAvg and "
            f"aggregate one reply to itself, got {type(inner).__name__}"
        )
