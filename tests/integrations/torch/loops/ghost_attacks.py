"""Searches for a batch in which one example moves the sum by more than the clip norm: none may be found.

    .venv-frameworks/torch/bin/python tests/integrations/torch/loops/ghost_attacks.py [BATCHES]

Sums are those of `_ghost.GhostSum`, as private loops form them; distances are exact, of the floats that were summed.
"""

import math
import sys
from fractions import Fraction

import torch

from ferrodp.integrations.torch._bound import Bound
from ferrodp.integrations.torch._ghost import GhostSum
from ferrodp.integrations.torch._tape import Lookups, Pairs, Rows

WORDS = 6


def rows(generator, n, t, width, kind):
    """Return rows of float32 that are hard on sums: far apart in size, cancelling, nearly equal, or none of it."""
    x = torch.randn(n, t, width, generator=generator)
    if kind == "far apart":
        return torch.ldexp(x, torch.randint(-40, 40, x.shape, generator=generator))
    if kind == "cancelling" and t > 1:
        half = t // 2
        x[:, half : 2 * half] = -x[:, :half] * (1.0 + 2.0**-20 * torch.randn(n, half, 1, generator=generator))
        return x * 1e3
    if kind == "equal":
        return x[:, :1].expand(n, t, width) * (1.0 + 2.0**-22 * torch.randn(n, t, 1, generator=generator))
    if kind == "huge":
        return x * 1e18
    return x


KINDS = ("plain", "far apart", "cancelling", "equal", "huge")


def uses_of(generator, n, t):
    """Return uses of a matrix, a table that is a matrix too, and a vector."""

    def pick():
        return KINDS[int(torch.randint(len(KINDS), (), generator=generator))]

    alike = pick()
    left, right = rows(generator, n, t, 3, alike), rows(generator, n, t, 4, pick())
    if alike == "cancelling":
        half = t // 2
        right[:, half : 2 * half] = right[:, :half]
    words = torch.randint(WORDS, (n, t), generator=generator)
    return {
        "matrix": [Pairs(left, right)],
        "tied": [
            Lookups(words, rows(generator, n, t, 2, pick())),
            Pairs(rows(generator, n, t, WORDS, pick()), rows(generator, n, t, 2, pick())),
        ],
        "vector": [Rows(rows(generator, n, 1, 5, pick())[:, 0])],
    }


SHAPES = {"matrix": torch.Size((3, 4)), "tied": torch.Size((WORDS, 2)), "vector": torch.Size((5,))}


def some(uses, keep):
    """Return the uses of some of the examples."""
    return {
        name: [type(use)(*(getattr(use, field)[keep] for field in type(use).__slots__)) for use in each]
        for name, each in uses.items()
    }


def scaled(uses, keep, factor):
    """Return uses with the gradients of some examples scaled."""
    changed = {}
    for name, each in uses.items():
        changed[name] = []
        for use in each:
            fields = {field: getattr(use, field).clone() for field in type(use).__slots__}
            first = next(field for field in ("left", "values", "gradients") if field in fields)
            fields[first][keep] *= factor
            changed[name].append(type(use)(**fields))
    return changed


def summed(uses, clip_norm, most=64, stability=None):
    n = len(
        next(iter(uses.values()))[0].gradients
        if "gradients" in type(next(iter(uses.values()))[0]).__slots__
        else getattr(next(iter(uses.values()))[0], type(next(iter(uses.values()))[0]).__slots__[0])
    )
    total = GhostSum(torch, SHAPES, Bound.of(most), torch.device("cpu"), stability)
    real = torch.ones(n, dtype=torch.bool)
    total.add({name: list(each) for name, each in uses.items()}, [(list(SHAPES), clip_norm)], 1.0, real, n)
    return total.finish().clone()


def distance(one, other):
    """Return the squared distance of two vectors of floats, exactly."""
    return sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(one.tolist(), other.tolist(), strict=True))


def influence(uses, clip_norm, *, stability=None):
    """Return by how much the first example moves the sum, in clip norms, squared and exact."""
    n = len(uses["vector"][0].gradients)
    with_it = summed(uses, clip_norm, stability=stability)
    without = summed(some(uses, slice(1, n)), clip_norm, stability=stability)
    return distance(with_it, without) / Fraction(clip_norm) ** 2


def climb(generator, steps):
    """Return the largest influence that was found from one start: what moves the sum further is kept."""
    n, t = int(torch.randint(2, 9, (), generator=generator)), int(torch.randint(1, 7, (), generator=generator))
    clip_norm = math.ldexp(
        1.0 + float(torch.rand((), generator=generator)), int(torch.randint(-8, 8, (), generator=generator))
    )
    uses = uses_of(generator, n, t)
    best = influence(uses, clip_norm)
    for _ in range(steps):
        if torch.rand((), generator=generator) < 0.5:
            changed = scaled(uses, 0, 2.0 ** float(3.0 * torch.randn((), generator=generator)))
        else:
            changed = scaled(uses, slice(1, n), 2.0 ** float(3.0 * torch.randn((), generator=generator)))
        found = influence(changed, clip_norm)
        if found >= best:
            uses, best = changed, found
    return best


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    torch.manual_seed(0)
    generator, worst, steps = torch.Generator().manual_seed(1), Fraction(0), 9
    for tried in range(0, wanted, steps + 1):
        worst = max(worst, climb(generator, steps))
        if worst > 1:
            raise SystemExit(f"an example moved the sum by more than the clip norm, after {tried} batches")
    print(
        f"{wanted} batches: at most {math.sqrt(worst):.15f} clip norms; the target is {1 - Bound.of(64).residue:.15f}"
    )
