"""Gaussian naive Bayes: noised counts, sums and sums of squares of each class, in one release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidArray, InvalidParameter
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import budget
from ferrodp.statistics._column import Keep, read
from ferrodp.statistics.counts import matching, places, public_labels
from ferrodp.statistics.models._sums import (
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

__all__ = ["NaiveBayes", "private_naive_bayes"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_FOR_LENGTH = Fraction(1, 20)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NaiveBayes:
    """A Gaussian naive Bayes classifier; made by `private_naive_bayes`.

    Attributes
    ----------
    classes : tuple
        The public classes.
    priors : (k,) ndarray of float64
        Their shares, which add up to 1.
    means, variances : (k, d) ndarray of float64
        Of each column in each class; variances are positive.
    epsilon, delta : float
        What they guarantee.
    event : PrivacyEvent
        What an accountant composes.
    unit : str
        The unit of privacy.
    neighboring_relation : NeighboringRelation
        Which datasets cannot be told apart beyond (ε, δ).

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.statistics.models import private_naive_bayes
    >>> rows = np.random.default_rng(0).normal(size=(4_000, 2)) + np.repeat([[0.0], [3.0]], 2_000, axis=0)
    >>> labels = ["low"] * 2_000 + ["high"] * 2_000
    >>> model = private_naive_bayes(rows, labels, classes=["low", "high"], bounds=(-4, 7), epsilon=1.0, delta=1e-6)
    >>> model.predict([[0.0, 0.0], [3.0, 3.0]])
    ['low', 'high']
    """

    classes: tuple[Any, ...]
    priors: Floats
    means: Floats
    variances: Floats
    epsilon: float
    delta: float
    event: PrivacyEvent
    unit: str
    neighboring_relation: NeighboringRelation

    def scores(self, rows: Any) -> Floats:
        """Return the logarithm of prior times likelihood of each class.

        Parameters
        ----------
        rows : (n, d) array of numbers
            In the units of the data; what is not finite says nothing.

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
        >>> from ferrodp.statistics.models import private_naive_bayes
        >>> rows = np.zeros((9, 1))
        >>> model = private_naive_bayes(rows, [0] * 9, classes=[0, 1], bounds=(-1, 1), epsilon=1.0, delta=1e-6)
        >>> model.scores(rows).shape
        (9, 2)
        """
        values = rows_of(rows, width=self.means.shape[1])
        found = np.empty((len(values), len(self.classes)))
        with np.errstate(all="ignore"):
            known = np.isfinite(values)
            values = np.clip(np.where(known, values, 0.0), -1e150, 1e150)
            for place in range(len(self.classes)):
                terms = (values - self.means[place]) ** 2 / self.variances[place] + np.log(self.variances[place])
                found[:, place] = math.log(self.priors[place]) - 0.5 * np.where(known, terms, 0.0).sum(axis=1)
        return found

    def predict(self, rows: Any) -> list[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        rows : (n, d) array of numbers
            As for `scores`.

        Returns
        -------
        list of length n

        Raises
        ------
        InvalidArray
            If the shape or dtype is not accepted.

        Examples
        --------
        >>> import numpy as np
        >>> from ferrodp.statistics.models import private_naive_bayes
        >>> rows = np.zeros((9_999, 1))
        >>> model = private_naive_bayes(rows, [0] * 9_999, classes=[0, 1], bounds=(-1, 1), epsilon=1.0, delta=1e-6)
        >>> model.predict(rows[:2])
        [0, 0]
        """
        return [self.classes[place] for place in self.scores(rows).argmax(axis=1)]

    def __repr__(self) -> str:
        cost = f"ε={self.epsilon:g}, δ={self.delta:g}"
        return f"<NaiveBayes: {len(self.classes)} classes, {self.means.shape[1]} columns; {cost}>"


