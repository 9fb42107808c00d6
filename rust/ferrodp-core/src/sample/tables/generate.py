"""Write the tables of the samplers: piecewise polynomials for the first stage, nodes for the second.

Run it to rewrite `quantile.rs` and `mills.rs` beside it; with `--check` it fails if they would change.
`verify.py` checks what they say by another route.

Quantile tables. Sample words hold p in (0, 1/2). In octave k, p lies in [2^-(k+2), 2^-(k+1)); each octave is cut in
halves at 1.5 times its lower end. Writing p = m 2^-(k+2) with m in [1, 2), the local variable of half h is
t = m - h/2 - 1.25, which runs over [-1/4, 1/4). The polynomial interpolates z(t) = Phibar^-1(p) at the Chebyshev nodes
and is then written in powers of t. Laplace needs -ln(2p) = k ln 2 + (ln 2 - ln m): one octave, cut in 16 parts, local
variable t = m - 1 - i/16 - 1/32 in [-1/32, 1/32).

AVX2 looks coefficients up in tables of eight: whole octaves, t = m - 3/2 in [-1/2, 1/2), and eighths of an octave for
the logarithm, t = m - 1 - i/8 - 1/16 in [-1/16, 1/16). Fewer and wider segments take higher degrees.

Single precision. Words of 31 bits on coarse grids take 16 octaves: half octaves as above, or, for AVX2, the first 8 as
whole octaves. The index is the low bits of the word's biased exponent as a float32, 157 - k, and the top bit of its
fraction. Beside the coefficients stand two bounds for each segment: of the quantile's error and of its size.

Mills nodes. For t_k = k/16 the ratio M(t_k) = Phibar(t_k)/phi(t_k) and 1/phi(t_k), as integers: see `mills.rs`.
"""

from __future__ import annotations

import math
import struct
import sys
from pathlib import Path

import mpmath as mp

mp.mp.prec = 320
HERE = Path(__file__).parent

OCTAVES = 62  # p down to 2^-63: every 64-bit word but the two smallest
DEGREE = 14
FAST_OCTAVES = 8
FAST_DEGREE = 9
LOG_DEGREE = 10
LOG_PARTS = 16
OCTAVE_DEGREE = 17
FAST_OCTAVE_DEGREE = 12
LOG_EIGHTH_DEGREE = 9
SINGLE_OCTAVES = 16
SINGLE_DEGREE = 5
SINGLE_OCTAVE_DEGREE = 7
MILLS_NODES = 149  # t up to 9.25, where Phibar is below 2^-65


def probit_upper(p: mp.mpf) -> mp.mpf:
    """Return z with Phibar(z) = p, 0 < p <= 1/2, by Newton's method on ln Phibar from a rational start."""
    if p == mp.mpf(1) / 2:
        return mp.mpf(0)
    w = mp.sqrt(-2 * mp.log(p))
    z = w - (mp.mpf("2.515517") + mp.mpf("0.802853") * w + mp.mpf("0.010328") * w * w) / (
        1 + mp.mpf("1.432788") * w + mp.mpf("0.189269") * w * w + mp.mpf("0.001308") * w**3
    )
    for _ in range(7):
        tail = mp.erfc(z / mp.sqrt(2)) / 2
        density = mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)
        z += tail / density * mp.log(tail / p)
    return z


def interpolate(f, half_width: mp.mpf, degree: int) -> list[mp.mpf]:
    """Return the power coefficients of the interpolant of f at the Chebyshev nodes of [-half_width, half_width]."""
    n = degree + 1
    angles = [(2 * j + 1) * mp.pi / (2 * n) for j in range(n)]
    values = [f(half_width * mp.cos(a)) for a in angles]
    chebyshev = [2 * mp.fsum(v * mp.cos(i * a) for v, a in zip(values, angles, strict=True)) / n for i in range(n)]
    chebyshev[0] /= 2
    # powers of the Chebyshev polynomials by T_{i+1} = 2x T_i - T_{i-1}
    previous, current = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    total = [chebyshev[0]] + [mp.mpf(0)] * degree
    for i in range(1, n):
        for power, c in enumerate(current):
            total[power] += chebyshev[i] * c
        doubled = [mp.mpf(0)] + [2 * c for c in current]
        previous, current = (
            current,
            [a - b for a, b in zip(doubled, previous + [mp.mpf(0)] * (len(doubled) - len(previous)), strict=True)],
        )
    return [c / half_width**power for power, c in enumerate(total)]


