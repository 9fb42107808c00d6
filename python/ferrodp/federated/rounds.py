"""Central placement: a server's rounds, each a step of one plan."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any, Literal, Self

import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._casting import Casting, casting
from ferrodp._base._validate import Real
from ferrodp.errors import FerroError, InvalidParameter, InvalidType
from ferrodp.events import PrivacyEvent
from ferrodp.federated.checkpoints import RoundCheckpoint
from ferrodp.federated.records import Records, RoundRecord
from ferrodp.plan import CorrelatedNoise, PlanRun, PlanStep, PrivacyPlan
from ferrodp.random import NoiseSource
from ferrodp.random.samples import Indices

__all__ = ["FederatedRound", "FederatedRun"]


class FederatedRound:
    """One round: add the clients' updates, then release their noised mean, once. Handed out by `FederatedRun`.

    Attributes
    ----------
    number : int
        From 0.
    clients : ndarray of int64, or None
        Who takes part, in increasing order; None where others choose. *Secret:* amplification by sampling holds for
        those who do not know them.
    clip_norm : float
        Largest L2 norm of what one client adds.
    is_kept : bool
        Whether its sum is complete and was kept by a server that was killed: release it, and ask nobody.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.federated import FederatedRun
    >>> from ferrodp.plan import ConstantNoise, FixedSizeSampling, FlatClipping, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     unit="client",
    ...     population_size=100,
    ...     sampling=FixedSizeSampling(3),
    ...     num_steps=2,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(1.0),
    ... )
    >>> round_ = next(FederatedRun(plan, {"w": np.zeros(4)}))
    >>> round_.add({"w": np.ones(4)})
    >>> round_.add({"w": np.ones(4)}, weight=0.5)
    >>> round_.add_missing(1)
    >>> round_.release()["w"].shape
    (4,)
    """

    __slots__ = ("_casting", "_is_plain", "_run", "_step")

    def __init__(self, run: FederatedRun, step: PlanStep[Any], casting: Casting) -> None:
        self._run, self._step, self._casting = run, step, casting
        self._is_plain = casting.is_plain

    @property
    def number(self) -> int:
        """Number of the round, from 0."""
        return self._step.number

    @property
    def clients(self) -> Indices | None:
        """Who takes part; secret. None where others choose."""
        return self._step.indices

    @property
    def clip_norm(self) -> float:
        """Largest L2 norm of what one client adds."""
        return self._step.clip_norm

    @property
    def is_kept(self) -> bool:
        """Whether its sum is complete, kept by a server that was killed: it takes no more updates."""
        return self._step.is_kept

    def add(self, update: Any, *, weight: Real = 1.0, minus: Any = None) -> None:
        """Add a client's update, clipped.

        Parameters
        ----------
        update : tree of ndarrays
            Like the template. One that holds NaN or infinity counts as zeros, which nobody is told.
        minus : tree of ndarrays, optional
            Like the template: the model that the client was sent, where `update` is the one that it sent back. The
            difference is the update, as for `ClippedSum.add`.
        weight : float
            Multiplies the update *before* it is clipped, so that no weight moves the sum by more than the clip norm;
            finite, ≥ 0.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            If the update does not look like the template, or the weight is not accepted. Nothing was added.
        FerroError
            If the round was released.
        """
        factor = _validate.non_negative("weight", weight)
        if factor == 1.0 and self._is_plain:
            self._step.add_one(update, minus=minus)  # the sum refuses what is not like the template
            return
        vector = self._casting.vector(update)
        base = None if minus is None else self._casting.vector(minus, "minus")
        if factor != 1.0:
            vector, base = self._casting.weighted(vector, factor, base), None
        self._step.add_one(vector, minus=base)

    def add_missing(self, count: int) -> None:
        """Count clients that were drawn and sent nothing as updates of zeros.

        Parameters
        ----------
        count : int
            ≥ 0. Whether a client sends anything must depend on that client alone.

        Raises
        ------
        InvalidParameter, InvalidType
            If `count` is out of its domain.
        FerroError
            If the round was released.
        """
        self._step.add_missing(count)

    def release(self, *, denominator: Real | None = None) -> Any:
        """Return the noised sum of the updates, divided by a public number, and end the round.

        Parameters
        ----------
        denominator : float, optional
            By default the expected number of clients, whoever came: a short round divides by the same number.

        Returns
        -------
        tree of ndarrays
            Like the template, in its dtypes, without the keys that are skipped.

        Raises
        ------
        FerroError, InvalidParameter, InvalidType, BudgetExceeded, TicketError, EntropyError, InvalidArray
            As `PlanStep.release`.
        """
        divisor = self._step.expected_batch_size if denominator is None else denominator
        clip_norm = self.clip_norm
        try:
            released = self._step.release(denominator=divisor)
        except BaseException:
            self._run._note_failure()
            raise
        self._run._note(self.number, self._step.noise_multiplier, clip_norm, float(divisor or 1.0))
        return self._casting.restored(released)


class FederatedRun(Records):
    """The rounds of a server that clips each client's update, sums exactly, and draws the noise once a round.

    The central placement: it protects against everybody but the server. A client may replace its update by anything:
    no round's sum moves by more than the plan says, whatever the weight, the size or the content. A round is reserved
    in the ledger before it is handed out, and its cost spent right before its first random bit. Iteration ends after
    the last round, or before the first one that `max_epsilon` or the ledger's budget does not allow.

    Parameters
    ----------
    plan : PrivacyPlan
        With `unit="client"`.
    template : tree of ndarrays
        What an update looks like, such as the model: arrays in lists, tuples and mappings. Integer arrays are refused
        unless their keys are in `skip`.
    delta : float
        For which `records` state ε; in (0, 1).
    cast : float32 or float64, optional
        What updates are cast to before they are clipped; needed for float16, bfloat16 and mixed templates. Results have
        the dtypes of the template.
    skip : collection of str
        Keys of mappings whose content is no part of the sum, such as ``num_batches_tracked``: a whole key, or what
        follows its last dot.
    max_epsilon : float, optional
        No round begins that would bring ε at `delta` above this; finite, > 0.
    ledger, scope, key, plan_delta, source, noise_file
        As for `PrivacyPlan.start`.
    checkpoint : RoundCheckpoint, optional
        Where the run and the model are kept: a server that was killed goes on with both, and loses no round that was
        paid for. Save the initial model before the first round, and the new one after each. With a ledger it needs a
        `key`; with `CorrelatedNoise` a ledger, a key and a `noise_file`, whose key it keeps, too.

    Attributes
    ----------
    records : tuple of RoundRecord
        One for each round that was released.
    stopped : {None, "finished", "target", "budget"}
        Why iteration ended: after the last round, or before one that `max_epsilon` or the ledger does not allow. None
        before.

    Raises
    ------
    InvalidParameter, InvalidType, InvalidArray, InvalidArrayType, UnsupportedEventError
        If a parameter is not accepted. Nothing was charged.

    Notes
    -----
    ==============================  ====================================================================
    update of zeros                 counts like any other
    NaN or infinity in an update    the whole update counts as zeros
    0-dimensional arrays            coordinates like others
    integer arrays                  refused, or left out by key
    a client that sends nothing     `add_missing`: the denominator stays
    counts, norms, shares clipped   are not told
    ==============================  ====================================================================

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.federated import FederatedRun
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     unit="client",
    ...     population_size=1000,
    ...     sampling=PoissonSampling(0.05),
    ...     num_steps=3,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(1.0),
    ... )
    >>> model = {"w": np.zeros(4, np.float16), "b": np.zeros((), np.float32), "steps": np.array(7)}
    >>> with FederatedRun(plan, model, delta=1e-5, cast="float32", skip={"steps"}) as run:
    ...     for round_ in run:
    ...         for client in round_.clients:
    ...             round_.add({"w": np.ones(4, np.float16), "b": np.float32(0.5), "steps": np.array(8)})
    ...         change = round_.release()
    >>> sorted(change), change["w"].dtype, run.stopped
    (['b', 'w'], dtype('float16'), 'finished')
    >>> run.records[-1].epsilon == plan.epsilon(1e-5), len(run.to_csv().splitlines()), run.to_json()[:15]
    (True, 4, '[{"round": 0, "')
    >>> run.close()

    With a checkpoint, the model is saved before the first round and after each:

    >>> import pathlib, tempfile
    >>> from ferrodp.federated import RoundCheckpoint
    >>> with tempfile.TemporaryDirectory() as folder, RoundCheckpoint(pathlib.Path(folder, "training")) as kept:
    ...     run = FederatedRun(plan, {"w": np.zeros(4)}, checkpoint=kept)
    ...     run.save({"w": np.zeros(4)})
    """

    __slots__ = ("_casting", "_checkpoint", "_has_failed", "_is_unsaved", "_key", "_over_target", "_run")

    def __init__(
        self,
        plan: PrivacyPlan,
        template: Any,
        *,
        delta: Real = 1e-5,
        cast: npt.DTypeLike | None = None,
        skip: Collection[str] = (),
        max_epsilon: Real | None = None,
        ledger: Any = None,
        scope: str | Sequence[str] | None = None,
        key: str | None = None,
        plan_delta: Real | None = None,
        source: NoiseSource | None = None,
        checkpoint: RoundCheckpoint | None = None,
        noise_file: str | os.PathLike[str] | None = None,
    ) -> None:
        if not isinstance(plan, PrivacyPlan):
            raise InvalidType(f"plan must be a PrivacyPlan, got {type(plan).__name__}")
        # mutant: records-taken-for-clients
        if plan.unit != "client":
            raise InvalidParameter('plan must have unit="client": what is added here is the update of a client')
        super().__init__(delta, max_epsilon)
        planned = None if plan_delta is None else _validate.delta(plan_delta, name="plan_delta")
        self._over_target = False
        self._casting = casting(template, cast, skip)
        template = self._casting.template
        payment = {"ledger": ledger, "scope": scope, "source": source}
        # mutant: noise-file-made-before-a-checkpoint-is-refused
        if checkpoint is not None and isinstance(plan.noise, CorrelatedNoise) and None in (ledger, key, noise_file):
            raise InvalidParameter(
                "a checkpoint needs a ledger, a key and a noise_file with CorrelatedNoise: its rounds share one stream "
                "of noise, and the ledger alone knows which were drawn; for example ledger=ledger, scope='app', "
                "key='training', noise_file='training.noise'"
            )
        self._checkpoint, self._key = checkpoint, key
        self._is_unsaved = checkpoint is not None and checkpoint.run is None
        self._has_failed = False
        if checkpoint is None or checkpoint.run is None:
            if checkpoint is not None:
                _check_key(checkpoint, ledger, key)
            self._run = plan.start(template, key=key, plan_delta=planned, noise_file=noise_file, **payment)
        else:
            self._run = self._gone_on(plan, checkpoint, template, planned, payment)
        if checkpoint is not None:
            self._run.keep_sums(checkpoint.keep, checkpoint.kept)

    def _gone_on(
        self,
        plan: PrivacyPlan,
        checkpoint: RoundCheckpoint,
        template: Any,
        planned: float | None,
        payment: dict[str, Any],
    ) -> PlanRun[Any]:
        """Return the run that goes on where the checkpoint was saved."""
        saved = checkpoint.run
        assert saved is not None
        _check_key(checkpoint, payment["ledger"], self._key)
        wanted = {"plan": plan.fingerprint, "key": self._key, "plan_delta": planned}
        # mutant: checkpoint-of-another-training-taken
        for name, value in wanted.items():
            if saved[name] != value:
                raise InvalidParameter(
                    f"checkpoint must be that of this training, and {str(checkpoint.path)!r} is of another {name}; "
                    "each training has a file of its own"
                )
        run = PlanRun.from_state(saved["state"].encode(), template, **payment)
        self._records.extend(RoundRecord(**record) for record in saved["records"])
        beyond = run.step_number - saved["next_step"] - (checkpoint.kept is not None)
        if beyond > 0:
            warnings.warn(
                f"{beyond} rounds are paid for and not in the checkpoint: they are left out, since whatever was "
                "released of them is not known here",
                stacklevel=4,
            )
        return run

    def save(self, arrays: Mapping[str, npt.NDArray[Any]], *, notes: Mapping[str, Any] | None = None) -> None:
        """Write the model and the run to the checkpoint: before the first round, and after each that was released.

        A round counts as done when this returns; publish nothing of it before. What was released may be released again
        until then, and only as the same numbers.

        Parameters
        ----------
        arrays : mapping of str to ndarray
            The model, of any dtypes.
        notes : mapping, optional
            Plain JSON data to keep with it.

        Raises
        ------
        FerroError
            Without a checkpoint, or if a round was handed out and not released.
        InvalidParameter, InvalidType, OSError
            As `RoundCheckpoint.save`.
        """
        if self._checkpoint is None:
            raise FerroError("the run has no checkpoint: start it with checkpoint=RoundCheckpoint(path)")
        # mutant: round-whose-release-failed-saved-as-done
        if self._has_failed:
            raise FerroError("the release of a round failed after it was paid for: start again, the checkpoint has it")
        if self._run.current is not None:
            raise FerroError(f"round {self._run.current.number} must be released before the model after it is saved")
        state = self._run.state()
        planned = json.loads(state).get("plan_delta")
        about = {
            "name": json.loads(state)["run"],
            "key": self._key,
            "plan": self._run.plan.fingerprint,
            "plan_delta": None if planned is None else float.fromhex(planned),
            "next_step": self._run.step_number,
            "state": state.decode(),
            "records": [asdict(record) for record in self._records],
        }
        self._checkpoint.save(about, arrays, {} if notes is None else notes)
        self._is_unsaved = False

    @property
    def plan(self) -> Any:
        """What is run."""
        return self._run.plan

    @property
    def event(self) -> PrivacyEvent:
        """What was charged for rounds that were released, or whose release began; `NonPrivateEvent` if seeded."""
        return self._run.event

    @property
    def round_number(self) -> int:
        """Number of the next round, from 0: how many were released or left out."""
        return self._run.step_number

    @property
    def stopped(self) -> Literal["finished", "target", "budget"] | None:
        """Why iteration ended; None before."""
        return "target" if self._over_target else self._run.stopped

    def __iter__(self) -> Iterator[FederatedRound]:
        return self

    def __next__(self) -> FederatedRound:
        run = self._run
        expected = run.step_number
        # mutant: round-begun-before-the-last-one-is-saved
        if self._is_unsaved:
            raise FerroError(
                "save the model before the next round begins, the initial one before the first: call save(arrays)"
            )
        if run.current is None and self._beyond(expected):
            raise StopIteration
        step = next(run)
        # Another process with this key may have gone on in between: its rounds are paid for, and left out.
        if step.number != expected and self._beyond(step.number):
            run.close()
            raise StopIteration
        return FederatedRound(self, step, self._casting)

    def _note(self, number: int, multiplier: float, clip_norm: float, denominator: float) -> None:
        self._is_unsaved = self._checkpoint is not None
        super()._note(number, multiplier, clip_norm, denominator)

    def _note_failure(self) -> None:
        """Note that a release failed; if its step was paid for, only another process can repeat it."""
        if self._checkpoint is not None and self._run.current is None:
            self._is_unsaved = self._has_failed = True

    def _beyond(self, number: int) -> bool:
        """Return whether a round would bring ε above the target."""
        if self._max_epsilon is not None and number < self._run.plan.num_steps:
            # mutant: federated-round-beyond-the-target
            self._over_target = self._run.plan.epsilon_after(number + 1, self._delta) > self._max_epsilon
        return self._over_target

    def close(self) -> None:
        """End the run: a round that is reserved and was not released is given back to the ledger."""
        self._run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run.__exit__(kind, error, trace)


def _check_key(checkpoint: RoundCheckpoint, ledger: Any, key: str | None) -> None:
    # mutant: checkpoint-of-a-training-without-a-name
    if ledger is not None and key is None:
        raise InvalidParameter(
            f"key must be given with a ledger and the checkpoint {str(checkpoint.path)!r}: it names the charges of "
            "this training, which a server that starts again has to find; for example key='training-1'"
        )
