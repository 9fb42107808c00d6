"""Write `samplers.json`: laws of exact noise and choices in closed form, to forty digits, and blocks of the cipher.

Run as ``python tests/vectors/generate_samplers.py``; it takes a second. `verify_samplers.py` takes other roads. Every
input is an exact fraction or the float that is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import mpmath
from mpmath import mp, mpf

PATH = Path(__file__).with_name("samplers.json")
DIGITS = 40
SCALES = {"0.5": "1/2", "1": "1", "1.5": "3/2", "3.75": "15/4", "10": "10", "100.5": "201/2", "2^40": str(2**40)}
DIVERGENCES = {
    "0.5": [(1.5, 1), (2, 1), (2, 3), (3.25, 3), (8, 1), (8, 3), (32.5, 3)],
    "1": [(1.5, 3), (2, 3), (3.25, 1), (8, 3), (32.5, 1)],
    "2.5": [(3.25, 1), (3.25, 3), (8, 1), (8, 3), (32.5, 1), (32.5, 3)],
    "10": [(2, 1), (3.25, 3), (8, 1), (8, 3)],
}
HOCKEY_STICKS = {("1", 1): [0.1, 0.5, 1, 2], ("2.5", 1): [0.5], ("2.5", 2): [0.5], ("10", 5): [0.1, 0.5, 2]}
LAPLACE_SCALES = {"0.05": Fraction(0.05), "2.5": Fraction(5, 2), "10": Fraction(10), "2^20": Fraction(2**20)}
HARD = [(53, 31497), (53, 3603), (53, 23920), (64, 37048), (64, 22936)]
"""Bits, and i for which e^(−i/4096) lies near a multiple of 2^−bits, found among all i below 60 000."""
CHOICES = {
    "expmech": [([0, 1], 1), ([0, 1], 2.5), ([0, 1, 3], 1), ([2, 2, 1, 0], 1), ([2, 2, 1, 0], 2.5), ([5, 0, 0, 0], 1)],
    "permflip": [([0, 1], 1), ([0, 1], 2.5), ([0, 1, 3], 2.5), ([5, 0, 0, 0], 1), ([5, 0, 0, 0], 2.5)],
}


def number(value: object) -> mpf:
    """Return a float or a fraction as it is."""
    ratio = Fraction(value)  # type: ignore[arg-type]
    return mpf(ratio.numerator) / ratio.denominator


def text(value: mpf) -> str:
    return mpmath.nstr(value, DIGITS, strip_zeros=False)


def entry(name: str, quantity: str, inputs: dict[str, Any], expected: Any, **tolerance: Any) -> dict[str, Any]:
    given = tolerance or {"exact": True}
    return {"id": name, "quantity": quantity, "inputs": inputs, "expected": expected, "tolerance": given}


def ciphers() -> Iterator[dict[str, Any]]:
    """As they stand in the standards: SP 800-38A, F.5.5; FIPS 197, appendix C.3."""
    plain = (
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    )
    ciphertext = (
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
        "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
    )
    keystream = bytes(a ^ b for a, b in zip(bytes.fromhex(plain), bytes.fromhex(ciphertext), strict=True)).hex()
    inputs = {
        "key_hex": "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
        "counter_block_hex": "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
        "plaintext_hex": plain,
    }
    yield entry(
        "aes256-ctr-sp800-38a",
        "ciphertext, and keystream = ciphertext xor plaintext",
        inputs,
        {"ciphertext_hex": ciphertext, "keystream_hex": keystream},
    )
    inputs = {"key_hex": bytes(range(32)).hex(), "plaintext_hex": "00112233445566778899aabbccddeeff"}
    yield entry("aes256-fips197", "one block", inputs, "8ea2b7ca516745bfeafc49904b496089")


def theta(sigma: mpf, center: mpf) -> mpf:
    """Return Σ e^(−(k − c)²/2σ²) over all integers k, term by term for σ < 1/2 and by Poisson's formula above."""
    if sigma < 0.5:
        near = int(mpmath.nint(center))
        return mpmath.fsum(mpmath.exp(-((k - center) ** 2) / (2 * sigma**2)) for k in range(near - 40, near + 41))
    waves = (
        2 * mpmath.exp(-2 * (mpmath.pi * sigma * k) ** 2) * mpmath.cos(2 * mpmath.pi * k * center) for k in range(1, 12)
    )
    return sigma * mpmath.sqrt(2 * mpmath.pi) * (1 + mpmath.fsum(waves))