def gaussian_segment(octave: int, center: mp.mpf, half_width: mp.mpf, degree: int) -> list[mp.mpf]:
    """Return the coefficients of z where m is within half_width of center."""
    scale = mp.mpf(2) ** -(octave + 2)
    return interpolate(lambda t: probit_upper((center + t) * scale), half_width, degree)


def half_octave(octave: int, half: int, degree: int) -> list[mp.mpf]:
    """Return the coefficients of z on one half octave."""
    return gaussian_segment(octave, mp.mpf(5) / 4 + mp.mpf(half) / 2, mp.mpf(1) / 4, degree)


def log_segment(part: int, parts: int, degree: int) -> list[mp.mpf]:
    """Return the coefficients of ln 2 - ln m on one part of an octave."""
    center = 1 + mp.mpf(2 * part + 1) / (2 * parts)
    return interpolate(lambda t: mp.log(2) - mp.log(center + t), mp.mpf(1) / (2 * parts), degree)


def literal(x: mp.mpf) -> str:
    """Return a Rust literal of the double nearest to x."""
    text = repr(float(x))
    return text if any(c in text for c in ".en") else text + ".0"


def rows(name: str, doc: str, table: list[list[mp.mpf]], only: str | None = None) -> str:
    """Return a Rust static of rows of doubles, compiled for one architecture or all."""
    lines = [f"/// {doc}"] + ([f'#[cfg(target_arch = "{only}")]'] if only else [])
    lines += [f"pub(crate) static {name}: [[f64; {len(table[0])}]; {len(table)}] = ["]
    lines += ["    [" + ", ".join(literal(c) for c in row) + "]," for row in table]
    return "\n".join([*lines, "];"])


def by_power(segments: list[list[mp.mpf]]) -> list[list[mp.mpf]]:
    """Turn coefficients by segment into segments by power."""
    return [[segment[power] for segment in segments] for power in range(len(segments[0]))]


def permuted(degree: int) -> list[list[mp.mpf]]:
    """Return, by power, the 16 coefficients of the first 8 octaves where the kernel's index looks for them.

    The index is the low three bits of the biased exponent of the word and the top bit of its mantissa; the exponent
    is 1085 - k for 63-bit words and 1053 - k for 31-bit ones, which agree modulo 8.
    """
    segments: list[list[mp.mpf]] = [[]] * 16
    for octave in range(FAST_OCTAVES):
        for half in range(2):
            segments[((1085 - octave) % 8) * 2 + half] = half_octave(octave, half, degree)
    return by_power(segments)


def permuted_octaves(degree: int) -> list[list[mp.mpf]]:
    """Return, by power, the coefficients of the first 8 whole octaves, by the exponent's low three bits."""
    segments: list[list[mp.mpf]] = [[]] * 8
    for octave in range(FAST_OCTAVES):
        segments[(1085 - octave) % 8] = gaussian_segment(octave, mp.mpf(3) / 2, mp.mpf(1) / 2, degree)
    return by_power(segments)


def largest_inverse_density() -> list[list[mp.mpf]]:
    """Return, in the kernel's order, an upper bound of 1/phi(z) over each of the first 16 half octaves."""
    bounds = [mp.mpf(0)] * 16
    for octave in range(FAST_OCTAVES):
        for half in range(2):
            # The interval of a word may begin half a unit below the segment: 2^-9 relative covers it many times.
            lowest = (1 + mp.mpf(half) / 2) * mp.mpf(2) ** -(octave + 2) * (1 - mp.mpf(2) ** -9)
            z = probit_upper(lowest)
            bounds[((1085 - octave) % 8) * 2 + half] = mp.sqrt(2 * mp.pi) * mp.exp(z * z / 2)
    return [bounds]


