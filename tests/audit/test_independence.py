"""The test of independence: exact p-values, what it finds, and how rarely it is wrong."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.audit import audit_independence
from ferrodp.audit.independence import _properties, _repeats, _tables

RUNS = 40


@pytest.mark.parametrize(("total", "first", "second"), [(12, 5, 7), (40, 20, 20), (60, 3, 50), (200, 100, 90)])
def test_tails_are_never_below_the_hypergeometric_ones_and_near_them_where_they_are_small(total, first, second):
    for both in range(max(0, first + second - total), min(first, second) + 1):
        exact = Fraction(
            sum(comb(first, k) * comb(total - first, second - k) for k in range(both, min(first, second) + 1)),
            comb(total, second),
        )
        found = _tables.tail(both, total, first, second)

        assert exact <= Fraction(found) or (found == 1.0 and exact <= 1)
        assert found <= 2.0 * float(exact) or exact > Fraction(1, 50)


def test_a_count_beyond_all_is_impossible_and_one_that_is_certain_says_nothing():
    assert _tables.tail(6, 10, 5, 7) == 0.0
    assert _tables.tail(2, 10, 5, 7) == 1.0
    assert _tables.tail(0, 10, 0, 7) == 1.0
    assert _tables.tail(0, 0, 0, 0) == 1.0


@pytest.mark.parametrize("lag", [1, 2, 3, 7, 63, 64, 65, 100, 128, 400])
@pytest.mark.parametrize("counts", ["new", "old"])
def test_tables_of_packed_bits_are_those_of_the_elements(lag, counts, monkeypatch):
    if counts == "old":
        monkeypatch.setattr(_tables, "_COUNT", None)
    holds = np.random.default_rng(lag).random(1003) < 0.3
    bits = _tables.packed(holds)
    used = np.zeros(holds.size)
    for choice in (0, 1):
        begins = [i for i in range(holds.size - lag) if i // lag % 2 == choice]
        found = _tables.table(bits, _tables.later(bits, lag), _tables.pairs(holds.size, lag)[choice])
        both = sum(bool(holds[i] and holds[i + lag]) for i in begins)
        used[:] = 0.0
        np.add.at(used, begins, 1)
        np.add.at(used, [i + lag for i in begins], 1)

        assert used.max() <= 1  # no element is in two pairs
        assert found == (len(begins), int(holds[begins].sum()), int(holds[[i + lag for i in begins]].sum()), both)


def test_a_stretch_that_occurs_again_is_found_wherever_it_is():
    rng = np.random.default_rng(3)
    x = rng.integers(1000, size=5000)

    assert _repeats.repeated(x, 8) is None
    x[4321:4329] = x[17:25]
    assert _repeats.repeated(x, 8) == (17, 4321)
    assert _repeats.repeated(np.zeros(15), 8) is None  # no two stretches without a common element
    assert _repeats.repeated(np.zeros(5000), 8) is not None


def test_stretches_are_so_long_that_chance_does_not_repeat_them():
    """Bits: two stretches of k are equal with probability 2^-k."""
    assert _repeats.length_for(1 << 20, 0.5, 1e-6) == 64
    assert (1 << 39) * 0.5**64 < 1e-6
    assert _repeats.length_for(1 << 20, 1.0, 1e-6) == 1 << 20
    assert _repeats.length_for(1 << 20, 1e-5, 1e-6) == 4


@pytest.mark.parametrize("law", ["bits", "integers", "floats"])
def test_false_alarms_are_as_rare_as_stated(law):
    """At confidence 90 %: 17 or more of 40 runs are wrong with probability below 1e-7 if each is with 10 %."""
    rng = np.random.default_rng(4)
    draws = {
        "bits": lambda n: rng.integers(2, size=n),
        "integers": lambda n: rng.geometric(0.3, size=n) - 3,
        "floats": lambda n: np.round(rng.normal(size=n) * 64).astype(np.float32) / 64,
    }

    assert sum(audit_independence(draws[law], draws=1024, confidence=0.9).violation for _ in range(RUNS)) <= 16


SOURCE = fd.NoiseSource()


def noise(n):
    return SOURCE.gaussian(n, standard_deviation=1.0)


def half_shared(n):
    """Of 16 outputs, two have the noise of the two before."""
    x = noise(n)
    whole = x[: n // 16 * 16].reshape(-1, 16)
    whole[:, 2:4] = whole[:, :2]
    return x


def same_size(n):
    """Pairs far apart have noise of one size, and signs of their own."""
    x = noise(n)
    x[n // 2 :] = np.copysign(x[: n - n // 2], x[n // 2 :])
    return x


def same_last_digits(n):
    x = SOURCE.discrete_gaussian(n, scale=2.0**20)
    x[1::2] = x[1::2] - x[1::2] % 16 + x[: n // 2 * 2 : 2] % 16
    return x


def drifting(n):
    """The variance of neighbors rises and falls together."""
    return noise(n) * (1.0 + 0.4 * np.sin(np.arange(n) / 5.0))


KEPT = noise(300_000)


@pytest.mark.parametrize(
    ("release", "said"),
    [
        (lambda n: np.resize(noise(n // 3), n), "are those from"),
        (lambda n: -np.resize(noise(n // 2), n) if n % 2 else np.concatenate([noise(n // 2)] * 2), "are those from"),
        (half_shared, "2 apart"),
        (same_size, "distance from the median"),
        (same_last_digits, "digit of 2^"),
        (drifting, "apart"),
        (lambda n: KEPT[:n], "same places"),
        (lambda n: np.repeat(noise(n // 2), 2) * np.tile([1.0, -1.0], n // 2), "opposite"),
    ],
)
def test_noise_that_is_used_twice_is_found(release, said):
    report = audit_independence(release, draws=1 << 17, confidence=1.0 - 1e-9)

    assert report.violation
    assert any(said in each for each in report.findings)
    assert "NOT INDEPENDENT" in str(report)


def test_an_alarm_needs_the_confidence_that_was_asked_for():
    """Neighbors have a correlation of 5 %: not enough for 15 digits."""
    rng = np.random.default_rng(9)

    def release(n):
        x = rng.normal(size=n + 1)
        return x[1:] + 0.05 * x[:-1]

    usual = audit_independence(release, draws=1 << 15, confidence=0.999)
    strict = audit_independence(release, draws=1 << 15, confidence=1.0 - 1e-15)

    assert usual.violation == (usual.p_value <= 5e-4)
    assert not strict.violation


@pytest.mark.parametrize(
    ("release", "error"),
    [
        (lambda n: np.zeros(n - 1), fd.errors.InvalidArray),
        (lambda n: ["a"] * n, fd.errors.InvalidArray),
        (lambda n: np.full(n, np.nan), fd.errors.InvalidArray),
    ],
)
def test_outputs_that_are_no_numbers_are_refused(release, error):
    with pytest.raises(error):
        audit_independence(release, draws=2048)


@pytest.mark.parametrize("wrong", [{"draws": 1000}, {"draws": 1.5}, {"confidence": 1.0}, {"confidence": 0.2}])
def test_parameters_outside_their_domain_are_refused(wrong):
    with pytest.raises((fd.errors.InvalidParameter, fd.errors.InvalidType)):
        audit_independence(noise, **{"draws": 2048, **wrong})


def test_constant_outputs_have_no_properties_and_no_verdict():
    assert not audit_independence(np.zeros, draws=1024).violation
    assert _properties.properties(np.zeros(100)) == []
