"""A server app in a process of its own, for tests that kill it: five clients, a ledger, a checkpoint, no network.

    python killed_server.py FOLDER [ROUNDS] [correlated]

Writes FOLDER/result.npz and ends with code 0 once all rounds are done. Keys of noise are a function of the round, so
that two trainings can be compared bit for bit: a test, not private. With correlated noise, FOLDER/noise has the key.
"""

import hashlib
import sys
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import FedAdam

import conftest
import ferrodp as fd
from ferrodp.correlated import BufferedToeplitz
from ferrodp.integrations.flower import PrivateStrategy
from ferrodp.plan import AdaptiveClipping, ConstantNoise, CorrelatedNoise, FlatClipping, FullBatch, PrivacyPlan
from ferrodp.plan import _kept as kept

CLIENTS, WIDTH = 5, 20_000


def planned(rounds, is_correlated):
    if is_correlated:
        strategy = BufferedToeplitz(num_steps=rounds, buffers=1, num_participations=rounds)
        parts = {"clipping": FlatClipping(1.0), "noise": CorrelatedNoise(strategy, 2.0)}
    else:
        clipping = AdaptiveClipping(1.0, target_quantile=0.5, learning_rate=0.3, count_noise_multiplier=4.0)
        parts = {"clipping": clipping, "noise": ConstantNoise(1.0)}
    return PrivacyPlan(
        unit="client",
        population_size=CLIENTS,
        sampling=FullBatch(),
        num_steps=rounds,
        **parts,
    )


def update(arrays, context):
    """A step toward a point of the client's own: what a client sends depends on the model that it is sent."""
    return {name: array + np.float32(0.1) * (context.node_id - array) for name, array in arrays.items()}


def main(folder, rounds, is_correlated):
    kept._fresh_key = lambda step: hashlib.sha256(f"round {step}".encode()).digest()
    grid = conftest.MemoryGrid({node: conftest.client(update) for node in range(1, CLIENTS + 1)})
    with fd.PrivacyLedger.open(folder / "budget.db") as ledger:
        if "app" not in ledger.scopes:
            ledger.create("app", epsilon=1000.0, delta=0.1, measure="gdp")
        strategy = PrivateStrategy(
            FedAdam(fraction_evaluate=0.0),
            plan=planned(rounds, is_correlated),
            ledger=ledger,
            scope="app",
            key="t",
            checkpoint=folder / "training",
            noise_file=folder / "noise" if is_correlated else None,
            log=folder / "rounds.csv",
            wait=0,
        )
        print("begins", flush=True)
        result = strategy.start(grid, ArrayRecord({"w": Array(np.zeros(WIDTH, np.float32)), "b": Array(np.zeros(3))}))
    arrays = {name: array.numpy() for name, array in result.arrays.items()}
    np.savez(folder / "unfinished.npz", **arrays)
    (folder / "unfinished.npz").replace(folder / "result.npz")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 8, sys.argv[3:] == ["correlated"])
