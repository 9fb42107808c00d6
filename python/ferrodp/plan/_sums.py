"""The sum of a step: what each clipping adds up, and how it is released.

Everything that could refuse a release is asked before the step is paid for; `release` then draws. What it returns is
flat: one array of all coordinates in the order of the template, for the step or a framework to split.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp._base._trees import Branch
from ferrodp._numerics.rounding import product_up
from ferrodp.errors import InvalidParameter
from ferrodp.mechanisms import GaussianMechanism, LaplaceMechanism
from ferrodp.plan.clipping import (
    L1_ALONE,
    AdaptiveClipping,
    AutomaticClipping,
    Clipping,
    FlatClipping,
    L1Clipping,
    PerGroupClipping,
)
from ferrodp.plan.correlated import StepNoise, check_no_block
from ferrodp.random import NoiseSource
from ferrodp.sums import ClippedSum
from ferrodp.sums.absolute import L1Sum
from ferrodp.sums.canary_coordinates import marked
from ferrodp.sums.clipped import integers_flat, release_flat
from ferrodp.sums.layout import Layout
from ferrodp.tickets import Ticket

MULTIPLIERS = (2.0**-30, 2.0**13)
"""Of the noise multiplier of a sum: inside what its grid supports."""

_LARGEST_COUNT = 2.0**500
"""Of the noise multiplier of a count: inside what noise can be drawn for."""

Pay = Callable[[], None]
Flat: TypeAlias = npt.NDArray[Any]


class StepSum(abc.ABC):
    """An empty sum over a template, to which the vectors of units are added; released once."""

    clip_norm: float
    """Largest L2 norm that one unit adds."""
    takes_ticket = False
    """Whether a ticket can be handed on to one native release, which arms it."""
    signs: npt.NDArray[np.int8] | None = None
    """Of an audit: for each canary whether it takes part in this step, and in which direction."""
    distance = 1
    """How many clip norms apart the sums of neighbors can be, for records of releases."""
    marks: npt.NDArray[np.float64] | None = None
    """Of an audit, after the release: the noised coordinates of the canaries, in clip norms."""
    number = 0
    """Of the step."""
    correlated: StepNoise | None = None
    """What a release draws with, where noise is correlated over steps."""

    @abc.abstractmethod
    def add(self, stacked: object) -> None:
        """Add vectors that are stacked along a first axis, each clipped by itself."""

    @abc.abstractmethod
    def add_one(self, update: object, minus: object = None) -> None:
        """Add one vector, less another if there is one."""

    @abc.abstractmethod
    def merge(self, other: object) -> None:
        """Add what was added to a `ClippedSum` of the same kind elsewhere."""

    @property
    @abc.abstractmethod
    def parts(self) -> dict[str, ClippedSum[Any]]:
        """The sums that this one consists of, by name: what is kept of it, and what kept ones are merged into."""

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """How many vectors were added."""

    @abc.abstractmethod
    def release(
        self,
        multiplier: float,
        divisor: float | None,
        *,
        source: NoiseSource,
        ticket: Ticket | None,
        pay: Pay,
        out: Flat | None = None,
    ) -> Flat:
        """Return the noised sum, flat, perhaps in `out`; paid for with `ticket` if given, else by calling `pay`."""

    def release_bounded(
        self,
        total: npt.NDArray[np.float64],
        multiplier: float,
        *,
        count: int,
        within: int,
        source: NoiseSource,
        pay: Pay,
    ) -> None:
        """Add noise in place to a sum whose neighbors are `clip_norm` apart at most; `within` of `count` are short."""
        pay()
        self._noise(total, multiplier, source)

    def _noise(self, total: npt.NDArray[np.float64], multiplier: float, source: NoiseSource) -> None:
        """Add Gaussian noise to a sum of floats in place, and to the coordinates of canaries."""
        mechanism = GaussianMechanism(
            # The same noise, in units of what neighbors are apart.
            noise_multiplier=multiplier / self.distance,
            l2_sensitivity=self.distance * self.clip_norm,
        )
        if self.signs is None:
            mechanism.release(total, out=total, source=source)
            return
        values = np.concatenate([total, self.signs * self.clip_norm])
        mechanism.release(values, out=values, source=source)
        total[...] = values[: total.size]
        self.marks = values[total.size :] / self.clip_norm

    def share_within(self, expected: float) -> float | None:
        """Return the noised share of `expected` vectors that were within the norm; None if they were not counted."""
        return None

    def _released(
        self,
        total: ClippedSum[Any],
        multiplier: float,
        divisor: float | None,
        source: NoiseSource,
        ticket: Ticket | None = None,
        out: Flat | None = None,
    ) -> Flat:
        """Release one of the sums, together with the coordinates of canaries if there are any."""
        if self.signs is None:
            return release_flat(total, multiplier, divisor, source, ticket, out=out, distance=self.distance)
        both = release_flat(marked(total, self.signs), multiplier, divisor, source, ticket, distance=self.distance)
        released, noised = np.split(both, [both.size - self.signs.size])
        share = total.clip_norm / self.clip_norm
        units = noised.astype(np.float64) * ((divisor or 1.0) / total.clip_norm)
        # Groups have noise of one standard deviation: weighted by their norms, they add up to one coordinate.
        weighted = share * share * units
        self.marks = weighted if self.marks is None else self.marks + weighted
        return released


class _OneSum(StepSum):
    """One `ClippedSum` for all arrays."""

    takes_ticket = True

    def __init__(self, clipping: FlatClipping | AutomaticClipping, layout: Layout) -> None:
        self.clip_norm = clipping.clip_norm
        options = {"stability": clipping.stability} if isinstance(clipping, AutomaticClipping) else {}
        self._total: ClippedSum[Any] = ClippedSum(layout, clip_norm=self.clip_norm, **options)

    @property
    def granularity(self) -> float:
        """Width of the grid that vectors are summed on."""
        return self._total.granularity

    def add(self, stacked: object) -> None:
        self._total.add_many(stacked)

    def add_one(self, update: object, minus: object = None) -> None:
        self._total.add(update, minus=minus)

    def merge(self, other: object) -> None:
        self._total.merge(other)  # type: ignore[arg-type]  # refuses what is no sum

    @property
    def parts(self) -> dict[str, ClippedSum[Any]]:
        return {"": self._total}

    @property
    def count(self) -> int:
        return self._total.count

    def release(
        self,
        multiplier: float,
        divisor: float | None,
        *,
        source: NoiseSource,
        ticket: Ticket | None,
        pay: Pay,
        out: Flat | None = None,
    ) -> Flat:
        if ticket is None:
            pay()
        return self._released(self._total, multiplier, divisor, source, ticket, out)


class _CorrelatedSum(_OneSum):
    """One `ClippedSum`, released with noise of the run's stream."""

    takes_ticket = False

    def __init__(self, clipping: FlatClipping | AutomaticClipping, layout: Layout, noise: StepNoise) -> None:
        super().__init__(clipping, layout)
        self.correlated = self._steps = noise

    def release(
        self,
        multiplier: float,
        divisor: float | None,
        *,
        source: NoiseSource,
        ticket: Ticket | None,
        pay: Pay,
        out: Flat | None = None,
    ) -> Flat:
        check_no_block(source)
        self._steps.advance(self.number)
        integers = integers_flat(self._total)
        pay()
        values = self._steps.noised(integers, divisor)
        with np.errstate(over="ignore"):
            released: Flat = values.astype(self._total.dtype)
        most = np.finfo(released.dtype).max
        np.clip(released, -most, most, out=released)
        if out is not None:
            out[...] = released
        return released if out is None else out

    def release_bounded(
        self,
        total: npt.NDArray[np.float64],
        multiplier: float,
        *,
        count: int,
        within: int,
        source: NoiseSource,
        pay: Pay,
    ) -> None:
        check_no_block(source)
        self._steps.advance(self.number)
        pay()
        # mutant: sum-of-a-framework-noised-as-if-steps-were-independent
        self._steps.add_to(total)


