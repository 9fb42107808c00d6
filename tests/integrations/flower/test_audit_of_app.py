"""The example app raises no alarm in an audit of what its server sends, and does where it tells how many came."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "audit"))

import framework_example_audits

from ferrodp.integrations.flower import PrivateStrategy

AUDIT = framework_example_audits.AUDITS["flower_app"]


def test_all_rounds_of_the_app_raise_no_alarm():
    assert not AUDIT()


def test_a_mean_by_the_number_of_replies_raises_one(monkeypatch):
    aggregate = PrivateStrategy.aggregate_train

    def divided(self, server_round, replies):
        replies = list(replies)
        arrays, metrics = aggregate(self, server_round, replies)
        came = sum(not reply.has_error() for reply in replies)
        return type(arrays)({name: type(each)(each.numpy() * 2 / came) for name, each in arrays.items()}), metrics

    monkeypatch.setattr(PrivateStrategy, "aggregate_train", divided)
    assert AUDIT()
