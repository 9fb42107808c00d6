"""Pairs of laws through their privacy loss, from the definitions, in mpmath: slow and obvious.

A pair is named as in `ferrodp.accounting._laws.dominating_pairs`: a tuple, its kind first. `masses` has P- and Q-mass
of finite losses in (lower, upper], `infinite` the P-mass of the loss +∞ and the Q-mass of −∞, `delta` is the hockey
stick P[L > ε] − e^ε·Q[L > ε]. Boundaries that are atoms are the caller's mistake for ``reversed``.
"""

import itertools

import mpmath as mp


def masses(pair, lower, upper, digits=60):
    """Return (P, Q) of the finite losses in (lower, upper]."""
    with mp.workdps(digits):
        lower, upper = mp.mpf(lower), mp.mpf(upper)
        if lower >= upper:
            return mp.mpf(0), mp.mpf(0)
        return _MASSES[pair[0]](lower, upper, *pair[1:])


def infinite(pair, digits=60):
    """Return P[L = ∞] and Q[L = −∞]."""
    with mp.workdps(digits):
        kind = pair[0]
        if kind == "epsilon_delta":
            return mp.mpf(pair[2]), mp.mpf(pair[2])
        if kind == "discrete_gaussian" and not mp.isinf(mp.mpf(pair[3])):
            sigma, shift, cut = _integers(pair)
            support = range(-cut, cut + 1)
            beyond = mp.fsum(_bell(x, sigma) for x in support if x + shift > cut)
            share = beyond / mp.fsum(_bell(x, sigma) for x in support)
            return share, share
        if kind == "poisson_sampled":
            q, (top, bottom) = mp.mpf(pair[1]), infinite(pair[2], digits)
            return q * top, bottom if q == 1 else mp.mpf(0)
        if kind == "reversed":
            return tuple(reversed(infinite(pair[1], digits)))
        return mp.mpf(0), mp.mpf(0)


def delta(pair, epsilon, digits=60):
    """Return δ(ε), from −∞ to ∞, to `digits` digits less those that cancel."""
    with mp.workdps(digits):
        p, q = masses(pair, epsilon, mp.inf, digits)
        return p - mp.exp(mp.mpf(epsilon)) * q + infinite(pair, digits)[0]


def _between(a, b):
    """Φ(b) − Φ(a), from the tails on the side where they are short."""
    if b <= 0:
        a, b = -b, -a
    if a >= 0:
        return (mp.erfc(a / mp.sqrt(2)) - mp.erfc(b / mp.sqrt(2))) / 2
    return (mp.erf(b / mp.sqrt(2)) - mp.erf(a / mp.sqrt(2))) / 2


def _gaussian(lower, upper, z):
    z = mp.mpf(z)
    half = 1 / (2 * z)
    return tuple(_between(lower * z + sign * half, upper * z + sign * half) for sign in (-1, 1))


def _laplace(lower, upper, b):
    """From the law of x: L = (|x − 1| − |x|)/b, P around 0, Q around 1."""
    b = mp.mpf(b)
    top = 1 / b
    p = q = mp.mpf(0)
    if lower < top <= upper:
        p, q = p + mp.mpf(1) / 2, q + mp.exp(-top) / 2
    if lower < -top <= upper:
        p, q = p + mp.exp(-top) / 2, q + mp.mpf(1) / 2
    low, high = max(lower, -top), min(upper, top)
    if low < high:
        start, end = (1 - high * b) / 2, (1 - low * b) / 2  # 0 ≤ start < end ≤ 1
        p += (mp.exp(-start / b) - mp.exp(-end / b)) / 2
        q += (mp.exp(-(1 - end) / b) - mp.exp(-(1 - start) / b)) / 2
    return p, q


def _bell(x, sigma):
    return mp.exp(-(mp.mpf(x) ** 2) / (2 * sigma**2))


def _theta(sigma):
    """Σ e^{−x²/2σ²}; where σ is large by Poisson summation."""
    if sigma < 3:
        return mp.jtheta(3, 0, mp.exp(-1 / (2 * sigma**2)))
    return sigma * mp.sqrt(2 * mp.pi) * mp.jtheta(3, 0, mp.exp(-2 * (mp.pi * sigma) ** 2))


