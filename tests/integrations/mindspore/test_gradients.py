"""Per-example gradients: those of each example alone, whatever the chunk and the padding."""

import mindspore
import numpy as np
import pytest
from mindspore import nn
from mindspore_networks import Linear, Normalized, SmallLeNet, WithLossInside, cross_entropy, digits

import ferrodp as fd
from ferrodp.integrations.mindspore._gradients import PerExampleGradients

IMAGES, LABELS = digits()


def alone(network, loss_fn, columns, row):
    """Return loss and gradients of one example, by MindSpore's own gradient of a batch of one."""
    cell = nn.WithLossCell(network, loss_fn) if loss_fn else network
    gradient = mindspore.value_and_grad(cell, None, tuple(network.trainable_params()))
    loss, gradients = gradient(*(mindspore.Tensor(column[row : row + 1]) for column in columns))
    return float(loss.asnumpy()), [each.asnumpy() for each in gradients]


PYNATIVE, GRAPH = mindspore.PYNATIVE_MODE, mindspore.GRAPH_MODE


@pytest.mark.parametrize(
    ("mode", "make", "loss_fn", "batched"),
    [
        (PYNATIVE, SmallLeNet, cross_entropy(), True),
        (PYNATIVE, Linear, cross_entropy(), True),
        (PYNATIVE, WithLossInside, None, True),
        (PYNATIVE, SmallLeNet, cross_entropy(), False),
        (GRAPH, SmallLeNet, cross_entropy(), True),
        (GRAPH, Linear, cross_entropy(), False),
    ],
)
def test_gradients_are_those_of_each_example_alone(mode, make, loss_fn, batched):
    mindspore.set_context(mode=mode)
    try:
        network, columns = make(), [IMAGES[:7], LABELS[:7]]
        gradients = PerExampleGradients(network, loss_fn, network.trainable_params(), chunk_size=4)
        if not batched:
            gradients._batches = False

        chunks = list(gradients(columns))

        assert gradients._batches is batched
        assert [len(losses) for losses, _ in chunks] == [4, 3]
        losses = np.concatenate([losses for losses, _ in chunks])
        found = [np.concatenate(parts) for parts in zip(*(parts for _, parts in chunks), strict=True)]
        for row in (0, 3, 4, 6):
            loss, expected = alone(network, loss_fn, columns, row)
            # float32: sums of at most 288 products in another order, a few layers deep
            assert losses[row] == pytest.approx(loss, rel=1e-5)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one[row], other, rtol=1e-4, atol=1e-6)
    finally:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)


def test_no_examples_have_no_gradients():
    network = Linear()
    gradients = PerExampleGradients(network, cross_entropy(), network.trainable_params(), chunk_size=4)

    assert list(gradients([IMAGES[:0], LABELS[:0]])) == []


def test_layers_that_mix_examples_are_refused():
    network = Normalized()

    with pytest.raises(fd.errors.InvalidParameter, match=r"the layer norm \(BatchNorm1d\) mixes the examples"):
        PerExampleGradients(network, cross_entropy(), network.trainable_params(), chunk_size=4)
