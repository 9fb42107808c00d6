"""A run of a plan that trains a PyTorch module: per-example gradients in, noised gradients in `.grad` out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from ferrodp._base import _validate
from ferrodp._base._public import suggesting
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import PrivacyEvent
from ferrodp.integrations._processes import refuse_world
from ferrodp.integrations._tensors import GradientMemory, array_of, common_dtype, framework
from ferrodp.integrations.torch.gradients import Gradients, Loss
from ferrodp.plan import PlanRun, PlanStep, PrivacyPlan
from ferrodp.plan.step import release_flat
from ferrodp.random import NoiseSource

if TYPE_CHECKING:
    from torch.nn import Module

    from ferrodp.budget import PrivacyLedger

__all__ = ["TorchRun", "TorchStep", "start"]


class TorchStep:
    """A step of a `TorchRun`: add the drawn examples, and release their noised gradient into ``.grad``. Once.

    Attributes
    ----------
    plan_step : PlanStep
        The step of the plan.
    number : int
        From 0.
    indices : ndarray of int64, or None
        Examples that take part. *Secret.* None where others choose.
    groups : list of ndarray of int64, or None
        With `records_per_group` > 1: the examples of each group.

    Examples
    --------
    >>> import torch
    >>> from ferrodp.integrations.torch import start
    >>> from ferrodp.plan import ConstantNoise, FixedSizeSampling, FlatClipping, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     population_size=100,
    ...     sampling=FixedSizeSampling(10),
    ...     num_steps=2,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(2.0),
    ... )
    >>> model, x = torch.nn.Linear(3, 1), torch.ones(100, 3)
    >>> step = next(start(plan, model, lambda model, x: model(x).sum()))
    >>> step.add(x[step.indices])
    >>> step.release()
    >>> model.weight.grad.shape
    torch.Size([1, 3])

    With micro-batches, whose examples share a vector:

    >>> from ferrodp.plan import PoissonSampling
    >>> import dataclasses
    >>> grouped = dataclasses.replace(plan, sampling=PoissonSampling(0.1), records_per_group=2)
    >>> step = next(start(grouped, model, lambda model, x: model(x).mean()))
    >>> for members in step.groups:
    ...     step.add_group(x[members])
    >>> step.release()
    """

    __slots__ = ("_plan_step", "_run")

    def __init__(self, run: TorchRun, plan_step: PlanStep[Any]) -> None:
        self._run, self._plan_step = run, plan_step

    @property
    def plan_step(self) -> PlanStep[Any]:
        """The step of the plan, whose `add` takes arrays by the names of parameters."""
        return self._plan_step

    @property
    def number(self) -> int:
        """Number of the step, from 0."""
        return self._plan_step.number

    @property
    def indices(self) -> Any:
        """Examples that take part; secret. None where others choose."""
        return self._plan_step.indices

    @property
    def groups(self) -> Any:
        """The examples of each group, with `records_per_group` > 1; secret."""
        return self._plan_step.groups

    def add(self, *batch: Any) -> None:
        """Add the gradients of examples: each is clipped by itself, and the sum is exact.

        Parameters
        ----------
        *batch : tensor, or tuples, lists and dicts of tensors
            What the loss takes besides the model, examples along the first axis. May be added in parts, and is cut
            into parts whose gradients fit into `max_memory`.

        Raises
        ------
        InvalidParameter, InvalidArrayType, InvalidType
            If the batch is none, a layer mixes examples, the loss depends on no trained parameter of the model, or
            parameters were moved or exchanged since the run began.
        FerroError
            If the step was released.
        """
        run = self._run
        run._check_model()
        if self.groups is not None:
            raise InvalidParameter("with records_per_group > 1, add_group has to be called for each of step.groups")
        length = run._gradients.length(batch)
        if not length:
            # mutant: empty-batch-hides-a-loss-without-the-model
            run._gradients.check_use(batch)
        for first in range(0, length, run._rows):
            part = batch if length <= run._rows else run._gradients.part(batch, first, first + run._rows)
            self._plan_step.add(run._arrays(run._gradients(*part)))
        run._warn_of_unused(stacklevel=3)

    def add_group(self, *batch: Any) -> None:
        """Add one vector for the examples of a group: the gradient of the loss of them together.

        Parameters
        ----------
        *batch : tensor, or tuples, lists and dicts of tensors
            The examples of one of `groups`; of an empty group, tensors of length 0, which add zeros.

        Raises
        ------
        InvalidParameter, InvalidArrayType, InvalidType, FerroError
            As for `add`; or if the plan has no groups.
        """
        run = self._run
        run._check_model()
        if self.groups is None:
            raise InvalidParameter("a plan with records_per_group = 1 has no groups: use add")
        if run._gradients.length(batch):
            run._gradients.check_layers()
            arrays = run._arrays(run._gradients.of_group(*batch))
        else:
            run._gradients.check_use(batch)
            arrays = run._zeros()
        self._plan_step.add_one(arrays)
        run._warn_of_unused(stacklevel=3)

    def release(self, *, denominator: Real | None = None) -> None:
        """Write the noised sum, divided by the expected batch size, into the ``.grad`` of the parameters; end the step.

        Parameters
        ----------
        denominator : float, optional
            Divides the sum instead: a *public* number.

        Raises
        ------
        InvalidParameter, InvalidType, FerroError, BudgetExceeded, TicketError, EntropyError, InvalidArray
            As for `PlanStep.release`; or if parameters were moved or exchanged. Nothing was drawn then.
        """
        run = self._run
        run._check_model()
        # mutant: release-not-written
        run._memory.write(release_flat(self._plan_step, denominator, run._memory.array()))
        run._unmoved = (self.number, run._marks())

    def __repr__(self) -> str:
        return f"<TorchStep of {self._plan_step!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a step cannot be copied or pickled: the copy could be released again")


class TorchRun:
    """A run of a plan that trains a module, as an iterator over `TorchStep`. Made by `start`.

    Each step has to be released before the next one begins. Iteration ends after the plan's last step, or before the
    first one that the ledger's budget does not allow. What the optimizer does with ``.grad`` is post-processing.

    Parameters
    ----------
    plan, model, loss, ledger, scope, key, plan_delta, state, source, loss_scale, max_memory, noise_file
        As for `start`.

    Attributes
    ----------
    plan : PrivacyPlan
        What is run.
    plan_run : PlanRun
        The run of the plan.
    current : TorchStep or None
        The step that was handed out and not yet released.
    step_number : int
        Number of the next step, from 0: how many were released or left out.
    stopped : {None, "finished", "budget"}
        Why iteration ended; None before.
    way : {"together", "one by one"}
        How gradients of the last batch were taken: by ``torch.func.vmap``, or by a backward pass for each example. A
        matter of the model, the loss and shapes.
    reason : str or None
        Why examples are taken one by one; None if they are not.

    Raises
    ------
    InvalidParameter, InvalidArrayType, InvalidType, MissingPackage
        As for `start`.

    Examples
    --------
    >>> import torch
    >>> from ferrodp.integrations.torch import start
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     population_size=100,
    ...     sampling=PoissonSampling(0.5),
    ...     num_steps=2,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(2.0),
    ... )
    >>> model, x = torch.nn.Linear(3, 1), torch.ones(100, 3)
    >>> optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    >>> with start(plan, model, lambda model, x: model(x).sum()) as run:
    ...     for step in run:
    ...         step.add(x[step.indices])
    ...         step.release()
    ...         optimizer.step()
    ...         checkpoint = {"model": model.state_dict(), "privacy": run.state()}
    >>> run.stopped, run.step_number, run.epsilon(1e-5) == plan.epsilon(1e-5)
    ('finished', 2, True)
    >>> run.close()
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        model: Module,
        loss: Loss,
        *,
        ledger: PrivacyLedger | None = None,
        scope: str | Sequence[str] | None = None,
        key: str | None = None,
        plan_delta: Real | None = None,
        state: bytes | None = None,
        source: NoiseSource | None = None,
        loss_scale: Real = 1.0,
        max_memory: int = 2**26,
        noise_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self._torch = framework("torch", extra="torch")
        self._scale = _validate.positive("loss_scale", loss_scale)
        limit = _validate.count("max_memory", max_memory)
        refuse_world()
        self._gradients = Gradients(model, loss, loss_scale=self._scale)
        self._gradients.check_layers()
        self._parameters = self._gradients.parameters
        self._dtype = common_dtype(self._parameters)
        self._memory = GradientMemory(self._parameters.values())
        size = sum(each.numel() for each in self._parameters.values())
        self._rows = max(1, limit // (size * np.dtype(self._dtype).itemsize))
        template = self._zeros()
        if state is None:
            self._plan_run = plan.start(
                template,
                ledger=ledger,
                scope=scope,
                key=key,
                plan_delta=plan_delta,
                noise_file=noise_file,
                source=source,
            )
        else:
            for name, given in (("key", key), ("plan_delta", plan_delta), ("noise_file", noise_file)):
                if given is not None:
                    raise InvalidParameter(f"{name} must be left out with a state, which has that of its run")
            self._plan_run = PlanRun.from_state(state, template, ledger=ledger, scope=scope, source=source)
            # mutant: state-of-another-plan-continued
            if self._plan_run.plan != plan:
                raise InvalidParameter("state must be of a run of this plan")
        self._current: TorchStep | None = None
        self._unmoved: tuple[int, list[Any]] | None = None
        self._is_warned = False

    @property
    def plan(self) -> Any:
        """What is run."""
        return self._plan_run.plan

    @property
    def plan_run(self) -> PlanRun[Any]:
        """The run of the plan."""
        return self._plan_run

    @property
    def current(self) -> TorchStep | None:
        """The step that was handed out and not yet released."""
        return None if self._plan_run.current is None else self._current

    @property
    def step_number(self) -> int:
        """Number of the next step, from 0."""
        return self._plan_run.step_number

    @property
    def stopped(self) -> str | None:
        """Why iteration ended; None before."""
        return self._plan_run.stopped

    @property
    def way(self) -> str:
        """How gradients of the last batch were taken: "together" or "one by one"."""
        return "together" if self._gradients.reason is None else "one by one"

    @property
    def reason(self) -> str | None:
        """Why examples are taken one by one; None if they are not."""
        return self._gradients.reason

    @property
    def event(self) -> PrivacyEvent:
        """What was released so far; see `PlanRun`."""
        return self._plan_run.event

    def epsilon(self, delta: Real) -> float:
        """Return an upper bound on the ε of the steps so far, as if their number had been fixed in advance.

        Parameters
        ----------
        delta : float
            In (0, 1). Rounded down if not exactly representable.

        Returns
        -------
        float
            Infinite if the source was seeded.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` is out of its domain.
        """
        return self._plan_run.epsilon(delta)

    def state(self) -> bytes:
        """Return where the run stands, for `start`: save it with each checkpoint of the model and the optimizer.

        Returns
        -------
        bytes
            As `PlanRun.state`; nothing private.
        """
        return self._plan_run.state()

    def close(self) -> None:
        """End the run: a step that is reserved and was not released is given back to the ledger."""
        self._plan_run.close()

    def __iter__(self) -> Iterator[TorchStep]:
        return self

    def __next__(self) -> TorchStep:
        return self._next(stacklevel=4)

    def _next(self, *, stacklevel: int) -> TorchStep:
        refuse_world()  # processes may have been joined since the run began
        self._check_model()
        self._warn_of_lost(stacklevel=stacklevel)
        self._current = TorchStep(self, next(self._plan_run))
        return self._current

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._plan_run.__exit__()

    def _check_model(self) -> None:
        """Refuse a model whose parameters are no longer those that the run began with."""
        if self._gradients.is_unchanged():
            return
        now = self._gradients.checked_parameters()
        for name, parameter in self._parameters.items():
            # mutant: exchanged-parameter-trained
            if now.get(name) is not parameter:
                raise InvalidParameter(f"parameter {name!r} is not the one that the run began with")
        if now.keys() != self._parameters.keys() or common_dtype(now) != self._dtype:
            raise InvalidParameter("the trained parameters must be those that the run began with, of the same dtypes")

    def _warn_of_unused(self, *, stacklevel: int) -> None:
        """Say once which parameters the loss does not depend on: they get noise alone."""
        unused, self._gradients.unused = self._gradients.unused, []
        if unused:
            listed = ", ".join(map(repr, unused[:3])) + (f" and {len(unused) - 3} more" if len(unused) > 3 else "")
            warnings.warn(
                f"the loss does not depend on {listed}, which will be moved by noise alone: write "
                "parameter.requires_grad_(False) before the run is started where that is not meant",
                stacklevel=stacklevel,
            )

    def _marks(self) -> list[Any]:
        """Return what changes of each parameter if an optimizer moves it: how often it was written to, and a value."""
        first = [each.detach().reshape(-1)[:1].tolist() for each in self._parameters.values()]
        return [*(each._version for each in self._parameters.values()), *first]

    def _warn_of_lost(self, *, stacklevel: int) -> None:
        """Say once that a step was released and no parameter moved: its cost is spent, and nothing was learned."""
        released, self._unmoved = self._unmoved, None
        # mutant: step-that-was-not-used-goes-unnoticed
        if released is None or self._is_warned or released[1] != self._marks():
            return
        self._is_warned = True
        warnings.warn(
            f"no parameter has changed since step {released[0]} was released: what it cost is spent and nothing was "
            "learned from it; call optimizer.step() after each release, with no zero_grad() in between, and add all "
            "parts of a batch to one step where gradients are accumulated",
            stacklevel=stacklevel,
        )

    def _zeros(self) -> dict[str, Any]:
        return {name: np.zeros(tuple(each.shape), self._dtype) for name, each in self._parameters.items()}

    def _arrays(self, gradients: dict[str, Any]) -> dict[str, Any]:
        """Return gradients as arrays, the scale of the loss undone in a type that holds them."""
        # mutant: loss-scale-clipped
        if self._scale != 1.0:
            wide = self._torch.float64 if self._dtype is np.float64 else self._torch.float32
            gradients = {name: each.to(wide) / self._scale for name, each in gradients.items()}
        return {name: array_of(f"the gradient of {name!r}", each, self._dtype) for name, each in gradients.items()}

    def __repr__(self) -> str:
        return f"<TorchRun at step {self.step_number} of {self.plan.num_steps}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a run cannot be copied or pickled: save its state()")


