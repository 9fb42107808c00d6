"""The largest transformer of which one private step of 8 texts fits into memory: the peak of a process, size by size.

    OMP_NUM_THREADS=1 .venv-frameworks/torch/bin/python benches/training/largest.py [--limit 20] [--widths 512 1024 ...]

Twelve layers, 10 000 words, texts of 32 words, float32, `make_private`, SGD. Each size is a process of its own, which
makes two steps. It is ended when it holds more than the limit, in GiB, or when the machine has less than 1.5 GiB left
for others. Printed are millions of parameters, the largest resident size of the process in GiB, bytes a parameter, and
seconds of CPU time of the second step.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

LAYERS, WORDS, LENGTH, BATCH, SIZE = 12, 10_000, 32, 8, 64
GIB = 2.0**30


def count_of(width: int) -> int:
    """Return how many parameters the transformer of a width has."""
    layer = 4 * width * width + 8 * width * width + 2 * 2 * width + (3 + 1 + 4 + 1) * width
    return LAYERS * layer + 2 * WORDS * width + WORDS + LENGTH * width


def step(width: int, way: str) -> None:
    """Make two steps, and print what they took."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    from ferrodp.integrations.torch import make_private
    from ferrodp.plan import ConstantNoise, FixedSizeSampling, FlatClipping, PrivacyPlan

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.inputs(self.first(x)).unflatten(-1, (3, 8, width // 8)).permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.output(seen.transpose(1, 2).flatten(2))
            added: torch.Tensor = x + self.down(torch.relu(self.up(self.second(x))))
            return added

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
            self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
            self.head = nn.Linear(width, WORDS)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            x = self.words(words) + self.places(torch.arange(words.shape[1]).expand(len(words), -1))
            for layer in self.layers:
                x = layer(x)
            scores: torch.Tensor = self.head(x)
            return scores

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model: nn.Module = Transformer()
    count = sum(each.numel() for each in model.parameters())
    words = torch.randint(0, WORDS, (SIZE, LENGTH))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(words, words), batch_size=BATCH)
    if way == "ferrodp":
        plan = PrivacyPlan(
            population_size=SIZE,
            sampling=FixedSizeSampling(BATCH),
            num_steps=2,
            clipping=FlatClipping(1.0),
            noise=ConstantNoise(1.0),
        )
        model, optimizer, loader = make_private(model, optimizer, loader, plan=plan)
    batches = iter(loader)
    for _ in range(2):
        begin = time.process_time()
        x, y = next(batches)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        optimizer.step()
        used = time.process_time() - begin
    print(json.dumps([count, used]))


def status(process: int, field: str) -> int:
    """Return a size of a process in bytes, 0 if it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), 0)


def available() -> int:
    """Return how much memory the machine has for new processes, in bytes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) * 1024


def main() -> None:
    """Print a line for each width until one does not fit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=20.0)
    parser.add_argument("--widths", type=int, nargs="+", default=[512, 1024, 1536, 2048, 2304, 2560, 2688])
    parser.add_argument("--way", choices=["ferrodp", "no privacy"], default="ferrodp")
    parser.add_argument("--step", type=int)
    asked = parser.parse_args()
    if asked.step:
        step(asked.step, asked.way)
        return
    for width in asked.widths:
        command = [sys.executable, __file__, "--step", str(width), "--way", asked.way]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        peak, why = 0, ""
        while child.poll() is None:
            peak = max(peak, status(child.pid, "VmHWM"))
            if status(child.pid, "VmRSS") > asked.limit * GIB:
                why = f"more than {asked.limit:g} GiB"
            elif available() < 1.5 * GIB:
                why = "the machine has less than 1.5 GiB left"
            if why:
                child.kill()
                break
            time.sleep(0.05)
        said = child.communicate()[0]
        millions = count_of(width) / 1e6
        if why or child.returncode:
            print(f"{millions:7.0f} M  does not fit: {why or child.returncode} (at {peak / GIB:.2f} GiB)", flush=True)
            return
        count, used = json.loads(said.splitlines()[-1])
        assert count == count_of(width), (count, count_of(width))
        print(f"{millions:7.0f} M  {peak / GIB:6.2f} GiB  {peak / count:5.1f} bytes  {used:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
