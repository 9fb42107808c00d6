"""The registry of what accountants accept, each with an enumeration that never exceeds its bound.

A *cell* is a shape of event, a neighboring relation and an accountant. The shape says what is nested in what:
``poisson_sampled[0.5](gaussian)`` is Gaussian noise about a Poisson sample whose `null_distance` is ½, and `several`
says that more than one release is about the same sample. To add a cell,
write its shape and relations into `CELLS`; where the mechanism or the scheme is new, add it to `MECHANISMS` or
`SCHEMES`.
"""

import dataclasses
import itertools
import math
import os
import re
from collections.abc import Callable

import numpy as np

from ferrodp import accounting as ac
from reference import enumeration as enum

RELATIONS = {relation.name[0] + relation.name.split("_")[1][0]: relation for relation in ac.NeighboringRelation}
"""AO (add or remove one), RO (replace one), RS (replace special)."""
ACCOUNTANTS = {
    "gdp": ac.GdpAccountant,
    "pld": ac.PldAccountant,
    "pure": ac.PureDpAccountant,
    "rdp": ac.RdpAccountant,
    "zcdp": ac.ZcdpAccountant,
}
ALL = "AO RO RS"

# fmt: off
CELLS: dict[str, dict[str, str]] = {
    "gaussian":              {"gdp": ALL, "pld": ALL, "rdp": ALL, "zcdp": ALL},
    "laplace":               {"pld": ALL, "pure": ALL, "rdp": ALL, "zcdp": ALL},
    "discrete_gaussian":     {"pld": ALL, "rdp": ALL, "zcdp": ALL},
    "discrete_gaussian[2]":  {"rdp": ALL, "zcdp": ALL},
    "distributed_discrete_gaussian":     {"pld": ALL, "rdp": ALL, "zcdp": ALL},
    "skellam":     {"pld": ALL, "rdp": ALL, "zcdp": ALL},
    "distributed_discrete_gaussian[2]":  {"pld": ALL, "rdp": ALL, "zcdp": ALL},
    "skellam[2]":  {"pld": ALL, "rdp": ALL, "zcdp": ALL},
    "discrete_laplace":      {"pld": ALL, "pure": ALL, "rdp": ALL, "zcdp": ALL},
    "randomized_response":   {"pld": "RO RS", "pure": "RO RS", "rdp": "RO RS", "zcdp": "RO RS"},
    "epsilon_delta":         {"pld": ALL, "pure": ALL, "rdp": ALL, "zcdp": ALL},
    "exponential_mechanism": {"pld": ALL, "pure": ALL, "rdp": ALL, "zcdp": ALL},
    "zcdp":                  {"rdp": ALL, "zcdp": ALL},
    "parallel":              {"pld": "AO", "pure": "AO", "rdp": "AO", "zcdp": "AO"},
    "shuffled":              {"pld": "RO", "pure": "RO", "rdp": "RO", "zcdp": "RO"},
    "mixture_of_gaussians":  {"pld": "AO RS", "rdp": "AO RS"},

    "poisson_sampled(gaussian)":              {"pld": ALL, "rdp": ALL},
    "poisson_sampled(laplace)":               {"pld": ALL, "pure": ALL, "rdp": ALL},
    "poisson_sampled(discrete_gaussian)":     {"pld": ALL, "rdp": ALL},
    "poisson_sampled(discrete_gaussian[2])":  {"rdp": ALL},
    "poisson_sampled(distributed_discrete_gaussian)":     {"rdp": ALL},
    "poisson_sampled(skellam)":     {"rdp": ALL},
    "poisson_sampled(distributed_discrete_gaussian[2])":  {"rdp": ALL},
    "poisson_sampled(skellam[2])":  {"rdp": ALL},
    "poisson_sampled(discrete_laplace)":      {"pld": ALL, "pure": ALL, "rdp": ALL},
    "poisson_sampled(randomized_response)":   {"pld": "RO RS", "pure": "RO RS", "rdp": "RO RS"},
    "poisson_sampled(epsilon_delta)":         {"pld": ALL, "pure": ALL, "rdp": ALL},
    "poisson_sampled(exponential_mechanism)": {"pld": ALL, "pure": ALL, "rdp": ALL},
    "poisson_sampled(zcdp)":                  {"rdp": ALL},
    "poisson_sampled(mixture_of_gaussians)":  {"pld": "AO RS", "rdp": "AO RS"},

    "fixed_size_sampled(gaussian)":              {"pld": ALL, "rdp": ALL},
    "fixed_size_sampled(laplace)":               {"pld": ALL, "pure": "RO", "rdp": ALL},
    "fixed_size_sampled(discrete_gaussian)":     {"pld": ALL, "rdp": ALL},
    "fixed_size_sampled(discrete_gaussian[2])":  {"rdp": ALL},
    "fixed_size_sampled(distributed_discrete_gaussian)":     {"rdp": ALL},
    "fixed_size_sampled(skellam)":     {"rdp": ALL},
    "fixed_size_sampled(distributed_discrete_gaussian[2])":  {"rdp": ALL},
    "fixed_size_sampled(skellam[2])":  {"rdp": ALL},
    "fixed_size_sampled(zcdp)":                  {"rdp": ALL},
    "fixed_size_sampled(discrete_laplace)":      {"pld": ALL, "pure": "RO", "rdp": ALL},
    "fixed_size_sampled(randomized_response)":   {"pld": "RO", "pure": "RO", "rdp": "RO"},
    "fixed_size_sampled(epsilon_delta)":         {"pld": "RO", "pure": "RO", "rdp": "RO"},
    "fixed_size_sampled(exponential_mechanism)": {"pld": "RO", "pure": "RO", "rdp": "RO"},

    "truncated_poisson_sampled(gaussian)":              {"pld": ALL, "rdp": ALL},
    "truncated_poisson_sampled(laplace)":               {"pld": ALL, "rdp": "RO"},
    "truncated_poisson_sampled(discrete_gaussian)":     {"pld": ALL, "rdp": "RO"},
    "truncated_poisson_sampled(discrete_gaussian[2])":  {"rdp": "RO"},
    "truncated_poisson_sampled(distributed_discrete_gaussian)":     {"pld": "RO", "rdp": "RO"},
    "truncated_poisson_sampled(skellam)":     {"pld": "RO", "rdp": "RO"},
    "truncated_poisson_sampled(distributed_discrete_gaussian[2])":  {"rdp": "RO"},
    "truncated_poisson_sampled(skellam[2])":  {"rdp": "RO"},
    "truncated_poisson_sampled(discrete_laplace)":      {"pld": ALL, "rdp": "RO"},
    "truncated_poisson_sampled(randomized_response)":   {"pld": "RO", "rdp": "RO"},
    "truncated_poisson_sampled(epsilon_delta)":         {"pld": "RO", "rdp": "RO"},
    "truncated_poisson_sampled(exponential_mechanism)": {"pld": "RO", "rdp": "RO"},
    "truncated_poisson_sampled(zcdp)":                  {"rdp": "RO"},

    "random_allocation(gaussian)":          {"rdp": "AO RS"},
    "random_allocation(laplace)":           {"pld": "AO RS"},
    "random_allocation(discrete_gaussian)": {"pld": "AO RS"},
    "random_allocation(discrete_laplace)":  {"pld": "AO RS"},
    "random_allocation(epsilon_delta)":     {"pld": "AO"},
}
# fmt: on
for _shape in [
    shape for shape in CELLS if shape.startswith("poisson_sampled(")
]:  # closer records: the same accountants
    for _tag in ("0.5", "1"):
        CELLS[_shape.replace("(", f"[{_tag}](", 1)] = CELLS[_shape]
