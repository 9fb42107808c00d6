"""The production path, bit by bit, against the definition as `tests/reference/rounded_noise.py` evaluates it."""

import hashlib
import math

import numpy as np
import pytest

import ferrodp as fd
from reference import keystream, rounded_noise

LAWS = {"gaussian": "standard_deviation", "laplace": "scale"}
DTYPES = [np.float32, np.float64]


def seed_of(name: str) -> bytes:
    """Seeds are names: whoever wants another seed must say so in the name."""
    return hashlib.sha256(name.encode()).digest()


def add(source, law, array, scale, granularity=None, threads=None):
    keywords = {LAWS[law]: scale, "granularity": granularity, "threads": threads}
    getattr(source, f"add_{law}_")(array, **keywords)


def draw(source, law, size, scale, **keywords):
    return getattr(source, law)(size, **{LAWS[law]: scale}, **keywords)


def bits(array):
    return array.view({4: np.uint32, 8: np.uint64}[array.dtype.itemsize])


def assert_same_bits(expected, found):
    assert expected.dtype == found.dtype
    assert expected.shape == found.shape
    different = np.flatnonzero(bits(expected.ravel()) != bits(found.ravel()))
    assert different.size == 0, f"at {different[:5]}: {expected.ravel()[different[:5]]}, {found.ravel()[different[:5]]}"


def hard_values(dtype, scale, granularity):
    """Values whose split into whole grid steps and a fraction is delicate, finite or not."""
    limits = np.finfo(dtype)
    half = granularity / 2
    special = [0.0, -0.0, math.nan, math.inf, -math.inf, limits.max, -limits.max, limits.smallest_subnormal]
    special += [-limits.smallest_subnormal, limits.tiny, limits.tiny / 2, -limits.tiny / 4]
    grid = [half, -half, 3 * half, 2 * half, -5 * half, 1e6 * half, (2.0**23 + 1) * half, (2.0**52 + 1) * half]
    around = [math.nextafter(half, 0), math.nextafter(half, 1), math.nextafter(-half, 0), half / 3, 1e-3 * half]
    large = [scale * 2.0**k for k in (10, 20, 23, 24, 25, 30, 52, 53, 54, 60)] + [1e9 * scale + half]
    with np.errstate(over="ignore", under="ignore"):
        return np.array([*special, *grid, *around, *large, *(-x for x in large)], dtype=np.float64).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("law", LAWS)
def test_noise_on_the_default_grid_is_the_references(law, dtype):
    """A thousand samples over several scales: with 32-bit and with 64-bit words, and calls one after the other."""
    seed = seed_of(f"default grid {law} {np.dtype(dtype)}")
    source = fd.testing.seeded(seed)
    for call, scale in enumerate([1.0, 1.9999, 3.7e-5, 1.3e12, math.nextafter(2.0, 1.0), 0.1]):
        expected = rounded_noise.add_noise(keystream.call_key(seed, call), law, np.zeros(170, dtype), scale)

        found = draw(source, law, 170, scale, dtype=dtype)

        assert_same_bits(expected, found)


@pytest.mark.parametrize("dtype", DTYPES)
def test_noise_on_the_finest_grid_of_short_words_is_the_references(dtype):
    """There the bits that a word of 32 leaves open matter most: no vector may take its middle for all of it."""
    seed = seed_of("default grid gaussian float32")
    source = fd.testing.seeded(seed)
    for call, scale in enumerate([1.0, 1.9999, 3.7e-5, 1.3e12, math.nextafter(2.0, 1.0), 0.1]):
        granularity = math.ldexp(1.0, math.frexp(scale)[1] - 1 - 20)
        expected = rounded_noise.add_noise(
            keystream.call_key(seed, call), "gaussian", np.zeros(170, dtype), scale, granularity
        )

        found = draw(source, "gaussian", 170, scale, granularity=granularity, dtype=dtype)

        assert_same_bits(expected, found)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("log2_ratio", [-3, 0, 7, 20, 21, 32, 43])
@pytest.mark.parametrize("law", LAWS)
def test_hard_values_are_rounded_as_the_reference_does(law, log2_ratio, dtype):
    """Subnormal, huge, half-integral, non-finite values on the finest and coarsest grids there are."""
    seed = seed_of(f"hard values {law} {log2_ratio} {np.dtype(dtype)}")
    scale = 1.618
    granularity = 2.0**-log2_ratio
    values = hard_values(dtype, scale, granularity)
    expected = rounded_noise.add_noise(keystream.call_key(seed, 0), law, values, scale, granularity)

    found = values.copy()
    add(fd.testing.seeded(seed), law, found, scale, granularity)

    assert_same_bits(expected, found)


@pytest.mark.parametrize("scale", [1.5 * 2.0**-890, 2.0**-800, 1e-40, 1e30, 2.0**900])
@pytest.mark.parametrize("dtype", DTYPES)
def test_scales_at_the_ends_of_the_range_are_rounded_as_the_reference_does(dtype, scale):
    """Grids near 2^±900, where steps, sums and products come close to overflow and underflow; float32 clamps."""
    for law in LAWS:
        seed = seed_of(f"range {law} {scale} {np.dtype(dtype)}")
        granularity = 2.0 ** (math.frexp(scale)[1] - 9)
        values = hard_values(dtype, min(scale, 1e200), granularity)
        expected = rounded_noise.add_noise(keystream.call_key(seed, 0), law, values, scale, granularity)

        found = values.copy()
        add(fd.testing.seeded(seed), law, found, scale, granularity)

        assert_same_bits(expected, found)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 17, 31, 33])
