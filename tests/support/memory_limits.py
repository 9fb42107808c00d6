"""Calls in children whose address space is limited: each ends with an answer or an error, and none with an abort."""

import ctypes
import gc
import os
import resource
import signal
import warnings
from collections import Counter
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
SECONDS = 20
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8  # of <malloc.h>
ANSWERED, OUT_OF_MEMORY, REFUSED, UNTYPED = 0, 10, 11, 12

BEFORE = """
import io, json, tempfile
from pathlib import Path
import numpy as np
import ferrodp as fd
from ferrodp import files
from ferrodp.accounting import *
from ferrodp.accounting import composition, curves, filters, rdp, reports, sampling
from ferrodp.audit import audit_callable, smallest_violation
from ferrodp.correlated import *
from ferrodp.counters import CounterStream
from ferrodp.federated import LocalNoise, SecureSum, ShuffledReports
from ferrodp.mechanisms import *
from ferrodp.plan import *
from ferrodp.statistics import models
source = fd.NoiseSource()
n = 1_000_000
floats, singles = np.ones(n), np.ones(n, np.float32)
wholes, short = np.ones(n, np.int64), np.ones(n, np.int32)
rows = np.ones((1000, 1000), np.float32)
column = floats * 0.5
tall, labels = np.ones((100_000, 8)), np.arange(100_000) % 2
tree = {f"w{place}": np.ones((3, 2)) for place in range(3000)}
table = {"key": wholes.cumsum() % 700, "unit": wholes.cumsum() // 5, "value": column}
events = [GaussianEvent(noise_multiplier=1.0 + i / 1000) for i in range(200)]
laplace = LaplaceEvent(noise_multiplier=2.0)
sampled = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.0))
folder = Path(tempfile.mkdtemp())
np.save(folder / "a.npy", rows)
np.savez(folder / "a.npz", rows=rows)
text = json.dumps(ComposedEvent(events=events).to_dict())

def by_key(keys):
    return fd.private_group_by(table, "key", keys=keys, unit="unit")

def composed(accountant, event, count=1):
    accountant.compose(event, count=count)
    return accountant
"""
"""What the calls share; made without a limit."""

