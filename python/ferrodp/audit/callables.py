"""Test of any function of a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.audit import _region_test
from ferrodp.audit._events.outputs import Outputs, Raised, outputs_of
from ferrodp.audit.power import confidence_of
from ferrodp.audit.report import AuditReport
from ferrodp.errors import InvalidParameter

_CHUNK = 1 << 16


def audit_callable(
    release: Callable[[Any], Any],
    *,
    neighbors: tuple[Any, Any],
    epsilon: Real,
    delta: Real,
    draws: int = 200_000,
    release_many: Callable[[Any, int], Any] | None = None,
    confidence: Real = 0.999,
) -> AuditReport:
    """Test whether outputs of a function contradict its (ε, δ).

    Among many events the one that promises most is chosen on a part of the draws, for each of the two directions, and
    counted on the others. Events are about kinds of output (types, shapes, containers, texts, exceptions), about single
    numbers (tails, values, last bits, the sign of zero, NaN), and about several numbers at once: their norms, extremes,
    differences and repetitions, sets of outputs, and statistics that are learned from the draws.

    Parameters
    ----------
    release : callable
        Takes one of the neighbors and returns a number, an array, a container of them or anything that prints. An
        exception that it raises is an output like any other. The first 64 numbers of an output are looked at.
    neighbors : tuple of two values
        What neighboring datasets would be released as.
    epsilon : float
        Of the claim; finite, ≥ 0.
    delta : float
        Of the claim; in [0, 1).
    draws : int
        Outputs of each neighbor; at least 100. A quarter of them, at most 200 000, choose the events.
    release_many : callable, optional
        Takes a neighbor and n, and returns n independent outputs at once: an array with n rows, or a list.
    confidence : float
        Of `violation`; in [0.5, 1). A true claim is called violated with probability
        1 − confidence at most. For tests that run every night, near 1; see Notes.

    Returns
    -------
    AuditReport
        With exact binomial bounds, valid whatever event was chosen.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or `release_many` returns another number of outputs.

    Notes
    -----
    Rates of both sides are tested jointly: each pair of rates is rejected by the weighted sum of two binomial scores
    ([SSDSW49]), for each direction, and for both at once where their events exclude each other. The bound is the least
    ε of the pairs that are left, rounded down. The e-value is that of bets on pairs of draws.

    Of m tests in each of n nights, with ``confidence=1 - 1e-3 / (m * n)`` none raises a false alarm, but with
    probability 0.1 %; that takes a few times as many draws. See also `keep_evidence`.

    References
    ----------
    [Mir12] Mironov, "On significance of the least significant bits for differential privacy", CCS 2012. [SSDSW49]
    Stouffer, Suchman, DeVinney, Star, Williams, "The American Soldier", volume 1, 1949.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp import LaplaceMechanism
    >>> mechanism = LaplaceMechanism(scale=1.0, l1_sensitivity=1.0)
    >>> report = audit_callable(
    ...     mechanism.release,
    ...     neighbors=(0.0, 1.0),
    ...     epsilon=1.0,
    ...     delta=0.0,
    ...     draws=100_000,
    ...     release_many=lambda value, n: mechanism.release(np.full(n, value)),
    ... )
    >>> report.violation
    False
    """
    one, other = neighbors
    claimed, failure = _validate.non_negative("epsilon", epsilon), _validate.probability("delta", delta)
    if failure >= 1.0:
        raise _validate.out_of_domain("delta", "in [0, 1)", delta)
    number = _validate.count("draws", draws, minimum=100)

    def many(value: Any, n: int) -> Outputs:
        if release_many is not None:
            found = release_many(value, n)
            if len(found) != n:
                raise InvalidParameter(f"release_many must return {n} outputs, got {len(found)}")
            return outputs_of(found)
        return outputs_of([_output(release, value) for _ in range(n)])

    def draw(side: int, n: int) -> Iterator[Outputs]:
        for first in range(0, n, _CHUNK):
            yield many((one, other)[side], min(_CHUNK, n - first))

    name = getattr(release, "__qualname__", type(release).__name__)
    return _region_test.run(
        draw,
        claim=name,
        neighbors=(_short(one), _short(other)),
        epsilon=claimed,
        delta=failure,
        draws=number,
        level=1.0 - confidence_of(confidence),
    )


def _output(release: Callable[[Any], Any], value: Any) -> Any:
    try:
        return release(value)
    except Exception as error:  # an exception is an output
        return Raised(error)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
