"""Flower's SecAgg+ with shares of discrete noise from the clients: the server sees noised sums alone.

Flower's protocol sums integers modulo 2³², made from floats that it scales, clips and rounds at random. Here it is set
so that it does none of the three to what a client sends. A message of `SecureSum` is a vector of residues r modulo 2³¹.
The client hands (r − 2³⁰)·2³¹ to the protocol, with the weight 2⁻³¹: float64 holds both products exactly. Its range of
[−2³⁰, 2³⁰] has 2³¹ steps, so the scale is 1, and an integer stays as it is when it is rounded. The server gets the sum
of n vectors r − 2³⁰, divided by n·2⁻³¹, as float64. For n ≤ 2¹⁵ the numerator is below 2⁴⁶, and two roundings of 2⁻⁵³
leave less than 2⁻⁶: rounding finds it again. So the server learns Σr modulo 2³² at most, of which Σr modulo 2³¹ is
decoded; both are functions of the integer sum that `SecureSum` noises.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._casting import casting, widest
from ferrodp._base._validate import Real
from ferrodp.errors import FerroError, InvalidParameter, InvalidType
from ferrodp.federated import DistributedPlacement, PlacedRun, RoundCheckpoint, RoundRecord, SecureSum
from ferrodp.integrations.flower._library import array_of, array_record, library, model_of
from ferrodp.plan import PrivacyPlan

__all__ = ["SecureAggregation", "secure_share_mod"]

_LOGGER = logging.getLogger("ferrodp.flower")
_STEPS, _HALF = 2**31, 2**30
_MOST_CLIENTS = 2**15
_SETTINGS = "ferrodp.secure"


def secure_share_mod(message: Any, context: Any, call_next: Callable[[Any, Any], Any]) -> Any:
    """Clip a client's update, add its share of noise, and hand it to Flower's SecAgg+ as integers.

    Use as ``ClientApp(mods=[secaggplus_mod, secure_share_mod])``, with Flower's own modifier first. The app receives
    and returns the model as in any round: records of arrays and of metrics. Its metrics are dropped.

    Parameters
    ----------
    message, context, call_next
        As for every modifier of Flower.

    Returns
    -------
    Message
        The reply, for `secaggplus_mod` to mask.

    Raises
    ------
    InvalidParameter
        If the server runs no `SecureAggregation`, or the reply has other arrays. Flower makes an error reply of it.

    Examples
    --------
    >>> from flwr.clientapp import ClientApp
    >>> from flwr.client.mod import secaggplus_mod
    >>> app = ClientApp(mods=[secaggplus_mod, secure_share_mod])
    """
    app, compat = library("flwr.app"), library("flwr.compat.common.recorddict_compat")
    if message.metadata.message_type != app.MessageType.TRAIN:
        return call_next(message, context)
    asked = compat.recorddict_to_fitins(message.content, True)
    if _SETTINGS not in asked.config:
        raise InvalidParameter("secure_share_mod needs a server that runs SecureAggregation")
    settings = json.loads(str(asked.config[_SETTINGS]))
    secure = SecureSum.from_json(settings["sum"])
    arrays = library("flwr.common").parameters_to_ndarrays(asked.parameters)
    model = dict(zip(settings["names"], arrays, strict=True))
    skipped = tuple(settings["skip"])
    cast_as = casting(model, np.dtype(settings["dtype"]), skipped)
    config = app.ConfigRecord({"server-round": settings["round"]})
    message.content = app.RecordDict({"arrays": array_record(model), "config": config})
    reply = call_next(message, context)
    if reply.has_error():
        return reply
    record = reply.content.array_records.get("arrays")
    if record is None or set(record) != set(model):
        raise InvalidParameter("a reply must have the arrays that were sent, in a record named 'arrays'")
    sent = cast_as.cast({name: array_of(array) for name, array in record.items()}, "reply")
    update = cast_as.weighted(sent, 1.0, cast_as.cast(model, "model"))
    # mutant: share-of-noise-left-to-others
    residues = secure.encode(update)
    reply.content = compat.fitres_to_recorddict(_result([_to_floats(residues)]), keep_input=False)
    return reply


def _result(arrays: list[npt.NDArray[Any]]) -> Any:
    common = library("flwr.common")
    return common.FitRes(
        status=common.Status(code=common.Code.OK, message=""),
        parameters=common.ndarrays_to_parameters(arrays),
        num_examples=1,
        metrics={},
    )


def _to_floats(residues: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    """Return what Flower's quantization takes to residues: exact, as the module says."""
    return (residues.astype(np.float64) - _HALF) * _STEPS