CALLS = {
    "NoiseSource.gaussian": "source.gaussian(n, standard_deviation=1.0)",
    "NoiseSource.laplace": "source.laplace(n, scale=1.0)",
    "NoiseSource.discrete_gaussian": "source.discrete_gaussian(n, scale=3)",
    "NoiseSource.discrete_laplace": "source.discrete_laplace(n, scale=3)",
    "NoiseSource, fixed time": "source.discrete_gaussian(100_000, scale=3, fixed_time=True)",
    "NoiseSource.add_gaussian_": "source.add_gaussian_(singles, standard_deviation=1.0)",
    "NoiseSource.bernoulli_exp": "source.bernoulli_exp(0.5, n)",
    "NoiseSource.bytes": "source.bytes(8 * n)",
    "BitGenerator": "np.random.Generator(fd.random.BitGenerator()).random(n)",
    "poisson_sample, gaps": "fd.random.poisson_sample(100 * n, 0.02)",
    "poisson_sample, coins": "fd.random.poisson_sample(n, 0.9)",
    "poisson_sample, all": "fd.random.poisson_sample(n, 1.0)",
    "fixed_size_sample, hashed": "fd.random.fixed_size_sample(1000 * n, n)",
    "fixed_size_sample, bits": "fd.random.fixed_size_sample(10 * n, n)",
    "fixed_size_sample, most": "fd.random.fixed_size_sample(n, n - 10)",
    "random_allocation": "fd.random.random_allocation(n, num_steps=50, num_selected=2)",
    "engine.poisson_sample": "fd.engine.poisson_sample(n, sampling_rate=0.9)",
    "engine.uniform_sample": "fd.engine.uniform_sample(n, sample_size=n // 3)",
    "GaussianMechanism": "GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=1.0).release(floats)",
    "LaplaceMechanism": "LaplaceMechanism(scale=1.0, l1_sensitivity=1.0).release(singles)",
    "DiscreteGaussianMechanism": "DiscreteGaussianMechanism(scale=3, l2_sensitivity=1, dimension=n).release(wholes)",
    "DiscreteLaplaceMechanism": "DiscreteLaplaceMechanism(scale=3, l1_sensitivity=1).release(wholes)",
    "ExponentialMechanism": "ExponentialMechanism.calibrated(epsilon=1.0, sensitivity=1.0).release(floats)",
    "PermuteAndFlip": "PermuteAndFlip(scale=1.0, sensitivity=1.0).release(floats)",
    "ReportNoisyMax": "ReportNoisyMax(scale=1.0, sensitivity=1.0).release(floats)",
    "HadamardResponse": "HadamardResponse.calibrated(epsilon=1.0, num_categories=5).release(wholes)",
    "SubsetResponse": "SubsetResponse.calibrated(epsilon=1.0, num_categories=5).release(wholes)",
    "UnaryResponse": (
        "one = UnaryResponse.calibrated(epsilon=1.0, num_categories=5); one.estimate_frequencies(one.release(wholes))"
    ),
    "VectorResponse": (
        "one = VectorResponse.calibrated(epsilon=0.1, dimension=1, l2_clip_norm=1.0, num_directions=1); "
        "one.estimate_mean(one.release(floats.reshape(-1, 1)))"
    ),
    "RandomizedResponse": "RandomizedResponse.calibrated(epsilon=1.0, num_categories=5).release(wholes)",
    "SparseVector": (
        "run = SparseVector(threshold=9.0, sensitivity=1.0, epsilon=1.0); [run.query(-99.0) for _ in range(50)]"
    ),
    "clip_rows": "fd.clip_rows(rows, clip_norm=1.0)",
    "clip_and_sum": "fd.clip_and_sum(rows, clip_norm=1.0)",
    "clip_by_global_norm": "fd.clip_by_global_norm({'a': rows, 'b': singles}, clip_norm=1.0)",
    "clip_by_global_norm, many arrays": "fd.clip_by_global_norm(tree, clip_norm=1.0)",
    "ClippedSum, many arrays": (
        "total = fd.ClippedSum(tree, clip_norm=1.0); total.add(tree); total.add(tree, minus=tree); "
        "total.release(noise_multiplier=1.0)"
    ),
    "ClippedSum, many stacked arrays": (
        "total = fd.ClippedSum(tree, clip_norm=1.0); total.add_many({name: np.stack([each] * 9) for name, each in "
        "tree.items()}); fd.ClippedSum.from_state(total.state())"
    ),
    "ClippedSum": (
        "total = fd.ClippedSum((1000,), clip_norm=1.0, dtype=np.float32); "
        "total.add_many(rows); total.release(noise_multiplier=1.0)"
    ),
    "distributed.clipped_sum": (
        "fd.distributed.clipped_sum([rows, rows + 1.0], (1000,), clip_norm=1.0, stacked=True, dtype=np.float32)"
    ),
    "distributed.private_statistic": (
        "fd.distributed.private_statistic([{'pay': column}, {'pay': column}], "
        "lambda frame, **pay: fd.private_median(frame['pay'], bounds=(0.0, 1.0), epsilon=1.0, **pay))"
    ),
    "private_count": "fd.private_count(column, epsilon=1.0)",
    "private_distinct": "fd.private_distinct(column, epsilon=1.0)",
    "private_top": "fd.private_top(column, 3, categories=list(range(3000)), epsilon=1.0)",
    "private_rows_per_unit": "fd.private_rows_per_unit(wholes, at_most=1000, epsilon=1.0)",
    "private_sum": "fd.private_sum(column, bounds=(0.0, 1.0), epsilon=1.0)",
    "private_mean": "fd.private_mean(column, bounds=(0.0, 1.0), epsilon=1.0)",
    "population_interval": (
        "fd.statistics.population_interval(fd.private_group_by({'key': wholes, 'value': column}, 'key', "
        "keys=list(range(500))).mean('value', bounds=(0.0, 1.0), epsilon=1.0))"
    ),
    "CalendarBins": (
        "day = __import__('datetime').date; fd.private_histogram([day(824, 1, 1)] * min(n, 4 * 10**5), "
        "bins=fd.CalendarBins(day(1, 1, 1), day(1100, 1, 1), 'day'), epsilon=1.0)"
    ),
    "private_variance": "fd.private_variance(column, bounds=(0.0, 1.0), epsilon=1.0)",
    "private_standard_deviation": "fd.private_standard_deviation(column, bounds=(0.0, 1.0), epsilon=1.0)",
    "private_histogram": "fd.private_histogram(column, bins=list(range(3000)), epsilon=1.0)",
    "private_median": "fd.private_median(column, bounds=(0.0, 1.0), epsilon=1.0)",
    "private_quantile": "fd.private_quantile(column, 0.5, bounds=(0.0, 1.0), epsilon=1.0)",
    "private_quantiles": "fd.private_quantiles(column, (0.2, 0.8), bounds=(0.0, 1.0), epsilon=1.0)",
    "private_bounds": "fd.private_bounds(column, epsilon=1.0)",
    "private_min": "fd.private_min(column, bounds=(0.0, 1.0), epsilon=1.0)",
    "private_max": "fd.private_max(column, bounds=(0.0, 1.0), epsilon=1.0)",
    "private_moments": "models.private_moments(tall, bounds=(0.0, 2.0), epsilon=1.0, delta=1e-6)",
    "private_clusters": "models.private_clusters(tall, 3, bounds=(0.0, 2.0), epsilon=1.0, delta=1e-6, seed=0)",
    "private_naive_bayes": (
        "models.private_naive_bayes(tall, labels, classes=[0, 1], bounds=(0.0, 2.0), epsilon=1.0, delta=1e-6)"
    ),
    "private_categorical_bayes": (
        "models.private_categorical_bayes(tall, labels, classes=[0, 1], categories=[[0.0, 1.0]] * tall.shape[1], "
        "epsilon=1.0, delta=1e-6)"
    ),
    "private_scales": "models.private_scales(tall, bounds=(0.0, 2.0), epsilon=1.0, delta=1e-6)",
    "KeyThreshold": "by_key(fd.statistics.KeyThreshold(epsilon=1.0, delta=1e-6))",
    "KeySelection": "by_key(fd.statistics.KeySelection(epsilon=1.0, delta=1e-6))",
    "KeyUnion": "by_key(fd.statistics.KeyUnion(epsilon=1.0, delta=1e-6))",
    "private_group_by, units": (
        "fd.private_group_by(table, 'key', keys=list(range(500)), unit='unit', groups_per_unit=3, rows_per_group=2)"
        ".count(epsilon=1.0, delta=1e-6)"
    ),
    "release": "fd.release({'value': column}, sums={'value': (0.0, 1.0)}, epsilon=1.0)",
    "private_marginals": (
        "fd.private_marginals({'a': wholes % 40, 'b': wholes % 30, 'c': wholes % 7}, 3, "
        "categories={'a': range(40), 'b': range(30), 'c': range(7)}, epsilon=1.0, delta=1e-6)['a', 'b']"
    ),
    "private_quantile_bins": (
        "fd.statistics.private_quantile_bins({'a': column, 'b': wholes}, 4, bounds={'a': (0.0, 1.0), 'b': (0, 500)}, "
        "epsilon=1.0)"
    ),
    "private_group_by, different values": (
        "fd.private_group_by({'key': wholes, 'value': column}, 'key', keys=list(range(500)))"
        ".distinct('value', epsilon=1.0)"
    ),
    "private_group_by": (
        "fd.private_group_by({'key': wholes, 'value': column}, 'key', keys=list(range(500)))"
        ".mean('value', bounds=(0.0, 1.0), epsilon=1.0)"
    ),
    "PldAccountant": "composed(PldAccountant(), LaplaceEvent(noise_multiplier=2.0), 500).epsilon(1e-6)",
    "PldAccountant, sampled": ("composed(PldAccountant(), sampled, 1000).epsilon(1e-6)"),
    "PldAccountant, mixed": ("composed(PldAccountant(), ComposedEvent(events=[*events[:3], laplace])).epsilon(1e-6)"),
    "PldAccountant.delta_curve": (
        "composed(PldAccountant(), LaplaceEvent(noise_multiplier=2.0), 50).delta_curve(np.linspace(0.0, 9.0, 50))"
    ),
    "RdpAccountant": ("composed(RdpAccountant(), sampled, 1000).epsilon(1e-6)"),
    "ZcdpAccountant": "composed(ZcdpAccountant(), GaussianEvent(noise_multiplier=2.0), 500).epsilon(1e-6)",
    "GdpAccountant": "composed(GdpAccountant(), GaussianEvent(noise_multiplier=2.0), 500).epsilon(1e-6)",
    "PureDpAccountant": "composed(PureDpAccountant(), LaplaceEvent(noise_multiplier=2.0), 500).epsilon(0.0)",
    "MomentsAccountant": "composed(MomentsAccountant(), GaussianEvent(noise_multiplier=2.0), 500).epsilon(1e-6)",
    "RandomAllocationEvent": (
        "allocated = RandomAllocationEvent(num_steps=100, num_selected=1, event=events[0]); "
        "composed(PldAccountant(), allocated, 3).epsilon(1e-6)"
    ),
    "compose_optimal": "compose_optimal([(0.1 + i / 1000, 1e-9) for i in range(60)], delta=1e-6)",
    "ShuffledEvent": (
        "composed(PldAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE), ShuffledEvent("
        "randomizer=EpsilonDeltaEvent(epsilon=2.0, delta=0.0), population_size=100_000), 3).epsilon(1e-6)"
    ),
    "calibrate_noise_multiplier": (
        "calibrate_noise_multiplier(target_epsilon=1.0, target_delta=1e-6, sampling_probability=0.01, count=1000)"
    ),
    "trade_off_curve": (
        "trade_off_curve(composed(GdpAccountant(), events[0]), false_positive_rates=np.linspace(0, 1, 50))"
    ),
    "events as JSON": "PrivacyEvent.from_dict(json.loads(text)).to_dict()",
    "PrivacyPlan": (
        "plan = fd.PrivacyPlan(population_size=n, sampling=PoissonSampling(probability=0.01), num_steps=2,"
        " clipping=FlatClipping(1.0), noise=ConstantNoise(1.0)); step = next(iter(plan.start(np.zeros(1000))))"
    ),
    "CorrelatedNoise": (
        "plan = fd.PrivacyPlan(population_size=n, sampling=FullBatch(), num_steps=9,"
        " clipping=FlatClipping(1.0), noise=CorrelatedNoise(BufferedToeplitz(num_steps=9, buffers=2), 4.0));"
        " step = next(iter(plan.start(np.zeros(100_000))))"
    ),
    "Counter": "fd.Counter(noise_multiplier=4.0, days=1000, max_days=9, min_separation=99).standard_error(999)",
    "CounterStream": (
        "stream = fd.Counter(noise_multiplier=4.0, days=99).start(n); CounterStream.release(stream, wholes)"
    ),
    "CounterStream, units": (
        "fd.Counter(noise_multiplier=4.0, days=99, max_counters=2).start(1000).release_units(wholes, wholes % 1000)"
    ),
    "NoiseStream": (
        "NoiseStream(BufferedToeplitz(num_steps=9, buffers=2), shape=n, noise_multiplier=4.0, l2_sensitivity=1.0)"
        ".release(floats)"
    ),
    "NoiseStream, rows": (
        "stream = NoiseStream(BandedMatrix(np.tril(np.ones((99, 99)))), shape=20_000, noise_multiplier=4.0, "
        "l2_sensitivity=1.0); [stream.release(np.ones(20_000)) for _ in range(9)]"
    ),
    "BandedToeplitz": "BandedToeplitz(num_steps=2048, bands=16).sensitivity(num_participations=8, min_separation=256)",
    "BufferedToeplitz": "BufferedToeplitz(num_steps=4096, buffers=4).rms_error()",
    "SquareRoot": "SquareRoot(num_steps=100_000).max_error()",
    "Tree": "Tree(num_steps=100_000).rms_error()",
    "BandedMatrix": (
        "BandedMatrix(np.tril(np.ones((500, 500)))).sensitivity(num_participations=5, min_separation=100)"
    ),
    "Strategy.from_json": "Strategy.from_json(BandedMatrix(np.tril(np.ones((200, 200)))).to_json())",
    "SecureSum": (
        "SecureSum(floats, clip_norm=1.0, noise_multiplier=1.0, min_clients=5, max_clients=10).encode(floats)"
    ),
    "LocalNoise": "LocalNoise(clip_norm=1.0, noise_multiplier=1.0).privatize(singles)",
    "ShuffledReports": (
        "ShuffledReports((n,), clip_norm=1.0, noise_multiplier=99.0, num_clients=9, rotation_seed=bytes(32))"
        ".encode(floats)"
    ),
    "files.describe": "files.describe(folder / 'a.npy'); files.describe(folder / 'a.npz')",
    "audit_callable": (
        "audit_callable(None, neighbors=(0, 1), epsilon=1.0, delta=0.0, draws=100_000,"
        " release_many=lambda value, many: np.random.random(many) + value)"
    ),
}