def test_every_length_around_the_lanes_is_the_start_of_one_stream(length):
    """Sample i owns word i, so a shorter call is the beginning of a longer one."""
    for law in LAWS:
        for dtype in DTYPES:
            expected = draw(fd.testing.seeded(bytes(32)), law, 4000, 1.1, dtype=dtype)

            found = draw(fd.testing.seeded(bytes(32)), law, length, 1.1, dtype=dtype)

            assert_same_bits(expected[:length], found)


@pytest.mark.parametrize("length", [1023, 1024, 1025, 32767, 32768, 32769, 1 << 17])
def test_samples_at_the_seams_of_blocks_are_the_references(length):
    """The samples on both sides of every power of two, and the last one, each recomputed from its own address."""
    indices = sorted({i + d for i in (16, 1024, 1 << 15, 1 << 16, 1 << 17) for d in (-2, -1, 0, 1)} | {length - 1})
    for law in LAWS:
        for dtype in DTYPES:
            key = keystream.call_key(bytes(32), 0)
            scale = rounded_noise.Fraction(2.5)
            grid = rounded_noise.default_granularity(law, scale, np.dtype(dtype))

            found = draw(fd.testing.seeded(bytes(32)), law, length, 2.5, dtype=dtype)

            for i in indices:
                if i < length:
                    total = rounded_noise.sample(key, i, law, 0.0, scale, grid)
                    assert rounded_noise.output(total, grid, dtype) == found[i], (law, dtype, i)


@pytest.mark.parametrize("granularity", [None, 2.0**-20])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("law", LAWS)
def test_the_farthest_draws_of_a_long_call_are_the_references(law, dtype, granularity):
    """Small p is for the later stages, with extension bits addressed by the sample: here in every block of the call.

    On the default grid few samples need such bits, on the finest one of short words nearly all.
    """
    key = keystream.call_key(bytes(32), 0)
    scale = rounded_noise.Fraction(1.1)
    default = rounded_noise.default_granularity(law, scale, np.dtype(dtype))
    grid = default if granularity is None else rounded_noise.Fraction(granularity)

    found = draw(fd.testing.seeded(bytes(32)), law, 100_000, 1.1, dtype=dtype, granularity=granularity)

    for block in np.array_split(np.arange(found.size), 10):
        for i in block[np.argsort(abs(found[block]))[-10:]].tolist():
            total = rounded_noise.sample(key, i, law, 0.0, scale, grid)
            assert rounded_noise.output(total, grid, dtype) == found[i], i


@pytest.mark.parametrize("threads", [2, 7, 64])
def test_threads_change_no_bit(threads):
    for law in LAWS:
        for dtype in DTYPES:
            expected = draw(fd.testing.seeded(bytes(32)), law, 300_001, 1.0, dtype=dtype, threads=1)

            found = draw(fd.testing.seeded(bytes(32)), law, 300_001, 1.0, dtype=dtype, threads=threads)

            assert_same_bits(expected, found)


@pytest.mark.parametrize("law", LAWS)
def test_filling_is_adding_to_zeros(law):
    for shape in [(), (0,), (3, 0, 2), (5, 7), (1,) * 64]:
        expected = np.zeros(shape, np.float32)
        add(fd.testing.seeded(bytes(32)), law, expected, 3.0)

        found = draw(fd.testing.seeded(bytes(32)), law, shape, 3.0, dtype=np.float32)

        assert_same_bits(expected, found)


def test_a_matrix_is_noised_in_c_order():
    flat = fd.testing.seeded(bytes(32)).gaussian(600, standard_deviation=1.0)

    assert_same_bits(flat.reshape(20, 30), fd.testing.seeded(bytes(32)).gaussian((20, 30), standard_deviation=1.0))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_counts_as_zero(bad):
    for law in LAWS:
        for dtype in DTYPES:
            for place in (0, 5, 8, 20, 2998, 2999, 3000):
                expected = np.ones(3001, dtype)
                expected[place] = 0
                found = np.ones(3001, dtype)
                found[place] = bad

                add(fd.testing.seeded(bytes(32)), law, expected, 0.5)
                add(fd.testing.seeded(bytes(32)), law, found, 0.5)

                assert_same_bits(expected, found)


def test_no_zero_has_a_sign():
    """A scale of an eighth of a step leaves nearly all values at zero, from both sides."""
    for law in LAWS:
        for dtype in DTYPES:
            values = np.resize(np.array([0.0, -0.0, 0.2, -0.2, -1e-30], dtype), 5000)

            add(fd.testing.seeded(bytes(32)), law, values, 0.125, 1.0)

            zeros = values[values == 0]
            assert zeros.size > 4000
            assert not np.signbit(zeros).any()


def test_overflow_stops_at_the_largest_finite_number():
    for law in LAWS:
        for dtype in DTYPES:
            limit = np.finfo(dtype).max
            values = np.full(1000, limit, dtype)
            scale = float(limit) / 64 if dtype == np.float32 else 2.0**900

            add(fd.testing.seeded(bytes(32)), law, values, scale)

            assert np.isfinite(values).all()
            assert (values == limit).any()
