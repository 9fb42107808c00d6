"""Mistakes of those who train with jax, and what they are told."""

import jax.numpy as jnp
import numpy as np
import pytest

import ferrodp as fd
from ferrodp.errors import FerroError
from ferrodp.integrations.jax import JaxRun, pad_rows, per_example_gradients
from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling

PLAN = fd.PrivacyPlan(
    population_size=20,
    sampling=PoissonSampling(1.0),
    num_steps=2,
    clipping=FlatClipping(1.0),
    noise=ConstantNoise(1.0),
)
PARAMS = {"w": jnp.zeros((4, 2))}


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda: JaxRun(1.0, PARAMS), ("plan must be a PrivacyPlan, got float", "JaxRun(plan, params)")),
        (lambda: JaxRun(PARAMS, PLAN), ("plan must be a PrivacyPlan, got dict", "JaxRun(plan, params)")),
        (lambda: JaxRun(PLAN, None), ("params must hold at least one array",)),
        (
            lambda: JaxRun(PLAN, {"w": jnp.zeros(3, jnp.int32)}),
            ("params['w'] must be an array of real", "int32"),
        ),
        (
            lambda: JaxRun(PLAN, PARAMS, ledger="b.db", scope="a"),
            ("ledger must be an open PrivacyLedger, got str", "PrivacyLedger.open('b.db')"),
        ),
        (lambda: per_example_gradients(5), ("loss must be a function loss(params, *example), got int",)),
        (lambda: pad_rows(None, 4), ("indices must be rows, got None", "population_size")),
        (lambda: pad_rows([1, 2, 3], 2), ("num_rows must be at least the number of rows drawn, got 2", "batch_rows")),
        (lambda: pad_rows([0.5], 2), ("indices must be one-dimensional, of integers",)),
        (
            lambda: next(iter(JaxRun(PLAN, PARAMS))).add({"w": np.zeros((4, 2))}),
            ("gradients['w'] must have shape (rows, 4, 2), got (4, 2)",),
        ),
        (
            lambda: next(iter(JaxRun(PLAN, PARAMS))).add({"v": np.zeros((1, 4, 2))}),
            ("gradients must have the tree structure of the parameters", "'v'"),
        ),
    ],
)
def test_a_mistake_with_jax_is_told_with_what_is_allowed(mistake, words):
    with pytest.raises((FerroError, ValueError, TypeError)) as caught:
        mistake()

    assert [word for word in words if word not in str(caught.value)] == [], caught.value
