"""The Gaussian privacy curve from its definition, in mpmath: slow, and by complementary error functions alone."""

import mpmath as mp


def mills(x, digits=60):
    """Φ̄(x)/φ(x)."""
    with mp.workdps(digits + 20):
        x = mp.mpf(x)
        return _upper_tail(x) * mp.sqrt(2 * mp.pi) * mp.exp(x * x / 2)


def delta(epsilon, mu, digits=50):
    """δ(ε) of N(0, 1) against N(μ, 1): Balle and Wang 2018, Theorem 8; `mu` may be a pair, numerator and denominator.

    Each term is correct to `digits` digits of the *difference*: the precision grows until that is so.
    """
    precision = digits + 20
    while True:
        with mp.workdps(precision):
            e, m = mp.mpf(epsilon), _number(mu)
            first = _upper_tail(e / m - m / 2)
            second = mp.exp(e) * _upper_tail(e / m + m / 2)
            if first - second > first * mp.mpf(10) ** (digits + 10 - precision):
                return first - second
        precision *= 2
        if precision > 4000:
            raise ArithmeticError("the two terms agree to more digits than expected")


def epsilon(target, mu, digits=40):
    """The ε ≥ 0 with δ(ε; μ) = target, by bisection; 0 if δ(0) ≤ target."""
    with mp.workdps(digits + 20):
        target = mp.mpf(target)
        if delta(0, mu, digits) <= target:
            return mp.mpf(0)
        low, high = mp.mpf(0), mp.mpf(1)
        while delta(high, mu, digits) > target:
            low, high = high, 2 * high
        while high - low > high * mp.mpf(10) ** -digits:
            middle = (low + high) / 2
            low, high = (middle, high) if delta(middle, mu, digits) > target else (low, middle)
        return high


def _number(value):
    return mp.mpf(value[0]) / mp.mpf(value[1]) if isinstance(value, tuple) else mp.mpf(value)


def _upper_tail(x):
    return mp.erfc(x / mp.sqrt(2)) / 2
