r"""Rows in public boxes, and sums of products of their numbers with one payment.

*Rows.* Each column is clamped to its public bounds and moved to [−1, 1]: t. A row with a number that is not finite is
left out: all that it adds is zero. With a bound R on ‖t‖ longer rows are shortened to it.

*Sums.* A sum of outer products u ⊗ v is a `ClippedSum`, which bounds each product in exact arithmetic: one row moves
it by at most the clip norm C in L2 norm, whatever rounding did to u and v. C is chosen as a bound on ‖u‖·‖v‖, from
public parameters alone; the guarantee does not depend on its being one.

*Units.* With `unit` a unit has up to k rows that count, of those with finite numbers and a known class; the others add
zero. Which ones count is a function of the unit's own rows and coins (`keys.of_columns`): a unit moves each sum as k
rows do.

*Partitions.* Where nothing about the rows is asked before the sum, which is so with a public bound on ‖t‖, the sum of a
table is that of the sums of its parts: each product is bounded and rounded by itself, and integers are added.

*Noise.* Several Gaussian sums with noise multipliers zᵢ cost as much as one with z, 1/z² = Σ 1/zᵢ², also where later
sums depend on earlier results [DRS22, Corollary 3.3]: a composition of Gaussian events, which accountants know
exactly.

References
----------
[DRS22] Dong, Roth, Su, "Gaussian differential privacy", J. R. Stat. Soc. B 84, 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp.errors import InvalidArray, InvalidParameter, InvalidType
from ferrodp.events import ComposedEvent, GaussianEvent, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import Budget, gaussian_multiplier
from ferrodp.statistics._column import Keep, column, column_of, names_of
from ferrodp.statistics._foreign import number
from ferrodp.statistics.keys import of_columns as _units
from ferrodp.statistics.parts import exact
from ferrodp.sums import ClippedSum
from ferrodp.sums.clipped import release_flat

__all__: list[str] = []

Floats = npt.NDArray[np.float64]


class Box(NamedTuple):
    """Public bounds of columns."""

    lower: Floats
    upper: Floats

    @property
    def middle(self) -> Floats:
        """Halfway between the bounds."""
        return 0.5 * self.lower + 0.5 * self.upper

    @property
    def half(self) -> Floats:
        """Half the distance of the bounds."""
        return 0.5 * self.upper - 0.5 * self.lower

    @property
    def words(self) -> str:
        """The bounds of each column, or those that all have."""
        ends = [f"[{low:g}, {high:g}]" for low, high in zip(self.lower.tolist(), self.upper.tolist(), strict=True)]
        return ", ".join(ends) if len(set(ends)) > 1 else ends[0]

    def scaled(self, values: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return rows in [−1, 1], zeros for those that do not count, and which count."""
        counts: npt.NDArray[np.bool_] = np.asarray(np.isfinite(values).all(axis=1))
        inside = np.clip(np.where(counts[:, None], values, self.middle), self.lower, self.upper)
        return (inside - self.middle) / self.half, counts


def box_of(bounds: object, width: int) -> Box:
    """Return public bounds of so many columns: a pair of numbers for all, or of sequences of numbers."""
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise _validate.out_of_domain("bounds", "a pair (lower, upper)", bounds, write="(0, 100)")
    ends = []
    for end in bounds:
        if isinstance(end, (list, tuple, np.ndarray)):
            numbers = [_validate.exact("bounds", each) for each in np.asarray(end).ravel().tolist()]
            if len(numbers) != width:
                accepted = f"two numbers, or two sequences of {width}, the number of columns"
                raise InvalidArray(f"bounds must be {accepted}, got {len(numbers)}")
        else:
            numbers = [_validate.exact("bounds", end)] * width
        ends.append(np.array([float(each) for each in numbers]))
    lower, upper = ends
    if not (lower < upper).all():
        raise InvalidParameter("bounds must be in ascending order in each column; leave constant columns out")
    if not (np.maximum(np.abs(lower), np.abs(upper)) <= 1e100).all() or not (upper - lower >= 1e-100).all():
        raise InvalidParameter("bounds must be at most 1e100 in size, and at least 1e-100 apart")
    return Box(lower, upper)


