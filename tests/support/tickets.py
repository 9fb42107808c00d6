"""Tickets with a record that tests can look at, and every public callable that draws for a release."""

from dataclasses import dataclass, field

import numpy as np

import ferrodp as fd
from ferrodp import _native
from ferrodp.accounting import EpsilonDeltaEvent, GaussianEvent, NeighboringRelation
from ferrodp.federated import LocalNoise
from ferrodp.statistics import models
from ferrodp.tickets import Ticket

ADD_OR_REMOVE, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE


class Book:
    """Writes down what it is told, and does what a test asks for."""

    def __init__(self, on_arm=lambda ticket: None):
        self.calls, self.asked = [], 0
        self.on_arm = on_arm

    def arm(self, ticket):
        self.calls.append("arm")
        self.on_arm(ticket)

    def proceed(self, ticket):
        self.asked += 1

    def cancel(self, ticket):
        self.calls.append("cancel")

    def finish(self, ticket):
        self.calls.append("finish")


def ticket_for(event, book=None, relation=ADD_OR_REMOVE, **fields):
    return Ticket(event, id="t-1", key="round-7", scopes=("a/b",), neighboring_relation=relation, book=book, **fields)


def draw(permit):
    """Draw one number that the permit lets through."""
    return _native.release_scalar(0.0, "gaussian", 1.0, None, permit)


@dataclass
class Case:
    """One way to release something. `release` takes `source=` and `ticket=`, and what `bad` holds in their company."""

    name: str
    owner: object  # what is public: a function, or a class
    release: object
    event: object
    bad: list = field(default_factory=list)
    buffer: object = None  # what the release is written to
    relation: object = ADD_OR_REMOVE


def mechanism_case(mechanism, value, *, bad, name="", **arguments):
    def release(**more):
        return mechanism.release(**{"value": value} | arguments | more)

    return Case(type(mechanism).__name__ + name, type(mechanism), release, mechanism.event, bad, arguments.get("out"))


def noisy_cases():
    """Yield the additive mechanisms: plain numbers, arrays, other arrays and the array itself as the target."""
    gaussian = fd.GaussianMechanism(noise_multiplier=1.25, l2_sensitivity=2.0)
    laplace = fd.LaplaceMechanism(scale=3.0, l1_sensitivity=2.0)
    of_one, of_many = (fd.DiscreteGaussianMechanism(scale=4.0, dimension=dimension) for dimension in (1, 64))
    geometric = fd.DiscreteLaplaceMechanism(scale=4.0, l1_sensitivity=2)
    common = [{"value": "1"}, {"value": np.zeros(3, object)}, {"threads": 0}, {"out": np.zeros(7)}, {"out": 1.0}]
    floating = [*common, {"nonfinite": "ignore"}, {"value": np.full(3, np.nan), "nonfinite": "raise", "out": None}]
    whole = [*common, {"value": 0.5}, {"fixed_time": 1}]
    for mechanism in (gaussian, laplace):
        yield mechanism_case(mechanism, 1.0, name=" of a number", bad=floating)
        yield mechanism_case(mechanism, np.float32(1.0), name=" of a numpy number", bad=floating)
        for dtype in (np.float32, np.float64):
            target, own = np.full(3, 7.0, dtype), np.full(3, 7.0, dtype)
            yield mechanism_case(mechanism, np.ones(3, dtype), out=target, name=f" to {dtype.__name__}", bad=floating)
            yield mechanism_case(mechanism, own, out=own, name=f" in place, {dtype.__name__}", bad=floating)
    yield mechanism_case(of_one, 12, name=" of a number", bad=[*whole, {"value": np.zeros(2, np.int64)}])
    yield mechanism_case(geometric, 12, name=" of a number", bad=whole)
    for mechanism in (of_one, geometric):
        yield mechanism_case(mechanism, 12, fixed_time=True, name=" in fixed time", bad=whole)
    for mechanism in (of_many, geometric):
        for dtype in (np.int32, np.int64):
            target, own = np.full(64, 7, dtype), np.full(64, 7, dtype)
            yield mechanism_case(mechanism, np.ones(64, dtype), out=target, name=f" to {dtype.__name__}", bad=whole)
            yield mechanism_case(mechanism, own, out=own, name=f" in place, {dtype.__name__}", bad=whole)


