"""Mistakes of those who run rounds with Flower, and what they are told."""

import pytest
from flwr.serverapp.strategy import FedAvg, FedMedian

import ferrodp as fd
from ferrodp.integrations.flower import PrivateStrategy
from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling
from support.mistakes import Mistake, Reason, objections


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


MISTAKES = [
    Mistake(
        "a class for a strategy",
        lambda c: PrivateStrategy(FedAvg, plan=planned()),
        "inner",
        "got the class FedAvg",
        "a strategy of Flower",
        "make one",
    ),
    Mistake(
        "a plan for a strategy",
        lambda c: PrivateStrategy(planned(), plan=FedAvg()),
        "inner",
        "got PrivacyPlan",
        "a strategy of Flower",
        "such as FedAvg()",
    ),
    Mistake(
        "a number for a plan",
        lambda c: PrivateStrategy(FedAvg(), plan=1.0),
        "plan",
        "got float",
        "a PrivacyPlan",
        "as in PrivateStrategy(FedAvg(), plan=plan)",
    ),
    Mistake(
        "a plan of records",
        lambda c: PrivateStrategy(FedAvg(), plan=planned(unit="record")),
        "plan",
        "got 'record'",
        'unit="client": a client is what sends an update',
        'write unit="client" in the plan',
    ),
    Mistake(
        "a plan without a population",
        lambda c: PrivateStrategy(FedAvg(), plan=planned(population_size=None)),
        "plan",
        "got population_size=None",
        "a population_size and one vector for each client",
        "write population_size=... in the plan",
    ),
    Mistake(
        "a strategy that compares",
        lambda c: PrivateStrategy(FedMedian(), plan=planned()),
        "inner",
        "as FedMedian does",
        "must not compare replies",
        "use FedAvg()",
    ),
    Mistake(
        "a delta of 2",
        lambda c: PrivateStrategy(FedAvg(), plan=planned(), delta=2.0),
        "delta",
        "got 2.0",
        "finite and in (0, 1)",
        "for example delta=1e-6",
    ),
    Mistake(
        "a name for names",
        lambda c: PrivateStrategy(FedAvg(), plan=planned(), skip="bias"),
        "skip",
        "got str",
        "a sequence of names",
        "for example skip=['bias']",
    ),
    Mistake(
        "a negative wait",
        lambda c: PrivateStrategy(FedAvg(), plan=planned(), wait=-1),
        "wait",
        "got -1",
        "finite and >= 0",
        "for example wait=1.0",
    ),
    Mistake(
        "a misspelt keyword of a class",
        lambda c: PrivateStrategy(FedAvg(), plan=planned(), dleta=1e-5),
        "'dleta'",
        Reason.NOT_LOOKED_AT,
        "it takes inner, plan",
        "did you mean 'delta'",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name)
def test_a_mistake_with_flower_is_told_in_four_parts(mistake):
    assert objections(mistake) == []
