"""Evidence that is kept, and pictures of reports."""

import dataclasses
import math

import numpy as np
import pytest

from ferrodp.accounting import PldAccountant
from ferrodp.audit import audit_callable, audit_canaries, keep_evidence, plot_roc
from ferrodp.errors import InvalidParameter
from ferrodp.events import GaussianEvent

pytest.importorskip("matplotlib")


def report_of(rng, scale=1.0):
    return audit_callable(
        abs, neighbors=(0.0, 1.0), epsilon=1.0, delta=0.0, draws=4000,
        release_many=lambda value, n: np.round(value + rng.laplace(scale=scale, size=n), 3),
    )  # fmt: skip


def test_e_values_of_runs_of_one_claim_multiply(tmp_path):
    rng, path = np.random.default_rng(1), tmp_path / "evidence.jsonl"
    reports = [report_of(rng, 0.9) for _ in range(3)]
    kept = [keep_evidence(path, report) for report in reports]
    other = keep_evidence(path, dataclasses.replace(reports[0], epsilon=2.0))

    assert [each.runs for each in kept] == [1, 2, 3]
    assert kept[-1].log_e_value == math.fsum(report.log_e_value for report in reports)
    assert other.runs == 1
    assert len(path.read_text().splitlines()) == 4
    assert kept[-1].violation == (kept[-1].log_e_value > math.log(2000.0))


def test_claims_of_one_file_share_the_rate_of_false_alarms(tmp_path):
    """The claim in place i needs 1000·i·(i + 1), whose inverses add up to 1/1000 for any number of claims."""
    path, report = tmp_path / "e", report_of(np.random.default_rng(1))
    kept = [
        keep_evidence(path, dataclasses.replace(report, claim=name, log_e_value=math.log(7000.0)))
        for name in ("one", "two", "three")
    ]

    assert [each.place for each in kept] == [1, 2, 3]
    assert [each.violation for each in kept] == [True, True, False]
    assert keep_evidence(path, dataclasses.replace(report, claim="two", log_e_value=-1.0)).place == 2
    assert math.fsum(1 / (1000.0 * i * (i + 1)) for i in range(1, 10_000)) < 1e-3


def test_many_weak_runs_are_strong_together(tmp_path):
    """A scale 20 % too small: a run of 3000 draws shows e^5 or so."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        kept = keep_evidence(tmp_path / "e", report_of(rng, 0.8))
    assert kept.violation


def test_a_file_of_something_else_is_left_as_it_is(tmp_path):
    path = tmp_path / "notes"
    for text in ("dear diary\n", '{"format": "other"}\n', "[1]\n"):
        path.write_text(text)
        with pytest.raises(InvalidParameter, match="file of evidence"):
            keep_evidence(path, report_of(np.random.default_rng(3)))
        assert path.read_text() == text


def test_pictures_show_what_was_seen_below_what_is_allowed():
    rng = np.random.default_rng(4)
    included = rng.random(2000) < 0.5
    canaries = audit_canaries(included + rng.normal(size=2000), included, epsilon=4.5, delta=1e-5)
    accountant = PldAccountant()
    accountant.compose(GaussianEvent(noise_multiplier=1.0))
    for report, curve in ((report_of(rng), None), (canaries, accountant)):
        axes = plot_roc(report, curve=curve)
        lines = {line.get_label(): line.get_xydata() for line in axes.get_lines()}
        seen = lines["seen"]
        allowed = lines[next(label for label in lines if label.endswith("allows"))]
        at = np.interp(seen[:, 0], allowed[:, 0], allowed[:, 1])
        assert (seen[:, 1] <= at + 0.1).all()
        assert seen[:, 1].max() == 1.0
        assert (np.diff(seen, axis=0) >= 0.0).all()
