"""Test of the code around releases: a run is recorded, and replayed on neighboring datasets with the same outputs."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting import PldAccountant
from ferrodp.audit.report import plain
from ferrodp.errors import InvalidParameter
from ferrodp.events import ComposedEvent, NeighboringRelation, PrivacyEvent
from ferrodp.testing import Observation, record, replay

_DEPTH = 12
_COST_ERROR = 1e-3
"""Relative error of upper bounds, and more; compared where an accountant knows no lower one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that tells neighboring datasets apart and is covered by no noise.

    Attributes
    ----------
    kind : str
        "inputs": farther apart than declared; "releases": others than in the record, or with other parameters;
        "result": what the code returns depends on the data besides its releases; "exception": whether it raises does;
        "noise": the same in two runs; "accounting": releases cost more than is accounted, or than
        can be certified; "nothing": no release.
    neighbor : int or None
        Which of the neighbors shows it.
    message : str
        What is wrong.

    Examples
    --------
    >>> Finding("noise", None, "two runs have the same noise").kind
    'noise'
    """

    kind: str
    neighbor: int | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeReport:
    """What a test of code found.

    Attributes
    ----------
    claim : str
        What was tested.
    neighbors : int
        On how many neighbors it was replayed.
    releases : tuple of dict
        For each release of the record: mechanism, norm, declared sensitivity, and the largest distance that was
        observed between inputs. A distance far below the sensitivity may mean too much noise, or tame neighbors.
    findings : tuple of Finding
        What is wrong.

    Examples
    --------
    >>> from ferrodp import LaplaceMechanism
    >>> from ferrodp.audit import audit_code
    >>> mechanism = LaplaceMechanism(scale=2.0, l1_sensitivity=1.0)
    >>> report = audit_code(lambda ages: mechanism.release(float(len(ages))), [35, 52, 61])
    >>> report.violation, report.releases[0]["observed"], report.to_dict()["neighbors"], report.to_json()[:9]
    (False, 1.0, 3, '{"claim":')
    """

    claim: str
    neighbors: int
    releases: tuple[dict[str, Any], ...]
    findings: tuple[Finding, ...]

    @property
    def violation(self) -> bool:
        """Whether anything was found."""
        return bool(self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        found = dataclasses.asdict(self) | {"violation": self.violation}
        return {name: plain(value) for name, value in found.items()}

    def to_json(self) -> str:
        """Return the data as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def __str__(self) -> str:
        verdict = f"{len(self.findings)} FOUND" if self.findings else "nothing found"
        lines = [
            f"claim            {self.claim}: releases cover all that depends on the data",
            f"verdict          {verdict}, on {self.neighbors} neighbors",
        ]
        for each in self.releases:
            share = f"{each['norm']} sensitivity {each['declared']:.6g}, observed {each['observed']:.6g}"
            lines.append(f"release          {each['mechanism']}: {share}")
        for finding in self.findings:
            where = "" if finding.neighbor is None else f", neighbor {finding.neighbor}"
            lines.append(f"finding          {finding.kind}{where}: {finding.message}")
        return "\n".join(lines)


