r"""Answers that are vectors, each as the number of a code word: the local model with the variance of PrivUnit.

*Design* [ICOWN23]. A message begins with a nonce, drawn before the vector is looked at. It is the key of N *directions*
:math:`V_0, \dots, V_{N-1}`, vectors of d independent standard normal variables; the code words are these and their
opposites, K = 2N in all. The *top* of a vector x are the m code words with the largest products with x, not both of
:math:`\pm V_j`. With probability p the message names a code word of the top, else one of the others, in both cases
each of them with the same probability.

*Privacy.* For every nonce each code word has probability p/m or (1 − p)/(K − m), whatever x is: the ratio of these is
:math:`e^\varepsilon`. Of two vectors let r code words be in the top of one alone; as many are in that of the other
alone, and :math:`\delta = r \max(p/m - e^{\varepsilon'}(1 - p)/(K - m), 0)`. r is at most m, and is m for x and −x.
Nothing of this depends on the code, on how products are rounded, or on the norm of x.

*Unbiased.* For an orthogonal matrix U the directions :math:`U V_j` have the law of the :math:`V_j`, and their products
with Ux are those of the :math:`V_j` with x. So the mean of the code word that x names follows every rotation of x, and
those that fix x leave it no other direction: it is :math:`c \, x/\|x\|`. All code words add up to zero, so :math:`c =
(p - m(1-p)/(K-m)) \mu`, with :math:`\mu` the mean of the m largest of the sizes of N standard normal variables.
Vectors shorter than the clip norm C are answered as their opposites with probability :math:`(1 - \|x\|/C)/2`.

*Exact.* 1 − p = w/2⁶⁴ with a whole number w, which a word of 64 random bits is compared with; the choice is by integers
that are unbiased by rejection. Ranks are those of real numbers: `choice::respond::vectors` in the core.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp._base._weak import warn_if_weak
from ferrodp._numerics.intervals import Arithmetic, Interval, float_up, point, tight
from ferrodp._observer import OBSERVER
from ferrodp.errors import CalibrationError, InvalidArray, InvalidArrayType
from ferrodp.events.base import settle
from ferrodp.mechanisms import _answers
from ferrodp.random import NoiseSource
from ferrodp.tickets import Ticket

__all__ = ["VectorResponse"]

_WORDS = 2**64
_MOST_COORDINATES, _MOST_DIRECTIONS, _DIRECTIONS_BY_DEFAULT = 2**20, 2**12, 256
_PANELS, _LARGEST_NORMAL = 120, 12.0
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorResponse(_answers.Randomizer):
    r"""Release vectors, each as the number of a code word near to it: means with almost the least variance there is.

    Each vector is ε-differentially private for the unit that gave it, ε = ln(p(2N − m)/((1 − p)m)), in the local
    model: the neighboring relation is that one unit's vector is replaced, by any other one. A unit that gives several
    vectors spends ε for each. The probabilities are rationals, and the draw has exactly these.

    Parameters
    ----------
    weight : int
        w, the number of words of 64 bits for which the code word is not a near one: p = 1 − w/2⁶⁴; from 1 to 2⁶⁴ − 1.
    dimension : int
        d, the number of coordinates, from 1 to 2²⁰.
    num_directions : int
        N, half the number of code words, from 1 to 4096. Time grows with it, variance falls.
    size : int
        m, how many code words are near, from 1 to N.
    l2_clip_norm : float
        C, in the units of the vectors: longer ones are scaled to it. Finite, > 0; rounded down if not exactly
        representable.

    Attributes
    ----------
    guarantee : str
        "exact": the law of the output is proven to be the stated one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain, or code words would be likelier if they are not near.

    Notes
    -----
    The proof is in the docstring of this module. The encoding by the m nearest words of a code that is symmetric under
    rotations is that of [ICOWN23]; [SCBKT22] compresses PrivUnit by a random code of which both sides know the seed.
    PrivUnit [BDFKR18] with the best cap has the least variance of a large family of unbiased ε-locally private
    protocols [AFT22]. `calibrated` has 1.05, 1.03 and 1.07 times that at ε = 1, 4 and 8 for d = 1000, and 1.06, 1.05
    and 1.11 times for d = 100; for few coordinates and large ε more, because lengths of code words vary.

    References
    ----------
    [AFT22] Asi, Feldman, Talwar, "Optimal algorithms for mean estimation under local differential privacy", ICML 2022.
    [BDFKR18] Bhowmick, Duchi, Freudiger, Kapoor, Rogers, "Protection against reconstruction and its applications in
    private federated learning", arXiv:1812.00984.
    [ICOWN23] Isik, Chen, Ozgur, Weissman, No, "Exact optimality of communication-privacy-utility tradeoffs in
    distributed mean estimation", NeurIPS 2023.
    [SCBKT22] Shah, Chen, Balle, Kairouz, Theis, "Optimal compression of locally differentially private mechanisms",
    AISTATS 2022.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = VectorResponse.calibrated(epsilon=4.0, dimension=3, l2_clip_norm=1.0)
    >>> messages = mechanism.release(np.tile([0.6, -0.8, 0.0], (20_000, 1)))
    >>> estimated = mechanism.estimate_mean(messages)
    >>> messages.shape, bool(np.abs(estimated - [0.6, -0.8, 0.0]).max() < 0.06)
    ((20000, 2), True)
    >>> mechanism.epsilon() <= 4.0
    True
    """

    _useful: ClassVar[str] = "below 2^64*(2*num_directions - size)/(2*num_directions)"

    weight: int
    dimension: int
    num_directions: int
    size: int
    l2_clip_norm: float

    def __post_init__(self) -> None:
        dimension = _validate.count("dimension", self.dimension, maximum=_MOST_COORDINATES)
        directions = _validate.count("num_directions", self.num_directions, maximum=_MOST_DIRECTIONS)
        size = _validate.count("size", self.size, maximum=directions)
        others = 2 * directions - size
        # p ≥ m/2N: a code word is not likelier if it is not near
        weight = _validate.count("weight", self.weight, maximum=_WORDS * others // (2 * directions))
        clip_norm = _validate.positive("l2_clip_norm", self.l2_clip_norm, toward="down")
        made = {"weight": weight, "dimension": dimension, "num_directions": directions, "size": size}
        settle(self, **made, l2_clip_norm=clip_norm)

    @classmethod
    def calibrated(
        cls,
        *,
        epsilon: Real,
        dimension: int,
        l2_clip_norm: Real,
        num_directions: int | None = None,
        size: int | None = None,
    ) -> VectorResponse:
        """Return the ε-differentially private mechanism with the least variance for so many directions.

        Parameters
        ----------
        epsilon : float
            Finite, > 0. `Fraction` and `Decimal` are taken exactly.
        dimension : int
            From 1 to 2²⁰.
        l2_clip_norm : float
            In the units of the vectors; finite, > 0.
        num_directions : int, optional
            From 1 to 4096; by default the least power of two above 4·e^(0.6ε), and at most 256.
        size : int, optional
            m; by default the one with the smallest variance.

        Returns
        -------
        VectorResponse
            Its weight, 2⁶⁴·(2N − m)/(m·e^ε + 2N − m), is rounded up.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.
        CalibrationError
            If w would be below 2¹⁶, where rounding it would cost much of ε.

        Warns
        -----
        WeakPrivacyWarning
            If ε > 20.

        Examples
        --------
        >>> made = VectorResponse.calibrated(epsilon=4.0, dimension=1000, l2_clip_norm=1.0)
        >>> made.num_directions, made.size
        (64, 9)
        """
        _validate.positive("epsilon", epsilon)
        target = _validate.exact("epsilon", epsilon)
        _validate.count("dimension", dimension, maximum=_MOST_COORDINATES)
        growth = math.expm1(min(float(target), 700.0))
        if num_directions is None:
            wanted = 4.0 * math.exp(0.6 * min(float(target), 100.0))
            num_directions = 2 ** min(math.ceil(math.log2(wanted)), _DIRECTIONS_BY_DEFAULT.bit_length() - 1)
        directions = _validate.count("num_directions", num_directions, maximum=_MOST_DIRECTIONS)
        if size is None:
            near = np.arange(1, directions + 1)
            size = 1 + int(np.argmax(near / (near + 2 * directions / growth) * _largest(directions)[0]))
        near_words = _validate.count("size", size, maximum=directions)
        others = 2 * directions - near_words

        def enclose(r: Arithmetic) -> Interval:
            apart = r.mul(point(others), r.exp(r.ratio(-target)))
            return r.div(apart, r.add(point(near_words), apart))

        # mutant: weight-of-a-vector-rounded-down
        weight = math.ceil(Fraction(float_up(tight(enclose, _answers.DIGITS).upper)) * _WORDS)
        if weight < 2**16:
            raise CalibrationError(f"epsilon={epsilon!r} asks for less noise than the smallest supported")
        made = cls(
            weight=min(weight, _WORDS * others // (2 * directions)),
            dimension=dimension,
            num_directions=directions,
            size=near_words,
            l2_clip_norm=l2_clip_norm,  # type: ignore[arg-type]  # settled as a float
        )
        warn_if_weak(epsilon)
        return made

    @property
    def _laws(self) -> tuple[Fraction, Fraction]:
        """The probabilities of the code words that are near to a vector, and that are near to its opposite."""
        lie = Fraction(self.weight, _WORDS)
        # mutant: other-code-words-of-another-number
        return 1 - lie, lie * Fraction(self.size, 2 * self.num_directions - self.size)

    @property
    def _scale(self) -> float:
        """The length c of the mean of the code word that a vector of the clip norm names."""
        likely, unlikely = self._laws
        return float(likely - unlikely) * float(_largest(self.num_directions)[0][self.size - 1])

    def variance(self, num_answers: int) -> float:
        r"""Return the mean of the squared distance of `estimate_mean` from the mean of vectors of the clip norm.

        Parameters
        ----------
        num_answers : int
            n ≥ 1.

        Returns
        -------
        float
            :math:`C^2((d - 1 + \nu)/c^2 - 1)/n`, in squared units of the vectors, ν being the mean of the squared
            product of a code word that is named with the direction of the vector. For a shorter vector
            :math:`\|x\|^2` is in the place of :math:`C^2` where it is subtracted. Infinite for ε = 0.

        Raises
        ------
        InvalidParameter, InvalidType
            If `num_answers` is out of its domain.

        Examples
        --------
        >>> made = VectorResponse.calibrated(epsilon=4.0, dimension=1000, l2_clip_norm=1.0)
        >>> round(made.variance(1), 1)
        447.4
        """
        answers = _validate.count("num_answers", num_answers)
        scale = self._scale
        if scale <= 0.0:
            return math.inf
        near, all_words = float(_largest(self.num_directions)[1][self.size - 1]), 2 * self.num_directions
        likely = 1.0 - self.weight / _WORDS
        along = likely * near + (1.0 - likely) * (all_words - self.size * near) / (all_words - self.size)
        return self.l2_clip_norm**2 * ((self.dimension - 1 + along) / scale**2 - 1.0) / answers

    @_arrays.quiet
    def release(
        self,
        vectors: Any,
        *,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
        threads: int | None = None,
    ) -> _answers.Rows:
        """Return a nonce and the number of a code word for each vector, randomized independently.

        Parameters
        ----------
        vectors : (..., d) array of float32 or float64
            In the units of the clip norm.
        source : NoiseSource, optional
            None, or a seeded source for tests.
        ticket : Ticket, optional
            What pays for the release: see `ferrodp.tickets`. One pays for one vector of each unit, under `REPLACE_ONE`.
        threads : int, optional
            By default the library's choice; the result does not depend on it.

        Returns
        -------
        (..., 2) ndarray of uint64
            The nonce, and 2j for direction j or 2j + 1 for its opposite.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            If an argument is not accepted, by its type, dtype or shape alone. Nothing was drawn.
        TicketError
            If `ticket` was used or cancelled before. Nothing was drawn.
        EntropyError
            If the operating system gives no key.

        Notes
        -----
        =================================  =============================================================
        norm 0, or not finite              counts as zero: in the mean it is zero
        norm above the clip norm           scaled to it
        array of no vectors                an array of size 0
        =================================  =============================================================

        For each vector N·d normal variables are drawn.

        Examples
        --------
        >>> mechanism = VectorResponse.calibrated(epsilon=1.0, dimension=2, l2_clip_norm=1.0)
        >>> mechanism.release([[0.6, 0.8], [1.0, 0.0], [0.0, 0.0]]).shape
        (3, 2)
        """
        drawn_from = _answers.payable(self, source, ticket)
        threads = _validate.threads(threads)
        array = _arrays.as_float_array(vectors, "vectors")
        if not array.ndim or array.shape[-1] != self.dimension:
            raise InvalidArray(f"vectors must have {self.dimension} coordinates each, got shape {array.shape}")
        count = array.size // self.dimension
        _validate.fits_in_memory("vectors", 8 * array.size + 16 * count)
        flat = np.array(array, np.float64, order="C", copy=True).reshape(count, self.dimension)
        observer = OBSERVER.get()
        seen = None if observer is None else flat.copy()
        out = np.zeros((count, 2), np.uint64)
        law = self.weight, self.num_directions, self.size, self.l2_clip_norm
        _native.vector_responses(flat, out, *law, drawn_from._key(), threads)
        out = out.reshape((*array.shape[:-1], 2))
        if observer is not None:
            # one unit, one vector
            what = {"event": self.event, "norm": "L0", "sensitivity": self.dimension}
            out = observer.saw(self, seen, out, **what)  # type: ignore[arg-type]
        return out

    @_arrays.quiet
    def estimate_mean(self, messages: npt.ArrayLike, *, threads: int | None = None) -> Floats:
        r"""Return an unbiased estimate of the mean of the clipped vectors, from messages.

        Post-processing: it costs nothing. The estimate may be longer than the clip norm; see `variance`.

        Parameters
        ----------
        messages : (..., 2) ndarray of uint64
            What `release` returned.
        threads : int, optional
            By default the library's choice; the result does not depend on it.

        Returns
        -------
        (d,) float64 ndarray
            In the units of the vectors: C/(n·c) times the sum of the code words.

        Raises
        ------
        InvalidArray, InvalidArrayType
            If there are none, or they are of another dtype or shape, or name a code word that there is not.
        InvalidParameter
            If ε = 0: the messages say nothing.

        Notes
        -----
        Unbiased over nonces, that is for directions that are what normal variables are. The grid of directions,
        2⁻³⁰, moves the mean by at most :math:`\sqrt d \, 2^{-30}C`, the one of code words and the quadrature for μ by
        less than :math:`\sqrt d \, 2^{-36}C/c` and :math:`10^{-9}C`.

        Examples
        --------
        >>> import numpy as np
        >>> mechanism = VectorResponse.calibrated(epsilon=8.0, dimension=2, l2_clip_norm=1.0)
        >>> messages = mechanism.release(np.tile([[3.0, 0.0], [0.0, 0.5]], (10_000, 1)))
        >>> bool(np.abs(mechanism.estimate_mean(messages) - [0.5, 0.25]).max() < 0.05)
        True
        """
        threads = _validate.threads(threads)
        if self._scale <= 0.0:
            raise _validate.out_of_domain("weight", f"{self._useful} to estimate anything", self.weight)
        seen = np.asarray(messages)
        if seen.dtype != np.uint64:
            raise InvalidArrayType(f"messages must be uint64, got {seen.dtype}: give what `release` returned")
        if not seen.size or seen.shape[-1] != 2:
            raise InvalidArray(f"messages must be at least one, of 2 words each, got an array of shape {seen.shape}")
        rows = np.ascontiguousarray(seen).reshape(-1, 2)
        if rows[:, 1].max() >= 2 * self.num_directions:
            raise InvalidArray(f"messages must have numbers of code words from 0 to {2 * self.num_directions - 1}")
        sums = np.zeros(self.dimension)
        _native.sum_code_words(rows, sums, self.num_directions, threads)
        return sums * (self.l2_clip_norm / (len(rows) * self._scale))


@functools.lru_cache(maxsize=16)
def _largest(count: int) -> tuple[Floats, Floats]:
    """Return, for each m, the means of the m largest of the sizes of so many normal variables, and of their squares.

    The r-th largest of N has the density N·f(t)·P[Bin(N − 1, S(t)) = r − 1], with f and S the density and the tail of
    the size of one. Gauss–Legendre quadrature, with 20 nodes in each tenth of a standard deviation.
    """
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = _LARGEST_NORMAL / _PANELS / 2
    t = (half * (2 * np.arange(_PANELS)[:, None] + 1 + nodes)).ravel()
    density = math.sqrt(2 / math.pi) * np.exp(-t * t / 2) * np.tile(half * weights, _PANELS)
    tail = np.log([math.erfc(each / math.sqrt(2)) for each in t])
    rest = np.log([math.erf(each / math.sqrt(2)) for each in t])
    first, second = np.zeros(count), np.zeros(count)
    for rank in range(count):
        ways = math.lgamma(count) - math.lgamma(rank + 1) - math.lgamma(count - rank)
        mass = count * density * np.exp(ways + rank * tail + (count - 1 - rank) * rest)
        first[rank], second[rank] = mass @ t, mass @ (t * t)
    ranks = np.arange(1, count + 1)
    return np.cumsum(first) / ranks, np.cumsum(second) / ranks
