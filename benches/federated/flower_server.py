"""Server time of Flower's strategies for each client of a round: plain FedAvg, Flower's wrapper, `PrivateStrategy`.

    export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
    .venv-frameworks/flower/bin/python benches/federated/flower_server.py [--clients N] [--rounds N]

A round is `configure_train` and `aggregate_train` for replies that are in memory, a model of 10⁶ float32 each, in four
arrays. The strategies take turns, so that a change in the machine's load meets all. Printed are milliseconds of CPU
time of the process (all threads) a client: the median over rounds, and ratios to FedAvg and to Flower's wrapper. What
Flower logs is not shown.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.supercore.task_identity import TaskIdentity

from ferrodp.integrations.flower import PrivateStrategy
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan

SHAPES = {"conv": (64, 64, 5, 5), "dense": (800, 1000), "out": (97_500,), "bias": (100,)}  # 10⁶ values together
TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1  # what a real process is told by its parent


class Nodes:
    """A grid of so many connected nodes."""

    def __init__(self, count: int) -> None:
        self.nodes = list(range(1, count + 1))

    def get_node_ids(self) -> list[int]:
        return self.nodes


def model(rng: np.random.Generator, scale: float) -> ArrayRecord:
    """Return a record of arrays, serialized as they arrive."""
    return ArrayRecord(
        {name: Array((scale * rng.standard_normal(shape)).astype("f4")) for name, shape in SHAPES.items()}
    )


def round_of(strategy: Any, number: int, grid: Nodes, start: ArrayRecord, updates: list[ArrayRecord]) -> float:
    """Return the CPU time of one round of a strategy."""
    began = time.process_time()
    messages = list(strategy.configure_train(number, start, ConfigRecord(), grid))
    spent = time.process_time() - began
    replies = []
    for place, (message, update) in enumerate(zip(messages, updates, strict=True)):
        message.metadata.__dict__["_message_id"] = f"m{place}"
        content = RecordDict({"arrays": ArrayRecord(dict(update)), "metrics": MetricRecord({"num-examples": 10})})
        TaskIdentity.node_id = message.metadata.dst_node_id
        replies.append(Message(content, reply_to=message))
    TaskIdentity.node_id = 1
    began = time.process_time()
    strategy.aggregate_train(number, replies)
    return spent + time.process_time() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)

    plan = PrivacyPlan(
        unit="client",
        population_size=asked.clients,
        sampling=FullBatch(),
        num_steps=asked.rounds + 2,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(1.0),
    )
    options = {"fraction_evaluate": 0.0}
    strategies: dict[str, Callable[[], Any]] = {
        "FedAvg": lambda: FedAvg(**options),
        "Flower's wrapper": lambda: DifferentialPrivacyServerSideFixedClipping(
            FedAvg(**options), 1.0, 1.0, asked.clients
        ),
        "PrivateStrategy": lambda: PrivateStrategy(FedAvg(**options), plan=plan, wait=0),
    }
    rng = np.random.default_rng(0)
    grid, start = Nodes(asked.clients), model(rng, 1.0)
    updates = [model(rng, 0.01) for _ in range(asked.clients)]
    made = {name: make() for name, make in strategies.items()}
    times: dict[str, list[float]] = {name: [] for name in made}
    for number in range(1, asked.rounds + 2):
        for name, strategy in made.items():
            times[name].append(round_of(strategy, number, grid, start, updates) / asked.clients * 1000)
    middle = {name: statistics.median(found[1:]) for name, found in times.items()}  # the first round warms up
    print(f"{asked.clients} clients, {asked.rounds} rounds, load {os.getloadavg()[0]:.1f}")
    print(f"{'ms of CPU time a client':28} {'median':>7} {'least':>7} {'/ FedAvg':>9} {'/ wrapper':>9}")
    for name, found in middle.items():
        against = found / middle["FedAvg"], found / middle["Flower's wrapper"]
        print(f"{name:28} {found:7.2f} {min(times[name][1:]):7.2f} {against[0]:9.2f} {against[1]:9.2f}")


if __name__ == "__main__":
    main()
