"""Private training in the loop that is there already: model, optimizer and loader as they were, by a plan."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ferrodp._base import _validate
from ferrodp._base._public import suggesting
from ferrodp._base._validate import Real
from ferrodp.errors import FerroError, InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.events import PrivacyEvent
from ferrodp.integrations._processes import refuse_sharded, refuse_world, within_wrapper
from ferrodp.integrations._tensors import GradientMemory, dtype_of, framework
from ferrodp.integrations.torch import _losses, _several
from ferrodp.integrations.torch._bound import Bound
from ferrodp.integrations.torch._ghost import GhostSum
from ferrodp.integrations.torch._modules import Module
from ferrodp.integrations.torch.gradients import Gradients
from ferrodp.plan import AutomaticClipping, PerGroupClipping, PlanRun, PlanStep, PrivacyPlan
from ferrodp.plan.step import release_bounded
from ferrodp.random import NoiseSource
from ferrodp.testing import seeded

if TYPE_CHECKING:
    from torch.nn import Module as TorchModule
    from torch.optim import Optimizer

    from ferrodp.budget import PrivacyLedger

__all__ = ["PrivateLoader", "PrivateTraining", "make_private"]

_STATE = "ferrodp"


class _Parameters(Gradients):
    """The trained parameters of a module, on any device, and whether they are still the same."""

    def checked_parameters(self) -> dict[str, Any]:
        """Return the parameters that are trained, by name, or refuse those that cannot be."""
        found = {name: each for name, each in self.model.named_parameters() if each.requires_grad}
        if not found:
            raise InvalidParameter(
                "model must have a parameter that requires a gradient, got none; write parameter.requires_grad_(True)"
            )
        devices = {each.device for each in found.values()}
        if len(devices) > 1:
            raise InvalidParameter(f"model must be on one device, got {', '.join(sorted(map(str, devices)))}")
        if next(iter(devices)).type in ("mps", "meta"):
            raise InvalidParameter(
                f"model must be on a device with float64, in which gradients are summed, got {next(iter(devices))}; "
                'move it with .to("cpu")'
            )
        for name, parameter in found.items():
            refuse_sharded(f"parameter {name!r}", parameter)
            if str(parameter.layout) != "torch.strided":
                raise InvalidArrayType(f"parameter {name!r} must be dense, got the layout {parameter.layout}")
            dtype_of(f"parameter {name!r}", parameter)
        return found


class _Part:
    """Some of the examples of a step: what the loader hands out at once."""

    __slots__ = ("count", "ends_share", "forwards", "is_last", "is_summed", "is_used", "length")

    def __init__(self, length: int, count: int, *, is_last: bool, ends_share: bool) -> None:
        self.length, self.count, self.is_last, self.ends_share = length, count, is_last, ends_share
        self.forwards, self.is_summed, self.is_used = 0, False, False


class PrivateTraining:
    """What connects a model, an optimizer and a loader that `make_private` made private.

    Attributes
    ----------
    plan : PrivacyPlan
        What is run.
    plan_run : PlanRun
        The run of the plan.
    step_number : int
        Number of the next step, from 0.
    stopped : {None, "finished", "budget"}
        Why the loader ended; None before.
    way : {None, "together", "one by one"}
        How gradients of the last batch were taken: of all examples together, without writing one out, or of one example
        at a time; None before the first batch.
    reason : str or None
        Why the model runs one example at a time.

    Raises
    ------
    InvalidParameter, InvalidType, InvalidArrayType
        As for `make_private`.

    Examples
    --------
    >>> import torch
    >>> from ferrodp.integrations.torch import make_private
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
    >>> data = torch.utils.data.TensorDataset(torch.ones(20, 4))
    >>> plan = PrivacyPlan(
    ...     population_size=20,
    ...     sampling=FullBatch(),
    ...     num_steps=2,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(4.0),
    ... )
    >>> model = torch.nn.Linear(4, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> _, _, loader = make_private(model, optimizer, torch.utils.data.DataLoader(data), plan=plan, part_size=8)
    >>> for (x,) in loader:
    ...     model(x).mean().backward()
    ...     optimizer.step()
    >>> training = optimizer.private
    >>> training.step_number, training.way, training.epsilon(1e-5) < plan.epsilon(1e-5)
    (1, 'together', True)
    >>> state = training.state()
    >>> training.close()
    >>> "forward" in vars(model)
    False
    """

    def __init__(
        self,
        model: TorchModule,
        optimizer: Optimizer,
        plan: PrivacyPlan,
        *,
        ledger: PrivacyLedger | None,
        scope: str | Sequence[str] | None,
        key: str | None,
        plan_delta: Real | None,
        source: NoiseSource | None,
        shares: int | None = None,
    ) -> None:
        self._torch = torch = framework("torch", extra="torch")
        self._world = world = _several.World.joined(torch)
        self._ledger, self._scope, self._source = ledger, scope, source
        self._gradients = _Parameters(model, _no_loss)
        self._gradients.check_layers()
        self._parameters = self._gradients.parameters
        _check_optimizer(torch, optimizer, self._parameters)
        self._model, self._optimizer = model, optimizer
        self._clipping = plan.clipping
        if isinstance(plan.clipping, PerGroupClipping) and set(plan.clipping.clip_norms) != set(self._parameters):
            raise InvalidParameter(
                f"the groups of clipping must be the names of the trained parameters, {sorted(self._parameters)}, got "
                f"{sorted(plan.clipping.clip_norms)}"
            )
        stability = plan.clipping.stability if isinstance(plan.clipping, AutomaticClipping) else None
        self._shapes = {name: each.shape for name, each in self._parameters.items()}
        assert plan.population_size is not None
        self._num_shares = shares or (world.size if world else None)
        size = sum(shape.numel() for shape in self._shapes.values())
        rounding = 0.0
        if self._num_shares is not None:
            # mutant: rounding-of-shares-for-free
            rounding = _several.rounding_residue(plan.population_size, size)
        first = next(iter(self._parameters.values()))
        self._sum = GhostSum(torch, self._shapes, Bound.of(plan.population_size, rounding), first.device, stability)
        self._integers = None if self._num_shares is None else _several.IntegerSum(torch, size)
        self._template = {name: tuple(shape) for name, shape in self._shapes.items()}
        if world is not None:
            shapes = {name: [list(each.shape), str(each.dtype)] for name, each in self._parameters.items()}
            world.check_alike({"plan": plan.fingerprint, "parameters": shapes, "shares": self._num_shares})
        self._plan_run: PlanRun[Any] = self._agreed(
            lambda: plan.start(
                self._template, ledger=ledger, scope=scope, key=key, plan_delta=plan_delta, source=source
            )
        )
        if world is not None:
            with torch.no_grad():
                for each in (*model.parameters(), *model.buffers()):
                    world.spread_bits(each.data)
        self._memory = GradientMemory(self._parameters.values())
        self._module = Module(model, self._parameters)
        self._step: PlanStep[Any] | None = None
        self._waiting: list[list[int]] = []
        self._share_ends: list[bool] = []
        self._part: _Part | None = None
        self._has_warned = False
        self._undo: list[Any] = []
        self._kind = _losses.kind_for(self)

    def _agreed(self, start: Any) -> PlanRun[Any]:
        """Return the run that rank 0 starts, and for other ranks one that stands where it does and draws nothing."""
        if self._world is None:
            run: PlanRun[Any] = start()
            return run
        started = []

        def do() -> dict[str, Any]:
            started.append(start())
            self._is_seeded = self._source is not None and not self._source.is_private
            return {"state": started[0].state().decode(), "seeded": self._is_seeded}

        message = self._world.lead(do)
        # mutant: seeded-training-states-a-cost-on-other-ranks
        self._is_seeded = message["seeded"]
        return started[0] if started else self._following(message["state"].encode())

    def _following(self, state: bytes) -> PlanRun[Any]:
        """Return a run that stands where that of rank 0 does; it draws nothing."""
        self._state, self._stopped = state, None
        # Of a seeded source, whose releases have no finite cost, where that of rank 0 is seeded.
        return PlanRun.from_state(state, self._template, source=seeded(bytes(32)) if self._is_seeded else None)

    @property
    def _follows(self) -> bool:
        return self._world is not None and self._world.rank > 0

    # what is seen from outside

    @property
    def plan(self) -> PrivacyPlan:
        """What is run."""
        return self._plan_run.plan

    @property
    def plan_run(self) -> PlanRun[Any]:
        """The run of the plan; in several processes that of rank 0, and in others a copy that draws nothing."""
        return self._plan_run

    @property
    def step_number(self) -> int:
        """Number of the next step, from 0."""
        return self._plan_run.step_number

    @property
    def stopped(self) -> str | None:
        """Why the loader ended; None before."""
        return self._stopped if self._follows else self._plan_run.stopped

    @property
    def event(self) -> PrivacyEvent:
        """What was released so far; see `PlanRun`."""
        return self._plan_run.event

    @property
    def way(self) -> str | None:
        """How gradients of the last batch were taken."""
        return self._module.way

    @property
    def reason(self) -> str | None:
        """Why the model runs one example at a time."""
        return self._module.reason

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
        """Return where the training stands; the optimizer's ``state_dict`` has it.

        Returns
        -------
        bytes
            As `PlanRun.state`; nothing private.
        """
        return self._state if self._follows else self._plan_run.state()

    def close(self) -> None:
        """End the training: model and optimizer are again what they were, and a step that is reserved is given back."""
        for undo in reversed(self._undo):
            undo()
        self._undo = []
        self._plan_run.close()

    # the loader

    def _begin(self, most: int | None) -> bool:
        """Begin the next step if there is one, and cut its examples into parts; refuse if the last was not used."""
        self._check_used()
        if self._waiting:
            return True
        if self._world is None:
            refuse_world()  # processes may have been joined since the training began
        self._check_model()
        step = self._next_step()
        if step is None:
            self._part = None
            return False
        self._step = step
        drawn = [int(index) for index in step.indices]
        self._sum.restart()
        if self._integers is not None:
            assert self._num_shares is not None
            assert self.plan.population_size is not None
            rank, number = (self._world.rank, self._world.size) if self._world else (0, 1)
            self._integers.restart(step.clip_norm)
            self._waiting, self._share_ends = _several.cut(
                drawn, self.plan.population_size, self._num_shares, most, rank, number
            )
            return True
        size = most or max(1, len(drawn))
        # An empty step has one part, with an example that counts as none.
        self._waiting = [drawn[start : start + size] for start in range(0, len(drawn), size)] or [[]]
        self._share_ends = [False] * len(self._waiting)
        return True

    def _next_step(self) -> Any:
        """Return the next step, or None after the last; rank 0 draws for all."""
        if self._world is None:
            return next(self._plan_run, None)
        begun: list[PlanStep[Any]] = []

        def do() -> dict[str, Any]:
            found = next(self._plan_run, None)
            if found is None:
                return {"stopped": self._plan_run.stopped, "state": self._plan_run.state().decode()}
            begun.append(found)
            assert found.indices is not None
            return {"indices": found.indices.tolist(), "clip_norm": found.clip_norm.hex()}

        message = self._world.lead(do)
        if begun:
            return begun[0]
        if "stopped" in message:
            if self._follows:
                self._plan_run = self._following(message["state"].encode())
                self._stopped = message["stopped"]
            return None
        return types.SimpleNamespace(indices=message["indices"], clip_norm=float.fromhex(message["clip_norm"]))

    def _hand_out(self, batch: Any) -> None:
        """Take the next part as the one that the model is to see."""
        examples = self._waiting.pop(0)
        self._part = _Part(
            max(1, len(examples)),
            len(examples),
            is_last=not self._waiting,
            ends_share=self._share_ends[-len(self._waiting) - 1],
        )
        self._module.forget()

    def _check_used(self) -> None:
        part = self._part
        if part is None or part.is_used or self._step is None:
            return
        if part.is_summed:
            raise FerroError(
                "the batch before was not used: optimizer.step() has to follow loss.backward() for every batch. To "
                "train on more examples a step, raise the sampling probability and give make_private a part_size: "
                "optimizer.step() then waits for the last part"
            )
        raise FerroError(
            "the batch before was not used: loss.backward() and optimizer.step() have to be called for every batch, "
            "whatever is in it, as which batches are left out is private"
        )

    # the model

    def _forward(self, plain: Any, args: Any, kwargs: Any) -> Any:
        torch, part = self._torch, self._part
        if self._module.is_inside or not torch.is_grad_enabled():
            return plain(*args, **kwargs)
        if part is None or part.is_used:
            if not self._model.training:
                return plain(*args, **kwargs)
            raise FerroError(
                "the model was called with gradients, and not for a batch of the private loader: take each batch from "
                "the loader that make_private returned, and put evaluations into torch.no_grad()"
            )
        if part.is_summed:
            raise FerroError(
                "the model was called with gradients after loss.backward() and before optimizer.step(): call it for "
                "all outputs of a batch before, or within torch.no_grad()"
            )
        self._check_model()
        self._gradients.check_layers()
        out = self._module.run(plain, args, kwargs, part.length)
        part.forwards += 1
        return _losses.wrapped(self._gradients._tree, out, self._kind)

    @property
    def _awaits_backward(self) -> bool:
        part = self._part
        return part is not None and bool(part.forwards) and not part.is_summed

    def _backward(self, loss: Any) -> None:
        part = self._part
        assert part is not None
        seed, scale = _losses.seed_of(loss, part.length)
        before = {
            name: (each.grad, each.grad._version if each.grad is not None else 0)
            for name, each in self._parameters.items()
        }
        part.forwards = 0  # also where the pass fails: nothing is left of it
        uses = self._module.backward(loss, seed)
        for name, parameter in self._parameters.items():
            gradient, version = before[name]
            if parameter.grad is not gradient or (gradient is not None and gradient._version != version):
                parameter.grad = None
                raise FerroError(
                    f"the loss depends on parameter {name!r} besides outputs of the model, which gives no gradients of "
                    "single examples: leave penalties on parameters to the optimizer, as in weight_decay=0.01, and "
                    "write checkpoint(..., use_reentrant=False)"
                )
        # mutant: example-that-stands-for-none-added
        real = self._torch.arange(part.length, device=self._sum.total.device) < part.count
        self._warn_of_unused(uses)
        if uses:
            self._sum.add(uses, self._groups(), scale, real, part.count)
        else:
            raise InvalidParameter(
                "the loss must depend on a trained parameter of the model, got one that depends on none: every release "
                "would be noise alone"
            )
        part.is_summed = True
        if part.ends_share and self._integers is not None:
            self._integers.add(self._sum.finish(), self._sum.count, int(self._sum.within))
            self._sum.restart()

    def _groups(self) -> list[tuple[list[str], float]]:
        if isinstance(self._clipping, PerGroupClipping):
            return [([name], norm) for name, norm in self._clipping.clip_norms.items()]
        assert self._step is not None
        return [(list(self._parameters), self._step.clip_norm)]

    # the optimizer

    def _optimize(self, plain: Any, args: Any, kwargs: Any) -> Any:
        part, step = self._part, self._step
        if args or any(value is not None for value in kwargs.values()):
            raise InvalidParameter(
                "optimizer.step() of a private training takes no closure, which would be called several times; use an "
                "optimizer of first order such as torch.optim.SGD or Adam"
            )
        if part is None or step is None or part.is_used:
            raise FerroError(
                "optimizer.step() was called without a batch: take one from the loader that make_private returned, "
                "and call loss.backward() and optimizer.step() once for it"
            )
        if not part.is_summed:
            raise FerroError("optimizer.step() was called before loss.backward(): there is no gradient of this batch")
        if not part.is_last:
            part.is_used = True
            return None
        self._check_model()
        self._release(step)
        part.is_used = True
        return plain()

    def _release(self, step: Any) -> None:
        total = self._sum.finish() if self._integers is None else self._sum.total
        kind = np.float64 if any(each.dtype.itemsize == 8 for each in self._parameters.values()) else np.float32
        flat = self._memory.array()
        if flat is None or flat.dtype != kind:
            flat = np.empty(total.numel(), kind)
        try:
            if self._integers is None:
                self._noise(step, total.cpu().numpy(), self._sum.count, int(self._sum.within), flat)
            elif self._world is None:
                self._noise_integers(step, flat)
            else:
                self._release_to_all(self._world, step, flat)
        finally:
            if self._follows or self._plan_run.current is None:
                self._step = None
        device = total.device
        if device.type == "cpu":
            self._memory.write(flat)
            return
        whole = self._torch.from_numpy(flat).to(device)
        sizes = [each.numel() for each in self._parameters.values()]
        for parameter, piece in zip(self._parameters.values(), whole.split_with_sizes(sizes), strict=True):
            parameter.grad = piece.view_as(parameter).to(parameter.dtype)

    def _release_to_all(self, world: _several.World, step: Any, flat: Any) -> None:
        """Add the shares of all ranks up, let rank 0 release them, and give all ranks the result."""
        assert self._integers is not None
        world.add_up(self._integers)

        def do() -> dict[str, Any]:
            self._noise_integers(step, flat)
            return {"state": self._plan_run.state().decode()}

        message = world.lead(do)
        # mutant: ranks-go-on-without-the-release
        world.spread(self._torch.from_numpy(flat))
        if world.rank:
            self._plan_run = self._following(message["state"].encode())

    def _noise_integers(self, step: PlanStep[Any], flat: Any) -> None:
        assert self._integers is not None
        count, within = self._integers.counts.tolist()
        self._noise(step, self._integers.values().numpy(), count, within, flat)

    @staticmethod
    def _noise(step: PlanStep[Any], values: Any, count: int, within: int, flat: Any) -> None:
        """Pay for a step, add its noise to a sum, and write what is left after the division."""
        divisor = release_bounded(step, values, count=count, within=within)
        if flat.dtype == np.float64:
            np.divide(values, divisor, out=flat)
            return
        most = float(np.finfo(np.float32).max)
        with np.errstate(over="ignore", under="ignore"):
            np.divide(values, divisor, out=flat, casting="same_kind")
        if step.clip_norm * max(1.0, step.noise_multiplier) / divisor > 2.0**40:
            np.clip(flat, -most, most, out=flat)

    def _check_zero_grad(self) -> None:
        part = self._part
        if part is not None and part.is_summed and not part.is_used:
            raise FerroError(
                "zero_grad() was called between loss.backward() and optimizer.step(), which would train nothing: call "
                "it before loss.backward() or after optimizer.step()"
            )

    def _resume(self, state: bytes) -> None:
        if self._step is not None:
            raise FerroError("a state must be loaded before the first batch is taken from the loader, or after a step")

        def start() -> PlanRun[Any]:
            run = PlanRun.from_state(state, self._template, ledger=self._ledger, scope=self._scope, source=self._source)
            if run.plan != self.plan:
                raise InvalidParameter("the state must be of a training by this plan")
            return run

        run = self._agreed(start)
        self._plan_run.close()
        self._plan_run, self._part, self._waiting = run, None, []

    def _check_model(self) -> None:
        if self._gradients.is_unchanged():
            return
        now = self._gradients.checked_parameters()
        for name, parameter in self._parameters.items():
            if now.get(name) is not parameter:
                raise InvalidParameter(f"parameter {name!r} is not the one that make_private got, or was frozen since")
        if now.keys() != self._parameters.keys():
            raise InvalidParameter("the trained parameters must be those that make_private got")
        self._gradients._remember()

    def _warn_of_unused(self, uses: dict[str, Any]) -> None:
        unused = [name for name in self._parameters if name not in uses and self._parameters[name].numel()]
        if unused and not self._has_warned and uses:
            self._has_warned = True
            listed = ", ".join(map(repr, unused[:3])) + (f" and {len(unused) - 3} more" if len(unused) > 3 else "")
            warnings.warn(
                f"the loss does not depend on {listed}, which will be moved by noise alone: write "
                "parameter.requires_grad_(False) before make_private where that is not meant",
                stacklevel=5,
            )

    def __repr__(self) -> str:
        return f"<PrivateTraining at step {self.step_number} of {self.plan.num_steps}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a training cannot be copied or pickled: save the optimizer's state_dict()")


class PrivateLoader:
    """Gives the batches that the steps of a plan draw, as the loader it was made of would: made by `make_private`.

    An iteration is as many steps as make an epoch on average; another one goes on where the last ended. Iteration ends
    with the plan's last step, or before the first that the budget does not allow.

    A step in which nobody was drawn has a batch of one example that does not count.

    Parameters
    ----------
    training, loader, part_size
        As `make_private` has them.

    Attributes
    ----------
    dataset : Dataset
        That of the loader it was made of.
    training : PrivateTraining
        Whose batches these are.

    Raises
    ------
    FerroError
        If a batch is requested before the last one was used.

    Examples
    --------
    >>> import torch
    >>> from ferrodp.integrations.torch import make_private
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
    >>> data = torch.utils.data.TensorDataset(torch.ones(20, 4))
    >>> plan = PrivacyPlan(
    ...     population_size=20,
    ...     sampling=FullBatch(),
    ...     num_steps=2,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(4.0),
    ... )
    >>> model = torch.nn.Linear(4, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> _, _, loader = make_private(model, optimizer, torch.utils.data.DataLoader(data), plan=plan, part_size=8)
    >>> for (x,) in loader:
    ...     print(len(x))
    ...     model(x).mean().backward()
    ...     optimizer.step()
    8
    8
    4
    """

    def __init__(self, training: PrivateTraining, loader: Any, part_size: int | None) -> None:
        self.training, self.dataset = training, loader.dataset
        self._most = part_size
        options = {
            name: getattr(loader, name)
            for name in ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "prefetch_factor")
        }
        options["multiprocessing_context"] = loader.multiprocessing_context
        if loader.num_workers:
            options["persistent_workers"] = True
        data = framework("torch.utils.data", extra="torch")
        self._loader = data.DataLoader(loader.dataset, batch_sampler=_Parts(training), **options)

    def __len__(self) -> int:
        plan = self.training.plan
        expected = plan.expected_batch_size or 1.0
        assert plan.population_size is not None
        return max(1, round(plan.population_size / expected))

    def __iter__(self) -> Iterator[Any]:
        for _ in range(len(self)):
            if not self.training._begin(self._most):
                return
            for batch in self._loader:
                self.training._check_used()
                self.training._hand_out(batch)
                yield batch
                if not self.training._waiting:
                    break
        self.training._check_used()

    def __repr__(self) -> str:
        return f"<PrivateLoader of {self.training!r}>"


class _Parts:
    """The parts of a step, for a loader of PyTorch."""

    def __init__(self, training: PrivateTraining) -> None:
        self._training = training

    def __iter__(self) -> Iterator[list[int]]:
        for part in list(self._training._waiting):
            yield part or [0]

    def __len__(self) -> int:
        return max(1, len(self._training._waiting))

    def __reduce__(self) -> Any:
        return list, ()  # workers get lists of indices, and need no sampler


def _no_loss(*_: Any) -> Any:
    raise AssertionError("the loss is that of the loop")


def _check_optimizer(torch: Any, optimizer: Any, parameters: dict[str, Any]) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidType(
            f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}; for example "
            "torch.optim.Adam(model.parameters())"
        )
    if isinstance(optimizer, (torch.optim.LBFGS, torch.optim.SparseAdam)):
        raise InvalidParameter(
            f"optimizer must take dense gradients, once a step, got {type(optimizer).__name__}; for example "
            "torch.optim.Adam(model.parameters())"
        )
    own = {id(each) for each in parameters.values()}
    given = {id(each) for group in optimizer.param_groups for each in group["params"] if each.requires_grad}
    if own - given:
        missing = next(name for name, each in parameters.items() if id(each) not in given)
        raise InvalidParameter(
            f"optimizer must have all trained parameters of the model, and {missing!r} is none of its: make it of "
            "model.parameters(), or freeze the parameter with requires_grad_(False)"
        )
    if given - own:
        raise InvalidParameter(
            "optimizer must have no parameters besides those of the model: they would get no gradient. Give them an "
            "optimizer of their own"
        )


@suggesting
def make_private(
    model: TorchModule,
    optimizer: Optimizer,
    loader: Any,
    *,
    plan: PrivacyPlan,
    ledger: PrivacyLedger | None = None,
    scope: str | Sequence[str] | None = None,
    key: str | None = None,
    plan_delta: Real | None = None,
    source: NoiseSource | None = None,
    part_size: int | None = None,
    shares: int | None = None,
) -> tuple[TorchModule, Optimizer, PrivateLoader]:
    """Make a training loop private, without changing the loop.

    The loader then gives the batches that the plan draws; ``loss.backward()`` takes the gradient of each example, clips
    it and adds it up; ``optimizer.step()`` pays, adds noise, writes the result into ``.grad`` and goes on as before.
    Who sees all that the optimizer ever gets learns no more about an example than ``plan.epsilon(delta)`` says.

    Linear layers, convolutions, embeddings, normalizations and attention need no gradient of a single example in
    memory: their norms come from the inputs of layers and the gradients of outputs. A model with anything else in it is
    run one example at a time, which takes longer and works for any module.

    Parameters
    ----------
    model : torch.nn.Module
        On one device, which needs float64. It is changed in place, until ``optimizer.private.close()``.
    optimizer : torch.optim.Optimizer
        Of all trained parameters of the model and no others; without a closure. It is changed in place.
    loader : torch.utils.data.DataLoader
        Its dataset, workers, collate function and pinning are kept. Its order and batch size are not: the plan draws.
    plan : PrivacyPlan
        That draws its batches, without groups of records, for a population as large as the dataset. The groups of
        `PerGroupClipping` are the names of parameters.
    ledger, scope, key, plan_delta, source
        As for `PrivacyPlan.start`.
    part_size : int, optional
        At most so many examples are handed out at a time; by default all of a step. ``optimizer.step()`` does nothing
        until the last part of a step was added.
    shares : int, optional
        Into how many ranges the population is cut, each of which is summed by itself and rounded to a grid of integers;
        not below the number of processes, by default that. The same number gives the same bits in any number of
        processes, where layers draw no random numbers. None in a process that is alone: one sum, without a grid.

    Returns
    -------
    model : torch.nn.Module
        The same one.
    optimizer : torch.optim.Optimizer
        The same one; its attribute ``private`` is the `PrivateTraining`, and its ``state_dict`` says where that stands.
    loader : PrivateLoader
        Gives the batches of steps.

    Raises
    ------
    InvalidParameter, InvalidType, InvalidArrayType
        If an argument is not accepted: a layer normalizes over the batch, the plan draws no batches, the dataset has
        another size, a parameter is on a device without float64, the optimizer has other parameters, or processes have
        other plans.
    MissingPackage
        If PyTorch is not installed.

    See Also
    --------
    start : a training in which the loss is a function of the model and a batch.

    Notes
    -----
    Each output of the model has the examples along its first axis, and so has each argument as long as the batch. The
    loss is a mean or a sum over examples; a mean is taken so that an example's gradient does not depend on how many
    others there are, or which of their words are ignored. Nothing else but the loss of an example may depend on it.

    Sums are formed in float64 with a proven error bound, which is taken off the clip norm: less than 0.05 %. So the
    noise is that of the plan, and `plan.event` is what is charged. It is assumed that what PyTorch computes for an
    example, the inputs and output gradients of layers, does not depend on the other examples of its batch. That holds
    to the last bit for batches of one length on the kernels that are tested, and up to rounding in general.

    *Several processes* that were joined by ``torch.distributed`` (gloo) before this call train one model: each calls
    `make_private` with the same arguments, the plain module or one in ``DistributedDataParallel``, and begins with the
    parameters of rank 0. Rank 0 draws the samples, pays and adds the noise; the others need no ledger. Where a process
    ends, the others raise `FerroError` at their next step.

    ==============================  ===========================================
    example with NaN or infinity    counts as zeros; the step is charged
    nobody drawn                    a batch of one example that does not count
    ==============================  ===========================================

    The page *Ghost clipping* of the proofs has the argument, and what the bound needs otherwise. Norms from
    inputs and output gradients: Goodfellow, "Efficient per-example gradient computations", arXiv:1510.01799; of
    sequences: Li, Tramèr, Liang, Hashimoto, "Large language models can be strong differentially private learners",
    ICLR 2022, section 4; in one backward pass: Bu, Wang, Zha, Karypis, "Differentially private optimization on
    large model at small cost", ICML 2023.

    Examples
    --------
    >>> import torch
    >>> import ferrodp as fd
    >>> from ferrodp.integrations.torch import make_private
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling
    >>> data = torch.utils.data.TensorDataset(torch.randn(200, 4), torch.randint(2, (200,)))
    >>> plan = fd.PrivacyPlan(
    ...     population_size=200,
    ...     sampling=PoissonSampling(0.25),
    ...     num_steps=8,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(1.0),
    ... ).calibrated(epsilon=2.0, delta=1e-5)
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> loader = torch.utils.data.DataLoader(data, batch_size=50)
    >>> model, optimizer, loader = make_private(model, optimizer, loader, plan=plan)
    >>> for epoch in range(2):
    ...     for x, y in loader:
    ...         optimizer.zero_grad()
    ...         loss = torch.nn.functional.cross_entropy(model(x), y)
    ...         loss.backward()
    ...         optimizer.step()
    >>> optimizer.private.step_number, optimizer.private.epsilon(1e-5) <= 2.0
    (8, True)
    """
    torch = framework("torch", extra="torch")
    if not isinstance(plan, PrivacyPlan):
        raise InvalidType(f"plan must be a PrivacyPlan, got {type(plan).__name__}")
    data = framework("torch.utils.data", extra="torch")
    if not isinstance(loader, data.DataLoader):
        raise InvalidType(
            f"loader must be a torch.utils.data.DataLoader, got {type(loader).__name__}; for example "
            "DataLoader(TensorDataset(x, y), batch_size=64)"
        )
    if isinstance(loader.dataset, data.IterableDataset):
        raise InvalidType("loader must have a dataset with a length and items by number, got an IterableDataset")
    if plan.population_size is None or plan.records_per_group > 1 or plan.expected_batch_size is None:
        raise InvalidParameter("plan must draw its batches, without groups of records: use start for others")
    if type(plan.sampling).__name__ == "GivenOrder":
        raise InvalidParameter("plan must draw its batches, got GivenOrder: use PoissonSampling, or start")
    if len(loader.dataset) != plan.population_size:
        raise InvalidParameter(
            f"the dataset must have as many items as the plan, {plan.population_size}, got another number; write "
            "population_size=len(dataset) in the plan where that is public"
        )
    most = None if part_size is None else _validate.count("part_size", part_size)
    if hasattr(optimizer, "private"):
        raise InvalidParameter("optimizer is private already: call optimizer.private.close() first")
    world = _several.World.joined(torch)
    if shares is not None:
        least = 1 if world is None else world.size
        shares = _validate.count("shares", shares, minimum=least, maximum=plan.population_size)
    within = within_wrapper(model)
    training = PrivateTraining(
        within,
        optimizer,
        plan,
        ledger=ledger,
        scope=scope,
        key=key,
        plan_delta=plan_delta,
        source=source,
        shares=shares,
    )
    _connect(torch, training, within, optimizer)
    if within is not model:
        # mutant: gradients-averaged-without-noise
        vars(model)["forward"] = within.__call__
        training._undo.append(lambda: _restore(model, "forward", None))
    return model, optimizer, PrivateLoader(training, loader, most)


def _connect(torch: Any, training: PrivateTraining, model: Any, optimizer: Any) -> None:
    """Let a model and an optimizer go by a training until it is closed."""
    plain = model.forward
    step, zero_grad = optimizer.step, optimizer.zero_grad
    state_dict, load_state_dict = optimizer.state_dict, optimizer.load_state_dict

    def forward(_: Any, *args: Any, **kwargs: Any) -> Any:
        return training._forward(plain, args, kwargs)

    def private_step(_: Any, *args: Any, **kwargs: Any) -> Any:
        return training._optimize(step, args, kwargs)

    def private_zero_grad(_: Any, *args: Any, **kwargs: Any) -> Any:
        training._check_zero_grad()
        return zero_grad(*args, **kwargs)

    def private_state_dict(_: Any) -> Any:
        return {**state_dict(), _STATE: training.state()}

    def private_load_state_dict(_: Any, state: Any) -> Any:
        if _STATE not in state:
            raise InvalidParameter(
                f"the state of the optimizer must have the entry {_STATE!r} of the private training that it is from"
            )
        training._resume(state[_STATE])
        return load_state_dict({name: value for name, value in state.items() if name != _STATE})

    private_step._wrapped_by_lr_sched = hasattr(step, "_wrapped_by_lr_sched")  # type: ignore[attr-defined]
    replaced = {
        (model, "forward"): forward,
        (optimizer, "step"): private_step,
        (optimizer, "zero_grad"): private_zero_grad,
        (optimizer, "state_dict"): private_state_dict,
        (optimizer, "load_state_dict"): private_load_state_dict,
    }
    for (owner, name), function in replaced.items():
        before = vars(owner).get(name)
        bound: Any = function
        vars(owner)[name] = types.MethodType(bound, owner)
        training._undo.append(lambda owner=owner, name=name, before=before: _restore(owner, name, before))
    optimizer.private = training
    training._undo.append(lambda: delattr(optimizer, "private"))


def _restore(owner: Any, name: str, before: Any) -> None:
    if before is None:
        vars(owner).pop(name, None)
    else:
        vars(owner)[name] = before
