"""Lesson 4: the low bits of floating-point noise tell the value below it; a grid has none."""

from __future__ import annotations

import numpy as np

import ferrodp as fd
from ferrodp.explorer.cells import cell_of
from ferrodp.explorer.figures import (
    Answer,
    Control,
    Figure,
    Lesson,
    Parameters,
    Plot,
    Prediction,
    Role,
    Series,
    Try,
    Value,
)

_FINEST = -53
"""Every double 1 + x, rounded, is a multiple of 2 to this power: nothing that world 1 releases has a lower bit."""


def _float_sampler(value: float, scale: float, draws: int, seed: int) -> np.ndarray:
    """Add Laplace noise as textbooks do: the logarithm of a uniform double, a random sign, and one addition."""
    generator = np.random.default_rng(seed)
    sign = np.where(generator.random(draws) < 0.5, -1.0, 1.0)
    return value + scale * sign * np.log(1.0 - generator.random(draws))


def _grid_sampler(value: float, scale: float, draws: int, seed: int) -> np.ndarray:
    """Add Laplace noise as this library does: the sum is an integer times a power of two fixed in advance."""
    mechanism = fd.LaplaceMechanism(scale=scale, l1_sensitivity=1.0)
    return mechanism.release(np.full(draws, value), source=fd.testing.seeded(seed.to_bytes(32, "big")))


def _lowest_bit(values: np.ndarray) -> np.ndarray:
    """Return the exponent of the lowest bit that is set in each double."""
    mantissa, exponent = np.frexp(values)
    integer = np.ldexp(mantissa, 53).astype(np.int64)
    return np.asarray(exponent - 53 + np.log2(np.maximum(integer & -integer, 1)).astype(np.int64))


def low_bits(scale: float, draws: int, seed: int) -> dict[str, Value]:
    """Release 0 and release 1 many times by both samplers; count the outputs that only the value 0 can lead to."""
    found: dict[str, Value] = {}
    away, alike = {}, {}
    for name, sampler in (("float", _float_sampler), ("grid", _grid_sampler)):
        zero, one = sampler(0.0, scale, draws, seed), sampler(1.0, scale, draws, seed + 1)
        away[f"Releases of 0 that give themselves away, {name}"] = int((_lowest_bit(zero) < _FINEST).sum())
        alike[f"Releases of 1 that have such a bit, {name}"] = int((_lowest_bit(one) < _FINEST).sum())
    found |= away | alike
    found["ε that both samplers claim"] = 1.0 / scale
    found["Lowest bit on the grid, as a power of 2"] = int(_lowest_bit(_grid_sampler(0.0, scale, draws, seed)).min())
    return found


def _compute(parameters: Parameters) -> Answer:
    numbers = low_bits(**parameters)
    scale, draws, seed = parameters["scale"], parameters["draws"], parameters["seed"]
    plots = []
    for title, sampler in (
        ("Textbook sampler in floating point", _float_sampler),
        ("FerroDP: noise on a grid", _grid_sampler),
    ):
        places = np.arange(-62, -23)
        series = []
        roles: tuple[tuple[float, Role], ...] = ((0.0, "a"), (1.0, "b"))
        for value, role in roles:
            bits = np.clip(_lowest_bit(sampler(value, scale, draws, seed + int(value))), -62, -24)
            share = np.bincount(bits + 62, minlength=len(places)) / draws
            series.append(Series(f"value {value:.0f}", x=places, y=share, kind="bars", role=role))
        plots.append(
            Plot(
                title,
                "Lowest bit of the released number, as a power of 2",
                "Share of releases",
                tuple(series),
                marks=((_FINEST - 0.5, "2⁻⁵³"),),
            )
        )
    leaks = numbers["Releases of 0 that give themselves away, float"]
    sentence = (
        f"{leaks} of {draws} textbook releases of 0 have a bit below 2⁻⁵³, which no release of 1 can have: whoever "
        f"sees one knows the "
        f"value for certain, although ε = {1 / scale:.3g} is claimed. On the grid there are "
        f"{numbers['Releases of 0 that give themselves away, grid']}."
    )
    return Answer(sentence, numbers, tuple(plots), cell_of(low_bits, parameters))


