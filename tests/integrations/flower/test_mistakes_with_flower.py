"""Mistakes of those who run rounds with Flower, and what they are told."""

import pytest
from flwr.serverapp.strategy import FedAvg, FedMedian

import ferrodp as fd
from ferrodp.errors import FerroError
from ferrodp.integrations.flower import PrivateStrategy
from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling


def planned(**changes):
    parts = {
        "unit": "client",
        "population_size": 20,
        "sampling": PoissonSampling(0.5),
        "num_steps": 2,
        "clipping": FlatClipping(1.0),
        "noise": ConstantNoise(1.0),
    }
    return fd.PrivacyPlan(**(parts | changes))


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (
            lambda: PrivateStrategy(FedAvg, plan=planned()),
            ("inner must be a strategy", "class FedAvg: make one"),
        ),
        (lambda: PrivateStrategy(planned(), plan=FedAvg()), ("inner must be a strategy of Flower", "got PrivacyPlan")),
        (
            lambda: PrivateStrategy(FedAvg(), plan=1.0),
            ("plan must be a PrivacyPlan, got float", "PrivateStrategy(FedAvg(), plan=plan)"),
        ),
        (
            lambda: PrivateStrategy(FedAvg(), plan=planned(unit="record")),
            ('plan must have unit="client"',),
        ),
        (lambda: PrivateStrategy(FedAvg(), plan=planned(population_size=None)), ("plan must have a population_size",)),
        (lambda: PrivateStrategy(FedMedian(), plan=planned()), ("inner must not compare replies, as FedMedian does",)),
        (lambda: PrivateStrategy(FedAvg(), plan=planned(), delta=2.0), ("delta must be", "(0, 1)", "got 2.0")),
        (lambda: PrivateStrategy(FedAvg(), plan=planned(), skip="bias"), ("skip must be a sequence of names",)),
        (lambda: PrivateStrategy(FedAvg(), plan=planned(), wait=-1), ("wait must be", ">= 0", "got -1")),
    ],
)
def test_a_mistake_with_flower_is_told_with_what_is_allowed(mistake, words):
    with pytest.raises((FerroError, ValueError, TypeError)) as caught:
        mistake()

    assert [word for word in words if word not in str(caught.value)] == [], caught.value
