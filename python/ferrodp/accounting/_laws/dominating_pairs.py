"""Which pair of laws bounds an event: the specifications that the native code turns into privacy losses.

A pair (P, Q) *dominates* an event if its hockey-stick curve is an upper bound for every pair of neighbors, in one
direction; then compositions of pairs dominate compositions of events (Zhu, Dong, Wang, "Optimal accounting of
differential privacy via characteristic function", AISTATS 2022, Theorem 10). It is *exact* if some neighbors attain it.

In the direction "remove" P has the record that Q lacks; in "add" it is the other way round. For a composition each
direction is composed by itself: the worse one for a single step need not be the worse one for many.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from ferrodp._base import _validate
from ferrodp.accounting._distributed import discrete_sums, skellam
from ferrodp.accounting._laws import allocated, shuffled
from ferrodp.accounting._laws.costs import CHANGES_GROUP, NO_ANSWER, SAMPLE_OF_A_SAMPLE, SAMPLES
from ferrodp.accounting._laws.truncated_poisson import TruncatedSample, truncated_sample
from ferrodp.accounting._types import Unsupported
from ferrodp.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    DistributedDiscreteGaussianEvent,
    EpsilonDeltaEvent,
    ExponentialMechanismEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    NeighboringRelation,
    ParallelEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    RandomizedResponseEvent,
    ShuffledEvent,
    SkellamEvent,
    TruncatedPoissonSampledEvent,
    decompose,
)

Spec: TypeAlias = tuple[Any, ...]
"""A pair: its kind and parameters, as `_native.pair_delta` reads it."""

NOT_ONE_WORST = Unsupported("no one of the groups' events has a pair of laws that dominates all others")
_LARGEST_SCALE = 2.0**46  # the integers within 40 scales are floats
_WHOLE = 2.0**53  # shifts of integers are counted in floats
MOST_SHIFTS = 512
"""Of a mixture of Gaussians; more are merged into about `MERGED_SHIFTS`."""
MERGED_SHIFTS = 256


class EventPairs(NamedTuple):
    """The pairs that dominate an event, one for each direction; the same one twice if the losses are symmetric."""

    remove: Spec
    add: Spec
    is_exact: bool
    """Whether some neighbors attain them: then their lower bounds are lower bounds for the event."""
    below: tuple[Spec, Spec] | None = None
    """Pairs of neighbors that the event dominates, one for each direction, where those above are not attained: lower
    bounds of their compositions are lower bounds for the event's."""

    @property
    def specs(self) -> list[Spec]:
        """The different ones."""
        return [self.remove] if self.add == self.remove else [self.remove, self.add]

    @property
    def lower(self) -> EventPairs | None:
        """The pairs that give lower bounds, or None where there are none."""
        if self.is_exact or self.below is None:
            return self if self.is_exact else None
        return EventPairs(*self.below, is_exact=True)


def lower_parts(parts: Sequence[tuple[EventPairs, int]]) -> list[tuple[EventPairs, int]] | None:
    """Return the pairs that give lower bounds, of all parts, or None where one has none."""
    found = [(pairs.lower, count) for pairs, count in parts if count]
    return None if any(pairs is None for pairs, _ in found) else found  # type: ignore[return-value]  # none is None