class _LaplaceSum(StepSum):
    """An exact sum of vectors that are clipped in L1 norm, released with Laplace noise."""

    def __init__(self, clipping: L1Clipping, layout: Layout) -> None:
        self.clip_norm = clipping.clip_norm
        self._layout = layout
        # It has the grid, and refuses a clip norm without one; nothing is added to it.
        granularity = ClippedSum(layout, clip_norm=self.clip_norm).granularity
        self._total = L1Sum(layout.size, self.clip_norm, granularity)

    def add(self, stacked: object) -> None:
        self._total.add(*self._layout.stacked(stacked))

    @_arrays.quiet
    def add_one(self, update: object, minus: object = None) -> None:
        leaves = self._layout.leaves(update, "update")
        if minus is not None:
            others = self._layout.leaves(minus, "minus")
            leaves = [np.subtract(one, other, dtype=np.float64) for one, other in zip(leaves, others, strict=True)]
        self._total.add(leaves, 1)

    def merge(self, other: object) -> None:
        raise InvalidParameter("merge takes sums that were clipped in L2 norm; with L1Clipping add the vectors here")

    @property
    def parts(self) -> dict[str, ClippedSum[Any]]:
        return {}

    @property
    def count(self) -> int:
        return self._total.count

    @_arrays.quiet
    def release(
        self,
        multiplier: float,
        divisor: float | None,
        *,
        source: NoiseSource,
        ticket: Ticket | None,
        pay: Pay,
        out: Flat | None = None,
    ) -> Flat:
        values = self._total.values()
        # mutant: laplace-noise-of-a-plan-of-another-scale
        scale = product_up(multiplier, self.clip_norm)
        mechanism = LaplaceMechanism(scale=scale, l1_sensitivity=self.distance * self.clip_norm)
        pay()
        mechanism.release(values, out=values, source=source)
        if divisor is not None:
            values /= divisor
        limit = float(np.finfo(self._layout.dtype).max)
        released: Flat = np.clip(values, -limit, limit).astype(self._layout.dtype)
        if out is None:
            return released
        out[...] = released
        return out

    def release_bounded(
        self,
        total: npt.NDArray[np.float64],
        multiplier: float,
        *,
        count: int,
        within: int,
        source: NoiseSource,
        pay: Pay,
    ) -> None:
        # mutant: sum-of-a-framework-clipped-in-l2-with-laplace-noise
        raise InvalidParameter(L1_ALONE)


