"""Noise that is correlated over the steps of a plan: a strategy, what it costs with the plan's sampling, its draws."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._numerics.rounding import product_up, sqrt_up
from ferrodp.correlated import BandedMatrix, BandedToeplitz, BufferedToeplitz, SquareRoot, Strategy, Tree
from ferrodp.errors import FerroError, InvalidParameter, InvalidType
from ferrodp.events import MatrixMechanismEvent, PrivacyEvent, RandomAllocationEvent
from ferrodp.events.base import settle
from ferrodp.plan._record import part_class
from ferrodp.plan.clipping import AutomaticClipping, FlatClipping
from ferrodp.plan.noise import NoiseSchedule, times
from ferrodp.plan.sampling import Charge, CyclicPoisson, FullBatch, GivenOrder, RandomAllocation, Terms, sampled
from ferrodp.random import NoiseSource
from ferrodp.tickets.payer import payer_of

if TYPE_CHECKING:
    from ferrodp.plan.plan import PrivacyPlan

_FREE = Charge(None, 1)
_LOG2_OF_STEPS_PER_DEVIATION = {"float32": 20, "float64": 32}
"""How fine the grid of released sums is, at least; the sums' own grid may be coarser."""


@part_class
class CorrelatedNoise(NoiseSchedule):
    """Noise that cancels over the steps: step t draws row t of C⁻¹·Z, for a strategy C and independent Gaussian Z.

    All steps together are one Gaussian release of C times the sums of the steps, charged before the first step. The
    error of a model that adds up its steps is that of prefix sums, `Strategy.rms_error`, which can be ten times smaller
    than with independent noise of the same ε.

    What it costs depends on the steps in which a unit takes part, which the plan's sampling says:

    =======================================  ==========================================================================
    `FullBatch`                              every step
    `CyclicPoisson` of probability 1         once an epoch, `num_parts` steps apart: epochs in a fixed order
    `CyclicPoisson`, `num_parts` ≥ bands     the same, amplified: each round costs a sample of one release
    `GivenOrder`                             `max_participations` steps, `min_separation` apart, as its caller promises
    `RandomAllocation`, one step of a round  amplified: an allocation to ⌊`num_steps`/bands⌋ steps; with several rounds,
                                             of two steps that meet
    =======================================  ==========================================================================

    With any other sampling the plan is refused: a unit could take part at any time, and no bound is known that would
    be worth its noise.

    Parameters
    ----------
    strategy : Strategy
        Of as many steps as the plan, or more. `Tree` has no inverse to draw with, and is refused.
    noise_multiplier : float
        Standard deviation of Z divided by the clip norm; unitless, finite, > 0. Rounded up if not exactly
        representable.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    The cost is that of `Strategy.event`: [DMRST22] Theorem 2.1, for vectors that depend on earlier releases; see the
    page Proofs. Rows of a banded matrix that lie `num_parts` or more apart share no noise, so that rounds of a
    `CyclicPoisson` are a composition of samples of Gaussian releases ([CGMMRTX23] Theorem 4). Which of the steps of a
    `RandomAllocation` leave the same rest when divided by the number of bands may be told to everybody: among those of
    one rest no two share noise (page Proofs, *Random allocations*).

    Clipping has to be flat or automatic. A run draws with one secret key: `PrivacyPlan.start` says how it is kept.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.correlated import BufferedToeplitz
    >>> from ferrodp.events import NeighboringRelation
    >>> from ferrodp.plan import CorrelatedNoise, CyclicPoisson, FlatClipping, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     population_size=1000,
    ...     sampling=CyclicPoisson(1.0, num_parts=10),
    ...     num_steps=40,
    ...     clipping=FlatClipping(1.0),
    ...     noise=CorrelatedNoise(
    ...         BufferedToeplitz(num_steps=40, buffers=2, num_participations=4, min_separation=10), 1.0
    ...     ),
    ...     neighboring_relation=NeighboringRelation.REPLACE_SPECIAL,
    ... ).calibrated(epsilon=2.0, delta=1e-5)
    >>> plan.epsilon(1e-5) <= 2.0, plan.epsilon_after(1, 1e-5) == plan.epsilon(1e-5)
    (True, True)
    >>> run = plan.start(np.zeros(3))
    >>> for step in run:
    ...     step.add(np.ones((len(step.indices), 3)))
    ...     gradient = step.release()
    >>> run.stopped
    'finished'
    """

    kind: ClassVar[str] = "correlated"
    strategy: Strategy
    noise_multiplier: float

    def __post_init__(self) -> None:
        if not isinstance(self.strategy, Strategy):
            raise InvalidType(
                "strategy must be a Strategy such as ferrodp.correlated.BufferedToeplitz(num_steps=100, buffers=3), "
                f"got {type(self.strategy).__name__}"
            )
        if isinstance(self.strategy, Tree):
            raise InvalidParameter(
                "strategy must have an inverse to draw noise with, got a Tree; BufferedToeplitz(num_steps="
                f"{self.strategy.num_steps}, buffers=3) has a smaller error"
            )
        settle(self, noise_multiplier=_validate.positive("noise_multiplier", self.noise_multiplier))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data, which `PrivacyPlan.from_json` reads.

        Returns
        -------
        dict
            The kind as "type", the strategy, and the noise multiplier.

        Examples
        --------
        >>> from ferrodp.plan import CorrelatedNoise
        >>> from ferrodp.correlated import BandedToeplitz
        >>> CorrelatedNoise(BandedToeplitz(num_steps=8, bands=2), 1.5).to_dict()["noise_multiplier"]
        1.5
        """
        return {"type": self.kind, "strategy": self.strategy.to_dict(), "noise_multiplier": self.noise_multiplier}

    @classmethod
    def _of_plain(cls, fields: Mapping[str, Any]) -> Self:
        return cls(Strategy.from_dict(fields["strategy"]), fields["noise_multiplier"])

    def _at(self, step: int, num_steps: int) -> float:
        return self.noise_multiplier

    def _scaled(self, factor: float) -> Self:
        return type(self)(self.strategy, times(self.noise_multiplier, factor))

    def _constant_from(self, num_steps: int) -> int | None:
        return 0


def check(noise: CorrelatedNoise, plan: PrivacyPlan) -> None:
    """Refuse a plan whose steps no bound of this noise covers."""
    if plan.num_steps > noise.strategy.num_steps:
        raise InvalidParameter(
            f"num_steps must be at most the strategy's {noise.strategy.num_steps}, got {plan.num_steps}; make the "
            f"strategy with num_steps={plan.num_steps}"
        )
    if not isinstance(plan.clipping, (FlatClipping, AutomaticClipping)):
        raise InvalidParameter(
            "clipping must be FlatClipping or AutomaticClipping with CorrelatedNoise, whose steps share one clip norm, "
            f"got {type(plan.clipping).__name__}"
        )
    sampling = plan.sampling
    # mutant: correlated-noise-under-samples-it-does-not-cover
    if not isinstance(sampling, (FullBatch, GivenOrder, CyclicPoisson, RandomAllocation)):
        raise InvalidParameter(
            f"sampling must say how far apart a unit's steps are with CorrelatedNoise, and {type(sampling).__name__} "
            "does not; use CyclicPoisson(1.0, num_parts=...) for epochs in a fixed order, RandomAllocation, GivenOrder "
            "or FullBatch"
        )
    if isinstance(sampling, RandomAllocation):
        _check_allocation(noise, sampling)
    # mutant: correlated-noise-amplified-across-its-bands
    if isinstance(sampling, CyclicPoisson) and sampling.probability < 1.0 and _bands(noise) > sampling.num_parts:
        raise InvalidParameter(
            f"sampling must have num_parts >= the strategy's {_bands(noise)} bands for samples to amplify, got "
            f"{sampling.num_parts}; take a BandedToeplitz of fewer bands, or probability 1.0"
        )


def _check_allocation(noise: CorrelatedNoise, sampling: RandomAllocation) -> None:
    """Refuse what the bound of an allocation does not cover."""
    if sampling.num_selected > 1:
        raise InvalidParameter(
            "sampling must have num_selected=1 with CorrelatedNoise: the steps that a unit takes part in share noise, "
            f"got {sampling.num_selected}; make rounds of {max(sampling.num_steps // sampling.num_selected, 1)} steps"
        )
    # mutant: allocations-amplified-across-bands
    if sampling.num_steps < 2 * _bands(noise):
        raise InvalidParameter(
            f"sampling must have num_steps >= twice the strategy's {_bands(noise)} bands for allocations to amplify, "
            f"got {sampling.num_steps}; take a BandedToeplitz of at most {max(sampling.num_steps // 2, 1)} bands"
        )


def _bands(noise: CorrelatedNoise) -> int:
    strategy = noise.strategy
    # mutant: buffers-taken-for-bands
    if isinstance(strategy, (BandedToeplitz, SquareRoot, BandedMatrix)):
        return strategy.bands
    return strategy.num_steps


def charges(noise: CorrelatedNoise, plan: PrivacyPlan, terms: Terms, num_steps: int) -> Sequence[Charge]:
    """Return what the steps are charged: everything before the first; amplified rounds before the first of each."""
    if num_steps > plan.num_steps:
        raise InvalidParameter(
            f"step must be at most the plan's {plan.num_steps} steps with CorrelatedNoise, whose strategy ends there, "
            f"got {num_steps}"
        )
    sampling = plan.sampling
    if isinstance(sampling, CyclicPoisson) and sampling.probability < 1.0:
        one = _gaussian(noise, plan.distance, 1, 1)
        charge = Charge(sampled(terms, sampling.probability, one), 1)
        rest = [_FREE] * (sampling.num_parts - 1)
        rounds = -(-plan.num_steps // sampling.num_parts)
        # mutant: amplified-rounds-charged-once
        return ([charge, *rest] * rounds)[: plan.num_steps]
    if isinstance(sampling, RandomAllocation):
        rounds = -(-plan.num_steps // sampling.num_steps)
        # mutant: steps-that-share-noise-counted-as-apart
        steps = sampling.num_steps // _bands(noise)
        one_step = _of_one_step(noise, plan.distance, rounds)
        allocation = RandomAllocationEvent(num_steps=steps, num_selected=1, event=one_step)
        # One charge a round: who is in its other steps is drawn with the first, so a round under way is left out.
        return [Charge(allocation, sampling.num_steps)] * rounds
    event = _gaussian(noise, plan.distance, *participation(plan))
    return [Charge(event, 1), *[_FREE] * (plan.num_steps - 1)]


def participation(plan: PrivacyPlan) -> tuple[int, int]:
    """Return in how many steps a unit takes part at most, and how far apart these are at least."""
    sampling, steps = plan.sampling, plan.num_steps
    if isinstance(sampling, CyclicPoisson):
        # mutant: participation-in-the-last-round-forgotten
        return -(-steps // sampling.num_parts), sampling.num_parts
    if isinstance(sampling, GivenOrder):
        most = steps if sampling.max_participations is None else min(sampling.max_participations, steps)
        return most, sampling.min_separation
    return steps, 1


def _gaussian(noise: CorrelatedNoise, distance: int, count: int, separation: int) -> PrivacyEvent:
    """Return the event of the strategy's stream, sums of neighbors being `distance` clip norms apart."""
    if distance == 1:
        return noise.strategy.event(
            noise_multiplier=noise.noise_multiplier, num_participations=count, min_separation=separation
        )
    # mutant: correlated-noise-of-replaced-units-charged-once
    halved = Fraction(noise.noise_multiplier) / distance
    return noise.strategy.event(
        noise_multiplier=_validate.rounded(halved, "down"), num_participations=count, min_separation=separation
    )


