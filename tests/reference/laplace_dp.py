"""The Laplace privacy curve from its definition, in mpmath: the integral of what one density has over e^ε the other."""

import mpmath as mp


def delta(epsilon, shift, digits=50):
    """∫ max(0, p − e^ε·q) for p and q Laplace densities of scale 1 around 0 and `shift` > 0, piece by piece.

    p/q is e^shift on the left of 0, falls to e^−shift at `shift`, and stays there: each piece is integrated exactly
    where the integrand is positive.
    """
    with mp.workdps(digits + 20):
        e, s = mp.mpf(epsilon), mp.mpf(shift)

        def over(low, high):
            """∫ p − e^ε·q over [low, high], which lies on one side of 0 and of `shift`."""
            return _mass(low, high, mp.mpf(0)) - mp.exp(e) * _mass(low, high, s)

        total = mp.mpf(0)
        if e < s:
            total += over(-mp.inf, mp.mpf(0))
            crossing = (s - e) / 2  # where (shift − x) − x = ε
            total += over(mp.mpf(0), min(max(crossing, mp.mpf(0)), s))
        if e < -s:
            total += over(s, mp.inf)
        return total


def _mass(low, high, center):
    """Mass of the density e^{−|x − center|}/2 on an interval that does not contain the center inside."""
    if high <= center:
        return (mp.exp(high - center) - mp.exp(low - center)) / 2
    return (mp.exp(center - low) - mp.exp(center - high)) / 2