for _shape in list(CELLS):  # a search for the best of many runs
    if _cells := {name: CELLS[_shape][name] for name in ("pure", "rdp") if name in CELLS[_shape]}:
        CELLS[f"repeat_and_select({_shape})"] = _cells

for _shape in list(CELLS):  # several releases about one sample; those with Gaussian noise are one
    _scheme, _, _mechanism = _shape.rstrip(")").partition("(")
    if re.match("poisson|fixed|truncated", _scheme) and _mechanism != "gaussian":
        _cells = {name: CELLS[_shape][name] for name in ("pure", "rdp") if name in CELLS[_shape]}
        CELLS[f"{_scheme}(several {_mechanism})"] = _cells

for _shape, _cells in list(CELLS.items()):  # what has a Rényi curve is bounded by it where there is no pair of laws
    _letters = " ".join(_cells.get(name, "") for name in ("pld", "rdp")).split()
    CELLS[_shape] = _cells | {"pld": " ".join(letters for letters in RELATIONS if letters in _letters)}


@dataclasses.dataclass(frozen=True)
class Mechanism:
    """An event, and what releases as it says: a value of a sample, whose records are of one of the universes."""

    event: ac.PrivacyEvent
    releases: tuple[tuple[tuple[object, ...], object], ...]  # a universe, and a mechanism for it
    sizes: range | None = None  # of databases, where it says them itself


