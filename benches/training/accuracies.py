"""Accuracy of private trainings of one network at several ε, beside Opacus' hooks and its ghost mode.

    OMP_NUM_THREADS=1 .venv-frameworks/opacus/bin/python benches/training/accuracies.py [--runs 5] [--steps 100]

Handwritten digits of scikit-learn, 1437 of 1797 to train on: a network of one hidden layer, Adam. All three draw
Poisson samples, clip to the same norm and have δ = 1e-5; each calibrates its noise by its own accountant. Runs differ
in their weights, samples and noise; the same seeds of weights for all.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings

import torch
from opacus import PrivacyEngine
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from ferrodp.integrations.torch import make_private
from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling, PrivacyPlan

DELTA, SIZE, PROBABILITY, CLIP_NORM, RATE = 1e-5, 1437, 0.2, 1.0, 0.01
BATCH = 288  # of which an epoch has five, so that Opacus takes the same sampling probability
IMAGES, DIGITS = load_digits(return_X_y=True)
X, Y = torch.tensor(IMAGES / 16, dtype=torch.float32), torch.tensor(DIGITS)


def begun(run: int) -> tuple[nn.Module, torch.optim.Optimizer, DataLoader]:
    """Return a network, its optimizer and the data."""
    torch.manual_seed(run)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    data = TensorDataset(X[:SIZE], Y[:SIZE])
    return model, torch.optim.Adam(model.parameters(), lr=RATE), DataLoader(data, batch_size=BATCH)


def accuracy(model: nn.Module) -> float:
    """Return the accuracy on the images that were not trained on."""
    model.eval()
    with torch.no_grad():
        return 100.0 * (model(X[SIZE:]).argmax(1) == Y[SIZE:]).float().mean().item()


def ours(epsilon: float, steps: int, run: int) -> tuple[float, float]:
    """Train with `make_private`; return the accuracy and the noise multiplier."""
    plan = PrivacyPlan(
        population_size=SIZE,
        sampling=PoissonSampling(PROBABILITY),
        num_steps=steps,
        clipping=FlatClipping(CLIP_NORM),
        noise=ConstantNoise(1.0),
    ).calibrated(epsilon=epsilon, delta=DELTA)
    model, optimizer, loader = make_private(*begun(run), plan=plan)
    while optimizer.private.stopped is None:
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    optimizer.private.close()
    return accuracy(model), plan.noise.at(0, steps)


def opacus(epsilon: float, steps: int, run: int, mode: str) -> tuple[float, float]:
    """Train with Opacus in one of its modes; return the accuracy and the noise multiplier."""
    model, optimizer, loader = begun(run)
    criterion = nn.CrossEntropyLoss()
    options = {"criterion": criterion, "grad_sample_mode": "ghost"} if mode == "ghost" else {}
    epochs = round(steps * PROBABILITY)
    found = PrivacyEngine(accountant="prv").make_private_with_epsilon(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        target_epsilon=epsilon,
        target_delta=DELTA,
        epochs=epochs,
        max_grad_norm=CLIP_NORM,
        **options,
    )
    if mode == "ghost":
        model, optimizer, criterion, loader = found
    else:
        model, optimizer, loader = found
    done = 0
    while done < steps:
        for x, y in loader:
            if done == steps:
                break
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
            done += 1
    return accuracy(model), optimizer.noise_multiplier


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    ways = {
        "ferrodp": ours,
        "opacus hooks": lambda *rest: opacus(*rest, "hooks"),
        "opacus ghost": lambda *rest: opacus(*rest, "ghost"),
    }
    for epsilon in (1.0, 2.0, 4.0, 8.0):
        for name, train in ways.items():
            begin = time.process_time()
            found = [train(epsilon, asked.steps, run) for run in range(asked.runs)]
            each = [right for right, _ in found]
            used = 1000.0 * (time.process_time() - begin) / (asked.runs * asked.steps)
            print(
                f"ε = {epsilon:g}  {name:13} {statistics.mean(each):5.1f} % ({min(each):.1f} to {max(each):.1f}), "
                f"noise multiplier {found[0][1]:.3f}, {used:.1f} ms a step",
                flush=True,
            )


if __name__ == "__main__":
    main()
