"""Rényi divergences of samples from finite laws and from densities, by their definitions, in mpmath."""

import mpmath as mp


def divergence(p, q, order):
    """Return D_α(P‖Q) of two lists of probabilities, all > 0."""
    a = mp.mpf(order)
    if a == 1:
        return mp.fsum(x * mp.log(x / y) for x, y in zip(p, q, strict=True))
    if a == mp.inf:
        return max(mp.log(x / y) for x, y in zip(p, q, strict=True))
    return mp.log(mp.fsum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True))) / (a - 1)


def worst(p, q, order):
    """Return the larger one of both directions."""
    return max(divergence(p, q, order), divergence(q, p, order))


def mixed(q, without, taken):
    """Return the law of a result about a sample that has the record with chance q."""
    return [(1 - q) * a + q * b for a, b in zip(without, taken, strict=True)]


def discrete_gaussian(scale, shift, reach):
    """Return the law of shift + noise on the integers from −reach to reach, far beyond which nothing matters."""
    weights = [mp.exp(-(mp.mpf(x - shift) ** 2) / (2 * mp.mpf(scale) ** 2)) for x in range(-reach, reach + 1)]
    total = mp.fsum(weights)
    return [weight / total for weight in weights]


def mixture_of_gaussians(distances, weights, order):
    """Return both directions' divergences of Σ pᵢ·N(aᵢ, 1) and N(0, 1), by quadrature of the definition."""
    a, reach = mp.mpf(order), float(order) * max(distances)
    parts = [(mp.mpf(w), mp.mpf(d)) for w, d in zip(weights, distances, strict=True)]

    def ratio(t):
        return mp.fsum(w * mp.exp(d * t - d * d / 2) for w, d in parts)

    def mean(power, low, high):
        return mp.quad(
            lambda t: mp.npdf(t) * ratio(t) ** power, mp.linspace(low, high, 2 + int((high - low) / 6)), maxdegree=5
        )

    removed, added = mean(a, -12, reach + 12), mean(1 - a, -12 - reach, 12)
    return mp.log(removed) / (a - 1), mp.log(added) / (a - 1)