class _GroupSums(StepSum):
    """A `ClippedSum` for each group, all with noise of one standard deviation.

    The noise is z·J, J² = ΣCᵢ². Group i alone has the multiplier zᵢ = z·J/Cᵢ, and Σ1/zᵢ² = 1/z²: the releases together
    cost one release of z. All products are rounded up.
    """

    def __init__(self, clipping: PerGroupClipping, layout: Layout) -> None:
        tree = layout.structure
        is_mapping = isinstance(tree, Branch) and tree.kind == "dict"
        if not isinstance(tree, Branch) or not is_mapping or set(tree.keys) != set(clipping.clip_norms):
            kind = tree.kind if isinstance(tree, Branch) else "ndarray"
            found = sorted(map(str, tree.keys)) if isinstance(tree, Branch) and is_mapping else kind
            groups = sorted(clipping.clip_norms)
            raise InvalidParameter(f"template must be a mapping with the groups {groups} of clip_norms, got {found}")
        self.clip_norm = clipping.initial_norm
        self._norms = clipping.clip_norms
        self._names = list(tree.keys)
        self._totals: dict[str, ClippedSum[Any]] = {
            name: ClippedSum(Layout(child, layout.dtype), clip_norm=self._norms[name])
            for name, child in zip(tree.keys, tree.children, strict=True)
        }

    def _groups(self, tree: object, name: str) -> Mapping[str, Any]:
        if not isinstance(tree, Mapping) or set(tree) != set(self._names):
            raise InvalidParameter(f"{name} must be a mapping with the groups {sorted(self._names)}")
        return tree

    def add(self, stacked: object) -> None:
        groups = self._groups(stacked, "gradients")
        # mutant: groups-of-different-length-added
        lengths = {np.shape(leaf)[:1] for group in groups.values() for leaf in _leaves(group)}
        if len(lengths) > 1:
            raise InvalidParameter("gradients must have the same length along the first axis in every group")
        for name in self._names:  # looked at before one is added: what is refused leaves nothing behind
            # mutant: batch-of-one-group-stays-when-another-is-refused
            self._totals[name]._layout.stacked_rows(groups[name])
        for name in self._names:
            self._totals[name].add_many(groups[name])

    def add_one(self, update: object, minus: object = None) -> None:
        groups = self._groups(update, "update")
        others: Mapping[str, Any] = {} if minus is None else self._groups(minus, "minus")
        for name in self._names:
            for tree, what in ((groups, "update"), (others, "minus")):
                # mutant: vector-of-one-group-stays-when-another-is-refused
                if tree:
                    self._totals[name]._layout.rows(tree[name], what)
        for name in self._names:
            self._totals[name].add(groups[name], minus=others.get(name))

    def merge(self, other: object) -> None:
        raise InvalidParameter("merge takes sums of one clip norm; with PerGroupClipping add the vectors here")

    @property
    def parts(self) -> dict[str, ClippedSum[Any]]:
        return dict(self._totals)

    @property
    def count(self) -> int:
        return max(total.count for total in self._totals.values())

    def release(
        self,
        multiplier: float,
        divisor: float | None,
        *,
        source: NoiseSource,
        ticket: Ticket | None,
        pay: Pay,
        out: Flat | None = None,
    ) -> Flat:
        joint = Fraction(multiplier) * Fraction(self.clip_norm)
        # mutant: groups-noised-each-for-itself
        multipliers = {name: _validate.rounded(joint / Fraction(self._norms[name]), "up") for name in self._names}
        pay()
        # In the order of the template: that of `_names`.
        parts = [self._released(self._totals[name], multipliers[name], divisor, source) for name in self._names]
        return np.concatenate(parts)