def pairs_of(event: PrivacyEvent, relation: NeighboringRelation) -> EventPairs | Unsupported:
    """Return the pairs of a simple event, or why there are none.

    ============================  =====================================================================================
    sum of discrete Gaussians     its own law in one dimension, as a bound: far tails count as infinite losses
    plain noise                   its own law, symmetric, whatever the relation: sensitivities are stated for it
    randomized response           two truths (replace one), or a truth and a uniform answer (replace special)
    (ε, δ), exponential           Kairouz, Oh, Viswanath, "The composition theorem for differential privacy", ICML 2015
    Poisson, add or remove,       P′ = qP + (1−q)Q against Q, and reversed (Zhu, Dong, Wang 2022, Theorem 11); the
    special                       record's contribution moves the result by the sensitivity
    Poisson, replace one          by what the event says of a record that is not in the sample: see `_poisson_replaced`
    fixed size, replace one       δ′(ε) = q·δ(ln(1 + (e^ε − 1)/q)) (Balle, Barthe, Gaboardi, "Privacy amplification by
                                  subsampling", NeurIPS 2018, Theorem 9), as a bound
    fixed size, special           the same at twice the sensitivity, see `_fixed_size`, as a bound
    fixed size, add or remove     the Poisson pair at twice the sensitivity, see `_fixed_size`, as a bound
    disjoint groups               that of the one event that costs no less than the others
    shuffled messages             finitely many outcomes that dominate it: see `shuffled`, as a bound
    truncated Poisson             one of these two, by a coin that everybody sees; see `truncated_poisson`
    random allocation             laws above and below that of the mean likelihood ratio, see `allocated`; those of
                                  Gaussian noise are asked by themselves
    ============================  =====================================================================================
    """
    rule = _RULES.get(type(event))
    if rule is None:
        return Unsupported(f"there is no pair of laws for {type(event).__name__}")
    return rule(event, relation)


def _symmetric(spec: Spec, *, is_exact: bool = True) -> EventPairs:
    return EventPairs(spec, spec, is_exact)


def _directed(spec: Spec, *, is_exact: bool = True) -> EventPairs:
    return EventPairs(spec, ("reversed", spec), is_exact)


def noise(event: PrivacyEvent, distance: int = 1) -> Spec | Unsupported:
    """Return the pair of a release with noise whose result moves by `distance` sensitivities, or why there is none."""
    if isinstance(event, GaussianEvent):
        return ("gaussian", event.noise_multiplier / distance)
    if isinstance(event, LaplaceEvent):
        return ("laplace", event.noise_multiplier / distance)
    if isinstance(event, DiscreteGaussianEvent):
        if event.dimension > 1:
            return Unsupported("a discrete Gaussian in several dimensions has no known worst case")
        if event.scale > _LARGEST_SCALE:
            return Unsupported(f"the scale of a discrete Gaussian must be at most 2^46 here, got {event.scale!r}")
        shift = distance * event.l2_sensitivity
        return ("discrete_gaussian", event.scale, shift, float("inf")) if shift <= _WHOLE else _too_far(shift)
    if isinstance(event, DiscreteLaplaceEvent):
        moved = distance * event.l1_sensitivity
        return ("discrete_laplace", event.scale, moved) if moved <= _WHOLE else _too_far(float(moved))
    return Unsupported(f"there is no pair of laws for {type(event).__name__} here")


def _too_far(shift: float) -> Unsupported:
    return Unsupported(f"its sensitivity must be at most 2^53, got {shift!r}")


def _noise(event: PrivacyEvent, relation: NeighboringRelation) -> EventPairs | Unsupported:
    spec = noise(event)
    return spec if isinstance(spec, Unsupported) else _symmetric(spec)


def _randomized_response(event: RandomizedResponseEvent, relation: NeighboringRelation) -> EventPairs | Unsupported:
    parameters = (event.noise_parameter, float(event.num_buckets))
    if relation is NeighboringRelation.REPLACE_ONE:
        return _symmetric(("randomized_response", *parameters))
    if relation is NeighboringRelation.REPLACE_SPECIAL:
        return _directed(("randomized_response_or_uniform", *parameters))
    return NO_ANSWER


