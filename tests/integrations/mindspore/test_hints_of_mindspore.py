"""Each way out that a message of `integrations.mindspore` names is taken, and no place with one is without a row."""

import correlated_training
import mindspore
import mindspore.dataset as ds
import numpy as np
import pytest
from mindspore import nn
from mindspore_networks import GroupNormalized, LayerNormalized, Linear, Normalized, cross_entropy

import ferrodp as fd
from ferrodp.integrations.mindspore import (
    DPModel,
    DPOptimizerClassFactory,
    IndexedDataset,
    NoiseMechanismsFactory,
    RDPMonitor,
)
from support.hints import Hint, assert_all_lead_out, identifiers, lead_out

X, Y = np.ones((20, 1, 8, 8), np.float32), np.zeros(20, np.int32)


def records(labels=Y):
    return IndexedDataset(X, labels, batch_size=5)


def loader():
    return ds.NumpySlicesDataset((X, Y), ["image", "label"], shuffle=True).batch(5, drop_remainder=True)


def model(network=None, **options):
    network = Linear() if network is None else network
    mechanism = NoiseMechanismsFactory().create("Gaussian", norm_bound=1.0, initial_noise_multiplier=1.0)
    optimizer = nn.SGD(network.trainable_params(), learning_rate=0.1)
    return DPModel(
        **{
            "micro_batches": None,
            "norm_bound": 1.0,
            "noise_mech": mechanism,
            "optimizer": optimizer,
            "network": network,
            "loss_fn": cross_entropy(),
            **options,
        }
    )


def paid(folder, data):
    with fd.PrivacyLedger.open(folder / "budget.db") as ledger:
        if "digits" not in ledger.scopes:
            ledger.create("digits", epsilon=500.0, delta=1e-5)
        model(key="linear", ledger=ledger, scope="digits").train(1, data)


def with_private_optimizer():
    factory = DPOptimizerClassFactory(micro_batches=None)
    factory.set_mechanisms("Gaussian", norm_bound=1.0, initial_noise_multiplier=1.0)
    network = Linear()
    optimizer = factory.create("SGD")(network.trainable_params(), learning_rate=0.1)
    model(network, noise_mech=None, optimizer=optimizer).train(1, records())


def correlated(folder):
    """Train with noise that cancels over the steps."""
    with correlated_training.opened(folder / "correlated.db") as ledger:
        model, _ = correlated_training.model_of(
            ledger=ledger, scope="a", key="training", noise_file=folder / "training.noise"
        )
        model.train(1, correlated_training.dataset())


def in_mode(mode):
    mindspore.set_auto_parallel_context(parallel_mode="data_parallel")
    try:
        if mode is not None:
            mindspore.set_auto_parallel_context(parallel_mode=mode)
        model().train(1, records())
    finally:
        mindspore.reset_auto_parallel_context()


HINTS = [
    Hint(
        'write mindspore.set_auto_parallel_context(parallel_mode="stand_alone")',
        lambda c: in_mode(None),
        lambda c: in_mode("stand_alone"),
    ),
    Hint(
        "use GroupNorm or LayerNorm",
        lambda c: model(Normalized()).train(1, records()),
        lambda c: [model(each).train(1, records()) for each in (GroupNormalized(), LayerNormalized())],
    ),
    Hint(
        "for example numpy.asarray(labels, numpy.int32)",
        lambda c: records(Y.tolist()),
        lambda c: records(np.asarray(Y.tolist(), np.int32)),
    ),
    Hint(
        "use an IndexedDataset",
        lambda c: paid(c, loader()),
        lambda c: paid(c, records()),
    ),
    Hint(
        "for example key='training', noise_file='training.noise'",
        lambda c: correlated_training.model_of(noise_file=c / "training.noise"),
        lambda c: correlated(c),
    ),
    Hint(
        "for example one of DPOptimizerClassFactory().create('SGD')",
        lambda c: model(optimizer=None),
        lambda c: with_private_optimizer(),
    ),
    Hint(
        "set it to None where target_eps is given",
        lambda c: RDPMonitor(num_samples=20, batch_size=5, target_eps=1.0),
        lambda c: RDPMonitor(num_samples=20, batch_size=5, target_eps=1.0, target_delta=None),
    ),
]


@pytest.mark.parametrize("hint", HINTS, ids=identifiers(HINTS))
def test_a_way_out_of_mindspore_leads_out(hint, tmp_path):
    lead_out(hint, tmp_path)


def test_no_way_out_of_mindspore_is_without_a_test(tmp_path):
    assert_all_lead_out("mindspore", HINTS, context=tmp_path)