def quantile_file() -> str:
    """Return the text of quantile.rs."""
    all_octaves = [half_octave(k, h, DEGREE) for k in range(OCTAVES) for h in range(2)]
    return "\n".join(
        [
            "//! Piecewise polynomials for quantiles. Written by `generate.py`, checked by `verify.py`.",
            "",
            '#![allow(clippy::excessive_precision, clippy::unreadable_literal, reason = "generated")]',
            "#![cfg_attr(rustfmt, rustfmt_skip)]",
            "",
            rows(
                "PROBIT_BY_HALF_OCTAVE",
                "`z = Φ̄⁻¹(p)` by half octave: row `2k + h`, ascending powers of `t`.",
                all_octaves,
            ),
            "",
            rows(
                "PROBIT_BY_POWER",
                "The first 8 octaves of [`PROBIT_BY_HALF_OCTAVE`], transposed and in the order of the kernels' index.",
                permuted(DEGREE),
            ),
            "",
            rows(
                "PROBIT_FAST_BY_POWER",
                "The same at a lower degree, for 31-bit words, whose own width hides the difference.",
                permuted(FAST_DEGREE),
            ),
            "",
            rows(
                "INVERSE_DENSITY",
                "Upper bounds of `1/φ(z)` over the same segments.",
                largest_inverse_density(),
            ),
            "",
            rows(
                "LOG_BY_POWER",
                "`ln 2 − ln m` by sixteenth of an octave, transposed.",
                by_power([log_segment(i, LOG_PARTS, LOG_DEGREE) for i in range(LOG_PARTS)]),
            ),
            "",
            rows(
                "PROBIT_BY_OCTAVE",
                "`z` by whole octave, for AVX2: one for each value of the exponent's low three bits, transposed.",
                permuted_octaves(OCTAVE_DEGREE),
                only="x86_64",
            ),
            "",
            rows(
                "PROBIT_FAST_BY_OCTAVE",
                "The same at a lower degree, for 31-bit words.",
                permuted_octaves(FAST_OCTAVE_DEGREE),
                only="x86_64",
            ),
            "",
            rows(
                "LOG_BY_EIGHTH",
                "`ln 2 − ln m` by eighth of an octave, for AVX2, transposed.",
                by_power([log_segment(i, 8, LOG_EIGHTH_DEGREE) for i in range(8)]),
                only="x86_64",
            ),
            "",
        ]
    )


def single(x: mp.mpf) -> float:
    """Return the float32 nearest to x."""
    return struct.unpack("f", struct.pack("f", float(x)))[0]


def single_literal(x: mp.mpf) -> str:
    """Return a Rust literal of the float32 nearest to x: the shortest that denotes it."""
    value = single(x)
    text = next(t for digits in range(1, 10) if single(mp.mpf(t := f"{value:.{digits}g}")) == value)
    return text if any(c in text for c in ".en") else text + ".0"


def rounded_up(x: mp.mpf) -> str:
    """Return a literal of four digits, not below x."""
    size = math.floor(math.log10(x)) - 3
    return f"{int(mp.ceil(x / mp.mpf(10) ** size))}e{size}"


def single_bounds(
    octave: int, center: mp.mpf, half_width: mp.mpf, row: list[mp.mpf], roundings: list[int]
) -> tuple[str, str]:
    """Return bounds of a segment's quantile in single precision: of its error, and of its size.

    The error has three parts. The polynomial, with the coefficients as they are rounded. Its evaluation: coefficient i
    meets `roundings[i]` of them. And the word: p lies in [x, x + 1) units of the last bit before x is rounded or cut to
    24 bits, so ln p is wrong by at most 2^-23 + 1/x, and dz/d(ln p) is minus Mills' ratio, which falls with z.
    """
    exact = [mp.mpf(single(c)) for c in row]
    scale = mp.mpf(2) ** -(octave + 2)
    points = [half_width * mp.cos(mp.pi * j / 64) for j in range(65)]
    off = max(abs(mp.polyval(exact[::-1], t) - probit_upper((center + t) * scale)) for t in points)
    evaluation = sum(n * abs(c) * half_width**i for i, (n, c) in enumerate(zip(roundings, exact, strict=True)))
    lowest, highest = center - half_width, center + half_width
    z = probit_upper(min(mp.mpf(1) / 2, highest * scale * (1 + mp.mpf(2) ** -9)))
    mills = mp.erfc(z / mp.sqrt(2)) / 2 * mp.sqrt(2 * mp.pi) * mp.exp(z * z / 2)
    word = mills * (mp.mpf(2) ** -23 + mp.mpf(2) ** (octave - 30) / lowest)
    largest = probit_upper(lowest * scale * (1 - mp.mpf(2) ** -9))
    return rounded_up(1.05 * off + 1.001 * mp.mpf(2) ** -24 * evaluation + word), rounded_up(1.001 * largest)


