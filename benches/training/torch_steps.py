"""Private training steps in PyTorch: plain, with Opacus, and with this package, in turns within one process.

    export OMP_NUM_THREADS=1 MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=8000000000
    .venv-frameworks/opacus/bin/python benches/training/torch_steps.py [--steps N]

Each case is a network of two hidden layers on the digits data with Poisson batches. Rounds take turns, so that a
change in the machine's load meets all. Printed are milliseconds of CPU time a step, all threads together: the lower
quartile over rounds, and ratios. Memory is not given back between steps, as whose page faults these are is chance.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Iterable
from itertools import cycle

import torch
from opacus import PrivacyEngine
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from ferrodp.integrations import opacus as exact
from ferrodp.integrations.torch import start
from ferrodp.plan import ConstantNoise, FlatClipping, PlanStep, PoissonSampling, PrivacyPlan

warnings.filterwarnings("ignore")


def network(width: int) -> torch.nn.Sequential:
    torch.manual_seed(0)
    hidden = torch.nn.Linear(width, width)
    return torch.nn.Sequential(
        torch.nn.Linear(64, width), torch.nn.ReLU(), hidden, torch.nn.ReLU(), torch.nn.Linear(width, 10)
    )


def opacus_step(x: torch.Tensor, y: torch.Tensor, width: int, batch: int, *, is_exact: bool) -> Callable[[], dict]:
    """Return a function that makes one step of Opacus and says how long its parts took."""
    engine = PrivacyEngine(accountant="rdp")
    model = network(width)
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        data_loader=DataLoader(TensorDataset(x, y), batch_size=batch),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    if is_exact:
        exact.make_exact(optimizer)
    batches = iter(cycle(list(loader)))
    spent: dict[str, float] = {}
    for name in ("clip_and_accumulate", "add_noise"):
        setattr(optimizer, name, timed(getattr(optimizer, name), name, spent))

    def step() -> dict:
        xb, yb = next(batches)
        started = time.process_time()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(xb), yb).backward()
        optimizer.step()
        return spent | {"step": time.process_time() - started}

    return step


def plan_step(x: torch.Tensor, y: torch.Tensor, width: int, batch: int) -> Callable[[], dict]:
    """Return a function that makes one step of a plan and says how long its parts took."""
    plan = PrivacyPlan(
        population_size=len(x),
        sampling=PoissonSampling(batch / len(x)),
        num_steps=10_000,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(1.0),
    )
    model = network(width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    steps = start(plan, model, lambda model, x, y: torch.nn.functional.cross_entropy(model(x), y))
    spent: dict[str, float] = {}
    # The sum's own time within `add`, which computes the gradients as well.
    original = PlanStep.add

    def add(self: PlanStep, gradients: object) -> None:
        started = time.process_time()
        original(self, gradients)
        spent["clip_and_accumulate"] += time.process_time() - started

    PlanStep.add = add  # type: ignore[method-assign]

    def step() -> dict:
        started = time.process_time()
        spent["clip_and_accumulate"] = 0.0
        drawn = next(steps)
        drawn.add(x[drawn.indices], y[drawn.indices])
        added = time.process_time()
        drawn.release()
        spent["add_noise"] = time.process_time() - added
        optimizer.step()
        return spent | {"step": time.process_time() - started}

    return step


def timed(part: Callable[[], None], name: str, spent: dict[str, float]) -> Callable[[], None]:
    """Return a function that notes how long it takes."""

    def call() -> None:
        started = time.process_time()
        part()
        spent[name] = time.process_time() - started

    return call


def plain_step(x: torch.Tensor, y: torch.Tensor, width: int, batch: int) -> Callable[[], dict]:
    """Return a function that makes one step without privacy."""
    model = network(width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    batches = iter(cycle(list(DataLoader(TensorDataset(x, y), batch_size=batch, shuffle=True))))

    def step() -> dict:
        xb, yb = next(batches)
        started = time.process_time()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(xb), yb).backward()
        optimizer.step()
        return {"step": time.process_time() - started}

    return step


def quartile(values: Iterable[float]) -> float:
    return statistics.ranks.quantiles(values, n=4)[0]


def measured(cases: dict[str, Callable[[], dict]], steps: int) -> None:
    """Print the lower quartiles in milliseconds over steps that take turns."""
    found: dict[str, list[dict]] = {name: [] for name in cases}
    for round_number in range(steps + 3):
        for name, step in cases.items():
            result = step()
            if round_number >= 3:
                found[name].append(result)
    reference = quartile(each["step"] for each in found["Opacus"])
    print(f"{'':24}{'step':>9}{'/ Opacus':>10}{'clip':>9}{'noise':>9}{'noise/step':>12}")
    for name, results in found.items():
        parts = {key: quartile(each[key] for each in results) for key in results[0]}
        step, clip, noise = (parts.get(key, 0.0) for key in ("step", "clip_and_accumulate", "add_noise"))
        print(
            f"{name:24}{step * 1e3:9.2f}{step / reference:10.2f}{clip * 1e3:9.2f}{noise * 1e3:9.2f}{noise / step:12.1%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    steps = parser.parse_args().steps
    x, y = load_digits(return_X_y=True)
    x, y = torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y)
    for width, batch in ((128, 64), (128, 256), (512, 64)):
        size = sum(parameter.numel() for parameter in network(width).parameters())
        print(f"\n{size} parameters, batches of about {batch}, ms of CPU time a step, {torch.get_num_threads()} thread")
        measured(
            {
                "no privacy": plain_step(x, y, width, batch),
                "Opacus": opacus_step(x, y, width, batch, is_exact=False),
                "Opacus again": opacus_step(x, y, width, batch, is_exact=False),
                "Opacus, make_exact": opacus_step(x, y, width, batch, is_exact=True),
                "ferrodp, a plan": plan_step(x, y, width, batch),
            },
            steps,
        )


if __name__ == "__main__":
    main()
