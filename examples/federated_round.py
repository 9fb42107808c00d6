"""One round of federated averaging from files: clip each client's update, sum, add noise, write the new model.

Private unit: one client (one file), added or removed.
Guarantee: (ε, δ) with δ = 1e-5 and the ε that is printed. The number of clients is not protected.
"""

from pathlib import Path

import numpy as np

import ferrodp as fd

CLIP_NORM = 1.0
NOISE_MULTIPLIER = 1.1
EXPECTED_CLIENTS = 50  # public; dividing by the number that came would release it

folder = Path("updates")
folder.mkdir()
rng = np.random.default_rng(0)
for client in range(EXPECTED_CLIENTS):  # stands for what clients send
    np.savez(folder / f"{client}.npz", weights=rng.normal(0.01, 0.02, (64, 10)), bias=rng.normal(0.01, 0.02, 10))

model = {"weights": np.zeros((64, 10), np.float32), "bias": np.zeros(10, np.float32)}

total = fd.ClippedSum(model, clip_norm=CLIP_NORM)  # the model is the template: names, shapes and dtypes
for path in sorted(folder.glob("*.npz")):
    with np.load(path) as update:
        total.add({name: update[name].astype(np.float32) for name in model})

mean = total.release(noise_multiplier=NOISE_MULTIPLIER, denominator=EXPECTED_CLIENTS)
model = {name: model[name] + mean[name] for name in model}
np.savez("model.npz", **model)

accountant = fd.accounting.GdpAccountant()
accountant.compose(total.event)
print(f"{total.count} clients, all arrays of one update clipped to L2 norm {CLIP_NORM} together")
print(f"ε = {accountant.epsilon(delta=1e-5):.3f} at δ = 1e-5")