def choosing_cases():
    """Yield selection, randomized response and the sparse vector technique."""
    for owner in (fd.ExponentialMechanism, fd.PermuteAndFlip, fd.ReportNoisyMax):
        mechanism = owner(scale=2.0, sensitivity=1.0)

        def release(mechanism=mechanism, **more):
            return mechanism.release(**{"utilities": [0.0, 1.0]} | more)

        bad = [{"utilities": []}, {"utilities": "ab"}, {"candidates": 3}, {"candidates": [1]}]
        yield Case(owner.__name__, owner, release, mechanism.event, bad)
    response = fd.RandomizedResponse(noise_parameter=0.5, num_categories=3)
    for name, answers in [(" of one", 2), (" of many", np.array([0, 2], np.uint8)), (" of many", np.array([0, 2]))]:

        def respond(answers=answers, **more):
            return response.release(**{"answers": answers} | more)

        bad = [{"answers": True}, {"answers": "no"}, {"answers": 0.5}, {"threads": 0}]
        yield Case(f"RandomizedResponse{name}", fd.RandomizedResponse, respond, response.event, bad)

    coded = fd.HadamardResponse(weight=2**61, num_categories=9)

    def code(**more):
        return coded.release(**{"answers": np.array([0, 2])} | more)

    bad = [{"answers": "no"}, {"answers": 0.5}, {"answers": np.array([0.5])}]
    yield Case("HadamardResponse", fd.HadamardResponse, code, coded.event, bad, relation=REPLACE)

    vectors = fd.VectorResponse(weight=2**61, dimension=2, num_directions=3, size=2, l2_clip_norm=1.0)

    def encode(**more):
        return vectors.release(**{"vectors": np.array([[0.0, 2.0]])} | more)

    bad = [{"vectors": "no"}, {"vectors": [0.5]}, {"vectors": np.array([[1, 2]])}, {"threads": 0}]
    yield Case("VectorResponse", fd.VectorResponse, encode, vectors.event, bad, relation=REPLACE)

    bad = [{"answers": "no"}, {"answers": 0.5}, {"answers": np.array([0.5])}]
    for made in (
        fd.UnaryResponse(weight=3, digits=4, num_categories=9),
        fd.SubsetResponse(weight=2**61, num_categories=9, size=3),
    ):

        def answer(made=made, **more):
            return made.release(**{"answers": np.array([0, 2])} | more)

        yield Case(type(made).__name__, type(made), answer, made.event, [*bad, {"threads": 0}], relation=REPLACE)

    def run(**more):
        return fd.SparseVector(**{"threshold": 10.0, "sensitivity": 1.0, "epsilon": 0.5} | more)

    bad = [{"threshold": float("nan")}, {"epsilon": -1.0}, {"max_answers": 0}, {"monotonic": 1}, {"sensitivity": 1e301}]
    yield Case("SparseVector", fd.SparseVector, run, EpsilonDeltaEvent(epsilon=0.5), bad)


def sum_cases():
    """Yield sums; each release has a sum of its own, for a sum is released once."""
    bad = [{"noise_multiplier": -1.0}, {"noise_multiplier": 1e-30}, {"noise_multiplier": 5e-324}]
    bad += [{"denominator": 0.0}, {"threads": 0}, {"noise_multiplier": True}]

    def of_updates(dtype):
        total = fd.ClippedSum({"w": (3,)}, clip_norm=1.0, dtype=dtype)
        total.add({"w": np.ones(3, dtype)})
        return total

    def of_rows(dtype):
        return fd.clip_and_sum(np.ones((4, 3), dtype), clip_norm=1.0)

    for owner, make in [(fd.ClippedSum, of_updates), (fd.GridSum, of_rows)]:
        for dtype in (np.float32, np.float64):
            for relation, paid in [(ADD_OR_REMOVE, 1.5), (REPLACE, 0.75)]:

                def release(make=make, dtype=dtype, **more):
                    return make(dtype).release(**{"noise_multiplier": 1.5, "denominator": 4} | more)

                name = f"{owner.__name__} of {dtype.__name__}, {relation.value}"
                yield Case(name, owner, release, GaussianEvent(noise_multiplier=paid), bad, relation=relation)


def local_cases():
    """Yield messages of clients that noise their own updates."""

    def release(**more):
        return LocalNoise(clip_norm=1.0, noise_multiplier=1.5).privatize(**{"update": {"w": np.ones(3)}} | more)

    bad = [{"update": {"w": "abc"}}, {"update": {}}, {"cast": np.int8}, {"skip": 1}]
    yield Case("LocalNoise", LocalNoise, release, GaussianEvent(noise_multiplier=0.75), bad, relation=REPLACE)