def _to_residues(mean: npt.NDArray[np.float64], clients: int) -> npt.NDArray[np.uint32]:
    """Return the sum modulo 2³¹ from what Flower's protocol makes of it."""
    integers = np.rint(mean * (clients / _STEPS)).astype(np.int64) + clients * _HALF
    # mutant: sum-of-secagg-off-by-its-middle
    return (integers & (_STEPS - 1)).astype(np.uint32)


class SecureAggregation:
    """Run the rounds of a plan under Flower's SecAgg+, with noise that the clients draw.

    Each round runs the stages of Flower's `SecAggPlusWorkflow`, unchanged, with all clients that are connected; the
    first two are repeated without clients that are lost in them. Each client clips its update and adds a share of
    discrete Gaussian noise before it masks. If at least `min_clients` honest clients finish, not even the server learns
    more about one of them than ε says, from the sums that the protocol shows; that a client took part is not hidden. A
    round with fewer releases nothing and stays charged.

    Parameters
    ----------
    plan : PrivacyPlan
        With ``unit="client"``, the number of clients as `population_size`, `FullBatch`, `FlatClipping` and the
        neighboring relation ``REPLACE_SPECIAL`` (an update becomes zeros) or ``REPLACE_ONE``. Its noise multiplier is
        that of `min_clients` shares together.
    min_clients : int
        Honest clients that finish a round, at least.
    num_dishonest : int
        Clients that may add no noise, or tell the server theirs: so many more have to finish.
    num_shares, reconstruction_threshold, timeout
        Of Flower's workflow: in how many parts keys are shared, how many recover one, seconds to wait for replies. By
        default all clients hold parts, and more than half of them recover.
    rotation : bool
        As for `DistributedPlacement`.
    skip : sequence of str
        Names of arrays that are not trained.
    ledger, scope, key, delta, max_epsilon
        As for `PlacedRun`: a round is spent before its clients are asked.
    checkpoint : str or Path, optional
        A file in which `start` keeps the model after each round; needs a ledger and a key, which know the rounds that
        were begun. A server that was killed and starts again with all three goes on with the model. A round that was
        under way is lost and stays charged: its clients were asked, and what they sent is gone.
    log : str or Path, optional
        A CSV file, to which each round appends its `RoundRecord`.

    Raises
    ------
    InvalidParameter, InvalidType
        If an argument is not accepted. Nothing was charged.
    MissingPackage
        If Flower is not installed.

    Notes
    -----
    What the protocol shows is what is accounted: the sum. How well masks hide the vectors is Flower's protocol and its
    pseudo-random masks, and who may collude is its threshold; neither is part of ε. The server is trusted to follow the
    protocol. The server's parameters are what clients use.

    ===============================  ===================================================================
    lost before keys are shared      keys are shared anew by the others, before anything is charged
    lost later                       its masks are recovered by the others; its share is missing
    too few share keys               the run ends before the round, which is given back
    fewer than needed finish         the round is lost, and charged; the model stays
    NaN or infinity in an update     counts as zeros, with its share of noise
    more than 32,768 clients         refused: float64 would not hold the sums
    ===============================  ===================================================================

    Examples
    --------
    >>> from ferrodp.events import NeighboringRelation
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     unit="client",
    ...     population_size=20,
    ...     sampling=FullBatch(),
    ...     num_steps=3,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(2.0),
    ...     neighboring_relation=NeighboringRelation.REPLACE_SPECIAL,
    ... )
    >>> rounds = SecureAggregation(plan, min_clients=12)
    >>> rounds.epsilon, rounds.records, rounds.plan == plan
    (0.0, (), True)
    >>> def main(grid, arrays):  # of a server app
    ...     return rounds.start(grid, arrays).arrays
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        *,
        min_clients: int,
        num_dishonest: int = 0,
        num_shares: int | float = 1.0,
        reconstruction_threshold: int | float = 0.51,
        timeout: Real | None = None,
        rotation: bool = False,
        skip: Sequence[str] = (),
        ledger: Any = None,
        scope: str | Sequence[str] | None = None,
        key: str | None = None,
        delta: Real = 1e-5,
        max_epsilon: Real | None = None,
        checkpoint: str | Path | None = None,
        log: str | Path | None = None,
    ) -> None:
        if checkpoint is not None and not isinstance(checkpoint, (str, Path)):
            raise InvalidType(
                f"checkpoint must be a path or None, got {type(checkpoint).__name__}; for example 'training.round'"
            )
        # mutant: secure-checkpoint-without-a-ledger
        if checkpoint is not None and (ledger is None or key is None):
            raise InvalidParameter(
                "ledger and key must be given with a checkpoint: the ledger knows which rounds were begun, so that "
                "none is released twice for one charge; for example ledger=ledger, scope='app', key='training-1'"
            )
        self._checkpoint = None if checkpoint is None else Path(checkpoint)
        self._placement = DistributedPlacement(
            min_clients=min_clients, num_dishonest=num_dishonest, modulus="uint31", rotation=rotation
        )
        if isinstance(plan, PrivacyPlan) and (plan.population_size or 0) > _MOST_CLIENTS:
            raise InvalidParameter(
                f"plan must have a population_size of at most {_MOST_CLIENTS}, got {plan.population_size}"
            )
        self._plan = plan
        self._payment = {"ledger": ledger, "scope": scope, "key": key, "max_epsilon": max_epsilon}
        self._delta = _validate.delta(delta)
        self._skip, self._log = tuple(skip), None if log is None else Path(log)
        workflow = library("flwr.server.workflow").SecAggPlusWorkflow
        try:
            self._workflow = workflow(
                num_shares,
                reconstruction_threshold,
                max_weight=float(_STEPS),
                clipping_range=float(_HALF),
                quantization_range=_STEPS,
                modulus_range=2 * _STEPS,
                timeout=None if timeout is None else float(timeout),
            )
        except (TypeError, ValueError) as error:
            raise InvalidParameter(f"num_shares and reconstruction_threshold must be as Flower says: {error}") from None
        self._run: PlacedRun | None = None

    @property
    def plan(self) -> PrivacyPlan:
        """What is run."""
        return self._plan

    @property
    def epsilon(self) -> float:
        """Upper bound on ε, at `delta`, of the rounds so far, those that were lost included."""
        return 0.0 if self._run is None else self._run.epsilon(self._delta)

    @property
    def records(self) -> tuple[RoundRecord, ...]:
        """What may be told of each round that was released."""
        return () if self._run is None else self._run.records

    def start(self, grid: Any, initial_arrays: Any, evaluate_fn: Callable[[int, Any], Any] | None = None) -> Any:
        """Run the rounds of the plan, until it or the budget ends.

        Parameters
        ----------
        grid : Grid
            Of the server app.
        initial_arrays : ArrayRecord
            The model.
        evaluate_fn : callable, optional
            Called with a round's number and the model after it, for public data; from 0.

        Returns
        -------
        flwr.serverapp.strategy.Result
            With the newest model.

        Raises
        ------
        FerroError, InvalidArrayType
            As `PlacedRun`; or if another server has the checkpoint open, or it is that of another training.
        """
        with contextlib.ExitStack() as stack:
            kept = None if self._checkpoint is None else stack.enter_context(RoundCheckpoint(self._checkpoint))
            done = 0
            if kept is not None and kept.run is not None:
                self._check(kept)
                assert kept.arrays is not None
                done, initial_arrays = kept.notes["server_round"], array_record(kept.arrays)
            return self._rounds(grid, initial_arrays, evaluate_fn, kept, done)

    def _rounds(
        self,
        grid: Any,
        initial_arrays: Any,
        evaluate_fn: Callable[[int, Any], Any] | None,
        kept: RoundCheckpoint | None,
        done: int,
    ) -> Any:
        """Run the rounds that were not begun yet, from the model after the first `done`."""
        result = library("flwr.serverapp.strategy").Result(arrays=initial_arrays)
        model = model_of(initial_arrays, self._skip)
        dtype = widest(model, self._skip)
        cast_as = casting(model, dtype, self._skip)
        self._run = run = PlacedRun(self._plan, cast_as.template, self._placement, delta=self._delta, **self._payment)

        def evaluated(number: int) -> None:
            found = None if evaluate_fn is None else evaluate_fn(number, result.arrays)
            if found is not None:
                result.evaluate_metrics_serverapp[number] = found

        evaluated(done)
        with run:
            for round_ in run:
                number = round_.number + 1
                nodes = sorted(grid.get_node_ids())
                if len(nodes) > (self._plan.population_size or 0):
                    raise InvalidParameter(
                        f"plan must have a population_size of at least {len(nodes)}, the number of clients that are "
                        f"connected, got {self._plan.population_size}"
                    )
                settings = {
                    "sum": round_.mechanism.to_json(),
                    "names": list(model),
                    "skip": self._skip,
                    "dtype": dtype.name,
                    "round": number,
                }
                protocol = _Protocol(self._workflow, grid, model, json.dumps(settings), number)
                needed = self._placement.min_clients + self._placement.num_dishonest
                if not protocol.agree(nodes, needed):
                    _LOGGER.warning("the run ends before round %d: fewer than %d clients shared keys", number, needed)
                    break
                # mutant: clients-asked-before-the-round-is-paid-for
                round_.begin()
                found = protocol.sum()
                if found is not None:
                    round_.add_total(_to_residues(found.mean, found.clients), num_clients=found.clients)
                try:
                    change = round_.release()
                except FerroError as error:
                    _LOGGER.warning("round %d is lost, and stays charged: %s", number, error)
                    continue
                model = {**model, **cast_as.moved(model, change)}
                # mutant: secure-model-told-before-it-is-saved
                self._save(kept, number, model)
                result.arrays = array_record(model)
                self._report(number, result)
                evaluated(number)
        return result

    def _save(self, kept: RoundCheckpoint | None, number: int, model: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write the model after a round. It is all that there is to keep: what was begun is in the ledger."""
        if kept is not None:
            kept.save(self._training(number), {name: np.asarray(value) for name, value in model.items()},
                      {"server_round": number})  # fmt: skip

    def _training(self, number: int) -> dict[str, Any]:
        key = self._payment["key"]
        return {"name": key, "key": key, "plan": self._plan.fingerprint, "next_step": number}

    def _check(self, kept: RoundCheckpoint) -> None:
        """Refuse the checkpoint of another training."""
        assert kept.run is not None
        for name in ("plan", "key"):
            if kept.run.get(name) != self._training(0)[name]:
                raise InvalidParameter(
                    f"checkpoint must be that of this training, and {str(kept.path)!r} is of another {name}; each "
                    "training has a file of its own"
                )

    def _report(self, number: int, result: Any) -> None:
        assert self._run is not None
        record = self._run.records[-1]
        if self._log is not None:
            record.append_to(self._log)
        _LOGGER.info("round %d: epsilon %.6f at delta %g", number, record.epsilon, self._delta)
        told = {"epsilon": record.epsilon, "delta": record.delta, "noise_multiplier": record.noise_multiplier}
        result.train_metrics_clientapp[number] = library("flwr.app").MetricRecord(told)


