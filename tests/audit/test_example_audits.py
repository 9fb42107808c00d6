"""Examples raise no alarm in an audit, and the same audits find mistakes that are planted in the examples."""

import warnings
from types import SimpleNamespace

import example_audits
import framework_example_audits
import pytest

import ferrodp as fd

MECHANISM = fd.DiscreteLaplaceMechanism(scale=20)
TOO_LITTLE = fd.DiscreteLaplaceMechanism(scale=10)


class Unpaid:
    """Charges for one scale, and releases with another."""

    event = MECHANISM.event

    def release(self, value, ticket):
        MECHANISM.release(value, ticket=ticket)
        return TOO_LITTLE.release(value)


PLANTED = {
    "release_a_table.py": {"numbers": {"1.0": 2.0}},
    "dataframe_histogram.py": {"numbers": {"1.0": 1.5}},
    "randomized_survey.py": {"numbers": {"1.0": 1.5}},
    "custom_mechanism.py": {"numbers": {"1.0": 4.0}},  # of the clip norm
    "federated_round.py": {"NOISE_MULTIPLIER": 0.5},
    "dp_sgd.py": {"EPSILON": 9.0},
    "shared_budget.py": {
        "fd": SimpleNamespace(
            DiscreteLaplaceMechanism=lambda scale: Unpaid(), PrivacyLedger=fd.PrivacyLedger, errors=fd.errors
        )
    },
    "crash_and_resume.py": {"numbers": {"5.0": 4.0}},
}


def test_each_example_that_releases_anything_has_an_audit_and_a_planted_mistake():
    found = {path.name for path in example_audits.EXAMPLES.iterdir() if path.suffix == ".py" or path.is_dir()}
    audited = set(PLANTED) | set(framework_example_audits.AUDITS)
    assert found - {"__pycache__"} == audited | example_audits.RELEASE_NOTHING
    assert set(example_audits.AUDITS) <= set(PLANTED)


@pytest.mark.parametrize("name", example_audits.AUDITS)
def test_an_example_raises_no_alarm(name):
    assert not example_audits.AUDITS[name]()


@pytest.mark.parametrize("name", example_audits.AUDITS)
def test_a_mistake_in_an_example_raises_one(name, monkeypatch):
    ran = example_audits.ran

    def mistaken(path, *, numbers=None, **given):
        planted = dict(PLANTED[name])
        return ran(path, numbers=(numbers or {}) | planted.pop("numbers", {}), **given | planted)

    monkeypatch.setattr(example_audits, "ran", mistaken)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert example_audits.AUDITS[name]()


def test_a_name_that_an_example_does_not_have_is_refused():
    with pytest.raises(AssertionError, match="has no"):
        example_audits.ran("release_a_table.py", patients=1)
    with pytest.raises(AssertionError, match="has no"):
        example_audits.ran("release_a_table.py", numbers={"1.25": 2.0})
