"""Whether a call warns or raises, and what it says, depends on types, dtypes and shapes: never on an element.

Every public function that takes data is tried with numbers that make floating-point arithmetic complain, under settings
that turn each complaint into an error, and has to do what it does for ones in their place.
"""

import inspect
import math
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.engine import DifferentialPrivacyEngine, DPConfig, GaussianDifferentialPrivacy
from ferrodp.events import NeighboringRelation
from ferrodp.plan import AdaptiveClipping, AutomaticClipping, ConstantNoise, FlatClipping, FullBatch, L1Clipping

DATA = {
    "answers",
    "array",
    "counts",
    "gamma",
    "features",
    "gradients",
    "images",
    "labels",
    "left",
    "matrix",
    "model",
    "tree",
    "units",
    "update",
    "updates",
    "utilities",
    "value",
    "values",
    "vectors",
}
"""What parameters are called that hold data."""

GAUSSIAN = fd.GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=1.0)
LAPLACE = fd.LaplaceMechanism(scale=1.0, l1_sensitivity=1.0)
DISCRETE_LAPLACE = fd.DiscreteLaplaceMechanism(scale=1.0)
RESPONSES = fd.RandomizedResponse(noise_parameter=0.5, num_categories=4)
NOISE = fd.NoiseSource()
CONFIGS = {
    name: DPConfig(name, max_grad_norm=norm, sampling_rate=1.0, accounting="basic", target_epsilon=1e12)
    for name, norm in [("gaussian", 1.0), ("laplace", 1e-30), ("discrete_gaussian", 1e30)]
}
BINS = [-math.inf, -1e300, 0.0, 1e-320, 1.0, math.inf]


def discrete(data):
    dimension = max(np.size(data), 1) if isinstance(data, np.ndarray) else len(data) if isinstance(data, list) else 1
    return fd.DiscreteGaussianMechanism(scale=2.0, dimension=dimension).release(data)


def in_code_words(data):
    dimension = max(np.shape(data)[-1], 1) if np.ndim(data) else 1
    made = fd.VectorResponse(weight=2**61, dimension=dimension, num_directions=3, size=1, l2_clip_norm=1.0)
    return made.release(data)


def summed(data, *, many=False):
    shape = np.shape(data) if not many else np.shape(data)[1:]
    total = fd.ClippedSum(tuple(shape), clip_norm=1.0, dtype=floats(data))
    (total.add_many if many else total.add)(data)
    return total.to_float(), total.release(noise_multiplier=1.0)


def rounds(data):
    template = {"w": np.zeros(np.shape(data)[1:], getattr(data, "dtype", np.float64))}
    for config in CONFIGS.values():
        engine = DifferentialPrivacyEngine(config)
        engine.round({"w": data}, template=template, denominator=1e-300)
        engine.round([{"w": row} for row in data], template=template)
        for _ in engine_rounds(config, data, template):
            pass


def engine_rounds(config, data, template):
    engine = DifferentialPrivacyEngine(config, population_size=2)
    return engine.run_rounds(lambda _: {"w": data}, template=template, num_rounds=1)


def gradients(data):
    engine = DifferentialPrivacyEngine(CONFIGS["gaussian"])
    for config in CONFIGS.values():
        engine.add_noise({"w": data}, config)


def floats(data):
    """Return the dtype of arrays of floats, and float64 for other data."""
    return data.dtype.newbyteorder("=") if isinstance(data, np.ndarray) and data.dtype.kind == "f" else np.float64


def plan(**settings):
    """A plan in which every record takes part, and stops only at its last step."""
    settings = {"population_size": 2, "clipping": FlatClipping(1.0), **settings}
    return fd.PrivacyPlan(sampling=FullBatch(), num_steps=1, noise=ConstantNoise(1.0), **settings)


CLIPPINGS = (
    FlatClipping(1e-30),
    L1Clipping(1e-30),
    AutomaticClipping(1e-100),
    AdaptiveClipping(1.0, count_noise_multiplier=10.0),
)


