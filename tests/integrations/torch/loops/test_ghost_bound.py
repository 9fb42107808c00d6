"""The bound of private loops: norms are never too small, and no example moves a sum by more than the clip norm."""

import math
from fractions import Fraction

import pytest
import torch
from ghost_attacks import KINDS, SHAPES, WORDS, climb, influence, rows, uses_of

from ferrodp.errors import FerroError, InvalidParameter
from ferrodp.integrations.torch import _bound
from ferrodp.integrations.torch._bound import BLOCK, Bound
from ferrodp.integrations.torch._ghost import GhostSum, lengths
from ferrodp.integrations.torch._tape import Lookups, Pairs, Rows

U = Fraction(1, 2**53)


def gamma(terms):
    return terms * U / (1 - terms * U)


def clip_errors(bound, clip_norm):
    """Return how far a sum can be from exact, by the proof, in rational numbers."""
    most, ratio, target = bound.most_examples, Fraction(bound.ratio), Fraction(bound.target(clip_norm))
    of_products = gamma(BLOCK + 3) * most * ratio * target
    of_additions = bound.most_additions * U * ((most + ratio) * target + of_products) * (1 + Fraction(1, 1000))
    return of_products + of_additions


@pytest.mark.parametrize("most", [1, 64, 1437, 60_000, 10**6, 2**24])
@pytest.mark.parametrize("clip_norm", [1.0, 0.1, 3e-7, 12345.678])
def test_what_is_clipped_and_both_errors_are_within_the_clip_norm(most, clip_norm):
    bound = Bound.of(most)

    assert Fraction(bound.target(clip_norm)) + 2 * clip_errors(bound, clip_norm) <= Fraction(clip_norm)
    assert bound.target(clip_norm) > 0.9995 * clip_norm
    assert bound.ratio >= 8.0
    assert bound.most_additions >= 60_000 or most < 60_000


def test_a_step_has_a_largest_number_of_examples():
    with pytest.raises(InvalidParameter, match="use start, whose sums are integers"):
        Bound.of(2**24 + 1)


def exact_gradient(uses, shape, i):
    """Return the gradient of example i as rational numbers, and the sum of the norms of its terms, squared."""
    total = [
        [Fraction(0)] * (shape[1] if len(shape) > 1 else shape[0]) for _ in range(shape[0] if len(shape) > 1 else 1)
    ]
    for use in uses:
        if isinstance(use, Rows):
            for k, value in enumerate(use.gradients[i].tolist()):
                total[0][k] += Fraction(value)
        elif isinstance(use, Pairs):
            for left, right in zip(use.left[i].tolist(), use.right[i].tolist(), strict=True):
                for j, a in enumerate(left):
                    for k, b in enumerate(right):
                        total[j][k] += Fraction(a) * Fraction(b)
        else:
            for word, row in zip(use.indices[i].tolist(), use.values[i].tolist(), strict=True):
                for k, value in enumerate(row):
                    total[word][k] += Fraction(value)
    return total


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("t", [1, 2, 5, 40])
def test_no_norm_is_too_small_and_none_is_much_too_large(kind, t):
    """Also where terms cancel, to rational numbers; 40 terms of 3 × 4 are multiplied out, fewer are not."""
    generator = torch.Generator().manual_seed(t)
    left, right = rows(generator, 6, t, 3, kind), rows(generator, 6, t, 4, "plain")
    half = t // 2
    if kind == "cancelling":
        right[:, half : 2 * half] = right[:, :half]
    words = torch.randint(WORDS, (6, t), generator=generator)
    values, more = rows(generator, 6, t, 2, kind), rows(generator, 6, t, 2, "plain")
    cases = {
        "matrix": [Pairs(left, right)],
        "tied": [Lookups(words, values), Pairs(rows(generator, 6, t, WORDS, kind), more)],
        "vector": [Rows(rows(generator, 6, 1, 5, kind)[:, 0])],
    }
    cases_of_tables = {**cases, "tied": cases["tied"][:1]}

    for given in (cases, cases_of_tables):
        for name, uses in given.items():
            found = lengths(torch, uses, SHAPES[name])
            for i in range(6):
                gradient = exact_gradient(uses, SHAPES[name], i)
                square = sum(value**2 for line in gradient for value in line)

                assert Fraction(found.square[i].item()) >= square
                assert Fraction(found.terms[i].item()) ** 2 >= square
                slack = (10 + t) ** 2 * 100 * U * Fraction(found.terms[i].item()) ** 2
                assert Fraction(found.square[i].item()) <= square * (1 + Fraction(1, 2**30)) + slack


