"""Seeded noise, and recorded and replayed releases, for tests only: NOT PRIVATE."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NoReturn

from ferrodp import _native
from ferrodp._observer import OBSERVER, Observation, Recorder, Replayer
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation
from ferrodp.events.base import check_relation
from ferrodp.random import NoiseSource
from ferrodp.random.noise import refuse_copy

__all__ = ["Observation", "SeededNoiseSource", "record", "replay", "seeded"]


class SeededNoiseSource(NoiseSource):
    """A noise source that replays: NOT PRIVATE, as anyone holding the seed can subtract the noise.

    Call number `c` uses a key derived from the seed and `c`; all else is the code of `NoiseSource`. So equal sequences
    of calls on equal seeds give equal bits, on every CPU and with any number of threads.

    Parameters
    ----------
    seed : bytes
        32 bytes.

    Raises
    ------
    InvalidType, InvalidParameter
        If the seed is not 32 bytes.

    Examples
    --------
    >>> SeededNoiseSource(bytes(32)).is_private
    False
    """

    __slots__ = ("_calls", "_lock", "_seed")

    def __init__(self, seed: bytes) -> None:
        if not isinstance(seed, (bytes, bytearray)):
            raise InvalidType(
                f"seed must be 32 bytes, got {type(seed).__name__}; "
                "for instance bytes(32), or hashlib.sha256(...).digest()"
            )
        if len(seed) != 32:
            raise InvalidParameter(
                f"seed must be 32 bytes, got {len(seed)}; for instance bytes(32), or hashlib.sha256(...).digest()"
            )
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

    Parameters
    ----------
    seed : bytes
        32 bytes.

    Returns
    -------
    SeededNoiseSource
        A fresh one, at its first call.

    Raises
    ------
    InvalidType, InvalidParameter
        If the seed is not 32 bytes.

    Examples
    --------
    >>> import ferrodp as fd
    >>> once, again = (fd.testing.seeded(bytes(32)).gaussian(3, standard_deviation=1.0) for _ in range(2))
    >>> bool((once == again).all())
    True
    """
    return SeededNoiseSource(seed)


def record(*, neighboring_relation: NeighboringRelation | None = None) -> AbstractContextManager[list[Observation]]:
    """Record every release inside the block: NOT PRIVATE, as the record holds the inputs.

    Only releases of this thread or task are recorded, by mechanisms, sums and statistics; a bare `NoiseSource` declares
    no sensitivity.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, optional
        How the datasets differ. Under ``REPLACE_ONE`` a sum declares twice its clip norm, and the event of the same
        noise; mechanisms declare the sensitivity that they were given. By default what is released says it: plans know
        their relation, and other sums are stated for a row that is added or removed.

    Returns
    -------
    context manager
        Of a list of `Observation`, which grows by one for each release.

    Raises
    ------
    InvalidParameter, InvalidType
        If the relation is none.

    Examples
    --------
    >>> import ferrodp as fd
    >>> with fd.testing.record() as log:
    ...     _ = fd.LaplaceMechanism(scale=2.0, l1_sensitivity=1.0).release(3.0)
    >>> log[0].mechanism, log[0].sensitivity, log[0].value.item()
    ('LaplaceMechanism', 1.0, 3.0)
    """
    return _recording(Recorder(_relation(neighboring_relation)))


def replay(
    log: Sequence[Observation], *, neighboring_relation: NeighboringRelation | None = None
) -> AbstractContextManager[list[Observation]]:
    """Make releases return what was recorded, and check that nothing else distinguishes the two runs: NOT PRIVATE.

    Tests the code *around* releases: run it on a dataset inside `record`, then on a neighboring one inside this block.
    It has to make the same releases in the same order, with inputs no further apart than each declares: see
    `Observation`. Not checked: that monotonic utilities or queries move one way, and what is published without a
    release.

    Parameters
    ----------
    log : sequence of Observation
        What `record` yielded.
    neighboring_relation : NeighboringRelation, optional
        As for `record`.

    Returns
    -------
    context manager
        Of the releases of this run, a list of `Observation`; outputs are those of the record.

    Raises
    ------
    InvalidParameter, InvalidType
        If the relation is none.
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
    return _replaying(Replayer(log, _relation(neighboring_relation)))


def _relation(given: NeighboringRelation | None) -> NeighboringRelation | None:
    return None if given is None else check_relation(given)


@contextlib.contextmanager
def _recording(recorder: Recorder) -> Iterator[list[Observation]]:
    with _looking_on(recorder):
        yield recorder.log


@contextlib.contextmanager
def _replaying(replayer: Replayer) -> Iterator[list[Observation]]:
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