def single_tables(name: str, doc: str, halves: int, count: int, degree: int, only: str | None) -> str:
    """Return the tables of one cut of the octaves: coefficients by power, and the bounds."""
    rows_of: list[list[mp.mpf]] = [[]] * count
    bounds = [("", "")] * count
    for octave in range(count // halves):
        for half in range(halves):
            half_width = mp.mpf(1) / (2 * halves)
            center = 1 + half_width + mp.mpf(half) / halves
            place = (157 - octave) % (count // halves) * halves + half
            rows_of[place] = gaussian_segment(octave, center, half_width, degree)
            # Of whole octaves all paths have fused operations.
            roundings = [i + 1 if halves == 1 else 2 * i + 1 for i in range(degree + 1)]
            bounds[place] = single_bounds(octave, center, half_width, rows_of[place], roundings)
    cfg = [f"#[cfg({only})]"] if only else []
    lines = [f"/// {doc}", *cfg, f"pub(crate) static {name}: [[f32; {count}]; {degree + 1}] = ["]
    lines += ["    [" + ", ".join(single_literal(c) for c in power) + "]," for power in by_power(rows_of)]
    lines += ["];"]
    for suffix, what, column in [("ERROR", "Bounds of its error", 0), ("LARGEST", "Bounds of `z`", 1)]:
        lines += ["", f"/// {what}.", *cfg, f"pub(crate) static {name}_{suffix}: [[f64; {count}]; 1] = ["]
        lines += ["    [" + ", ".join(bound[column] for bound in bounds) + "],", "];"]
    return "\n".join(lines)


def single_file() -> str:
    """Return the text of single.rs."""
    return "\n".join(
        [
            "//! Quantiles in single precision, with error bounds. Written by `generate.py`, checked by `verify.py`.",
            "",
            '#![allow(clippy::excessive_precision, clippy::unreadable_literal, reason = "generated")]',
            "#![cfg_attr(rustfmt, rustfmt_skip)]",
            "",
            single_tables(
                "BY_HALF",
                "`z = Φ̄⁻¹(p)` by half octave, 16 octaves, transposed, in the order of the kernels' index.",
                2,
                2 * SINGLE_OCTAVES,
                SINGLE_DEGREE,
                None,
            ),
            "",
            single_tables(
                "BY_OCTAVE",
                "The same by whole octave, 8 octaves, for AVX2 and NEON.",
                1,
                SINGLE_OCTAVES // 2,
                SINGLE_OCTAVE_DEGREE,
                'any(target_arch = "x86_64", target_arch = "aarch64")',
            ),
            "",
        ]
    )


def mills_file() -> str:
    """Return the text of mills.rs."""
    lines = [
        "//! Mills' ratio at the nodes `t_k = k/16`. Written by `generate.py`, checked by `verify.py`.",
        "",
        '#![allow(clippy::unreadable_literal, reason = "generated")]',
        "#![cfg_attr(rustfmt, rustfmt_skip)]",
        "",
        "/// One node: `⌊2¹²⁶·M(t)⌋`, and `1/φ(t)` as `⌊mantissa⌋ · 2^(exponent − 127)`, `2¹²⁷ ≤ mantissa < 2¹²⁸`.",
        "pub(crate) struct Node {",
        "    /// `⌊2¹²⁶·Φ̄(t)/φ(t)⌋`.",
        "    pub(crate) mills: u128,",
        "    /// Leading 128 bits of `1/φ(t)`, rounded down.",
        "    pub(crate) inverse_density: u128,",
        "    /// `⌊log₂(1/φ(t))⌋`.",
        "    pub(crate) exponent: u32,",
        "}",
        "",
        "/// The nodes, `t_k = k/16`.",
        f"pub(crate) static MILLS_NODES: [Node; {MILLS_NODES}] = [",
    ]
    for k in range(MILLS_NODES):
        t = mp.mpf(k) / 16
        density = mp.exp(-t * t / 2) / mp.sqrt(2 * mp.pi)
        mills = int(mp.floor(mp.erfc(t / mp.sqrt(2)) / 2 / density * mp.mpf(2) ** 126))
        exponent = int(mp.floor(mp.log(1 / density, 2)))
        mantissa = int(mp.floor(mp.mpf(2) ** (127 - exponent) / density))
        lines.append(f"    Node {{ mills: 0x{mills:032x}, inverse_density: 0x{mantissa:032x}, exponent: {exponent} }},")
    ln2 = int(mp.floor(mp.log(2) * mp.mpf(2) ** 126))
    lines += ["];", "", "/// `⌊2¹²⁶·ln 2⌋`.", f"pub(crate) const LN_2: u128 = 0x{ln2:032x};", ""]
    return "\n".join(lines)


def main() -> int:
    """Write or check the files."""
    changed = 0
    for name, text in {"quantile.rs": quantile_file(), "single.rs": single_file(), "mills.rs": mills_file()}.items():
        path = HERE / name
        if "--check" in sys.argv:
            if not path.exists() or path.read_text() != text:
                print(f"{path} is not what this script writes; run: python {Path(__file__)}")
                changed = 1
        else:
            path.write_text(text)
    return changed


if __name__ == "__main__":
    raise SystemExit(main())