def is_bound(plan: PrivacyPlan) -> bool:
    """Whether what is charged for correlated noise may be more than it costs, so that no lower bound is known."""
    # mutant: lower-bound-of-another-allocation
    return isinstance(plan.noise, CorrelatedNoise) and isinstance(plan.sampling, RandomAllocation)


def _of_one_step(noise: CorrelatedNoise, distance: int, rounds: int) -> PrivacyEvent:
    """Return the release that one step of an allocation costs at most.

    A step of one round and one of the next may meet. Two columns of norm at most c with the scalar product x are what a
    contraction makes of two orthogonal ones of norm √(c² + |x|). In a Toeplitz matrix of falling coefficients the sum
    of two columns has the square 2·(c² + x) at most, which `sensitivity` bounds; in any other matrix |x| ≤ c².
    """
    strategy = noise.strategy
    alone = strategy.sensitivity()
    if rounds == 1 or _bands(noise) == 1:
        sensitivity = alone
    elif isinstance(strategy, BandedMatrix):
        # mutant: rounds-that-meet-counted-as-apart
        sensitivity = sqrt_up(2 * Fraction(alone) ** 2)
    else:
        sensitivity = sqrt_up(Fraction(strategy.sensitivity(2, 1)) ** 2 / 2)
    multiplier = _validate.rounded(Fraction(noise.noise_multiplier) / distance, "down")
    return MatrixMechanismEvent(noise_multiplier=multiplier, sensitivity=sensitivity)