def _integers(pair):
    return mp.mpf(pair[1]), int(pair[2]), int(pair[3])


def _discrete_gaussian(lower, upper, sigma, shift, cut):
    """The loss at x is Δ(2x − Δ)/2σ²; P is around Δ, Q around 0."""
    sigma, shift = mp.mpf(sigma), int(shift)
    first = -mp.inf if mp.isinf(lower) else mp.floor(lower * sigma**2 / shift + mp.mpf(shift) / 2) + 1
    last = mp.inf if mp.isinf(upper) else mp.floor(upper * sigma**2 / shift + mp.mpf(shift) / 2)
    if mp.isinf(mp.mpf(cut)):
        far = int(mp.ceil(sigma * mp.sqrt(2 * mp.mp.dps * mp.log(10)))) + shift + 1
        start = max(first, min(-far, last - far))  # the rest is below the last digit
        end = min(last, max(far, start + far))
        total = _theta(sigma)
    else:
        start, end = max(first, shift - int(cut)), min(last, int(cut))
        total = mp.fsum(_bell(x, sigma) for x in range(-int(cut), int(cut) + 1))
    inside = range(int(start), int(end) + 1)
    return tuple(mp.fsum(_bell(x - move, sigma) for x in inside) / total for move in (shift, 0))


def _discrete_laplace(lower, upper, b, shift):
    """The loss at x is (|x − Δ| − |x|)/b; P is around 0, Q around Δ; all x ≤ 0 and all x ≥ Δ in one."""
    b, shift = mp.mpf(b), int(shift)
    r = mp.exp(-1 / b)
    p = q = mp.mpf(0)
    for j in range(shift + 1):
        if lower < (shift - 2 * j) / b <= upper:
            p += _step(j, shift, r)
            q += _step(shift - j, shift, r)
    return p, q


def _step(j, shift, r):
    return (1 if j == 0 else r**shift if j == shift else r**j * (1 - r)) / (1 + r)


def _randomized_response(lower, upper, noise, answers):
    noise, answers = mp.mpf(noise), int(answers)
    other = noise / answers
    truth = 1 - noise + other
    return _atoms(lower, upper, [(truth, other), (other, truth), (other * (answers - 2),) * 2])


def _randomized_response_or_uniform(lower, upper, noise, answers):
    noise, answers = mp.mpf(noise), int(answers)
    other = noise / answers
    rest = answers - 1
    return _atoms(lower, upper, [(1 - noise + other, mp.mpf(1) / answers), (rest * other, mp.mpf(rest) / answers)])


def _epsilon_delta(lower, upper, epsilon, delta):
    large, small = (1 - mp.mpf(delta)) / (1 + mp.exp(-mp.mpf(epsilon))), (1 - mp.mpf(delta)) / (1 + mp.exp(epsilon))
    return _atoms(lower, upper, [(large, small), (small, large)])


def _atoms(lower, upper, pairs):
    inside = [(p, q) for p, q in pairs if p and q and lower < mp.log(p / q) <= upper]
    return mp.fsum(p for p, _ in inside), mp.fsum(q for _, q in inside)


def _mixture_of_gaussians(lower, upper, z, shifts, weights):
    z, total = mp.mpf(z), mp.fsum(mp.mpf(weight) for weight in weights)
    parts = [
        (mp.mpf(weight) / total, mp.mpf(shift) / z) for shift, weight in zip(shifts, weights, strict=True) if weight
    ]

    def loss(x):
        return mp.log(mp.fsum(weight * mp.exp(shift * x - shift**2 / 2) for weight, shift in parts))

    bottom = mp.fsum(weight for weight, shift in parts if not shift)
    a, b = (_inverse(loss, end, mp.log(bottom) if bottom else -mp.inf) for end in (lower, upper))
    return mp.fsum(weight * _between(a - shift, b - shift) for weight, shift in parts), _between(a, b)


def _antipodal_gaussian(lower, upper, q, z):
    q, s = mp.mpf(q), 1 / (2 * mp.mpf(z))

    def loss(x):
        above, below = (1 - q + q * mp.exp(sign * s * x - s * s / 2) for sign in (1, -1))
        return mp.log(above / below)

    a, b = (_inverse(loss, end, -mp.inf) for end in (lower, upper))
    return tuple((1 - q) * _between(a, b) + q * _between(a - sign * s, b - sign * s) for sign in (1, -1))