def statistic_cases():
    """Yield the statistics, paid for by what they cost and by what they guarantee."""
    column, flags = np.array([1.0, 2.0, 3.5]), np.array([True, False, True])
    common = [{"values": "abc"}, {"values": np.zeros((2, 2))}, {"epsilon": 0.0}, {"max_contributions": 0}]
    arguments = {
        fd.private_count: [{"values": flags}, {"values": flags, "delta": 1e-6}],
        fd.private_distinct: [{}, {"delta": 1e-6}],
        fd.private_top: [{"number": 2, "categories": [1.0, 2.0, 3.5]}],
        fd.private_histogram: [{"bins": [0.0, 2.0, 4.0]}, {"categories": [1.0, 2.0], "delta": 1e-6}],
        fd.private_sum: [{"bounds": (0.0, 4.0)}, {"bounds": (-1.0, 4.0), "delta": 1e-6}],
        fd.private_mean: [{"bounds": (0.0, 4.0)}, {"bounds": (-1.0, 4.0), "delta": 1e-6}],
        fd.private_variance: [{"bounds": (0.0, 4.0)}, {"bounds": (-1.0, 4.0), "delta": 1e-6}],
        fd.private_standard_deviation: [{"bounds": (0.0, 4.0)}],
        fd.private_quantile: [{"quantile": 0.5, "bounds": (0.0, 4.0)}],
        fd.private_quantiles: [{"quantiles": [0.25, 0.5], "bounds": (0.0, 4.0)}],
        fd.private_median: [{"bounds": (0.0, 4.0)}],
        fd.private_min: [{"bounds": (0.0, 4.0)}],
        fd.private_max: [{"bounds": (0.0, 4.0)}],
        fd.private_bounds: [{}, {"delta": 1e-6}],
    }
    for function, variants in arguments.items():
        extra = [] if function is fd.private_count else [{"bounds": (1.0, 0.0)}, {"bins": [1.0]}, {"categories": []}]
        bad = [*common, *(each for each in extra if each.keys() <= variants[0].keys())]
        for variant in variants:
            for relation in (ADD_OR_REMOVE, REPLACE):
                chosen = {"values": column, "epsilon": 0.75, "neighboring_relation": relation} | variant

                def release(function=function, chosen=chosen, **more):
                    return function(**chosen | more)

                promised = EpsilonDeltaEvent(epsilon=0.75, delta=variant.get("delta", 0.0))
                for word, event in [("its event", release().event), ("its guarantee", promised)]:
                    name = f"{function.__name__}, delta={promised.delta}, {relation.value}, for {word}"
                    yield Case(name, function, release, event, bad, relation=relation)


def rows_per_unit_cases():
    """Yield the number of rows of a unit that should count."""
    bad = [{"unit": np.zeros((2, 2))}, {"epsilon": 0.0}, {"at_most": 1}, {"rank": -1}]
    for relation in (ADD_OR_REMOVE, REPLACE):

        def release(relation=relation, **more):
            chosen = {"unit": [1, 1, 2], "at_most": 3, "epsilon": 0.75, "neighboring_relation": relation}
            return fd.private_rows_per_unit(**chosen | more)

        promised = EpsilonDeltaEvent(epsilon=0.75, delta=0.0)
        for word, event in [("its event", release().event), ("its guarantee", promised)]:
            name = f"private_rows_per_unit, {relation.value}, for {word}"
            yield Case(name, fd.private_rows_per_unit, release, event, bad, relation=relation)


