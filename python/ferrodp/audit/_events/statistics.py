"""Statistics of an output: numbers that are computed from it, of which events are sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp.audit._events.outputs import Array, Bits, Outputs, bits_of


class Statistic:
    """A number for each output."""

    is_learned = False
    """Whether it depends on draws: then it is judged on others."""

    @property
    def name(self) -> str:
        """What it is, in words."""
        raise NotImplementedError

    def of(self, outputs: Outputs) -> npt.NDArray[Any]:
        """Return the number of each output; NaN where there is none."""
        raise NotImplementedError

    def bits(self, outputs: Outputs) -> Bits:
        """Return what tells outputs apart exactly."""
        return bits_of(self.of(outputs))


@dataclass(frozen=True, slots=True)
class Column(Statistic):
    """One of the numbers."""

    index: int
    is_one_of_many: bool = False

    @property
    def name(self) -> str:
        """What it is, in words."""
        return f"output[{self.index}]" if self.index or self.is_one_of_many else "output"

    def of(self, outputs: Outputs) -> npt.NDArray[Any]:
        """Return the column."""
        return outputs.column(self.index)


@dataclass(frozen=True, slots=True)
class Rest(Statistic):
    """What a float lacks of one of the numbers."""

    index: int

    @property
    def name(self) -> str:
        """What it is, in words."""
        return f"output[{self.index}] minus the float64 next to it"

    def of(self, outputs: Outputs) -> Array:
        """Return what the column lacks."""
        return outputs.rest(self.index)


@dataclass(frozen=True, slots=True)
class Kind(Statistic):
    """The kind, as a number that says nothing else."""

    name = "the kind of the output"

    def of(self, outputs: Outputs) -> Array:
        """Return no numbers: kinds have no order."""
        return np.full(outputs.size, np.nan)

    def bits(self, outputs: Outputs) -> Bits:
        """Return a number for each kind."""
        return outputs.codes()


@dataclass(frozen=True, slots=True)
class Whole(Statistic):
    """The output as a whole, as a number that says nothing else."""

    name = "output"

    def of(self, outputs: Outputs) -> Array:
        """Return no numbers: outputs have no order."""
        return np.full(outputs.size, np.nan)

    def bits(self, outputs: Outputs) -> Bits:
        """Return a number for each output."""
        return outputs.identities()


def _present(outputs: Outputs) -> Array:
    """Return the columns with 0 for what is not there."""
    found: Array = outputs.kept("present", lambda: np.where(np.isnan(outputs.columns), 0.0, outputs.columns))
    return found


def _ordered(outputs: Outputs) -> Array:
    """Return the numbers of each output in rising order."""
    found: Array = outputs.kept("ordered", lambda: np.sort(outputs.columns, axis=0))
    return found


def _first(hits: npt.NDArray[np.bool_]) -> Array:
    """Return the place of the first hit of each output; their number if there is none."""
    found: Array = np.where(hits.any(axis=0), hits.argmax(axis=0), hits.shape[0]).astype(np.float64)
    return found


def _filled(outputs: Outputs, fill: float) -> Array:
    return np.where(np.isnan(outputs.columns), fill, outputs.columns)


DERIVED: dict[str, Callable[[Outputs], npt.NDArray[Any]]] = {
    "the sum of the numbers": lambda outputs: _present(outputs).sum(axis=0),
    "the sum of the absolute numbers": lambda outputs: np.abs(_present(outputs)).sum(axis=0),
    "the L2 norm": lambda outputs: np.sqrt((_present(outputs) ** 2).sum(axis=0)),
    "the largest number": lambda outputs: _filled(outputs, -np.inf).max(axis=0),
    "the smallest number": lambda outputs: _filled(outputs, np.inf).min(axis=0),
    "the largest minus the smallest number": lambda outputs: (
        _filled(outputs, -np.inf).max(axis=0) - _filled(outputs, np.inf).min(axis=0)
    ),
    "the largest minus the second largest number": lambda outputs: (
        -np.diff(np.sort(-_filled(outputs, -np.inf), axis=0)[:2], axis=0)[0]
    ),
    "the place of the largest number": lambda outputs: _filled(outputs, -np.inf).argmax(axis=0).astype(np.float64),
    "the place of the smallest number": lambda outputs: _filled(outputs, np.inf).argmin(axis=0).astype(np.float64),
    "the place of the first number that is not 0": lambda outputs: _first(_present(outputs) != 0.0),
    "how many numbers are not 0": lambda outputs: (_present(outputs) != 0.0).sum(axis=0).astype(np.float64),
    "the place of the first change": lambda outputs: _first(outputs.columns[1:] != outputs.columns[:-1]),
    "how many neighboring numbers are equal": lambda outputs: (
        (outputs.columns[1:] == outputs.columns[:-1]).sum(axis=0).astype(np.float64)
    ),
    "how many numbers repeat others": lambda outputs: (
        (_ordered(outputs)[1:] == _ordered(outputs)[:-1]).sum(axis=0).astype(np.float64)
    ),
    "the least distance of two numbers": lambda outputs: np.fmin.reduce(np.diff(_ordered(outputs), axis=0), axis=0),
    "how many numbers are missing or NaN": lambda outputs: np.isnan(outputs.columns).sum(axis=0).astype(np.float64),
}
"""Of outputs with two numbers or more."""


@dataclass(frozen=True, slots=True)
class Derived(Statistic):
    """One that needs all numbers of an output, and no draws to be known."""

    name: str

    def of(self, outputs: Outputs) -> npt.NDArray[Any]:
        """Return the number of each output."""
        found: npt.NDArray[Any] = np.full(outputs.size, np.nan)
        if outputs.width > 1:
            with np.errstate(all="ignore"):
                found = DERIVED[self.name](outputs)
        return found


@dataclass(frozen=True, eq=False, slots=True)
class Difference(Statistic):
    """The difference, or the sum, of two numbers, rounded to multiples of a step."""

    one: int
    other: int
    sign: float
    step: float

    @property
    def name(self) -> str:
        """What it is, in words."""
        return f"output[{self.one}] {'-' if self.sign < 0 else '+'} output[{self.other}], rounded to {self.step:g}"

    def of(self, outputs: Outputs) -> Array:
        """Return the difference or the sum."""
        with np.errstate(all="ignore"):
            exact = outputs.column(self.one) + self.sign * outputs.column(self.other)
            found: Array = np.round(exact / self.step) * self.step + 0.0
        return found


@dataclass(frozen=True, eq=False, slots=True)
class Frame:
    """How outputs become vectors of finite numbers: limits of each column, and what stands for NaN."""

    low: Array
    high: Array
    fill: Array

    @classmethod
    def of(cls, one: Array, other: Array) -> Frame:
        """Return the frame of columns that are known of both sides."""
        both = np.concatenate([one, other], axis=1)
        finite = np.where(np.isfinite(both), both, np.nan)
        known = np.isfinite(both)
        used = known.any(axis=1)
        low, high, fill = np.zeros(len(both)), np.zeros(len(both)), np.zeros(len(both))
        low[used], high[used] = np.fmin.reduce(finite[used], axis=1), np.fmax.reduce(finite[used], axis=1)
        with np.errstate(all="ignore"):
            middle = np.where(known, both, 0.0)[used].sum(axis=1) / known[used].sum(axis=1)
        fill[used] = np.where(np.isfinite(middle), middle, low[used])
        return cls(low, high, fill)

    def vectors(self, columns: Array) -> Array:
        """Return finite columns."""
        width = len(self.low)
        if columns.shape[0] < width:
            missing = np.full((width - columns.shape[0], columns.shape[1]), np.nan)
            columns = np.concatenate([columns, missing])
        found = np.where(np.isnan(columns[:width]), self.fill[:, None], columns[:width])
        return np.clip(found, self.low[:, None], self.high[:, None])


@dataclass(frozen=True, eq=False, slots=True)
class Bins:
    """The logarithm of the ratio of both sides' rates in each bin of a column."""

    index: int
    edges: Array
    logs: Array

    @classmethod
    def of(cls, index: int, one: Array, other: Array, edges: Array, smoothing: float) -> Bins:
        """Return what is known from columns of both sides."""
        made = cls(index, edges, np.zeros(len(edges) + 2))
        a, b = (np.bincount(made.cells(each), minlength=len(edges) + 2) for each in (one, other))
        return cls(index, edges, np.log((a + smoothing) / (b + smoothing)))

    def cells(self, column: Array) -> npt.NDArray[np.intp]:
        """Return the bin of each number; the last one is that of NaN."""
        found = np.searchsorted(self.edges, column, side="right")
        found[np.isnan(column)] = len(self.edges) + 1
        return found

    def score(self, outputs: Outputs) -> Array:
        """Return the logarithm for each output."""
        found: Array = self.logs[self.cells(np.asarray(outputs.column(self.index), dtype=np.float64))]
        return found


