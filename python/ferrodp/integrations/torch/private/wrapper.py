"""Model, optimizer and loader as they were, connected with a training by a plan."""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ferrodp._base import _validate
from ferrodp._base._public import suggesting
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.integrations._processes import within_wrapper
from ferrodp.integrations._tensors import framework
from ferrodp.integrations.torch import _several
from ferrodp.integrations.torch.private.checks import check_zero_grad
from ferrodp.integrations.torch.private.curves import TrainingCurves
from ferrodp.integrations.torch.private.loader import PrivateLoader
from ferrodp.integrations.torch.private.training import PrivateTraining
from ferrodp.plan import PrivacyPlan
from ferrodp.random import NoiseSource

if TYPE_CHECKING:
    from torch.nn import Module as TorchModule
    from torch.optim import Optimizer

    from ferrodp.budget import PrivacyLedger

__all__ = ["make_private"]

_STATE = "ferrodp"


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
    curves: TrainingCurves | None = None,
    noise_file: str | os.PathLike[str] | None = None,
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
        Of all trained parameters of the model and no others. A closure is called once. It is changed in place.
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
        processes: PyTorch's generator begins each share anew, so that dropout is the same, too. None in a process that
        is alone: one sum, without a grid.
    curves : TrainingCurves, optional
        Release the mean loss and the share of clipped gradients of each step, too, from losses that
        ``optimizer.private.watch(losses)`` is given for every batch. In one process, with one clip norm.
    noise_file : path, optional
        With `CorrelatedNoise` and a `key`: as for `PrivacyPlan.start`. A loop that was killed then goes on with the
        same noise, at the step after the last one that was begun. Of rank 0; the other processes make no file.

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
    others there are, or which of their words are ignored. A mean over words goes over all places of a batch, so texts
    are padded to one length; another is refused. Nothing else but the loss of an example may depend on it.

    Sums are formed in float64 with a proven error bound, which is taken off the clip norm: less than 0.05 %. So the
    noise is that of the plan, and `plan.event` is what is charged. It is assumed that what PyTorch computes for an
    example, the inputs and output gradients of layers, does not depend on the other examples of its batch. That holds
    to the last bit for batches of one length on the kernels that are tested, and up to rounding in general.

    *Several processes* that were joined by ``torch.distributed`` (gloo) before this call train one model: each calls
    `make_private` with the same arguments, the plain module or one in ``DistributedDataParallel``, and begins with the
    parameters of rank 0; or with a module of ``fully_shard``, whose parts stay with their ranks. Rank 0 draws the
    samples, pays and adds the noise; the others need no ledger. Where a process ends, the others raise `FerroError` at
    their next step.

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
    if curves is not None and not isinstance(curves, TrainingCurves):
        raise InvalidType(f"curves must be TrainingCurves, got {type(curves).__name__}; TrainingCurves(loss_bound=5)")
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
        curves=curves,
        noise_file=noise_file,
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

    _show_signature(forward, plain)

    def private_step(_: Any, *args: Any, **kwargs: Any) -> Any:
        return training._optimize(step, args, kwargs)

    def private_zero_grad(_: Any, *args: Any, **kwargs: Any) -> Any:
        check_zero_grad(training._part)
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
    if training._shards is not None:
        hooks = (
            model.register_forward_pre_hook(lambda *_: training._gather(), prepend=True),
            model.register_forward_hook(lambda _, __, out: training._wrapped(out)),
        )
        training._undo += [each.remove for each in hooks]
    optimizer.private = training
    training._undo.append(lambda: delattr(optimizer, "private"))


def _show_signature(function: Any, plain: Any) -> None:
    """Let a method say that it takes what `plain` takes: trainers choose by it which columns a model gets."""
    try:
        signature = inspect.signature(plain)
    except (TypeError, ValueError):
        return
    own = inspect.Parameter("_private", inspect.Parameter.POSITIONAL_ONLY)
    function.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()])


def _restore(owner: Any, name: str, before: Any) -> None:
    if before is None:
        vars(owner).pop(name, None)
    else:
        vars(owner)[name] = before
