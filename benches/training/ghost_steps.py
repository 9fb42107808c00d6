"""Steps of training in PyTorch: this package's loop, and Opacus' two modes, of which ghost writes out no gradient.

    export OMP_NUM_THREADS=1
    .venv-frameworks/torch/bin/python benches/training/ghost_steps.py [--steps N]     # with opacus installed there

For a network of 10.1 million parameters, and a transformer of 6.7 million on texts of 32 words, in batches of 64.
Printed are milliseconds of CPU time a step, all threads together, the median over rounds in which the ways take turns;
and by how many megabytes the peak of a process of its own grows over what it had with model and data.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from ferrodp.integrations.torch import make_private
from ferrodp.plan import ConstantNoise, FixedSizeSampling, FlatClipping, PrivacyPlan

warnings.filterwarnings("ignore")
BATCH, SIZE, WORDS, LENGTH = 64, 640, 10_000, 32
WAYS = ("no privacy", "ferrodp", "opacus ghost", "opacus hooks")


class Layer(nn.Module):
    """Attention and two linear layers, of modules that all ways can take."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(256), nn.LayerNorm(256)
        self.inputs, self.output = nn.Linear(256, 768), nn.Linear(256, 256)
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.inputs(self.first(x)).unflatten(-1, (3, 4, 64)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(seen.transpose(1, 2).flatten(2))
        added: torch.Tensor = x + self.down(torch.relu(self.up(self.second(x))))
        return added


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 256), nn.Embedding(LENGTH, 256)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.head = nn.Linear(256, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        places = torch.arange(words.shape[1]).expand(len(words), -1).contiguous()
        x = self.words(words) + self.places(places)
        for layer in self.layers:
            x = layer(x)
        scores: torch.Tensor = self.head(x)
        return scores


def made(name: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    if name == "transformer":
        words = torch.randint(0, WORDS, (SIZE, LENGTH))
        return Transformer(), words, words
    layers = nn.Sequential(nn.Linear(784, 2800), nn.ReLU(), nn.Linear(2800, 2800), nn.ReLU(), nn.Linear(2800, 10))
    return layers, torch.randn(SIZE, 784), torch.randint(0, 10, (SIZE,))


def stepper(name: str, way: str, steps: int) -> Callable[[], None]:
    """Return a function that makes one step."""
    model, x, y = made(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(x, y), batch_size=BATCH)
    criterion = nn.CrossEntropyLoss()
    if way == "ferrodp":
        plan = PrivacyPlan(
            population_size=SIZE,
            sampling=FixedSizeSampling(BATCH),
            num_steps=steps,
            clipping=FlatClipping(1.0),
            noise=ConstantNoise(1.0),
        )
        model, optimizer, loader = make_private(model, optimizer, loader, plan=plan)
    elif way.startswith("opacus"):
        from opacus import PrivacyEngine

        more = {"criterion": criterion, "grad_sample_mode": "ghost"} if way == "opacus ghost" else {}
        found = PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            poisson_sampling=False,
            **more,
        )
        if way == "opacus ghost":
            model, optimizer, criterion, loader = found
        else:
            model, optimizer, loader = found

    def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            yield from loader

    source = batches()

    def step() -> None:
        a, b = next(source)
        optimizer.zero_grad()
        scores = model(a)
        more = {"shape": scores.shape} if way == "opacus ghost" and scores.ndim == 3 else {}
        criterion(scores.flatten(0, -2), b.flatten(), **more).backward()
        optimizer.step()

    return step


def peak() -> float:
    """Return the largest resident size since the last reset, in megabytes."""
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--memory", nargs=2)
    parser.add_argument("--only", choices=["MLP", "transformer"])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.memory:
        step = stepper(*asked.memory, 4)
        Path("/proc/self/clear_refs").write_text("5")  # the peak from now on
        before = peak()
        for _ in range(3):
            step()
        print(json.dumps(peak() - before))
        return
    for name in [asked.only] if asked.only else ["MLP", "transformer"]:
        steps = {way: stepper(name, way, asked.steps + 2) for way in WAYS}
        for step in steps.values():
            step()
            step()
        spent: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(asked.steps):
            for way, step in steps.items():
                started = time.process_time()
                step()
                spent[way].append(1e3 * (time.process_time() - started))
        medians = {way: statistics.median(times) for way, times in spent.items()}
        for way in WAYS:
            command = [sys.executable, __file__, "--memory", name, way]
            grown = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
            quickest = min(spent[way])
            print(
                f"{name:12} {way:13} {medians[way]:8.0f} ms, least {quickest:6.0f}, grows by {grown:6.0f} MB",
                flush=True,
            )
        ghost, plain, own = medians["opacus ghost"], medians["no privacy"], medians["ferrodp"]
        print(f"{name:12} ferrodp: {own / ghost:.2f} of opacus ghost, {own / plain:.2f} of no privacy", flush=True)


if __name__ == "__main__":
    main()
