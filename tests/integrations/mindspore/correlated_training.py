"""A training with correlated noise that may be killed: `python correlated_training.py FOLDER LEDGER DIARY`.

The learning rate is 0 and images are alike, so that what a step releases depends on the step and the noise alone. Each
line of the diary is a step and the gradient that the optimizer got.
"""

import json
import os
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindspore import nn
from mindspore.train import Callback

import ferrodp as fd
from ferrodp.correlated import BufferedToeplitz
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.mindspore import DPModel, IndexedDataset, NoiseCorrelatedGaussianRandom
from ferrodp.plan import CyclicPoisson

SIZE, PARTS, EPOCHS = 12, 3, 4
STEPS = PARTS * EPOCHS


class Writing(nn.SGD):
    """An optimizer that keeps what it got, and moves nothing."""

    def __call__(self, gradients):
        self.seen = [each.asnumpy().copy() for each in gradients]
        return True


class Diary(Callback):
    """Calls a function with the number of each step and what it released."""

    def __init__(self, optimizer, wrote):
        super().__init__()
        self.optimizer, self.wrote = optimizer, wrote

    def on_train_step_end(self, run_context):
        number = run_context.original_args()["cur_step_num"] - 1
        self.wrote(number, [value for each in self.optimizer.seen for value in each.ravel().tolist()])


def opened(path):
    ledger = fd.PrivacyLedger.open(path)
    if "a" not in ledger.scopes:
        ledger.create(
            "a", epsilon=50.0, delta=1e-5, measure="zcdp", neighboring_relation=NeighboringRelation.REPLACE_SPECIAL
        )
    return ledger


def mechanism():
    strategy = BufferedToeplitz(num_steps=STEPS, buffers=2, num_participations=EPOCHS, min_separation=PARTS)
    return NoiseCorrelatedGaussianRandom(strategy, initial_noise_multiplier=3.0)


def dataset():
    images, labels = np.ones((SIZE, 4), np.float32), np.zeros(SIZE, np.int32)
    return IndexedDataset(images, labels, batch_size=SIZE // PARTS, sampling=CyclicPoisson(1.0, num_parts=PARTS))


def model_of(**given):
    """Return the model and its optimizer."""
    mindspore.set_device("CPU")
    network = nn.Dense(4, 3, weight_init="zeros", bias_init="zeros")
    optimizer = Writing(network.trainable_params(), learning_rate=0.0)
    model = DPModel(
        micro_batches=None,
        noise_mech=given.pop("noise_mech", None) or mechanism(),
        optimizer=optimizer,
        network=network,
        loss_fn=nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
        **given,
    )
    return model, optimizer


def main(folder, name, diary):
    """Train to the end, or until killed."""
    descriptor = os.open(folder / diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with opened(folder / name) as ledger:
        model, optimizer = model_of(ledger=ledger, scope="a", key="t", noise_file=folder / "noise")

        def wrote(number, values):
            os.write(descriptor, f"{json.dumps([number, *values])}\n".encode())

        model.train(EPOCHS, dataset(), callbacks=[Diary(optimizer, wrote)])
        print(model.last_run.stopped, ledger.epsilon_charged("a"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