LONG = os.environ.get("ENUMERATION") == "long"
CELLS_OF_NOISE = 36 * (3 if LONG else 1)
DISCRETE_UNIVERSES = [(-1, 0, 1), (0, 1), (9, 10)]  # fewer integers


def _noise(make_event, distribution):
    """Additive noise by its multiplier 1: its scale is the sensitivity of each universe."""

    def made(relation, most):
        releases = []
        for values in enum.UNIVERSES:
            law = distribution(scale=enum.sensitivity(relation, values))
            releases.append((values, enum.Additive(law, enum.possible_sums(values, most), CELLS_OF_NOISE)))
        return [Mechanism(make_event(1.0), tuple(releases))]

    return made


def _discrete(make_event, distribution, furthest=math.inf):
    def made(relation, most):
        found = []
        for values in DISCRETE_UNIVERSES[: 3 if relation == "replace_one" else 2]:
            law = enum.Additive(distribution(1.0), enum.possible_sums(values, most), 0, furthest)
            found.append(Mechanism(make_event(1.0, enum.sensitivity(relation, values)), ((values, law),)))
        return found

    return made


class _Plane:
    """The same sum in both of two coordinates."""

    def __init__(self, additive):
        self.additive = additive

    def law(self, sample):
        masses = self.additive.law(sample)
        return np.multiply.outer(masses, masses).reshape(-1)


def _discrete_plane(relation, most, make_event=None, distribution=None):
    if make_event is None:
        make_event = lambda moved: ac.DiscreteGaussianEvent(scale=1.0, l2_sensitivity=moved, dimension=2)  # noqa: E731
    # Two releases have the square of the results of one: a million; at a scale of 1, noise above 6 is one in 10^8.
    furthest = math.inf if LONG or most > 2 else 6
    coordinate = _discrete(lambda scale, moved: moved, distribution or enum.discrete_gaussian, furthest)
    line = coordinate(relation, min(most, 2))
    return [
        Mechanism(
            make_event(math.sqrt(2) * mechanism.event * (1 + 1e-15)),
            tuple((values, _Plane(law)) for values, law in mechanism.releases),
        )
        for mechanism in line
        if mechanism.releases[0][0] != (9, 10)
    ]


def _shares(moved, dimension):
    return ac.DistributedDiscreteGaussianEvent(share_scale=0.5, num_shares=3, l2_sensitivity=moved, dimension=dimension)


def _skellam(moved, dimension):
    return ac.SkellamEvent(variance=1.0, l2_sensitivity=moved, dimension=dimension)


def _sum_of_shares(scale):
    return enum.sum_of_discrete_gaussians(0.5 * scale, 3)


def _of_predicates(event, *laws):
    def made(relation, most):
        releases = tuple(
            ((-1, 0, 1), enum.OfPredicate(pair, predicate)) for pair in laws for predicate in enum.PREDICATES
        )
        if relation != "add_or_remove_one":
            releases += tuple(((-1, 0, 1), enum.OfPredicateAndSize(pair, enum.PREDICATES[3])) for pair in laws)
            releases += tuple(((0, 1), enum.OfPredicateAndSize(pair, enum.PREDICATES[4])) for pair in laws)
        return [Mechanism(event, releases)]

    return made


