"""Modifiers of client apps, and certified accounting behind Flower's protocol and inside its own wrapper."""

import math

import numpy as np
import pytest
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.supercore.privacy_accounting import (
    GaussianPrivacyEvent,
    NeighboringRelation,
    PrivacyConfig,
    SamplingMethod,
)

from ferrodp.accounting import PldAccountant
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import FixedSizeSampledEvent, GaussianEvent, PoissonSampledEvent
from ferrodp.events import NeighboringRelation as Relation
from ferrodp.integrations.flower import PlanAccountant, clip_mod, local_noise_mod

AO, RO = NeighboringRelation
WIDTH = 5000


def sent_by(grid, model, make_client, mod, update, **config):
    """Return the update that a client with a modifier sends, and its metrics."""
    from flwr.app import ConfigRecord, Message, RecordDict

    made = grid({1: make_client(update, metrics={"loss": 0.25}, mods=[mod])}, **config)
    arrays = model(w=np.full(WIDTH, 2.0, np.float32))
    message = Message(RecordDict({"arrays": arrays, "config": ConfigRecord()}), dst_node_id=1, message_type="train")
    reply = made.send_and_receive([message])[0]
    if made.failures:
        raise made.failures[0]
    return reply.content["arrays"]["w"].numpy() - 2.0, dict(reply.content["metrics"])


def test_an_update_is_clipped_on_the_client(grid, model, make_client):
    config = {"clip-norm": 0.5}
    long, metrics = sent_by(grid, model, make_client, clip_mod, lambda a, _: {"w": a["w"] + 1}, **config)
    short, _ = sent_by(grid, model, make_client, clip_mod, lambda a, _: {"w": a["w"] + np.float32(1e-3)}, **config)
    broken, _ = sent_by(grid, model, make_client, clip_mod, lambda a, _: {"w": a["w"] * np.nan}, **config)

    assert np.linalg.norm(long) == pytest.approx(0.5, rel=1e-4)
    assert short == pytest.approx(1e-3, rel=1e-3)
    assert (broken == 0).all()
    assert metrics["loss"] == 0.25


def test_local_noise_is_that_of_a_replaced_client(grid, model, make_client):
    """Sensitivity 2C: standard deviation z·2C. False alarm 1e-6."""
    config = {"clip-norm": 0.5, "noise-multiplier": 3.0}
    update, metrics = sent_by(grid, model, make_client, local_noise_mod, lambda a, _: a, **config)

    assert abs(update.std() / 3.0 - 1) < 5 / math.sqrt(2 * WIDTH)
    assert abs(update.mean()) < 5 * 3.0 / math.sqrt(WIDTH)
    assert metrics == {"num-examples": 1}


def test_local_noise_lets_nothing_else_of_a_client_leave(grid, model):
    """Neither counters that are not trained, which tell how many batches there were, nor configurations."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp(mods=[local_noise_mod])

    @app.train()
    def train(message, context):
        arrays = {"w": np.ones(3, np.float32), "bn.num_batches_tracked": np.array(417)}
        record = ArrayRecord({name: Array(array) for name, array in arrays.items()})
        told = {"arrays": record, "metrics": MetricRecord({"num-examples": 13_344})}
        return Message(RecordDict({**told, "notes": ConfigRecord({"patient": "Doe"})}), reply_to=message)

    made = grid({1: app}, **{"clip-norm": 0.5, "noise-multiplier": 3.0, "skip": "num_batches_tracked"})
    arrays = model(w=np.zeros(3, np.float32), **{"bn.num_batches_tracked": np.array(7)})
    sent = RecordDict({"arrays": arrays, "config": ConfigRecord()})
    (reply,) = made.send_and_receive([Message(sent, dst_node_id=1, message_type="train")])

    assert not made.failures
    assert set(reply.content) == {"arrays", "metrics"}
    assert reply.content["arrays"]["bn.num_batches_tracked"].numpy() == 7
    assert dict(reply.content["metrics"]) == {"num-examples": 1}


@pytest.mark.parametrize("config", [{}, {"clip-norm": "1"}, {"clip-norm": True}, {"clip-norm": -1.0}])
def test_a_configuration_without_a_norm_is_refused(grid, model, make_client, config):
    with pytest.raises(InvalidParameter, match=r"clip-norm|clip_norm"):
        sent_by(grid, model, make_client, clip_mod, lambda a, _: a, **config)


def config_of(relation, method, **others):
    return PrivacyConfig(1e-5, 100, relation, method, **others)


@pytest.mark.parametrize(
    ("config", "event"),
    [
        (
            config_of(AO, SamplingMethod.POISSON),
            PoissonSampledEvent(sampling_probability=0.1, event=GaussianEvent(noise_multiplier=2.0)),
        ),
        (
            config_of(RO, SamplingMethod.WITHOUT_REPLACEMENT),
            FixedSizeSampledEvent(population_size=100, sample_size=10, event=GaussianEvent(noise_multiplier=1.0)),
        ),
        (config_of(AO, SamplingMethod.NO_AMPLIFICATION), GaussianEvent(noise_multiplier=2.0)),
    ],
)
def test_epsilon_is_that_of_the_stated_events(config, event):
    accountant = PlanAccountant(config)
    accountant.compose(GaussianPrivacyEvent(2.0, 10, 100), 7)
    expected = PldAccountant(neighboring_relation=Relation[config.neighboring_relation.name])
    expected.compose(event, 7)

    assert accountant.get_epsilon(1e-5) == expected.epsilon(1e-5)
    assert accountant.get_delta(1.0) == expected.delta(1.0)
    spent = accountant.get_privacy_spent()
    assert (spent.epsilon, spent.delta, spent.num_releases) == (expected.epsilon(1e-5), 1e-5, 7)
    assert accountant.num_releases == 7
    again = PlanAccountant(config)
    again.load_state_dict(accountant.state_dict())
    assert again.get_privacy_spent() == spent


def test_what_is_not_flowers_is_refused():
    accountant = PlanAccountant(config_of(AO, SamplingMethod.POISSON))
    with pytest.raises(InvalidType):
        PlanAccountant("config")
    with pytest.raises(InvalidType):
        accountant.compose(GaussianEvent(noise_multiplier=1.0))
    with pytest.raises(InvalidParameter, match="population of 100"):
        accountant.compose(GaussianPrivacyEvent(1.0, 10, 200))
    with pytest.raises(InvalidParameter, match="max_epsilon must be given"):
        accountant.would_exceed(GaussianPrivacyEvent(1.0, 10, 100))
    with pytest.raises(InvalidParameter, match="state must"):
        accountant.load_state_dict({})
    other = PlanAccountant(config_of(RO, SamplingMethod.WITHOUT_REPLACEMENT))
    with pytest.raises(InvalidParameter, match="neighboring relation"):
        accountant.load_state_dict(other.state_dict())
    assert accountant.num_releases == 0


def test_flowers_own_wrapper_runs_with_it_and_stops_at_its_limit(grid, model):
    accountant = PlanAccountant(config_of(AO, SamplingMethod.NO_AMPLIFICATION, max_epsilon=3.0))
    wrapped = DifferentialPrivacyServerSideFixedClipping(
        FedAvg(fraction_evaluate=0.0), 3.0, 1.0, 4, accountant=accountant
    )
    with pytest.raises(Exception, match="would exceed max_epsilon"):
        wrapped.start(
            grid(4, lambda arrays, _: {"w": arrays["w"] + 1}), model(w=np.zeros(3, np.float32)), num_rounds=50
        )
    assert accountant.num_releases >= 2
    assert accountant.get_epsilon(1e-5) <= 3.0
