"""Properties of outputs that hold for about half of them, or for few; chosen on outputs of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp.audit._events.regions import last_bits

Array: TypeAlias = npt.NDArray[Any]

_BINS = 64
_LEAST_SHARE = 1e-3
"""Properties that fewer have, or lack, of the outputs that choose are left out."""


class Property(NamedTuple):
    """What outputs may have."""

    name: str
    holds: Callable[[Array], npt.NDArray[np.bool_]]


def properties(sample: Array) -> list[Property]:
    """Return those that some outputs of the sample have and some have not."""
    found = [*_bits_of_rank("output", sample, lambda x: x)]
    center = np.median(sample)
    found += _bits_of_rank("distance from the median", np.abs(sample - center), lambda x: np.abs(x - center))
    found += _last_bits(sample)
    return [each for each in found if _LEAST_SHARE <= float(np.mean(each.holds(sample))) <= 1.0 - _LEAST_SHARE]


def _bits_of_rank(name: str, sample: Array, of: Callable[[Array], Array]) -> list[Property]:
    """Return the leading bits of an output's rank among those of the sample, and whether it is beyond nearly all."""
    edges = np.unique(np.quantile(sample, np.arange(1, _BINS) / _BINS))

    def bit(place: int) -> Callable[[Array], npt.NDArray[np.bool_]]:
        return lambda x: (np.searchsorted(edges, of(x), side="right") >> place & 1).astype(np.bool_)

    most = max(int(edges.size).bit_length(), 1)
    found = [Property(f"bit {most - place} of the rank of the {name}", bit(place)) for place in reversed(range(most))]
    far = float(np.quantile(sample, 0.99))
    return [*found, Property(f"{name} above {far:g}", lambda x: np.asarray(of(x) > far))]


def _last_bits(sample: Array) -> list[Property]:
    """Return the binary digits of outputs, from the last one that any of the sample has up."""
    if sample.dtype.kind in "iu":
        lowest = 0
        most = int(np.abs(sample.astype(np.float64)).max()).bit_length()

        def whole(x: Array) -> npt.NDArray[np.int64]:
            found: npt.NDArray[np.int64] = x.astype(np.int64)
            return found

    else:
        lowest = int(last_bits(sample.astype(np.float64)).min())
        largest = float(np.abs(sample).max())
        most = int(np.frexp(largest)[1]) - lowest if largest and lowest < 9999 else 0
        if most > 62:  # not on a grid: the digits of the significand instead
            return [Property(f"bit {place} of the significand", _digit_of_float(place)) for place in range(52)]

        def whole(x: Array) -> npt.NDArray[np.int64]:
            steps = np.clip(np.ldexp(x.astype(np.float64), -lowest), -(2.0**62), 2.0**62)
            found: npt.NDArray[np.int64] = np.floor(steps).astype(np.int64)
            return found

    def digit(place: int) -> Callable[[Array], npt.NDArray[np.bool_]]:
        return lambda x: (whole(x) >> place & 1).astype(np.bool_)

    return [Property(f"digit of 2^{lowest + place}", digit(place)) for place in range(min(most, 62))]


def _digit_of_float(place: int) -> Callable[[Array], npt.NDArray[np.bool_]]:
    return lambda x: (x.astype(np.float64).view(np.int64) >> place & 1).astype(np.bool_)