@suggesting
def start(
    plan: PrivacyPlan,
    model: Module,
    loss: Loss,
    *,
    ledger: PrivacyLedger | None = None,
    scope: str | Sequence[str] | None = None,
    key: str | None = None,
    plan_delta: Real | None = None,
    state: bytes | None = None,
    source: NoiseSource | None = None,
    loss_scale: Real = 1.0,
    max_memory: int = 2**26,
    noise_file: str | os.PathLike[str] | None = None,
) -> TorchRun:
    """Start a private training of a module by a plan.

    Each step draws the examples, computes the gradient of each, clips it and sums exactly, and releases the sum with
    noise into the parameters' ``.grad``, for any optimizer of PyTorch. Who sees all that the optimizer ever gets
    learns no more about an example than ``plan.epsilon(delta)`` says.

    Parameters
    ----------
    plan : PrivacyPlan
        Sampling, clipping, noise and cost. The groups of `PerGroupClipping` are the names of parameters.
    model : torch.nn.Module
        In the memory of the CPU, and to stay there. Parameters that require no gradient are left alone. The module
        itself, without ``DistributedDataParallel`` or ``fully_shard``: a run belongs to one process.
    loss : callable
        As for `per_example_gradients`.
    ledger, scope, key
        As for `PrivacyPlan.start`: a budget that pays for every step, and what continues a training that was killed.
    plan_delta : float, optional
        Charges all steps as one (ε, δ) before the first, as for `PrivacyPlan.start`.
    state : bytes, optional
        Of an earlier run of this plan, from `TorchRun.state`.
    source : NoiseSource, optional
        None, or a seeded source for tests.
    loss_scale : float
        Multiplies each loss before its gradient is taken, so that gradients in float16 do not vanish, and is undone
        before clipping; > 0. Powers of two lose nothing. An example whose gradient overflows counts as zeros, and the
        step is charged. Do not use ``GradScaler.step`` besides: it would scale the noise and skip steps.
    max_memory : int
        Bytes of per-example gradients at a time; one example at least.
    noise_file : path, optional
        Keeps the secret key of a plan's `CorrelatedNoise`, with `key`; as for `PrivacyPlan.start`.

    Returns
    -------
    TorchRun
        An iterator over steps.

    Raises
    ------
    InvalidParameter, InvalidArrayType, InvalidType
        If a parameter of the model is not dense, real and in the memory of the CPU, none requires a gradient, a layer
        normalizes over the batch, or a parameter is not accepted; or if the model is spread over devices or processes,
        or ``torch.distributed`` has a world size above 1.
    FerroError
        If the state is older than what this process released.
    MissingPackage
        If PyTorch is not installed.

    Notes
    -----
    Gradients are summed in float32, or float64 if a parameter has that type; float16 and bfloat16 are widened first
    and the release is rounded back to them. Contiguous gradients in the type of the sum are read where they are.

    ``model.zero_grad()`` is not needed. A ``.grad`` that ``backward`` wrote is overwritten by the next release; without
    a release it is the gradient itself, which is not private. A release writes to the memory of the ``.grad`` of the
    one before where nothing else refers to it or shares it, and else to memory of its own: what was kept stays.

    Examples
    --------
    >>> import torch
    >>> import ferrodp as fd
    >>> from ferrodp.integrations.torch import start
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling
    >>> x, y = torch.randn(200, 4), torch.randint(2, (200,))
    >>> plan = fd.PrivacyPlan(
    ...     population_size=200,
    ...     sampling=PoissonSampling(0.25),
    ...     num_steps=3,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(1.0),
    ... ).calibrated(epsilon=2.0, delta=1e-5)
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> for step in start(plan, model, lambda model, x, y: torch.nn.functional.cross_entropy(model(x), y)):
    ...     step.add(x[step.indices], y[step.indices])
    ...     step.release()
    ...     optimizer.step()
    """
    if not isinstance(plan, PrivacyPlan):
        raise InvalidType(f"plan must be a PrivacyPlan, got {type(plan).__name__}; as in start(plan, model, loss)")
    return TorchRun(
        plan,
        model,
        loss,
        ledger=ledger,
        scope=scope,
        key=key,
        plan_delta=plan_delta,
        state=state,
        source=source,
        loss_scale=loss_scale,
        max_memory=max_memory,
        noise_file=noise_file,
    )