def test_the_norms_of_terms_are_added_up():
    """Two pairs that cancel: the gradient is 0, its terms are 2 · 3 · 5 long."""
    left, right = torch.tensor([[[3.0], [-3.0]]]), torch.tensor([[[5.0], [5.0]]])

    found = lengths(torch, [Pairs(left, right)], torch.Size((1, 1)))

    assert 30.0 <= found.terms.item() <= 30.0 * (1 + 1e-12)
    assert 0.0 <= found.square.item() <= 1e-9


def sum_of(uses, clip_norm, bound, shapes):
    total = GhostSum(torch, shapes, bound, torch.device("cpu"), None)
    n = len(uses["w"][0].left)
    total.add({"w": list(uses["w"])}, [(["w"], clip_norm)], 1.0, torch.ones(n, dtype=torch.bool), n)
    return total


def test_an_example_whose_terms_cancel_too_much_is_scaled_down():
    """Its terms are 2²⁰ times as long as its gradient, and at most 4096 clip norms afterwards."""
    left = torch.tensor([[[2.0**20], [-(2.0**20) + 1.0]]])
    right = torch.tensor([[[1.0], [1.0]]])

    total = sum_of({"w": [Pairs(left, right)]}, 1.0, Bound.of(64), {"w": torch.Size((1, 1))})

    assert total.finish().item() == pytest.approx(4096.0 / (2.0**21 - 1.0), rel=1e-5)


def test_more_additions_than_the_bound_has_are_refused():
    bound = Bound(64, 4096.0, 3, 1e-6)
    total = GhostSum(torch, {"w": torch.Size((1, 1))}, bound, torch.device("cpu"), None)
    one = torch.ones(1, 1, 1)

    def add():
        total.add({"w": [Pairs(one, one)]}, [(["w"], 1.0)], 1.0, torch.ones(1, dtype=torch.bool), 1)

    for _ in range(3):
        add()
    with pytest.raises(FerroError, match="part_size larger"):
        add()


def test_long_examples_are_summed_in_blocks(monkeypatch):
    generator = torch.Generator().manual_seed(3)
    uses = {"w": [Pairs(torch.randn(5, 9, 3, generator=generator), torch.randn(5, 9, 4, generator=generator))]}
    whole = sum_of(uses, 1.0, Bound.of(64), {"w": torch.Size((3, 4))}).finish()
    monkeypatch.setattr("ferrodp.integrations.torch._ghost.BLOCK", 4)

    blocks = sum_of(uses, 1.0, Bound.of(64), {"w": torch.Size((3, 4))}).finish()

    assert torch.allclose(whole, blocks, rtol=1e-12)


def test_no_example_moves_a_sum_by_more_than_the_clip_norm():
    """A search from 60 starts, with exact distances; `ghost_attacks.py` runs it for longer."""
    generator = torch.Generator().manual_seed(0)

    found = [climb(generator, 4) for _ in range(60)]

    assert max(found) <= 1
    assert max(found) > Fraction(999, 1000)  # the clip norm is reached: the search sees what it is about


def test_normalized_examples_do_not_move_a_sum_further_either():
    generator = torch.Generator().manual_seed(5)

    found = [influence(uses_of(generator, 4, 3), 1.0, stability=0.01) for _ in range(40)]

    assert Fraction(999, 1000) ** 2 < max(found) <= 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_example_that_is_not_finite_is_left_out(bad):
    generator = torch.Generator().manual_seed(7)
    for name in SHAPES:
        uses = uses_of(generator, 4, 3)
        first = uses[name][0]
        values = next(getattr(first, field) for field in ("left", "values", "gradients") if hasattr(first, field))
        values[0].view(-1)[0] = bad

        assert influence(uses, 1.0) == 0


def test_the_bound_is_of_the_rounding_of_float64():
    assert Fraction(_bound.UNIT) == U