def _answers(relation, most):
    event = ac.RandomizedResponseEvent(noise_parameter=0.5, num_buckets=3)
    return [Mechanism(event, (((0, 1, 2), enum.Answer(0.5, 3)),))]


class _Groups:
    """Two discrete releases: one about the records below zero, one about those above."""

    def __init__(self, below, above):
        self.below, self.above = below, above

    def law(self, sample):
        there = [value for value in sample if value is not enum.NULL]
        below = self.below.law(tuple(value for value in there if value < 0))
        above = self.above.law(tuple(value for value in there if value > 0))
        return np.multiply.outer(below, above).reshape(-1)


def _parallel(relation, most):
    values, found = (-1, 1), []
    for scales in ((1.0, 2.0), (2.0, 1.0)):
        laws = [enum.Additive(enum.discrete_laplace(scale), enum.possible_sums(values, most), 0) for scale in scales]
        event = ac.ParallelEvent(events=tuple(ac.DiscreteLaplaceEvent(scale=scale) for scale in scales))
        found.append(Mechanism(event, ((values, _Groups(*laws)),)))
    return found


class _Shuffled:
    """How many messages of each kind there are, of users whose messages have the laws of the rows."""

    def __init__(self, rows):
        self.rows = rows

    def law(self, sample):
        counts = {(0,) * len(self.rows[0]): 1.0}
        for value in sample:
            grown = {}
            for seen, mass in counts.items():
                for message, chance in enumerate(self.rows[value]):
                    key = (*seen[:message], seen[message] + 1, *seen[message + 1 :])
                    grown[key] = grown.get(key, 0.0) + mass * chance
            counts = grown
        return np.array([counts[key] for key in sorted(counts)])


def _shuffles(relation, most):
    found = []
    for n in (2, 4):
        for k in (2, 3):
            answer = ac.RandomizedResponseEvent(noise_parameter=0.5, num_buckets=k)
            rows = [[0.5 * (value == told) + 0.5 / k for told in range(k)] for value in range(k)]
            event = ac.ShuffledEvent(randomizer=answer, population_size=n)
            found.append(Mechanism(event, ((tuple(range(k)), _Shuffled(rows)),), range(n, n + 1)))
        rows = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5], [0.375, 0.375, 0.25]]
        event = ac.ShuffledEvent(randomizer=ac.EpsilonDeltaEvent(epsilon=math.log(2.0)), population_size=n)
        found.append(Mechanism(event, (((0, 1, 2, 3), _Shuffled(rows)),), range(n, n + 1)))
    return found


class _Twice:
    """Two releases about the same sample."""

    def __init__(self, law):
        self.once = law

    def law(self, sample):
        masses = self.once.law(sample)
        return np.multiply.outer(masses, masses).reshape(-1)


def _mechanisms(name, relation):
    if not name.startswith("several "):
        return MECHANISMS[name](relation, MOST)
    return [
        Mechanism(
            ac.SelfComposedEvent(event=each.event, count=2),
            tuple((values, _Twice(law)) for values, law in each.releases),
        )
        for each in MECHANISMS[name.removeprefix("several ")](relation, 2)
    ]


class _Group:
    """Each record contributes 0, 1 or 2, by chance: a group of two of which each member may have taken part."""

    def __init__(self, shifts, chances, additive):
        self.shifts, self.chances, self.additive = shifts, chances, additive

    def law(self, sample):
        there = sum(value is not enum.NULL for value in sample)
        total = 0.0
        for chosen in itertools.product(range(len(self.shifts)), repeat=there):
            weight = math.prod(self.chances[i] for i in chosen)
            total = total + weight * self.additive.law(tuple(self.shifts[i] for i in chosen))
        return total


def _groups(relation, most):
    shifts, chances = (0.0, 1.0, 2.0), (0.25, 0.5, 0.25)
    event = ac.MixtureOfGaussiansEvent(noise_multiplier=1.0, shifts=shifts, probabilities=chances)
    law = enum.Additive(enum.NORMAL(scale=1.0), list(range(2 * most + 1)), CELLS_OF_NOISE)
    return [Mechanism(event, (((1,), _Group(shifts, chances, law)),))]


