"""The test: properties and equality of pairs of outputs, and stretches that occur twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.audit import _binomial
from ferrodp.audit.independence import _tables
from ferrodp.audit.independence._properties import properties
from ferrodp.audit.independence._repeats import length_for, repeated
from ferrodp.audit.independence._tables import Table
from ferrodp.audit.independence.report import IndependenceReport
from ferrodp.audit.power import confidence_of
from ferrodp.errors import InvalidArray

Array: TypeAlias = npt.NDArray[Any]
Named: TypeAlias = tuple[float, Callable[[], str]]
"""A p-value and what it is of."""

_NEAR = 64
_SAMPLE = 4096
_SHOWN = 10
_COMPARED = 1 << 18
"""Pairs that show how often independent outputs are equal."""


def audit_independence(
    release_many: Callable[[int], Any], *, draws: int = 1 << 20, confidence: Real = 0.999
) -> IndependenceReport:
    """Test whether outputs of one call, and of two calls, are independent of each other.

    Noise whose law is right by itself is no protection if it is used twice: the difference of two outputs with the same
    noise is exact. This test looks at pairs of outputs that are 1 to 64 or a power of two apart, in two calls, and at
    pairs at the same place of both calls; and for stretches of outputs that occur again, wherever that is.

    Parameters
    ----------
    release_many : callable
        Takes n and returns an array of n numbers, all of them releases of one and the same value; an array of more
        dimensions counts as its numbers in order. To test many small calls, let it make them and concatenate what they
        return.
    draws : int
        Outputs of both calls together; at least 1024. A call of draws/2 shows repeats at distances of draws/4 at most
        between pairs, and of draws/2 between stretches.
    confidence : float
        Of `violation`; in [0.5, 1). For tests that run every night, near 1: see Notes.

    Returns
    -------
    IndependenceReport

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain.
    InvalidArray
        If `release_many` returns anything but n finite numbers.

    Notes
    -----
    If outputs are independent and of one law, whatever that is, there is a finding with probability 1 − confidence at
    most, for any number of draws. Half of that is for pairs, a quarter for stretches, and a quarter for the bound on
    the probability of a collision from which the length of a stretch follows.

    Properties are chosen on outputs of a call of their own: leading bits of the rank of an output and of its distance
    from the median, last bits, tails. Pairs of one test share no output, so the pairs are independent; given how many
    first and how many second ones have a property, how many have it twice is hypergeometric [Fis35]. Equal pairs, and
    pairs of opposite numbers, are compared with those of two more calls in the same way. All p-values are multiplied by
    how many tests there are.

    A correlation r of a property that half of the outputs have shows from about 150/r² draws on. If m tests run in
    each of n nights, ``confidence=1 - 1e-3 / (m * n)`` keeps the probability of any false alarm below 0.1 %, and the
    draws that are needed grow with the logarithm only.

    References
    ----------
    [Fis35] Fisher, "The logic of inductive inference", Journal of the Royal Statistical Society 98, 1935.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp import DiscreteLaplaceMechanism
    >>> from ferrodp.audit import audit_independence
    >>> mechanism = DiscreteLaplaceMechanism(scale=3)
    >>> def release(n):
    ...     return mechanism.release(np.zeros(n, dtype=np.int64))
    >>> audit_independence(release, draws=4096, confidence=1 - 1e-9).violation
    False
    >>> def lanes(n):  # every second output has the noise of the one before
    ...     return np.repeat(release(n // 2), 2)
    >>> report = audit_independence(lanes, draws=4096)
    >>> report.violation, report.p_value < 1e-9
    (True, True)
    """
    number = _validate.count("draws", draws, minimum=1024)
    certainty = confidence_of(confidence)
    failure = 1.0 - certainty
    size = number // 2
    sample = _drawn(release_many, _SAMPLE)
    compared = min(size, _COMPARED)
    calls = [_drawn(release_many, each) for each in (compared, compared, size, size)]
    first, second = calls[2:]
    found = [*_equal(*calls), *_alike(sample, first, second)]
    found.sort(key=lambda each: each[0])
    limit = 0.5 * failure / len(found)
    messages = [f"{name()} (p = {p * len(found):.3g})" for p, name in found[:_SHOWN] if p <= limit]
    hits = int(np.count_nonzero(calls[0] == calls[1]))
    stretch = length_for(2 * size, _binomial.upper_bound(hits, compared, failure / 4.0), failure / 4.0)
    again = repeated(np.concatenate([first, second]), stretch)
    if again is not None:
        one, other = (f"{place % size} of call {1 + place // size}" for place in again)
        messages.insert(0, f"the {stretch} outputs from number {one} on are those from number {other} on")
    return IndependenceReport(
        claim=getattr(release_many, "__qualname__", type(release_many).__name__),
        draws=2 * size,
        confidence=certainty,
        tests=len(found),
        stretch=stretch,
        p_value=min(found[0][0] * len(found), 1.0),
        findings=tuple(messages),
    )


def _drawn(release_many: Callable[[int], Any], n: int) -> Array:
    found = np.asarray(release_many(n))
    if found.dtype.kind not in "fiub" or found.size != n or not np.isfinite(found).all():
        raise InvalidArray(f"release_many must return {n} finite numbers")
    flat = np.ascontiguousarray(found.reshape(-1))
    return flat.astype(np.int64) if flat.dtype.kind == "b" else flat


def _lags(size: int) -> list[int]:
    """Return the distances of pairs: those near each other, and powers of two."""
    lags = set(range(1, _NEAR + 1)) | {1 << i for i in range(size.bit_length())}
    return sorted(lag for lag in lags if 2 * lag <= size)


def _alike(sample: Array, first: Array, second: Array) -> Iterator[Named]:
    """Yield both p-values of each property at each distance in the first call, and between both calls."""
    every = _tables.packed(np.ones(first.size, dtype=np.bool_))
    held = []
    for each in properties(sample):
        bits = _tables.packed(each.holds(first))
        held.append((each.name, bits))
        other = _tables.packed(each.holds(second))
        yield from _both_sides(_tables.table(bits, other, every), each.name, "same places of two calls")
    for lag in _lags(first.size):
        choices = _tables.pairs(first.size, lag)
        for name, bits in held:
            moved = _tables.later(bits, lag)
            for begins in choices:
                yield from _both_sides(_tables.table(bits, moved, begins), name, f"outputs {lag} apart")


def _both_sides(table: Table, name: str, where: str) -> Iterator[Named]:
    for p in (table.excess(), table.lack()):
        yield p, lambda: _said(name, where, table)


def _said(name: str, where: str, table: Table) -> str:
    expected = table.first * table.second / table.total
    return f"{where}: {table.both} of {table.total} pairs have {name} twice, and {expected:.0f} should"


def _equal(one: Array, other: Array, first: Array, second: Array) -> Iterator[Named]:
    """Yield p-values of more equal pairs, or more opposite ones, than two independent calls have."""
    for name, sign in (("equal", 1), ("opposite", -1)):
        usual = int(np.count_nonzero(one == sign * other)), one.size
        seen = int(np.count_nonzero(first == sign * second)), first.size
        yield _more(usual, seen, name, "same places of two calls")
        for lag in _lags(first.size):
            same = _tables.packed(first[:-lag] == sign * first[lag:])
            for begins in _tables.pairs(first.size, lag):
                yield _more(usual, (_tables.ones(same & begins), _tables.ones(begins)), name, f"outputs {lag} apart")


def _more(usual: tuple[int, int], seen: tuple[int, int], name: str, where: str) -> Named:
    hits, pairs = seen
    p = _tables.tail(hits, pairs + usual[1], pairs, hits + usual[0])
    return p, lambda: f"{where}: {hits} of {pairs} pairs are {name}, and {usual[0]} of {usual[1]} in two other calls"
