"""Replays, for tests only: whatever comes from here is NOT PRIVATE."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import NoReturn

from ferrodp import _native
from ferrodp._observer import OBSERVER, Observation, Recorder, Replayer
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.random import NoiseSource
from ferrodp.random.noise import refuse_copy

__all__ = ["Observation", "SeededNoiseSource", "record", "replay", "seeded"]


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
            # mutant: every-call-of-seeded-source-uses-key
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


@contextlib.contextmanager
def record() -> Iterator[list[Observation]]:
    """Return a list that grows by an `Observation` for each release inside the block: NOT PRIVATE, it holds the inputs.

    Of this thread or task alone. Mechanisms, sums and statistics report; a bare `NoiseSource` has nothing to declare.
    """
    recorder = Recorder()
    with _looking_on(recorder):
        yield recorder.log


@contextlib.contextmanager
def replay(log: Sequence[Observation]) -> Iterator[list[Observation]]:
    """Make releases return what was recorded, and check that nothing else tells the two runs apart: NOT PRIVATE.

    For the code *around* releases: run it on a dataset inside `record`, then on a neighboring one inside this. It has
    to make the same releases, one after the other, with inputs no further apart than each declares: see `Observation`.
    That monotonic utilities or queries move one way is not checked, nor what is published without a release.

    Raises
    ------
    AssertionError
        At the first release that is not in the record, or has other public parameters, or an input too far from the
        recorded one; at the end of the block, if releases are missing.

    Examples
    --------
    >>> import ferrodp as fd
    >>> mechanism = fd.LaplaceMechanism(scale=2.0, l1_sensitivity=1.0)
    >>> def report(ages):
    ...     return mechanism.release(float(sum(age > 40 for age in ages)))
    >>> with fd.testing.record() as log:
    ...     first = report([35, 52, 61])
    >>> with fd.testing.replay(log):
    ...     report([35, 52]) == first
    True
    """
    replayer = Replayer(log)
    with _looking_on(replayer):
        yield replayer.log
    # mutant: replay-may-leave-releases-out
    replayer.finish()


@contextlib.contextmanager
def _looking_on(recorder: Recorder) -> Iterator[None]:
    token = OBSERVER.set(recorder)
    try:
        yield
    finally:
        OBSERVER.reset(token)
