"""A refused charge is told which scope is full, also one around the scope that was named, in numbers that fit it."""

import contextlib
import io
import json
import re
from fractions import Fraction

import pytest

import ferrodp as fd
from ferrodp import cli
from ferrodp.accounting import EpsilonDeltaEvent, GaussianEvent
from ferrodp.budget import PrivacyLedger
from ferrodp.errors import BudgetExceeded, ScopeFrozen


@pytest.fixture
def file(tmp_path):
    """Of a ledger whose scope "survey" is nearly full, and whose scope "survey/ada" is not."""
    path = tmp_path / "budget.db"
    with PrivacyLedger.open(path) as ledger:
        ledger.create("survey", epsilon=2.0, delta=0.0, measure="pure")
        for name, times in (("ada", 6), ("bob", 12)):
            ledger.create(f"survey/{name}", epsilon=2.0, delta=0.0, measure="pure")
            for _ in range(times):
                ledger.spend(f"survey/{name}", EpsilonDeltaEvent(epsilon=Fraction(11, 100)))
    return path


def shell(*words):
    """Return the exit status and what a command writes."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = cli.main(list(map(str, words)))
    return code, out.getvalue(), error.getvalue()


FULL = "a release with epsilon 0.11 does not fit into scope 'survey': epsilon 1.98 of 2 at delta 0 is charged (pure)"


def test_the_scope_that_is_full_is_named(file):
    with PrivacyLedger.open(file) as ledger:
        with pytest.raises(BudgetExceeded, match=re.escape(FULL)):
            ledger.reserve("survey/ada", EpsilonDeltaEvent(epsilon=0.11))
        with pytest.raises(BudgetExceeded, match=r"charge of 3 releases with epsilon 0\.01 does not fit .* 'survey'"):
            ledger.lease("survey/ada", EpsilonDeltaEvent(epsilon=0.01), count=3)
        ledger.create("survey/eve", epsilon=0.001, delta=0.0, measure="pure")
        with pytest.raises(BudgetExceeded, match="does not fit into scope 'survey/eve'"):
            ledger.spend("survey/eve", EpsilonDeltaEvent(epsilon=0.002))


def test_a_block_names_the_scope_that_is_full(file):
    with PrivacyLedger.open(file) as ledger, fd.budget(ledger=ledger, scope="survey/ada") as block:
        with pytest.raises(BudgetExceeded, match=re.escape(FULL)) as caught:
            fd.private_count([1.0, 2.0], epsilon=0.11)
        assert str(caught.value).endswith("; nothing was charged or drawn")
        assert block.report().charges == ()
    with (
        fd.budget(epsilon=0.1),
        pytest.raises(BudgetExceeded, match=r"the open budget: epsilon 0 of 0\.1 at"),
    ):
        fd.private_count([1.0, 2.0], epsilon=0.11)


def test_a_block_in_a_frozen_scope_names_the_one_that_is_frozen(file):
    with PrivacyLedger.open(file) as ledger:
        ledger.freeze("survey", reason="incident")
        with fd.budget(ledger=ledger, scope="survey/ada"), pytest.raises(ScopeFrozen, match="scope 'survey' is frozen"):
            fd.private_count([1.0, 2.0], epsilon=0.001)


def test_the_shell_names_the_scope_that_is_full(file):
    spend = "ledger", "spend", file, "--scope", "survey/ada", "--epsilon", "0.11"

    assert FULL in shell(*spend)[2]
    code, out, error = shell(*spend, "--json")
    assert code == 5
    assert FULL in json.loads(out or error)["error"]["message"]


def test_the_shell_tells_the_room_of_a_scope_by_those_around_it(file):
    status = "ledger", "status", file, "--scope", "survey/ada"

    assert "releases whose epsilons add up to 0.02 still fit, limited by 'survey'" in " ".join(
        shell(*status)[1].split()
    )
    with PrivacyLedger.open(file) as ledger:
        ledger.spend("survey/bob", EpsilonDeltaEvent(epsilon=Fraction(2, 100)))
    assert "used up by 'survey'; nothing fits any more" in " ".join(shell(*status)[1].split())
    with PrivacyLedger.open(file) as ledger:
        ledger.freeze("survey", reason="incident")
    assert "frozen by 'survey'; nothing fits" in " ".join(shell(*status)[1].split())


@pytest.mark.parametrize("measure", ["rdp", "zcdp", "gdp"])
def test_what_is_charged_is_rounded_up_and_what_is_allowed_down(tmp_path, measure):
    cap = Fraction(2_000_001_999, 1_000_000_000)
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("s", epsilon=cap, delta=1e-6, measure=measure)
        ledger.spend("s", GaussianEvent(noise_multiplier=3.7))
        charged = ledger.report("s").epsilon_charged
        with pytest.raises(BudgetExceeded) as caught:
            ledger.spend("s", GaussianEvent(noise_multiplier=1.0))
    found = re.match(
        r"a release of GaussianEvent does not fit into scope 's': epsilon ([0-9.]+) of ([0-9.]+) at delta 1e-06",
        str(caught.value),
    )
    assert found is not None, caught.value
    shown = Fraction(found[1])
    assert 0 <= shown - Fraction(charged) <= Fraction(charged) / 10**5
    assert found[2] == "2"
