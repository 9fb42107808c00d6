"""Check the samplers' tables by another route, and derive the error bounds that the code relies on.

Nothing here shares code or method with `generate.py`: special functions are series over Python integers (fixed point
with `BITS` fraction bits, a few units wrong in the last place), and quantiles are checked through their inverse.

Sup norm from finitely many points. On a segment the error E = polynomial - quantile is a polynomial of degree N plus
what the Chebyshev series of the quantile has beyond degree N. That rest is below 1e-20: the quantile is analytic inside
the ellipse that reaches p = 0, so its coefficients fall by at least
- 5 + sqrt(24) > 9.8 a degree on half octaves (7 + sqrt(48) on upper halves): N = 24;
- 3 + sqrt(8) > 5.8 a degree on whole octaves: N = 36;
- 17 + sqrt(288) > 33 a degree on eighths of an octave, for the logarithm, and more on sixteenths: N = 24
from less than 10. The other singularity, p = 1, lies farther away. A polynomial of degree N that is at most s at the M
Chebyshev points is at most s / cos(pi N / 2M) between them (Ehlich and Zeller, Math. Z. 86, 1964): below 1.21 s for
N = 24 with M = 64 and for N = 36 with M = 96, below 1.05 s with twice as many.
"""

from __future__ import annotations

import re
import struct
from fractions import Fraction
from math import cos, isqrt, log2, pi
from pathlib import Path

HERE = Path(__file__).parent
BITS = 480
ONE = 1 << BITS
U = 2.0**-53
SINGLE_U = 2.0**-24
POINTS = 64
OCTAVE_POINTS = 96
INFLATION = 1 / cos(pi * 24 / (2 * POINTS))  # the same for 36 and OCTAVE_POINTS, also with multiples of both
REST = 1e-20
MAX_MILLS = 1.2534  # Phibar(z)/phi(z) falls from sqrt(pi/2) at z = 0

# What the Rust code relies on: `Plan::new` and `Precision::error` in types.rs, `QUANTILE_ERROR` and `approximate` in
# decide.rs.
FIRST_STAGE_LONG = 2.0**-48
FIRST_STAGE_SHORT_POLYNOMIAL = 2.0**-36
SECOND_STAGE = {"gaussian": 2.0**-47, "laplace": 2.0**-45}
PROPOSED_COARSE = 2.0**-36 + 2.0**-50
PROPOSED_FINE = 2.0**-43
LEAST_LEADING_BITS = 2.0**43
WORD = MAX_MILLS * (2 * U + U / 4)  # a word is cut to 53 bits, or rounded, and its unknown bits are below 2^-55 of it


def exp_neg(x: int) -> int:
    """Return e^-x, both in units of 2^-BITS."""
    halvings = max(0, x.bit_length() - BITS + 8)
    w, term, total, n = x >> halvings, ONE, ONE, 1
    while term:
        term = (term * w >> BITS) // n
        total += term if n % 2 == 0 else -term
        n += 1
    for _ in range(halvings):
        total = total * total >> BITS
    return total


def arctan_inverse(k: int) -> int:
    """Return arctan(1/k)."""
    total, power, n = 0, ONE // k, 1
    while power:
        total += power // n if n % 4 == 1 else -(power // n)
        power //= k * k
        n += 2
    return total


