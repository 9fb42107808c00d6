"""Audits of contingency tables and models: replayed without each of their rows, or with another one in its place."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from alarms import REPLACE, function

import ferrodp as fd
from ferrodp.audit import audit_code
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation
from ferrodp.statistics import models
from reference import responses

ROWS = np.array([[0, 0, 0], [1, 2, 0], [1, 1, 1], [0, 2, 1], [1, 2, 1], [1, 2, 1], [1, 2, 1]])
PUBLIC = {"a": range(2), "b": range(3), "c": range(2)}


def of_rows(rows: int = 1, relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> bool:
    """Whether tables move farther than they state where rows leave, or are replaced."""

    def run(table: np.ndarray) -> Any:
        frame = dict(zip("abc", table.T, strict=True))
        options = {"epsilon": 1.0, "delta": 1e-6, "max_contributions": rows, "neighboring_relation": relation}
        return fd.private_marginals(frame, 2, categories=PUBLIC, **options).table(("a", "b"))

    if relation is REPLACE:
        cells = [(0, 0, 0), (1, 2, 1), (0, 2, 1), (1, 0, 0)]
        others = [np.vstack([ROWS[:i], [to], ROWS[i + 1 :]]) for i in range(len(ROWS)) for to in cells]
    else:
        others = [np.delete(ROWS, range(i, i + rows), axis=0) for i in range(len(ROWS) - rows + 1)]
    accounted = EpsilonDeltaEvent(epsilon=1.0, delta=1e-6)
    return any(
        audit_code(run, ROWS, others, accounted=accounted, neighboring_relation=relation).violation for _ in range(3)
    )


NUMBERS = np.array([[0.0, 1.0], [9.0, -9.0], [np.nan, 3.0], [5.0, 5.0], [-2.0, 0.5], [3.0, 3.0], [np.inf, 1.0]])


def of_models(
    release: Callable[..., Any], rows: int = 1, relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
) -> bool:
    """Whether the sums of a model move farther than they state, or cost more than was promised."""
    options = {"epsilon": 1.0, "delta": 1e-6, "max_contributions": rows, "neighboring_relation": relation}

    def run(table: np.ndarray) -> Any:
        return release(table, bounds=(-5.0, 5.0), **options)

    if relation is REPLACE:
        others = [
            np.vstack([NUMBERS[:i], [to], NUMBERS[i + 1 :]])
            for i in range(len(NUMBERS))
            for to in ([5.0, 5.0], [-5.0, -5.0], [np.nan, 0.0])
        ]
    else:
        others = [np.delete(NUMBERS, range(i, i + rows), axis=0) for i in range(len(NUMBERS) - rows + 1)]
    accounted = EpsilonDeltaEvent(epsilon=1.0, delta=1e-6)
    return any(
        audit_code(run, NUMBERS, others, accounted=accounted, neighboring_relation=relation).violation for _ in range(3)
    )


def bayes(table: np.ndarray, **options: Any) -> Any:
    labels = np.where(np.nan_to_num(table[:, 1]) > 1.0, "more", "less")
    return models.private_naive_bayes(table, labels, classes=["less", "more"], **options).means


def of_categories(
    rows: int = 1, relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE, delta: float = 1e-6
) -> bool:
    """Whether counts of classes and values move farther than they state where rows leave, or are replaced."""
    options = {"epsilon": 1.0, "delta": delta, "max_contributions": rows, "neighboring_relation": relation}

    def run(table: np.ndarray) -> Any:
        made = models.private_categorical_bayes(
            table[:, :2], table[:, 2], classes=[0, 1], categories=[range(2), range(3)], **options
        )
        return np.concatenate([made.class_counts, *(each.ravel() for each in made.counts)])

    if relation is REPLACE:
        cells = [(0, 0, 0), (1, 2, 1), (0, 2, 1), (1, 9, 9)]
        others = [np.vstack([ROWS[:i], [to], ROWS[i + 1 :]]) for i in range(len(ROWS)) for to in cells]
    else:
        others = [np.delete(ROWS, range(i, i + rows), axis=0) for i in range(len(ROWS) - rows + 1)]
    accounted = EpsilonDeltaEvent(epsilon=1.0, delta=delta)
    return any(
        audit_code(run, ROWS, others, accounted=accounted, neighboring_relation=relation).violation for _ in range(3)
    )


def moments(table: np.ndarray, **options: Any) -> Any:
    return models.private_moments(table, **options).covariance


def clusters(table: np.ndarray, **options: Any) -> Any:
    return models.private_clusters(table, 2, num_rounds=2, seed=0, **options).centers


def scales(table: np.ndarray, **options: Any) -> Any:
    return models.private_scales(table, **options).mean


OWNERS = np.array([[0.0, 5.0, 5.0], [0.0, -5.0, 5.0], [0.0, 5.0, 5.0], [1.0, 2.0, 1.0], [2.0, 5.0, -5.0]])
"""Whose each row is, and two numbers."""


def of_units_of_models(release: Callable[..., Any], rows: int = 1) -> bool:
    """Whether the sums of a model move farther than they state where a unit leaves with all of its rows."""

    def run(table: np.ndarray) -> Any:
        options = {"unit": table[:, 0], "keep": "first", "max_contributions": rows}
        return release(table[:, 1:], bounds=(-5.0, 5.0), epsilon=1.0, delta=1e-6, **options)

    others = [OWNERS[OWNERS[:, 0] != unit] for unit in range(3)]
    accounted = EpsilonDeltaEvent(epsilon=1.0, delta=1e-6)
    return any(audit_code(run, OWNERS, others, accounted=accounted).violation for _ in range(3))


def coded_answers() -> bool:
    """Whether messages have another law than the one that the accountant is told of."""
    made = fd.HadamardResponse.calibrated(epsilon=1.0, num_categories=3)

    def release_many(value: int, n: int) -> np.ndarray:
        return made.release(np.full(n, value))

    return function(release_many, (0, 1), delta=0.0, draws=200_000)


def exactly_coded_answers() -> bool:
    """Whether the ratio of the probabilities of a message is beyond e^ε, in rationals."""
    made = fd.HadamardResponse.calibrated(epsilon=1.0, num_categories=3, field_size=4)
    return Fraction(2**64 - 3 * made.weight, made.weight) > Fraction("2.718281828459045235360287471352662497757")


def exactly(made: fd.UnaryResponse | fd.SubsetResponse, law: Callable[[Any, int], dict[int, Fraction]]) -> bool:
    """Whether the law, by enumeration, is not what is calibrated for ε = 1, or costs more than is said."""
    one, other = law(made, 0), law(made, 1)
    ratio = max(one[row] / other[row] for row in one)
    apart = sum(max(one[row] - 2 * other[row], Fraction(0)) for row in one)
    euler, half = Fraction("2.718281828459045235360287471352662497757"), math.log(2.0)
    says_less = made.epsilon() < math.log(ratio) - 1e-12 or made.delta(half) < float(apart) - 1e-12
    return ratio > euler or says_less or made.epsilon(float(apart)) < half - 1e-9


def exactly_answered_vectors() -> bool:
    """Whether code words of opposite vectors are not as likely as calibrated for ε = 1, or cost more than is said."""
    made = fd.VectorResponse.calibrated(epsilon=1.0, dimension=2, num_directions=3, size=2, l2_clip_norm=1.0)
    one, other = (responses.vector_law(made, near) for near in ((0, 3), (1, 2)))
    euler, half = Fraction("2.718281828459045235360287471352662497757"), math.log(2.0)
    ratio = max(a / b for a, b in zip(one, other, strict=True))
    apart = sum(max(a - 2 * b, Fraction(0)) for a, b in zip(one, other, strict=True))
    return ratio > euler or made.epsilon() < math.log(ratio) - 1e-12 or made.delta(half) < float(apart) - 1e-12


AUDITS: dict[str, Callable[[], bool]] = {
    "answers in bits, exactly": lambda: exactly(
        fd.UnaryResponse.calibrated(epsilon=1.0, num_categories=3), responses.bits_law
    ),
    "answers in sets, exactly": lambda: exactly(
        fd.SubsetResponse.calibrated(epsilon=1.0, num_categories=5, size=2), responses.sets_law
    ),
    "vectors, exactly": exactly_answered_vectors,
    "coded answers": coded_answers,
    "coded answers, exactly": exactly_coded_answers,
    "moments": lambda: of_models(moments),
    "moments, several rows": lambda: of_models(moments, rows=3),
    "moments, replaced": lambda: of_models(moments, relation=REPLACE),
    "moments of units": lambda: of_units_of_models(moments),
    "scales of units": lambda: of_units_of_models(scales, rows=2),
    "naive Bayes of categories": of_categories,
    "naive Bayes of categories, several rows": lambda: of_categories(3),
    "naive Bayes of categories, replaced": lambda: of_categories(relation=REPLACE),
    "naive Bayes of categories, pure": lambda: of_categories(delta=0.0),
    "naive Bayes": lambda: of_models(bayes),
    "naive Bayes, replaced": lambda: of_models(bayes, relation=REPLACE),
    "naive Bayes of units": lambda: of_units_of_models(bayes),
    "clusters": lambda: of_models(clusters),
    "clusters, replaced": lambda: of_models(clusters, relation=REPLACE),
    "clusters of units": lambda: of_units_of_models(clusters),
    "scales": lambda: of_models(scales),
    "scales, replaced": lambda: of_models(scales, relation=REPLACE),
    "tables": of_rows,
    "tables, several rows": lambda: of_rows(3),
    "tables, replaced": lambda: of_rows(relation=REPLACE),
}
"""Whether an audit raises an alarm: of runs with the same noise, so that chance takes no part."""