def group_cases():
    """Yield the statistics of groups, and the keys that are found."""
    frame = {"key": ["a", "b", "a"], "value": [1.0, 2.0, 3.5]}
    groups = fd.private_group_by(frame, "key", keys=["a", "b"])
    for method, arguments in [
        (groups.count, {}),
        (groups.count, {"delta": 1e-6}),
        (groups.sum, {"name": "value", "bounds": (0.0, 4.0)}),
        (groups.mean, {"name": "value", "bounds": (0.0, 4.0)}),
        (groups.standard_deviation, {"name": "value", "bounds": (0.0, 4.0), "delta": 1e-6}),
        (groups.distinct, {"name": "value"}),
        (groups.distinct, {"name": "value", "delta": 1e-6}),
        (groups.bounds, {"name": "value"}),
        (groups.top, {"name": "value", "number": 2, "categories": [1.0, 2.0, 3.5]}),
        (groups.quantile, {"name": "value", "quantile": 0.5, "bounds": (0.0, 4.0)}),
        (groups.max, {"name": "value", "bounds": (0.0, 4.0), "rank": 1}),
    ]:

        def release(method=method, arguments=arguments, **more):
            return method(**{"epsilon": 0.75} | arguments | more)

        bad = [{"name": "other"}, {"epsilon": 0.0}, *([{"bounds": (1.0, 0.0)}] if "bounds" in arguments else [])]
        promised = EpsilonDeltaEvent(epsilon=0.75, delta=arguments.get("delta", 0.0))
        for word, event in [("its event", release().event), ("its guarantee", promised)]:
            name = f"{method.__name__} of groups, delta={promised.delta}, for {word}"
            yield Case(name, fd.statistics.PrivateGroups, release, event, bad)

    def table(**more):
        return fd.release(**{"frame": frame, "sums": {"value": (0.0, 4.0)}, "epsilon": 0.75} | more)

    bad = [{"sums": {"other": (0.0, 1.0)}}, {"sums": {"value": (1.0, 0.0)}}, {"groups": 3}, {"epsilon": 0.0}]
    for word, event in [("its event", table().event), ("its guarantee", EpsilonDeltaEvent(epsilon=0.75, delta=0.0))]:
        yield Case(f"a table, for {word}", fd.release, table, event, bad)

    def bins(**more):
        columns = {"value": frame["value"], "other": np.array([3, 1, 2])}
        public = {"num_bins": 3, "bounds": {"value": (0.0, 4.0), "other": (0, 4)}, "epsilon": 0.75}
        return fd.statistics.private_quantile_bins(**{"frame": columns} | public | more)

    bad = [{"num_bins": 1}, {"bounds": {"value": (1.0, 0.0)}}, {"bounds": {"key": (0.0, 1.0)}}, {"epsilon": 0.0}]
    for word, event in [("its event", bins().event), ("its guarantee", EpsilonDeltaEvent(epsilon=0.75, delta=0.0))]:
        yield Case(f"bins, for {word}", fd.statistics.private_quantile_bins, bins, event, bad)

    def marginals(**more):
        public = {"categories": {"key": ["a", "b"]}, "bins": {"value": [0.0, 2.0, 4.0]}}
        return fd.private_marginals(**{"frame": frame, "workload": 2, "epsilon": 0.75, "delta": 1e-6} | public | more)

    bad = [{"workload": 3}, {"delta": 0.0}, {"weights": {("key",): 1.0}}, {"bins": {"value": [1.0, 0.0]}}]
    guarantee = EpsilonDeltaEvent(epsilon=0.75, delta=1e-6)
    for word, event in [("its event", marginals().event), ("its guarantee", guarantee)]:
        yield Case(f"tables, for {word}", fd.private_marginals, marginals, event, bad)

    def find(**more):
        keys = fd.KeyThreshold(epsilon=0.75, delta=1e-6)
        return fd.private_group_by(**{"frame": frame, "by": "key", "keys": keys} | more)

    bad = [{"by": "other"}, {"unit": "other"}, {"rows_per_unit": 0}]
    yield Case("keys of groups", fd.private_group_by, find, EpsilonDeltaEvent(epsilon=0.75, delta=1e-6), bad)


def model_cases():
    """Yield the models over exact sums, paid for by what they cost and by what they guarantee."""
    rows = np.array([[0.1, 0.2], [0.5, -0.5], [1.0, 3.0]])
    more = {
        models.private_moments: {},
        models.private_scales: {},
        models.private_clusters: {"num_clusters": 2, "num_rounds": 2, "seed": 0},
        models.private_naive_bayes: {"labels": [0, 1, 1], "classes": [0, 1]},
    }
    of_numbers = {"rows": rows, "bounds": (-1.0, 1.0), "delta": 1e-6}
    bad_numbers = [{"rows": "abc"}, {"rows": np.zeros(3)}, {"bounds": (1.0, 0.0)}, {"epsilon": 0.0}, {"delta": 0.0}]
    labels = {"labels": [0, 1, 1], "classes": [0, 1]}
    of_labels = {"rows": [["a"], ["b"], ["c"]], "categories": [["a", "b"]], **labels}
    bad_labels = [{"rows": "abc"}, {"rows": np.zeros(3)}, {"classes": [0]}, {"epsilon": 0.0}, {"delta": 1.0}]
    cases = [(function, of_numbers | arguments, bad_numbers) for function, arguments in more.items()]
    cases += [(models.private_categorical_bayes, of_labels | {"delta": delta}, bad_labels) for delta in (0.0, 1e-6)]
    for function, arguments, bad in cases:
        delta = arguments["delta"]
        promised = EpsilonDeltaEvent(epsilon=0.75, delta=delta)
        for relation in (ADD_OR_REMOVE, REPLACE):
            chosen = arguments | {"epsilon": 0.75, "neighboring_relation": relation}

            def release(function=function, chosen=chosen, **other):
                return function(**chosen | other)

            for word, event in [("its event", release().event), ("its guarantee", promised)]:
                name = f"{function.__name__}, δ={delta:g}, {relation.value}, for {word}"
                yield Case(name, function, release, event, bad, relation=relation)


CASES = [
    *noisy_cases(),
    *choosing_cases(),
    *sum_cases(),
    *local_cases(),
    *statistic_cases(),
    *rows_per_unit_cases(),
    *group_cases(),
    *model_cases(),
]
