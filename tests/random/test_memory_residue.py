"""After a call no round key and no word of its keystream is anywhere in the memory of the process, seen from outside.

The bytes of the kernel are chosen here, so every key is known here; what a call has drawn is computed again and looked
for, at any address, in all writable memory of the process: see `watched_process.py`.
"""

import numpy as np
import pytest

from ferrodp import _native
from support.watched_process import WatchedProcess, encrypted, schedule

SAMPLES = np.arange(4096, dtype=np.uint64)

# Statements by name. None of their results consists of words, so these must not be found anywhere.
CALLS = {
    "Gaussian, float32": "array = np.ones(3001, np.float32); source.add_gaussian_(array, standard_deviation=1.0)",
    "Gaussian, float64": "array = np.ones(3001); source.add_gaussian_(array, standard_deviation=1.0)",
    "Laplace, float32": "array = np.ones(3001, np.float32); source.add_laplace_(array, scale=1.0)",
    "Laplace, a new array": "array = source.laplace(3001, scale=1.0)",
    "late stages": "array = source.gaussian(3001, standard_deviation=1.0, granularity=2.0**-43)",
    "big integers": "array = source.laplace(100, scale=1.0, granularity=2.0**-43)",
    "one value": "value = GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=1.0).release(1.0)",
    "helper threads": "array = source.gaussian(200_000, standard_deviation=1.0, threads=3)",
    "a thread of Python's": (
        "thread = threading.Thread(target=source.gaussian, args=(3001,), kwargs={'standard_deviation': 1.0})\n"
        "thread.start(); thread.join()"
    ),
    "interrupted by signals": (
        "signal.signal(signal.SIGALRM, lambda *_: None)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)\n"
        "array = source.gaussian(200_000, standard_deviation=1.0, threads=1)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0)"
    ),
    "a signal afterwards": (
        "signal.signal(signal.SIGUSR1, lambda *_: None)\n"
        "array = np.ones(3001, np.float32)\n"
        "source.add_gaussian_(array, standard_deviation=1.0); signal.raise_signal(signal.SIGUSR1)"
    ),
    "discrete Gaussian": "array = source.discrete_gaussian(3001, scale=30)",
    "discrete Gaussian, huge": "array = source.discrete_gaussian(300, scale=2**50)",
    "discrete Laplace": "array = np.zeros(3001, np.int32); source.add_discrete_laplace_(array, scale=10)",
    "fixed time, Gaussian": "array = source.discrete_gaussian(300, scale=30, fixed_time=True)",
    "fixed time, Laplace": "array = source.discrete_laplace(30, scale=30, fixed_time=True)",
    "coins": "array = source.bernoulli_exp(Fraction(1, 3), 3001)",
    "responses": "array = RandomizedResponse.calibrated(epsilon=1.0, num_categories=5).release([0] * 2001)",
    "responses in bits": "array = fd.UnaryResponse.calibrated(epsilon=1.0, num_categories=90).release([0] * 2001)",
    "responses in sets": "array = fd.SubsetResponse.calibrated(epsilon=1.0, num_categories=9).release([0] * 2001)",
    "responses in a code": "array = fd.HadamardResponse.calibrated(epsilon=1.0, num_categories=9).release([0] * 2001)",
    "a long integer": "value = GaussianMechanism(noise_multiplier=1e30, l2_sensitivity=1.0).release(2**120 + 1)",
    "long integers": "index = ReportNoisyMax(scale=1.0, sensitivity=1.0).release([2**90 + i for i in range(40)])",
    "a choice": "index = ExponentialMechanism.calibrated(epsilon=1.0, sensitivity=1.0).release([0.001, 0.002] * 999)",
    "noisy max": "index = ReportNoisyMax.calibrated(epsilon=1.0, sensitivity=1.0).release(np.zeros(2001))",
    "a threshold": (
        "run = SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0)\nassert not run.query(-1e9) and run.query(1e9)"
    ),
    "a threshold, exactly": (
        "run = SparseVector(threshold=2.0**53, sensitivity=1e-9, epsilon=1.0, max_answers=2); run.query(2.0**53)\n"
        "while run.remaining: run.query(2.0**60)"
    ),
    "a clipped sum": (
        "total = fd.ClippedSum((3001,), clip_norm=1.0); total.add(np.ones(3001))\n"
        "array = total.release(noise_multiplier=1.0)"
    ),
    "statistics": (
        "column = np.arange(100.0)\n"
        "fd.private_mean(column, bounds=(0.0, 100.0), epsilon=1.0)\n"
        "fd.private_quantile(column, 0.5, bounds=(0.0, 100.0), epsilon=1.0)\n"
        "fd.private_histogram(column, bins=[0, 50, 100], epsilon=1.0)"
    ),
    "statistics of groups": (
        "frame = {'key': np.arange(100.0) % 3, 'value': np.arange(100.0)}\n"
        "groups = fd.private_group_by(frame, 'key', keys=fd.KeyThreshold(epsilon=1.0, delta=1e-3))\n"
        "groups = fd.private_group_by(frame, 'key', keys=[0.0, 1.0, 2.0])\n"
        "groups.mean('value', bounds=(0.0, 100.0), epsilon=1.0)\n"
        "groups.quantile('value', 0.5, bounds=(0.0, 100.0), epsilon=1.0)\n"
        "fd.private_variance(frame['value'], bounds=(0.0, 100.0), epsilon=1.0)"
    ),
    "a Poisson sample": "rows = fd.random.poisson_sample(100_000, 0.01)",
    "a sample of fixed size": "rows = fd.random.fixed_size_sample(100_000, 1000)",
    "a random allocation": "rows = fd.random.random_allocation(3001, num_steps=40, num_selected=2)",
    "rows and their noise": (
        "total = fd.ClippedSum((40, 30), clip_norm=1.0); total.add_outer(np.ones((5, 40)), np.ones((5, 30)))\n"
        "array = total.release(noise_multiplier=1.0)"
    ),
    "a plan's step": (
        "plan = fd.PrivacyPlan(population_size=3001, sampling=PoissonSampling(probability=0.5), num_steps=2,\n"
        "    clipping=FlatClipping(1.0), noise=ConstantNoise(1.0))\n"
        "run = plan.start(np.zeros(1000)); step = next(iter(run))\n"
        "step.add(np.ones((len(step.indices), 1000))); array = step.release()"
    ),
    "a client's share": (
        "shares = SecureSum(np.zeros(1000), clip_norm=1.0, noise_multiplier=1.0, min_clients=5, max_clients=10)\n"
        "array = shares.encode(np.ones(1000))"
    ),
    "a shuffled report": (
        "array = ShuffledReports((3001,), clip_norm=1.0, noise_multiplier=99.0, num_clients=9, rotation_seed=bytes(32))"
        ".encode(np.ones(3001))"
    ),
    "a client's own noise": "array = LocalNoise(clip_norm=1.0, noise_multiplier=1.0).privatize(np.ones(3001))",
    "an exhausted buffer": "np.random.Generator(fd.random.BitGenerator()).random(5 * 506)",
}

