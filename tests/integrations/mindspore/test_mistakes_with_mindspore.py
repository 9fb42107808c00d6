"""Mistakes of those who train with MindSpore, and what they are told."""

import pytest

from ferrodp.integrations import mindspore
from support.mistakes import Mistake, Reason, objections

MISTAKES = [
    Mistake(
        "a negative norm",
        lambda c: mindspore.NoiseGaussianRandom(norm_bound=-1.0),
        "norm_bound",
        "got -1.0",
        "finite and > 0",
        "for example norm_bound=1.0",
    ),
    Mistake(
        "a misspelt mechanism",
        lambda c: mindspore.NoiseMechanismsFactory().create("Gausian"),
        "mech_name",
        "got 'Gausian'",
        "one of 'Gaussian', 'AdaGaussian'",
        "did you mean 'Gaussian'",
    ),
    Mistake(
        "another mechanism",
        lambda c: mindspore.ClipMechanismsFactory().create("x"),
        "mech_name",
        "got 'x'",
        "one of 'Gaussian'",
        "for example mech_name='Gaussian'",
    ),
    Mistake(
        "no batch size",
        lambda c: mindspore.IndexedDataset(),
        "IndexedDataset() is missing 'batch_size'",
        Reason.NOTHING_GIVEN,
        "int: Expected number of records of a batch",
        "write IndexedDataset(batch_size=...)",
    ),
    Mistake(
        "no optimizer",
        lambda c: mindspore.DPModel(network=5),
        "optimizer",
        "got None",
        "must be given",
        "for example one of DPOptimizerClassFactory().create('SGD')",
    ),
    Mistake(
        "a negative number of records",
        lambda c: mindspore.RDPMonitor(num_samples=-1, batch_size=2),
        "num_samples",
        "got -1",
        "an int >= 1",
        "for example num_samples=1",
    ),
    Mistake(
        "a misspelt keyword of a class",
        lambda c: mindspore.RDPMonitor(num_sampels=1, batch_size=2),
        "'num_sampels'",
        Reason.NOT_LOOKED_AT,
        "it takes num_samples, batch_size",
        "did you mean 'num_samples'",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name)
def test_a_mistake_with_mindspore_is_told_in_four_parts(mistake):
    assert objections(mistake) == []
