"""Each way out that a message of `integrations.flower` names is taken, and no place with one is without a row."""

from types import SimpleNamespace

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAvg, FedMedian

import ferrodp as fd
from ferrodp.correlated import BufferedToeplitz
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.flower import PrivateStrategy, SecureAggregation
from ferrodp.plan import ConstantNoise, CorrelatedNoise, FlatClipping, FullBatch, PrivacyPlan
from support.hints import Hint, assert_all_lead_out, identifiers, lead_out

SPECIAL = NeighboringRelation.REPLACE_SPECIAL


def plan_of(**changes):
    fields = {
        "unit": "client",
        "population_size": 3,
        "sampling": FullBatch(),
        "num_steps": 2,
        "clipping": FlatClipping(1.0),
        "noise": ConstantNoise(1.0),
    }
    return PrivacyPlan(**{**fields, **changes})


CORRELATED = plan_of(noise=CorrelatedNoise(BufferedToeplitz(num_steps=2, buffers=2), 1.0))


def moved(arrays, context):
    return {name: array + np.float32(1.0) for name, array in arrays.items()}


def strategy(inner=None, plan=None, **options):
    inner = FedAvg(fraction_evaluate=0.0) if inner is None else inner
    return PrivateStrategy(inner, plan=plan_of() if plan is None else plan, wait=0, **options)


def trained(c, made, **arrays):
    """Train with three clients in memory."""
    found = made.start(c.grid(3, moved), c.model(**(arrays or {"w": np.zeros(6, np.float32)})))
    assert set(found.train_metrics_clientapp) == {1, 2}


def secure(**options):
    plan = plan_of(population_size=20, neighboring_relation=SPECIAL)
    return SecureAggregation(plan, min_clients=12, **options)


def paid(c, **options):
    with fd.PrivacyLedger.open(c.folder / "budget.db") as ledger:
        if "app" not in ledger.scopes:
            ledger.create("app", epsilon=1000, delta=0.1, measure="gdp")
        trained(c, strategy(ledger=ledger, scope="app", checkpoint=c.folder / "training.round", **options))


def paid_secure(c):
    with fd.PrivacyLedger.open(c.folder / "secure.db") as ledger:
        ledger.create("app", epsilon=1000, delta=0.1, neighboring_relation=SPECIAL)
        secure(checkpoint=c.folder / "secure.round", ledger=ledger, scope="app", key="training-1")


def started_twice(c, *, anew):
    first = strategy(checkpoint=c.folder / f"twice-{anew}.round")
    trained(c, first)
    second = strategy(checkpoint=c.folder / "another.round") if anew else first
    trained(c, second)


HINTS = [
    Hint(
        "a path or None, got int; for example 'training.round'",
        lambda c: secure(checkpoint=5),
        lambda c: paid_secure(c),
    ),
    Hint(
        "for example ledger=ledger, scope='app', key='training-1'",
        lambda c: secure(checkpoint="training.round"),
        lambda c: paid_secure(c),
    ),
    Hint(
        "as in PrivateStrategy(FedAvg(), plan=plan)",
        lambda c: strategy(plan=1.0),
        lambda c: PrivateStrategy(FedAvg(), plan=plan_of()),
    ),
    Hint(
        "write population_size=... in the plan",
        lambda c: strategy(plan=plan_of(population_size=None)),
        lambda c: trained(c, strategy(plan=plan_of(population_size=3))),
    ),
    Hint(
        "for example skip=['bias']",
        lambda c: strategy(skip="bias"),
        lambda c: trained(c, strategy(skip=["bias"]), w=np.zeros(6, np.float32), bias=np.zeros(2, np.float32)),
    ),
    Hint(
        "a path or None, got int; for example 'training.round'",
        lambda c: strategy(checkpoint=5),
        lambda c: trained(c, strategy(checkpoint=str(c.folder / "training.round"))),
    ),
    Hint(
        "for example ledger=ledger, scope='app', key='training', noise_file='training.noise'",
        lambda c: strategy(plan=CORRELATED, checkpoint=c.folder / "training.round"),
        lambda c: paid(c, plan=CORRELATED, key="training", noise_file=c.folder / "training.noise"),
    ),
    Hint("for example key='training-1'", lambda c: paid(c), lambda c: paid(c, key="training-1")),
    Hint(
        "a strategy with a checkpoint is started once: make another one",
        lambda c: started_twice(c, anew=False),
        lambda c: started_twice(c, anew=True),
    ),
    Hint("the class FedAvg: make one", lambda c: strategy(FedAvg), lambda c: strategy(FedAvg())),
    Hint("a strategy of Flower such as FedAvg()", lambda c: strategy(5), lambda c: strategy(FedAvg())),
    Hint(
        "Clipping bounds what a client can do: use FedAvg()",
        lambda c: strategy(FedMedian()),
        lambda c: trained(c, strategy(FedAvg(fraction_evaluate=0.0))),
    ),
]


@pytest.fixture
def context(grid, model, tmp_path):
    return SimpleNamespace(grid=grid, model=model, folder=tmp_path)


@pytest.mark.parametrize("hint", HINTS, ids=identifiers(HINTS))
def test_a_way_out_of_flower_leads_out(hint, context):
    lead_out(hint, context)


def test_no_way_out_of_flower_is_without_a_test(context):
    assert_all_lead_out("flower", HINTS, context=context)
