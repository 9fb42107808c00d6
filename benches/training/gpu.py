"""Private steps of PyTorch on a GPU: their time, their memory, and how far their sums are from slow ones of the CPU.

    python benches/training/gpu.py [--steps 20] [--small]        # where PyTorch sees a GPU, by CUDA or ROCm

Without a GPU it says so, and makes a dry run of the same code on the CPU in small sizes: no time of a GPU is printed.

For the network and the transformer of `ghost_steps`, in batches of 64: milliseconds a step with and without privacy, in
turns, the device waited for; the most memory that the allocator of the device held; and how far the sum of clipped
gradients is from one that a loop over the examples forms on the CPU in float64, in clip norms, beside the error that is
taken off the clip norm. TensorFloat-32 is measured as PyTorch is set.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import ghost_steps
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from ferrodp.integrations.torch import make_private
from ferrodp.integrations.torch._bound import Bound
from ferrodp.plan import ConstantNoise, FixedSizeSampling, FlatClipping, FullBatch, PrivacyPlan

LEAST_NOISE = 2.0**-25


def device_at_hand() -> torch.device:
    """Return the GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def waited(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def network(name: str, *, is_small: bool) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return a network and data, perhaps much smaller ones."""
    if not is_small:
        return ghost_steps.made(name)
    torch.manual_seed(0)
    size = ghost_steps.BATCH
    if name == "MLP":
        layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
        return layers, torch.randn(size, 16), torch.randint(0, 10, (size,))
    words = torch.randint(0, 50, (size, 6))

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.norm, self.head = nn.Embedding(50, 8), nn.LayerNorm(8), nn.Linear(8, 50)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = self.head(self.norm(self.words(words)))
            return scores

    return Small(), words, words


def loss_of(model: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the mean cross entropy over examples, and over words if they have some."""
    return nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten())


def plan_of(size: int, batch: int, steps: int, noise: float) -> PrivacyPlan:
    """Return a plan of batches of one size."""
    return PrivacyPlan(
        population_size=size,
        sampling=FullBatch() if batch == size else FixedSizeSampling(batch),
        num_steps=steps,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(noise),
    )


def measure(name: str, device: torch.device, steps: int, *, is_small: bool) -> None:
    """Print times and memory of steps, with and without privacy."""
    model, x, y = network(name, is_small=is_small)
    plain, _, _ = network(name, is_small=is_small)
    model, plain = model.to(device), plain.to(device)
    data = TensorDataset(x, y)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.01) for each in (model, plain)]
    loader = DataLoader(data, batch_size=ghost_steps.BATCH)
    plan = plan_of(len(x), ghost_steps.BATCH, steps + 2, 1.0)
    model, optimizer, private = make_private(model, optimizers[0], loader, plan=plan)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: list[torch.Tensor]) -> None:
        optimizer.zero_grad()
        loss_of(model, *(each.to(device) for each in batch)).backward()
        optimizer.step()

    spent: dict[str, list[float]] = {"ferrodp": [], "no privacy": []}
    most: dict[str, float] = {}
    usual = next(iter(loader))
    while optimizer.private.stopped is None:
        for batch in private:
            for way, trained in (("ferrodp", (model, optimizer, batch)), ("no privacy", (plain, optimizers[1], usual))):
                waited(device)
                if device.type == "cuda":
                    torch.cuda.reset_peak_memory_stats(device)
                begin = time.perf_counter()
                step(*trained)
                waited(device)
                spent[way].append(1e3 * (time.perf_counter() - begin))
                if device.type == "cuda":
                    most[way] = torch.cuda.max_memory_allocated(device) / 2**20
    for way, times in spent.items():
        if device.type == "cuda":
            print(f"{name:12} {way:11} {statistics.median(times[2:]):9.2f} ms, at most {most[way]:8.0f} MiB")
        else:
            print(f"{name:12} {way:11} {len(times)} steps ran on {device}")


def exactness(name: str, device: torch.device, *, is_small: bool) -> None:
    """Print how far a sum of clipped gradients on the device is from a slow one on the CPU, in clip norms."""
    model, x, y = network(name, is_small=is_small)
    x, y = x[:16], y[:16]
    bound = Bound.of(len(x))
    target = bound.target(1.0)
    total = {each: torch.zeros_like(value, dtype=torch.float64) for each, value in model.named_parameters()}
    for i in range(len(x)):
        model.zero_grad()
        loss_of(model, x[i : i + 1], y[i : i + 1]).backward()
        found = {each: value.grad.double() for each, value in model.named_parameters() if value.grad is not None}
        length = torch.sqrt(sum(each.square().sum() for each in found.values()))
        for each, gradient in found.items():
            total[each] += gradient * min(1.0, target / float(length))
    model.zero_grad()
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    loader = DataLoader(TensorDataset(x, y), batch_size=len(x))
    plan = plan_of(len(x), len(x), 1, LEAST_NOISE)
    model, optimizer, private = make_private(model, optimizer, loader, plan=plan)
    batch = next(iter(private))
    loss_of(model, *(each.to(device) for each in batch)).backward()
    found_sum = optimizer.private._sum.finish().cpu()
    apart = float(torch.linalg.vector_norm(found_sum - torch.cat([each.flatten() for each in total.values()])))
    optimizer.private.close()
    print(
        f"{name:12} the sum of {len(x)} is {apart:.1e} clip norms from the slow one (gradients in float32 of each), "
        f"and {bound.residue:.1e} are taken off for its own error"
    )


def main() -> None:
    """Measure on the GPU, or run through the same code on the CPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--small", action="store_true", help="small sizes on a GPU, too")
    asked = parser.parse_args()
    device = device_at_hand()
    is_small = asked.small or device.type != "cuda"
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        print(f"{name}, torch {torch.__version__}, TF32 {torch.backends.cuda.matmul.allow_tf32}")
    else:
        print(f"no GPU: a dry run on the CPU, torch {torch.__version__}; nothing here is a time of a GPU")
    for name in ("MLP", "transformer"):
        measure(name, device, 4 if device.type != "cuda" else asked.steps, is_small=is_small)
        exactness(name, device, is_small=is_small)


if __name__ == "__main__":
    main()
