"""Trainings over several processes, which are refused: a run of a plan is one process and the whole of its model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ferrodp.errors import InvalidParameter

if TYPE_CHECKING:
    from torch.nn import Module

_WRAPPERS = (
    ("torch.nn.parallel", "DistributedDataParallel"),
    ("torch.nn.parallel", "DataParallel"),
    ("torch.distributed.fsdp", "FullyShardedDataParallel"),
    ("torch.distributed.fsdp", "FSDPModule"),  # what fully_shard makes of a module
)
_SHARDED = ("torch.distributed.tensor", "DTensor")


def refuse_wrappers(model: Module, *, takes_shards: bool = False) -> None:
    """Refuse a module that is spread over devices or processes, or holds one that is; perhaps but for fully_shard."""
    kinds = _loaded(*(_WRAPPERS[:-1] if takes_shards else _WRAPPERS))
    for name, module in model.named_modules():
        # mutant: model-of-several-processes-trained
        if isinstance(module, kinds):
            wrapper = next(kind.__name__ for kind in kinds if isinstance(module, kind))
            whole = "the module before fully_shard" if wrapper == "FSDPModule" else "the module within, model.module"
            what = f"module {name!r}" if name else "model"
            raise InvalidParameter(
                f"{what} must not be spread over devices or processes, got a {wrapper}: gradients of single examples "
                f"are taken without it, and nothing would be exchanged. Train {whole}, in one process"
            )


def within_wrapper(model: Module) -> Module:
    """Return the module that ``DistributedDataParallel`` holds, or the module itself."""
    kinds = _loaded(_WRAPPERS[0])
    return model.module if isinstance(model, kinds) else model  # type: ignore[attr-defined]


def is_sharded(model: Module) -> bool:
    """Return whether ``fully_shard`` was applied to a module itself."""
    return isinstance(model, _loaded(_WRAPPERS[-1]))


def refuse_sharded(name: str, tensor: Any) -> None:
    """Refuse a tensor of which this process has a part."""
    if isinstance(tensor, _loaded(_SHARDED)):
        raise InvalidParameter(
            f"{name} must be whole in the memory of this process, got a DTensor, which is spread over processes: "
            "train the module before fully_shard, in one process"
        )


def refuse_world() -> None:
    """Refuse to train in one of several processes that work together.

    Each would draw a sample of its own and release every step of the plan: what all of them release costs as many
    times what the plan says as there are processes.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    size = distributed.get_world_size()
    # mutant: each-process-releases-the-whole-plan
    if size > 1:
        raise InvalidParameter(
            f"torch.distributed must have a world size of 1, got {size}: each process would release all steps of the "
            "plan, about samples of its own, and each of them costs what the plan says. Train in one process that "
            "was started without torchrun or init_process_group, or with integrations.torch.make_private, which joins "
            "processes that were there before it"
        )


def refuse_jax_world(jax: Any) -> None:
    """Refuse to train in one of several processes of JAX, for the same reason."""
    size = jax.process_count()
    # mutant: each-process-of-jax-releases-the-whole-plan
    if size > 1:
        raise InvalidParameter(
            f"jax.process_count() must be 1, got {size}: each process would release all steps of the plan, about "
            "samples of its own, and each of them costs what the plan says. Train in one process, without "
            "jax.distributed.initialize; its devices may be several"
        )


def refuse_mindspore_world(mindspore: Any) -> None:
    """Refuse to train in one of several processes of MindSpore, for the same reason."""
    communication = sys.modules.get("mindspore.communication")
    size = 1
    if communication is not None and communication.GlobalComm.INITED:
        size = int(communication.get_group_size())
    # mutant: each-process-of-mindspore-releases-the-whole-plan
    if size > 1:
        raise InvalidParameter(
            f"mindspore.communication must have a group size of 1, got {size}: each process would release all steps "
            "of the plan, about samples of its own, and each of them costs what the plan says. Train in one process, "
            "without msrun and mindspore.communication.init"
        )
    mode = mindspore.get_auto_parallel_context("parallel_mode")
    # mutant: parallel-mode-of-mindspore-trained
    if mode != "stand_alone":
        raise InvalidParameter(
            f"parallel_mode must be 'stand_alone', got {mode!r}: nothing is exchanged between devices; write "
            'mindspore.set_auto_parallel_context(parallel_mode="stand_alone")'
        )


def _loaded(*names: tuple[str, str]) -> tuple[type, ...]:
    """Return those of these classes whose modules are loaded: there are no objects of the others."""
    found = (getattr(sys.modules.get(module), name, None) for module, name in names)
    return tuple(each for each in found if isinstance(each, type))