def _distributed(event: DistributedDiscreteGaussianEvent, relation: NeighboringRelation) -> EventPairs | Unsupported:
    """Return the law of the sum and its shift, which are computed, in one coordinate: larger shifts cost more."""
    if event.dimension != 1:
        return Unsupported("a sum of discrete Gaussians in several dimensions has no known worst case")
    n, scale, shift = event.num_shares, event.integer_scale, math.isqrt(event.squared_steps)
    if n == 1:
        return _noise(DiscreteGaussianEvent(scale=scale, l2_sensitivity=shift), relation)
    if scale < discrete_sums.SMALLEST_SCALE:
        return discrete_sums.SMALL_SCALE
    found = discrete_sums.masses_of(n, scale, shift)
    if found is None:
        return Unsupported("the law of a sum of so much discrete Gaussian noise is not computed")
    return _symmetric(("masses", *found), is_exact=False)


def _skellam(event: SkellamEvent, relation: NeighboringRelation) -> EventPairs | Unsupported:
    """Return the law and its shift in one coordinate: it is log-concave, so that larger shifts cost more."""
    if event.dimension != 1:
        return Unsupported("Skellam noise in several dimensions has no known worst case")
    if event.integer_variance < skellam.LEAST_VARIANCE:
        return skellam.SMALL_VARIANCE
    found = skellam.masses_of(event.integer_variance, math.isqrt(event.squared_steps))
    if found is None:
        return Unsupported("the law of so much Skellam noise, or of so little for its shift, is not computed")
    return _symmetric(("masses", *found), is_exact=False)


def _epsilon_delta(event: EpsilonDeltaEvent, relation: NeighboringRelation) -> EventPairs:
    return _symmetric(("epsilon_delta", *(_validate.rounded(each, "up") for each in (event.epsilon, event.delta))))


def _exponential(event: ExponentialMechanismEvent, relation: NeighboringRelation) -> EventPairs:
    return _symmetric(("exponential_mechanism", event.epsilon), is_exact=False)


def _mixture(event: MixtureOfGaussiansEvent, relation: NeighboringRelation) -> EventPairs | Unsupported:
    if relation is NeighboringRelation.REPLACE_ONE:
        return Unsupported("it says what a record adds to a result without it")
    return _of_mixture(event, lambda spec: spec)


def _of_mixture(event: MixtureOfGaussiansEvent, wrapped: Callable[[Spec], Spec]) -> EventPairs:
    """Return the pairs of a mixture, or of what is made of it; from below and above where it has many shifts."""

    def spec(shifts: Sequence[float], probabilities: Sequence[float]) -> Spec:
        return wrapped(("mixture_of_gaussians", event.noise_multiplier, tuple(shifts), tuple(probabilities)))

    merged = merged_shifts(event.shifts, event.probabilities)
    if merged is None:
        return _directed(spec(event.shifts, event.probabilities))
    lower, upper, probabilities = merged
    above, below = spec(upper, probabilities), spec(lower, probabilities)
    return EventPairs(above, ("reversed", above), is_exact=False, below=(below, ("reversed", below)))