def audit_code(
    code: Callable[[Any], Any],
    dataset: Any,
    neighbors: Iterable[Any] | None = None,
    *,
    accounted: PrivacyEvent | Callable[[Any], PrivacyEvent] | None = None,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    delta: Real = 1e-6,
) -> CodeReport:
    """Test whether code uses private data in its releases alone, and no more of it than they declare.

    The code is run on a dataset; then on each neighbor, where its releases return what they returned the first time.
    It has to make the same releases, with inputs no farther apart than each declares, and to return the same: all else
    would tell neighbors apart. NOT PRIVATE: for tests on data that nobody is in, such as the most extreme there are.

    Parameters
    ----------
    code : callable
        Takes a dataset, makes releases with this library, and returns what is published. Secret samples have to be the
        same in all runs: let it take them from outside, or use all records.
    dataset : object
        What is recorded.
    neighbors : iterable of objects, optional
        What is replayed. By default the dataset, a list or an array, without each of its first 20 records.
    accounted : PrivacyEvent, or callable, optional
        What is accounted for one run, or a function of what the code returned. Not of samples.
    neighboring_relation : NeighboringRelation
        Of the dataset and its neighbors, and for which `accounted` is stated. Under ``REPLACE_ONE`` sums of clipped
        rows are up to two clip norms apart, and cost what that does; plans know their own relation.
    delta : float
        At which costs are compared.

    Returns
    -------
    CodeReport

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or there is no neighbor.
    UnsupportedEventError
        If the costs of releases cannot be compared.
    Exception
        What the code raises on `dataset`.

    Notes
    -----
    [KMRTZ20] section 4. What is found is wrong; what is not found may be: only these neighbors were tried. Releases of
    other libraries are not seen; `audit_callable` tests those.

    References
    ----------
    [KMRTZ20] Kifer, Messing, Roth, Thakurta, Zhang, "Guidelines for implementing and auditing differentially private
    systems", 2020.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> from ferrodp.audit import audit_code
    >>> def mean(rows):  # divides by the number of rows
    ...     total = fd.ClippedSum((2,), clip_norm=1.0)
    ...     total.add_many(rows)
    ...     return total.release(noise_multiplier=1.0) / len(rows)
    >>> report = audit_code(mean, np.ones((5, 2)))
    >>> report.violation, report.findings[0].kind
    (True, 'result')
    """
    failure = _validate.delta(delta)
    # Of others than these a sum says itself how far apart they are.
    relation = neighboring_relation if neighboring_relation is NeighboringRelation.REPLACE_ONE else None
    others = _left_out(dataset) if neighbors is None else list(neighbors)
    if not others:
        raise InvalidParameter("neighbors must hold at least one dataset")
    with record(neighboring_relation=relation) as log:
        result = code(dataset)
    found = [Finding("nothing", None, "no release was made with this library")] if not log else []
    found += _repeated(code, dataset, log, relation)
    observed = [0.0] * len(log)
    for number, other in enumerate(others):
        finding, seen = _replayed(code, other, log, result, relation)
        if finding is not None:
            found.append(Finding(finding[0], number, finding[1]))
        for i, (then, now) in enumerate(zip(log, seen, strict=False)):
            if then.value.size == now.value.size:
                observed[i] = max(observed[i], _distance(then, now))
    if accounted is not None:
        event = accounted if isinstance(accounted, PrivacyEvent) else accounted(result)
        found += _accounted(log, event, neighboring_relation, failure)
    return CodeReport(
        claim=getattr(code, "__qualname__", type(code).__name__),
        neighbors=len(others),
        releases=tuple(
            {"mechanism": each.mechanism, "norm": each.norm, "declared": each.sensitivity, "observed": most}
            for each, most in zip(log, observed, strict=True)
        ),
        findings=tuple(found),
    )


def _replayed(
    code: Callable[[Any], Any],
    other: Any,
    log: Sequence[Observation],
    result: Any,
    relation: NeighboringRelation | None,
) -> tuple[tuple[str, str] | None, Sequence[Observation]]:
    """Return what distinguishes a neighbor, if anything does, and its releases."""
    seen: Sequence[Observation] = []
    try:
        with replay(log, neighboring_relation=relation) as seen:
            again = code(other)
    except AssertionError as error:
        return ("inputs" if "further" in str(error) else "releases", str(error)), seen
    except Exception as error:  # whether it raises tells the datasets apart
        return ("exception", f"raises {type(error).__name__} here, and not on the dataset"), seen
    if len(seen) < len(log):
        return ("releases", f"makes {len(seen)} releases here, and {len(log)} on the dataset"), seen
    # mutant: results-of-code-not-compared
    if not _same(result, again, _DEPTH):
        return ("result", "the result differs though all releases returned the same"), seen
    return None, seen


def _repeated(
    code: Callable[[Any], Any], dataset: Any, log: Sequence[Observation], relation: NeighboringRelation | None
) -> list[Finding]:
    """Return whether fresh runs have the noise of the first: in two more, so that chance hardly does it."""
    same = {i for i, each in enumerate(log) if _is_of_noise(each)}
    if not same:
        return []
    for _ in range(2):
        with record(neighboring_relation=relation) as again:
            code(dataset)
        same = {i for i in same if i < len(again) and _is_same_noise(log[i], again[i])}
        if not same:
            return []
    return [Finding("noise", None, f"release {min(same) + 1} has the same noise in every run")]


