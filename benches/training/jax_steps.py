"""Time of a private step in JAX: without noise, with JAX's own, and with this package inside jit and on the host.

    OMP_NUM_THREADS=1 python benches/training/jax_steps.py [WIDTH [STEPS]]

A network of two hidden layers on the digits, Poisson batches of 64 on average. The ways take turns step by step, so
that what else the machine does hits all of them. Needs jax, optax and scikit-learn.
"""

import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

from ferrodp.integrations.jax import ExampleGradients, JaxRun, batch_rows, clipped_sum, pad_rows, per_example_gradients
from ferrodp.plan import ConstantNoise, FlatClipping, PlanStep, PoissonSampling, PrivacyPlan

WIDTH = int(sys.argv[1]) if len(sys.argv) > 1 else 128
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 60
IMAGES, LABELS = load_digits(return_X_y=True)
X, Y = (IMAGES / 16).astype(np.float32), LABELS.astype(np.int32)
PLAN = PrivacyPlan(
    population_size=len(X),
    sampling=PoissonSampling(64 / len(X)),
    num_steps=STEPS,
    clipping=FlatClipping(1.0),
    noise=ConstantNoise(1.0),
)
ROWS = batch_rows(PLAN)


def start():
    rng = np.random.default_rng(0)
    sizes = [(64, WIDTH), (WIDTH, WIDTH), (WIDTH, 10)]
    return [
        (jnp.asarray(rng.standard_normal(size) * (2 / size[0]) ** 0.5, jnp.float32), jnp.zeros(size[1]))
        for size in sizes
    ]


def loss(params, x, y):
    for kernel, bias in params[:-1]:
        x = jax.nn.relu(x @ kernel + bias)
    return optax.softmax_cross_entropy_with_integer_labels(x @ params[-1][0] + params[-1][1], y)


def normals():
    """Return a transformation that adds normal numbers of jax.random."""

    def update(total, key, params=None):
        key, used = jax.random.split(key)
        leaves, tree = jax.tree.flatten(total)
        keys = jax.random.split(used, len(leaves))
        noised = [leaf + jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
        return jax.tree.unflatten(tree, noised), key

    return optax.GradientTransformation(lambda params: jax.random.key(0), update)


def way(name):
    """Return a function that makes one step and waits for it."""
    run, params = JaxRun(PLAN, start()), start()
    private = {"noise": run.noise, "aggregation": run.aggregation, "jax.random": normals}.get(name, optax.identity)()
    size = PLAN.expected_batch_size
    scale = optax.scale(1.0 if name in ("noise", "aggregation", "host") else 1.0 / size)
    optimizer = optax.chain(private, scale, optax.sgd(0.1))
    state = optimizer.init(params)
    computed = ExampleGradients(loss, num_rows=ROWS)
    gradients = per_example_gradients(loss)

    @jax.jit
    def compiled(params, state, x, y, mask):
        given = gradients(params, x, y)
        if name == "aggregation":
            updates, state = optimizer.update(given, state, params, mask=mask)
        else:
            updates, state = optimizer.update(clipped_sum(given, 1.0, mask=mask), state, params)
        return optax.apply_updates(params, updates), state

    @jax.jit
    def moved(params, state, gradient):
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state

    def step():
        nonlocal params, state
        drawn = next(run) if name in ("noise", "aggregation", "host") else None
        if name == "host":
            computed.add_to(drawn, params, X, Y)
            params, state = moved(params, state, drawn.release())
        else:
            indices = np.flatnonzero(np.random.random(len(X)) < 64 / len(X)) if drawn is None else drawn.indices
            rows, mask = pad_rows(indices, ROWS)
            params, state = compiled(params, state, X[rows], Y[rows], mask)
        jax.block_until_ready(params)

    return step


def timed(times, name, function):
    """Return a function that notes how long it takes."""

    def called(*args, **kwargs):
        begin = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            times.setdefault(name, []).append(1e3 * (time.perf_counter() - begin))

    return called


def main():
    """Print the median and the least milliseconds of a step, and of the host's part in it."""
    inside = {}
    for name in ("add", "release", "release_sum"):
        setattr(PlanStep, name, timed(inside, name, getattr(PlanStep, name)))
    ways = {name: way(name) for name in ("without noise", "jax.random", "noise", "aggregation", "host")}
    times = {}
    for _ in range(STEPS):
        for name, step in ways.items():
            timed(times, name, step)()
    size = sum(leaf.size for leaf in jax.tree.leaves(start()))
    print(f"{size} parameters, batches of 64 padded to {ROWS}, {STEPS} steps; milliseconds, median and least")
    for name, found in {**times, **inside}.items():
        kept = found[3:]
        print(f"{name:14} {statistics.median(kept):8.2f} {min(kept):8.2f}")


main()