def merged_shifts(
    shifts: Sequence[float], probabilities: Sequence[float]
) -> tuple[list[float], list[float], list[float]] | None:
    """Return fewer shifts, no larger and no smaller than those given, and their probabilities; None for few of them.

    Neighboring shifts are merged into one, which is the least of them in the first answer, the largest in the second:
    random shifts with S ≤ S′ ≤ S″. In units of the noise, P of a mixture has the density E e^{Sx − S²/2} with respect
    to Q = N(0, 1), which rises with x as S ≥ 0. So the best tests of P against Q, in both directions, are half-lines
    (Neyman, Pearson), and the power of {x ≥ c} under P is E Φ(S − c), which rises with S: at every level, so at every
    ε, the pair of S lies below that of S′ and that of S″ above it, in both directions. A part that does not move stays
    so: Poisson samples of mixtures are mixtures.

    The cells have equal shares of Σ gap·probability^{1/8}: all but rare shifts are told apart alike, and rare ones
    nearly as well as others, as they decide at small δ. Probabilities are sums rounded once, by less than what the
    native pair allows for the rounding of as many.
    """
    by_shift: dict[float, list[float]] = {}
    for shift, probability in zip(shifts, probabilities, strict=True):
        if probability > 0.0:
            by_shift.setdefault(shift, []).append(probability)
    if len(by_shift) <= MOST_SHIFTS:
        return None
    ordered = sorted(by_shift)
    weights = [math.fsum(by_shift[shift]) for shift in ordered]
    heavier = [max(pair) for pair in itertools.pairwise(weights)]
    gaps = [high - low for low, high in itertools.pairwise(ordered)]
    sizes = [gap * weight**0.125 for gap, weight in zip(gaps, heavier, strict=True)]
    share = math.fsum(sizes) / MERGED_SHIFTS
    lower, upper, merged = [ordered[0]], [ordered[0]], [[weights[0]]]
    size = math.inf if ordered[0] == 0.0 else 0.0  # what does not move is merged with nothing
    for shift, weight, gap in zip(ordered[1:], weights[1:], sizes, strict=True):
        size += gap
        if size > share:
            lower.append(shift)
            upper.append(shift)
            merged.append([weight])
            size = 0.0
        else:
            # mutant: shifts-merged-downward
            upper[-1] = shift
            merged[-1].append(weight)
    return lower, upper, [math.fsum(each) for each in merged]


def _poisson(event: PoissonSampledEvent, relation: NeighboringRelation) -> EventPairs | Unsupported:
    inner, q = event.event, event.sampling_probability
    if isinstance(inner, SAMPLES):
        return SAMPLE_OF_A_SAMPLE
    if relation is NeighboringRelation.REPLACE_ONE:
        return _poisson_replaced(event)
    if isinstance(inner, MixtureOfGaussiansEvent):
        return _of_mixture(inner, lambda spec: ("poisson_sampled", q, spec))
    if relation is NeighboringRelation.REPLACE_SPECIAL and not isinstance(inner, _ADDITIVE):
        return _replaced_at_best(q, pairs_of(inner, relation))  # the null record may show that it is there
    if isinstance(inner, (EpsilonDeltaEvent, ExponentialMechanismEvent)):
        spec = (
            _epsilon_delta(inner, relation) if isinstance(inner, EpsilonDeltaEvent) else _exponential(inner, relation)
        )
        return _directed(("poisson_sampled", q, spec.remove), is_exact=spec.is_exact)
    base = noise(inner)
    return base if isinstance(base, Unsupported) else _directed(("poisson_sampled", q, base))


def _poisson_replaced(event: PoissonSampledEvent) -> EventPairs | Unsupported:
    """Return the pair of a Poisson sample, of which one record is replaced.

    With μ₀ for a sample without the record, μ for one that has it, and μ′ for one that has the other record in its
    place, the result is (1−q)μ₀ + qμ against (1−q)μ₀ + qμ′. The sensitivity speaks of μ and μ′, and `null_distance` n
    of μ and μ₀, in units of the sensitivity. Let γ = e^ε ≥ 1; below 1 both laws change their parts.

    *Nothing said, or n > 1.* Hockey sticks are jointly convex: q times the curve of (μ, μ′), as if a coin that
    everybody sees said whether the record is there. A mechanism that shows the size of the sample attains it.

    *n ≤ 1.* With γ′ = 1 + (γ − 1)/q and β = γ/γ′ the divergence is q times that of μ and (1−β)μ₀ + βμ′ at γ′ (Balle,
    Barthe, Gaboardi 2018, Theorem 2), at most q times the larger of the curves of (μ, μ₀) and (μ, μ′), so of that at
    one sensitivity: the pair of a sample of fixed size.

    *Gaussian noise, n = ½.* Let N(0), N(a), N(b) be the three laws. A test with power s under N(a) has at least the
    error Φ(Φ⁻¹(s) − |a|) under N(0) and Φ(Φ⁻¹(s) − |a − b|) under N(b) (Neyman, Pearson), so that the divergence of the
    last paragraph is at most q·sup {s − γ′(1−β)Φ(Φ⁻¹(s) − ½) − γ′βΦ(Φ⁻¹(s) − 1)}. The half-spaces across a attain both
    at once if b = −a and |a| = ½: the antipodal pair (1−q)N(0) + qN(½) against (1−q)N(0) + qN(−½) is the worst one.
    """
    inner, q = event.event, event.sampling_probability
    additive = isinstance(inner, _ADDITIVE)
    # mutant: every-gaussian-sum-one-of-clipped
    if additive and event.null_distance == 0.5 and isinstance(inner, GaussianEvent):
        return _symmetric(("antipodal_gaussian", q, inner.noise_multiplier))
    found = pairs_of(inner, NeighboringRelation.REPLACE_ONE)
    if isinstance(found, Unsupported):
        return found
    # mutant: what-sample-does-not-say-of-missing-record
    if additive and event.null_distance <= 1.0:
        return _symmetric(("fixed_size_sampled", q, found.remove), is_exact=False)
    return _replaced_at_best(q, found)


