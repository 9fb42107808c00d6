"""What a large ledger costs to open, to ask and to check grows with what is new or asked for, not with its past."""

import pytest

from ferrodp.budget import PrivacyLedger, _measures
from ferrodp.errors import LedgerError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.mark.parametrize("measure", ["rdp", "gdp", "zcdp", "pure"])
def test_opening_calibrates_nothing(path, monkeypatch, measure):
    """A filter is made from a scope's terms when something is charged; opening only has to know the terms."""
    with PrivacyLedger.open(path) as ledger:
        for index in range(3):
            ledger.create(f"s{index}", epsilon=1.5 + index, delta=0.0 if measure == "pure" else 1e-6, measure=measure)
        ledger.raise_cap("s1", epsilon=8.0, reason="approved")
    monkeypatch.setattr(_measures, "privacy_filter", lambda *_, **__: pytest.fail("a filter was made"))

    with PrivacyLedger.open(path, create=False) as ledger:
        assert ledger.scopes == ("s0", "s1", "s2")
        assert ledger.report("s1").epsilon == 8.0


@pytest.mark.parametrize(
    "change",
    [
        {"measure": "pld"},
        {"measure": ["rdp"]},
        {"epsilon": -1.0},
        {"epsilon": None},
        {"delta": 0.0},
        {"delta": 1.5},
        {"neighboring_relation": "none"},
        {"orders": []},
        {"orders": [1.0]},
        {"orders": [2.0, 2.0]},
        {"orders": ["2"]},
        {"orders": 2.0},
    ],
)
def test_terms_that_no_scope_can_have_are_refused(change):
    plain = {"measure": "rdp", "epsilon": 1.0, "delta": 1e-6, "orders": [2.0, 3.5]}
    plain["neighboring_relation"] = "add_or_remove_one"
    plain |= change
    with pytest.raises(LedgerError, match="no version of this program"):
        _measures.Terms.from_dict(plain)