@_arrays.quiet
def private_naive_bayes(
    rows: Any,
    labels: Any,
    *,
    classes: Sequence[Any] | npt.NDArray[Any],
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
) -> NaiveBayes:
    """Return a Gaussian naive Bayes classifier from noised counts, sums and sums of squares of each class.

    The release is (ε, δ)-differentially private for a unit that contributes at most `max_contributions` rows.

    Parameters
    ----------
    rows, bounds, clip_norm, epsilon, delta, max_contributions, unit, keep, neighboring_relation, source, ticket
        As for `private_moments`.
    labels : (n,) array, Series or list
        The class of each row. A row with another one is left out.
    classes : sequence of numbers, strings or other hashable labels
        The public classes, at least two.

    Returns
    -------
    NaiveBayes
        The classifier.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    The sum of e ⊗ (a, t, t² − ⅓) over rows, e the unit vector of the class, t the scaled row of norm at most R. With
    (s − ⅓)² ≤ (1 + 3s)/9 for s in [0, 1], one row moves it by at most the root of a² + 4R²/3 + d/9, to which each
    product is held in exact arithmetic by `ClippedSum.add_outer`. The model is that of [VSBH13].

    References
    ----------
    [VSBH13] Vaidya, Shafiq, Basu, Hong, "Differentially private naive Bayes classification", WI-IAT 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.statistics.models import private_naive_bayes
    >>> rows = np.random.default_rng(0).normal(size=(4_000, 1)) + np.repeat([[0.0], [4.0]], 2_000, axis=0)
    >>> labels = np.repeat([0, 1], 2_000)
    >>> model = private_naive_bayes(rows, labels, classes=[0, 1], bounds=(-4, 8), epsilon=2.0, delta=1e-6)
    >>> bool(np.abs(model.means.ravel() - [0.0, 4.0]).max() < 0.5), bool(abs(model.priors[0] - 0.5) < 0.05)
    (True, True)
    """
    spent = budget(epsilon, delta, max_contributions, neighboring_relation, source, ticket)
    values = rows_of(rows, without=unit)
    width = values.shape[1]
    box = box_of(bounds, width)
    found = read(labels, "labels")
    known = matching(public_labels(classes, "classes"), found, "classes")
    if len(known) < 2:
        raise InvalidParameter(f"classes must be at least two, got {len(known)}")
    length = length_of(clip_norm, width)
    of_row = np.concatenate([np.zeros(0, np.intp), *places(found, known)])
    if len(of_row) != len(values):
        raise InvalidArray(f"labels must be as many as rows, got {len(of_row)} and {len(values)}")
    parts = [Fraction(1)] if length is not None else [_FOR_LENGTH, 1 - _FOR_LENGTH]
    spent = of_units(spent, rows, unit, keep)
    scaled, counts = box.scaled(values)
    counts = counted(spent, counts & (of_row >= 0))
    plan = planned(spent, parts)
    hot = np.zeros((len(scaled), len(known)))
    hot[np.arange(len(scaled)), np.maximum(of_row, 0)] = counts

    def products(length: float) -> ClippedSum[Any]:
        short = shortened(scaled, length)
        terms = np.column_stack([np.full(len(short), 0.5 * length), short, short * short - 1.0 / 3.0])
        terms[~counts] = 0.0
        return outer_sum(hot, terms, math.sqrt((0.5 * length) ** 2 + (4.0 / 3.0) * length**2 + width / 9.0))

    total = None
    if length is not None:
        held = length
        total = of_all_parts(lambda: products(held), lambda: (plan, "naive Bayes", held, known, box, spent.of))
    payment = pay(spent, plan, f"Gaussian naive Bayes, {len(known)} classes", rows, box, unit)
    if length is None or total is None:
        length = found_length(scaled, counts, payment, 0)
        total = products(length)
    constant = 0.5 * length
    last = len(payment.multipliers) - 1
    noised = payment.release(last, total)
    noise = payment.deviation(last, total.clip_norm)
    sizes = np.maximum(noised[:, 0] / constant, 1.0)
    means = np.clip(noised[:, 1 : width + 1] / sizes[:, None], -1.0, 1.0)
    squares = np.clip(noised[:, width + 1 :] / sizes[:, None] + 1.0 / 3.0, 0.0, 1.0)
    # a variance below its own noise is as good as unknown
    floors = np.maximum(noise / sizes, 1e-3)[:, None]
    variances = np.clip(squares - means**2, np.minimum(floors, 0.25), 1.0)
    return NaiveBayes(
        classes=tuple(known.tolist() if isinstance(known, np.ndarray) else known),
        priors=sizes / sizes.sum(),
        means=box.middle + box.half * means,
        variances=variances * box.half**2,
        epsilon=spent.epsilon,
        delta=spent.delta,
        event=payment.event,
        unit=spent.unit,
        neighboring_relation=spent.relation,
    )