@dataclass(frozen=True, eq=False, slots=True)
class Linear(Statistic):
    """A weighted sum of the numbers, or of scores of the numbers, with weights that were learned."""

    weights: Array
    frame: Frame
    bins: tuple[Bins, ...] = ()
    is_learned = True

    @property
    def name(self) -> str:
        """What it is, in words: the largest weights, as shares of the largest one."""
        order = np.argsort(-np.abs(self.weights), kind="stable")
        shown = [i for i in order.tolist() if abs(self.weights[i]) >= 1e-3 * abs(self.weights[order[0]])]
        of = "output" if not self.bins else "score of output"
        terms = [f"{self.weights[i]:+.4g}·{of}[{i}]" for i in shown[:4]]
        more = f" and {len(shown) - 4} more terms" if len(shown) > 4 else ""
        return f"({' '.join(terms)}{more})"

    def of(self, outputs: Outputs) -> Array:
        """Return the sum for each output."""
        vectors = np.stack([each.score(outputs) for each in self.bins]) if self.bins else outputs.columns
        found: Array = self.weights @ self.frame.vectors(vectors)
        return found


@dataclass(frozen=True, eq=False, slots=True)
class Scores(Statistic):
    """The sum over numbers of the learned logarithm of the ratio of both sides' densities."""

    bins: tuple[Bins, ...]
    is_learned = True

    @property
    def name(self) -> str:
        """What it is, in words."""
        places = ", ".join(str(each.index) for each in self.bins[:6]) + (", ..." if len(self.bins) > 6 else "")
        return f"the sum of the learned log-likelihood ratios of output[{places}]"

    def of(self, outputs: Outputs) -> Array:
        """Return the sum for each output."""
        found: Array = np.sum([each.score(outputs) for each in self.bins], axis=0)
        return found


