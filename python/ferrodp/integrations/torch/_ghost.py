"""Norms, clipping factors and weighted sums of gradients that are never written out. `_bound` has the argument."""

from __future__ import annotations

from typing import Any

from ferrodp.errors import FerroError
from ferrodp.integrations.torch._bound import BLOCK, UNIT, Bound
from ferrodp.integrations.torch._tape import Lookups, Pairs, Rows

_UP = 1.0 + 2.0**-40
"""More than all roundings of a norm whose square is within its own bound."""
_CHUNK_ELEMENTS = 2**21
"""How many numbers are widened to float64 at once, where there are more: 16 MiB."""


def _are_all(values: Any) -> bool:
    """Return whether all are true: the one place where this waits for the device."""
    return bool(values.all())


class Lengths:
    """The squared norm of the gradient of each example, its error added, and the norms of all terms together."""

    def __init__(self, square: Any, terms: Any) -> None:
        self.square, self.terms = square, terms
        """(n,) float64 each"""


def lengths(torch: Any, uses: list[Any], shape: Any) -> Lengths:
    """Return upper bounds on the lengths of the gradients of one parameter, from all its uses."""
    if isinstance(uses[0], Rows):
        return _of_rows(torch, uses[0])
    if all(isinstance(use, Pairs) for use in uses):
        return _of_pairs(torch, *_joined(torch, uses))
    if all(isinstance(use, Lookups) for use in uses):
        return _of_lookups(torch, uses)
    return _of_tied(torch, uses)


def _of_rows(torch: Any, use: Rows) -> Lengths:
    flat = use.gradients.reshape(len(use.gradients), -1).to(torch.float64)
    # By the largest entry, so that no square is lost or infinite.
    largest = flat.abs().amax(1) if flat.shape[1] else flat.new_zeros(len(flat))
    scale = torch.where(largest > 0, largest, torch.ones_like(largest))
    norm = scale * (flat / scale[:, None]).square().sum(1).sqrt()
    norm = norm * (1.0 + (flat.shape[1] + 8) * 2.0 * UNIT)
    return Lengths(norm.square(), norm)


def _joined(torch: Any, uses: list[Pairs]) -> tuple[Any, Any]:
    if len(uses) == 1:
        return uses[0].left, uses[0].right
    return torch.cat([use.left for use in uses], 1), torch.cat([use.right for use in uses], 1)


def _squares(torch: Any, rows: Any) -> Any:
    """Return the squared norms of (n, T, width), in float64."""
    return torch.linalg.vector_norm(rows, dim=-1, dtype=torch.float64).square()


