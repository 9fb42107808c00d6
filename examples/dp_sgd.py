"""Train a logistic regression by DP-SGD, in numpy: Poisson samples, clipped gradients, exact noise, certified ε.

Private unit: one labeled example, added or removed.
Guarantee: (3, 1e-5) for the final weights and all weights on the way; the noise is calibrated to it.
"""

import numpy as np

import ferrodp as fd
from ferrodp.accounting import GaussianEvent, PldAccountant, PoissonSampledEvent, calibrate_noise_multiplier
from ferrodp.engine import poisson_sample

EXAMPLES, FEATURES, STEPS = 4_000, 20, 300
SAMPLING_PROBABILITY, CLIP_NORM, LEARNING_RATE = 0.05, 1.0, 0.5
EPSILON, DELTA = 3.0, 1e-5

rng = np.random.default_rng(0)
truth = rng.standard_normal(FEATURES)
features = rng.standard_normal((EXAMPLES, FEATURES)).astype(np.float32)
labels = (features @ truth > 0).astype(np.float32)

noise_multiplier = calibrate_noise_multiplier(
    target_epsilon=EPSILON, target_delta=DELTA, sampling_probability=SAMPLING_PROBABILITY, count=STEPS
)

weights = np.zeros(FEATURES, np.float32)
for _ in range(STEPS):
    batch = poisson_sample(EXAMPLES, SAMPLING_PROBABILITY)  # each example joins independently
    errors = 1 / (1 + np.exp(-features[batch] @ weights)) - labels[batch]
    gradients = errors[:, None] * features[batch]  # one row per example
    total = fd.clip_and_sum(gradients, clip_norm=CLIP_NORM)
    # Divided by the expected batch size: the size of the batch drawn is private.
    weights -= LEARNING_RATE * total.release(
        noise_multiplier=noise_multiplier, denominator=EXAMPLES * SAMPLING_PROBABILITY
    )

step = PoissonSampledEvent(
    sampling_probability=SAMPLING_PROBABILITY, event=GaussianEvent(noise_multiplier=noise_multiplier)
)
accountant = PldAccountant()
accountant.compose(step, count=STEPS)
print(f"noise multiplier {noise_multiplier:.3f}, ε ≤ {accountant.epsilon(DELTA):.6f} at δ = {DELTA}")
print(f"accuracy on the training data {np.mean((features @ weights > 0) == labels):.3f} (itself not private)")
