"""What a private loop may do next, and what it may be made of: refused at once, before anything is charged."""

from __future__ import annotations

import inspect
from typing import Any

from ferrodp.errors import FerroError, InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.integrations._processes import is_sharded, refuse_sharded
from ferrodp.integrations._tensors import dtype_of
from ferrodp.integrations.torch.gradients import Gradients
from ferrodp.plan import PerGroupClipping, PrivacyPlan


class Parameters(Gradients):
    """The trained parameters of a module, on any device, and whether they are still the same."""

    def __init__(self, model: Any, loss: Any) -> None:
        self.takes_shards = is_sharded(model)
        super().__init__(model, loss)

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
            if not self.takes_shards:
                refuse_sharded(f"parameter {name!r}", parameter)
            if str(parameter.layout) != "torch.strided":
                raise InvalidArrayType(f"parameter {name!r} must be dense, got the layout {parameter.layout}")
            dtype_of(f"parameter {name!r}", parameter)
        return found


class Part:
    """Some of the examples of a step: what the loader hands out at once."""

    __slots__ = ("count", "ends_share", "forwards", "is_last", "is_summed", "is_used", "length")

    def __init__(self, length: int, count: int, *, is_last: bool, ends_share: bool) -> None:
        self.length, self.count, self.is_last, self.ends_share = length, count, is_last, ends_share
        self.forwards, self.is_summed, self.is_used = 0, False, False


def no_loss(*_: Any) -> Any:
    """Stand for the loss, which is that of the loop."""
    raise AssertionError("the loss is that of the loop")


def check_optimizer(torch: Any, optimizer: Any, parameters: dict[str, Any]) -> None:
    """Refuse an optimizer that has other parameters, or calls the loss by itself."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidType(
            f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}; for example "
            "torch.optim.Adam(model.parameters())"
        )
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    # mutant: optimizer-that-needs-a-closure-taken
    needs_closure = closure is not None and closure.default is inspect.Parameter.empty
    if needs_closure or isinstance(optimizer, (torch.optim.LBFGS, torch.optim.SparseAdam)):
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


def check_used(part: Part | None, step: Any) -> None:
    """Refuse to go on from a batch that was not used."""
    if part is None or part.is_used or step is None:
        return
    if part.is_summed:
        raise FerroError(
            "the batch before was not used: optimizer.step() has to follow loss.backward() for every batch. To "
            "train on more examples a step, raise the sampling probability and give make_private a part_size: "
            "optimizer.step() then waits for the last part"
        )
    raise FerroError(
        "the batch before was not used: loss.backward() and optimizer.step() have to be called for every batch, "
        "whatever is in it, as which batches are left out is private. No batch may be fetched ahead or accumulated; "
        "for more examples a step, give make_private a part_size"
    )


def check_call(part: Part | None, *, is_training: bool) -> bool:
    """Return whether a call of the model with gradients is for a batch; refuse where none or a used one is."""
    if part is None or part.is_used:
        if not is_training:
            return False
        raise FerroError(
            "the model was called with gradients, and not for a batch of the private loader: take each batch from "
            "the loader that make_private returned, and put evaluations into torch.no_grad()"
        )
    if part.is_summed:
        raise FerroError(
            "the model was called with gradients after loss.backward() and before optimizer.step(): call it for "
            "all outputs of a batch before, or within torch.no_grad()"
        )
    return True


def check_numbers(before: tuple[float, ...] | None, numbers: tuple[float, ...]) -> tuple[float, ...]:
    """Return over how many numbers an example the means of a loss go; refuse a batch in which there are others."""
    # mutant: mean-over-as-many-words-as-the-longest-text-has
    if before is not None and numbers != before:
        raise InvalidParameter(
            f"the loss must be a mean over as many numbers an example in every batch, got {_listed(numbers)} after "
            f"{_listed(before)}: the length of one text would change the gradients of others. Pad all texts to one "
            "length, or add the losses of a text up, as in losses.sum(1).mean()"
        )
    return numbers


def _listed(numbers: tuple[float, ...]) -> str:
    return " and ".join(f"{number:g}" for number in numbers) or "none"


def check_curves(plan: PrivacyPlan, shares: int | None, world: Any) -> None:
    """Refuse curves where the sum has no place for them."""
    if isinstance(plan.clipping, PerGroupClipping):
        raise InvalidParameter("curves need one clip norm for all parameters, got PerGroupClipping: use FlatClipping")
    if shares is not None or world is not None:
        raise InvalidParameter(
            "curves must be None in several processes and with shares, whose sums are integers of the gradients' grid"
        )


def closure_of(args: Any, kwargs: Any) -> Any:
    """Return the closure that ``optimizer.step()`` was given, or None; refuse anything else."""
    given = [*args, *(value for name, value in kwargs.items() if name == "closure")]
    others = [name for name, value in kwargs.items() if name != "closure" and value is not None]
    if others or len(given) > 1 or (given and given[0] is not None and not callable(given[0])):
        raise InvalidParameter(
            "optimizer.step() of a private training takes a closure at most, which is called once; set learning rates "
            "in the groups of the optimizer"
        )
    return given[0] if given else None


def check_begun(part: Part | None, step: Any) -> None:
    """Refuse ``optimizer.step()`` without a batch."""
    if part is None or step is None or part.is_used:
        raise FerroError(
            "optimizer.step() was called without a batch: take one from the loader that make_private returned, "
            "and call loss.backward() and optimizer.step() once for it"
        )


def check_summed(part: Part) -> None:
    """Refuse ``optimizer.step()`` that has no gradient to go by."""
    if not part.is_summed:
        raise FerroError("optimizer.step() was called before loss.backward(): there is no gradient of this batch")


def check_zero_grad(part: Part | None) -> None:
    """Refuse ``zero_grad()`` that would leave nothing to train with."""
    if part is not None and part.is_summed and not part.is_used:
        raise FerroError(
            "zero_grad() was called between loss.backward() and optimizer.step(), which would train nothing: call "
            "it before loss.backward() or after optimizer.step()"
        )