BEFORE = """
import gc, signal, threading
from fractions import Fraction
from ferrodp.federated import LocalNoise, SecureSum, ShuffledReports
from ferrodp.mechanisms import *
from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling
source = fd.NoiseSource()
"""


@pytest.fixture(scope="module", params=_native.available_isas)
def process(request):
    watched = WatchedProcess(request.param)
    watched.run(BEFORE)
    yield watched
    watched.close()


def drawn(key, samples):
    """Return the words that a call may have used: of stream 0 those of all samples, of others those of the first."""
    first = encrypted(key, 0, np.arange(samples // 2, dtype=np.uint64))
    return np.concatenate([first, *(encrypted(key, stream, SAMPLES) for stream in (1, 2))])


@pytest.mark.parametrize("call", CALLS)
def test_neither_keys_nor_words_stay_in_memory(process, call):
    keys, samples = process.run(CALLS[call]), 200_000 if "200_000" in CALLS[call] else 2 * SAMPLES.size

    assert keys
    assert process.found(np.concatenate([part for key in keys for part in (schedule(key), drawn(key, samples))])) == []


def test_of_bytes_that_are_drawn_nothing_but_the_bytes_stays(process):
    (key,) = process.run("drawn = source.bytes(1000); drawn = None")

    assert process.found(schedule(key)) == []


def test_of_answered_vectors_nothing_but_their_nonces_stays(process):
    made = "fd.VectorResponse.calibrated(epsilon=1.0, dimension=9, l2_clip_norm=1.0)"
    (key,) = process.run(f"array = {made}.release(np.ones((99, 9)) / 9)")
    rows = np.arange(99, dtype=np.uint64)
    nonces, signs = encrypted(key, 1, rows).reshape(-1, 2).T

    assert process.found(np.concatenate([schedule(key), signs, *(encrypted(key, each, rows) for each in (0, 2))])) == []
    assert len(process.found(nonces)) >= 99


def test_of_a_bit_generator_only_what_is_left_of_its_buffer_stays(process):
    """Words are handed out from the end of a buffer of 510, of which 4 are a key in reserve; the next has another."""
    first, second = process.run("bits = fd.random.BitGenerator(); rng = np.random.Generator(bits); rng.random(600)")
    used, buffer = encrypted(first, 0, SAMPLES[:255]), encrypted(second, 0, SAMPLES[:255])

    assert process.found(np.concatenate([schedule(first), schedule(second)])) == []
    assert process.found(np.concatenate([used, buffer[416:]])) == []
    assert len(process.found(buffer[:416])) == 416
    process.run("del bits, rng")
    assert process.found(buffer) == []


def test_a_threshold_keeps_its_round_keys_until_its_last_answer(process):
    key, _ = process.run("run = SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0); run.query(-1e9)")
    assert process.found(schedule(key)) != []

    process.run("run.query(1e9)")
    assert process.found(schedule(key)) == []


def test_what_is_in_memory_is_found(process):
    """Without this the tests above could pass by looking in the wrong place."""
    (key,) = process.run("import os; kept = bytearray(b'x') + os.getrandom(32)")

    assert process.found(np.frombuffer(key, np.uint64)) != []
    assert process.found(schedule(key)[4:]) == []
