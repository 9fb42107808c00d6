"""The Gaussian mechanism."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, overload

import numpy.typing as npt

from ferrodp import _validate
from ferrodp._numerics.rounding import product_up
from ferrodp._observer import OBSERVER
from ferrodp._validate import Real
from ferrodp.accounting.curves.gaussian import (
    CalibrationMethod,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_multiplier,
)
from ferrodp.events import GaussianEvent
from ferrodp.mechanisms import _additive
from ferrodp.mechanisms._additive import Nonfinite
from ferrodp.random import NoiseSource
from ferrodp.tickets import Ticket

__all__ = ["GaussianMechanism"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianMechanism:
    r"""Release a number or a vector with exactly rounded Gaussian noise scaled to its L2 sensitivity.

    A release is (ε, δ)-differentially private for every point (`epsilon(delta)`, δ) of its curve, for whatever unit of
    privacy and neighboring relation `l2_sensitivity` was stated in: a record or a client, added or removed or replaced.
    The law of what is released is exactly that of the real-valued mechanism, rounded to a grid, so the guarantee is
    that of the theorem, float arithmetic included.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise divided by `l2_sensitivity`; unitless, finite, > 0. Rounded up if it is
        no float.
    l2_sensitivity : float
        Largest L2 distance between the values of neighboring datasets, in their units; finite, > 0. Rounded up if it is
        no float. For a sum of vectors clipped to norm C it is C if a unit is added or removed, 2C if one is replaced.

    Attributes
    ----------
    standard_deviation : float
        Of the noise, in the units of the value: `noise_multiplier * l2_sensitivity`, rounded up, so that the noise
        drawn is never less than the noise accounted for.
    guarantee : str
        "exact": the law of the output is proven to be the stated one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain, or the standard deviation out of the range of the sampler's grids.

    Notes
    -----
    Dwork, Kenthapadi, McSherry, Mironov, Naor, "Our data, ourselves", EUROCRYPT 2006; the curve is that of Balle, Wang,
    "Improving the Gaussian mechanism for differential privacy", ICML 2018, Theorem 8. Releases compose as
    :math:`\mu^2 = \sum 1/z_i^2`: see `ferrodp.accounting.GdpAccountant`.

    Rounding to the grid :math:`g\mathbb{Z}` is post-processing and adds :math:`g^2/12` to the variance; g is a power of
    two, at most :math:`2^{-20}` standard deviations for float32 and :math:`2^{-32}` for float64.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, l2_sensitivity=2.0)
    >>> round(mechanism.standard_deviation, 3)
    8.449
    >>> mechanism.epsilon(1e-6) <= 1.0
    True
    >>> noised = mechanism.release(np.zeros(1000, dtype=np.float32))
    >>> noised.shape, noised.dtype
    ((1000,), dtype('float32'))
    """

    guarantee: ClassVar[str] = "exact"

    noise_multiplier: float
    l2_sensitivity: float
    standard_deviation: float = field(init=False, repr=False, compare=False)
    _scalar_grid: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        multiplier = _validate.positive("noise_multiplier", self.noise_multiplier)
        sensitivity = _validate.positive("l2_sensitivity", self.l2_sensitivity)
        # mutant: deviation-of-a-release
        deviation = product_up(multiplier, sensitivity)
        grid = _additive.scalar_grid("standard_deviation (noise_multiplier * l2_sensitivity)", deviation)
        object.__setattr__(self, "noise_multiplier", multiplier)
        object.__setattr__(self, "l2_sensitivity", sensitivity)
        object.__setattr__(self, "standard_deviation", deviation)
        object.__setattr__(self, "_scalar_grid", grid)

    @classmethod
    def calibrated(
        cls, *, epsilon: Real, delta: Real, l2_sensitivity: Real, method: CalibrationMethod = "analytic"
    ) -> GaussianMechanism:
        """Return the mechanism with the least noise that is (ε, δ)-differentially private.

        Parameters
        ----------
        epsilon : float
            Finite, > 0; at most 1 for the classical method. Rounded down if it is no float.
        delta : float
            In (0, 1). Rounded down if it is no float.
        l2_sensitivity : float
            Largest L2 distance between the values of neighboring datasets; finite, > 0.
        method : {"analytic", "classical"}
            The exact curve, or σ = Δ·√(2 ln(1.25/δ))/ε, which asks for more noise; see
            `ferrodp.accounting.curves.gaussian_standard_deviation`.

        Warns
        -----
        WeakPrivacyWarning
            If ε > 20.
        """
        _validate.positive("epsilon", epsilon)
        # mutant: epsilon-and-delta-swapped-in-calibration
        multiplier = gaussian_noise_multiplier(epsilon=epsilon, delta=delta, method=method)
        mechanism = cls(noise_multiplier=multiplier, l2_sensitivity=l2_sensitivity)  # type: ignore[arg-type]
        _additive.warn_if_weak(epsilon)
        return mechanism

    @property
    def event(self) -> GaussianEvent:
        """What an accountant needs to know about one release."""
        return GaussianEvent(noise_multiplier=self.noise_multiplier)

    def epsilon(self, delta: Real) -> float:
        """Return the smallest ε ≥ 0 for which one release is (ε, δ)-differentially private, rounded up."""
        return gaussian_epsilon(delta=delta, noise_multiplier=self.noise_multiplier)

    def delta(self, epsilon: Real) -> float:
        """Return the smallest δ for which one release is (ε, δ)-differentially private, rounded up; `epsilon` ≥ 0."""
        checked = _validate.non_negative("epsilon", epsilon, toward="down")
        return gaussian_delta(epsilon=checked, noise_multiplier=self.noise_multiplier)

    @overload
    def release(
        self,
        value: float,
        *,
        out: None = ...,
        source: NoiseSource | None = ...,
        ticket: Ticket | None = ...,
        nonfinite: Nonfinite = ...,
        threads: int | None = ...,
    ) -> float: ...
    @overload
    def release(
        self,
        value: npt.ArrayLike,
        *,
        out: npt.NDArray[Any] | None = ...,
        source: NoiseSource | None = ...,
        ticket: Ticket | None = ...,
        nonfinite: Nonfinite = ...,
        threads: int | None = ...,
    ) -> npt.NDArray[Any]: ...
    def release(
        self,
        value: float | npt.ArrayLike,
        *,
        out: npt.NDArray[Any] | None = None,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
        nonfinite: Nonfinite = "zero",
        threads: int | None = None,
    ) -> Any:
        """Return `value` with exactly rounded Gaussian noise in every coordinate.

        The guarantee is spent by the first random bit, also if the result is thrown away. An array is one vector: its
        coordinates share the sensitivity.

        Parameters
        ----------
        value : float or ndarray of float32 or float64
            Any shape, order, stride or byte order; lists of numbers count as float64. Taken as exactly the real numbers
            that its bits denote, and never written to. That neighboring datasets give values within `l2_sensitivity` is
            the caller's promise; a sum in floating point keeps it only up to rounding, `ferrodp.ClippedSum` to the
            last bit.
        out : ndarray, optional
            Where to put the result: writeable, C-contiguous, of the shape and dtype of `value`. May be `value` itself,
            which is then noised in place without further memory, or else must not overlap it.
        source : NoiseSource, optional
            None, or a seeded source for tests.
        ticket : Ticket, optional
            What pays for the release: see `ferrodp.tickets`. It is armed after every check, right before the first
            random bit, and spent from then on, whatever happens.
        nonfinite : {"zero", "raise"}
            "raise" refuses values that are not finite. *The error is itself a release about the data that nothing
            accounts for:* for debugging on data that is not private.
        threads : int, optional
            By default the library's choice; the result does not depend on it.

        Returns
        -------
        float or ndarray
            A float for a Python or numpy scalar; otherwise an array of the shape and dtype of `value`: a new one, or
            `out`.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            Before anything is drawn or written, by type, dtype, shape and layout alone.
        TicketError
            If `ticket` was used or cancelled before: before anything is drawn or written.
        EntropyError
            If the operating system gives no key; `out` is as it was.

        Notes
        -----
        =================================  =============================================================
        coordinate NaN or infinite         counts as 0
        result beyond the dtype's range    the dtype's largest number of that sign (post-processing)
        integer                            taken exactly, like the equal float; cut to the range of floats
        array of size 0                    an array of size 0; the release counts all the same
        =================================  =============================================================
        """
        plain = out is None and source is None and ticket is None and threads is None and OBSERVER.get() is None
        if type(value) is float and plain and nonfinite == "zero":
            return _additive.release_scalar(value, "gaussian", self.standard_deviation, self._scalar_grid, None)
        return _additive.release(
            self,
            "gaussian",
            self.standard_deviation,
            value,
            sensitivity=self.l2_sensitivity,
            out=out,
            source=source,
            ticket=ticket,
            nonfinite=nonfinite,
            threads=threads,
        )