def _replaced_at_best(q: float, found: EventPairs | Unsupported) -> EventPairs | Unsupported:
    """Return what holds whatever a sample without the record looks like, as if everybody saw whether it is there."""
    if isinstance(found, Unsupported):
        return found
    return EventPairs(_by_public_coin(q, found.remove), _by_public_coin(q, found.add), is_exact=False)


def _by_public_coin(q: float, spec: Spec) -> Spec:
    """Return the pair that happens with probability q, which everybody sees, and is nothing otherwise."""
    return spec if q == 1.0 else ("public_coin", (min((1.0 - q) * (1.0 + 2.0**-52), 1.0), q), (_NOTHING, spec))


def _fixed_size(event: FixedSizeSampledEvent, relation: NeighboringRelation) -> EventPairs | Unsupported:
    """Return the pair of a sample of fixed size.

    To add or remove a record of which the sample has a share q: the sample without it is, with probability q, one in
    which it takes the place of another. Given the others, (1−q)μ₀ + qμ stands against μ₀, with μ and μ₀ two
    contributions apart, and hockey sticks are jointly convex. With the share of the *smaller* dataset q is too large,
    so that the larger one may have one record more than is said. A sample of all records is no exception: a record that
    is added takes the place of another one.

    To replace a record by the null one, which is sampled like any other: (1−q)μ₀ + qμ stands against (1−q)μ₀ + qμ′
    with μ for a sample that has the record, μ′ for one that has the null record in its place, and μ₀ for one that has
    neither. μ and μ′ are one contribution apart, but μ and μ₀ are two: a sample without the record has another one in
    its place. With β = e^ε/e^ε′, ε′ = ln(1 + (e^ε − 1)/q), the curve is q·δ(μ, (1−β)μ₀ + βμ′) at ε′, at most q times
    the *larger* of those of (μ, μ₀) and (μ, μ′) (Balle, Barthe, Gaboardi 2018, Theorem 2): two contributions count.
    """
    share = Fraction(event.sample_size, event.population_size)
    q = min(_validate.rounded(share, "up"), 1.0)
    inner = event.event
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        base = noise(inner, 2)
        if isinstance(base, Unsupported):
            return base
        return _directed(("poisson_sampled", q, base), is_exact=False)
    if event.sample_size == event.population_size:
        return SAMPLE_OF_A_SAMPLE if isinstance(inner, SAMPLES) else pairs_of(inner, relation)
    if isinstance(inner, (RandomizedResponseEvent, EpsilonDeltaEvent, ExponentialMechanismEvent)):
        if relation is not NeighboringRelation.REPLACE_ONE:
            return Unsupported("a sample of fixed size amplifies a guarantee for replacing a record")
        found = pairs_of(inner, relation)
        return (
            found
            if isinstance(found, Unsupported)
            else _symmetric(("fixed_size_sampled", q, found.remove), is_exact=False)
        )
    # mutant: zeroed-record-costs-one-contribution
    base = noise(inner, 1 if relation is NeighboringRelation.REPLACE_ONE else 2)
    return base if isinstance(base, Unsupported) else _symmetric(("fixed_size_sampled", q, base), is_exact=False)


