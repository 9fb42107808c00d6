"""The example training raises no alarm in an audit, and does where the example is wrong."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "audit"))

import framework_example_audits

from ferrodp.integrations.jax import ExampleGradients

AUDIT = framework_example_audits.AUDITS["train_with_jax.py"]


def test_a_training_raises_no_alarm():
    assert not AUDIT()


def test_a_training_that_adds_an_image_twice_raises_one(monkeypatch):
    add_to = ExampleGradients.add_to

    def twice(self, step, params, x, y):
        add_to(self, step, params, x, y)
        # Past the count of the step, which would refuse the same images again.
        total = step._step._sum._total
        total.merge(total.from_state(total.state()))
        monkeypatch.setattr(type(step._step), "_check_count", lambda _: None)

    monkeypatch.setattr(ExampleGradients, "add_to", twice)
    assert AUDIT()
