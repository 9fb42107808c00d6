"""The filter of a site: its update is clipped and noised before it leaves."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from ferrodp._base import _casting, _validate
from ferrodp._base._validate import Real
from ferrodp.budget import PrivacyLedger
from ferrodp.errors import BudgetExceeded, FerroError, InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation
from ferrodp.federated import FederatedRound, FederatedRun, RoundRecord
from ferrodp.integrations.nvflare._library import as_component, module
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan

__all__ = ["GaussianUpdateFilter"]

_JOB_LEDGER, _JOB_SCOPE = "ferrodp-budget.db", "job"
_NOT_BEGUN = FerroError("the round was not begun; the log of this site says why")
_ENDED = FerroError("the job of this filter has ended")


class GaussianUpdateFilter:
    """Clip the update of a site and add Gaussian noise, within a privacy budget: a `DXOFilter` of NVFlare.

    The guarantee protects all data of the site against everybody who sees what leaves it, the server included: whatever
    the site trains on, and with whatever code, its answers to all rounds together are (ε, δ)-indistinguishable from
    those it would give with any other data. A result of kind ``WEIGHT_DIFF`` is clipped and noised; of one of kind
    ``WEIGHTS``, the difference from the model that the server sent. The rounds are steps of a `PrivacyPlan`.

    Parameters
    ----------
    clip_norm : float
        The bound on the L2 norm of an update, over all arrays together; finite, > 0.
    delta : float
        For which ε is stated; in (0, 1).
    rounds : int
        How many updates the site releases, at most.
    noise_multiplier : float, optional
        Standard deviation of the noise in each coordinate, divided by `clip_norm`; finite, > 0. Two updates are up to
        two clip norms apart, so each costs what a Gaussian mechanism of half this multiplier does. By default the least
        for which all rounds keep `target_epsilon`.
    target_epsilon : float, optional
        No round begins that would bring ε above this; finite, > 0.
    ledger : str, PathLike or PrivacyLedger, optional
        The budget that pays. The file of a ledger, which must exist; if relative, in the workspace of the site. By
        default a ledger of this job alone, in its folder.
    scope : str or sequence of str, optional
        What is charged in `ledger`, with the neighboring relation ``REPLACE_ONE``; needed with it.
    key : str, optional
        Names the training in the ledger; by default the id of the job. A site that was killed goes on after the last
        round that was charged under it.
    plan_delta : float, optional
        Charges all rounds as one (ε, δ) before the first, as for `PrivacyPlan.start`.
    on_exhausted : {"abort", "refuse"}
        What happens before a round that the budget does not allow. "abort" ends the job at this site. With "refuse" its
        tasks are answered with an error, and the job goes on as its workflow says.
    tasks : sequence of str
        Tasks that are rounds, before which the budget is asked. Every result that reaches the filter is filtered,
        whatever its task.
    skip : sequence of str
        Names of arrays that are not trained, such as counters: in ``WEIGHTS`` they get the server's value, in
        ``WEIGHT_DIFF`` they are left out. Others must be floats.
    csv : str or PathLike, optional
        A file, to which each round appends a `RoundRecord`; if relative, in the folder of the job. None for no file.

    Raises
    ------
    InvalidParameter, InvalidType
        If an argument is not accepted.
    CalibrationError
        If no noise is proven to keep `target_epsilon`.
    MissingPackage
        If NVFlare is not installed.

    Notes
    -----
    ==================================  ======================================================================
    NaN, infinity, huge updates         zeros; clipped
    a result that is no update          an error is raised, from which NVFlare makes an error reply without data
    an error reply of the executor      its return code alone is sent on
    metadata and headers of a result    dropped: numbers of steps and metrics are statistics without noise
    ``NUM_STEPS_CURRENT_ROUND``         1 for every site: weights are equal
    a result that was encrypted         refused: noise comes before encryption
    a site that restarts                rounds that were charged are left out, by the ledger
    ==================================  ======================================================================

    The metadata of a result has, under ``"ferrodp"``, the fields of its `RoundRecord`, and the file `csv` has a line of
    them. Nothing else is written, no log line has a number that depends on data, and nothing is sent anywhere.

    Examples
    --------
    >>> private = GaussianUpdateFilter(clip_norm=1.0, target_epsilon=4.0, delta=1e-5, rounds=10)
    >>> round(private.plan.noise.noise_multiplier, 2), private.plan.epsilon(1e-5) <= 4.0
    (6.84, True)
    >>> class Patched:  # an executor's or a workflow's own hooks, where it replaces parts of NVFlare
    ...     def __init__(self):
    ...         self.filter = private
    ...
    ...     def handle_event(self, event, context):
    ...         self.filter.handle_event(event, context)
    ...
    ...     def send(self, result, context):
    ...         return self.filter.process(result, context)
    ...
    ...     def send_exchange(self, exchange, result, context):
    ...         return self.filter.process_dxo(exchange, result, context)
    >>> private.records, private.epsilon
    ((), 0.0)
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Return an instance that NVFlare takes for a `DXOFilter`, without asking for NVFlare before."""
        made: Self = object.__new__(as_component(cls, "nvflare.apis.dxo_filter", "DXOFilter"))  # type: ignore[arg-type]  # classes have hashes
        return made

    def __init__(
        self,
        clip_norm: Real,
        delta: Real,
        rounds: int,
        noise_multiplier: Real | None = None,
        target_epsilon: Real | None = None,
        ledger: str | os.PathLike[str] | PrivacyLedger | None = None,
        scope: str | Sequence[str] | None = None,
        key: str | None = None,
        plan_delta: Real | None = None,
        on_exhausted: Literal["abort", "refuse"] = "abort",
        tasks: Sequence[str] = ("train",),
        skip: Sequence[str] = (),
        csv: str | os.PathLike[str] | None = "ferrodp-rounds.csv",
    ) -> None:
        kinds = [str(kind) for kind in _update_kinds()]
        module("nvflare.apis.dxo_filter").DXOFilter.__init__(self, kinds, kinds)
        if noise_multiplier is None and target_epsilon is None:
            raise InvalidParameter(
                "noise_multiplier or target_epsilon must be given, got neither; for example noise_multiplier=1.1"
            )
        if (ledger is None) != (scope is None):
            missing = "scope='trainings'" if scope is None else "ledger='budget.db'"
            raise InvalidParameter(f"ledger and scope must be given together, got one of them; add {missing}")
        _validate.count("rounds", rounds)
        if target_epsilon is not None:
            _validate.positive("target_epsilon", target_epsilon)
        if on_exhausted not in ("abort", "refuse"):
            raise _validate.out_of_domain("on_exhausted", '"abort" or "refuse"', on_exhausted)
        for name, names in {"tasks": tasks, "skip": skip}.items():
            if isinstance(names, str) or not all(isinstance(each, str) for each in names):
                raise InvalidType(
                    f"{name} must be a sequence of names, got {type(names).__name__}; for example {name}=['train']"
                )
        # Under the names of the parameters: NVFlare's job API writes a configuration from them.
        self.clip_norm, self.delta, self.rounds = clip_norm, _validate.delta(delta), rounds
        self.noise_multiplier, self.target_epsilon = noise_multiplier, target_epsilon
        if plan_delta is not None and ledger is None:
            raise InvalidParameter("plan_delta must be None without a ledger: the job's own has room for all rounds")
        self.ledger, self.scope, self.key = ledger, scope, key
        self.plan_delta = None if plan_delta is None else _validate.delta(plan_delta, name="plan_delta")
        self.on_exhausted, self.tasks, self.skip, self.csv = on_exhausted, tuple(tasks), tuple(skip), csv
        plan = PrivacyPlan(
            unit="client",
            population_size=1,
            sampling=FullBatch(),
            num_steps=rounds,
            clipping=FlatClipping(clip_norm),  # type: ignore[arg-type]  # checks it
            noise=ConstantNoise(1.0 if noise_multiplier is None else noise_multiplier),  # type: ignore[arg-type]
            # mutant: site-protected-against-absence-alone
            neighboring_relation=NeighboringRelation.REPLACE_ONE,
        )
        if noise_multiplier is None and target_epsilon is not None:
            plan = plan.calibrated(epsilon=target_epsilon, delta=self.delta)
        self._plan = plan
        self._run: FederatedRun | None = None
        self._round: FederatedRound | None = None
        self._casting: _casting.Casting | None = None
        self._opened: PrivacyLedger | None = None
        self._base: dict[str, npt.NDArray[Any]] | None = None
        self._public: dict[str, Any] = {}
        self._refusal: FerroError | None = None

    @property
    def plan(self) -> PrivacyPlan:
        """What is run: one step for each update that leaves the site."""
        return self._plan

    @property
    def records(self) -> tuple[RoundRecord, ...]:
        """What was released since the filter was made."""
        return () if self._run is None else self._run.records

    @property
    def epsilon(self) -> float:
        """Upper bound on ε, at `delta`, of what was released so far under this key."""
        return 0.0 if self._run is None else self._run.epsilon(self.delta)

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Reserve a round before its task is executed, or refuse it; end the run with the job.

        Parameters
        ----------
        event_type, fl_ctx
            As for every component of NVFlare.

        Raises
        ------
        InvalidParameter, InvalidType, InvalidArray, InvalidArrayType, FerroError
            If the model that the server sent or the ledger does not fit. NVFlare logs it; the result of the task is
            refused then.
        """
        events = module("nvflare.apis.event_type").EventType
        keys = module("nvflare.apis.fl_constant").FLContextKey
        if event_type == events.BEFORE_TASK_EXECUTION and fl_ctx.get_prop(keys.TASK_NAME) in self.tasks:
            self._begin(fl_ctx.get_prop(keys.TASK_DATA), fl_ctx)
        elif event_type == events.END_RUN:
            self._end()

    def process(self, shareable: Any, fl_ctx: Any) -> Any:
        """Return a result whose content is the noised update and nothing else.

        Parameters
        ----------
        shareable : nvflare.apis.shareable.Shareable
            What the executor returned.
        fl_ctx : nvflare.apis.fl_context.FLContext
            As for every filter.

        Returns
        -------
        nvflare.apis.shareable.Shareable

        Raises
        ------
        InvalidParameter, InvalidType, InvalidArray, InvalidArrayType
            If the result is not one update like the model. Nothing was charged.
        BudgetExceeded
            If the budget does not allow the round. Nothing was drawn.
        FerroError
            As `FederatedRound.release`.
        """
        shareables = module("nvflare.apis.shareable")
        code = shareable.get_return_code()
        if code != module("nvflare.apis.fl_constant").ReturnCode.OK:
            return shareables.make_reply(code)
        exchanges = module("nvflare.apis.dxo")
        try:
            exchange = exchanges.from_shareable(shareable)
        except ValueError:
            exchange = None
        # mutant: result-that-is-no-update-leaves
        if exchange is None:
            raise InvalidType("the result must be one DXO with the update")
        result = self.process_dxo(exchange, shareable, fl_ctx)
        result.add_filter_history(type(self).__name__)
        reply = result.to_shareable()
        for name, value in self._public.items():
            reply.set_header(name, value)
        return reply

    def process_dxo(self, dxo: Any, shareable: Any, fl_ctx: Any) -> Any:
        """Return the noised update.

        Parameters
        ----------
        dxo : nvflare.apis.dxo.DXO
            Of kind ``WEIGHT_DIFF`` or ``WEIGHTS``.
        shareable, fl_ctx
            As for every filter.

        Returns
        -------
        nvflare.apis.dxo.DXO
            Of the same kind.

        Raises
        ------
        InvalidParameter, InvalidType, InvalidArray, InvalidArrayType, BudgetExceeded, FerroError
            As for `process`.
        """
        exchanges = module("nvflare.apis.dxo")
        kinds, meta = exchanges.DataKind, exchanges.MetaKey
        if dxo.data_kind not in (kinds.WEIGHT_DIFF, kinds.WEIGHTS):
            raise InvalidParameter(f"the result must be of kind WEIGHT_DIFF or WEIGHTS, got {dxo.data_kind}")
        if dxo.get_meta_prop(meta.PROCESSED_ALGORITHM) is not None:
            raise InvalidParameter("the result must not be encrypted or compressed: noise comes first")
        whole = dxo.data_kind == kinds.WEIGHTS
        if whole and self._base is None:
            raise InvalidParameter("WEIGHTS need the model that the server sent: return WEIGHT_DIFF, or list the task")
        if self._refusal is None and self._round is None:
            self._start(dxo.data, fl_ctx)  # of a task that was not announced
        # mutant: result-leaves-after-a-refusal
        if self._refusal is not None:
            raise self._refusal
        released, record = self._released(dxo.data, whole)
        result = exchanges.DXO(dxo.data_kind, released)
        result.set_meta_prop(meta.NUM_STEPS_CURRENT_ROUND, 1)
        result.set_meta_prop("ferrodp", dataclasses.asdict(record))
        if self.csv is not None:
            record.append_to(self._folder(fl_ctx) / self.csv)
        # mypy does not know what `__new__` adds.
        component: Any = self
        spent = f"epsilon {record.epsilon:.6f} at delta {self.delta:g}"
        component.log_info(fl_ctx, f"released update {record.round}: {spent}")
        return result

    def _released(self, sent: Any, whole: bool) -> tuple[dict[str, Any], RoundRecord]:
        """Clip and noise an update, or the difference that a model makes."""
        casting, run, current = self._casting, self._run, self._round
        assert casting is not None
        assert run is not None
        assert current is not None
        base = casting.cast(self._base, "model") if whole else None
        current.add(casting.cast(sent, "sent"), minus=base)
        self._round = None
        change = current.release(denominator=1)
        if not whole or self._base is None:
            return casting.restored(change), run.records[-1]
        return {**self._base, **casting.moved(self._base, change)}, run.records[-1]

    def _begin(self, shareable: Any, fl_ctx: Any) -> None:
        """Reserve a round for a task, or refuse it; remember the model that the server sent, and its round."""
        exchanges = module("nvflare.apis.dxo")
        headers = module("nvflare.app_common.app_constant").AppConstants
        if self._refusal is _ENDED:
            return
        self._base, self._refusal = None, _NOT_BEGUN
        found = {name: shareable.get_header(name) for name in (headers.CURRENT_ROUND, headers.NUM_ROUNDS)}
        self._public = {name: value for name, value in found.items() if isinstance(value, int)}
        try:
            exchange = exchanges.from_shareable(shareable)
        except ValueError:
            exchange = None
        if exchange is not None and exchange.data_kind == exchanges.DataKind.WEIGHTS and exchange.data:
            # Copied: trainers may write to the arrays that they get.
            self._base = {name: np.array(value) for name, value in exchange.data.items()}
        self._refusal = None
        if self._round is None and (self._base is not None or self._run is not None):
            self._start(self._base, fl_ctx)

    def _start(self, model: Any, fl_ctx: Any) -> None:
        """Take the next round of the plan, whose run begins with the first; refuse it if there is none."""
        self._refusal = _NOT_BEGUN
        if self._run is None:
            self._casting = _casting.casting(model, _casting.widest(model, self.skip), self.skip)
            ledger, scope = self._payment(fl_ctx)
            self._run = FederatedRun(
                self._plan,
                self._casting.template,
                delta=self.delta,
                max_epsilon=self.target_epsilon,
                ledger=ledger,
                scope=scope,
                key=self.key or str(fl_ctx.get_job_id()),
                plan_delta=self.plan_delta,
            )
        self._round = next(self._run, None)
        self._refusal = None
        if self._round is None:
            reason = {"finished": "all rounds were released", "target": "target_epsilon"}.get(
                str(self._run.stopped), "the ledger's budget"
            )
            said = f"the privacy budget of this site allows no further round: {reason}"
            self._refusal = BudgetExceeded(said)
            component: Any = self
            component.log_info(fl_ctx, said)
            if self.on_exhausted == "abort":
                component.system_panic(said, fl_ctx)

    def _payment(self, fl_ctx: Any) -> tuple[PrivacyLedger, str | Sequence[str]]:
        """Return the ledger that pays, and its scope; without one given, the job's own."""
        if isinstance(self.ledger, PrivacyLedger):
            assert self.scope is not None
            return self.ledger, self.scope
        if self.ledger is not None and self.scope is not None:
            root = Path(fl_ctx.get_engine().get_workspace().get_root_dir())
            self._opened = PrivacyLedger.open(root / self.ledger, create=False)
            return self._opened, self.scope
        self._opened = PrivacyLedger.open(self._folder(fl_ctx) / _JOB_LEDGER)
        if _JOB_SCOPE not in self._opened.scopes:
            # Room for all rounds: the plan says how many there are, and `target_epsilon` where they end.
            self._opened.create(
                _JOB_SCOPE,
                epsilon=1.01 * self._plan.epsilon(self.delta),
                delta=self.delta,
                measure="gdp",
                neighboring_relation=NeighboringRelation.REPLACE_ONE,
            )
        return self._opened, _JOB_SCOPE

    def _folder(self, fl_ctx: Any) -> Path:
        folder = Path(fl_ctx.get_engine().get_workspace().get_run_dir(fl_ctx.get_job_id()))
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _end(self) -> None:
        if self._run is not None:
            self._run.close()
        if self._opened is not None:
            self._opened.close()
        self._round = self._opened = self._base = None
        self._refusal = _ENDED

    def __repr__(self) -> str:
        return f"GaussianUpdateFilter(clip_norm={self.clip_norm!r}, epsilon={self.epsilon:.4g} at delta={self.delta:g})"


def _update_kinds() -> list[Any]:
    kinds = module("nvflare.apis.dxo").DataKind
    return [kinds.WEIGHT_DIFF, kinds.WEIGHTS]
