"""Choosing one of many candidates: the exponential mechanism, permute-and-flip, report-noisy-max."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self, TypedDict, TypeVar, Unpack, overload

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp._base._weak import warn_if_weak
from ferrodp._observer import OBSERVER
from ferrodp.errors import InvalidArray, InvalidType
from ferrodp.events import EpsilonDeltaEvent, ExponentialMechanismEvent
from ferrodp.events.base import settle
from ferrodp.mechanisms import _pure
from ferrodp.mechanisms._additive import source_of
from ferrodp.random import NoiseSource
from ferrodp.tickets import Ticket

__all__ = ["ExponentialMechanism", "PermuteAndFlip", "ReportNoisyMax"]

Candidate = TypeVar("Candidate")
_FLOAT64 = (np.dtype(np.float64),)


class ChoiceOptions(TypedDict, total=False):
    """Keywords of a choice, besides the candidates."""

    source: NoiseSource | None
    ticket: Ticket | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selection:
    """The largest of the utilities plus noise, in real numbers; subclasses say which noise, and its guarantee."""

    guarantee: ClassVar[str] = "exact"
    _noise: ClassVar[str]
    _curve: ClassVar[_pure.Guarantee] = _pure.PURE

    scale: float
    sensitivity: float
    monotonic: bool = False

    def __post_init__(self) -> None:
        scale = _validate.positive("scale", self.scale)
        sensitivity = _validate.positive("sensitivity", self.sensitivity)
        _validate.truth("monotonic", self.monotonic)
        if not 1e-300 <= scale <= 1e300:
            raise _validate.out_of_domain("scale", "from 1e-300 to 1e300", scale)
        if 2 * Fraction(sensitivity) > Fraction(scale) * Fraction(sys.float_info.max):
            raise _validate.out_of_domain("sensitivity", "within the range of floats of scale", sensitivity)
        settle(self, scale=scale, sensitivity=sensitivity)

    @classmethod
    def calibrated(cls, *, epsilon: Real, sensitivity: Real, monotonic: bool = False) -> Self:
        """Return the mechanism with the least noise that is ε-differentially private.

        Parameters
        ----------
        epsilon : float
            Finite, > 0. `Fraction` and `Decimal` are taken exactly.
        sensitivity, monotonic
            As for the class.

        Returns
        -------
        ExponentialMechanism, PermuteAndFlip or ReportNoisyMax
            Its scale is rounded up.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter, or the scale, is out of its domain.

        Warns
        -----
        WeakPrivacyWarning
            If ε > 20.

        Examples
        --------
        >>> from ferrodp.mechanisms import ReportNoisyMax
        >>> ReportNoisyMax.calibrated(epsilon=0.5, sensitivity=1.0)
        ReportNoisyMax(scale=4.0, sensitivity=1.0, monotonic=False)
        """
        _validate.positive("epsilon", epsilon)
        target = _validate.exact("epsilon", epsilon)
        bound = _validate.positive("sensitivity", sensitivity)
        moves = 1 if _validate.truth("monotonic", monotonic) else 2
        # mutant: scale-of-choice-rounded-down
        scale = _validate.rounded(moves * Fraction(bound) / target, "up")
        mechanism = cls(scale=scale, sensitivity=bound, monotonic=monotonic)
        warn_if_weak(epsilon)
        return mechanism

    @property
    def event(self) -> EpsilonDeltaEvent | ExponentialMechanismEvent:
        """What an accountant needs to know about one choice."""
        return EpsilonDeltaEvent(epsilon=_validate.rounded(self._pure_epsilon, "up"))

    @property
    def _pure_epsilon(self) -> Fraction:
        # mutant: utilities-that-move-both-ways-cost
        return (1 if self.monotonic else 2) * Fraction(self.sensitivity) / Fraction(self.scale)

    def epsilon(self, delta: Real = 0.0) -> float:
        """Return the smallest ε ≥ 0 that the guarantee of one choice implies at δ, rounded up.

        Parameters
        ----------
        delta : float
            In [0, 1). Rounded down if not exactly representable.

        Returns
        -------
        float
            From the bounded range of the exponential mechanism, from pure differential privacy for the other two.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` is out of its domain.

        Examples
        --------
        >>> from ferrodp.mechanisms import ExponentialMechanism, PermuteAndFlip
        >>> kinds = ExponentialMechanism, PermuteAndFlip
        >>> [round(kind(scale=2.0, sensitivity=1.0).epsilon(0.01), 3) for kind in kinds]
        [0.834, 0.986]
        """
        return self._curve.epsilon(self._pure_epsilon, _validate.delta(delta, zero=True))

    def delta(self, epsilon: Real) -> float:
        """Return the smallest δ that the guarantee of one choice implies at ε, rounded up.

        Parameters
        ----------
        epsilon : float
            Finite, ≥ 0. Rounded down if not exactly representable.

        Returns
        -------
        float
            From the bounded range of the exponential mechanism, from pure differential privacy for the other two.

        Raises
        ------
        InvalidParameter, InvalidType
            If `epsilon` is out of its domain.

        Examples
        --------
        >>> from ferrodp.mechanisms import PermuteAndFlip
        >>> PermuteAndFlip(scale=2.0, sensitivity=1.0).delta(1.0)
        0.0
        """
        return self._curve.delta(self._pure_epsilon, _validate.non_negative("epsilon", epsilon, toward="down"))

    @overload
    def release(self, utilities: npt.ArrayLike, *, candidates: None = ..., **options: Unpack[ChoiceOptions]) -> int: ...
    @overload
    def release(
        self, utilities: npt.ArrayLike, *, candidates: Sequence[Candidate], **options: Unpack[ChoiceOptions]
    ) -> Candidate: ...
    @_arrays.quiet
    def release(
        self,
        utilities: npt.ArrayLike,
        *,
        candidates: Sequence[Any] | None = None,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Any:
        """Return the index of the chosen candidate, or the candidate itself.

        Parameters
        ----------
        utilities : array of float64, one-dimensional
            How good each candidate is; float32 and integer arrays and lists of numbers are accepted. The caller
            promises that neighboring datasets move none of them by more than `sensitivity`.
        candidates : sequence, optional
            The candidates to choose from: public, of the same length.
        source : NoiseSource, optional
            None, or a seeded source for tests.
        ticket : Ticket, optional
            What pays for the release: see `ferrodp.tickets`. It is armed after all checks, right before the first
            random bit, and counts as spent from then on.

        Returns
        -------
        int or object
            From 0 to len(utilities) − 1, or the element of `candidates`.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidType
            If an argument is not accepted, by its type, dtype, shape or length alone. Nothing was drawn.
        TicketError
            If `ticket` was used or cancelled before. Nothing was drawn.
        EntropyError
            If the operating system gives no key.

        Notes
        -----
        =================================  =============================================================
        utility NaN or infinite            counts as 0; leave out what must not be chosen
        integer                            taken exactly, like the equal float; cut to the range of floats
        equal utilities                    equally likely to win; noise is real-valued and its digits are revealed
                                           until one candidate is ahead, so that nothing depends on the order
        one candidate                      is chosen; the release counts all the same
        =================================  =============================================================

        A million candidates take a few milliseconds.
        """
        drawn_from = source_of(self, source, ticket)
        values, integers = _utilities(utilities)
        if candidates is not None and not isinstance(candidates, (Sequence, np.ndarray)):
            raise InvalidType(f"candidates must be a sequence, got {type(candidates).__name__}")
        if candidates is not None and len(candidates) != values.size:
            raise InvalidArray(f"candidates must be as many as utilities, got {len(candidates)} and {values.size}")
        written = _arrays.written(integers)
        chosen = _native.choose_candidate(values, self._noise, 1.0, self.scale, 1, drawn_from._key(), written)
        observer = OBSERVER.get()
        if observer is not None:
            seen = observer.saw(
                self,
                _exact(values, integers),
                chosen,
                event=self.event,
                norm="Linf",
                sensitivity=self.sensitivity,
                public=(f"candidates={candidates!r}",),
            )
            # mutant: replay-answers-with-noise-of-own
            chosen = int(seen)
        return chosen if candidates is None else candidates[chosen]


class _Race(_Selection):
    """A mechanism that is a race of candidates, of which many may come as one."""

    __slots__ = ()

    @_arrays.quiet
    def release_from_runs(
        self,
        utilities: npt.ArrayLike,
        counts: npt.NDArray[np.uint64],
        candidate: Callable[[int, int], float],
        *,
        weights: npt.NDArray[np.uint64] | None = None,
        unit: int = 0,
        observed: npt.NDArray[np.float64] | None = None,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> float:
        r"""Choose among runs of equally useful candidates: as `release` among all of them, at the cost of the runs.

        Parameters
        ----------
        utilities : array of float, shape (r,)
            Of each run; what is not finite counts as 0, and an integer beyond 2⁵³ as the nearest float: the
            sensitivity is that of these numbers.
        counts : array of uint64, shape (r,)
            How many candidates each run stands for; a run of none is never chosen.
        candidate : function
            Returns the candidate of a run at a place, from 0 up; of run r + i, that of the weights of run i.
        weights : array of uint64, shape (r,), optional
            So many further candidates in each run, which take part in the race of the exponential mechanism and weigh
            2^−`unit` of one each: public, like everything but the utilities.
        unit : int
            From 0 to 63.
        observed : array of float, optional
            What `fd.testing.record` keeps and compares between neighbors in place of `utilities`, whose number
            depends on the data: the utilities of some public candidates.
        source, ticket
            As for `release`.

        Returns
        -------
        float
            The chosen candidate.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            If an argument is not accepted, by its type, dtype, shape or length, or if there is no candidate at all.
            Nothing was drawn.
        TicketError
            If `ticket` was used or cancelled before. Nothing was drawn.
        EntropyError
            If the operating system gives no key.

        Notes
        -----
        Both mechanisms are races that the candidate with the least :math:`W_i e^{-u_i/s}` wins: W is exponential in the
        former, and uniform in (0, 1) in permute-and-flip, where it is the place in a random order [DKSSWXZ21]. The
        first of m arrivals is :math:`E/m`, or :math:`1 - e^{-E/m}`, for one exponential variable E; its place in the
        run is uniform and independent of that.

        Privacy asks of the noise :math:`X = -\ln W` that :math:`P[X > x + d] \ge e^{-d} P[X > x]` for d ≥ 0, of
        each run by itself: see `ReportNoisyMax`. With :math:`v = e^{-x}` that probability is
        :math:`1 - e^{-mv}` or :math:`1 - (1 - v)^m`: concave in v and 0 at 0, for any m > 0 in the first case, and for
        m ≥ 1 in the second. So runs of both kinds may be mixed, and weights of the first kind may be less than 1.

        Examples
        --------
        >>> import numpy as np
        >>> from ferrodp.mechanisms import ExponentialMechanism
        >>> mechanism = ExponentialMechanism(scale=2.0, sensitivity=1.0)
        >>> counts = np.array([2**40, 3], np.uint64)  # the numbers below 0, and 0, 1, 2
        >>> chosen = mechanism.release_from_runs([0.0, 500.0], counts, lambda run, place: place if run else -1 - place)
        >>> chosen in (0, 1, 2)
        True
        """
        drawn_from = source_of(self, source, ticket)
        values, _ = _utilities(utilities)
        runs = [_counts("counts", counts, values.size)]
        if weights is not None:
            runs.append(_counts("weights", weights, values.size))
        exponent = _validate.count("unit", unit, minimum=0, maximum=63)
        numbers = np.concatenate(runs)
        if not numbers.any():
            raise InvalidArray("counts must not all be 0: there is no candidate")
        # mutant: weights-of-the-race-permuted
        permuted = values.size if self._noise == "exponential" else 0
        if weights is not None and not permuted:
            raise InvalidType("weights must be None for an ExponentialMechanism: its counts are weights")
        of_runs = np.concatenate([values] * len(runs))
        chosen = candidate(
            *_native.choose_run_of_candidates(
                of_runs, numbers, permuted, exponent, 1.0, self.scale, 1, drawn_from._key()
            )
        )
        observer = OBSERVER.get()
        if observer is not None:
            seen = values if observed is None else observed
            declared = {"event": self.event, "norm": "Linf", "sensitivity": self.sensitivity}
            chosen = float(observer.saw(self, seen, np.float64(chosen), **declared))
        return chosen


class ExponentialMechanism(_Race):
    r"""Choose candidate i with probability proportional to :math:`e^{u_i/s}`, exactly; s is `scale`.

    The choice is ε-differentially private with ε = 2·`sensitivity`/`scale`, half that if the utilities are monotonic,
    for whatever unit of privacy and neighboring relation `sensitivity` was stated in. It also has ε-bounded range,
    which implies a smaller ε at δ > 0 and composes better.

    Parameters
    ----------
    scale : float
        s, in the units of the utilities; from 1e-300 to 1e300. Rounded up if not exactly representable.
    sensitivity : float
        Largest change of any one utility between neighboring datasets; finite, > 0. Rounded up if not exactly
        representable.
    monotonic : bool
        Whether all utilities move the same way: of two neighboring datasets one has no utility below that of the
        other. This holds for counts of records if a record is added or removed, not if one is replaced.

    Attributes
    ----------
    guarantee : str
        "exact": the law of the output is proven to be the stated one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    The mechanism is that of [MT07]; for its bounded range see [DR19] and [DDR20]. Proof: the loss of candidate i is
    :math:`(u_i - u'_i)/s` plus a number that is the same for all, so losses lie within 2·`sensitivity`/`scale` of each
    other, and within half that if all differences have one sign.

    Sampled as the winner of a race of exponential variables with rates :math:`e^{u_i/s}`: one pass, no normalization,
    no underflow.

    References
    ----------
    [DDR20] Dong, Durfee, Rogers, "Optimal differential privacy composition for exponential mechanisms", ICML 2020.
    [DR19] Durfee, Rogers, "Practical differentially private top-k selection with pay-what-you-get composition", NeurIPS
    2019.
    [MT07] McSherry, Talwar, "Mechanism design via differential privacy", FOCS 2007.

    Examples
    --------
    >>> mechanism = ExponentialMechanism.calibrated(epsilon=1.0, sensitivity=1.0, monotonic=True)
    >>> mechanism.scale, mechanism.epsilon()
    (1.0, 1.0)
    >>> mechanism.release([0.0, 900.0, 12.0], candidates=["red", "green", "blue"])
    'green'
    """

    __slots__ = ()
    _noise: ClassVar[str] = "gumbel"
    _curve: ClassVar[_pure.Guarantee] = _pure.BOUNDED_RANGE

    @property
    def event(self) -> ExponentialMechanismEvent:
        """What an accountant needs to know about one choice."""
        return ExponentialMechanismEvent(epsilon=_validate.rounded(self._pure_epsilon, "up"))


class PermuteAndFlip(_Race):
    r"""Choose the largest utility after adding one-sided exponential noise of the given scale.

    As private as the exponential mechanism, ε = 2·`sensitivity`/`scale`, half that if the utilities are monotonic. For
    the same ε its expected shortfall from the largest utility is never more than that of the exponential mechanism, and
    down to half of it. The range of its losses can be wider, though, so over many choices it may cost more.

    Parameters
    ----------
    scale : float
        Scale of the noise, in the units of the utilities; from 1e-300 to 1e300. Rounded up if not exactly
        representable.
    sensitivity : float
        Largest change of any one utility between neighboring datasets; finite, > 0. Rounded up if not exactly
        representable.
    monotonic : bool
        Whether all utilities move the same way: of two neighboring datasets one has no utility below that of the
        other. This holds for counts of records if a record is added or removed, not if one is replaced.

    Attributes
    ----------
    guarantee : str
        "exact": the law of the output is proven to be the stated one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    The mechanism is that of [MS20], which is the arg-max with exponential noise [DKSSWXZ21]. The proof of its ε is that
    of `ReportNoisyMax`.

    References
    ----------
    [DKSSWXZ21] Ding, Kifer, Sayed, Steinke, Wang, Xiao, Zhang, "The permute-and-flip mechanism is identical to
    report-noisy-max with exponential noise", 2021.
    [MS20] McKenna, Sheldon, "Permute-and-flip: a new mechanism for differentially private selection", NeurIPS 2020.

    Examples
    --------
    >>> PermuteAndFlip.calibrated(epsilon=0.5, sensitivity=1.0).release([3.0, 4000.0])
    1
    """

    __slots__ = ()
    # mutant: permute-and-flip-passes-for-exponential
    _noise: ClassVar[str] = "exponential"


class ReportNoisyMax(_Selection):
    r"""Choose the largest utility after adding Laplace noise of the given scale; only its index is released.

    ε = 2·`sensitivity`/`scale`, half that if the utilities are monotonic. For the same ε `PermuteAndFlip` errs less.

    Parameters
    ----------
    scale : float
        Scale of the noise, in the units of the utilities; from 1e-300 to 1e300. Rounded up if not exactly
        representable.
    sensitivity : float
        Largest change of any one utility between neighboring datasets; finite, > 0. Rounded up if not exactly
        representable.
    monotonic : bool
        Whether all utilities move the same way: of two neighboring datasets one has no utility below that of the
        other. This holds for counts of records if a record is added or removed, not if one is replaced.

    Attributes
    ----------
    guarantee : str
        "exact": the law of the output is proven to be the stated one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    The mechanism is that of [DR14] Claim 3.9, stated there for counts, which are monotonic. Proof: given the noise of
    all others, candidate i wins if its own exceeds a threshold, the largest of the others less :math:`u_i`. Between
    neighbors that moves by at most 2·`sensitivity`, by half that if all utilities move the same way; and noise r of
    scale s has :math:`P[r > x + d] \ge e^{-d/s} P[r > x]` for d ≥ 0. The noisy maximum itself is not released: that
    would be a further release.

    References
    ----------
    [DR14] Dwork, Roth, "The algorithmic foundations of differential privacy", 2014, Claim 3.9.

    Examples
    --------
    >>> ReportNoisyMax.calibrated(epsilon=0.5, sensitivity=1.0).release([3.0, 4000.0])
    1
    """

    __slots__ = ()
    _noise: ClassVar[str] = "laplace"


def _utilities(values: object) -> tuple[npt.NDArray[np.float64], dict[int, int]]:
    """Return utilities as floats, and by their index the integers that no float denotes."""
    array = _arrays.base_array(values, "utilities")
    integers = _arrays.long_integers(values)
    if array.dtype.kind in "iu":
        _validate.fits_in_memory("utilities", 8 * array.size)
        floats = array.astype(np.float64)
        if array.dtype.itemsize == 8 and array.ndim == 1:
            large = np.flatnonzero(np.abs(floats) >= 2.0**53).tolist()
            # mutant: integers-between-two-floats-rounded
            integers = {i: int(array[i]) for i in large if int(array[i]) != int(floats[i])}
        array = floats
    elif array.dtype.kind == "f" and array.dtype.itemsize == 4:
        array = array.astype(np.float64)
    found = _arrays.as_float_array(array, "utilities", dtypes=_FLOAT64)
    if found.ndim != 1 or not found.size:
        raise InvalidArray(
            f"utilities must be one-dimensional and not empty, got shape {found.shape}; "
            "for example [3.0, 1.0], one utility a candidate"
        )
    return found, integers


def _counts(name: str, counts: object, size: int) -> npt.NDArray[np.uint64]:
    """Return how many candidates each run has."""
    numbers = np.asarray(counts)
    if numbers.dtype != np.uint64 or numbers.shape != (size,):
        raise InvalidArray(
            f"{name} must be uint64, one for each utility, got {numbers.dtype} of shape {numbers.shape} "
            f"for {size} utilities; for example numpy.array([5, 1], numpy.uint64)"
        )
    return np.ascontiguousarray(numbers)


def _exact(values: npt.NDArray[np.float64], integers: dict[int, int]) -> npt.NDArray[Any]:
    """Return utilities as exactly the numbers that they count as, for the observer."""
    if not integers:
        return values
    exact = np.where(np.isfinite(values), values, 0.0).astype(object)
    for place, integer in integers.items():
        exact[place] = integer
    return exact
