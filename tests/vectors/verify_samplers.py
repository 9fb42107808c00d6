"""Check `samplers.json` by other roads than `generate_samplers.py`: definitions, integrals and integers.

Run as ``python tests/vectors/verify_samplers.py``, a few seconds. Each value is compared within its stated tolerance.
"""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
from mpmath import mp, mpf

sys.path.insert(0, str(Path(__file__).parents[1]))

from reference import aes
from vectors.verify_decisions import exponential

PATH = Path(__file__).with_name("samplers.json")
DIGITS = 50
Vector = dict[str, Any]


def number(value: object) -> mpf:
    """Return a float or a fraction as it is."""
    ratio = Fraction(value)  # type: ignore[arg-type]
    return mpf(ratio.numerator) / ratio.denominator


def ciphers(vector: Vector) -> None:
    """By the cipher written down from FIPS 197 in `tests/reference/aes.py`."""
    inputs, expected = vector["inputs"], vector["expected"]
    key, plain = (bytes.fromhex(inputs[name]) for name in ("key_hex", "plaintext_hex"))
    if "counter_block_hex" not in inputs:
        assert expected == aes.encrypt_block(key, plain).hex()
        return
    counter = int(inputs["counter_block_hex"], 16)
    blocks = [aes.encrypt_block(key, (counter + i).to_bytes(16, "big")) for i in range(len(plain) // 16)]
    stream = b"".join(blocks)
    assert expected["keystream_hex"] == stream.hex()
    assert expected["ciphertext_hex"] == bytes(a ^ b for a, b in zip(plain, stream, strict=True)).hex()


def weights(sigma: mpf, reach: int) -> dict[int, mpf]:
    found = {x: mpmath.exp(-mpf(x * x) / (2 * sigma**2)) for x in range(-reach, reach + 1)}
    total = mpmath.fsum(found.values())
    return {x: weight / total for x, weight in found.items()}


def gaussian_variance(vector: Vector) -> mpf:
    """By its definition; where that has too many terms, σ², which it is to within e^(−2π²σ²)·8π²σ⁴."""
    sigma = number(vector["inputs"]["sigma_exact"])
    if sigma > 1000:
        return sigma**2
    law = weights(sigma, int(18 * sigma) + 20)
    return mpmath.fsum(x * x * p for x, p in law.items())


def gaussian_divergence(vector: Vector) -> mpf:
    """By its definition, ln Σ P^α·Q^(1 − α)/(α − 1); the sum lives around αμ."""
    inputs = vector["inputs"]
    sigma, order, mu = number(inputs["sigma"]), number(inputs["alpha"]), inputs["mu"]
    center, reach = int(order * mu), int(18 * sigma) + 20
    exponents = (
        -(order * mpf(x - mu) ** 2 + (1 - order) * mpf(x) ** 2) / (2 * sigma**2)
        for x in range(center - reach, center + reach + 1)
    )
    norm = mpmath.fsum(mpmath.exp(-mpf(x * x) / (2 * sigma**2)) for x in range(-reach, reach + 1))
    return mpmath.log(mpmath.fsum(map(mpmath.exp, exponents)) / norm) / (order - 1)


def gaussian_delta(vector: Vector) -> mpf:
    """By tails: P[X > t − μ/2] − e^ε·P[X > t + μ/2], t = εσ²/μ (Canonne, Kamath, Steinke, NeurIPS 2020, Theorem 7)."""
    inputs = vector["inputs"]
    sigma, mu, eps = number(inputs["sigma"]), inputs["mu"], number(inputs["eps"])
    law = weights(sigma, int(18 * sigma) + 20)
    threshold = eps * sigma**2 / mu

    def above(t: mpf) -> mpf:
        return mpmath.fsum(p for x, p in law.items() if x > t)

    ratio = sigma / mu
    losses = [ratio * eps - 1 / (2 * ratio), mpmath.inf]
    density = mpmath.quad(
        lambda z: mpmath.npdf(z) * (1 - mpmath.exp(eps - (z / ratio + 1 / (2 * ratio**2)))),
        [losses[0], losses[0] + 2, losses[0] + 6, losses[0] + 14, losses[0] + 30],
    )
    assert abs(density / mpf(inputs["continuous_delta"]) - 1) < mpf(10) ** -30
    return above(threshold - mpf(mu) / 2) - mpmath.exp(eps) * above(threshold + mpf(mu) / 2)


def laplace_variance(vector: Vector) -> mpf:
    """By its definition; for a large scale, twice the variance of a geometric variable of ratio q, q/(1 − q)²."""
    scale = number(vector["inputs"]["scale_exact"])
    if scale < 100:
        law = {x: mpmath.exp(-x / scale) for x in range(int(150 * scale) + 200)}
        return mpmath.fsum(2 * x * x * p for x, p in law.items()) / (2 * mpmath.fsum(law.values()) - 1)
    with mp.workdps(DIGITS + 20):
        q = mpmath.exp(-1 / scale)
        return 2 * q / (1 - q) ** 2


def gaussian_sigma(vector: Vector) -> None:
    """The integral of the hockey stick is δ there, and falls through it."""
    eps, delta = (number(vector["inputs"][name]) for name in ("eps", "delta"))
    relative = mpf(vector["tolerance"]["rel"])

    def at(sigma: mpf) -> mpf:
        start = sigma * eps - 1 / (2 * sigma)
        points = [start + x for x in (0, 1, 3, 7, 15, 31)]
        loss = lambda z: z / sigma + 1 / (2 * sigma**2)  # noqa: E731  # in a formula
        return mpmath.quad(lambda z: -mpmath.npdf(z) * mpmath.expm1(eps - loss(z)), points)

    sigma = mpf(vector["expected"])
    assert at(sigma * (1 + relative)) < delta < at(sigma * (1 - relative))


def quantile(vector: Vector) -> None:
    """By the incomplete gamma function: 2P[Z > |z|] = Γ(½, z²/2)/Γ(½)."""
    p, z = number(vector["inputs"]["p"]), mpf(vector["expected"])
    relative = mpf(vector["tolerance"]["rel"])
    assert z < 0
    ends = [mpmath.gammainc(mpf(1) / 2, (z * (1 + side * relative)) ** 2 / 2, regularized=True) / 2 for side in (1, -1)]
    assert ends[0] < p < ends[1]


def rounded_probability(vector: Vector) -> mpf:
    """By the integral of the density."""
    sigma, x = number(vector["inputs"]["sigma"]), vector["inputs"]["x"]
    ends = [x - mpf(1) / 2, mpf(x), x + mpf(1) / 2]
    return mpmath.quad(lambda t: mpmath.npdf(t, 0, sigma), ends)


def rounded_variance(vector: Vector) -> mpf:
    """By Poisson's formula: σ² + 1/12 + Σ (−1)^k e^(−2π²σ²k²)(4σ² + 1/(πk)²)."""
    sigma = number(vector["inputs"]["sigma"])
    terms = (
        (-1) ** k * mpmath.exp(-2 * (mpmath.pi * sigma * k) ** 2) * (4 * sigma**2 + 1 / (mpmath.pi * k) ** 2)
        for k in range(1, 20)
    )
    return sigma**2 + mpf(1) / 12 + mpmath.fsum(terms)


def coin(vector: Vector) -> None:
    """By integers: 1/Σ xᵏ/k!, cut to fixed point one by one."""
    inputs, expected = vector["inputs"], vector["expected"]
    bits = 400
    low, high = exponential(Fraction(inputs["x"]), bits)
    ends = [Fraction(2**bits, high), Fraction(2**bits, low)]
    assert {int(end * 2**128) for end in ends} == {int(expected["u128"])}
    if "u64" in expected:
        assert {int(end * 2**64) for end in ends} == {int(expected["u64"])}
        assert all(abs(end / Fraction(expected["decimal"]) - 1) < Fraction(1, 10**36) for end in ends)
        return
    nearest, distance = int(expected["nearest_grid_int"]), Fraction(expected["distance"])
    sign = 1 if expected["side"] == "above" else -1
    for end in ends:
        assert abs(sign * (end * 2 ** inputs["bits"] - nearest) / distance - 1) < Fraction(1, 10**6)


def choice(vector: Vector) -> list[mpf]:
    """By integrals over the noise: Gumbel's for the exponential mechanism, places in line for permute-and-flip."""
    inputs = vector["inputs"]
    scaled = [number(inputs["eps"]) * s / 2 for s in inputs["scores"]]
    if vector["id"].startswith("expmech"):

        def density(t: mpf, i: int) -> mpf:
            # u = e^(−t), t the winner's score and noise: all others are below with probability e^(−u·Σ e^s)
            return mpmath.exp(scaled[i]) * mpmath.exp(-t * mpmath.fsum(map(mpmath.exp, scaled)))

        return [mpmath.quad(density_of(density, i), [0, 1, 4, mpmath.inf]) for i in range(len(scaled))]
    taken = [mpmath.exp(s - max(scaled)) for s in scaled]

    def first(t: mpf, i: int) -> mpf:
        return taken[i] * mpmath.fprod(1 - t * q for j, q in enumerate(taken) if j != i)

    return [mpmath.quad(density_of(first, i), [0, 1]) for i in range(len(taken))]


def density_of(function, i):
    return lambda t: function(t, i)


def truth(vector: Vector) -> mpf:
    """By what makes it so: truth/lie = e^ε, and truth + (k − 1)·lie = 1."""
    eps, k = number(vector["inputs"]["eps"]), vector["inputs"]["k"]
    solved = mpmath.lu_solve(mpmath.matrix([[1, -mpmath.exp(eps)], [1, k - 1]]), mpmath.matrix([0, 1]))
    return solved[0]


ROADS = {
    "aes256": ciphers,
    "dgauss-var": gaussian_variance,
    "dgauss-rdp": gaussian_divergence,
    "dgauss-delta": gaussian_delta,
    "dlap-var": laplace_variance,
    "agm-sigma": gaussian_sigma,
    "probit": quantile,
    "rgauss-pmf": rounded_probability,
    "rgauss-var": rounded_variance,
    "bern-exp": coin,
    "expmech": choice,
    "permflip": choice,
    "rr": truth,
}


def verify(vector: Vector) -> None:
    """Raise AssertionError unless another road leads to the value."""
    [road] = [found for prefix, found in ROADS.items() if vector["id"].startswith(f"{prefix}-")]
    with mp.workdps(DIGITS):
        found = road(vector)
        if found is None:
            return
        pairs = (
            zip(found, vector["expected"], strict=True) if isinstance(found, list) else [(found, vector["expected"])]
        )
        for value, expected in pairs:
            assert abs(value / mpf(expected) - 1) <= mpf(vector["tolerance"]["rel"]), (vector["id"], value, expected)


def main() -> None:
    vectors = json.loads(PATH.read_text(encoding="utf-8"))
    for vector in vectors:
        verify(vector)
    print(f"{len(vectors)} values are right by another road")


if __name__ == "__main__":
    main()
