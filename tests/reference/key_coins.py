"""The coins of keys by weight, slow and obvious: one weight after another, each by halving, in mpmath."""

from __future__ import annotations

import mpmath

Divergence = mpmath.mpf


def moment(alpha: float, p: Divergence, q: Divergence) -> Divergence:
    """Return (α − 1) times the Rényi divergence of a coin p from a coin q."""
    return mpmath.log(p**alpha * q ** (1 - alpha) + (1 - p) ** alpha * (1 - q) ** (1 - alpha))


def cost(alpha: float, p: Divergence, q: Divergence) -> Divergence:
    """Return the larger Rényi divergence of two coins."""
    return max(moment(alpha, p, q), moment(alpha, q, p)) / (alpha - 1)


def largest(alpha: float, rho: float, delta: float, weights: dict[int, int], most: int) -> list[Divergence]:
    """Return the largest probabilities of the weights 1, …, most, given the weight w(d) of each number of keys d."""
    found = [mpmath.mpf(0)]
    for s in range(1, most + 1):
        bounds = [mpmath.mpf(delta) / d for d, w in weights.items() if s <= w]
        for d, w in weights.items():
            if s > w:
                q = found[s - w]
                low, high = q, mpmath.mpf(1)
                for _ in range(40):
                    middle = (low + high) / 2
                    is_within = middle < 1 and cost(alpha, middle, q) <= mpmath.mpf(rho) / d
                    low, high = (middle, high) if is_within else (low, middle)
                bounds.append(low)
        found.append(min(bounds))
    return found
