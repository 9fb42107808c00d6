"""A training in the loop that is there already: sums, payments, and the state of both."""

from __future__ import annotations

import os
import types
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ferrodp._base._validate import Real
from ferrodp.errors import FerroError, InvalidParameter
from ferrodp.events import PrivacyEvent
from ferrodp.integrations._processes import refuse_world
from ferrodp.integrations._tensors import GradientMemory, framework
from ferrodp.integrations.torch import _losses, _several, _sharded
from ferrodp.integrations.torch._bound import Bound
from ferrodp.integrations.torch._ghost import GhostSum
from ferrodp.integrations.torch._modules import Module
from ferrodp.integrations.torch.private import checks
from ferrodp.integrations.torch.private.curves import CurvePoint, Curves, TrainingCurves
from ferrodp.plan import AutomaticClipping, PerGroupClipping, PlanRun, PlanStep, PrivacyPlan
from ferrodp.plan.clipping import refuse_l1
from ferrodp.plan.step import release_bounded
from ferrodp.random import NoiseSource
from ferrodp.testing import seeded

if TYPE_CHECKING:
    from torch.nn import Module as TorchModule
    from torch.optim import Optimizer

    from ferrodp.budget import PrivacyLedger

__all__ = ["PrivateTraining"]

_BESIDE = "curves of the training"
"""The last entry of the template, where there are curves; no name of a parameter has a space."""


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
    curves : tuple of CurvePoint
        What was released of losses, with `TrainingCurves`.

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
        curves: TrainingCurves | None = None,
        noise_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self._torch = torch = framework("torch", extra="torch")
        self._world = world = _several.World.joined(torch)
        self._ledger, self._scope, self._source = ledger, scope, source
        self._gradients = checks.Parameters(model, checks.no_loss)
        self._gradients.check_layers()
        self._parameters = self._gradients.parameters
        checks.check_optimizer(torch, optimizer, self._parameters)
        self._model, self._optimizer = model, optimizer
        self._shards = _sharded.Shards.of(torch, model, self._parameters, world)
        self._clipping = plan.clipping
        # mutant: gradients-clipped-in-l2-with-laplace-noise
        refuse_l1(plan.clipping)
        if isinstance(plan.clipping, PerGroupClipping) and set(plan.clipping.clip_norms) != set(self._parameters):
            raise InvalidParameter(
                f"the groups of clipping must be the names of the trained parameters, {sorted(self._parameters)}, got "
                f"{sorted(plan.clipping.clip_norms)}"
            )
        self._curves = None if curves is None else Curves(torch, curves)
        if curves is not None:
            checks.check_curves(plan, shares, world)
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
        beside = 0 if curves is None else 2
        self._sum = GhostSum(
            torch, self._shapes, Bound.of(plan.population_size, rounding), first.device, stability, beside
        )
        self._integers = None if self._num_shares is None else _several.IntegerSum(torch, size)
        self._template = {name: tuple(shape) for name, shape in self._shapes.items()}
        if beside:
            # mutant: curves-without-noise-of-their-own
            self._template[_BESIDE] = (beside,)
        if world is not None:
            shapes = {name: [list(each.shape), str(each.dtype)] for name, each in self._parameters.items()}
            world.check_alike({"plan": plan.fingerprint, "parameters": shapes, "shares": self._num_shares})
        self._plan_run: PlanRun[Any] = self._agreed(
            lambda: plan.start(
                self._template,
                ledger=ledger,
                scope=scope,
                key=key,
                plan_delta=plan_delta,
                source=source,
                # mutant: private-loop-without-its-noise-file
                noise_file=noise_file,
            )
        )
        if world is not None:
            with torch.no_grad():
                for each in (*(() if self._shards else model.parameters()), *model.buffers()):
                    world.spread_bits(each.data)
        self._memory = GradientMemory(self._parameters.values())
        self._module = Module(model, self._parameters, None if self._shards is None else self._shards.whole)
        self._step: PlanStep[Any] | None = None
        self._waiting: list[list[int]] = []
        self._share_ends: list[bool] = []
        self._part: checks.Part | None = None
        self._numbers: tuple[float, ...] | None = None
        self._has_warned = False
        self._undo: list[Any] = []
        self._is_output = False
        self._kind = _losses.kind_for(self)

    def _agreed(self, start: Any) -> PlanRun[Any]:
        """Return the run that rank 0 starts, and for other ranks one that stands where it does and draws nothing."""
        if self._world is None:
            self._random = self._torch.initial_seed()
            run: PlanRun[Any] = start()
            return run
        started = []

        def do() -> dict[str, Any]:
            started.append(start())
            self._is_seeded = self._source is not None and not self._source.is_private
            seed = self._torch.initial_seed()
            return {"state": started[0].state().decode(), "seeded": self._is_seeded, "random": seed}

        message = self._world.lead(do)
        # mutant: seeded-training-states-a-cost-on-other-ranks
        self._is_seeded = message["seeded"]
        self._random = message["random"]
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

    @property
    def curves(self) -> tuple[CurvePoint, ...]:
        """What was released of losses and clipped gradients since this training began or was resumed."""
        return () if self._curves is None else tuple(self._curves.points)

    def watch(self, losses: Any) -> None:
        """Add the losses of the examples of a batch to the curves; once for every batch, before ``optimizer.step()``.

        Parameters
        ----------
        losses : (n,) tensor
            The loss of each example of the batch, which depends on no other example. Only clamped to the bound of the
            curves and noised is it seen by anybody.

        Raises
        ------
        InvalidParameter, InvalidType
            If `losses` is no tensor of one number an example.
        FerroError
            If the training has no curves, there is no batch, or its losses were given before.

        Examples
        --------
        >>> import torch
        >>> from ferrodp.integrations.torch import TrainingCurves, make_private
        >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
        >>> data = torch.utils.data.TensorDataset(torch.ones(20, 4))
        >>> parts = {"population_size": 20, "sampling": FullBatch(), "num_steps": 2}
        >>> plan = PrivacyPlan(clipping=FlatClipping(1.0), noise=ConstantNoise(4.0), **parts)
        >>> model = torch.nn.Linear(4, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> loader = torch.utils.data.DataLoader(data)
        >>> curves = TrainingCurves(loss_bound=5.0)
        >>> _, _, loader = make_private(model, optimizer, loader, plan=plan, curves=curves)
        >>> for (x,) in loader:
        ...     losses = model(x).square().mean(1)
        ...     optimizer.private.watch(losses)
        ...     losses.mean().backward()
        ...     optimizer.step()
        >>> optimizer.private.close()
        """
        part = self._part
        if self._curves is None:
            raise FerroError("the training has no curves: write make_private(..., curves=TrainingCurves(loss_bound=5))")
        if part is None or part.is_used:
            raise FerroError("watch was called without a batch: call it before optimizer.step()")
        self._curves.watch(losses, part.length, part.count)

    def close(self) -> None:
        """End the training: model and optimizer are again what they were, and a step that is reserved is given back."""
        for undo in reversed(self._undo):
            undo()
        self._undo = []
        self._plan_run.close()

    # the loader

    def _begin(self, most: int | None) -> bool:
        """Begin the next step if there is one, and cut its examples into parts; refuse if the last was not used."""
        checks.check_used(self._part, self._step)
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
        if self._curves is not None:
            self._curves.restart(step.clip_norm)
        if self._integers is not None:
            assert self._num_shares is not None
            assert self.plan.population_size is not None
            rank, number = (self._world.rank, self._world.size) if self._world else (0, 1)
            self._integers.restart(step.clip_norm)
            cuts = [
                _several.cut(drawn, self.plan.population_size, self._num_shares, most, each, number)
                for each in (range(number) if self._shards else [rank])
            ]
            self._waiting, self._share_ends = cuts[rank if self._shards else 0]
            # Parameters are gathered by all ranks, in as many passes of each.
            # mutant: ranks-of-shards-run-different-numbers-of-passes
            missing = max(len(parts) for parts, _ in cuts) - len(self._waiting)
            self._waiting, self._share_ends = self._waiting + [[]] * missing, self._share_ends + [True] * missing
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
            return {"indices": found.indices.tolist(), "clip_norm": found.clip_norm.hex(), "number": found.number}

        message = self._world.lead(do)
        if begun:
            return begun[0]
        if "stopped" in message:
            if self._follows:
                self._plan_run = self._following(message["state"].encode())
                self._stopped = message["stopped"]
            return None
        return types.SimpleNamespace(
            indices=message["indices"], clip_norm=float.fromhex(message["clip_norm"]), number=message["number"]
        )

    def _begin_random(self) -> None:
        """Let what the next part draws, such as dropout, be a matter of its share and step, whoever sums it."""
        place = len(self._share_ends) - len(self._waiting)
        if self._num_shares is None or not self._waiting[0] or (place and not self._share_ends[place - 1]):
            return
        assert self._step is not None
        assert self.plan.population_size is not None
        share = _several.share_of(self._waiting[0][0], self.plan.population_size, self._num_shares)
        # mutant: dropout-of-the-rank-and-not-of-the-share
        self._torch.manual_seed(_several.seed_of(self._random, self._step.number, share))

    def _hand_out(self, batch: Any) -> None:
        """Take the next part as the one that the model is to see."""
        examples = self._waiting.pop(0)
        self._part = checks.Part(
            max(1, len(examples)),
            len(examples),
            is_last=not self._waiting,
            ends_share=self._share_ends[-len(self._waiting) - 1],
        )
        self._module.forget()
        if self._curves is not None:
            self._curves.begin_part()

    # the model

    def _forward(self, plain: Any, args: Any, kwargs: Any) -> Any:
        torch, part = self._torch, self._part
        if self._module.is_inside or not torch.is_grad_enabled():
            return plain(*args, **kwargs)
        if not checks.check_call(part, is_training=self._model.training):
            return plain(*args, **kwargs)
        assert part is not None
        self._check_model()
        self._gradients.check_layers()
        with self._exchanging():
            out = self._module.run(plain, args, kwargs, part.length)
        part.forwards += 1
        if self._shards is not None:
            self._is_output = True  # and FSDP sees the output before `_wrapped` does
            return out
        return _losses.wrapped(self._gradients._tree, out, self._kind)

    def _gather(self) -> None:
        """Gather the parameters of the module itself, as FSDP is about to."""
        with self._exchanging():
            self._model.unshard()  # of fully_shard

    def _wrapped(self, out: Any) -> Any:
        """Return what the module returns, after FSDP has seen it, so that its `backward` clips."""
        if not self._is_output:
            return out
        self._is_output = False
        return _losses.wrapped(self._gradients._tree, out, self._kind)

    def _exchanging(self) -> AbstractContextManager[None]:
        """Within, an error of an exchange between processes says what to do."""
        return nullcontext() if self._shards is None else _several.answered(self._torch)

    @property
    def _awaits_backward(self) -> bool:
        part = self._part
        return part is not None and bool(part.forwards) and not part.is_summed

    def _backward(self, loss: Any) -> None:
        part = self._part
        assert part is not None
        seed = _losses.seed_of(loss, part.length)
        self._numbers = checks.check_numbers(self._numbers, seed.numbers)
        before = {
            name: (each.grad, each.grad._version if each.grad is not None else 0)
            for name, each in self._parameters.items()
        }
        part.forwards = 0  # also where the pass fails: nothing is left of it
        with seed.corrected(), self._exchanging():
            uses = self._module.backward(loss, seed.value)
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
            self._sum.add(uses, self._groups(), seed.scale, real, part.count)
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
        norm = self._step.clip_norm if self._curves is None else self._curves.split().gradient_norm
        return [(list(self._parameters), norm)]

    # the optimizer

    def _optimize(self, plain: Any, args: Any, kwargs: Any) -> Any:
        part, step = self._part, self._step
        closure = checks.closure_of(args, kwargs)
        checks.check_begun(part, step)
        assert part is not None
        loss = None
        if closure is not None:
            # Once, and not by the optimizer, which might do it again for a second gradient.
            with self._torch.enable_grad():
                loss = closure()
        checks.check_summed(part)
        if self._curves is not None:
            self._curves.check_watched()
        if not part.is_last:
            part.is_used = True
            return loss
        self._check_model()
        self._release(step)
        part.is_used = True
        found = plain()
        return found if closure is None else loss

    def _release(self, step: Any) -> None:
        total = self._sum.finish() if self._integers is None else self._sum.total
        kind = np.float64 if any(each.dtype.itemsize == 8 for each in self._parameters.values()) else np.float32
        flat = self._memory.array()
        size = sum(shape.numel() for shape in self._shapes.values())
        if flat is None or flat.dtype != kind:
            flat = np.empty(size, kind)
        try:
            if self._integers is None:
                values, within, number = total.cpu().numpy(), int(self._sum.within), step.number
                if self._curves is not None:
                    values[size:] = self._curves.sums(self._sum.count, within)
                divisor = self._noise(step, values, self._sum.count, within, flat)
                if self._curves is not None:
                    self._curves.keep(number, values[size:], divisor)
            elif self._world is None:
                self._noise_integers(step, flat)
            else:
                self._release_to_all(self._world, step, flat)
        finally:
            if self._follows or self._plan_run.current is None:
                self._step = None
        if self._shards is not None:
            self._shards.write(flat)
            return
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
        # mutant: ranks-with-texts-of-different-lengths
        world.check_alike({"numbers of the loss an example": self._numbers}, "pad all texts to one length")
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
    def _noise(step: PlanStep[Any], values: Any, count: int, within: int, flat: Any) -> float:
        """Pay for a step, add its noise to a sum, write what is left after the division, and return the divisor."""
        divisor = release_bounded(step, values, count=count, within=within)
        gradients = values[: flat.size]
        if flat.dtype == np.float64:
            np.divide(gradients, divisor, out=flat)
            return divisor
        most = float(np.finfo(np.float32).max)
        with np.errstate(over="ignore", under="ignore"):
            np.divide(gradients, divisor, out=flat, casting="same_kind")
        if step.clip_norm * max(1.0, step.noise_multiplier) / divisor > 2.0**40:
            np.clip(flat, -most, most, out=flat)
        return divisor

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
            if now.get(name) is not parameter and (self._shards is None or not self._shards.is_whole(name, now)):
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