def discrete_gaussians() -> Iterator[dict[str, Any]]:
    for label, exact in SCALES.items():
        sigma = number(exact)
        # d/dτ of ln θ, τ = −1/2σ², is the second moment: by Poisson's formula σ²(1 − Σ 8π²σ²k²e^(−2π²σ²k²)/(1 + 2Σ …))
        waves = [mpmath.exp(-2 * (mpmath.pi * sigma * k) ** 2) for k in range(1, 12)]
        rest = mpmath.fsum(8 * (mpmath.pi * sigma * k) ** 2 * w for k, w in enumerate(waves, 1))
        variance = sigma**2 * (1 - rest / (1 + 2 * mpmath.fsum(waves)))
        inputs = {"sigma_exact": exact}
        yield entry(f"dgauss-var-{label}", "variance of N_Z(0, σ²)", inputs, text(variance), rel="1e-34")
    for label, cases in DIVERGENCES.items():
        for alpha, mu in cases:
            sigma, order = number(label), number(alpha)
            ratio = theta(sigma, order * mu) / theta(sigma, mpf(0))
            value = order * mu**2 / (2 * sigma**2) + mpmath.log(ratio) / (order - 1)
            bound = mpmath.nstr(order * mu**2 / (2 * sigma**2), 20)
            inputs = {"sigma": label, "alpha": alpha, "mu": mu, "continuous_bound": bound}
            quantity = "Rényi divergence of order α between N_Z(μ, σ²) and N_Z(0, σ²)"
            yield entry(f"dgauss-rdp-{label}-a{alpha}-mu{mu}", quantity, inputs, text(value), rel="1e-34")
    for (label, mu), epsilons in HOCKEY_STICKS.items():
        for eps in epsilons:
            sigma, growth = number(label), mpmath.exp(number(eps))
            reach = int(16 * sigma) + 20
            laws = [
                [mpmath.exp(-((x - at) ** 2) / (2 * sigma**2)) for x in range(-reach, reach + mu)] for at in (mu, 0)
            ]
            value = mpmath.fsum(max(p - growth * q, mpf(0)) for p, q in zip(*laws, strict=True)) / theta(sigma, mpf(0))
            inputs = {"sigma": label, "mu": mu, "eps": eps, "continuous_delta": text(continuous_delta(sigma / mu, eps))}
            quantity = "δ(ε) of N_Z(μ, σ²) against N_Z(0, σ²), and that of continuous noise"
            yield entry(f"dgauss-delta-{label}-mu{mu}-e{eps}", quantity, inputs, text(value), rel="1e-30")


def continuous_delta(sigma: mpf, eps: float) -> mpf:
    """Return δ(ε) of continuous Gaussian noise for sensitivity 1 (Balle, Wang, ICML 2018, Theorem 8)."""
    a, b = 1 / (2 * sigma), number(eps) * sigma
    return mpmath.ncdf(a - b) - mpmath.exp(number(eps)) * mpmath.ncdf(-a - b)


def discrete_laplaces() -> Iterator[dict[str, Any]]:
    for label, scale in LAPLACE_SCALES.items():
        value = 1 / (2 * mpmath.sinh(1 / (2 * number(scale))) ** 2)
        inputs = {"scale_exact": str(scale)}
        yield entry(f"dlap-var-{label}", "variance of P[x] ∝ e^(−|x|/scale)", inputs, text(value), rel="1e-36")


def continuous_gaussians() -> Iterator[dict[str, Any]]:
    for epsilon, delta in ((1.0, 1e-5), (1.0, 1e-10), (10.0, 1e-12)):
        low, high = mpf(1) / 100, mpf(100)
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if continuous_delta(middle, epsilon) > number(delta) else (low, middle)
        inputs = {"eps": epsilon, "delta": delta}
        quantity = "least σ of (ε, δ)-private continuous noise for L2 sensitivity 1"
        yield entry(f"agm-sigma-e{epsilon}-d{delta}", quantity, inputs, text(high), rel="1e-30")
    for name, p in (("1-1048576", 2**-20), ("1-18446744073709551616", 2**-64), ("1-3", Fraction(1, 3))):
        low, high = mpf(-20), mpf(20)
        for _ in range(220):
            middle = (low + high) / 2
            low, high = (middle, high) if mpmath.ncdf(middle) < number(p) else (low, middle)
        yield entry(f"probit-{name}", "quantile of N(0, 1) at p", {"p": str(Fraction(p))}, text(high), rel="1e-36")
    for label, x in (("1", 0), ("1", 3), ("10", 3)):
        sigma = number(label)
        value = mpmath.ncdf((x + mpf(1) / 2) / sigma) - mpmath.ncdf((x - mpf(1) / 2) / sigma)
        inputs = {"sigma": label, "x": x}
        yield entry(f"rgauss-pmf-{label}-x{x}", "P[N(0, σ²) is rounded to x]", inputs, text(value), rel="1e-30")
    for label in ("0.5", "10"):
        sigma = number(label)
        tails = (
            (2 * x - 1) * 2 * mpmath.ncdf(-(x - mpf(1) / 2) / sigma) for x in range(1, int(20 * sigma) + 20)
        )  # Σ x²·P[x] by parts
        value = mpmath.fsum(tails)
        yield entry(f"rgauss-var-{label}", "variance of rounded N(0, σ²)", {"sigma": label}, text(value), rel="1e-30")