PI = 24 * arctan_inverse(8) + 8 * arctan_inverse(57) + 4 * arctan_inverse(239)  # Stormer; the Rust code uses Machin
LN_2 = sum(ONE // (k << k) for k in range(1, BITS))
SQRT_2_PI = isqrt(2 * PI << BITS)


def density(z: int) -> int:
    """Return phi(z)."""
    return (exp_neg(z * z >> (BITS + 1)) << BITS) // SQRT_2_PI


def upper_tail(z: int) -> int:
    """Return Phibar(z) = 1/2 - phi(z) (z + z^3/3 + z^5/15 + ...), for z of either sign."""
    square, term, total, odd = z * z >> BITS, abs(z), abs(z), 1
    while term:
        odd += 2
        term = (term * square >> BITS) // odd
        total += term
    body = density(z) * total >> BITS
    return ONE // 2 - body if z >= 0 else ONE // 2 + body


def log_of(m: Fraction) -> int:
    """Return ln m = 2 artanh((m - 1)/(m + 1)) for 1 <= m <= 2."""
    ratio = (m - 1) / (m + 1)
    x = (ratio.numerator << BITS) // ratio.denominator
    power, total, n = x, 0, 1
    while power:
        total += power // n
        power = (power * x >> BITS) * x >> BITS
        n += 2
    return 2 * total


def fixed(x: float | Fraction) -> int:
    """Return a number in units of 2^-BITS."""
    exact = Fraction(x)
    return (exact.numerator << BITS) // exact.denominator


def polynomial(row: list[float], t: Fraction) -> Fraction:
    """Return the polynomial's exact value."""
    total = Fraction(0)
    for c in reversed(row):
        total = total * t + Fraction(c)
    return total


def evaluation_bound(row: list[float], radius: float, *, fused: bool = False) -> float:
    """Return a bound on the rounding errors of evaluating the polynomial for |t| <= radius.

    In Horner's scheme c_i meets at most 2i + 1 roundings, with even and odd powers apart 3i/2 + 3: 2i + 4 covers both,
    fused or not. Horner's scheme with fused operations alone, as on AVX2, rounds c_i i + 1 times.
    """
    roundings = [i + 1 if fused else 2 * i + 4 for i in range(len(row))]
    return 1.001 * U * sum(n * abs(c) * radius**i for i, (n, c) in enumerate(zip(roundings, row, strict=True)))


def sample_points(radius: Fraction, points: int = POINTS) -> list[Fraction]:
    """Return the Chebyshev points of [-radius, radius], as doubles."""
    return [radius * Fraction(cos((2 * j + 1) * pi / (2 * points))) for j in range(points)]


def gaussian_error(row: list[float], octave: int, half: int | None, finer: int = 1) -> float:
    """Return a bound on |polynomial - quantile| over a half octave, or a whole one, from `finer` times the points."""
    center = Fraction(3, 2) if half is None else Fraction(5, 4) + Fraction(half, 2)
    radius, count = (Fraction(1, 2), OCTAVE_POINTS) if half is None else (Fraction(1, 4), POINTS)
    points = sample_points(radius, finer * count)
    worst = 0.0
    for t in points:
        p = (center + t) / 2 ** (octave + 2)
        z = fixed(polynomial(row, t))
        # First order is enough: the second is the square of the error.
        worst = max(worst, abs((upper_tail(z) - fixed(p)) / density(z)))
    return worst / cos(pi * 24 / (2 * finer * POINTS)) + REST


def log_error(row: list[float], part: int, parts: int) -> float:
    """Return a bound on |polynomial - (ln 2 - ln m)| over one of the parts of an octave."""
    worst = 0.0
    for t in sample_points(Fraction(1, 2 * parts)):
        m = 1 + Fraction(2 * part + 1, 2 * parts) + t
        worst = max(worst, abs(fixed(polynomial(row, t)) - (LN_2 - log_of(m))) / ONE)
    return worst * INFLATION + REST


def parse(name: str, text: str) -> list[list[float]]:
    """Return a table of quantile.rs."""
    body = re.search(rf"static {name}: [^=]* = \[(.*?)\n\];", text, re.S)
    assert body is not None, name
    return [[float(c) for c in row.split(",")] for row in re.findall(r"\[([^\]]*)\]", body.group(1))]


def check_quantiles() -> None:
    """Check quantile.rs and the bounds of the first two stages."""
    text = (HERE / "quantile.rs").read_text()
    full, by_power = parse("PROBIT_BY_HALF_OCTAVE", text), parse("PROBIT_BY_POWER", text)
    fast, inverse = parse("PROBIT_FAST_BY_POWER", text), parse("INVERSE_DENSITY", text)[0]
    first = second = short = 0.0
    for octave in range(len(full) // 2):
        for half in range(2):
            row = full[2 * octave + half]
            bound = gaussian_error(row, octave, half) + evaluation_bound(row, 0.25) + WORD
            second = max(second, bound)
            if octave < 8:
                first = max(first, bound)
                place = ((1085 - octave) % 8) * 2 + half
                assert [c[place] for c in by_power] == row, "the kernels' table is the table"
                quick = [c[place] for c in fast]
                short = max(short, gaussian_error(quick, octave, half) + evaluation_bound(quick, 0.25))
                lowest = Fraction(2 + half, 2) / 2 ** (octave + 2) * (1 - Fraction(1, 512))
                # 1/phi rises with z: the bound holds if its z has a smaller tail than any p of the segment.
                z = fixed(Fraction(isqrt(int(2 * Fraction(log2_bound(inverse[place])) * 2**100)), 2**50))
                assert upper_tail(z) <= fixed(lowest) * (1 + 2**-40), "the density's bound covers the segment"
    report("first stage, Gaussian, 63-bit words", first, FIRST_STAGE_LONG)
    report("first stage, Gaussian, 31-bit words, without the word", short, FIRST_STAGE_SHORT_POLYNOMIAL)
    report("proposed variables, coarse", short + WORD, PROPOSED_COARSE)
    report("proposed variables, tails", second + MAX_MILLS * 0.5 / LEAST_LEADING_BITS, PROPOSED_FINE)
    report("second stage, Gaussian", second, SECOND_STAGE["gaussian"])

    check_octaves(text)
    sixteenths, eighths = log_bound(parse("LOG_BY_POWER", text)), log_bound(parse("LOG_BY_EIGHTH", text))
    constant = abs(fixed(0.6931471805599453) - LN_2) / ONE
    for label, part_error, octaves, allowed in [
        ("first stage, Laplace", sixteenths, 10, FIRST_STAGE_LONG),
        ("first stage, Laplace, AVX2", eighths, 10, FIRST_STAGE_LONG),
        ("second stage, Laplace", sixteenths, 127, SECOND_STAGE["laplace"]),
    ]:
        # octave times ln 2 rounds once and carries the constant's error, the sum rounds once; the word as above.
        bound = part_error + octaves * constant + 2 * U * 0.7 * (octaves + 1) + 2 * U + U
        report(label, bound, allowed)


def check_octaves(text: str) -> None:
    """Check the tables of AVX2: whole octaves, by the low three bits of a word's biased exponent."""
    full, fast = parse("PROBIT_BY_OCTAVE", text), parse("PROBIT_FAST_BY_OCTAVE", text)
    first = short = 0.0
    for octave in range(8):
        place = (1085 - octave) % 8
        row, quick = [c[place] for c in full], [c[place] for c in fast]
        bound = gaussian_error(row, octave, None) + evaluation_bound(row, 0.5, fused=True) + WORD
        first = max(first, bound)
        short = max(short, gaussian_error(quick, octave, None) + evaluation_bound(quick, 0.5, fused=True))
    report("first stage, Gaussian, 63-bit words, AVX2", first, FIRST_STAGE_LONG)
    report("first stage, Gaussian, 31-bit words, AVX2, without the word", short, FIRST_STAGE_SHORT_POLYNOMIAL)
    report("proposed variables by octaves, coarse", short + WORD, PROPOSED_COARSE)


def check_single() -> None:
    """Check single.rs: the bounds that stand beside its polynomials, which `Single::new` relies on.

    A path without fused operations rounds coefficient i at most 2i + 1 times, one with them i + 1 times. A word x
    stands for p in [x, x + 1) before it is rounded or cut to 24 bits, and |dz| is at most Mills' ratio, largest at the
    smallest z, times |d ln p| < 2^-23 + 1/x.
    """
    text = (HERE / "single.rs").read_text()
    for name, octaves, halves in [("BY_HALF", 16, 2), ("BY_OCTAVE", 8, 1)]:
        table, errors, sizes = (parse(name + suffix, text) for suffix in ("", "_ERROR", "_LARGEST"))
        table = [list(struct.unpack(f"{len(row)}f", struct.pack(f"{len(row)}f", *row))) for row in table]
        tightest = (0.0, 1.0)
        for octave in range(octaves):
            for half in range(halves):
                place = (157 - octave) % octaves * halves + half
                row = [power[place] for power in table]
                radius = Fraction(1, 2 * halves)
                lowest = 1 + Fraction(half, halves)
                evaluation = sum(
                    (i + 1 if halves == 1 else 2 * i + 1) * abs(c) * float(radius) ** i for i, c in enumerate(row)
                )
                # Beyond the segment's end by more than any word that it serves.
                z = max(0, fixed(polynomial(row, radius)) - ONE // 10**4)
                mills = upper_tail(z) / density(z)
                word = mills * (2.0**-23 + 2.0 ** (octave - 30) / float(lowest))
                approximation = gaussian_error(row, octave, half if halves == 2 else None, finer=2)
                bound = approximation + 1.001 * SINGLE_U * evaluation + word
                allowed = errors[0][place]
                tightest = max(tightest, (bound, allowed), key=lambda pair: pair[0] / pair[1])
                assert bound <= allowed, (name, octave, half)
                largest = fixed(Fraction(sizes[0][place]) - Fraction(allowed))
                p = lowest / 2 ** (octave + 2) * (1 - Fraction(1, 1024))
                assert upper_tail(largest) <= fixed(p), "no quantile of the segment is larger"
        report(f"single precision, {name}, the tightest segment", *tightest)


def log_bound(table: list[list[float]]) -> float:
    """Return a bound on the error of a logarithm's table, evaluation included."""
    parts = len(table[0])
    rows = [[c[part] for c in table] for part in range(parts)]
    return max(log_error(row, i, parts) + evaluation_bound(row, 1 / (2 * parts)) for i, row in enumerate(rows))


def log2_bound(inverse_density: float) -> Fraction:
    """Return ln(inverse_density / sqrt(2 pi)), so that z = sqrt(2 x) has that density, a little low."""
    ratio = Fraction(inverse_density) * Fraction(ONE, SQRT_2_PI)
    shift = max(0, ratio.numerator.bit_length() - ratio.denominator.bit_length())
    while ratio / 2**shift > 2:
        shift += 1
    while ratio / 2**shift < 1:
        shift -= 1
    return Fraction(log_of(ratio / 2**shift) + shift * LN_2, ONE) * (1 - Fraction(1, 2**60))


def check_mills() -> None:
    """Check every digit of mills.rs."""
    text = (HERE / "mills.rs").read_text()
    nodes = re.findall(r"mills: 0x(\w+), inverse_density: 0x(\w+), exponent: (\d+)", text)
    assert len(nodes) == 149, len(nodes)
    for k, (mills, mantissa, exponent) in enumerate(nodes):
        z = k * ONE // 16
        ratio = (upper_tail(z) << 126) // density(z)
        inverse = (ONE << 127 + BITS - int(exponent)) // density(z) >> BITS
        assert 2**127 <= int(mantissa, 16) < 2**128, k
        assert int(mills, 16) == ratio, f"Mills' ratio at {k}/16"
        assert int(mantissa, 16) == inverse, f"inverse density at {k}/16"
    constant = re.search(r"LN_2: u128 = 0x(\w+);", text)
    assert constant is not None
    assert int(constant.group(1), 16) == LN_2 >> (BITS - 126), "ln 2"
    print("nodes of the third stage: every digit")


def report(what: str, bound: float, allowed: float) -> None:
    """Print a bound and fail if it is larger than the code allows for."""
    print(f"{what}: 2^{log2(bound):.2f}, allowed 2^{log2(allowed):.2f}")
    assert bound <= allowed, what


if __name__ == "__main__":
    check_quantiles()
    check_single()
    check_mills()
