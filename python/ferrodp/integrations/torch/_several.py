"""A private training in several processes: shares of one sample, sums of integers, one release for all.

Rank 0 has the run of the plan. It draws the sample of a step, once, and says who was drawn. The population is cut into
shares, ranges that do not depend on the sample or on the number of processes, and each share is summed by one rank: in
float64, then rounded to a grid. What ranks exchange are sums of integers, in which no order matters. Rank 0 pays, adds
noise, and gives the result to all. The page *Several processes* of the proofs has the argument.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ferrodp.errors import FerroError, InvalidParameter

_GRID_BITS = 36
"""The grid of integers is at most 2⁻³⁶ of the clip norm wide: sums of 2²⁴ examples stay below 2⁶²."""


def rounding_residue(most_examples: int, coordinates: int) -> float:
    """Return what rounding to the grid, and of the total to float64, takes of the clip norm at most.

    Both neighbors are rounded, by half a step in each coordinate of one share. The total is at most N clip norms long,
    and each coordinate is rounded by 2⁻⁵³ of itself.
    """
    return 1.01 * (math.sqrt(coordinates) * 2.0**-_GRID_BITS + 2.0 * most_examples * 2.0**-53)


def granularity(clip_norm: float) -> float:
    """Return the width of the grid: a power of two, at most 2⁻³⁶ of the clip norm."""
    return math.ldexp(1.0, math.frexp(clip_norm)[1] - 1 - _GRID_BITS)


def share_of(index: int, population_size: int, shares: int) -> int:
    """Return the share that an example belongs to: ranges of nearly one length."""
    return index * shares // population_size


def seed_of(random: int, step: int, share: int) -> int:
    """Return what PyTorch's generator begins a share with; nothing that is kept secret depends on it."""
    digest = hashlib.sha256(f"{random} {step} {share}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def cut(indices: list[int], population_size: int, shares: int, most: int | None, rank: int, size: int) -> Any:
    """Return the parts that a rank has to sum, and after which of them a share ends.

    A rank without an example has one part, of nobody.
    """
    members: dict[int, list[int]] = {}
    for index in indices:
        share = share_of(index, population_size, shares)
        # mutant: shares-summed-by-every-rank
        if share % size == rank:
            members.setdefault(share, []).append(index)
    parts: list[list[int]] = []
    ends: list[bool] = []
    for share in sorted(members):
        own = members[share]
        step = most or len(own)
        for start in range(0, len(own), step):
            parts.append(own[start : start + step])
            ends.append(start + step >= len(own))
    return (parts, ends) if parts else ([[]], [True])


class IntegerSum:
    """The sum of the shares of a step, on the grid of its clip norm."""

    def __init__(self, torch: Any, size: int) -> None:
        self._torch = torch
        self.total = torch.zeros(size, dtype=torch.int64)
        self.counts = torch.zeros(2, dtype=torch.int64)
        """How many examples, and how many of them within the norm."""
        self._granularity = 1.0

    def restart(self, clip_norm: float) -> None:
        """Begin a step."""
        self.total.zero_()
        self.counts.zero_()
        self._granularity = granularity(clip_norm)

    def add(self, share: Any, count: int, within: int) -> None:
        """Round the sum of a share to the grid, and add it."""
        # mutant: shares-added-as-floats
        self.total += (share / self._granularity).round().cpu().to(self._torch.int64)
        self.counts += self._torch.tensor([count, within])

    def values(self) -> Any:
        """Return the total in float64."""
        return self.total.to(self._torch.float64) * self._granularity


class World:
    """The processes of a training, of which rank 0 leads."""

    def __init__(self, torch: Any, distributed: Any) -> None:
        self._torch, self._distributed = torch, distributed
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()
        backend = str(distributed.get_backend())
        if "gloo" not in backend:
            raise InvalidParameter(
                f"the processes must exchange tensors of the CPU, by the backend gloo, got {backend}: write "
                'init_process_group("cpu:gloo,cuda:nccl")'
            )

    @classmethod
    def joined(cls, torch: Any) -> World | None:
        """Return the processes that this one was joined to; None if it is alone."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return None
        return cls(torch, distributed) if distributed.get_world_size() > 1 else None

    def check_alike(self, what: dict[str, Any], why: str = "make_private was called with others elsewhere") -> None:
        """Refuse to go on if other ranks were given something else."""
        text = json.dumps(what, sort_keys=True).encode()
        own = self._torch.tensor(list(hashlib.sha256(text).digest()), dtype=self._torch.uint8)
        all_of_them = [self._torch.empty_like(own) for _ in range(self.size)]
        self._together(self._distributed.all_gather, all_of_them, own)
        # mutant: ranks-train-by-different-plans
        if any(not bool((each == own).all()) for each in all_of_them):
            raise InvalidParameter(f"every process must have the same {', '.join(what)}: {why}")

    def spread(self, tensor: Any) -> None:
        """Give all ranks the tensor of rank 0."""
        self._together(self._distributed.broadcast, tensor, 0)

    def spread_bits(self, tensor: Any) -> None:
        """Give all ranks the tensor of rank 0, of any type and layout, on any device."""
        flat = tensor.contiguous().cpu().reshape(-1).view(self._torch.uint8)
        self.spread(flat)
        if self.rank:
            tensor.copy_(flat.view(tensor.dtype).view(tensor.shape))

    def add_up(self, total: IntegerSum) -> None:
        """Let rank 0 have the sums of all ranks."""
        self._together(self._distributed.reduce, total.total, 0)
        self._together(self._distributed.reduce, total.counts, 0)

    def lead(self, do: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what rank 0 has to say after it did something, on all ranks; raise on all if it failed."""
        if self.rank:
            message: dict[str, Any] = json.loads(self._receive())
            if "error" in message:
                raise FerroError(f"rank 0 of the training could not go on: {message['error']}")
            return message
        try:
            message = do()
        except BaseException as error:
            text = str(error) if isinstance(error, FerroError) else type(error).__name__
            self._send(json.dumps({"error": text}).encode())
            raise
        self._send(json.dumps(message).encode())
        return message

    def _send(self, text: bytes) -> None:
        self.spread(self._torch.tensor([len(text)]))
        self.spread(self._torch.frombuffer(bytearray(text), dtype=self._torch.uint8))

    def _receive(self) -> bytes:
        length = self._torch.zeros(1, dtype=self._torch.int64)
        self.spread(length)
        text = self._torch.zeros(int(length), dtype=self._torch.uint8)
        self.spread(text)
        return bytes(text.numpy())

    def _together(self, function: Any, *args: Any) -> None:
        try:
            function(*args)
        except Exception as error:  # of the backend: another process ended, or does not answer
            raise _ended() from error


@contextmanager
def answered(torch: Any) -> Iterator[None]:
    """Let exchanges that PyTorch makes itself, such as those of ``fully_shard``, end as those of a `World` do."""
    try:
        yield
    except RuntimeError as error:
        # mutant: error-of-a-backend-passed-on
        if isinstance(error, torch.distributed.DistError) or "gloo" in str(error):
            raise _ended() from error
        raise


def _ended() -> FerroError:
    return FerroError(
        "another process of the training has ended or does not answer: end this one, start all of them again, "
        "and load the last checkpoint. What a ledger has paid for is not paid again"
    )