MECHANISMS: dict[str, Callable] = {
    "gaussian": _noise(lambda z: ac.GaussianEvent(noise_multiplier=z), enum.NORMAL),
    "laplace": _noise(lambda z: ac.LaplaceEvent(noise_multiplier=z), enum.DOUBLE_EXPONENTIAL),
    "zcdp": _noise(lambda z: ac.ZcdpEvent(rho=0.5 / z**2), enum.NORMAL),
    "discrete_gaussian": _discrete(
        lambda scale, moved: ac.DiscreteGaussianEvent(scale=scale, l2_sensitivity=moved), enum.discrete_gaussian
    ),
    "distributed_discrete_gaussian": _discrete(lambda scale, moved: _shares(moved, 1), _sum_of_shares),
    "distributed_discrete_gaussian[2]": lambda relation, most: _discrete_plane(
        relation, most, lambda moved: _shares(moved, None), _sum_of_shares
    ),
    "skellam": _discrete(lambda scale, moved: _skellam(moved, 1), enum.skellam),
    "skellam[2]": lambda relation, most: _discrete_plane(
        relation, most, lambda moved: _skellam(moved, None), enum.skellam
    ),
    "discrete_laplace": _discrete(
        lambda scale, moved: ac.DiscreteLaplaceEvent(scale=scale, l1_sensitivity=moved), enum.discrete_laplace
    ),
    "discrete_gaussian[2]": _discrete_plane,
    "parallel": _parallel,
    "shuffled": _shuffles,
    "randomized_response": _answers,
    "epsilon_delta": _of_predicates(ac.EpsilonDeltaEvent(epsilon=1.0, delta=0.01), enum.stated(1.0, 0.01)),
    "exponential_mechanism": _of_predicates(
        ac.ExponentialMechanismEvent(epsilon=1.5), *(enum.of_bounded_range(1.5, place) for place in (0.2, 0.5, 0.8))
    ),
    "mixture_of_gaussians": _groups,
}


@dataclasses.dataclass(frozen=True)
class Scheme:
    """How an event wraps another, how it samples, and which sizes of the larger database it speaks of."""

    wrap: Callable[[ac.PrivacyEvent], ac.PrivacyEvent]
    outcomes: Callable
    sizes: dict[str, range]
    fits: Callable = lambda values: True


MOST = 5 if LONG else 4
"""Records of the largest database; one more, and finer cells, with ENUMERATION=long in the environment."""
_ANY = dict.fromkeys(RELATIONS, range(1, MOST + 1))


def _poisson(tag):
    distance = math.inf if tag is None else float(tag)

    def wrap(event):
        return ac.PoissonSampledEvent(sampling_probability=0.3, event=event, null_distance=distance)

    return [Scheme(wrap, enum.poisson(0.3), _ANY, lambda values: enum.null_distance(values) <= distance)]


def _around(population):
    """To add a record to so many, or to remove one of them; to replace one of them."""
    return {"AO": range(population, population + 2), "RO": range(population, population + 1)} | {
        "RS": range(population, population + 1)
    }


def _fixed_size(tag):
    return [
        Scheme(
            lambda event, n=n, m=m: ac.FixedSizeSampledEvent(population_size=n, sample_size=m, event=event),
            enum.fixed_size(m),
            _around(n),
        )
        for n, m in [(2, 1), (3, 1), (3, 2), (2, 2)]
    ]


def _truncated(tag):
    return [
        Scheme(
            lambda event, n=n, b=b: ac.TruncatedPoissonSampledEvent(
                population_size=n, sampling_probability=0.5, truncated_batch_size=b, event=event
            ),
            enum.truncated_poisson(0.5, b),
            _around(n),
        )
        for n, b in [(1, 1), (2, 1), (3, 2), (3, 3)]
    ]


