"""Optimal composition from its definition, in mpmath and rationals: sums over all outcomes of randomized responses."""

import itertools

import mpmath as mp


def pure_delta(epsilon, count, total, digits=40):
    """δ(total) of `count` (ε, 0)-private mechanisms: Kairouz, Oh, Viswanath 2015; the plain binomial sum."""
    with mp.workdps(digits + 40):  # no term is negative, so that nothing is lost but between the two parts of a term
        e, at = mp.mpf(epsilon), mp.mpf(total)
        step, last = mp.exp(e), mp.exp(at)
        terms, ways = [], mp.mpf(1)
        for j in range(count + 1):
            if (2 * j - count) * e > at:
                terms.append(ways * (step**j - last * step ** (count - j)))
            ways = ways * (count - j) / (j + 1)
        return mp.fsum(terms) / (1 + step) ** count


def delta(guarantees, total, digits=40):
    """δ(total) of different (ε, δ) mechanisms: Murtagh, Vadhan 2016, Theorem 1.5, over all 2^k outcomes."""
    with mp.workdps(digits + 20):
        at, survival, pure = mp.exp(mp.mpf(total)), mp.mpf(1), mp.mpf(0)
        for _, failure in guarantees:
            survival *= 1 - mp.mpf(failure)
        for signs in itertools.product((1, -1), repeat=len(guarantees)):
            p, q = mp.mpf(1), mp.mpf(1)
            for sign, (epsilon, _) in zip(signs, guarantees, strict=True):
                right = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
                p *= right if sign > 0 else 1 - right
                q *= 1 - right if sign > 0 else right
            pure += max(p - at * q, mp.mpf(0))
        return 1 - survival * (1 - pure)


def epsilon(function, target, high, digits=30):
    """The smallest ε ≥ 0 with function(ε) ≤ target, by bisection on [0, high]."""
    with mp.workdps(digits + 20):
        low, high, target = mp.mpf(0), mp.mpf(high), mp.mpf(target)
        if function(low) <= target:
            return low
        while high - low > high * mp.mpf(10) ** -digits:
            middle = (low + high) / 2
            low, high = (middle, high) if function(middle) > target else (low, middle)
        return high
