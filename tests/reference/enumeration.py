"""Exact divergences of every pair of small neighboring databases: all databases, all samples, both directions.

A database is a tuple of up to four values; `NULL` is a record that contributes nothing, yet is sampled like any other.
A sampling scheme turns a database into weighted outcomes, a mechanism turns an outcome into the masses of finitely many
results: continuous noise is cut into cells, by its distribution function. Cutting is post-processing, so that no
divergence found here is above the true one; rounding is within `ROUNDING`.
"""

import itertools
import math

import numpy as np
from scipy import special, stats

NULL = None
UNIVERSES = [(-1, 0, 1), (0, 1), (99, 100)]
ROUNDING = 1e-12
"""Masses are sums of at most 300 products of numbers below 1, each within 1e-15; there are at most 3000 of them."""


def databases(values, size):
    """Return all databases of that size, up to the order of records."""
    return list(itertools.combinations_with_replacement(values, size))


def neighbors(relation, values, most):
    """Return all pairs of databases of at most `most` records; each is to be compared in both directions."""
    pairs = []
    for size in range(most):
        for rest in databases(values, size):
            if relation == "add_or_remove_one":
                pairs += [((*rest, value), rest) for value in values]
            elif relation == "replace_one":
                pairs += [((*rest, one), (*rest, other)) for one, other in itertools.combinations(values, 2)]
            else:
                pairs += [((*rest, value), (*rest, NULL)) for value in values]
    return pairs


def sensitivity(relation, values):
    """Return how far a record moves a sum."""
    if relation == "replace_one":
        return max(values) - min(values)
    return max(abs(value) for value in values)


def null_distance(values):
    """Return how far a record moves a sum that does without it, as a share of how far its replacement does."""
    return sensitivity("add_or_remove_one", values) / sensitivity("replace_one", values)


# sampling schemes: from a database to weighted outcomes, each a tuple of the samples of every step


def all_records(database):
    return [(1.0, (database,))]


def poisson(q):
    def outcomes(database):
        found = []
        for joined in itertools.product((False, True), repeat=len(database)):
            sample = tuple(value for value, is_in in zip(database, joined, strict=True) if is_in)
            found.append((q ** len(sample) * (1 - q) ** (len(database) - len(sample)), (sample,)))
        return found

    return outcomes


def fixed_size(size):
    def outcomes(database):
        samples = list(itertools.combinations(database, min(size, len(database))))
        return [(1.0 / len(samples), (sample,)) for sample in samples]

    return outcomes


def truncated_poisson(q, largest):
    def outcomes(database):
        found = []
        for weight, (sample,) in poisson(q)(database):
            kept = list(itertools.combinations(sample, min(largest, len(sample))))
            found += [(weight / len(kept), (batch,)) for batch in kept]
        return found

    return outcomes


def random_allocation(steps, selected):
    def outcomes(database):
        choices = list(itertools.combinations(range(steps), selected))
        found = []
        for chosen in itertools.product(choices, repeat=len(database)):
            samples = tuple(
                tuple(value for value, places in zip(database, chosen, strict=True) if step in places)
                for step in range(steps)
            )
            found.append((1.0 / len(choices) ** len(database), samples))
        return found

    return outcomes


# mechanisms: from a sample to masses


def contribution(sample):
    return sum(value for value in sample if value is not NULL)


def possible_sums(values, most):
    """Return all sums of at most so many values."""
    return sorted({sum(chosen) for size in range(most + 1) for chosen in databases(values, size)})


