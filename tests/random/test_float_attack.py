"""Low-order bits tell nothing: the attack on floating-point noise finds nothing to hold on to.

The attack is Mironov's ("On significance of the least significant bits for differential privacy", CCS 2012):
`v + noise` in floats reaches a set of numbers that depends on `v`, and one such number tells inputs apart for certain.
A release here is an integer times a step that is fixed before any data is seen, and every residue of that integer is
equally likely whatever the input is. All draws are seeded, so each test passes or fails for ever.
"""

import hashlib
import math

import numpy as np
import pytest
from scipy import stats

import ferrodp as fd

DRAWS = 1 << 16
CLASSES = 256
# Of each chi-square below; some 200 of them make 2e-7 for the whole file, had the seeds been fresh.
FALSE_ALARM = 1e-9

PAIRS = {
    "zero and one": (0.0, 1.0),
    "around a power of two": (math.nextafter(2.0, 0), 2.0),
    "around the next": (4.0, math.nextafter(4.0, 5)),
    "opposite signs": (-0.3, 0.7),
    "tiny and zero": (5e-324, 0.0),
    "much larger than the noise": (1e6, 1e6 + 1),
    "generic": (0.1234567890123, 0.9876543210987),
    "not finite and zero": (math.nan, 0.0),
}
LAWS = {"gaussian": "standard_deviation", "laplace": "scale"}


def releases(law, value, dtype, scale, name):
    values = np.full(DRAWS, value, dtype)
    source = fd.testing.seeded(hashlib.sha256(f"float attack {name}".encode()).digest())
    getattr(source, f"add_{law}_")(values, **{LAWS[law]: scale})
    return values


def step_of(scale, dtype):
    return 2.0 ** (math.frexp(scale)[1] - 1 - (20 if dtype == np.float32 else 32))


def residues(values, step):
    """Count the integers that the values are multiples of, by residue class."""
    return np.bincount((values.astype(np.float64) / step).astype(np.int64) % CLASSES, minlength=CLASSES)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("pair", PAIRS)
def test_every_release_is_an_integer_times_a_step_that_data_cannot_move(pair, law, dtype):
    for value in PAIRS[pair]:
        for scale in (1.0, 0.75, 1e-3, 12345.678):
            values = releases(law, value, dtype, scale, f"grid {pair} {law} {scale}").astype(np.float64)

            assert (values / step_of(scale, dtype) % 1 == 0).all()  # exact: a division by a power of two


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("pair", PAIRS)
def test_every_residue_of_a_release_is_equally_likely_whatever_the_input(pair, law):
    """By Poisson summation the residues are uniform up to 1e-15, far less than 2^16 draws could show."""
    for side, value in enumerate(PAIRS[pair]):
        values = releases(law, value, np.float64, 1.5, f"residues {pair} {law} {side}")

        counts = residues(values, step_of(1.5, np.float64))

        assert counts.min() > 0
        assert stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize("law", LAWS)
def test_residues_in_single_precision_are_uniform_while_it_holds_all_bits(law):
    """On a grid of 2^-12, integers below 2^24 are 4096 scales: no release here was rounded twice."""
    for value in (0.0, 1.0, 0.3, 7.0000005):
        array = np.full(DRAWS, value, np.float32)
        source = fd.testing.seeded(hashlib.sha256(f"float attack single {law} {value}".encode()).digest())

        getattr(source, f"add_{law}_")(array, **{LAWS[law]: 1.0}, granularity=2.0**-12)

        # Uniform up to (256/2π4096)² = 1e-4 (Laplace), a hundredth of what 2^16 draws in 256 classes could show.
        assert stats.chisquare(residues(array, 2.0**-12)).pvalue > FALSE_ALARM


def test_the_attack_works_on_noise_added_in_floats():
    """What the tests above would see: sums of floats whose low-order bits depend on the input."""
    noise = fd.testing.seeded(bytes(32)).gaussian(DRAWS, standard_deviation=1.0, granularity=2.0**-40)
    # The textbook mistake: divide, so that the noise fills all 53 bits, and add.
    step = 2.0**-60
    naive = {value: residues_of_floats(value + noise / 3, step) for value in (0.0, 1.0)}

    assert stats.chisquare(naive[1.0]).pvalue < FALSE_ALARM
    assert np.count_nonzero(naive[1.0]) < np.count_nonzero(naive[0.0])


def residues_of_floats(values, step):
    small = values[np.abs(values) < 2.0**-4]  # so that the quotient is exact and fits 64 bits
    return np.bincount((small / step).astype(np.int64) % CLASSES, minlength=CLASSES)
