"""What an engine reports of its budget: after a resume, and beside the certified bound."""

import numpy as np

import ferrodp as fd
from ferrodp.engine import DifferentialPrivacyEngine, DPConfig


def test_the_budget_after_a_resume_is_what_the_ledger_says(tmp_path):
    """A second process opens the same ledger: what the first one spent is not forgotten, and neither is another's."""
    updates = [{"w": np.ones(3)}]
    config = DPConfig(sampling_rate=1.0, noise_multiplier=4.0, accounting="renyi", target_epsilon=50.0)
    path = tmp_path / "budget.db"
    with fd.PrivacyLedger.open(path) as ledger:
        ledger.create("rounds", epsilon=3.0, delta=1e-5, measure="rdp")
        first = DifferentialPrivacyEngine(config, ledger=ledger, scope="rounds")
        for _ in range(2):
            first.round(updates, template={"w": (3,)})
    with fd.PrivacyLedger.open(path) as ledger:
        ledger.spend("rounds", fd.accounting.GaussianEvent(noise_multiplier=4.0))
        resumed = DifferentialPrivacyEngine(config, ledger=ledger, scope="rounds").budget
        report = ledger.report("rounds")

    assert (resumed.epsilon, resumed.delta, resumed.rounds_consumed) == (3.0, 1e-5, 3)
    assert resumed.consumed_epsilon == report.epsilon_charged > 0.0


def test_a_report_says_what_the_configured_orders_cost():
    """Six orders allow fewer rounds than the certified bound does; both are stated."""
    report = DifferentialPrivacyEngine().compute_privacy_spent(DPConfig(), 1000)

    assert report.certified_epsilon < report.epsilon_spent
    assert report.certified_rounds_left > report.estimated_rounds_left
    same = DifferentialPrivacyEngine().compute_privacy_spent(DPConfig(accounting="pld"), 1000)
    assert (same.certified_epsilon, same.certified_rounds_left) == (same.epsilon_spent, same.estimated_rounds_left)