def _is_of_noise(seen: Observation) -> bool:
    """Return whether chance hardly repeats the output: not so of integers, nor of a choice or an answer among few.

    Noise of floats is on a grid of about 1/4096 of its deviation or finer, so that a number comes twice more with a
    probability below 1e-8. Choices and answers are recorded as such by their norms, those of the largest utility and of
    the coordinates that differ, whatever type they have.
    """
    # mutant: choice-made-twice-passes-for-noise-without-a-draw
    return seen.norm in ("L1", "L2") and seen.output.dtype.kind == "f" and bool(seen.output.size)


def _is_same_noise(then: Observation, now: Observation) -> bool:
    return now.output.dtype.kind == "f" and np.array_equal(then.output, now.output)


def _accounted(
    log: Sequence[Observation], event: PrivacyEvent, relation: NeighboringRelation, delta: float
) -> list[Finding]:
    """Return whether the releases cost more than what is accounted: at least, or as far as can be certified."""
    costs = []
    for each in (ComposedEvent(events=tuple(_charged(log))), event):
        accountant = PldAccountant(neighboring_relation=relation)
        accountant.compose(each)
        costs.append(accountant.epsilon_bounds(delta))
    covered = costs[1].upper
    if costs[0].lower > covered * (1.0 + 1e-9):
        message = f"the releases cost epsilon {costs[0].lower:.6g}, and {covered:.6g} is accounted"
        return [Finding("accounting", None, message)]
    # mutant: costs-without-a-lower-bound-not-compared
    if costs[0].lower <= 0.0 and costs[0].upper > covered * (1.0 + _COST_ERROR):
        message = (
            f"the releases are certified to cost epsilon {costs[0].upper:.6g} at most, and {covered:.6g} is accounted"
        )
        return [Finding("accounting", None, message)]
    return []


def _charged(log: Sequence[Observation]) -> Iterator[PrivacyEvent]:
    """Return what releases cost; those that cost less together, once."""
    seen = None
    for each in log:
        if each.together is None:
            yield each.event
        elif each.together != seen:
            # mutant: choices-about-groups-cost-nothing
            yield each.together[1]
        seen = each.together


def _distance(then: Observation, now: Observation) -> float:
    """Return the distance of two inputs in the norm of their sensitivity, about."""
    steps = np.abs(then.value.astype(np.float64) - now.value.astype(np.float64)).ravel() * then.unit
    if not steps.size:
        return 0.0
    if then.norm == "L0":
        return float(np.count_nonzero(steps))
    if then.norm == "L1":
        return math.fsum(steps.tolist())
    return float(np.linalg.norm(steps)) if then.norm == "L2" else float(steps.max())


def _left_out(dataset: Any) -> list[Any]:
    """Return a list or an array without each of its first records."""
    if isinstance(dataset, np.ndarray) and dataset.ndim:
        return [np.delete(dataset, i, axis=0) for i in range(min(len(dataset), 20))]
    if isinstance(dataset, (list, tuple)):
        return [type(dataset)([*dataset[:i], *dataset[i + 1 :]]) for i in range(min(len(dataset), 20))]
    raise InvalidParameter("neighbors must be given for a dataset that is no list and no array")


def _same(one: Any, other: Any, depth: int) -> bool:
    """Return whether two results are equal, NaN to NaN; objects without an equality of their own by their fields."""
    if type(one) is not type(other) or depth == 0:
        return depth == 0
    if isinstance(one, np.ndarray):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if one.dtype.kind == "O":
            return all(_same(a, b, depth - 1) for a, b in zip(one.ravel(), other.ravel(), strict=True))
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key], depth - 1) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(_same(a, b, depth - 1) for a, b in zip(one, other, strict=True))
    if isinstance(one, (float, np.floating)):
        return bool(one == other) or (one != one and other != other)
    if callable(one):
        return True
    own: Any = type(one).__eq__
    if own is not object.__eq__ or isinstance(one, (int, str, bytes, Fraction)):
        return bool(one == other)
    names = [name for each in type(one).__mro__ for name in getattr(each, "__slots__", ()) if name != "__weakref__"]
    names += list(getattr(one, "__dict__", ()))
    return all(_same(getattr(one, name, None), getattr(other, name, None), depth - 1) for name in names)
