"""Audits find defects that change what is released, and accuse no sound source: `own_audits` and `law_defects`."""

import law_defects
import native_defects
import own_audits
import pytest
import unreleased

import mutants

SLOW = ("queries", "long run", "vectors of integers", "variance", "law of thresholds")
QUICK = [name for name in own_audits.AUDITS if name not in SLOW and "of one call" not in name]


@pytest.mark.parametrize("name", QUICK)
def test_no_audit_accuses_the_sources_as_they_are(name):
    """All of them are wrong in 200 runs with probability 1e-3 at most, so in one run with 5e-6."""
    assert not own_audits.AUDITS[name]()


@pytest.mark.parametrize("name", [name for name in own_audits.AUDITS if "of one call" in name])
def test_no_long_call_is_accused_of_repeating_itself(name):
    assert not own_audits.AUDITS[name]()


@pytest.mark.parametrize(
    "name",
    [
        "the noise covers half the sensitivity, as if replacing were adding",
        "Laplace noise is calibrated to 80 % of what is due",
        "integer noise is drawn once per row",
        "a row that comes moves a sum by half of what it can",
        "a batch is clipped after it was summed",
        "answers are not counted",
    ],
)
def test_a_defect_that_changes_a_law_is_found_by_its_audit(name, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["law_defects.py", name])

    assert law_defects.main() == 0
    assert capsys.readouterr().out.startswith("found")


def test_every_defect_of_the_tables_is_a_mutant_and_every_audit_is_there():
    names = {each.name for each in mutants.MUTANTS}

    assert set(law_defects.FOUND_BY) | set(law_defects.NOT_FOUND) <= names
    assert {audit for audits in law_defects.FOUND_BY.values() for audit in audits} <= set(own_audits.AUDITS)
    assert not set(law_defects.FOUND_BY) & set(law_defects.NOT_FOUND)


def test_every_defect_of_code_that_releases_is_in_exactly_one_table():
    """What is new in these folders has to say which audit finds it, or that it changes no release."""
    native = set(native_defects.FOUND_BY) | set(native_defects.NO_LAW) | set(native_defects.UNSEEN)
    names = {each.name for each in law_defects.released()}
    tables = [
        *law_defects.FOUND_BY,
        *law_defects.NOT_FOUND,
        *unreleased.NO_RELEASE,
        *(name for name in native if name in names),
    ]

    assert sorted(tables) == sorted(names)
    assert all(len(reason) > 20 for reason in (unreleased.NO_RELEASE | law_defects.NOT_FOUND).values())


def test_every_native_defect_is_found_by_an_audit_or_has_a_reason_why_none_can():
    names = [each.name for each in native_defects.defects()]
    tables = (native_defects.FOUND_BY, native_defects.NO_LAW, native_defects.UNSEEN)

    assert sorted(name for table in tables for name in table) == sorted(names)
    assert {each for audits in native_defects.FOUND_BY.values() for each in audits} <= set(
        own_audits.AUDITS | own_audits.DEEP
    )
    assert all(len(reason) > 20 for table in tables[1:] for reason in table.values())