def steps(data):
    template = np.zeros(np.shape(data)[1:], floats(data))
    for clipping in CLIPPINGS:
        for step in plan(population_size=len(data), clipping=clipping).start(template):
            step.add(data)
            step.release()


def one_by_one(data):
    for clipping in CLIPPINGS:
        for step in plan(population_size=1, clipping=clipping).start(np.zeros(np.shape(data), floats(data))):
            step.add_one(data)
            step.release()


def given_sums(data):
    for step in plan().start(np.zeros(np.shape(data), floats(data))):
        step.release_sum(data)


def client_rounds(data):
    clients = fd.federated.FederatedRun(plan(unit="client"), {"w": np.zeros(np.shape(data), floats(data))}, delta=1e-5)
    for one in clients:
        one.add({"w": data})
        one.add({"w": data})
        one.release()


def shares(data):
    sums = fd.federated.SecureSum(
        np.zeros(np.shape(data)), clip_norm=1.0, noise_multiplier=1.0, min_clients=2, max_clients=3
    )
    return sums.encode(data)


def placed_rounds(data):
    settings = {"population_size": 10, "neighboring_relation": NeighboringRelation.REPLACE_SPECIAL}
    template = {"w": np.zeros(np.shape(data), floats(data))}
    placement = fd.federated.DistributedPlacement(min_clients=2)
    run = fd.federated.PlacedRun(plan(unit="client", **settings), template, placement, delta=1e-5)
    next(run).encode({"w": data})


def shuffled(data):
    settings = {"clip_norm": 1.0, "noise_multiplier": 300.0, "num_clients": 5000, "rotation_seed": bytes(32)}
    return fd.federated.ShuffledReports(np.zeros(np.shape(data)), **settings).encode(data)


def outer(data):
    rows = np.ones((len(data), 3), floats(data))
    for left, right in ((data, rows), (rows, data)):
        total = fd.ClippedSum((np.shape(left)[1], np.shape(right)[1]), clip_norm=1.0, dtype=floats(data))
        total.add_outer(left, right)
        total.release(noise_multiplier=1.0)


ENGINE = DifferentialPrivacyEngine(CONFIGS["gaussian"])


def noise_streams(data):
    kind = np.int64 if isinstance(data, np.ndarray) and data.dtype.kind == "i" else floats(data)
    strategy = fd.correlated.BandedToeplitz(num_steps=2, bands=2)
    stream = fd.correlated.NoiseStream(
        strategy, shape=np.shape(data), noise_multiplier=1.0, l2_sensitivity=1.0, dtype=kind
    )
    stream.release(data)
    stream.release(data)


def counted(data):
    stream = fd.Counter(noise_multiplier=1.0, days=2).start(np.size(data))
    stream.release(data)
    stream.release(data)


def counted_units(data):
    for most in (None, 1):
        stream = fd.Counter(noise_multiplier=1.0, days=2, max_days=most).start(4)
        stream.release_units(data, np.zeros(np.shape(data), np.int64))
        if isinstance(data, np.ndarray) and data.dtype.kind in "iu":
            stream.release_units(np.zeros(np.shape(data), np.int64), data)


