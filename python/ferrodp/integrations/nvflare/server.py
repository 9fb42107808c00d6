"""The workflow of a server: rounds of a plan, of which one noised mean each is released."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from ferrodp._base import _casting, _validate
from ferrodp._base._validate import Real
from ferrodp.budget import PrivacyLedger
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.federated import FederatedRound, FederatedRun, RoundCheckpoint, RoundRecord
from ferrodp.integrations.nvflare._library import as_component, module
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PoissonSampling, PrivacyPlan

__all__ = ["PrivateFedAvg"]


class PrivateFedAvg:
    """Federated averaging whose rounds release one noised mean of clipped updates each: a `ModelController` of NVFlare.

    The guarantee protects each site against everybody but the server, the other sites included: all models together are
    (ε, δ)-indistinguishable from those of a training in which the site takes no part. A round is a step of a
    `PrivacyPlan`: the ledger is asked before sites are, the plan draws who takes part, each result is clipped and added
    as integers, and the noised mean moves the model.

    Parameters
    ----------
    num_clients : int
        The public number of sites; more are refused.
    clip_norm : float
        The bound on the L2 norm of an update, over all arrays together; finite, > 0.
    delta : float
        For which ε is stated; in (0, 1).
    rounds : int
        How many rounds there are, at most.
    noise_multiplier : float, optional
        Standard deviation of the noise in each coordinate of the sum, divided by `clip_norm`; finite, > 0. By default
        the least for which all rounds keep `target_epsilon`.
    target_epsilon : float, optional
        No round begins that would bring ε above this; finite, > 0.
    sampling_probability : float
        With which each site takes part in a round, by itself; in (0, 1].
    checkpoint : str or PathLike, optional
        A file for the model, the round, the clip norm and the accountant, written after each round; if relative, in the
        workspace of the server. A server that was killed and starts again with it goes on after the last round that was
        written, and releases one that was paid for without another charge: `ferrodp.federated.RoundCheckpoint` has the
        rules. With a ledger it needs a `key`.
    ledger : str, PathLike or PrivacyLedger, optional
        The file of a ledger, which must exist; if relative, in the workspace of the server.
    scope : str or sequence of str, optional
        What is charged in `ledger`; needed with it.
    key : str, optional
        Names the training in the ledger.
    plan_delta : float, optional
        Charges all rounds as one (ε, δ) before the first, as for `PrivacyPlan.start`.
    on_exhausted : {"end", "fail"}
        What happens before a round that the budget does not allow: the workflow ends with the model that there is, or
        the job fails, with a message.
    skip : sequence of str
        Names of arrays that are not trained, such as counters: they keep the server's value. Others must be floats.
    csv : str or PathLike, optional
        A file, to which each round appends its `RoundRecord`; if relative, in the folder of the job. None for no file.
    task_name : str
        What sites are asked to do.
    timeout : int
        Seconds to wait for the results of a round; 0 for no limit. Later ones count as zeros.
    persistor_id : str
        The component of the job that loads the initial model and saves the newest one.

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
    ===================================  =======================================================================
    a result with an error, or none      the site counts as zeros; the denominator stays
    a result that comes after its round  dropped: it counted as zeros
    NaN, infinity, huge updates          zeros; clipped
    other names, shapes or dtypes        zeros: a site cannot stop a round, or move it by more than the bound
    two results of one site              the first counts
    weights, metrics, metadata           dropped: each update counts once, whatever its number of steps
    an aborted job                       the round that was reserved is given back
    ===================================  =======================================================================

    Other components of the server see results before they are clipped, as events of NVFlare; the server is trusted with
    them here. For sites that do not trust it: `GaussianUpdateFilter`.

    Examples
    --------
    >>> workflow = PrivateFedAvg(num_clients=100, clip_norm=1.0, delta=1e-5, rounds=20, target_epsilon=4.0)
    >>> round(workflow.plan.noise.noise_multiplier, 2), workflow.plan.epsilon(1e-5) <= 4.0
    (4.84, True)
    >>> workflow.records, workflow.epsilon
    ((), 0.0)
    >>> class Watched(PrivateFedAvg):  # NVFlare calls `run`; what it raises ends the job with a message
    ...     def run(self):
    ...         super().run()
    ...         print(self.epsilon)
    ...
    ...     def process_result_of_unknown_task(self, client, task_name, task_id, result, context):
    ...         print("late")
    ...         super().process_result_of_unknown_task(client, task_name, task_id, result, context)
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Return an instance that NVFlare takes for a `ModelController`, without asking for NVFlare before."""
        made: Self = object.__new__(as_component(cls, _WORKFLOWS, "ModelController"))  # type: ignore[arg-type]  # classes have hashes
        return made

    def __init__(
        self,
        num_clients: int,
        clip_norm: Real,
        delta: Real,
        rounds: int,
        noise_multiplier: Real | None = None,
        target_epsilon: Real | None = None,
        sampling_probability: Real = 1.0,
        checkpoint: str | os.PathLike[str] | None = None,
        ledger: str | os.PathLike[str] | PrivacyLedger | None = None,
        scope: str | Sequence[str] | None = None,
        key: str | None = None,
        plan_delta: Real | None = None,
        on_exhausted: Literal["end", "fail"] = "end",
        skip: Sequence[str] = (),
        csv: str | os.PathLike[str] | None = "ferrodp-rounds.csv",
        task_name: str = "train",
        timeout: int = 0,
        persistor_id: str = "persistor",
    ) -> None:
        controller = module(_WORKFLOWS).ModelController
        controller.__init__(self, persistor_id=persistor_id, ignore_result_error=True)
        if noise_multiplier is None and target_epsilon is None:
            raise InvalidParameter(
                "noise_multiplier or target_epsilon must be given, got neither; for example noise_multiplier=1.1"
            )
        if (ledger is None) != (scope is None):
            missing = "scope='trainings'" if scope is None else "ledger='budget.db'"
            raise InvalidParameter(f"ledger and scope must be given together, got one of them; add {missing}")
        if checkpoint is not None and ledger is not None and key is None:
            raise InvalidParameter(
                "key must be given with a ledger and a checkpoint: it names the charges of this training, which a "
                "server that starts again has to find; for example key='training-1'"
            )
        _validate.count("num_clients", num_clients)
        _validate.count("rounds", rounds)
        if target_epsilon is not None:
            _validate.positive("target_epsilon", target_epsilon)
        if on_exhausted not in ("end", "fail"):
            raise _validate.out_of_domain("on_exhausted", '"end" or "fail"', on_exhausted)
        if isinstance(skip, str) or not all(isinstance(each, str) for each in skip):
            raise InvalidType(f"skip must be a sequence of names, got {type(skip).__name__}; for example skip=['bias']")
        for name, value in {"task_name": task_name, "persistor_id": persistor_id}.items():
            if not isinstance(value, str):
                raise InvalidType(f"{name} must be a name, got {type(value).__name__}; for example {name}='train'")
        # Under the names of the parameters: NVFlare's job API writes a configuration from them.
        self.num_clients, self.clip_norm, self.delta, self.rounds = num_clients, clip_norm, delta, rounds
        self.noise_multiplier, self.target_epsilon = noise_multiplier, target_epsilon
        self.sampling_probability, self.on_exhausted = sampling_probability, on_exhausted
        self.checkpoint, self.ledger, self.scope, self.key = checkpoint, ledger, scope, key
        self.plan_delta, self.skip, self.csv, self.task_name = plan_delta, tuple(skip), csv, task_name
        self.timeout, self.persistor_id = int(_validate.non_negative("timeout", timeout)), persistor_id
        _validate.delta(delta)
        plan = PrivacyPlan(
            unit="client",
            population_size=num_clients,
            sampling=FullBatch() if sampling_probability == 1 else PoissonSampling(sampling_probability),  # type: ignore[arg-type]
            num_steps=rounds,
            clipping=FlatClipping(clip_norm),  # type: ignore[arg-type]  # checks it
            noise=ConstantNoise(1.0 if noise_multiplier is None else noise_multiplier),  # type: ignore[arg-type]
        )
        if noise_multiplier is None and target_epsilon is not None:
            plan = plan.calibrated(epsilon=target_epsilon, delta=delta)
        self._plan = plan
        self._rounds: FederatedRun | None = None
        self._lock = threading.Lock()
        self._current: FederatedRound | None = None  # whose results are being added
        self._waiting: set[str] = set()
        self._failure: BaseException | None = None
        self._base: Any = None
        self._casting: _casting.Casting | None = None

    @property
    def plan(self) -> PrivacyPlan:
        """What is run."""
        return self._plan

    @property
    def records(self) -> tuple[RoundRecord, ...]:
        """What may be told of each round that was released, since the workflow was made or its checkpoint began."""
        return () if self._rounds is None else self._rounds.records

    @property
    def epsilon(self) -> float:
        """Upper bound on ε, at `delta`, of the rounds so far."""
        return 0.0 if self._rounds is None else self._rounds.epsilon(self.delta)

    def run(self) -> None:
        """Run the rounds, until the plan or the budget ends or the job is aborted: NVFlare calls it.

        Raises
        ------
        InvalidParameter, InvalidType, InvalidArray, InvalidArrayType, FerroError
            If the model, the sites, the ledger or the checkpoint do not fit. NVFlare ends the job with the message.
        """
        component: Any = self  # mypy does not know what `__new__` adds
        root = Path(component.engine.get_workspace().get_root_dir())
        with contextlib.ExitStack() as stack:
            kept = None if self.checkpoint is None else stack.enter_context(RoundCheckpoint(root / self.checkpoint))
            ledger = self.ledger
            if ledger is not None and not isinstance(ledger, PrivacyLedger):
                ledger = stack.enter_context(PrivacyLedger.open(root / ledger, create=False))
            loaded = component.load_model()
            if loaded is None:
                return
            is_new = kept is None or kept.arrays is None
            model: dict[str, npt.NDArray[Any]] = {name: np.asarray(value) for name, value in loaded.params.items()}
            if kept is not None and kept.arrays is not None:
                model = dict(kept.arrays)
            names: list[str] = [] if kept is None or is_new else list(kept.notes["clients"])
            cast_as = self._casting = _casting.casting(model, _casting.widest(model, self.skip), self.skip)
            self._rounds = run = FederatedRun(
                self._plan,
                cast_as.template,
                delta=self.delta,
                max_epsilon=self.target_epsilon,
                ledger=ledger,
                scope=self.scope,
                key=self.key,
                plan_delta=self.plan_delta,
                checkpoint=kept,
            )
            stack.enter_context(run)
            if kept is not None and is_new:
                run.save(model, notes={"clients": names})
            elif kept is not None:
                component.info(f"going on after round {run.round_number}, with the model of the checkpoint")
                self._keep(loaded, model)  # the workspace may be new
                self._report()
            for current in run:
                if not self._collect(current, loaded, model, names):
                    return
                change = current.release()
                model = {**model, **cast_as.moved(model, change)}
                # mutant: nvflare-model-shown-before-it-is-saved
                if kept is not None:
                    run.save(model, notes={"clients": names})
                self._keep(loaded, model)
                self._report()
            self._end(run)

    def _collect(self, current: FederatedRound, loaded: Any, model: dict[str, Any], names: list[str]) -> bool:
        """Ask the sites that were drawn, and add what they answer; return whether the job goes on."""
        component: Any = self
        assert self._casting is not None
        if current.clients is None:  # complete, kept by a server that was killed
            return True
        drawn = set(current.clients.tolist())
        asked = [name for name in self._connected(names) if names.index(name) in drawn]
        current.add_missing(len(drawn) - len(asked))
        loaded.params, loaded.current_round = model, current.number
        loaded.start_round, loaded.total_rounds = 0, self._plan.num_steps
        component.current_round = current.number
        component.event(module("nvflare.app_common.app_event_type").AppEventType.ROUND_STARTED)
        with self._lock:
            self._base = self._casting.cast(model, "model")
            self._current, self._waiting = current, set(asked)
        if asked:
            component.send_model(
                self.task_name, data=loaded, targets=asked, timeout=self.timeout, callback=self._received
            )
        while component.get_num_standing_tasks() and not component.abort_signal.triggered:
            time.sleep(component._task_check_period)
        with self._lock:
            self._current, late = None, len(self._waiting)
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if component.abort_signal.triggered:
            return False
        current.add_missing(late)
        return True

    def _connected(self, names: list[str]) -> list[str]:
        """Return the sites that are connected, each with a place in the population that it keeps."""
        component: Any = self
        found = sorted(client.name for client in component.engine.get_clients())
        names += [name for name in found if name not in names]
        # mutant: more-sites-than-the-plan-knows
        if len(names) > self.num_clients:
            raise InvalidParameter(
                f"num_clients must be at least {len(names)}, the number of sites that were connected, got "
                f"{self.num_clients}"
            )
        return found

    def _received(self, result: Any) -> bool:
        """Add the result of a site; NVFlare calls it in a thread of its own, whenever one arrives."""
        with self._lock:
            current, site = self._current, result.meta.get("client_name")
            # mutant: result-of-another-round-added
            if current is None or site not in self._waiting:
                return False
            self._waiting.discard(site)
            try:
                sent, base = self._sent(result)
                if sent is None:
                    current.add_missing(1)
                else:
                    # mutant: model-of-a-site-added-for-its-update
                    current.add(sent, minus=base)
            except BaseException as error:  # of this server, such as no memory: `run` raises it
                self._failure = self._failure or error
        return True

    def _sent(self, result: Any) -> tuple[Any, Any]:
        """Return what a site sent, and what it is a difference from; None if it does not look like the model."""
        assert self._casting is not None
        kinds = module("nvflare.app_common.abstract.fl_model").ParamsType
        try:
            sent = {name: np.asarray(value) for name, value in result.params.items()}
            return self._casting.cast(sent, "sent"), None if result.params_type == kinds.DIFF else self._base
        except Exception:  # whatever a site sent: it counts as zeros, and nothing of it is told
            return None, None

    def _keep(self, loaded: Any, model: dict[str, Any]) -> None:
        """Hand the model to the job's persistor."""
        component: Any = self
        loaded.params = model
        component.save_model(loaded)

    def _report(self) -> None:
        """Append what is new to the log, after a kill also what was not written then."""
        component: Any = self
        assert self._rounds is not None
        if self.csv is not None:
            folder = Path(component.get_run_dir())
            folder.mkdir(parents=True, exist_ok=True)
            self._rounds.append_missing_to(folder / self.csv)
        for record in self.records[-1:]:
            component.info(f"round {record.round}: epsilon {record.epsilon:.6f} at delta {self.delta:g}")

    def _end(self, run: FederatedRun) -> None:
        """Say why no further round begins; fail where that was wanted."""
        component: Any = self
        whys = {"finished": f"the plan has {self._plan.num_steps} rounds", "target": "target_epsilon is reached"}
        said = f"no further round begins: {whys.get(str(run.stopped), 'the budget of the ledger is spent')}"
        component.info(said)
        if self.on_exhausted == "fail" and run.stopped != "finished":
            component.panic(f"{said}; epsilon is {self.epsilon:.6g} at delta {self.delta:g}")

    def process_result_of_unknown_task(
        self, client: Any, task_name: str, client_task_id: str, result: Any, fl_ctx: Any
    ) -> None:
        """Drop a result that comes after its round; NVFlare calls it.

        Parameters
        ----------
        client, task_name, client_task_id, result, fl_ctx
            As for every workflow of NVFlare.

        Raises
        ------
        FerroError
            Never by itself.
        """

    def __repr__(self) -> str:
        return f"PrivateFedAvg({self._plan.num_steps} rounds, epsilon={self.epsilon:.4g} at delta={self.delta:g})"


_WORKFLOWS = "nvflare.app_common.workflows.model_controller"
