"""Discrete noise in fixed time: the stated law, from the documented bits, for the documented scales."""

import hashlib
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy import stats

import ferrodp as fd
from ferrodp.errors import InvalidArrayType, InvalidParameter
from reference import fixed_time_noise, keystream

SEED = hashlib.sha256(b"fixed time").digest()
DRAWS = 1 << 18


def draw(law, count, scale, **options):
    return getattr(fd.testing.seeded(SEED), f"discrete_{law}")(count, scale=scale, fixed_time=True, **options)


@pytest.mark.parametrize(
    ("law", "scale"),
    [
        *(("gaussian", scale) for scale in (0.01, 0.5, 1, Fraction(10, 3), 17.25, 64)),
        *(("laplace", scale) for scale in (0.01, 0.5, 1, Fraction(10, 3), 1e4, 2.0**50)),
    ],
)
def test_every_sample_is_that_of_the_reference(law, scale):
    key = keystream.call_key(SEED, 0)
    found = draw(law, 25, scale)
    expected = [getattr(fixed_time_noise, law)(key, index, Fraction(scale)) for index in range(25)]
    assert found.tolist() == expected


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("scale", [0.4, 1.0, 3.7, 20.0, 64.0])
def test_frequencies_are_those_of_the_law(law, scale):
    """Chi-square over single integers, both signs; a false alarm once in 10^9 fresh seeds."""
    found = draw(law, DRAWS, scale)
    reach = np.arange(-int(20 * scale) - 40, int(20 * scale) + 41)
    rate = 1 / (2 * mpf(scale) ** 2) if law == "gaussian" else 1 / mpf(scale)
    weights = np.array([float(mpmath.exp(-rate * (int(x) ** 2 if law == "gaussian" else abs(int(x))))) for x in reach])
    due = DRAWS * weights / weights.sum()
    frequent = due >= 10
    counts = np.array([np.count_nonzero(found == x) for x in reach[frequent]])
    observed, expected = [*counts, DRAWS - counts.sum()], [*due[frequent], DRAWS - due[frequent].sum()]
    if expected[-1] < 1:
        observed[-2:], expected[-2:] = [sum(observed[-2:])], [sum(expected[-2:])]
    assert stats.chisquare(observed, expected, sum_check=False).pvalue > 1e-9


def test_noise_is_added_to_what_is_there_and_cut_to_its_range():
    for law in ("gaussian", "laplace"):
        noise = draw(law, 1000, 5.0)
        for dtype in (np.int32, np.int64):
            for start in (0, 17, np.iinfo(dtype).max, np.iinfo(dtype).min):
                values = np.full(1000, start, dtype)
                source = fd.testing.seeded(SEED)
                getattr(source, f"add_discrete_{law}_")(values, scale=5.0, fixed_time=True, threads=3)
                limits = np.iinfo(dtype)
                assert [int(x) for x in values] == [min(max(start + int(x), limits.min), limits.max) for x in noise]


@pytest.mark.parametrize(
    ("law", "scale", "match"),
    [
        ("gaussian", 64.00001, r"at most 64 for discrete Gaussian noise with fixed_time=True"),
        ("gaussian", 1e9, "at most 64"),
        ("laplace", 2.0**50 * 1.5, r"at most 2\^50 for discrete Laplace noise with fixed_time=True"),
        ("laplace", 0.001, r"from 0.01"),
    ],
)
def test_scales_without_fixed_time_are_refused_before_anything_is_drawn(law, scale, match):
    source = fd.testing.seeded(SEED)
    with pytest.raises(InvalidParameter, match=match):
        getattr(source, f"discrete_{law}")(3, scale=scale, fixed_time=True)
    with pytest.raises(InvalidParameter, match="fixed_time"):
        getattr(source, f"discrete_{law}")(3, scale=1.0, fixed_time=1)
    with pytest.raises(InvalidArrayType):
        getattr(source, f"add_discrete_{law}_")(np.zeros(3), scale=1.0, fixed_time=True)
    assert source._calls == 0
