"""Audits of code: planted mistakes are found, sound code is not accused."""

import json

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.audit import audit_code
from ferrodp.errors import InvalidParameter
from ferrodp.events import GaussianEvent, NeighboringRelation
from ferrodp.plan import AdaptiveClipping, ConstantNoise, FlatClipping, FullBatch, PerGroupClipping, PrivacyPlan
from support.planted import PLANTED, ROWS, SOUND, VALUES, laplace, replaced, total
from support.planted_further import FURTHER


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_found(name):
    """What is cut to a range shows in a run only if the noise reaches it: with probability 1/2 at least, of 40 runs."""
    code, dataset, neighbors, accounted = PLANTED[name]
    reports = []
    for _ in range(40):
        reports.append(audit_code(code, dataset, neighbors, accounted=accounted))
        if reports[-1].violation:
            break
    assert reports[-1].violation
    assert "FOUND" in str(reports[-1])


def test_there_are_forty_planted_mistakes_and_some_that_came_later():
    assert len(PLANTED) >= 40
    assert len(FURTHER) >= 15
    assert not FURTHER.keys() & PLANTED.keys()


@pytest.mark.parametrize("name", FURTHER)
def test_a_mistake_that_was_planted_later_is_found(name):
    code, dataset, neighbors, accounted = FURTHER[name]
    assert audit_code(code, dataset, neighbors, accounted=accounted).violation


@pytest.mark.parametrize("name", SOUND)
def test_sound_code_is_never_accused(name):
    """In 25 runs each, 200 in all."""
    code, dataset, neighbors, accounted = SOUND[name]
    for _ in range(25):
        report = audit_code(code, dataset, neighbors, accounted=accounted)
        assert not report.violation, str(report)


def test_the_observed_distance_is_reported_beside_the_declared_one():
    report = audit_code(total, ROWS)
    (release,) = report.releases
    assert release["declared"] == 1.0
    assert 0.999 < release["observed"] <= 1.0
    assert report.neighbors == 5
    assert json.loads(report.to_json())["releases"][0]["mechanism"] == "ClippedSum"
    assert audit_code(lambda d: laplace(float(np.clip(d, -1, 1).sum()), 2.0), VALUES, replaced(VALUES)).releases[0][
        "observed"
    ] == pytest.approx(2.0)


def test_kinds_of_findings_say_what_is_wrong():
    names = ("no clip", "mean by the number of rows", "denominator of a release", "seeded sums")
    names += ("half the noise accounted", "released again until it fits")
    kinds = {name: audit_code(*PLANTED[name][:3], accounted=PLANTED[name][3]).findings[0].kind for name in names}
    assert kinds == {
        "no clip": "inputs",
        "mean by the number of rows": "result",
        "denominator of a release": "releases",
        "seeded sums": "noise",
        "half the noise accounted": "accounting",
        "released again until it fits": "releases",
    }


def test_costs_without_a_lower_bound_are_compared_as_they_are_certified():
    def two(values):
        return [each.value for each in fd.private_quantiles(values, [0.3, 0.7], bounds=(0.0, 9.0), epsilon=1.0)]

    assert not audit_code(two, VALUES, accounted=fd.events.EpsilonDeltaEvent(epsilon=1.0)).violation
    assert audit_code(two, VALUES, accounted=fd.events.EpsilonDeltaEvent(epsilon=0.9)).findings[0].kind == "accounting"


def test_an_exception_that_depends_on_a_record_is_found():
    def picky(values):
        if len(values) < 5:
            raise ValueError("too few")
        return laplace(float(len(values)))

    assert audit_code(picky, VALUES).findings[0].kind == "exception"
    with pytest.raises(ValueError, match="too few"):
        audit_code(picky, VALUES[:3])


def test_code_without_releases_is_no_release():
    assert audit_code(lambda d: 1.0, VALUES).findings[0].kind == "nothing"


def test_results_are_compared_by_their_content():
    class Model:
        def __init__(self, weights, size):
            self.weights, self.size = weights, size

    assert not audit_code(lambda d: Model(total(d), None), ROWS).violation
    assert audit_code(lambda d: Model(total(d), len(d)), ROWS).findings[0].kind == "result"
    assert not audit_code(lambda d: fd.private_count(d > 1.0, epsilon=1.0), VALUES).violation
    assert not audit_code(lambda d: [total(d), float("nan")], ROWS).violation


def test_datasets_without_neighbors_are_refused():
    with pytest.raises(InvalidParameter, match="neighbors"):
        audit_code(total, ROWS, [])
    with pytest.raises(InvalidParameter, match="neighbors"):
        audit_code(total, {"a": 1})


# ------------------------------------------------------------------------------------------- records that are replaced

OPPOSITE = [np.concatenate([ROWS[:i], [row], ROWS[i + 1 :]]) for i in range(len(ROWS)) for row in -1e6 * np.eye(2)]
OPPOSITE += [np.concatenate([ROWS[:i], [row], ROWS[i + 1 :]]) for i in range(len(ROWS)) for row in 1e6 * np.eye(2)]


