"""Events that a test may use: sets of outputs, chosen on draws of their own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
Hits: TypeAlias = npt.NDArray[np.bool_]

_MAX_COLUMNS = 8
_MAX_ATOMS = 16
_NO_BITS = 9999.0
_MAX_PATTERNS = 1024
_PATTERN_HITS = 10
"""Patterns that were seen less often join no event."""
_SETS = 24


@dataclass(frozen=True, slots=True)
class Outputs:
    """Outputs as columns of numbers, NaN where an output is no number, and what kind each is if they differ."""

    columns: npt.NDArray[Any]
    kinds: list[str] | str
    """One for all, if they are alike."""
    _bits: dict[int, Array] = field(default_factory=dict, compare=False, repr=False)
    _patterns: list[tuple[list[bytes], npt.NDArray[np.intp]]] = field(default_factory=list, compare=False, repr=False)

    def bits(self, column: int) -> Array:
        """Return the last bits of a column; see `last_bits`."""
        if column not in self._bits:
            self._bits[column] = last_bits(self.columns[column])
        return self._bits[column]

    def patterns(self) -> tuple[list[bytes], npt.NDArray[np.intp]]:
        """Return which different rows there are, and which of them each output is."""
        if not self._patterns:
            rows, which = np.unique(_comparable(self.columns), axis=0, return_inverse=True)
            self._patterns.append(([row.tobytes() for row in rows], which.reshape(-1)))
        return self._patterns[0]

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self.columns.shape[1])


def outputs_of(values: Sequence[Any] | npt.NDArray[Any]) -> Outputs:
    """Return what a release put out, in order: numbers, arrays, exceptions or anything that prints."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub" and values.ndim in (1, 2):
        flat = values.reshape(values.shape[0], -1)[:, :_MAX_COLUMNS].astype(np.float64)
        return Outputs(np.ascontiguousarray(flat.T), f"numbers of shape {values.shape[1:]}")
    rows = [_row(value) for value in values]
    width = max((len(numbers) for _, numbers in rows), default=1) or 1
    columns = np.full((width, len(rows)), np.nan)
    for i, (_, numbers) in enumerate(rows):
        columns[: len(numbers), i] = numbers
    kinds = [kind for kind, _ in rows]
    return Outputs(columns, kinds if len(set(kinds)) > 1 else kinds[0])


def _row(value: Any) -> tuple[str, list[float]]:
    if isinstance(value, BaseException):
        return f"raises {type(value).__name__}: {value}", []
    try:
        array = np.asarray(value)
        if array.dtype.kind in "fiub" and array.ndim <= 2:
            return f"numbers of shape {array.shape}", array.reshape(-1)[:_MAX_COLUMNS].astype(np.float64).tolist()
    except (ValueError, TypeError):
        pass
    return f"output {value!r}", []


@dataclass(frozen=True, slots=True)
class Region:
    """A set of outputs: a comparison of one number, of its last bit, of the kind of output, or some rows of numbers."""

    what: str
    column: int = 0
    at: float = 0.0
    kind: str = ""
    rows: frozenset[bytes] = frozenset()

    def __str__(self) -> str:
        name = "output" if not self.column else f"output[{self.column}]"
        return {
            "above": f"{name} >= {self.at!r}",
            "below": f"{name} <= {self.at!r}",
            "equal": f"{name} == {self.at!r}",
            "finer": f"{name} is no multiple of 2^{int(self.at)}",
            "coarser": f"{name} is a multiple of 2^{int(self.at)}",
            "kind": self.kind,
            "among": f"output is one of {len(self.rows)} sequences of numbers",
        }[self.what]

    def hits(self, outputs: Outputs) -> Hits:
        """Return which outputs are in it."""
        if self.what == "kind":
            kinds = outputs.kinds
            if isinstance(kinds, str):
                return np.full(outputs.size, kinds == self.kind)
            return np.array([kind == self.kind for kind in kinds], dtype=np.bool_)
        if self.what == "among":
            rows, which = outputs.patterns()
            return np.array([row in self.rows for row in rows], dtype=np.bool_)[which]
        if self.column >= outputs.columns.shape[0]:
            return np.zeros(outputs.size, dtype=np.bool_)
        x = outputs.columns[self.column]
        if self.what == "above":
            return np.asarray(x >= self.at)
        if self.what == "below":
            return np.asarray(x <= self.at)
        if self.what == "equal":
            return np.asarray(x == self.at)
        bits = outputs.bits(self.column)
        return np.asarray(bits < self.at) if self.what == "finer" else np.asarray((bits >= self.at) & (x == x))

    def excludes(self, other: Region) -> bool:
        """Return whether no output is in both, by their definitions."""
        mine, its = sorted((self, other), key=lambda region: region.what)  # "above", "below", "equal", ...
        if mine.what == its.what == "kind":
            return mine.kind != its.kind
        if mine.what == its.what == "among":
            return not mine.rows & its.rows
        if mine.column != its.column:
            return False
        if (mine.what, its.what) == ("above", "below"):
            return mine.at > its.at
        if mine.what == its.what == "equal":
            return mine.at != its.at
        if its.what == "equal" and mine.what in ("above", "below"):
            return its.at < mine.at if mine.what == "above" else its.at > mine.at
        if (mine.what, its.what) == ("coarser", "finer"):
            return mine.at >= its.at
        return False