def check_no_block(source: NoiseSource) -> None:
    """Refuse a block that charges each release by itself: steps of correlated noise have no cost of their own."""
    if payer_of(source) is not None:
        raise InvalidParameter(
            "a run with CorrelatedNoise must not be in a `with budget(...)` block, which charges releases one by one; "
            "start it with ledger= and scope=, which charge all its steps together"
        )


class StepNoise:
    """The noise of a run, step by step, from one secret key: no step is drawn twice."""

    def __init__(
        self, noise: CorrelatedNoise, clip_norm: float, grid: float, size: int, dtype: np.dtype[Any], key: bytes
    ) -> None:
        self.key = key
        # mutant: correlated-noise-without-its-clip-norm
        deviation = product_up(noise.noise_multiplier, clip_norm)
        finest = math.frexp(deviation)[1] - 1 - _LOG2_OF_STEPS_PER_DEVIATION[dtype.name]
        exponent = math.frexp(grid)[1] - 1
        self._shift = max(finest - exponent, 0)
        self._width = math.ldexp(1.0, exponent + self._shift)
        kind, numbers, further, width = _system(noise.strategy)
        self._stream = _native.CorrelatedStream(
            kind, numbers, further, width, False, deviation, exponent + self._shift, size, key
        )

    @property
    def step(self) -> int:
        """The next step that can be drawn."""
        return int(self._stream.step)

    def advance(self, step: int) -> None:
        """Go on to a step: those before it that were left out are drawn for nobody."""
        if self.step > step:
            raise FerroError(f"the noise of step {step} was drawn already")
        # mutant: noise-of-a-step-left-out-drawn-for-the-next
        while self.step < step:
            self._stream.skip(None)

    def noised(self, integers: npt.NDArray[np.int64], divisor: float | None) -> npt.NDArray[np.float64]:
        """Return sums in units of the clip norm's grid with the noise of the next step, divided. `integers` is used."""
        self._stream.add_to_integers(integers, self._shift, None)
        values: npt.NDArray[np.float64] = integers.astype(np.float64) * self._width
        return values if divisor is None else np.divide(values, divisor, out=values)

    def add_to(self, values: npt.NDArray[Any]) -> None:
        """Add the noise of the next step to floats, in place."""
        self._stream.add(values, None)


_Kind: TypeAlias = Literal["banded", "rows", "buffered"]


def _system(strategy: Strategy) -> tuple[_Kind, npt.NDArray[np.float64], npt.NDArray[np.float64], int]:
    """Return a strategy as what the native stream takes."""
    none = np.zeros(0)
    if isinstance(strategy, BufferedToeplitz):
        return "buffered", np.array(strategy.decays), np.array(strategy.weights), 0
    if isinstance(strategy, (BandedToeplitz, SquareRoot)):
        return "banded", strategy.coefficients(), none, 0
    assert isinstance(strategy, BandedMatrix)
    diagonals = strategy.diagonals()
    rows = np.zeros((strategy.num_steps, strategy.bands))
    for apart in range(strategy.bands):
        rows[apart:, apart] = diagonals[apart, : strategy.num_steps - apart]
    return "rows", rows.ravel(), none, strategy.bands
