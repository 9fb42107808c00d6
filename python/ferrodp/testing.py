"""Replays, for tests only: everything drawn from here is NOT PRIVATE."""

from __future__ import annotations

import threading
from typing import NoReturn

from ferrodp import _native
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.random import NoiseSource, refuse_copy

__all__ = ["SeededNoiseSource", "seeded"]


class SeededNoiseSource(NoiseSource):
    """A noise source that replays: NOT PRIVATE, for whoever has the seed can subtract the noise.

    Call number `c` uses the key that the seed gives for `c`, and is otherwise the same code as `NoiseSource`. So equal
    sequences of calls on equal seeds give equal bits, on every CPU and at any number of threads.
    """

    __slots__ = ("_calls", "_lock", "_seed")

    def __init__(self, seed: bytes) -> None:
        if not isinstance(seed, (bytes, bytearray)):
            raise InvalidType(f"seed must be 32 bytes, got {type(seed).__name__}")
        if len(seed) != 32:
            raise InvalidParameter(f"seed must be 32 bytes, got {len(seed)}")
        self._seed = bytes(seed)
        self._calls = 0
        self._lock = threading.Lock()

    @property
    def is_private(self) -> bool:
        """Whether nobody can know the noise: False."""
        return False

    def _key(self) -> bytes:
        with self._lock:
            call = self._calls
            self._calls += 1
        return _native.derive_key(self._seed, call)

    def __repr__(self) -> str:
        return "<SeededNoiseSource: NOT PRIVATE>"

    def __reduce__(self) -> NoReturn:
        refuse_copy("a seeded source")


def seeded(seed: bytes) -> SeededNoiseSource:
    """Return a source that replays the same noise for the same 32 bytes: NOT PRIVATE, for tests only.

    Examples
    --------
    >>> import ferrodp as fd
    >>> once, again = (fd.testing.seeded(bytes(32)).gaussian(3, standard_deviation=1.0) for _ in range(2))
    >>> bool((once == again).all())
    True
    """
    return SeededNoiseSource(seed)
