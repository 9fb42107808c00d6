"""A module of ``fully_shard``: which tensors are its parameters while they are whole, and what each rank keeps."""

from __future__ import annotations

from typing import Any

from ferrodp.errors import InvalidParameter
from ferrodp.integrations._processes import is_sharded
from ferrodp.integrations._tensors import framework


class Shards:
    """The parts of parameters that ranks hold, and the whole parameters, which are gathered for a pass and freed."""

    def __init__(self, torch: Any, model: Any, parameters: dict[str, Any]) -> None:
        self._torch, self._parameters = torch, parameters
        self._distribute = framework("torch.distributed.tensor", extra="torch").distribute_tensor
        sharded = [module for module in model.modules() if is_sharded(module)]
        for module in sharded:
            module.unshard()
        try:
            found = dict(model.named_parameters())
            self.whole: dict[str, Any] = {name: found[name] for name in parameters}
        finally:
            for module in sharded:
                module.reshard()
        for name, each in self.whole.items():
            if each.dtype is not parameters[name].dtype:
                raise InvalidParameter(
                    f"parameter {name!r} must have one type, got {parameters[name].dtype} and {each.dtype} while it is "
                    "whole: apply fully_shard without a mixed precision policy"
                )

    @classmethod
    def of(cls, torch: Any, model: Any, parameters: dict[str, Any], world: Any) -> Shards | None:
        """Return the parts of a module to which ``fully_shard`` was applied; None for any other."""
        if not is_sharded(model):
            return None
        size = 1 if world is None else world.size
        kind = framework("torch.distributed.tensor", extra="torch").DTensor
        for name, each in parameters.items():
            # mutant: shards-of-some-of-the-processes
            if not isinstance(each, kind) or each.device_mesh.ndim != 1 or each.device_mesh.size() != size or size < 2:
                raise InvalidParameter(
                    f"parameter {name!r} must be spread over all processes of the training, {size}, by fully_shard on "
                    "a mesh of one axis: init_process_group in each of several processes, then fully_shard(model)"
                )
        return cls(torch, model, parameters)

    def is_whole(self, name: str, now: dict[str, Any]) -> bool:
        """Return whether the tensor that a module has under a name now is the parameter, gathered."""
        return now.get(name) is self.whole[name]

    def write(self, flat: Any) -> None:
        """Let the ``.grad`` of this rank's parts be those of what was released."""
        pieces = self._torch.from_numpy(flat).split_with_sizes([each.numel() for each in self._parameters.values()])
        for parameter, piece in zip(self._parameters.values(), pieces, strict=True):
            whole = piece.view(parameter.shape).to(parameter.device, parameter.dtype)
            # Each rank has the whole, so nothing is sent.
            part = self._distribute(whole, parameter.device_mesh, parameter.placements, src_data_rank=None)
            parameter.grad = part.clone()  # and not in the memory of the whole
