"""What a stream of counters releases, what it costs, and how far its totals are from the truth."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.rounding import product_up, sqrt_up
from ferrodp.accounting.curves.gaussian import gaussian_delta, gaussian_epsilon, gaussian_noise_multiplier
from ferrodp.correlated import BufferedToeplitz, Strategy, prefix_errors
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.events.base import check_relation, settle
from ferrodp.statistics.estimate import Interval

if TYPE_CHECKING:
    import os

    from ferrodp.counters.stream import CounterStream
    from ferrodp.random import NoiseSource
    from ferrodp.tickets import TicketLedger

__all__ = ["Counter"]

Doubles = npt.NDArray[np.float64]

UNKNOWN_DAYS = 2**20
"""Days of a stream whose number of days is not known in advance."""
_MOST_DAYS = 2**24
_BUFFERS = ((4, 1), (16, 2), (1000, 3), (2**16, 4))
"""Up to how many days so many buffers suffice: within 0.1 % of the square root; five for more days."""
_DECAYS = (
    1.0 - 0x1064 * 2.0**-31,
    1.0 - 0x182E * 2.0**-27,
    1.0 - 0x14F6 * 2.0**-23,
    1.0 - 0x1BF6 * 2.0**-19,
    1.0 - 0x1EC8 * 2.0**-15,
)
_WEIGHTS = (0x1170 * 2.0**-22, 0x1C8A * 2.0**-21, 0x1BFE * 2.0**-19, 0x11C8 * 2.0**-15, 0x1460 * 2.0**-14)
"""Of five buffers for a number of days that is not known: the variance of the totals of day t, times the squared
sensitivity over all days, is at most 1.37 times that of the best strategy for t days, for 128 ≤ t ≤ 2²⁰."""
_SLACK = 1.0 + 2.0**-30
"""More than the float arithmetic of errors and quantiles is off by."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    r"""Totals of counters, released every day: all days together cost as much as one Gaussian release.

    Each day adds up to a vector of counts, one number a counter, and releases the vector of totals since the first day.
    All releases together are (ε, δ)-differentially private as `event` says, for every adversary who sees a day's
    release before the next day's counts come to be.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of Z, from which the noise of all days is made, divided by `l2_sensitivity`; finite, > 0.
        Rounded up if not exactly representable. `calibrated` finds it.
    l2_sensitivity : float, optional
        Largest L2 norm of what one unit adds to the counters of one day; finite, > 0. By default the square root of
        `max_counters`.
    max_counters : int, optional
        To how many counters one unit adds 1 on one day at most; by default the whole part of the square of
        `l2_sensitivity`, or 1.
    days : int, optional
        How many days there will be, from 1 to 2²⁴. By default that is not known: up to 2²⁰ days, from the
        128th on at up to 1.37 times the variance that a known number would have.
    max_days : int, optional
        On how many days a person takes part at most: the unit of privacy is the person. By default the unit is what a
        person does on one day.
    min_separation : int
        Least number of days from one on which a person takes part to the next; at least 1.
    neighboring_relation : NeighboringRelation
        With REPLACE_ONE a unit's counts may be replaced by others, which is twice as far.
    strategy : Strategy, optional
        How the noise of days is correlated; by default the best of a few buffers for these days. It has to be Toeplitz.

    Attributes
    ----------
    standard_deviation : float
        Of Z, in counts.
    horizon : int
        The most days that the stream can have.
    unit : str
        The unit of privacy, in words.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    The total of day t is :math:`\mathrm{round}(G_t + \sigma\,(A C^{-1} Z)_t)`, G the exact totals, A the matrix of
    prefix sums, C the strategy, rounded correctly: a function of one Gaussian release of C times the days' counts
    ([DMRST22] Theorem 2.1; proof on the page *Correlated noise*). With a known number T of days, σ in proportion to the
    strategy's sensitivity, the standard deviation of a total is about :math:`1 + \ln(T)/\pi` times what one release
    would have, nearly the least there is ([FHU23]); noise of independent days would have √T. For a number that is not
    known see [JF25].

    References
    ----------
    [DMRST22] Denisov, McMahan, Rush, Smith, Thakurta, "Improved differential privacy for SGD via optimal private linear
    operators on adaptive streams", NeurIPS 2022.
    [FHU23] Fichtenberger, Henzinger, Upadhyay, "Constant matters: fine-grained error bound on differentially private
    continual observation", ICML 2023.
    [JF25] Jacobsen, Fawaz, "Private continual counting of unbounded streams", NeurIPS 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp import Counter
    >>> counter = Counter.calibrated(epsilon=1.0, delta=1e-6, days=365)
    >>> counter.epsilon(1e-6) <= 1.0, round(counter.standard_error(364), 1)
    (True, 12.4)
    >>> stream = counter.start(2)
    >>> for day in range(365):
    ...     totals = stream.release(np.array([100, 3]))
    >>> interval = counter.interval(totals, day=364, level=0.999999)
    >>> bool(np.all(interval.lower <= [36500, 1095]) and np.all([36500, 1095] <= interval.upper))
    True
    """

    noise_multiplier: float
    l2_sensitivity: float = None  # type: ignore[assignment]  # made below
    max_counters: int = None  # type: ignore[assignment]  # made below
    days: int | None = None
    max_days: int | None = None
    min_separation: int = 1
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    strategy: Strategy = dataclasses.field(default=None, repr=False)  # type: ignore[assignment]  # made below
    standard_deviation: float = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        multiplier = _validate.positive("noise_multiplier", self.noise_multiplier)
        bound, most_counters = _of_one_day(self.l2_sensitivity, self.max_counters)
        days = None if self.days is None else _validate.count("days", self.days, maximum=_MOST_DAYS)
        most = None if self.max_days is None else _validate.count("max_days", self.max_days)
        apart = _validate.count("min_separation", self.min_separation)
        if most is None and apart > 1:
            raise InvalidParameter("min_separation must be 1 without max_days: the days of one person count apart then")
        relation = check_relation(self.neighboring_relation)
        horizon = UNKNOWN_DAYS if days is None else days
        if self.strategy is None:
            strategy: Strategy = _best(days, most or 1, apart)
        elif not isinstance(self.strategy, Strategy):
            raise InvalidType(
                f"strategy must be a Strategy or None, got {type(self.strategy).__name__}; for example "
                "BufferedToeplitz(num_steps=365, buffers=3)"
            )
        elif self.strategy.num_steps < horizon:
            raise InvalidParameter(
                f"strategy must have at least as many steps as there are days, {horizon}, got one of "
                f"{self.strategy.num_steps}; give days={self.strategy.num_steps}"
            )
        elif not hasattr(self.strategy, "coefficients"):
            raise InvalidParameter(
                f"strategy must be a Toeplitz matrix, got {type(self.strategy).__name__}; for example "
                f"BufferedToeplitz(num_steps={horizon}, buffers=3)"
            )
        else:
            strategy = self.strategy
        deviation = product_up(multiplier, bound)
        if not 2.0**-3 <= deviation < 2.0**33:
            raise InvalidParameter(
                "noise_multiplier * l2_sensitivity must be between 1/8 and 2^33 counts, as noise is rounded to whole "
                f"ones, got {deviation!r}; give fewer or larger counts"
            )
        settle(self, noise_multiplier=multiplier, l2_sensitivity=bound, max_counters=most_counters)
        settle(self, neighboring_relation=relation, days=days, max_days=most, min_separation=apart)
        settle(self, strategy=strategy, standard_deviation=deviation)

    @classmethod
    def calibrated(
        cls,
        *,
        epsilon: Real,
        delta: Real,
        l2_sensitivity: Real | None = None,
        max_counters: int | None = None,
        days: int | None = None,
        max_days: int | None = None,
        min_separation: int = 1,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
        strategy: Strategy | None = None,
    ) -> Self:
        """Return the counter with the least noise that is (ε, δ)-differentially private over all days.

        Parameters
        ----------
        epsilon : float
            Finite, > 0. Rounded down if not exactly representable.
        delta : float
            In (0, 1). Rounded down if not exactly representable.
        l2_sensitivity, max_counters, days, max_days, min_separation, neighboring_relation, strategy
            As for `Counter`.

        Returns
        -------
        Counter
            Its noise multiplier is rounded up.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.
        CalibrationError
            If no supported noise multiplier reaches the target.

        Examples
        --------
        >>> from ferrodp import Counter
        >>> person = Counter.calibrated(epsilon=1.0, delta=1e-6, days=365, max_days=30)
        >>> person.unit, person.delta(1.0) <= 1e-6
        ('a person, on at most 30 days', True)
        """
        _validate.positive("epsilon", epsilon)
        one = gaussian_noise_multiplier(epsilon=epsilon, delta=delta)
        bound, most = _of_one_day(l2_sensitivity, max_counters)
        whole = cls(
            noise_multiplier=one,
            l2_sensitivity=max(1.0, 0.5 / one),
            days=days,
            max_days=max_days,
            min_separation=min_separation,
            neighboring_relation=neighboring_relation,
            strategy=strategy,  # type: ignore[arg-type]
        )
        # mutant: calibrated-counter-without-its-sensitivity
        multiplier = product_up(one, whole._distance * whole._sensitivity)
        while Fraction(multiplier) < Fraction(one) * whole._distance * Fraction(whole._sensitivity):
            multiplier = math.nextafter(multiplier, math.inf)
        return dataclasses.replace(whole, noise_multiplier=multiplier, l2_sensitivity=bound, max_counters=most)

    @property
    def horizon(self) -> int:
        """The most days that the stream can have."""
        return UNKNOWN_DAYS if self.days is None else self.days

    @property
    def unit(self) -> str:
        """The unit of privacy, in words."""
        if self.max_days is None:
            return "what a person does on one day"
        apart = "" if self.min_separation == 1 else f", at least {self.min_separation} days apart"
        return f"a person, on at most {self.max_days} day{'s' if self.max_days > 1 else ''}{apart}"

    @property
    def _sensitivity(self) -> float:
        # mutant: days-of-a-person-counted-once
        return self.strategy.sensitivity(self.max_days or 1, self.min_separation)

    @property
    def _distance(self) -> int:
        # mutant: replaced-unit-of-a-counter-counted-once
        return 2 if self.neighboring_relation is NeighboringRelation.REPLACE_ONE else 1

    @property
    def event(self) -> PrivacyEvent:
        """What all days cost together, however many of them there are."""
        multiplier = _validate.rounded(Fraction(self.noise_multiplier) / self._distance, "down")
        return self.strategy.event(
            noise_multiplier=multiplier, num_participations=self.max_days or 1, min_separation=self.min_separation
        )

    @property
    def _gaussian(self) -> float:
        """Multiplier of the one Gaussian release that costs as much."""
        exact = Fraction(self.noise_multiplier) / (self._distance * Fraction(self._sensitivity))
        return _validate.rounded(exact, "down")

    def epsilon(self, delta: Real) -> float:
        """Return the smallest ε ≥ 0 for which all days together are (ε, δ)-differentially private, rounded up.

        Parameters
        ----------
        delta : float
            In (0, 1). Rounded down if not exactly representable.

        Returns
        -------
        float

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` is out of its domain.

        Examples
        --------
        >>> from ferrodp import Counter
        >>> Counter.calibrated(epsilon=1.0, delta=1e-6, days=30).epsilon(1e-6) <= 1.0
        True
        """
        return gaussian_epsilon(delta=delta, noise_multiplier=self._gaussian)

    def delta(self, epsilon: Real) -> float:
        """Return the smallest δ for which all days together are (ε, δ)-differentially private, rounded up.

        Parameters
        ----------
        epsilon : float
            Finite, ≥ 0. Rounded down if not exactly representable.

        Returns
        -------
        float

        Raises
        ------
        InvalidParameter, InvalidType
            If `epsilon` is out of its domain.

        Examples
        --------
        >>> from ferrodp import Counter
        >>> counter = Counter.calibrated(epsilon=1.0, delta=1e-6, days=30)
        >>> counter.delta(1.0) <= 1e-6, counter.delta(0.5) > 1e-6
        (True, True)
        """
        checked = _validate.non_negative("epsilon", epsilon, toward="down")
        return gaussian_delta(epsilon=checked, noise_multiplier=self._gaussian)

    def standard_error(self, day: int) -> float:
        """Return the standard deviation of the noise in the totals of a day.

        Parameters
        ----------
        day : int
            From 0, below `horizon`.

        Returns
        -------
        float
            In counts, before the total is rounded to a whole number.

        Raises
        ------
        InvalidParameter, InvalidType
            If the day is out of its domain.

        Examples
        --------
        >>> from ferrodp import Counter
        >>> counter = Counter(noise_multiplier=1.0, days=2**20)
        >>> counter.standard_error(2**20 - 1) * counter.strategy.sensitivity() < 5.6
        True
        """
        response = _response(self.strategy, self._day("day", day) + 1)
        return float(np.sqrt(response @ response)) * self.standard_deviation

    def change_error(self, first: int, last: int) -> float:
        """Return the standard deviation of the noise in what was added after one day and up to another.

        Parameters
        ----------
        first, last : int
            Days, the first one before the last one.

        Returns
        -------
        float
            Of the difference of their totals, in counts, before these are rounded.

        Raises
        ------
        InvalidParameter, InvalidType
            If a day is out of its domain.

        Examples
        --------
        >>> from ferrodp import Counter
        >>> counter = Counter(noise_multiplier=10.0, days=365)
        >>> counter.change_error(333, 363) < counter.standard_error(333) + counter.standard_error(363)
        True
        """
        early, late = self._day("first", first), self._day("last", last)
        if early >= late:
            raise InvalidParameter(f"first must be a day before last, {last}, got {first}")
        response = _response(self.strategy, late + 1)
        # The noise of the totals shares the Z of the days up to the first.
        # mutant: noise-of-two-days-taken-for-independent
        moved = response - np.concatenate([np.zeros(late - early), response[: early + 1]])
        return float(np.sqrt(moved @ moved)) * self.standard_deviation

    def interval(self, totals: Any, *, day: int, level: Real = 0.95, comparisons: int = 1) -> Interval[Any]:
        """Return intervals that hold the true totals of a day, each with the stated probability.

        Parameters
        ----------
        totals : int or array of int
            What was released on that day, or some of it.
        day : int
            Which day, from 0.
        level : float
            Between 0 and 1, both excluded.
        comparisons : int
            How many intervals are to hold all at once: counters times days that are looked at. With 1 each of them
            holds by itself.

        Returns
        -------
        Interval
            Whole numbers, as arrays or single ones like `totals`.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.

        Notes
        -----
        The truth is a whole number, and a total is off by k or more only where normal noise is off by k − ½ or more.
        For several, each has the probability (1 − level)/comparisons to fail (Bonferroni), whatever their correlation.

        Examples
        --------
        >>> from ferrodp import Counter
        >>> Counter(noise_multiplier=10.0, days=1).interval(1000, day=0)
        Interval(lower=980, upper=1020)
        """
        reach = math.ceil(_quantile(level, comparisons) * self.standard_error(day) * _SLACK - 0.5)
        return _around(totals, max(reach, 0))

    def change_interval(
        self,
        earlier: Any,
        later: Any,
        *,
        days: Sequence[int],
        level: Real = 0.95,
        comparisons: int = 1,
    ) -> Interval[Any]:
        """Return intervals that hold what was truly added between two days, each with the stated probability.

        Parameters
        ----------
        earlier, later : int or array of int
            What was released on the two days, of the same counters.
        days : pair of int
            The two days, the first one before the last one.
        level, comparisons
            As for `interval`.

        Returns
        -------
        Interval
            Around ``later - earlier``.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.

        Notes
        -----
        Two numbers that are rounded differ by at most k if the unrounded ones do, for whole k.

        Examples
        --------
        >>> from ferrodp import Counter
        >>> counter = Counter(noise_multiplier=10.0, days=365)
        >>> counter.change_interval(5000, 5230, days=(100, 130))
        Interval(lower=193, upper=267)
        """
        if not isinstance(days, (tuple, list)) or len(days) != 2:
            raise InvalidParameter("days must be a pair of days, the first one before the last one, as in days=(0, 30)")
        reach = math.ceil(_quantile(level, comparisons) * self.change_error(*days) * _SLACK)
        before, after = _totals("earlier", earlier), _totals("later", later)
        if before.shape != after.shape:
            raise InvalidParameter(f"later must have the shape {before.shape} of earlier, got {after.shape}")
        return _around(after - before, reach)

    def start(
        self,
        counters: int | Sequence[str],
        *,
        file: str | os.PathLike[str] | None = None,
        ledger: TicketLedger | None = None,
        scope: str | Sequence[str] | None = None,
        key: str | None = None,
        plan_delta: Real | None = None,
        source: NoiseSource | None = None,
    ) -> CounterStream:
        """Return a stream of these totals before its first day; or the stream of a file, after its last one.

        Parameters
        ----------
        counters : int or sequence of str
            How many counters, or what they are called: public, and the same on all days.
        file, ledger, scope, key, plan_delta, source
            As for `CounterStream`.

        Returns
        -------
        CounterStream

        Raises
        ------
        InvalidParameter, InvalidType, FerroError, BudgetExceeded
            As for `CounterStream`.

        Examples
        --------
        >>> from ferrodp import Counter
        >>> stream = Counter.calibrated(epsilon=1.0, delta=1e-6, days=365).start(1000)
        >>> len(stream.release([1] * 1000)), stream.day
        (1000, 1)
        """
        from ferrodp.counters.stream import CounterStream

        return CounterStream(
            self, counters, file=file, ledger=ledger, scope=scope, key=key, plan_delta=plan_delta, source=source
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the counter as plain JSON data, its strategy included.

        Returns
        -------
        dict
            What `from_dict` reads.

        Examples
        --------
        >>> from ferrodp import Counter
        >>> counter = Counter(noise_multiplier=3.0, days=10)
        >>> Counter.from_dict(counter.to_dict()) == counter
        True
        """
        return {
            "noise_multiplier": self.noise_multiplier,
            "l2_sensitivity": self.l2_sensitivity,
            "max_counters": self.max_counters,
            "days": self.days,
            "max_days": self.max_days,
            "min_separation": self.min_separation,
            "neighboring_relation": self.neighboring_relation.value,
            "strategy": self.strategy.to_dict(),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Return the counter that `to_dict` described.

        Parameters
        ----------
        plain : dict
            What `to_dict` returned.

        Returns
        -------
        Counter

        Raises
        ------
        InvalidParameter, InvalidType
            If it is something else.

        Examples
        --------
        >>> from ferrodp import Counter
        >>> plain = Counter(noise_multiplier=3.0, days=10, max_days=2).to_dict()
        >>> Counter.from_dict(plain).max_days
        2
        """
        if not isinstance(plain, Mapping):
            raise InvalidType(f"plain must be what Counter.to_dict() returned, got {type(plain).__name__}")
        fields = {each.name for each in dataclasses.fields(cls) if each.init}
        if plain.keys() != fields:
            raise InvalidParameter(f"plain must be what Counter.to_dict() returned, with the fields {sorted(fields)}")
        relation = NeighboringRelation(plain["neighboring_relation"])
        strategy = Strategy.from_dict(plain["strategy"])
        return cls(**{**plain, "neighboring_relation": relation, "strategy": strategy})

    def _day(self, name: str, day: object) -> int:
        return _validate.count(name, day, minimum=0, maximum=self.horizon - 1)


def _of_one_day(l2_sensitivity: Any, max_counters: Any) -> tuple[float, int]:
    """Return the norm of what a unit adds on one day, and to how many counters it may add 1."""
    if l2_sensitivity is None:
        most = 1 if max_counters is None else _validate.count("max_counters", max_counters, maximum=2**31)
        # mutant: counters-of-a-unit-counted-without-a-root
        return sqrt_up(Fraction(most)), most
    bound = _validate.positive("l2_sensitivity", l2_sensitivity)
    # mutant: counters-of-a-unit-rounded-up
    most = min(math.floor(Fraction(bound) ** 2), 2**31)
    if max_counters is not None and max_counters != most:
        raise InvalidParameter(
            f"max_counters must be left out with l2_sensitivity, whose square it is rounded down, {most}, got "
            f"{max_counters!r}"
        )
    return bound, most


@functools.lru_cache(maxsize=64)
def _best(days: int | None, participations: int, separation: int) -> BufferedToeplitz:
    """Return the strategy for a known or an unknown number of days."""
    if days is None:
        return BufferedToeplitz(num_steps=UNKNOWN_DAYS, buffers=len(_DECAYS), decays=_DECAYS, weights=_WEIGHTS)
    return BufferedToeplitz(
        num_steps=days,
        buffers=next((buffers for most, buffers in _BUFFERS if days <= most), 5),
        num_participations=participations,
        min_separation=separation,
        objective="max",
    )


@functools.lru_cache(maxsize=16)
def _response(strategy: Strategy, num_steps: int) -> Doubles:
    """Return how the totals of the last of so many days depend on the Z of each day, the last day's first."""
    if isinstance(strategy, BufferedToeplitz):
        return prefix_errors.of_buffers(strategy.decays, strategy.weights, num_steps)
    column: Doubles = strategy.coefficients()  # type: ignore[attr-defined]  # it is Toeplitz
    found: Doubles = np.cumsum(prefix_errors.inverse_series(column / column[0], num_steps) / column[0])
    return found


def _quantile(level: object, comparisons: object) -> float:
    checked = _validate.probability("level", level)
    if not 0.0 < checked < 1.0:
        raise _validate.out_of_domain("level", "between 0 and 1, both excluded", level)
    many = _validate.count("comparisons", comparisons)
    return -NormalDist().inv_cdf(0.5 * (1.0 - checked) / many)


def _totals(name: str, values: Any) -> npt.NDArray[np.int64]:
    return _arrays.as_integer_array(values, name).astype(np.int64)


def _around(totals: Any, reach: int) -> Interval[Any]:
    array = _totals("totals", totals)
    ends = array - reach, array + reach
    if array.ndim == 0:
        return Interval(int(ends[0]), int(ends[1]))
    return Interval(*ends)