PUBLIC = {
    "CounterStream.release": counted,
    "CounterStream.release_units": counted_units,
    "NoiseStream.release": noise_streams,
    "ClippedSum.add": summed,
    "ClippedSum.add_outer": outer,
    "FederatedRound.add": client_rounds,
    "LocalNoise.privatize": fd.federated.LocalNoise(clip_norm=1.0, noise_multiplier=1.0).privatize,
    "PlacedRound.encode": placed_rounds,
    "PlanStep.add": steps,
    "PlanStep.add_one": one_by_one,
    "PlanStep.release_sum": given_sums,
    "SecureSum.encode": shares,
    "ShuffledReports.encode": shuffled,
    "oriented_gradients": lambda data: fd.training.oriented_gradients(data, shape=(1, 2)),
    "train": lambda data: fd.training.train(data, [0, 1] * (len(data) // 2), epsilon=1.0, delta=1e-6, classes=[0, 1]),
    "ClippedSum.add_many": lambda data: summed(data, many=True),
    "DifferentialPrivacyEngine.add_noise": gradients,
    "DifferentialPrivacyEngine.clip_gradients": lambda data: ENGINE.clip_gradients({"w": data}, 1e-30),
    "DifferentialPrivacyEngine.per_sample_clip": lambda data: [
        ENGINE.per_sample_clip({"w": data}, 1e-30, ord=ord) for ord in (1, 2, math.inf)
    ],
    "DifferentialPrivacyEngine.round": rounds,
    "DiscreteGaussianMechanism.release": discrete,
    "DiscreteLaplaceMechanism.release": DISCRETE_LAPLACE.release,
    "ExponentialMechanism.release_from_runs": lambda data: fd.ExponentialMechanism(
        scale=1e-300, sensitivity=1.0
    ).release_from_runs(data, np.ones(len(data), np.uint64), lambda run, place: run),
    "ExponentialMechanism.release": lambda data: fd.ExponentialMechanism(scale=1e-300, sensitivity=1.0).release(data),
    "GaussianDifferentialPrivacy.apply_privacy": lambda data: GaussianDifferentialPrivacy(1e-30).apply_privacy(
        {"w": data}, 1.0, 1e-6
    ),
    "GaussianMechanism.release": GAUSSIAN.release,
    "HadamardResponse.release": fd.HadamardResponse(weight=2**61, num_categories=9).release,
    "LaplaceMechanism.release": LAPLACE.release,
    "NoiseSource.add_discrete_gaussian_": lambda data: NOISE.add_discrete_gaussian_(data, scale=1.0),
    "NoiseSource.add_discrete_laplace_": lambda data: NOISE.add_discrete_laplace_(data, scale=1.0),
    "NoiseSource.add_gaussian_": lambda data: NOISE.add_gaussian_(data, standard_deviation=1e-30),
    "NoiseSource.add_laplace_": lambda data: NOISE.add_laplace_(data, scale=1e30),
    "PermuteAndFlip.release_from_runs": lambda data: fd.PermuteAndFlip(scale=1e-300, sensitivity=1.0).release_from_runs(
        data, np.ones(len(data), np.uint64), lambda run, place: run
    ),
    "PermuteAndFlip.release": lambda data: fd.PermuteAndFlip(scale=1e300, sensitivity=1.0).release(data),
    "RandomizedResponse.release": RESPONSES.release,
    "SubsetResponse.release": fd.SubsetResponse(weight=2**61, num_categories=9, size=2).release,
    "VectorResponse.release": in_code_words,
    "UnaryResponse.release": fd.UnaryResponse(weight=3, digits=4, num_categories=9).release,
    "ReportNoisyMax.release": lambda data: fd.ReportNoisyMax(scale=1.0, sensitivity=1.0).release(data),
    "SparseVector.query": lambda data: fd.SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0).query(data),
    "clip_and_sum": lambda data: fd.clip_and_sum(data, clip_norm=1.0).to_float(),
    "clip_by_global_norm": lambda data: fd.clip_by_global_norm({"a": data}, clip_norm=1e-30),
    "clip_rows": lambda data: [fd.clip_rows(data, clip_norm=1e-30, ord=ord) for ord in (1, 2, math.inf)],
    "private_count": lambda data: fd.private_count(data, epsilon=1.0),
    "private_distinct": lambda data: fd.private_distinct(data, epsilon=1.0),
    "private_top": lambda data: fd.private_top(data, 2, categories=[0.0, 1.0, 1e300], epsilon=1.0),
    "private_rows_per_unit": lambda data: fd.private_rows_per_unit(data, at_most=3, epsilon=1.0),
    "private_histogram": lambda data: (
        fd.private_histogram(data, bins=BINS, epsilon=1.0),
        fd.private_histogram(data, categories=[0.0, 1.0, 1e300], epsilon=1.0),
    ),
    "private_mean": lambda data: fd.private_mean(data, bounds=(-1e300, 1e300), epsilon=1.0),
    "private_standard_deviation": lambda data: fd.private_standard_deviation(
        data, bounds=(-1e100, 1e100), epsilon=1.0
    ).interval(),
    "private_variance": lambda data: fd.private_variance(data, bounds=(0.0, 1e-90), epsilon=1.0, delta=1e-6).interval(),
    "private_quantile": lambda data: fd.private_quantile(data, 0.5, bounds=(-1e300, 1e300), epsilon=1.0),
    "private_bounds": lambda data: fd.private_bounds(data, epsilon=1.0),
    "private_max": lambda data: fd.private_max(data, bounds=(-1e300, 1e300), epsilon=1.0),
    "private_min": lambda data: fd.private_min(data, bounds=(-1e300, 1e300), epsilon=1.0),
    "private_median": lambda data: fd.private_median(data, bounds=(-1e300, 1e300), epsilon=1.0),
    "private_quantiles": lambda data: fd.private_quantiles(data, [0.0, 0.5], bounds=(-1e300, 1e300), epsilon=1.0),
    "private_sum": lambda data: (
        fd.private_sum(data, bounds=(-1e300, 1e300), epsilon=1.0),
        fd.private_sum(data, bounds=(0.0, 1e-250), epsilon=1.0, delta=1e-6),
    ),
}
"""Every public function that takes private data, called with some."""

NOT_PRIVATE = {
    "NoiseSource.bernoulli_exp": "its array is a parameter, and refused where it is negative",
    "RandomizedResponse.estimate_frequencies": "takes what was released",
    "SoftmaxModel.predict": "draws nothing: what it returns is for who has the features",
    "SoftmaxModel.predict_proba": "draws nothing",
    "SoftmaxModel.scores": "draws nothing",
    "fit": "takes functions, whose steps are in the table",
    "DifferentialPrivacyProtocol.add_noise": "says what an engine looks like",
    "DifferentialPrivacyProtocol.clip_gradients": "says what an engine looks like",
}
"""What has such a parameter and is not in the table, and why."""


def public_functions():
    """Yield all public functions and methods outside accounting and the ledger, which take no data."""
    rooms = (fd.mechanisms, fd.clipping, fd.sums, fd.statistics, fd.random, fd.plan, fd.engine)
    rooms += (fd.training, fd.federated, fd.correlated, fd.counters)
    for room in rooms:
        for name in room.__all__:
            item = getattr(room, name)
            if inspect.isclass(item):
                for method in dir(item):
                    if not method.startswith("_") and inspect.isfunction(inspect.getattr_static(item, method)):
                        yield f"{item.__name__}.{method}", getattr(item, method)
            elif inspect.isfunction(item):
                yield name, item


def test_no_function_that_takes_data_is_missing_here():
    taking = {name for name, item in public_functions() if DATA & set(inspect.signature(item).parameters)}

    assert taking - set(PUBLIC) - set(NOT_PRIVATE) == set()


HARD = [math.inf, -math.inf, math.nan, 5e-324, -5e-324, -0.0, 1.7e308, -1.7e308, 2.3e-308, 1e-45, 1e38]


def float_arrays():
    """Arrays of every float dtype with a signalling NaN and all that overflows, underflows or divides badly."""
    signalling = {2: 0x7C01, 4: 0x7F80_0001, 8: 0x7FF0_0000_0000_0001}
    with np.errstate(all="ignore"):
        for dtype in (np.float16, np.float32, np.float64):
            array = np.array([*HARD, 1.0]).astype(dtype)
            array.view(f"u{array.itemsize}")[-1] = signalling[array.itemsize]
            tiny = np.full(4, np.finfo(dtype).smallest_subnormal)
            for each in (array, tiny, np.full(4, np.finfo(dtype).max)):
                yield from (each, each.astype(each.dtype.newbyteorder("S")), np.repeat(each, 2)[::2])
        longer = np.array(HARD, np.longdouble)
        yield from (longer, longer * np.longdouble(10) ** (300 if longer.itemsize > 8 else 0))


def other_data():
    integers = [0, 1, -1, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)]
    yield np.array(integers)
    yield np.array([2**64 - 1, 0], np.uint64)
    yield np.array([2**31 - 1, -(2**31)], np.int32)
    yield np.array([255, 0, 7], np.uint8)
    yield np.array([True, False])
    yield [1.0, math.nan, math.inf, 5e-324, 1.7e308, -0.0]
    yield [10**400, -(10**400), 2**53 + 1, 2**60, 0]
    yield [1.5, 10**400, 2**60]
    yield [np.float32("nan"), np.float32("inf"), np.float32(1e-45)]
    yield [[1.0, math.nan], [math.inf, 5e-324]]
    yield [Decimal("1e-9999"), Decimal("NaN"), Decimal("sNaN")]
    yield [Fraction(1, 10**400), Fraction(10**400)]
    yield np.ma.MaskedArray([1.0, math.nan, math.inf], mask=[0, 1, 0])
    yield np.array([1.0, math.nan, None], object)
    yield np.array([10**400, 1], object)
    yield np.array(math.nan)
    yield from (math.nan, math.inf, -0.0, 5e-324, 1.7e308, 10**400, -(10**400), 2**60, np.float32("nan"))
    yield from (Decimal("sNaN"), Decimal("1e9999"), Fraction(10**400), np.float16("inf"), np.longdouble("1e4000"))
    yield from (np.array([0x7F80_0001], np.uint32).view(np.float32)[0], np.int64(2**63 - 1), np.uint64(2**64 - 1))