def coins() -> Iterator[dict[str, Any]]:
    for name, x in (("5-7", Fraction(5, 7)), ("2-1", Fraction(2)), ("1-1000003", Fraction(1, 1000003))):
        value = mpmath.exp(-number(x))
        digits = {bits: str(int(mpmath.floor(value * mpf(2) ** bits))) for bits in (64, 128)}
        expected = {"decimal": text(value), "u64": digits[64], "u128": digits[128]}
        quantity = "e^(−x), and its first 64 and 128 binary digits"
        yield entry(f"bern-exp-{name}", quantity, {"x": str(x)}, expected, exact_ints=True, rel="1e-36")
    for bits, i in HARD:
        value = mpmath.exp(-mpf(i) / 4096)
        scaled = value * mpf(2) ** bits
        nearest = int(mpmath.nint(scaled))
        expected = {
            "nearest_grid_int": str(nearest),
            "side": "above" if scaled > nearest else "below",
            "distance": mpmath.nstr(abs(scaled - nearest), 10),
            "u128": str(int(mpmath.floor(value * mpf(2) ** 128))),
        }
        quantity = "how close e^(−x) lies to a multiple of 2^−bits: only exact arithmetic decides there"
        inputs = {"x": f"{i}/4096", "bits": bits}
        yield entry(f"bern-exp-hard-{bits}-{i}", quantity, inputs, expected, exact_ints=True, rel="1e-6")


def choices() -> Iterator[dict[str, Any]]:
    for scores, eps in CHOICES["expmech"]:
        weights = [mpmath.exp(number(eps) * s / 2) for s in scores]
        expected = [mpmath.nstr(w / mpmath.fsum(weights), 30) for w in weights]
        inputs = {"scores": scores, "eps": eps, "sens": 1}
        name = f"expmech-{'_'.join(map(str, scores))}-e{eps}"
        yield entry(name, "probabilities of the exponential mechanism, sensitivity 1", inputs, expected, rel="1e-27")
    for scores, eps in CHOICES["permflip"]:
        taken = [mpmath.exp(number(eps) * (s - max(scores)) / 2) for s in scores]
        chances = [mpf(0)] * len(scores)
        orders = list(permutations(range(len(scores))))
        for order in orders:
            left = mpf(1) / len(orders)
            for i in order:
                chances[i] += left * taken[i]
                left *= 1 - taken[i]
        inputs = {"scores": scores, "eps": eps, "sens": 1}
        name = f"permflip-{'_'.join(map(str, scores))}-e{eps}"
        expected = [mpmath.nstr(chance, 30) for chance in chances]
        yield entry(name, "probabilities of permute-and-flip, sensitivity 1", inputs, expected, rel="1e-27")
    for eps, k in ((0.5, 2), (1.0, 10)):
        value = mpmath.exp(number(eps)) / (mpmath.exp(number(eps)) + k - 1)
        quantity = "probability of the truth in k-ary randomized response"
        yield entry(f"rr-{eps}-{k}", quantity, {"eps": eps, "k": k}, text(value), rel="1e-36")


def entries() -> list[dict[str, Any]]:
    """Return all values, computed with 120 digits."""
    with mp.workdps(120):
        rooms = (ciphers, discrete_gaussians, discrete_laplaces, continuous_gaussians, coins, choices)
        return [found for room in rooms for found in room()]


def written() -> str:
    """Return what the file has to hold."""
    lines = ",\n".join(json.dumps(found, ensure_ascii=False) for found in entries())
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    PATH.write_text(written(), encoding="utf-8")
