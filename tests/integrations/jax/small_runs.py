"""Plans, models and batches that the tests of this folder share."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ferrodp.integrations.jax import per_example_gradients
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PoissonSampling, PrivacyPlan


def plan(num_steps=3, population=40, **changes):
    """Return a small plan: Poisson samples of half of the examples."""
    parts = {
        "population_size": population,
        "sampling": PoissonSampling(0.5),
        "num_steps": num_steps,
        "clipping": FlatClipping(1.0),
        "noise": ConstantNoise(2.0),
    }
    return PrivacyPlan(**parts | changes)


def full_batches(num_steps=3, population=40, **changes):
    """Return a plan in which all examples take part in every step."""
    return plan(num_steps, population, sampling=FullBatch(), **changes)


def loss(params, x, y):
    hidden = jnp.tanh(x @ params["first"]["kernel"] + params["first"]["bias"])
    return optax.softmax_cross_entropy_with_integer_labels(hidden @ params["second"], y)


gradients = per_example_gradients(loss)


def model(dtype=jnp.float32):
    rng = np.random.default_rng(1)
    shapes = {"first": {"kernel": (5, 4), "bias": (4,)}, "second": (4, 3)}

    def drawn(shape):
        return jnp.asarray(rng.standard_normal(shape), dtype)

    return jax.tree.map(drawn, shapes, is_leaf=lambda each: isinstance(each, tuple))


def examples(population=40):
    rng = np.random.default_rng(2)
    return rng.standard_normal((population, 5)).astype(np.float32), rng.integers(0, 3, population).astype(np.int32)


def zero_gradients(params, rows):
    return jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype), params)


def standardized(released, of):
    """Return the noise of a step without gradients, in standard deviations, as one vector."""
    flat = np.concatenate([np.ravel(leaf).astype(np.float64) for leaf in jax.tree.leaves(released)])
    return flat * of.expected_batch_size / of.noise_multipliers[0]


def correlation(first, second):
    """Return the correlation of two standard normal samples in units of its standard deviation if independent."""
    return float(first @ second) / math.sqrt(len(first))
