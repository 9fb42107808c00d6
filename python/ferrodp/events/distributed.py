"""What many parties release together: noise of which each adds a share, messages in random order."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter
from ferrodp.events import base
from ferrodp.events.base import PrivacyEvent, event_class


@event_class
class DistributedDiscreteGaussianEvent(PrivacyEvent):
    """One release with the sum of many parties' discrete Gaussian noise, as secure aggregation leaves it.

    Each party adds discrete Gaussian noise to each coordinate of its integers; only the sum is seen. A sum of discrete
    Gaussians is no discrete Gaussian: for small shares it protects less than one of the same variance.

    Parameters
    ----------
    share_scale : float
        σ of one party's noise, in the units of the released values; finite, > 0.
    num_shares : int
        How many parties surely add noise; from 1 to 2⁶³ − 1. Parties that drop out, or that collude with whoever sees
        the sum, do not count.
    l2_sensitivity : float
        Largest L2 distance between the exact sums of neighboring datasets, in the units of the values; finite, at least
        `granularity`. Rounded up if not exactly representable.
    granularity : float
        Spacing of the grid on which values and noise lie; finite, > 0. The noise of a share is `granularity` times a
        discrete Gaussian of scale `share_scale`/`granularity`, a ratio that has to be exactly a float: how much less
        noise costs is not monotone in it.
    dimension : int, optional
        How many coordinates get noise; at least 1. By default any number, which is never less than for a stated one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    [KLS21] has the mechanism. Its theorem goes by way of the total variation distance to a discrete Gaussian and says
    nothing for small shares. Here the law of the sum itself is compared with its shift: the page on theorems, "Sums of
    discrete Gaussians", has the proof.

    References
    ----------
    [KLS21] Kairouz, Liu, Steinke, "The distributed discrete Gaussian mechanism for federated learning with secure
    aggregation", ICML 2021.

    Examples
    --------
    >>> from ferrodp.accounting import DistributedDiscreteGaussianEvent, RdpAccountant
    >>> accountant = RdpAccountant()
    >>> accountant.compose(
    ...     DistributedDiscreteGaussianEvent(share_scale=0.5, num_shares=1000, l2_sensitivity=14.0, dimension=10**6)
    ... )
    >>> round(accountant.epsilon(1e-6), 2)  # 4.55 for a Gaussian of variance 1000·0.5²
    4.96
    """

    kind: ClassVar[str] = "distributed_discrete_gaussian"
    checks: ClassVar[base.Checks] = {
        "share_scale": base.POSITIVE_DOWN,
        "num_shares": base.COUNT_FROM_1,
        "l2_sensitivity": base.POSITIVE_UP,
        "granularity": base.POSITIVE_DOWN,
        "dimension": lambda name, value: None if value is None else base.COUNT_FROM_1(name, value),
    }
    share_scale: float
    num_shares: int
    l2_sensitivity: float
    granularity: float = 1.0
    dimension: int | None = None

    def __post_init__(self) -> None:
        stated = self.share_scale, self.granularity
        PrivacyEvent.__post_init__(self)
        # mutant: share-scale-rounded
        base.exact_float("share_scale", stated[0], "finite and > 0")
        base.exact_float("granularity", stated[1], "finite and > 0")
        ratio = Fraction(self.share_scale) / Fraction(self.granularity)
        nearest = _validate.rounded(ratio, "down")
        if not 0.0 < nearest < float("inf") or Fraction(nearest) != ratio:
            raise InvalidParameter("share_scale / granularity must be exactly a float")
        if self.l2_sensitivity < self.granularity:
            raise _validate.out_of_domain("l2_sensitivity", "at least the granularity", self.l2_sensitivity)

    @property
    def integer_scale(self) -> float:
        """Scale of one share's noise, in steps of the grid."""
        return self.share_scale / self.granularity

    @property
    def squared_steps(self) -> int:
        """Largest sum of squares of an integer shift between neighbors, in steps of the grid."""
        # mutant: shifts-between-grid-points-lost
        return int((Fraction(self.l2_sensitivity) / Fraction(self.granularity)) ** 2)