LESSON = Lesson(
    name="leak",
    title="Noise leaks",
    idea="Can you read a secret off the last bits of its noise?",
    person="A patient's result is 0 or 1. The hospital adds Laplace noise to it, as its textbook says, and "
    "publishes a number with sixteen digits.",
    question=Prediction(
        "The textbook proves that 0 and 1 lead to nearly the same numbers. How many releases of the program prove "
        "their value?",
        ("None", "One in a million", "More than one in four"),
        2,
        "The proof is about real numbers. A computer's sum 1 + x has lost the bits of x that are too small for it, "
        "and a "
        "release that has such bits cannot come from a 1.",
    ),
    tries=(Try("Ten times the noise", {"scale": "10"}), Try("ε = 10", {"scale": "0.1"})),
    text="""
<p>The proof of the Laplace mechanism is about real numbers. A program has doubles. The textbook way to draw the noise
is to take the logarithm of a uniform random number, and to add the value. Both worlds seem to look alike: released
are numbers such as 0.4817….</p>
<p>Look at the <em>low bits</em>. A double has 53 significant bits, so a small number has very fine ones. A release of
0 is the noise itself, with all its low bits. A release of 1 is 1 plus the noise: the addition rounds, and all bits
below 2<sup>−53</sup> are lost for ever, even where the sum is near 0. A single output with a lower bit proves that
the value was 0. Draw again: it is more than one in four at scale 1. Whatever ε is claimed, the true δ is
at least the chance of such an output.</p>
<p>FerroDP does not add noise to a double. It fixes a power of two g before any data is seen, and releases <em>k ·
g</em>, where the integer k is drawn exactly from the law of the real mechanism rounded to the grid. Both worlds reach
the same numbers, with the probabilities of the theorem. Rounding to a grid that does not depend on data is
post-processing, and costs nothing.</p>
<p>The seed on this page makes the picture repeatable. Real releases take a fresh key from the operating system for
every call: noise that somebody can predict is no noise.</p>
""",
    figure=Figure(
        "leak",
        (
            Control(
                "scale", "Scale of the noise, 1/ε", 1.0, 0.1, 10.0, "log", low_label="ε = 10", high_label="ε = 0.1"
            ),
            Control(
                "draws",
                "Releases of each value",
                2000,
                100,
                10_000,
                "log",
                integer=True,
                low_label="few",
                high_label="many",
            ),
        ),
        _compute,
        seeded=True,
        main=("scale", "draws"),
    ),
    why="""
<p><strong>Why no release of 1 has a bit below 2<sup>−53</sup>.</strong> Let x be a double. If −2 ≤ x ≤ −½, the sum 1
+ x is exact (Sterbenz 1974), and so a multiple of the last place of x, which is at least 2<sup>−53</sup>. Otherwise
|1 + x| ≥ ½, and the sum is rounded to a double of at least this size, whose last place is at least 2<sup>−53</sup>.
So all results are multiples of it. ∎</p>
<p>Mironov, "On significance of the least significant bits for differential privacy", CCS 2012, showed how such sets
of reachable numbers break textbook Laplace samplers, and that rounding to a grid repairs them. Jin, McMurtry,
Rubinstein, Ohrimenko (S&amp;P 2022) and Haney, Desfontaines, Hartman, Shrestha, Hay (2022) extend such attacks to
Gaussian noise and to other samplers.</p>
<p>Exactness needs more than a grid: tails must not be cut off, and the law of k must be that of the theorem, not of
its floating-point evaluation. Canonne, Kamath and Steinke (NeurIPS 2020) give exact samplers on the integers.</p>
""",
    terms=("floating-point noise", "secure randomness", "post-processing"),
)