class _AdaptiveSum(StepSum):
    """A `ClippedSum`, and the noised count of vectors that were within its norm.

    Both are released together. In units of their noise, a unit moves them by a vector of length at most 1/z, the root
    of zs⁻² + zc⁻² for the multipliers of the sum and of the count. There are two counts:

    - Each vector counts ½ if it is within the norm, −½ if it is beyond. A unit that is added or removed moves the count
      by ½, one that is replaced by another by 1, of which either half is the distance to a sample without it.
    - Where units are replaced by null units, each vector beyond the norm counts −1 and all others 0. A null unit, whose
      vector has norm 0, then leaves sum and count as they are without it, whether a sample holds it or not. So one law
      of two neighbors has a single center, 0, and the other moves from it by at most 1/z in the steps that the unit
      takes part in. That is the condition of every bound on samples under REPLACE_SPECIAL; with counts of ±½, a null
      unit would move the count in exactly the steps that it is drawn for, and no bound on such a pair would hold.
    """

    def __init__(self, clipping: AdaptiveClipping, layout: Layout, clip_norm: float, null_units: bool) -> None:
        self.clip_norm = clip_norm
        self._clipping, self._null_units = clipping, null_units
        self._total: ClippedSum[Any] = ClippedSum(layout, clip_norm=clip_norm)
        self._noised_count: float | None = None

    def add(self, stacked: object) -> None:
        self._total.add_many(stacked)

    def add_one(self, update: object, minus: object = None) -> None:
        self._total.add(update, minus=minus)

    def merge(self, other: object) -> None:
        self._total.merge(other)  # type: ignore[arg-type]

    @property
    def parts(self) -> dict[str, ClippedSum[Any]]:
        return {"": self._total}

    @property
    def count(self) -> int:
        return self._total.count

    def release(
        self,
        multiplier: float,
        divisor: float | None,
        *,
        source: NoiseSource,
        ticket: Ticket | None,
        pay: Pay,
        out: Flat | None = None,
    ) -> Flat:
        parts = self._clipping.split(multiplier)
        count = self._count(multiplier, self._total.count, self._total.within_bound)
        pay()
        released = self._released(self._total, parts.sum_noise_multiplier, divisor, source, out=out)
        self._noised_count = count(source)
        return released

    def release_bounded(
        self,
        total: npt.NDArray[np.float64],
        multiplier: float,
        *,
        count: int,
        within: int,
        source: NoiseSource,
        pay: Pay,
    ) -> None:
        parts = self._clipping.split(multiplier)
        noised = self._count(multiplier, count, within)
        pay()
        self._noise(total, parts.sum_noise_multiplier, source)
        self._noised_count = noised(source)

    def _count(self, multiplier: float, total: int, within: int) -> Callable[[NoiseSource], float]:
        """Return what releases the count of vectors within the norm; refuses before anything is paid."""
        # mutant: count-of-norms-without-its-half
        halves = within - total / 2.0
        # mutant: null-unit-counts-as-within
        counted = float(within - total) if self._null_units else halves
        # mutant: vector-beyond-the-norm-moves-the-count-by-half
        apart = 1.0 if self._null_units else 0.5
        mechanism = GaussianMechanism(
            # The same noise, in units of what neighbors are apart.
            noise_multiplier=self._clipping.split(multiplier).count_noise_multiplier / self.distance,
            l2_sensitivity=apart * self.distance,
        )
        return lambda source: float(mechanism.release(counted, source=source))

    def share_within(self, expected: float) -> float | None:
        if self._noised_count is None:
            return None
        # mutant: quantile-decided-by-the-count-itself
        return (1.0 if self._null_units else 0.5) + self._noised_count / expected