@event_class
class SkellamEvent(PrivacyEvent):
    """One release with Skellam noise: in each coordinate of an integer vector, the difference of two Poisson numbers.

    Sums of Skellam noise are Skellam noise: for a sum of many parties, state the variance of all shares together.

    Parameters
    ----------
    variance : float
        Of the noise of each coordinate, in squared units of the released values; finite, > 0. Rounded down if not
        exactly representable. Each of the two Poisson numbers has half of it as its mean. Shares of parties that drop
        out, or that collude with whoever sees the result, do not count.
    l2_sensitivity : float
        Largest L2 distance between the exact results of neighboring datasets, in the units of the values; finite, at
        least `granularity`. Rounded up if not exactly representable.
    granularity : float
        Spacing of the grid on which values and noise lie; finite, > 0, exactly a float.
    dimension : int, optional
        How many coordinates get noise; at least 1. By default any number, which is never less than for a stated one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    [AKL21] has the mechanism. The bound here needs no L1 sensitivity: with b = 2·ln(I₀(μ)/I₁(μ)), about 1/μ, the
    divergence of integer order α is at most bαΔ²/2. The page on theorems, "Skellam noise", has the proof. In one
    coordinate the law itself is compared with its shift. Nothing in this library draws Skellam noise.

    References
    ----------
    [AKL21] Agarwal, Kairouz, Liu, "The Skellam mechanism for differentially private federated learning", NeurIPS 2021.

    Examples
    --------
    >>> from ferrodp.accounting import RdpAccountant, SkellamEvent
    >>> accountant = RdpAccountant()
    >>> accountant.compose(SkellamEvent(variance=250.0, l2_sensitivity=14.0))
    >>> round(accountant.epsilon(1e-6), 4)  # 4.5525 for a Gaussian of this variance
    4.5521
    """

    kind: ClassVar[str] = "skellam"
    checks: ClassVar[base.Checks] = {
        "variance": base.POSITIVE_DOWN,
        "l2_sensitivity": base.POSITIVE_UP,
        "granularity": base.POSITIVE_DOWN,
        "dimension": lambda name, value: None if value is None else base.COUNT_FROM_1(name, value),
    }
    variance: float
    l2_sensitivity: float
    granularity: float = 1.0
    dimension: int | None = None

    def __post_init__(self) -> None:
        stated = self.granularity
        PrivacyEvent.__post_init__(self)
        base.exact_float("granularity", stated, "finite and > 0")
        if not self.integer_variance:
            raise InvalidParameter("variance / granularity ** 2 must be a float > 0")
        if self.l2_sensitivity < self.granularity:
            raise _validate.out_of_domain("l2_sensitivity", "at least the granularity", self.l2_sensitivity)

    @property
    def integer_variance(self) -> float:
        """Variance of the noise in squared steps of the grid, rounded down: with more noise it costs less."""
        # mutant: variance-in-other-units
        return _validate.rounded(Fraction(self.variance) / Fraction(self.granularity) ** 2, "down")

    @property
    def squared_steps(self) -> int:
        """Largest sum of squares of an integer shift between neighbors, in steps of the grid."""
        return int((Fraction(self.l2_sensitivity) / Fraction(self.granularity)) ** 2)


@event_class
class ShuffledEvent(PrivacyEvent):
    """One message of each user, made by a locally private randomizer, all seen in random order.

    Nobody who sees the result can tell whose message is whose, and each user's message hides among the others'.

    Parameters
    ----------
    randomizer : PrivacyEvent
        What one user's message costs that user, for replacing the user's value by any other one: randomized response,
        or anything whose ε is known and that has no δ.
    population_size : int
        How many users surely send a message, the one whose value is replaced included; from 1 to 2⁶³ − 1. Users who
        collude with whoever sees the result do not count.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    All users send messages of the same randomizer: with randomizers of their own, messages would tell their senders.
    [FMT21] Theorem 3.1 for any randomizer; for randomized response with more clones, see the page on theorems,
    "Shuffled messages".

    References
    ----------
    [FMT21] Feldman, McMillan, Talwar, "Hiding among the clones: a simple and nearly optimal analysis of privacy
    amplification by shuffling", FOCS 2021.

    Examples
    --------
    >>> import math
    >>> from ferrodp.accounting import NeighboringRelation, PldAccountant, RandomizedResponseEvent, ShuffledEvent
    >>> answer = RandomizedResponseEvent(noise_parameter=2 / (math.e + 1), num_buckets=2)  # local ε = 1
    >>> accountant = PldAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    >>> accountant.compose(ShuffledEvent(randomizer=answer, population_size=1000))
    >>> round(accountant.epsilon(1e-5), 4)
    0.125
    """

    kind: ClassVar[str] = "shuffled"
    checks: ClassVar[base.Checks] = {"randomizer": base.inner_event, "population_size": base.COUNT_FROM_1}
    randomizer: PrivacyEvent
    population_size: int
