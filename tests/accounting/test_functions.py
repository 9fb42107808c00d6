"""Elementary functions and normal masses against mpmath: what every error budget of the accounting stands on."""

import math
import random

import mpmath as mp
import pytest

from support.native_testing import testing

UNIT = 2.0**-53
ALLOWED = 8  # `functions::RELATIVE_ERROR` in units
MASS_ALLOWED = 128  # `functions::normal::RELATIVE_ERROR` in units
POINTS = 12000

DOMAINS = {
    "exp": lambda draw: draw.choice([draw.uniform(-708, 709), draw.gauss(0, 1), log(draw, 1e-20, 1)]),
    "expm1": lambda draw: draw.choice([draw.uniform(-40, 709), draw.gauss(0, 1), -log(draw, 1e-300, 1)]),
    "ln": lambda draw: draw.choice([log(draw, 1e-307, 1e308), draw.uniform(0.5, 2), 1 + log(draw, 1e-15, 0.1)]),
    "ln_1p": lambda draw: draw.choice(
        [log(draw, 1e-300, 1e300), -log(draw, 1e-300, 0.999), -1 + log(draw, 1e-15, 0.5)]
    ),
    "erf": lambda draw: draw.choice([draw.uniform(-6, 6), log(draw, 1e-300, 1), draw.uniform(0.8, 1.3)]),
    "erfc": lambda draw: draw.choice([draw.uniform(-6, 26.5), draw.uniform(0, 3), draw.uniform(0.8, 1.3)]),
    "sin": lambda draw: draw.choice([draw.uniform(-20, 20), draw.uniform(-1e9, 1e9), log(draw, 1e-300, 1)]),
    "cos": lambda draw: draw.choice([draw.uniform(-20, 20), draw.uniform(-1e9, 1e9), log(draw, 1e-300, 1)]),
}
EXACT = {"ln": mp.log, "ln_1p": mp.log1p}


def log(draw, low, high):
    return math.exp(draw.uniform(math.log(low), math.log(high)))


@pytest.mark.parametrize("name", DOMAINS)
def test_no_more_than_a_part_of_the_allowed_error_is_used(name):
    part = 0.5 if name == "erfc" else 0.25
    draw = random.Random(name)
    points = [DOMAINS[name](draw) for _ in range(POINTS)]
    exact = EXACT.get(name) or getattr(mp, name)
    with mp.workdps(40):
        for point, computed in zip(points, testing.elementary(name, points), strict=True):
            truth = exact(mp.mpf(point))
            assert abs(computed - truth) <= part * ALLOWED * UNIT * abs(truth), (name, point)


def test_mills_ratio():
    """Its budget is 22 units below 20, 6 beyond."""
    draw = random.Random(1)
    points = [draw.choice([draw.uniform(0, 20), log(draw, 20, 1e100), log(draw, 1e-10, 1)]) for _ in range(2000)]
    points += [0.0, math.nextafter(20.0, 0.0), 20.0]
    with mp.workdps(40):
        for point, computed in zip(points, testing.elementary("mills", points), strict=True):
            x = mp.mpf(point)
            truth = mp.erfc(x / mp.sqrt(2)) * mp.exp(x * x / 2) * mp.sqrt(mp.pi / 2) if x < 1e4 else 1 / x - 1 / x**3
            assert abs(computed - truth) <= (22 if x < 20 else 6) * UNIT * truth, point


def test_normal_masses_keep_their_relative_error_at_any_size():
    draw = random.Random(2)
    with mp.workdps(80):
        for _ in range(4000):
            a = draw.choice([draw.uniform(-37, 37), draw.gauss(0, 1), draw.uniform(-300, 300)])
            width = draw.choice([log(draw, 1e-14, 1), log(draw, 1, 100), math.inf])
            a, b = draw.choice([(a, a + width), (-a - width, -a)])
            c = a * a / 2 * draw.choice([0, 1]) if math.isfinite(a) and a > 0 else draw.uniform(-5, 5)
            if a >= b:
                continue
            truth = mp.exp(mp.mpf(c)) * mass(mp.mpf(a), mp.mpf(b))
            if not mp.mpf("1e-300") < truth < mp.mpf("1e300"):
                continue

            assert abs(testing.normal_mass(a, b, c) - truth) <= MASS_ALLOWED * UNIT * truth, (a, b, c)


def mass(a, b):
    if b <= 0:
        a, b = -b, -a
    if a >= 0:
        return (mp.erfc(a / mp.sqrt(2)) - mp.erfc(b / mp.sqrt(2))) / 2
    return (mp.erf(b / mp.sqrt(2)) - mp.erf(a / mp.sqrt(2))) / 2
