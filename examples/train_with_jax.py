"""Train a network on digits in JAX: per-example gradients, an optax optimizer, exact noise, ε after every tenth step.

Private unit: one labeled image, added or removed.
Guarantee: (2, 1e-5) for the final weights and all weights on the way; the plan is calibrated to it.
"""

import numpy as np

from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling, PrivacyPlan

try:
    import jax.numpy as jnp
    import optax
    from sklearn.datasets import load_digits
except ImportError:
    raise SystemExit('This example needs jax and scikit-learn: pip install "ferrodp[jax]" scikit-learn') from None

from ferrodp.integrations.jax import ExampleGradients, JaxRun

DELTA = 1e-5

images, labels = load_digits(return_X_y=True)
images, labels = (images / 16).astype(np.float32), labels.astype(np.int32)
rng = np.random.default_rng(0)
train, test = np.split(rng.permutation(len(images)), [1437])


def logits(params, x):
    """Return the scores of the ten digits."""
    return jnp.tanh(x @ params["kernel"] + params["bias"]) @ params["out"]


def loss(params, x, y):
    """Return the loss of one image."""
    return optax.softmax_cross_entropy_with_integer_labels(logits(params, x), y)


plan = PrivacyPlan(
    population_size=len(train),
    sampling=PoissonSampling(0.5),
    num_steps=40,
    clipping=FlatClipping(0.5),
    noise=ConstantNoise(1.0),
).calibrated(epsilon=2.0, delta=DELTA)
kernel = rng.standard_normal((64, 32)).astype(np.float32) / 8
params = {"kernel": jnp.asarray(kernel), "bias": jnp.zeros(32), "out": jnp.zeros((32, 10))}
optimizer = optax.sgd(1.0, momentum=0.9)
state = optimizer.init(params)
gradients = ExampleGradients(loss, num_rows=256)
run = JaxRun(plan, params)
for step in run:
    gradients.add_to(step, params, images[train], labels[train])
    updates, state = optimizer.update(step.release(), state, params)
    params = optax.apply_updates(params, updates)
    if run.step_number % 10 == 0:
        print(f"step {run.step_number}: ε ≤ {run.epsilon(DELTA):.6f}, planned {plan.epsilon(DELTA):.6f}")

answers = jnp.argmax(logits(params, images[test]), axis=1)
print(f"accuracy on 360 other images {np.mean(answers == labels[test]):.2f}")