def last_bits(x: Array) -> Array:
    """Return e where 2^e is the last bit of each number that is set; zeros and what is not finite have a large one."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(x), x, 0.0))
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = (whole & -whole).astype(np.float64)
    return np.where(whole == 0, _NO_BITS, np.log2(np.maximum(lowest, 1.0)) + exponent - 53.0)


def candidates(one: Outputs, other: Outputs) -> list[Region]:
    """Return the events among which one is chosen."""
    kinds = _common(one.kinds, other.kinds)
    found = [Region("kind", kind=kind) for kind in kinds] if len(kinds) > 1 else []
    for column in range(min(one.columns.shape[0], other.columns.shape[0])):
        x = np.concatenate([one.columns[column], other.columns[column]])
        x = x[np.isfinite(x)]
        if not x.size:
            continue
        tail = np.geomspace(20.0 / x.size, 0.5, 40) if x.size > 40 else np.array([0.5])
        for place in np.unique(np.quantile(x, np.concatenate([tail, 1.0 - tail]))):
            found += [Region("above", column, float(place)), Region("below", column, float(place))]
        values, times = np.unique(x, return_counts=True)
        for i in np.argsort(-times, kind="stable")[:_MAX_ATOMS].tolist():
            if times[i] >= 10:
                found.append(Region("equal", column, float(values[i])))
        for place in np.unique(np.concatenate([one.bits(column), other.bits(column)])):
            if place < _NO_BITS:
                found += [Region("finer", column, float(place)), Region("coarser", column, float(place))]
    return found + _sequences(one, other)


def _sequences(one: Outputs, other: Outputs) -> list[Region]:
    """Return sets of rows of a few numbers, those with the largest ratios first, for each of both sides."""
    if not one.columns.shape[0] == other.columns.shape[0] >= 2:
        return []
    begin = np.concatenate([each.columns[:, :_MAX_PATTERNS] for each in (one, other)], axis=1)
    if np.unique(_comparable(begin), axis=0).shape[0] > _MAX_PATTERNS // 2:
        return []
    counts = [
        dict(zip(rows, np.bincount(which).tolist(), strict=True))
        for rows, which in (each.patterns() for each in (one, other))
    ]
    seen = {row: (counts[0].get(row, 0), counts[1].get(row, 0)) for row in counts[0] | counts[1]}
    found: list[Region] = []
    for side in (0, 1):
        often = [(hits[side], hits[1 - side], row) for row, hits in seen.items() if sum(hits) >= _PATTERN_HITS]
        if not often:
            continue
        often.sort(key=lambda each: ((each[1] + 3.0) / (each[0] + 3.0), each[2]))
        sums = np.cumsum([hits for hits, _, _ in often])
        ends = sorted({int(np.searchsorted(sums, sums[-1] * share)) for share in np.geomspace(1e-3, 0.9, _SETS)})
        found += [Region("among", rows=frozenset(row for _, _, row in often[: end + 1])) for end in ends]
    return found


def _comparable(columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return rows for columns, in which what is no number equals itself."""
    return np.where(np.isnan(columns), np.finfo(np.float64).max, columns).T + 0.0


def _common(*kinds: list[str] | str) -> list[str]:
    seen = Counter(kind for each in kinds for kind in ([each] if isinstance(each, str) else each))
    return [kind for kind, _ in seen.most_common(_MAX_ATOMS)]


def score(p: float, q: float, chosen: int, counted: int, delta: float) -> float:
    """Return about the ε that the event is going to show, from rates that were seen in `chosen` draws of each side."""
    known = math.sqrt(1.0 / chosen + 1.0 / counted)
    low = p - 3.0 * math.sqrt(p * (1.0 - p)) * known - delta
    high = q + 3.0 * math.sqrt(q * (1.0 - q)) * known + 7.0 / counted + 3.0 / chosen
    return math.log(low / high) if low > 0.0 else -math.inf
