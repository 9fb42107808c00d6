"""First and second moments of several columns, and what follows from them: regression, components, correlations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import budget
from ferrodp.statistics._column import Keep
from ferrodp.statistics.models._sums import (
    Box,
    Floats,
    box_of,
    counted,
    found_length,
    length_of,
    of_all_parts,
    of_units,
    outer_sum,
    pay,
    planned,
    rows_of,
    shortened,
)
from ferrodp.sums import ClippedSum
from ferrodp.tickets import Ticket

__all__ = ["LinearModel", "PrincipalComponents", "PrivateMoments", "private_moments"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_FOR_LENGTH = Fraction(1, 10)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearModel:
    """A linear regression: predictions are ``rows @ coef + intercept``.

    Attributes
    ----------
    coef : (d,) ndarray of float64
        In units of the target per unit of each column.
    intercept : float
        The prediction at zeros.
    ridge : float
        The penalty that was added, in the units of columns scaled to [−1, 1] and divided by rows.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.statistics.models import LinearModel
    >>> LinearModel(coef=np.array([2.0]), intercept=1.0, ridge=0.0).predict([[3.0]])
    array([7.])
    """

    coef: Floats
    intercept: float
    ridge: float

    def predict(self, rows: Any) -> Floats:
        """Return the predicted targets of rows.

        Parameters
        ----------
        rows : (n, d) array of numbers
            In the units that the model was fitted in.

        Returns
        -------
        (n,) ndarray of float64

        Raises
        ------
        InvalidArray
            If the shape or dtype is not accepted.

        Examples
        --------
        >>> import numpy as np
        >>> from ferrodp.statistics.models import LinearModel
        >>> LinearModel(coef=np.array([2.0, 0.0]), intercept=1.0, ridge=0.0).predict(np.zeros((1, 2)))
        array([1.])
        """
        with np.errstate(all="ignore"):
            found: Floats = rows_of(rows, width=len(self.coef)) @ self.coef + self.intercept
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrincipalComponents:
    """Directions of the largest variance.

    Attributes
    ----------
    components : (k, d) ndarray of float64
        Orthonormal rows, by falling variance; the largest entry of each is positive.
    explained_variance : (k,) ndarray of float64
        The variance along each, at least 0.
    mean : (d,) ndarray of float64
        What is subtracted before projecting.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.statistics.models import PrincipalComponents
    >>> of = PrincipalComponents(components=np.eye(2), explained_variance=np.ones(2), mean=np.zeros(2))
    >>> of.transform([[3.0, 4.0]])
    array([[3., 4.]])
    """

    components: Floats
    explained_variance: Floats
    mean: Floats

    def transform(self, rows: Any) -> Floats:
        """Return the coordinates of rows along the components.

        Parameters
        ----------
        rows : (n, d) array of numbers
            In the units of the data.

        Returns
        -------
        (n, k) ndarray of float64

        Raises
        ------
        InvalidArray
            If the shape or dtype is not accepted.

        Examples
        --------
        >>> import numpy as np
        >>> from ferrodp.statistics.models import PrincipalComponents
        >>> of = PrincipalComponents(components=np.eye(2)[:1], explained_variance=np.ones(1), mean=np.ones(2))
        >>> of.transform([[3.0, 4.0]])
        array([[2.]])
        """
        with np.errstate(all="ignore"):
            found: Floats = (rows_of(rows, width=len(self.mean)) - self.mean) @ self.components.T
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PrivateMoments:
    """Noised number of rows, means and covariances of columns; made by `private_moments`. All else costs nothing.

    Attributes
    ----------
    count : float
        The noised number of rows that count, at least 1.
    mean : (d,) ndarray of float64
        Within the bounds.
    covariance : (d, d) ndarray of float64
        Symmetric, without negative eigenvalues.
    epsilon, delta : float
        What all of it guarantees together.
    event : PrivacyEvent
        What an accountant composes.
    unit : str
        The unit of privacy.
    neighboring_relation : NeighboringRelation
        Which datasets cannot be told apart beyond (ε, δ).

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.statistics.models import private_moments
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, (20_000, 2))
    >>> rows = np.column_stack([x, 2 * x[:, 0] - x[:, 1] + 1])
    >>> moments = private_moments(rows, bounds=([-1, -1, -2], [1, 1, 4]), epsilon=2.0, delta=1e-6)
    >>> model = moments.linear_regression(2)
    >>> bool(np.abs(model.coef - [2, -1]).max() < 0.2), moments.correlation.shape
    (True, (3, 3))
    """

    count: float
    mean: Floats
    covariance: Floats
    epsilon: float
    delta: float
    event: PrivacyEvent
    unit: str
    neighboring_relation: NeighboringRelation
    _scaled: Floats
    _error: float
    _half: Floats
    _names: tuple[str, ...] | None = None

    @property
    def correlation(self) -> Floats:
        """The correlations that follow from the covariances: 1 on the diagonal, from −1 to 1 elsewhere."""
        deviations = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        usable = np.where(deviations > 0.0, deviations, 1.0)
        found: Floats = np.clip(self.covariance / np.outer(usable, usable), -1.0, 1.0)
        np.fill_diagonal(found, 1.0)
        return found

    def linear_regression(
        self, target: int, *, features: Sequence[int] | None = None, ridge: Real | None = None
    ) -> LinearModel:
        r"""Return the linear regression of one column on others.

        Parameters
        ----------
        target : int
            The place of the column that is predicted.
        features : sequence of int, optional
            The places of the columns that predict it; by default all others.
        ridge : float, optional
            λ ≥ 0 of the penalty λ·‖w‖² beside the mean squared error, for columns scaled to [−1, 1]. By default as much
            as keeps the noise in the covariances from being inverted.

        Returns
        -------
        LinearModel
            In the units of the data.

        Raises
        ------
        InvalidParameter, InvalidType
            If a place or the penalty is out of its domain.

        Notes
        -----
        The default follows [Wan18], Algorithm 2: a matrix of noise of deviation s has eigenvalues up to about
        :math:`2 s \sqrt{d}`; the penalty is what the least noised eigenvalue lacks of half of that. Public: the noise's
        deviation is.

        References
        ----------
        [Wan18] Wang, "Revisiting differentially private linear regression: optimal and adaptive prediction and
        estimation in unbounded domain", UAI 2018.

        Examples
        --------
        >>> import numpy as np
        >>> from ferrodp.statistics.models import private_moments
        >>> rows = np.repeat(np.linspace(-1, 1, 5_000)[:, None], 2, axis=1)
        >>> moments = private_moments(rows, bounds=(-1, 1), epsilon=2.0, delta=1e-6)
        >>> bool(abs(moments.linear_regression(1).coef[0] - 1.0) < 0.1)
        True
        """
        width = len(self.mean)
        place = _validate.count("target", target, minimum=0, maximum=width - 1)
        if features is None:
            chosen = [i for i in range(width) if i != place]
        else:
            chosen = [_validate.count("features", each, minimum=0, maximum=width - 1) for each in features]
        if not chosen or place in chosen or len(set(chosen)) != len(chosen):
            raise InvalidParameter("features must be different columns other than the target, at least one")
        grams = self._scaled[np.ix_(chosen, chosen)]
        products = self._scaled[chosen, place]
        penalty = 0.0 if ridge is None else _validate.non_negative("ridge", ridge)
        values, vectors = np.linalg.eigh(grams)
        if ridge is None:
            penalty = max(self._error * math.sqrt(len(chosen)) - float(values[0]), 0.0)
        usable = np.maximum(values, 0.0) + penalty
        inverse = np.where(usable > 0.0, 1.0 / np.where(usable > 0.0, usable, 1.0), 0.0)
        weights = vectors @ (inverse * (vectors.T @ products))
        coef = weights * self._half[place] / self._half[chosen]
        return LinearModel(
            coef=coef, intercept=float(self.mean[place] - coef @ self.mean[chosen]), ridge=float(penalty)
        )

    def principal_components(self, num_components: int, *, scale: bool = False) -> PrincipalComponents:
        """Return the directions of the largest variance.

        Parameters
        ----------
        num_components : int
            From 1 to the number of columns.
        scale : bool
            Whether columns count in units of half the distance of their bounds, which helps where units differ: then
            components are orthogonal in those, and not in the units of the data.

        Returns
        -------
        PrincipalComponents
            In the units of the data.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.

        Examples
        --------
        >>> import numpy as np
        >>> from ferrodp.statistics.models import private_moments
        >>> rows = np.outer(np.linspace(-1, 1, 5_000), [0.8, 0.6])
        >>> moments = private_moments(rows, bounds=(-1, 1), epsilon=2.0, delta=1e-6)
        >>> bool(np.abs(moments.principal_components(1).components[0] - [0.8, 0.6]).max() < 0.1)
        True
        """
        width = len(self.mean)
        wanted = _validate.count("num_components", num_components, maximum=width)
        scaled = _validate.truth("scale", scale)
        values, vectors = np.linalg.eigh(self._scaled if scaled else self.covariance)
        components = vectors[:, ::-1][:, :wanted].T
        if scaled:
            components = components / self._half
        signs = np.sign(components[np.arange(wanted), np.abs(components).argmax(axis=1)])
        return PrincipalComponents(
            components=components * np.where(signs < 0.0, -1.0, 1.0)[:, None],
            explained_variance=np.maximum(values[::-1][:wanted], 0.0),
            mean=self.mean,
        )

    def __repr__(self) -> str:
        return f"<PrivateMoments of {len(self.mean)} columns; ε={self.epsilon:g}, δ={self.delta:g}>"


@_arrays.quiet
def private_moments(
    rows: Any,
    *,
    bounds: tuple[Any, Any],
    clip_norm: Real | None = None,
    epsilon: Real | None = None,
    delta: Real = 0.0,
    max_contributions: int = 1,
    unit: Any = None,
    keep: Keep = "random",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> PrivateMoments:
    r"""Return noised means and covariances of several columns, from which regressions and components follow.

    The release is (ε, δ)-differentially private for a unit that contributes at most `max_contributions` rows.

    Parameters
    ----------
    rows : (n, d) array of numbers, or table
        Each column is clamped to its bounds. A row with a number that is not finite is left out.
    bounds : pair of floats, or of sequences of d floats
        Public bounds of all columns, or of each.
    clip_norm : float, optional
        A public bound on the norm of rows whose columns are scaled to [−1, 1]; at most √d. Longer rows are shortened. A
        tenth of the budget finds one that nine in ten rows keep, if it is left out.
    epsilon, max_contributions, source, ticket
        As for `private_count`.
    unit : str, or array, Series or list, optional
        Whose each row is: the name of a column of the table, which is none of the numbers then, or an id a row, as for
        `private_count`. Then nothing is promised: of the rows of each unit `max_contributions` count.
    keep : {"random", "first"}
        Which rows of a unit count if it has more.
    delta : float
        Above 0 and below 1.
    neighboring_relation : NeighboringRelation
        Under `REPLACE_SPECIAL` a null record is a row that is left out.

    Returns
    -------
    PrivateMoments
        With methods for regressions and principal components.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    The sum of u ⊗ u over u = (a, t), t a scaled row and a constant: noise on a whole matrix of second moments, as in
    [DTTZ14] Algorithm 1. Its sensitivity in L2 norm is ‖u‖² ≤ a² + R², with R the bound on ‖t‖: each product is held to
    it in exact arithmetic by `ClippedSum.add_outer`. Entries come twice, and are averaged.

    References
    ----------
    [DTTZ14] Dwork, Talwar, Thakurta, Zhang, "Analyze Gauss: optimal bounds for privacy-preserving principal component
    analysis", STOC 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.statistics.models import private_moments
    >>> rows = np.random.default_rng(0).uniform(0, 10, (10_000, 3))
    >>> moments = private_moments(rows, bounds=(0, 10), epsilon=1.0, delta=1e-6)
    >>> bool(np.abs(moments.mean - 5.0).max() < 0.3), bool(abs(moments.covariance[0, 0] - 100 / 12) < 1.0)
    (True, True)
    """
    spent = budget(epsilon, delta, max_contributions, neighboring_relation, source, ticket)
    values = rows_of(rows, without=unit)
    width = values.shape[1]
    box = box_of(bounds, width)
    length = length_of(clip_norm, width)
    parts = [Fraction(1)] if length is not None else [_FOR_LENGTH, 1 - _FOR_LENGTH]
    spent = of_units(spent, rows, unit, keep)
    scaled, counts = box.scaled(values)
    counts = counted(spent, counts)
    plan = planned(spent, parts)

    def products(length: float) -> ClippedSum[Any]:
        left = np.column_stack([np.full(len(scaled), 0.5 * length), shortened(scaled, length)])
        left[~counts] = 0.0
        return outer_sum(left, left, (0.5 * length) ** 2 + length**2)

    total = None
    if length is not None:
        held = length
        total = of_all_parts(lambda: products(held), lambda: (plan, "moments", held, box, spent.of))
    payment = pay(spent, plan, "mean and covariance of columns", rows, box, unit)
    if length is None or total is None:
        length = found_length(scaled, counts, payment, 0)
        total = products(length)
    last = len(payment.multipliers) - 1
    noised = payment.release(last, total)
    noised = 0.5 * (noised + noised.T)
    deviation = payment.deviation(last, total.clip_norm)
    return _moments(noised, 0.5 * length, box, deviation, spent, payment.event)


def _moments(
    noised: Floats, constant: float, box: Box, deviation: float, spent: Any, event: PrivacyEvent
) -> PrivateMoments:
    """Return what follows from a noised matrix of second moments of (a, t)."""
    count = max(float(noised[0, 0]) / constant**2, 1.0)
    mean = np.clip(noised[0, 1:] / constant / count, -1.0, 1.0)
    centered = noised[1:, 1:] / count - np.outer(mean, mean)
    values, vectors = np.linalg.eigh(centered)
    scaled = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return PrivateMoments(
        count=count,
        mean=box.middle + box.half * mean,
        covariance=scaled * np.outer(box.half, box.half),
        epsilon=spent.epsilon,
        delta=spent.delta,
        event=event,
        unit=spent.unit,
        neighboring_relation=spent.relation,
        _scaled=scaled,
        _error=deviation / math.sqrt(2.0) / count,
        _half=box.half,
    )