def _allocated(tag):
    return [
        Scheme(
            lambda event, t=t, k=k: ac.RandomAllocationEvent(num_steps=t, num_selected=k, event=event),
            enum.random_allocation(t, k),
            dict.fromkeys(RELATIONS, range(1, 3)),
        )
        for t, k in [(2, 1), (3, 2)]
    ]


SCHEMES: dict[str, Callable] = {
    "poisson_sampled": _poisson,
    "fixed_size_sampled": _fixed_size,
    "truncated_poisson_sampled": _truncated,
    "random_allocation": _allocated,
}


def shape_of(event):
    """Return the shape of a simple event."""
    match event:
        case ac.PoissonSampledEvent(null_distance=distance):
            tag = "" if distance == math.inf else "[0.5]" if distance == 0.5 else "[1]"
            return f"{event.kind}{tag}({_of_one_sample(event.event)})"
        case (
            ac.DiscreteGaussianEvent(dimension=dimension)
            | ac.DistributedDiscreteGaussianEvent(dimension=dimension)
            | ac.SkellamEvent(dimension=dimension)
        ):
            return event.kind + ("" if dimension == 1 else "[2]")
        case ac.ComposedEvent(events=parts):
            return " + ".join(sorted({shape_of(part) for part in parts}))
        case ac.SelfComposedEvent(event=inner):
            return shape_of(inner)
        case (
            ac.FixedSizeSampledEvent(event=inner)
            | ac.TruncatedPoissonSampledEvent(event=inner)
            | ac.RandomAllocationEvent(event=inner)
        ):
            return f"{event.kind}({_of_one_sample(inner)})"
        case ac.PrivacyEvent() if hasattr(event, "event"):
            return f"{event.kind}({shape_of(event.event)})"
    return event.kind


def _of_one_sample(event):
    """Return the shape of what is released about one sample, perhaps several times."""
    several = "several " if isinstance(event, ac.SelfComposedEvent | ac.ComposedEvent) else ""
    return several + shape_of(event)


def parsed(shape):
    """Return the scheme, its tag and the mechanism of a shape; no scheme for a mechanism alone."""
    found = re.fullmatch(r"(\w+)(?:\[([\d.]+)\])?\((.*)\)", shape)
    return (None, None, shape) if found is None else found.groups()


REPETITIONS = [(2.0, 1.0), (3.0, 0.0), (2.0, math.inf)]


def _repeated(shape, letters):
    for number, (event, laws) in enumerate(enumerated(shape, letters)):
        mean, power = REPETITIONS[number % len(REPETITIONS)]

        def best(count, laws=laws, mean=mean, power=power):
            return ((enum.best_of(one, mean, power), enum.best_of(other, mean, power)) for one, other in laws(count))

        yield ac.RepeatAndSelectEvent(event=event, mean=mean, shape=power), best


def enumerated(shape, letters):
    """Yield events of a shape, each with functions of a count that return the pairs of laws of all its neighbors."""
    relation = RELATIONS[letters].value
    scheme_name, tag, mechanism_name = parsed(shape)
    if scheme_name == "repeat_and_select":
        yield from _repeated(mechanism_name, letters)
        return
    plain = Scheme(lambda event: event, enum.all_records, dict.fromkeys(RELATIONS, range(1, 3)))
    schemes = [plain] if scheme_name is None else SCHEMES[scheme_name](tag)
    for mechanism in _mechanisms(mechanism_name, relation):
        for scheme in schemes:
            yield scheme.wrap(mechanism.event), lambda count, m=mechanism, s=scheme: _laws(m, s, letters, count)


def _laws(mechanism, scheme, letters, count):
    relation = RELATIONS[letters].value
    for values, law in mechanism.releases:
        if letters == "RO" and not scheme.fits(values):
            continue
        known = {}

        def of(database, law=law, known=known):
            if database not in known:
                known[database] = enum.release(scheme.outcomes, law, database, count)
            return known[database]

        sizes = mechanism.sizes or scheme.sizes[letters]
        for one, other in enum.neighbors(relation, values, max(sizes)):
            if max(len(one), len(other)) in sizes:
                yield of(one), of(other)