def rows_of(values: Any, name: str = "rows", width: int | None = None, without: object = None) -> Floats:
    """Return a matrix of numbers as floats; tables have their columns read in order, but for the one of units."""
    if is_table(values):
        names = names_without(values, without)
        # mutant: null-of-one-row-decides-on-the-type-of-a-table
        return np.column_stack([_column_of(values, each) for each in names])
    if isinstance(values, (list, tuple)):
        values = np.array([[number(entry) for entry in row] for row in values], np.float64)
    array = _arrays.base_array(values, name)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise InvalidArray(f"{name} must be a matrix of numbers, got dtype {array.dtype}; convert its columns first")
    if array.ndim != 2 or array.shape[1] < 1:
        raise InvalidArray(f"{name} must have the shape (n, d) with d ≥ 1, got {array.shape}")
    if width is not None and array.shape[1] != width:
        raise InvalidArray(f"{name} must have {width} columns, got {array.shape[1]}")
    _validate.fits_in_memory(name, 16 * array.size)
    return array.astype(np.float64)


def of_units(spent: Budget, rows: Any, unit: Any, keep: Keep) -> Budget:
    """Return the budget of a model that knows whose each row is; a name is that of a column of the table."""
    if isinstance(unit, str):
        if not is_table(rows):
            raise InvalidType(
                f"unit must be an id for each row where rows are no table, got {_validate.shown(unit)}; to name a "
                "column pass a DataFrame or a dict of columns"
            )
        found = _units.of_units(spent, column_of(rows, unit), keep)
        return found._replace(words=found.words._replace(unit=unit))
    return _units.of_units(spent, unit, keep)