class _Protocol:
    """One round of Flower's workflow: it asks this object whom to ask for what, and hands it the mean."""

    def __init__(self, workflow: Any, grid: Any, model: Mapping[str, Any], settings: str, number: int) -> None:
        app, names = library("flwr.app"), library("flwr.server.workflow.constant")
        compat = library("flwr.compat.common.recorddict_compat")
        self._workflow, self._grid, self._nodes = workflow, grid, list[int]()
        self._config = {_SETTINGS: settings}
        self._parameters = library("flwr.common").ndarrays_to_parameters(list(model.values()))
        self._state: Any = None
        self._found: Any = None
        state = app.RecordDict()
        state.array_records[names.MAIN_PARAMS_RECORD] = compat.parameters_to_arrayrecord(self._parameters, True)
        state.config_records[names.MAIN_CONFIGS_RECORD] = app.ConfigRecord({str(names.Key.CURRENT_ROUND): number})
        manager = SimpleNamespace(num_available=lambda: len(self._nodes))
        legacy = library("flwr.server.compat.legacy_context").LegacyContext
        self._context = legacy(app.Context(0, 0, {}, state, {}), None, self, manager)

    def agree(self, nodes: list[int], needed: int) -> bool:
        """Share keys among the nodes; those that are lost before all have theirs are left out, and keys shared anew.

        Flower's protocol recovers clients that are lost later. Nothing that depends on data is sent here.
        """
        module = library("flwr.server.workflow.secure_aggregation.secaggplus_workflow")
        while len(nodes) >= max(needed, 2):
            self._nodes, self._state = nodes, module.WorkflowState()
            for stage in (self._workflow.setup_stage, self._workflow.share_keys_stage):
                going_on = stage(self._grid, self._context, self._state)
                left = sorted(self._state.active_node_ids & set(nodes))
                if not going_on or left != nodes:
                    break
            if left == nodes:
                return bool(going_on)
            nodes = left
        return False

    def sum(self) -> Any:
        """Return the weighted mean of the vectors and how many clients it holds; None if too few were left."""
        for stage in (self._workflow.collect_masked_vectors_stage, self._workflow.unmask_stage):
            if not stage(self._grid, self._context, self._state):
                return None
        return self._found

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> list[Any]:
        """Return what each node is sent."""
        asked = library("flwr.common").FitIns(self._parameters, self._config)
        return [(SimpleNamespace(node_id=node), asked) for node in self._nodes]

    def aggregate_fit(self, server_round: int, results: list[Any], failures: list[Any]) -> tuple[None, dict[str, Any]]:
        """Take the mean of those whose vectors are in it."""
        if results:
            (mean,) = library("flwr.common").parameters_to_ndarrays(results[0][1].parameters)
            # mutant: clients-of-a-secure-sum-miscounted
            self._found = SimpleNamespace(mean=mean, clients=len(results))
        return None, {}
