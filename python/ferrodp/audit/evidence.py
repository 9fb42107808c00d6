"""Evidence of many runs, kept in a file: the e-values of runs that test the same claim are multiplied."""

from __future__ import annotations

import fcntl
import json
import math
import os
from dataclasses import dataclass
from typing import Any

from ferrodp.audit.canaries import CanaryReport
from ferrodp.audit.report import AuditReport
from ferrodp.errors import InvalidParameter

_FORMAT = "ferrodp.evidence"
_VERSION = 1
_FIELDS = {"format", "version", "claim", "epsilon", "delta", "log_e_value"}
_ALARM = 1000.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What all runs of one claim show together.

    Attributes
    ----------
    claim : str
        What was tested.
    epsilon, delta : float
        The claim.
    runs : int
        How many runs the file holds.
    log_e_value : float
        Natural logarithm of the product of their e-values.
    place : int
        Which claim of the file it is, from 1, in the order of their first runs.
    violation : bool
        Whether the product exceeds 1000·i·(i + 1) for the claim in place i: if all claims of the file are true, that
        ever happens to any of them with probability 0.1 % at most, however many there are and however long runs go on.

    Examples
    --------
    >>> Evidence("gaussian", 1.0, 1e-5, runs=3, log_e_value=8.0).violation
    True
    """

    claim: str
    epsilon: float
    delta: float
    runs: int
    log_e_value: float
    place: int = 1

    @property
    def violation(self) -> bool:
        """Whether the claim is contradicted."""
        # the sum of 1/i(i + 1) over all places is 1
        # mutant: claims-of-a-file-alone
        return self.log_e_value > math.log(_ALARM * self.place * (self.place + 1))


def keep_evidence(path: str | os.PathLike[str], report: AuditReport | CanaryReport) -> Evidence:
    """Append the e-value of a run to a file, durably, and return what all runs of its claim in there show.

    Parameters
    ----------
    path : path
        Made if it does not exist. Processes may append at the same time.
    report : AuditReport or CanaryReport
        Of draws, or of a training, that no report in the file was about.

    Returns
    -------
    Evidence
        Of the runs with the same claim, ε and δ.

    Raises
    ------
    InvalidParameter
        If the file holds anything else. Nothing was appended.
    OSError
        If it cannot be read or written.

    Notes
    -----
    A line of JSON a run. Leaving out runs because of what they show makes the evidence void.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from ferrodp.audit import audit_callable, keep_evidence
    >>> rng = np.random.default_rng(1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for _ in range(2):
    ...         report = audit_callable(
    ...             abs,
    ...             neighbors=(0.0, 1.0),
    ...             epsilon=1.0,
    ...             delta=0.0,
    ...             draws=1000,
    ...             release_many=lambda value, n: value + rng.laplace(size=n),
    ...         )
    ...         kept = keep_evidence(os.path.join(folder, "evidence.jsonl"), report)
    >>> kept.runs, kept.claim
    (2, 'abs')
    """
    line = {
        "format": _FORMAT,
        "version": _VERSION,
        "claim": report.claim,
        "epsilon": report.epsilon,
        "delta": report.delta,
        "log_e_value": report.log_e_value,
    }
    with open(path, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        before = [_line(text) for text in file.read().splitlines()]
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
    claims = [(each["claim"], each["epsilon"], each["delta"]) for each in [*before, line]]
    same = [each["log_e_value"] for each, claim in zip([*before, line], claims, strict=True) if claim == claims[-1]]
    place = list(dict.fromkeys(claims)).index(claims[-1]) + 1
    return Evidence(report.claim, report.epsilon, report.delta, len(same), math.fsum(same), place)


def _line(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.keys() != _FIELDS or found["format"] != _FORMAT:
        raise InvalidParameter("path must be a file of evidence: a line of it is none")
    number = found["log_e_value"]
    if found["version"] != _VERSION or not isinstance(number, float) or math.isnan(number):
        raise InvalidParameter("path must be a file of evidence of this version")
    return found