def _of_pairs(torch: Any, left: Any, right: Any) -> Lengths:
    n, t, p = left.shape
    q = right.shape[2]
    terms = torch.empty(n, dtype=torch.float64, device=left.device)
    square = torch.empty_like(terms)
    through_gram = 2 * t * t * (p + q) <= 4 * t * p * q
    step = max(1, _CHUNK_ELEMENTS // max(1, t * max(p, q) if t == 1 or through_gram else max(p * q, t * max(p, q))))
    for start in range(0, n, step):
        some = slice(start, start + step)
        a, b = left[some].to(torch.float64), right[some].to(torch.float64)
        of_left, of_right = _squares(torch, a), _squares(torch, b)
        # mutant: norms-of-terms-not-added-up
        terms[some] = (of_left * of_right).sqrt().sum(1)
        if t == 1:
            square[some] = (of_left * of_right)[:, 0]
        elif through_gram:
            square[some] = (torch.bmm(a, a.transpose(1, 2)) * torch.bmm(b, b.transpose(1, 2))).sum((1, 2))
        else:
            square[some] = torch.bmm(a.transpose(1, 2), b).square().sum((1, 2))
    terms = terms * (1.0 + (t + p + q + 16) * 2.0 * UNIT)
    if t == 1:
        # mutant: norm-of-a-pair-rounded-down
        return Lengths(square * (1.0 + (p + q + 32) * 4.0 * UNIT), terms)
    # mutant: error-of-a-norm-left-out
    square = square.clamp_min(0.0) + terms.square() * ((p + q + 2 * t * t + p * q // max(1, t) + 64) * 4.0 * UNIT)
    return Lengths(square, terms)


def _of_lookups(torch: Any, uses: list[Lookups]) -> Lengths:
    indices = torch.cat([use.indices for use in uses], 1)
    values = torch.cat([use.values for use in uses], 1)
    n, t, width = values.shape
    terms = _squares(torch, values).sqrt().sum(1) * (1.0 + (t + width + 16) * 2.0 * UNIT)
    square = torch.empty_like(terms)
    step = max(1, 2**24 // max(1, t * max(t, width)))
    for start in range(0, n, step):
        some = slice(start, start + step)
        rows, places = values[some].to(torch.float64), indices[some]
        # mutant: same-word-twice-counted-apart
        same = places[:, :, None] == places[:, None, :]
        square[some] = torch.where(same, torch.bmm(rows, rows.transpose(1, 2)), 0.0).sum((1, 2))
    square = square.clamp_min(0.0) + terms.square() * ((width + t * t + 64) * 4.0 * UNIT)
    return Lengths(square, terms)


def _of_tied(torch: Any, uses: list[Any]) -> Lengths:
    """Return the lengths for a matrix that is a table as well: words looked up, and scores of words."""
    pairs = [use for use in uses if isinstance(use, Pairs)]
    lookups = [use for use in uses if isinstance(use, Lookups)]
    left, right = _joined(torch, pairs)
    one, other = _of_pairs(torch, left, right), _of_lookups(torch, lookups)
    indices = torch.cat([use.indices for use in lookups], 1)
    values = torch.cat([use.values for use in lookups], 1)
    t, s, width = values.shape[1], left.shape[1], values.shape[2]
    cross = torch.empty_like(one.terms)
    for i in range(len(values)):
        # left[i]: (S, words), right[i]: (S, width); the entry of word indices[t] meets values[t]
        scores = left[i].index_select(1, indices[i]).to(torch.float64)
        cross[i] = (scores * (right[i].to(torch.float64) @ values[i].to(torch.float64).T)).sum()
    # mutant: tied-uses-taken-as-orthogonal
    square = one.square + other.square + 2.0 * cross
    terms = (one.terms + other.terms) * _UP
    return Lengths(square.clamp_min(0.0) + terms.square() * ((width + t * s + 64) * 4.0 * UNIT), terms)


def written_out(torch: Any, use: Any, shape: Any) -> Any:
    """Return the gradients of the examples that a use stands for: (n, *shape)."""
    if isinstance(use, Rows):
        return use.gradients
    if isinstance(use, Pairs):
        return torch.bmm(use.left.transpose(1, 2), use.right.to(use.left.dtype)).view(-1, *shape)
    n, _, width = use.values.shape
    table = use.values.new_zeros(n, shape[0], width)
    return table.scatter_add_(1, use.indices.unsqueeze(-1).expand_as(use.values), use.values)


def simplified(torch: Any, uses: list[Any], shape: Any) -> list[Any]:
    """Return the uses of a parameter so that their lengths are known: as rows if some are rows and there are others."""
    if len(uses) > 1 and any(isinstance(use, Rows) for use in uses):
        return [Rows(sum(written_out(torch, use, shape) for use in uses))]
    return uses


class GhostSum:
    """A sum of clipped gradients in float64, on the device of the parameters.

    Parameters
    ----------
    shapes : dict
        Of the parameters, by name, in the order of the sum.
    groups : list of (list of names, clip norm)
        What is clipped together.
    beside : int
        How many more coordinates the sum has at its end, which the caller writes.
    """

    def __init__(
        self,
        torch: Any,
        shapes: dict[str, Any],
        bound: Bound,
        device: Any,
        stability: float | None,
        beside: int = 0,
    ) -> None:
        self._torch, self._bound, self._stability = torch, bound, stability
        self._shapes = shapes
        sizes = [shape.numel() for shape in shapes.values()]
        self.total = torch.zeros(sum(sizes) + beside, dtype=torch.float64, device=device)
        pieces = self.total[: sum(sizes)].split_with_sizes(sizes)
        self._pieces = {name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
        self._counts: dict[str, int] = {}
        self._are_finite = False
        self.count = self.within = 0

    def restart(self) -> None:
        """Begin anew, in the same memory: what is not written to below is set to zero at the end."""
        self._counts = {}
        self.count = self.within = 0

    def finish(self) -> Any:
        """Return the sum, whose untouched parts are zeros."""
        for name, piece in self._pieces.items():
            if not self._counts.get(name):
                piece.zero_()
        return self.total

    def factors(
        self, uses: dict[str, list[Any]], groups: list[tuple[list[str], float]], scale: float, real: Any
    ) -> tuple[dict[str, Any], Any]:
        """Return the factor of each example for each parameter, and which of the examples were within the norm.

        `real` says which examples are some of the data; others have the factor 0.
        """
        torch, bound = self._torch, self._bound
        for name, shape in self._shapes.items():
            if name in uses:
                uses[name] = simplified(torch, uses[name], shape)
        found = {name: lengths(torch, uses[name], self._shapes[name]) for name in uses}
        n = len(real)
        one = torch.ones(n, dtype=torch.float64, device=real.device)
        finite = torch.ones_like(real)
        for each in found.values():
            finite &= torch.isfinite(each.square) & torch.isfinite(each.terms)
        self._are_finite = _are_all(finite)
        finite &= real
        factors: dict[str, Any] = {}
        within = finite.clone()
        for names, clip_norm in groups:
            target = bound.target(clip_norm)
            used = [found[name] for name in names if name in found]
            if not used:
                continue
            square, terms = torch.zeros_like(one), torch.zeros_like(one)
            for each in used:
                square += each.square
                terms += each.terms.square()
            norm, terms = square.sqrt() * _UP, terms.sqrt() * _UP
            length = norm * scale
            # mutant: terms-beyond-the-ratio-kept
            most = torch.minimum(target / norm, bound.ratio * target / terms)
            if self._stability is None:
                factor = torch.minimum(one * scale, most)
            else:
                factor = torch.minimum(target / (norm + self._stability / scale), most)
            # mutant: example-that-is-not-finite-kept
            factor = torch.where(finite, factor * (1.0 - 4.0 * UNIT), 0.0)
            within &= length <= clip_norm
            factors |= dict.fromkeys(names, factor)
        return factors, within

    def add(
        self, uses: dict[str, list[Any]], groups: list[tuple[list[str], float]], scale: float, real: Any, count: int
    ) -> None:
        """Add the clipped gradients of examples; `count` of them are some of the data."""
        factors, within = self.factors(uses, groups, scale, real)
        self.count += count
        self.within = self.within + within.sum()
        for name in uses:
            factor = factors[name]
            for use in uses[name]:
                if isinstance(use, Rows):
                    self._add_rows(name, use, factor)
                elif isinstance(use, Pairs):
                    self._add_pairs(name, use, factor)
                else:
                    self._add_lookups(name, use, factor)
            uses[name] = []  # its memory is needed for the next ones

    def _is_first(self, name: str) -> bool:
        """Count an addition to a parameter, and return whether there was none before."""
        done = self._counts.get(name, 0)
        # mutant: more-additions-than-the-bound-has
        if done >= self._bound.most_additions:
            raise FerroError("a step was added in more parts than its error bound allows: make part_size larger")
        self._counts[name] = done + 1
        return not done

    def _write(self, piece: Any, left: Any, right: Any, is_first: bool) -> None:
        """Add a product of two matrices."""
        if is_first:
            self._torch.mm(left, right, out=piece)
        else:
            piece.add_(left @ right)

    def _add_pairs(self, name: str, use: Pairs, factor: Any) -> None:
        torch = self._torch
        n, t, p = use.left.shape
        left, right = use.left.reshape(n * t, p), use.right.reshape(n * t, -1)
        weights = factor.repeat_interleave(t) if t > 1 else factor
        piece = self._pieces[name].view(p, right.shape[1])
        # The narrower side is weighted, and the other widened some columns at a time.
        is_left_wide = p >= right.shape[1]
        wide, narrow = (left, right) if is_left_wide else (right, left)
        columns = max(1, _CHUNK_ELEMENTS // min(BLOCK, max(1, n * t)))
        for start in range(0, n * t, BLOCK):
            some = slice(start, start + BLOCK)
            own = weights[some, None]
            weighted = narrow[some].to(torch.float64) * own
            if not self._are_finite:
                weighted = torch.where(own > 0, weighted, 0.0)
            is_first = self._is_first(name)
            for first in range(0, wide.shape[1], columns):
                place = slice(first, first + columns)
                part = wide[some, place].to(torch.float64)
                if not self._are_finite:
                    part = torch.where(own > 0, part, 0.0)
                if is_left_wide:
                    self._write(piece[place], part.T, weighted, is_first)
                else:
                    self._write(piece[:, place], weighted.T, part, is_first)

    def _add_rows(self, name: str, use: Rows, factor: Any) -> None:
        torch = self._torch
        n = len(use.gradients)
        flat = use.gradients.reshape(n, -1)
        piece = self._pieces[name].view(1, -1)
        if not piece.shape[1]:
            return
        for start in range(0, n, BLOCK):
            some = slice(start, start + BLOCK)
            rows, weights = flat[some].to(torch.float64), factor[some]
            if not self._are_finite:
                rows = torch.where(weights[:, None] > 0, rows, 0.0)
            self._write(piece, weights[None], rows, self._is_first(name))

    def _add_lookups(self, name: str, use: Lookups, factor: Any) -> None:
        torch, piece = self._torch, self._pieces[name]
        n, t, width = use.values.shape
        indices, values = use.indices.reshape(-1), use.values.reshape(n * t, width)
        weights = factor.repeat_interleave(t)
        if not self._counts.get(name):
            piece.zero_()
        for start in range(0, n * t, BLOCK):
            some = slice(start, start + BLOCK)
            rows = torch.where(weights[some, None] > 0, values[some].to(torch.float64) * weights[some, None], 0.0)
            words, places = indices[some].unique(return_inverse=True)
            sums = rows.new_zeros(len(words), width).index_add_(0, places, rows)
            self._is_first(name)
            piece.index_add_(0, words, sums)