def sum_for(
    clipping: Clipping, layout: Layout, clip_norm: float, null_units: bool, correlated: StepNoise | None = None
) -> StepSum:
    """Return an empty sum for a step.

    Parameters
    ----------
    clipping : Clipping
        Of the plan.
    layout : Layout
        What a vector looks like.
    clip_norm : float
        Of this step; used by adaptive clipping.
    null_units : bool
        Whether neighbors differ by one vector that is replaced by zeros, of which the count of a step must not know.
    correlated : StepNoise, optional
        What the release draws with, where noise is correlated over steps.
    """
    if isinstance(clipping, PerGroupClipping):
        return _GroupSums(clipping, layout)
    if isinstance(clipping, L1Clipping):
        return _LaplaceSum(clipping, layout)
    if isinstance(clipping, AdaptiveClipping):
        return _AdaptiveSum(clipping, layout, clip_norm, null_units)
    assert isinstance(clipping, (FlatClipping, AutomaticClipping))
    if correlated is not None:
        return _CorrelatedSum(clipping, layout, correlated)
    return _OneSum(clipping, layout)


def grid_of(clipping: FlatClipping | AutomaticClipping, layout: Layout) -> float:
    """Return the width of the grid that a step's vectors are summed on."""
    return _OneSum(clipping, layout).granularity


def check_multipliers(clipping: Clipping, least: float, most: float) -> None:
    """Refuse noise multipliers that a sum's grid does not support, before anything is paid."""
    low, high = MULTIPLIERS
    reached = _largest(clipping, most)
    if not (low <= least and reached <= high):
        more = ""
        if isinstance(clipping, PerGroupClipping):
            more = ": the clip norms of groups differ too much"
        elif isinstance(clipping, AdaptiveClipping):
            more = ": count_noise_multiplier is too close to the noise multipliers of the plan"
        raise InvalidParameter(
            f"noise must have multipliers of sums from {low:g} to {high:g}, got {least:g} to {reached:g}"
            + (more if reached > most else "")
        )
    # mutant: count-of-a-plan-with-more-noise-than-can-be-drawn
    if isinstance(clipping, AdaptiveClipping) and clipping.count_noise_multiplier > _LARGEST_COUNT:
        raise _validate.out_of_domain(
            "count_noise_multiplier", f"at most {_LARGEST_COUNT:g}", clipping.count_noise_multiplier
        )


def admitted_factors(clipping: Clipping, least: float, most: float) -> tuple[float, float]:
    """Return by which factors all noise of a plan may be scaled: `check_multipliers` accepts what lies between them.

    The multipliers of sums are proportional to the factor, up to roundings. For adaptive clipping these are magnified:
    zs/z = (1 − (z/zc)²)^(−1/2) ≤ 2¹³/z, so an error of 2⁻⁵¹ in z/zc is one of up to 2⁻²⁵/z² in zs, relatively, hence
    below 2⁻¹⁰ from z = 2⁻⁷ on.
    """
    low, high = MULTIPLIERS
    factor = high / _largest(clipping, most)
    if isinstance(clipping, AdaptiveClipping):
        factor = min(factor, _LARGEST_COUNT / clipping.count_noise_multiplier)
    return min(low / least * (1.0 + 2.0**-10), 1.0), max(factor * (1.0 - 2.0**-10), 1.0)


def _largest(clipping: Clipping, most: float) -> float:
    """Return the largest noise multiplier of a sum, in steps whose largest is `most`."""
    if isinstance(clipping, PerGroupClipping):
        return most * (clipping.initial_norm / min(clipping.clip_norms.values()))
    # mutant: sum-beside-a-count-has-the-noise-of-both
    return clipping.split(most).sum_noise_multiplier if isinstance(clipping, AdaptiveClipping) else most


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, Mapping):
        return [leaf for child in tree.values() for leaf in _leaves(child)]
    if isinstance(tree, (list, tuple)):
        return [leaf for child in tree for leaf in _leaves(child)]
    return [tree]
