"""The given test values against the reference, and the keystream of the reference against the native one."""

from fractions import Fraction

import mpmath
import pytest
from mpmath import mp, mpf

import ferrodp as fd
from ferrodp import _native
from ferrodp.accounting.curves import gaussian_standard_deviation
from reference import aes, keystream, rounded_noise
from support import vectors
from vectors import generate_decisions, generate_samplers, verify_decisions, verify_samplers

VECTORS = {entry["id"]: entry for entry in vectors.samplers()}


def entries(prefix: str) -> list[str]:
    found = [name for name in VECTORS if name.startswith(prefix)]
    assert found
    return found


def assert_relative(expected: str, found: mpf, relative: str) -> None:
    with mp.workdps(60):
        assert abs(found / mpf(expected) - 1) <= mpf(relative)


def test_the_reference_encrypts_the_block_of_fips_197():
    vector = VECTORS["aes256-fips197"]
    key, plaintext = (bytes.fromhex(vector["inputs"][name]) for name in ("key_hex", "plaintext_hex"))

    assert vector["expected"] == aes.encrypt_block(key, plaintext).hex()


def test_the_reference_gives_the_keystream_of_sp_800_38a():
    vector = VECTORS["aes256-ctr-sp800-38a"]
    key = bytes.fromhex(vector["inputs"]["key_hex"])
    counter = int(vector["inputs"]["counter_block_hex"], 16)
    stream, first = divmod(counter, 2**64)
    blocks = [keystream.block(key, stream, first + i) for i in range(4)]

    assert vector["expected"]["keystream_hex"] == b"".join(blocks).hex()


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 255, 256, 257, 4096 + 5])
def test_native_bytes_are_the_references_keystream(length):
    key = bytes(range(32))
    expected = b"".join(keystream.block(key, 0, i) for i in range(-(-length // 16)))[:length]

    assert expected == _native.random_bytes(length, key)


def test_a_seeded_source_keys_its_calls_as_the_reference_does():
    seed = bytes(range(100, 132))
    source = fd.testing.seeded(seed)
    for call in range(5):
        assert keystream.block(keystream.call_key(seed, call), 0, 0) == source.bytes(16)
    for call in (2**32, 2**62, 2**63 - 1):
        assert keystream.call_key(seed, call) == _native.derive_key(seed, call)


@pytest.mark.parametrize("name", entries("probit-"))
def test_the_references_tail_is_inverted_by_the_given_probits(name):
    """The tail falls, so p lies between its values a little to the left and to the right of the given quantile."""
    p = Fraction(VECTORS[name]["inputs"]["p"])
    z = -Fraction(VECTORS[name]["expected"])
    slack = Fraction(VECTORS[name]["tolerance"]["rel"])
    above, below = (rounded_noise.tail("gaussian", z * (1 + side * slack), 200) for side in (-1, 1))

    with mp.workprec(400):
        exact = mpf(p.numerator) / p.denominator
        assert below[1] < exact < above[0]


@pytest.mark.parametrize("name", entries("bern-exp-"))
def test_the_references_exponential_has_the_given_digits(name):
    vector = VECTORS[name]
    low, high = rounded_noise.tail("laplace", Fraction(vector["inputs"]["x"]), 200)

    with mp.workprec(300):
        assert int(vector["expected"]["u128"]) == mpmath.floor(low * 2**129) == mpmath.floor(high * 2**129)


@pytest.mark.parametrize("name", entries("rgauss-pmf-"))
def test_the_reference_has_the_given_probabilities(name):
    inputs, expected = VECTORS[name]["inputs"], VECTORS[name]["expected"]
    with mp.workdps(50):
        found = rounded_noise.probability("gaussian", inputs["x"], Fraction(0), Fraction(inputs["sigma"]))

        assert_relative(expected, found, VECTORS[name]["tolerance"]["rel"])


@pytest.mark.parametrize("name", entries("rgauss-var-"))
def test_the_reference_has_the_given_variances(name):
    """The sum of n² P[N = n] up to 14 standard deviations, beyond which less than 1e-40 is left."""
    sigma = Fraction(VECTORS[name]["inputs"]["sigma"])
    with mp.workdps(50):
        terms = (
            n * n * rounded_noise.probability("gaussian", n, Fraction(0), sigma) for n in range(1, int(14 * sigma) + 2)
        )

        assert_relative(VECTORS[name]["expected"], 2 * mpmath.fsum(terms), VECTORS[name]["tolerance"]["rel"])


def test_the_given_values_are_what_their_generator_writes():
    """If not: `python tests/vectors/generate_samplers.py`."""
    assert generate_samplers.PATH.read_text(encoding="utf-8") == generate_samplers.written()


@vectors.each(vectors.samplers())
def test_the_given_values_are_right_by_another_road(vector):
    verify_samplers.verify(vector)


@vectors.each(vectors.samplers("agm-sigma-"))
def test_the_least_noise_of_the_library_is_the_given_one_rounded_up(vector):
    inputs, exact = vector["inputs"], mpf(vector["expected"])
    found = gaussian_standard_deviation(epsilon=inputs["eps"], delta=inputs["delta"], l2_sensitivity=1.0)

    assert exact <= mpf(found) <= exact * (1 + mpf(10) ** -12)


def test_the_hard_decisions_are_what_their_generator_writes():
    """If not: `python tests/vectors/generate_decisions.py`."""
    written = generate_decisions.PATH.read_text().splitlines()

    assert written == list(generate_decisions.lines())


def test_the_hard_decisions_are_right_by_integers_alone():
    for line in verify_decisions.PATH.read_text().splitlines()[1:]:
        verify_decisions.verify(line)
