"""Digits over 100 clients, 30 rounds, ε ≤ 8 for each client: what private strategies reach."""

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedYogi
from sklearn.datasets import load_digits

from ferrodp.integrations.flower import PrivateStrategy
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan

CLIENTS, ROUNDS, DELTA = 100, 30, 1e-5
STRATEGIES = {
    "FedAvg": (lambda: FedAvg(fraction_evaluate=0.0), 0.90),
    "FedAvgM": (lambda: FedAvgM(fraction_evaluate=0.0, server_learning_rate=0.5, server_momentum=0.7), 0.90),
    "FedAdam": (lambda: FedAdam(fraction_evaluate=0.0, eta=0.05, tau=0.1, beta_2=0.9), 0.85),
    "FedYogi": (lambda: FedYogi(fraction_evaluate=0.0, eta=0.05, tau=0.1, beta_2=0.9), 0.85),
    "FedAdagrad": (lambda: FedAdagrad(fraction_evaluate=0.0, eta=0.1, tau=0.1), 0.85),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_private_strategies_learn_the_digits(grid, model, make_client, name):
    inner, least = STRATEGIES[name]
    images, labels = load_digits(return_X_y=True)
    images, targets = (images / 16).astype(np.float32), np.eye(10, dtype=np.float32)[labels]
    plan = PrivacyPlan(
        unit="client",
        population_size=CLIENTS,
        sampling=FullBatch(),
        num_steps=ROUNDS,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(1.0),
    ).calibrated(epsilon=8.0, delta=DELTA)

    def local(part):
        def update(arrays, _):
            w, b = arrays["w"].copy(), arrays["b"].copy()
            for _ in range(5):
                scores = np.exp(part[0] @ w + b - (part[0] @ w + b).max(axis=1, keepdims=True))
                error = (scores / scores.sum(axis=1, keepdims=True) - part[1]) / len(part[0])
                w -= 0.5 * part[0].T @ error
                b -= 0.5 * error.sum(axis=0)
            return {"w": w, "b": b}

        return update

    accuracies = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(images))
        train, test = order[:1437], order[1437:]
        parts = [train[i::CLIENTS] for i in range(CLIENTS)]
        apps = {i + 1: make_client(local((images[part], targets[part]))) for i, part in enumerate(parts)}
        strategy = PrivateStrategy(inner(), plan=plan, wait=0)
        start = model(w=np.zeros((64, 10), np.float32), b=np.zeros(10, np.float32))
        result = strategy.start(grid(apps), start)
        w, b = (result.arrays[key].numpy() for key in ("w", "b"))
        accuracies.append(np.mean((images[test] @ w + b).argmax(axis=1) == labels[test]))
        assert strategy.epsilon <= 8.0

    assert np.mean(accuracies) >= least
