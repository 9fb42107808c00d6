"""Check `decisions.tsv` by another route: integers and nothing else, no mpmath, no code of the reference.

All bits of `p` that a line does not list are zero, so `p` is a fraction, and its answer n is right if
`tail((n + ½ − offset)/ratio) < p < tail((n − ½ − offset)/ratio)` (for a positive sample). Tails come from positive
series in fixed point, cut below, with a bound on all that was cut. Run as `python tests/vectors/verify_decisions.py`.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from pathlib import Path

PATH = Path(__file__).with_name("decisions.tsv")


def exponential(t: Fraction, bits: int) -> tuple[int, int]:
    """Return bounds on `exp(t) · 2^bits`, `t ≥ 0`, from Σ tᵏ/k!, whose terms are cut to integers one by one."""
    term = total = 1 << bits
    k = 0
    while term:
        k += 1
        term = term * t.numerator // (t.denominator * k)
        total += term
    # Each of k terms loses less than one unit, which would have grown to at most exp(t) in the terms that follow it.
    return total, total + k * (total // (1 << bits) + 2)


def pi(bits: int) -> tuple[int, int]:
    """Return bounds on `π · 2^bits` by Machin's 16 arctan 1/5 − 4 arctan 1/239."""

    def arctan(inverse: int) -> int:
        power, total, k = (1 << bits) // inverse, 0, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= inverse * inverse
            k += 1
        return total

    value = 16 * arctan(5) - 4 * arctan(239)
    return value - 20 * bits, value + 20 * bits  # fewer than `bits` terms, each cut by less than one unit


def odd_series(x: Fraction, bits: int) -> tuple[int, int]:
    """Return bounds on `Σ x^(2k+1)/(2k+1)!! · 2^bits`, `x ≥ 0`."""
    term = total = x.numerator * (1 << bits) // x.denominator
    square = x * x
    k = 0
    while term:
        k += 1
        term = term * square.numerator // (square.denominator * (2 * k + 1))
        total += term
    # As above, with Π x²/(2k+1) ≤ exp(x²/2) as the most that one unit can grow to.
    growth = exponential(square / 2, 8)[1] // 256 + 2
    return total, total + (k + 1) * growth


def gaussian_side(p: Fraction, x: Fraction) -> bool | None:
    """Say whether `p < Φ̄(x)`: whether `(½ − p) exp(x²/2) √(2π) > Σ x^(2k+1)/(2k+1)!!`; None if that is not clear."""
    bits = 64 + p.denominator.bit_length() + 2 * int(x * x)
    low_exp, high_exp = exponential(x * x / 2, bits)
    low_pi, high_pi = pi(bits)
    low_root, high_root = isqrt(2 * low_pi << bits), isqrt(2 * high_pi << bits) + 1
    rest = Fraction(1, 2) - p
    low_series, high_series = odd_series(x, bits)
    if rest * low_exp * low_root > high_series << bits:
        return True
    if rest * high_exp * high_root < low_series << bits:
        return False
    return None


def laplace_side(p: Fraction, x: Fraction) -> bool | None:
    """Say whether `2p < exp(−x)`, that is `2p · exp(x) < 1`."""
    bits = 64 + p.denominator.bit_length()
    low, high = exponential(x, bits)
    if 2 * p * high < 1 << bits:
        return True
    if 2 * p * low > 1 << bits:
        return False
    return None


def is_beyond(law: str, p: Fraction, x: Fraction) -> bool | None:
    """Say whether the sample with this `p` has `z > x`."""
    if x <= 0:
        return True
    return gaussian_side(p, x) if law == "gaussian" else laplace_side(p, x)


def verify(line: str) -> None:
    """Raise if the answer of a line is wrong."""
    _, law, exponent, scale, offset, word, extension, answer = line.split("\t")
    ratio = Fraction(float.fromhex(scale)) / Fraction(2) ** int(exponent)
    bits = 32 if law == "gaussian" and ratio < 1 << 21 else 64
    number, digits = int(word, 16), bits
    negative = bool(number >> (bits - 1))
    number -= negative << (bits - 1)
    for part in extension.split(",") if extension != "-" else []:
        number, digits = number << 64 | int(part, 16), digits + 64
    p = Fraction(number, 1 << digits)
    side = -1 if negative else 1
    n, center = side * int(answer), side * Fraction(float.fromhex(offset))
    half = Fraction(1, 2)
    assert is_beyond(law, p, (n - half - center) / ratio) is True, line
    assert is_beyond(law, p, (n + half - center) / ratio) is False, line


if __name__ == "__main__":
    lines = PATH.read_text().splitlines()[1:]
    for text in lines:
        verify(text)
    print(f"{len(lines)} answers are right")
