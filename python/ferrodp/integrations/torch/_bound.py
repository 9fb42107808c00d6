"""How far a sum of clipped gradients can be from exact, and what clip norm makes up for it.

Ghost clipping never writes the gradient of an example out. It knows pairs of rows (b, a): the gradient of the output of
a layer and its input; the gradient of the weight is the sum of b ⊗ a over the pairs of an example. What follows is the
bound on which the clip norm rests; the page *Ghost clipping* of the proofs has it with all steps.

Let C be the clip norm of the plan, u = 2⁻⁵³, and N a public bound on the examples of a step. Example i gets the factor

    fᵢ = min(s, C′/Nᵢ, R·C′/Wᵢ),        C′ = C·(1 − η),

where s is a public scale, Nᵢ ≥ ‖gradient of i‖ is computed with its own error added, Wᵢ ≥ Σ‖b‖·‖a‖ is the sum of the
norms of its terms, and R is public. So ‖fᵢ·gradient‖ ≤ C′ in exact arithmetic, and a record that cancels so much that
its terms are more than R times as long as allowed is scaled down further.

Weighted rows fl(fᵢ·b) are multiplied and added in float64, in products of at most m = `BLOCK` pairs, each of which is
then added to what is there. Whatever the order, a coordinate of one product is within γ(m + 3)·Σ f·|b|·|a| of exact
(Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., section 3.1), so the vector of all coordinates is
within γ(m + 3)·Σᵢ fᵢ·Wᵢ ≤ γ(m + 3)·n·R·C′. Each addition of a product rounds by u times what is there, at most
(n + R)·C′ and the errors so far. With J additions at most, the sum is within

    E = N·C·1.01·u·((m + 3)·R + J·(1 + R/N))

of exact. Sums of neighbors are then at most C′ + 2E apart: at most C, if η ≥ 2E/C. No coordinate counts, no dimension.
"""

from __future__ import annotations

from dataclasses import dataclass

from ferrodp.errors import InvalidParameter

UNIT = 2.0**-53
"""The unit roundoff of float64."""
BLOCK = 4096
"""How many pairs of rows are multiplied at once, at most."""
MOST_EXAMPLES = 2**24
"""In one step."""
_SHARE = 2.0**-12
"""What each of the two errors may take of the clip norm."""
_LARGEST_RATIO = 4096.0
_SLACK = 1.01


@dataclass(frozen=True, slots=True)
class Bound:
    """What is fixed before any data is seen, from the number of examples that a step can have."""

    most_examples: int
    ratio: float
    """R: how many times longer than the clip norm the terms of an example may be together."""
    most_additions: int
    """J: how often a product may be added to a coordinate."""
    residue: float
    """η: the part of the clip norm that errors may use up."""

    @classmethod
    def of(cls, most_examples: int, rounding: float = 0.0) -> Bound:
        """Return the bound for steps of at most so many examples; `rounding` is what more may be taken off."""
        if not 0 < most_examples <= MOST_EXAMPLES:
            raise InvalidParameter(
                f"population_size or batch_size must be from 1 to {MOST_EXAMPLES} for sums in float64, got "
                f"{most_examples}; use start, whose sums are integers"
            )
        # mutant: terms-of-an-example-without-a-bound
        ratio = min(_LARGEST_RATIO, _SHARE / (2.0 * _SLACK * UNIT * (BLOCK + 3) * most_examples))
        additions = min(2**12 + 16 * most_examples, int(_SHARE / (2.0 * _SLACK * UNIT * (most_examples + ratio))))
        # mutant: errors-of-one-of-two-neighbors
        error = 2.0 * _SLACK * UNIT * (most_examples * (BLOCK + 3) * ratio + additions * (most_examples + ratio))
        return cls(most_examples, ratio, additions, error + rounding)

    def target(self, clip_norm: float) -> float:
        """Return C′: the norm that gradients are clipped to so that sums of neighbors are `clip_norm` apart at most."""
        # mutant: residue-not-taken-off-the-clip-norm
        return clip_norm * (1.0 - self.residue) * (1.0 - 4.0 * UNIT)