@dataclass(frozen=True, eq=False, slots=True)
class Quadratic(Statistic):
    """The logarithm of the ratio of two normal densities with learned means and covariances."""

    means: tuple[Array, Array]
    factors: tuple[Array, Array]
    frame: Frame
    is_learned = True
    name: str = field(default="the learned quadratic form of the numbers", init=False)

    def of(self, outputs: Outputs) -> Array:
        """Return it for each output."""
        vectors = self.frame.vectors(outputs.columns)
        one, other = (
            ((factor @ (vectors - mean[:, None])) ** 2).sum(axis=0)
            for mean, factor in zip(self.means, self.factors, strict=True)
        )
        found: Array = 0.5 * (other - one)
        return found


@dataclass(frozen=True, eq=False, slots=True)
class Table(Statistic):
    """The learned logarithm of the ratio of both sides' rates in cells of a plane of two numbers."""

    one: Bins
    other: Bins
    logs: Array
    is_learned = True

    @property
    def name(self) -> str:
        """What it is, in words."""
        return f"the learned log-likelihood ratio of (output[{self.one.index}], output[{self.other.index}])"

    def of(self, outputs: Outputs) -> Array:
        """Return it for each output."""
        cells = [
            each.cells(np.asarray(outputs.column(each.index), dtype=np.float64)) for each in (self.one, self.other)
        ]
        found: Array = self.logs[cells[0], cells[1]]
        return found