def _truncated(event: TruncatedPoissonSampledEvent, relation: NeighboringRelation) -> EventPairs | Unsupported:
    """Return the pair of a Poisson sample that is cut: the head of `truncated_poisson` has the proof.

    To remove one of n records, the curve is (1 − p)·a + p·b with a for a record that joins and b for one that replaces
    another; to add one, (1 − p₁)·a + p₁·b₁ with p₁ ≥ p, as one record more is there to fill the batch, and b₁ ≤ b, as
    q′ falls with n (the mean of B/(M + 1) given M ≥ B, over an M that grows). Both are at most
    (1 − p₁)·a + p·b + (p₁ − p)·c, where c ≥ max(a, b) is the curve of Poisson sampling with q ≥ q′ at two
    contributions.
    """
    if relation is NeighboringRelation.REPLACE_ONE:
        # The same places of both datasets are in the cut sample, the record's with a probability of at most q: what is
        # released is the same if it is not among them, and about two samples of which one record is replaced if it is.
        found = SAMPLE_OF_A_SAMPLE if isinstance(event.event, SAMPLES) else pairs_of(event.event, relation)
        return _replaced_at_best(event.sampling_probability, found)
    joined, replaced = noise(event.event), noise(event.event, 2)
    if isinstance(joined, Unsupported):
        return joined
    if isinstance(replaced, Unsupported):
        return replaced

    def sample_of(population_size: int) -> TruncatedSample:
        return truncated_sample(
            population_size=population_size,
            sampling_probability=event.sampling_probability,
            truncated_batch_size=event.truncated_batch_size,
        )

    sample = sample_of(event.population_size)
    q, full = sample.sampling_probability, sample.full_probability
    free = ("poisson_sampled", q, joined)
    if relation is not NeighboringRelation.ADD_OR_REMOVE_ONE:
        taken = ("fixed_size_sampled", sample.replaced_probability, replaced)
        return _coin((1.0 - full.lower, free), (full.upper, taken if sample.replaced_probability else _NOTHING))
    # a record may be added, too: n + 1 records, p larger, q′ smaller; both pairs are at most this one
    # mutant: nobody-added-to-truncated-sample
    more = sample_of(event.population_size + 1)
    replacing = max(sample.replaced_probability, more.replaced_probability)
    taken = ("poisson_sampled", replacing, replaced) if replacing else _NOTHING
    between = max(more.full_probability.upper - full.lower, 0.0) * (1.0 + 2.0**-52)
    return _coin(
        (1.0 - more.full_probability.lower, free), (full.upper, taken), (between, ("poisson_sampled", q, replaced))
    )


def allocated_step(event: RandomAllocationEvent, relation: NeighboringRelation) -> Spec | Unsupported:
    """Return the pair of one step of a random allocation, the record in the first law, which some neighbors attain.

    A record that is replaced by the null one is there to be seen unless its contribution is zero: only sums of
    contributions hide which step had it. What is known of a record that is added holds for every kind of step.
    """
    inner = event.event
    if relation is NeighboringRelation.REPLACE_ONE:
        return Unsupported("a random allocation has the law of a record that is there or not, not of one replaced")
    # mutant: null-record-hidden-among-steps
    if isinstance(inner, EpsilonDeltaEvent) and relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        return _epsilon_delta(inner, relation).remove
    return noise(inner)