def run_of(plan, at_once=False):
    """Return code that runs a plan for all rows, from sums of its own or of the caller."""

    def code(rows):
        released = []
        for step in plan.start({"a": np.zeros(1), "b": np.zeros(1)}):
            if at_once:
                factors = step.clip_norm / np.maximum(np.linalg.norm(rows, axis=1), step.clip_norm) * (1.0 - 1e-9)
                a, b = (factors[:, None] * rows).sum(axis=0)
                released.append(step.release_sum({"a": np.array([a]), "b": np.array([b])}))
            else:
                step.add({"a": rows[:, :1], "b": rows[:, 1:]})
                released.append(step.release())
        return released

    return code


@pytest.mark.parametrize(
    ("clipping", "at_once"),
    [
        (FlatClipping(1.0), False),
        (FlatClipping(1.0), True),
        (AdaptiveClipping(1.0), False),
        (PerGroupClipping({"a": 1.0, "b": 0.5}), False),
    ],
    ids=["sum", "sum of the caller", "adaptive", "per group"],
)
def test_plans_for_replaced_records_are_not_accused_and_are_where_they_say_less(clipping, at_once):
    options = {"population_size": 5, "sampling": FullBatch(), "num_steps": 2, "noise": ConstantNoise(4.0)}
    relations = NeighboringRelation.REPLACE_ONE, NeighboringRelation.ADD_OR_REMOVE_ONE
    replaced, added = (PrivacyPlan(clipping=clipping, neighboring_relation=each, **options) for each in relations)

    sound = audit_code(
        run_of(replaced, at_once), ROWS, OPPOSITE, accounted=replaced.event, neighboring_relation=relations[0]
    )
    assert not sound.violation, str(sound)
    assert sound.releases[0]["declared"] < 2.01 * sound.releases[0]["observed"]
    less = audit_code(
        run_of(replaced, at_once), ROWS, OPPOSITE, accounted=added.event, neighboring_relation=relations[0]
    )
    assert less.findings[0].kind == "accounting"
    assert audit_code(run_of(added, at_once), ROWS, OPPOSITE).findings[0].kind == "inputs"


def test_a_sum_of_replaced_rows_costs_what_two_clip_norms_do():
    relation = NeighboringRelation.REPLACE_ONE
    report = audit_code(
        total, ROWS, OPPOSITE, accounted=GaussianEvent(noise_multiplier=1.0), neighboring_relation=relation
    )
    assert not report.violation, str(report)
    assert report.releases[0]["declared"] == 2.0
    assert report.releases[0]["observed"] > 1.8
    kinds = [
        audit_code(total, ROWS, OPPOSITE, accounted=GaussianEvent(noise_multiplier=each), neighboring_relation=relation)
        for each in (1.01, 2.0)
    ]
    assert [report.findings[0].kind for report in kinds] == ["accounting", "accounting"]


def test_rows_of_groups_are_two_clip_norms_apart():
    """One row that leaves its group turns the group's vector around."""
    plan = PrivacyPlan(
        population_size=4,
        sampling=FullBatch(),
        num_steps=1,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(4.0),
        records_per_group=2,
    )

    def code(rows):
        step = next(plan.start((2,)))
        for group in ([0, 1], [2, 3]):  # the same in all runs, as secret samples have to be
            step.add_one(rows[group].sum(axis=0))
        return step.release()

    rows = np.array([[100.0, 0.0], [-300.0, 0.0], [0.0, 50.0], [0.0, -200.0]])
    others = [np.where(np.arange(4)[:, None] == i, 0.0, rows) for i in range(4)]
    assert not audit_code(code, rows, others, accounted=plan.event).findings


def test_what_is_chosen_again_is_not_taken_for_noise_that_was_not_drawn():
    """It returns a float, one of two of which it is almost sure, so that each run returns what the first did."""

    def near_the_largest(rows):
        return fd.private_max(rows, candidates=[0.0, 9.0], rank=1, epsilon=20.0).value

    assert not audit_code(near_the_largest, np.full(40, 9.0)).violation


@pytest.mark.parametrize("rows", [1, 2])
def test_choices_about_groups_cost_what_they_state_together(rows):
    """Of a unit with one row one group changes, and of one with two its groups share what a choice costs."""
    table = np.array([[0, 1, 9.0], [0, 2, 7.0], [1, 1, 9.0], [1, 3, 8.0], [2, 4, 0.5], [0, 5, 3.0]])
    others = [table[table[:, 1] != unit] for unit in range(1, 6)]

    def medians(data):
        frame = {"key": data[:, 0].astype(int), "who": data[:, 1].astype(int), "x": data[:, 2]}
        groups = fd.private_group_by(frame, "key", keys=[0, 1, 2, 3], unit="who", rows_per_unit=rows)
        found = groups.median("x", bounds=(0.0, 10.0), epsilon=1.0).value.tolist()
        return found + groups.top("x", 2, categories=[9.0, 7.0, 8.0], epsilon=1.0).value.ravel().tolist()

    assert not audit_code(medians, table, others, accounted=fd.events.EpsilonDeltaEvent(epsilon=2.0)).violation
    less = audit_code(medians, table, others, accounted=fd.events.EpsilonDeltaEvent(epsilon=0.9))
    assert [each.kind for each in less.findings] == ["accounting"]
