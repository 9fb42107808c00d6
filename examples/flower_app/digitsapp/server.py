"""The server: a plan for so many clients and rounds, and FedAvg inside a private strategy.

Unit of privacy: a client, added or removed. All rounds together are (epsilon, delta)-differentially private. With
``ledger`` set, every round is charged there before it begins. With ``checkpoint`` set, a server that was killed goes on
with its model, round and accountant, and loses no round that was paid for.
"""

import contextlib

import numpy as np
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import ferrodp as fd
from ferrodp.integrations.flower import PrivateStrategy
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and print ε after each round."""
    config = context.run_config
    epsilon, delta = float(config["epsilon"]), float(config["delta"])
    plan = PrivacyPlan(
        unit="client",
        population_size=int(config["clients"]),
        sampling=FullBatch(),
        num_steps=int(config["rounds"]),
        clipping=FlatClipping(float(config["clip-norm"])),
        noise=ConstantNoise(1.0),
    ).calibrated(epsilon=epsilon, delta=delta)
    with contextlib.ExitStack() as stack:
        payment = {}
        if config["ledger"]:
            ledger = stack.enter_context(fd.PrivacyLedger.open(str(config["ledger"])))
            if "digits" not in ledger.scopes:
                ledger.create("digits", epsilon=1.1 * epsilon, delta=delta, measure="gdp")
            payment = {"ledger": ledger, "scope": "digits", "key": "training-1"}
        inner = FedAvg(fraction_evaluate=0.0, min_available_nodes=1)
        files = {"log": str(config["log"]) or None, "checkpoint": str(config.get("checkpoint", "")) or None}
        strategy = PrivateStrategy(
            inner, plan=plan, delta=delta, on_exhausted=str(config.get("on-exhausted", "end")), **files, **payment
        )
        start = ArrayRecord({"w": Array(np.zeros((64, 10), np.float32)), "b": Array(np.zeros(10, np.float32))})
        strategy.start(grid, start)
    for row in strategy.records:
        print(f"round {row.round}: epsilon {row.epsilon:.4f} at delta {delta:g}", flush=True)