def _allocated(event: RandomAllocationEvent, relation: NeighboringRelation) -> EventPairs | Unsupported:
    """Return laws above and below that of a round of random allocation."""
    if isinstance(event.event, GaussianEvent):
        return Unsupported("random allocations of Gaussian releases are asked by themselves")
    if event.num_steps > allocated.MAX_STEPS:
        return Unsupported("no law is known of more than 2^53 steps")
    step = allocated_step(event, relation)
    if isinstance(step, Unsupported):
        return step
    found = allocated.laws(step, step, event.num_steps, event.num_selected)
    if found.above is None:
        return Unsupported("the law of its rounds would need too many nodes")
    below = None if found.below is None else (found.below, ("reversed", found.below))
    return EventPairs(found.above, ("reversed", found.above), is_exact=False, below=below)


def _coin(*kinds: tuple[float, Spec]) -> EventPairs:
    """Return the pair of one of several kinds of steps, by a coin that everybody sees; chances are rounded up."""
    weights, parts = zip(*((min(w * (1.0 + 2.0**-52), 1.0), part) for w, part in kinds if w), strict=True)
    return _directed(("public_coin", weights, parts), is_exact=False)


def _parallel(event: ParallelEvent, relation: NeighboringRelation) -> EventPairs | Unsupported:
    """Return the pair of the one group whose event costs no less than each of the others, whatever ε.

    Which group a unit is in may be chosen adaptively, so that several events compose like their worst pair, if there is
    one. The largest of several curves is the curve of a pair, too, but of none that is known here.
    """
    if relation is not NeighboringRelation.ADD_OR_REMOVE_ONE:
        return CHANGES_GROUP
    worst: PrivacyEvent | None = None
    for group in event.events:
        parts = [(part, count) for part, count in decompose(group) if count]
        if len(parts) != 1 or parts[0][1] != 1:
            return NOT_ONE_WORST
        part = parts[0][0]
        if worst is None or _is_worse(part, worst):
            worst = part
        elif not (worst == part or _is_worse(worst, part)):
            return NOT_ONE_WORST
    assert worst is not None
    return pairs_of(worst, relation)


def _is_worse(one: PrivacyEvent, other: PrivacyEvent) -> bool:
    """Whether one event surely costs no less than another: what is released with less noise can be noised further."""
    if isinstance(one, (GaussianEvent, LaplaceEvent)) and type(one) is type(other):
        # mutant: group-with-more-noise-pays
        return one.noise_multiplier <= other.noise_multiplier
    if isinstance(one, EpsilonDeltaEvent) and isinstance(other, EpsilonDeltaEvent):
        return one.epsilon >= other.epsilon and one.delta >= other.delta
    return False


def _shuffled(event: ShuffledEvent, relation: NeighboringRelation) -> EventPairs | Unsupported:
    found = shuffled.messages(event, relation)
    return found if isinstance(found, Unsupported) else _symmetric(("masses", *found.masses), is_exact=False)


_ADDITIVE = (GaussianEvent, LaplaceEvent, DiscreteGaussianEvent, DiscreteLaplaceEvent)
_NOTHING: Spec = ("epsilon_delta", 0.0, 0.0)

_RULES: dict[type[PrivacyEvent], Callable[[Any, NeighboringRelation], EventPairs | Unsupported]] = {
    GaussianEvent: _noise,
    LaplaceEvent: _noise,
    DiscreteGaussianEvent: _noise,
    DiscreteLaplaceEvent: _noise,
    DistributedDiscreteGaussianEvent: _distributed,
    RandomizedResponseEvent: _randomized_response,
    ParallelEvent: _parallel,
    ShuffledEvent: _shuffled,
    SkellamEvent: _skellam,
    EpsilonDeltaEvent: _epsilon_delta,
    ExponentialMechanismEvent: _exponential,
    MixtureOfGaussiansEvent: _mixture,
    PoissonSampledEvent: _poisson,
    FixedSizeSampledEvent: _fixed_size,
    TruncatedPoissonSampledEvent: _truncated,
    RandomAllocationEvent: _allocated,
}
