"""Discrete Gaussian and Laplace noise: the envelope's proof, the reference bit for bit, the law, bad input."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp
from scipy import stats

import ferrodp as fd
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
from reference import discrete_noise, keystream
from support.native_testing import testing

LAWS = ("gaussian", "laplace")
SCALES = [Fraction(1, 100), 0.05, 0.3, Fraction(1, 2), 1, Fraction(7, 3), 10, 31.99, 32, 63.9, 64, 100.5, 1000.25]
SCALES += [10**6, 1e9, 2.0**39, 2.0**40, 1e13, 2**57]
SEED = bytes(range(32))


def envelope(law, scale):
    ratio = Fraction(scale)
    return discrete_noise.Envelope(*testing.discrete_envelope(law, ratio.numerator, ratio.denominator))


def drawn(law, scale, count, seed=SEED):
    return getattr(fd.testing.seeded(seed), f"discrete_{law}")(count, scale=scale)


def pmf(law, scale, x):
    """Return probabilities of an array of integers: log-space floats, normalized by a sum that leaves out e^-40."""
    scale = float(scale)
    reach = np.arange(-math.ceil(45 * scale) - 2, math.ceil(45 * scale) + 3)
    exponent = (lambda n: n * n / (2 * scale * scale)) if law == "gaussian" else (lambda n: abs(n) / scale)
    return np.exp(-exponent(x.astype(float))) / np.exp(-exponent(reach.astype(float))).sum()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_the_envelope_satisfies_every_inequality_of_its_proof(law, scale):
    assert discrete_noise.violations(law, Fraction(scale), envelope(law, scale)) == []


@given(st.sampled_from(LAWS), st.floats(0.01, 2.0**57))
def test_so_does_the_envelope_of_any_scale(law, scale):
    assert discrete_noise.violations(law, Fraction(scale), envelope(law, scale)) == []


def test_the_inequalities_would_be_seen_to_fail():
    good = envelope("gaussian", 10)
    largest = good.counts[0]
    fewer = good._replace(counts=[largest - 1, *good.counts[1:]], tail_count=good.tail_count + 1)
    higher = good._replace(height=good.height + 2**16 * 40)
    shorter = good._replace(tail_count=1, counts=[largest + good.tail_count - 1, *good.counts[1:]])
    slower = good._replace(tail_bits=0)

    for changed, words in ((fewer, "block 0"), (higher, "too few"), (shorter, "tail has too few"), (slower, "halve")):
        assert any(words in found for found in discrete_noise.violations("gaussian", Fraction(10), changed))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_samples_are_those_of_the_reference(law, scale):
    """The first ones, and those furthest out among 2^15: they came through the tail."""
    key, count = keystream.call_key(SEED, 0), 1 << 15
    samples = drawn(law, scale, count)
    chosen = [*range(12), *np.argsort(-np.abs(samples.astype(float)))[:6].tolist(), count - 1]

    for index in chosen:
        expected = discrete_noise.sample(key, index, law, Fraction(scale), envelope(law, scale))
        assert expected == samples[index]


def test_enough_samples_of_the_reference_are_rejected_or_from_the_tail():
    """Those above are few; here all of 400 samples at a scale where one in twenty needs a second look."""
    key = keystream.call_key(SEED, 0)
    table = envelope("gaussian", 1000.25)

    samples = drawn("gaussian", 1000.25, 400)

    expected = [discrete_noise.sample(key, i, "gaussian", Fraction(1000.25), table) for i in range(400)]
    assert samples.tolist() == expected


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [0.3, 0.5, 1, 2.5, 10, 63.9, 100.5])
def test_counts_are_those_of_the_law(law, scale):
    """Chi-square of 2^20 draws, cells of expectation ≥ 10 and the two tails; false alarm 1e-9 a test."""
    draws = 1 << 20
    samples = drawn(law, scale, draws, seed=bytes([7] * 32))
    reach = np.arange(-int(60 * scale) - 1, int(60 * scale) + 2)
    expected = draws * pmf(law, scale, reach)
    kept = expected >= 10
    low, high = reach[kept][0], reach[kept][-1]
    observed = np.bincount(np.clip(samples, low - 1, high + 1) - (low - 1), minlength=high - low + 3)
    theory = np.concatenate([[expected[reach < low].sum()], expected[kept], [expected[reach > high].sum()]])
    rare = theory < 10  # the tails together
    observed = np.append(observed[~rare], observed[rare].sum())
    theory = np.append(theory[~rare], theory[rare].sum())
    keep = theory > 1e-3

    statistic = ((observed[keep] - theory[keep]) ** 2 / theory[keep]).sum()

    assert observed[~keep].sum() == 0
    assert stats.chi2.sf(statistic, keep.sum() - 1) > 1e-9


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [1000.25, 10**6, 1e9, 1e13])
def test_wide_laws_look_continuous(law, scale):
    """Kolmogorov and Smirnov against the continuous law: they differ by less than 1/scale. False alarm 1e-9 a test."""
    samples = drawn(law, scale, 1 << 18, seed=bytes([8] * 32)) / float(scale)
    jitter = np.random.default_rng(0).uniform(-0.5, 0.5, samples.size) / float(scale)

    assert stats.kstest(samples + jitter, {"gaussian": stats.norm, "laplace": stats.laplace}[law].cdf).pvalue > 1e-9


@pytest.mark.parametrize("law", LAWS)
def test_low_bits_and_signs_are_fair(law):
    """Parity, sign, and lag-1 products at a scale of 10^6: normal approximation, false alarm 1e-9 each."""
    samples = drawn(law, 10**6, 1 << 20, seed=bytes([9] * 32))
    n = samples.size

    for coins in (samples & 1, samples >> 1 & 1, samples < 0, (samples[1:] > 0) == (samples[:-1] > 0)):
        assert 2 * stats.norm.sf(abs(coins.sum() - coins.size / 2) / math.sqrt(coins.size / 4)) > 1e-9
    z = samples / samples.std()
    assert 2 * stats.norm.sf(abs((z[1:] * z[:-1]).sum()) / math.sqrt(n - 1)) > 1e-9


@pytest.mark.parametrize(("law", "scale"), [("gaussian", 0.7), ("gaussian", 3.5), ("laplace", 2.25)])
def test_the_sampler_of_canonne_kamath_and_steinke_agrees(law, scale):
    """Two-sample chi-square over 20 000 draws of the textbook sampler; false alarm 1e-9."""
    uniform = random.Random(5).randrange
    ratio = Fraction(scale)
    if law == "gaussian":
        textbook = discrete_noise.canonne_kamath_steinke(ratio, uniform)
        theirs = np.array([next(textbook) for _ in range(20_000)])
    else:
        theirs = np.array([discrete_noise.discrete_laplace(ratio, uniform) for _ in range(20_000)])
    ours = drawn(law, scale, 1 << 18, seed=bytes([10] * 32))

    edge = int(4 * scale)
    table = [np.bincount(np.clip(x, -edge, edge) + edge, minlength=2 * edge + 1) for x in (theirs, ours)]

    assert stats.chi2_contingency([row + 0 for row in table])[1] > 1e-9


def test_noise_is_added_in_place_and_saturates():
    array = np.arange(-3, 4, dtype=np.int64)
    noise = drawn("gaussian", 5, 7)
    fd.testing.seeded(SEED).add_discrete_gaussian_(array, scale=5)
    assert array.tolist() == (np.arange(-3, 4) + noise).tolist()

    short = np.array([2**31 - 1, -(2**31)] * 50, np.int32)
    fd.testing.seeded(SEED).add_discrete_laplace_(short, scale=1e6)
    assert {2**31 - 1, -(2**31)} < set(short.tolist())

    full = np.array([2**63 - 1, -(2**63)] * 50)
    fd.testing.seeded(SEED).add_discrete_gaussian_(full, scale=2**57)
    assert (full[::2] > 0).all()
    assert (full[1::2] < 0).all()


@pytest.mark.parametrize("scale", [1.5, 1e4, 1e13])
def test_threads_and_shapes_do_not_change_a_bit(scale):
    expected = drawn("gaussian", scale, 100_003)

    for threads in (1, 2, 7):
        again = fd.testing.seeded(SEED).discrete_gaussian((100_003, 1), scale=scale, threads=threads)
        assert np.array_equal(again.ravel(), expected)
    assert np.array_equal(drawn("gaussian", scale, 70_000), expected[:70_000])


def test_small_scales_give_zeros_without_delay():
    assert not drawn("gaussian", Fraction(1, 100), 1 << 20).any()
    assert not drawn("laplace", Fraction(1, 100), 1 << 20).any()


def test_empty_and_scalar_shapes():
    source = fd.NoiseSource()

    assert source.discrete_gaussian(0, scale=1).shape == (0,)
    assert source.discrete_laplace((), scale=1).shape == ()
    assert source.discrete_laplace((2, 0, 3), scale=1).shape == (2, 0, 3)


@pytest.mark.parametrize(
    ("scale", "error"),
    [
        (0, InvalidParameter),
        (-1.0, InvalidParameter),
        (0.0099, InvalidParameter),
        (2.0**57 * 1.01, InvalidParameter),
        (math.nan, InvalidParameter),
        (math.inf, InvalidParameter),
        (Fraction(10**30, 10**30 - 1), InvalidParameter),
        ("1", InvalidType),
        (True, InvalidType),
        (None, InvalidType),
        (np.array([1.0]), InvalidType),
    ],
)
def test_scales_out_of_range_are_refused_by_name(scale, error):
    for call in (fd.NoiseSource().discrete_gaussian, fd.NoiseSource().discrete_laplace):
        with pytest.raises(error, match="scale"):
            call(3, scale=scale)


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (np.zeros(3), InvalidArrayType),
        (np.zeros(3, np.uint64), InvalidArrayType),
        (np.zeros(3, np.int16), InvalidArrayType),
        ([1, 2], InvalidArrayType),
        (np.zeros(6, np.int64)[::2], InvalidArray),
        (np.broadcast_to(np.int64(1), 3), InvalidArray),
        (np.zeros(3, ">i8"), (InvalidArray, InvalidArrayType)),
    ],
)
def test_arrays_that_cannot_take_noise_are_refused(array, error):
    before = np.array(array, copy=True)
    with pytest.raises(error, match="array"):
        fd.NoiseSource().add_discrete_gaussian_(array, scale=1)
    assert np.array_equal(before, np.array(array))


def test_draws_beyond_int64_are_as_rare_as_stated():
    """At the largest scale: P = q^N exactly for Laplace noise, q = e^(−1/b), and a union bound for Gaussian noise."""
    scale, first = 2**57, 2**63  # too large from 2⁶³ on, too small from −2⁶³ − 1 on
    with mp.workdps(60):
        q = mp.exp(-mp.mpf(1) / scale)
        laplace = (q**first + q ** (first + 1)) / (1 + q)
        # n² ≥ nN beyond N, and the weights sum to at least 1
        slope = mp.mpf(first) / (2 * mp.mpf(scale) ** 2)
        gaussian = 2 * mp.exp(-slope * first) / (1 - mp.exp(-slope))

        assert abs(mp.log(laplace) + 64) < mp.mpf(10) ** -40
        assert mp.log(gaussian) < -2000