def counted(spent: Budget, able: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which rows count: of those that are able to, up to so many of each unit."""
    # mutant: rows-of-a-unit-without-bound-in-a-model
    return _units.counted(spent, able)


def is_table(values: Any) -> bool:
    """Return whether rows come as columns with names."""
    return isinstance(values, dict) or hasattr(values, "columns")


def names_without(frame: Any, without: object) -> list[Any]:
    """Return the names of the columns: all but that of units."""
    names = names_of(frame)
    if not isinstance(without, str):
        return names
    rest = [each for each in names if each != without]
    if not rest:
        raise InvalidArray(f"rows must have a column besides that of units, {_validate.shown(without)}")
    return rest


def _column_of(frame: Any, name: Any) -> Floats:
    """Return a column as floats, NaN for what is missing."""
    held = column(column_of(frame, name), "drop", str(name))
    found: Floats = held.values.astype(np.float64)
    if held.nulls is not None:
        found[held.nulls] = math.nan
    return found


def shortened(rows: Floats, length: float) -> Floats:
    """Return rows that are no longer than a length, up to rounding, which the sum corrects."""
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    found: Floats = rows * np.minimum(1.0, length / np.maximum(norms, length))[:, None]
    return found


def shares(whole: float, parts: Sequence[Fraction]) -> list[float]:
    """Return the noise multipliers of sums that together cost what one costs, each so much of its 1/z²; rounded up."""
    # mutant: shares-of-several-sums-cost-more-than-one
    squares = [Fraction(whole) ** 2 / part for part in parts]
    found = []
    for square in squares:
        root = math.sqrt(square)
        while Fraction(root) ** 2 < square:
            root = math.nextafter(root, math.inf)
        found.append(root)
    return found


class Payment(NamedTuple):
    """The sources of several Gaussian sums under one payment, with their noise multipliers, and what they cost."""

    event: PrivacyEvent
    sources: list[NoiseSource]
    multipliers: list[float]
    distance: int

    def release(self, number: int, total: ClippedSum[Any]) -> Floats:
        """Return a sum with noise of as many clip norms as a unit of privacy moves it, times its multiplier."""
        noise = self.multipliers[number] * self.distance
        flat = release_flat(total, noise, None, self.sources[number], None, distance=self.distance)
        found: Floats = flat.reshape(total.integers.shape)
        return found

    def deviation(self, number: int, clip_norm: float) -> float:
        """Return the standard deviation of the noise of a sum."""
        return self.multipliers[number] * self.distance * clip_norm


class Plan(NamedTuple):
    """What several Gaussian sums will cost, and with which noise multipliers, before anything is paid."""

    event: PrivacyEvent
    events: tuple[PrivacyEvent, ...]
    multipliers: list[float]
    distance: int


def planned(spent: Budget, parts: Sequence[Fraction]) -> Plan:
    """Return the noise of several Gaussian sums that share a budget."""
    if not spent.delta:
        raise InvalidParameter(
            "delta must be above 0, got 0: the noise of these sums is Gaussian; for example delta=1e-6"
        )
    whole = gaussian_multiplier(spent.epsilon, spent.delta)
    found = [whole] if len(parts) == 1 else shares(whole, parts)
    events = tuple(GaussianEvent(noise_multiplier=each) for each in found)
    event = events[0] if len(events) == 1 else ComposedEvent(events=events)
    # mutant: model-of-replaced-rows-costs-what-one-costs-that-comes
    return Plan(event, events, found, spent.max_contributions * (2 if spent.replaces else 1))


def pay(spent: Budget, plan: Plan, model: str, rows: Any, box: Box, without: object = None) -> Payment:
    """Return what several Gaussian sums draw from, after all parameters were checked; the model is for the record."""
    said = spent.says(model, _columns_of(rows, without))
    said = said._replace(words=said.words._replace(bounds=box.words))
    sources = said.sources(*plan.events, null_distance=Fraction(1, 2) if spent.replaces else Fraction(1))
    return Payment(plan.event, sources, plan.multipliers, plan.distance)


@dataclass(frozen=True, slots=True)
class Summed:
    """The state of a sum of some rows: those of several parts add up to that of all, integer by integer."""

    state: bytes

    def __add__(self, other: Summed) -> Summed:
        total = ClippedSum.from_state(self.state)
        # mutant: products-of-a-part-left-out
        total.merge_state(other.state)
        return Summed(total.state(checksum="fast"))


def of_all_parts(total: Callable[[], ClippedSum[Any]], public: Callable[[], Any]) -> ClippedSum[Any]:
    """Return a sum that is noised next, or that of all parts of a table; `public` returns all that says how."""
    if exact.is_whole():
        return total()
    return ClippedSum.from_state(exact.passed(lambda: Summed(total().state(checksum="fast")), public).state)


def _columns_of(rows: Any, without: object) -> str | None:
    """Return the names of the columns of a table, but for that of units; None for an array."""
    names = names_without(rows, without) if is_table(rows) else []
    return ", ".join(name for name in names if isinstance(name, str)) or None


def outer_sum(left: Floats, right: Floats, clip_norm: float) -> ClippedSum[Any]:
    """Return the sum of outer products of rows, each bounded in exact arithmetic."""
    total: ClippedSum[Any] = ClippedSum((left.shape[1], right.shape[1]), clip_norm=clip_norm, dtype=np.float64)
    total.add_outer(left, right)
    return total


def length_of(clip_norm: object, width: int) -> float | None:
    """Return the public bound on the norm of scaled rows; None where it is found in the data."""
    if clip_norm is None:
        return None
    checked = _validate.positive("clip_norm", clip_norm)
    return min(max(checked, 1e-6), math.sqrt(width))


_EDGES = 12


def found_length(rows: Floats, counts: npt.NDArray[np.bool_], payment: Payment, number: int) -> float:
    """Return a norm that nine tenths of the rows do not exceed, by noised counts; each row is in one of them."""
    width = math.sqrt(rows.shape[1])
    edges = width * np.linspace(0.0, 1.0, _EDGES + 1)[1:]
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    place = np.minimum(np.searchsorted(edges, norms), _EDGES - 1)
    hot = np.zeros((len(rows), _EDGES))
    hot[np.arange(len(rows)), place] = counts
    noised = payment.release(number, outer_sum(counts[:, None].astype(np.float64), hot, 1.0)).ravel()
    rising = np.cumsum(np.maximum(noised, 0.0))
    return float(edges[min(int(np.searchsorted(rising, 0.9 * rising[-1])), _EDGES - 1)])