def harmless(data):
    """Return the same with ones in place of all numbers."""
    if isinstance(data, list):
        return [harmless(item) for item in data]
    if isinstance(data, np.ma.MaskedArray):
        return np.ma.ones(data.shape, data.dtype)
    if isinstance(data, np.ndarray):
        ones = np.ones(data.shape, data.dtype)
        return np.repeat(ones, 2)[::2] if data.strides != ones.strides else ones
    return type(data)(1)


def outcome(function, data):
    """Return the error that a call ends with, as text, or that it ends well."""
    try:
        function(data)
    except (ValueError, TypeError, IndexError) as error:
        return f"{type(error).__name__}: {error}"
    return "well"


ALL = [*float_arrays(), *other_data()]


def shaped(name, data):
    """Return flat data as what a function takes: rows for those that take rows."""
    if isinstance(data, np.ndarray) and data.ndim == 1 and name in ROWS:
        return data.reshape(data.size // 2, 2) if data.size % 2 == 0 else np.stack([data, data])
    return data


ROWS = {
    "ClippedSum.add_outer",
    "PlanStep.add",
    "oriented_gradients",
    "train",
    "clip_rows",
    "clip_and_sum",
    "ClippedSum.add_many",
    "DifferentialPrivacyEngine.round",
    "DifferentialPrivacyEngine.per_sample_clip",
}


@pytest.mark.parametrize("name", PUBLIC)
def test_no_element_makes_a_call_warn_or_raise(name):
    accepted = 0
    for data in ALL:
        hard, easy = shaped(name, data), shaped(name, harmless(data))
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            found = outcome(PUBLIC[name], hard)

        expected = outcome(PUBLIC[name], easy)
        assert found == expected, f"{type(data).__name__}, {getattr(data, 'dtype', '')}: {data!r}"
        accepted += found == "well"
    assert accepted > 0