class Additive:
    """A sum with noise, its results cut into cells around all possible sums: by `cdf`, or `pmf` on integers.

    Integers that only noise of more than `furthest` reaches count as one result.
    """

    def __init__(self, distribution, sums, cells, furthest=math.inf):
        self.distribution = distribution
        reach = min(distribution.ppf(1 - 1e-7), furthest)
        if hasattr(distribution, "pmf"):
            self.points = sorted({total + n for total in sums for n in range(-math.ceil(reach), math.ceil(reach) + 1)})
            return
        groups = [[sums[0], sums[0]]]
        for total in sums:
            if total - groups[-1][1] > 2 * reach:
                groups.append([total, total])
            groups[-1][1] = total
        each = max(cells // len(groups), 8)
        self.edges = np.concatenate(
            [[-np.inf], *(np.linspace(low - reach, high + reach, each) for low, high in groups), [np.inf]]
        )

    def law(self, sample):
        total = contribution(sample)
        if hasattr(self, "points"):
            masses = self.distribution.pmf(np.array(self.points) - total)
            return np.append(masses, max(1.0 - masses.sum(), 0.0))  # all others: one result
        at = self.edges - total
        middle = np.searchsorted(at, 0.0)
        return np.concatenate(
            [np.diff(self.distribution.cdf(at[: middle + 1])), -np.diff(self.distribution.sf(at[middle:]))]
        )


class OfPredicate:
    """A choice between two laws by a fact about the sample: what is known by its parameters alone."""

    def __init__(self, laws, predicate):
        self.laws, self.predicate = laws, predicate

    def law(self, sample):
        return self.laws[int(self.predicate(sample))]


class OfPredicateAndSize(OfPredicate):
    """The same, and how many records the sample has, which is known wherever records are replaced."""

    def law(self, sample):
        masses = np.zeros((8, len(self.laws[0])))
        masses[len(sample)] = super().law(sample)
        return masses.reshape(-1)


PREDICATES = [
    lambda sample: len(sample) % 2,
    lambda sample: len(sample) > 0,
    lambda sample: len(sample) > 1,
    lambda sample: NULL in sample,
    lambda sample: contribution(sample) > 0,
    lambda sample: contribution(sample) == 0,
    lambda sample: contribution(sample) % 2,
    lambda sample: bool(sample) and max((value for value in sample if value is not NULL), default=0) > 0,
]


class Answer:
    """Randomized response about a sum; where a null record is there the answer is uniform."""

    def __init__(self, noise_parameter, num_buckets):
        self.p, self.k = noise_parameter, num_buckets

    def law(self, sample):
        masses = np.full(self.k, self.p / self.k)
        if NULL in sample:
            return np.full(self.k, 1.0 / self.k)
        masses[contribution(sample) % self.k] += 1 - self.p
        return masses


def stated(epsilon, delta):
    """Return the two laws that are (ε, δ)-private and dominate all that are (Kairouz, Oh, Viswanath 2015)."""
    high = (1 - delta) / (1 + math.exp(-epsilon))
    one = np.array([delta, high, 1 - delta - high, 0.0])
    return one, one[::-1].copy()


def of_bounded_range(epsilon, place):
    """Return two laws whose log ratio is `place`·ε or (`place` − 1)·ε."""
    t = place * epsilon
    q = -math.expm1(t - epsilon) / (math.exp(t) - math.exp(t - epsilon))
    other = np.array([q, 1 - q])
    return np.array([q * math.exp(t), (1 - q) * math.exp(t - epsilon)]), other


def release(scheme, mechanism, database, count=1):
    """Return the masses of all results of `count` independent releases about a database."""
    total, known = 0.0, {}
    for weight, samples in scheme(database):
        law = np.ones(1)
        for sample in samples:
            if sample not in known:
                known[sample] = mechanism.law(sample)
            law = np.multiply.outer(law, known[sample]).reshape(-1)
        total = total + weight * law
    result = np.ones(1)
    for _ in range(count):
        result = np.multiply.outer(result, total).reshape(-1)
    return result


def hockey_stick(p, q, epsilon):
    """Return Σ (P − e^ε·Q)₊ of the worse direction."""
    growth = math.exp(epsilon)
    return max(np.maximum(p - growth * q, 0.0).sum(), np.maximum(q - growth * p, 0.0).sum())


def renyi(p, q, order):
    """Return D_α of the worse direction; results with tiny masses are left out of P, which only lowers it."""
    both = (p > 1e-14) & (q > 1e-14)
    ln_p, ln_q = np.log(p[both]), np.log(q[both])
    found = 0.0
    for a, b in ((ln_p, ln_q), (ln_q, ln_p)):
        terms = order * a - (order - 1) * b
        found = max(found, (terms.max() + math.log(np.exp(terms - terms.max()).sum())) / (order - 1))
    return found


def gamma(mean, shape):
    """Return γ of the truncated negative binomial law with that mean, by bisection."""
    low, high = 1e-12, 1.0 - 1e-12
    for _ in range(200):
        middle = math.sqrt(low * high) if low < 0.1 * high else (low + high) / 2
        g = middle
        found = (1 / g - 1) / math.log(1 / g) if shape == 0 else shape * (1 - g) / (g * (1 - g**shape))
        low, high = (middle, high) if found > mean else (low, middle)
    return low


def best_of(law, mean, shape):
    """Return the law of the best result of a random number of runs, results in rising order; no run is the lowest."""
    if shape == math.inf:

        def generating(x):
            return np.exp(mean * (x - 1))
    else:
        g = gamma(mean, shape)

        def generating(x):
            if shape == 0:
                return np.log(1 - (1 - g) * x) / math.log(g)
            return ((1 - (1 - g) * x) ** -shape - 1) / (g**-shape - 1)

    below = np.minimum(np.concatenate([[0.0], np.cumsum(law)]), 1.0)
    values = generating(below)
    return np.concatenate([[values[0]], np.diff(values)])


NORMAL, DOUBLE_EXPONENTIAL = stats.norm, stats.laplace


class DiscreteNoise:
    """Noise on the integers by its weights; there is next to nothing beyond five times the reach."""

    def __init__(self, weight, reach):
        self.reach, self.weight = reach, weight
        self.total = math.fsum(weight(np.arange(-5 * reach, 5 * reach + 1)))

    def ppf(self, _):
        return self.reach

    def pmf(self, points):
        return self.weight(points) / self.total


def discrete_gaussian(scale):
    return DiscreteNoise(lambda n: np.exp(-(n * n) / (2 * scale * scale)), math.ceil(6 * scale))


def sum_of_discrete_gaussians(scale, shares):
    """The sum of that many discrete Gaussians, by convolution."""
    reach = math.ceil(8 * scale) + 2
    one = discrete_gaussian(scale).weight(np.arange(-reach, reach + 1))
    law = np.ones(1)
    for _ in range(shares):
        law = np.convolve(law, one)
    middle = law.size // 2

    def weight(n):
        inside = np.abs(n) <= middle
        return np.where(inside, law[np.where(inside, n + middle, 0).astype(int)], 0.0)

    return DiscreteNoise(weight, min(math.ceil(7 * scale * math.sqrt(shares)), middle))


def skellam(scale):
    """The difference of two Poisson numbers, of variance scale² together."""
    return DiscreteNoise(lambda n: special.ive(np.abs(n), scale * scale), math.ceil(10 * scale) + 4)


def discrete_laplace(scale):
    return DiscreteNoise(lambda n: np.exp(-abs(n) / scale), math.ceil(16 * scale))