def _inverse(loss, value, bottom):
    """Return where a rising function takes a value, by bisection and a bracketing secant method."""
    if mp.isinf(value):
        return value
    if value <= bottom:
        return -mp.inf
    low, high = mp.mpf(-1), mp.mpf(1)
    while loss(low) > value:
        low *= 2
    while loss(high) < value:
        high *= 2
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if loss(middle) > value else (middle, high)
    return mp.findroot(
        lambda x: loss(x) - value, (low, high), solver="anderson", tol=mp.mpf(10) ** (10 - 2 * mp.mp.dps)
    )


def _poisson_sampled(lower, upper, q, inner):
    q = mp.mpf(q)

    def unsampled(loss):
        ratio = 1 + mp.expm1(loss) / q
        return mp.log(ratio) if ratio > 0 else -mp.inf

    a, b = (end if end == mp.inf else unsampled(end) for end in (lower, upper))
    inner_p, inner_q = (mp.mpf(0), mp.mpf(0)) if a >= b else masses(inner, a, b, mp.mp.dps)
    if lower < mp.log1p(-q) <= upper:
        inner_q += infinite(inner, mp.mp.dps)[1]
    return q * inner_p + (1 - q) * inner_q, inner_q


def _fixed_size(lower, upper, q, inner):
    """The losses > 0 of the Poisson sampled pair, their mirror image, and the rest at 0."""
    sampled = ("poisson_sampled", q, inner)
    above = masses(sampled, 0, mp.inf, mp.mp.dps)
    p, q = masses(sampled, max(lower, 0), upper, mp.mp.dps) if upper > 0 else (mp.mpf(0), mp.mpf(0))
    if lower < 0:
        mirrored = masses(sampled, max(-upper, 0), -lower, mp.mp.dps)
        p, q = p + mirrored[1], q + mirrored[0]
        if upper >= 0:
            rest = 1 - above[0] - above[1] - infinite(sampled)[0]
            p, q = p + rest, q + rest
    return p, q


def _reversed(lower, upper, inner):
    return tuple(reversed(masses(inner, -upper, -lower, mp.mp.dps)))


_MASSES = {
    "gaussian": _gaussian,
    "laplace": _laplace,
    "discrete_gaussian": _discrete_gaussian,
    "discrete_laplace": _discrete_laplace,
    "randomized_response": _randomized_response,
    "randomized_response_or_uniform": _randomized_response_or_uniform,
    "epsilon_delta": _epsilon_delta,
    "mixture_of_gaussians": _mixture_of_gaussians,
    "antipodal_gaussian": _antipodal_gaussian,
    "poisson_sampled": _poisson_sampled,
    "fixed_size_sampled": _fixed_size,
    "reversed": _reversed,
}


def from_densities(p, q, epsilon, points, digits=25):
    """Return ∫(p − e^ε·q)₊ of two densities over a line cut at `points`, by quadrature: no losses, no inverses.

    The integrand has kinks where it becomes 0; between the points it should have one change of sign at most, which is
    found by bisection.
    """
    with mp.workdps(digits):
        factor = mp.exp(mp.mpf(epsilon))

        def excess(x):
            return p(x) - factor * q(x)

        total = mp.mpf(0)
        for a, b in itertools.pairwise(points):
            a, b = mp.mpf(a), mp.mpf(b)
            middle = _change(excess, a, b)
            for start, end in ((a, middle), (middle, b)):
                if start < end and excess((start + end) / 2) > 0:
                    total += mp.quad(excess, mp.linspace(start, end, 9))
        return total


def from_masses(p, q, epsilon, support, digits=40):
    """Return Σ(p − e^ε·q)₊ of two laws on integers."""
    with mp.workdps(digits):
        factor = mp.exp(mp.mpf(epsilon))
        return mp.fsum(max(p(x) - factor * q(x), 0) for x in support)


def _change(function, a, b):
    if (function(a) > 0) == (function(b) > 0):
        return b
    rising = function(b) > 0
    for _ in range(mp.mp.prec):
        middle = (a + b) / 2
        a, b = (a, middle) if (function(middle) > 0) == rising else (middle, b)
    return a