def outcome(call: str, names: dict, spare: int, *, any_error: bool = False) -> int:
    """Return how a call ends in a child that may have `spare` bytes more: a code above, or the signal, negative.

    With `any_error` every `Exception` is a refusal: the binding leaves checks of types and shapes to Python's errors.
    """
    child = os.fork()
    if child == 0:
        try:
            os._exit(_limited(call, names, spare, any_error))
        finally:
            os._exit(UNTYPED)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _limited(call: str, names: dict, spare: int, any_error: bool) -> int:
    code = compile(call, "call", "exec")
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
    signal.alarm(SECONDS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE
    resource.setrlimit(resource.RLIMIT_AS, (size + spare, resource.RLIM_INFINITY))
    try:
        exec(code, names)
    except MemoryError:
        return OUT_OF_MEMORY
    except Exception as error:
        modules = {each.__module__.split(".")[0] for each in type(error).__mro__}
        return REFUSED if any_error or modules & {"ferrodp"} or isinstance(error, OSError | ImportError) else UNTYPED
    except BaseException:
        return UNTYPED
    return ANSWERED


def keep_no_holes() -> None:
    """Map large blocks each by itself, and unmap them: no hole that an earlier call left has room for a later one.

    Nor do helper threads leave arenas, whose addresses are counted already.
    """
    for parameter, value in ((_MMAP_THRESHOLD, 1 << 16), (_ARENA_MAX, 1)):
        assert ctypes.CDLL(None).mallopt(parameter, value) == 1


def pass_over_what_is_there() -> None:
    """Let later collections look at nothing that exists now: that is most of their time, and stays until the end."""
    gc.collect()
    gc.freeze()


def sweep(calls, levels) -> dict[str, Counter]:
    """Return how often each call ended how, at so many bytes to spare; run without a limit once before."""
    keep_no_holes()
    names: dict = {}
    exec(BEFORE, names)
    pass_over_what_is_there()
    found = {}
    for call in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(CALLS[call], dict(names))  # imports what it imports late, and shows that it works
        pass_over_what_is_there()
        found[call] = Counter(outcome(CALLS[call], dict(names), spare) for spare in levels)
    return found
