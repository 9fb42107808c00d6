"""Mistakes of those who train with jax, and what they are told."""

import jax.numpy as jnp
import numpy as np
import pytest

import ferrodp as fd
from ferrodp.integrations.jax import JaxRun, pad_rows, per_example_gradients
from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling
from support.mistakes import Mistake, Reason, objections

PLAN = fd.PrivacyPlan(
    population_size=20,
    sampling=PoissonSampling(1.0),
    num_steps=2,
    clipping=FlatClipping(1.0),
    noise=ConstantNoise(1.0),
)
PARAMS = {"w": jnp.zeros((4, 2))}

MISTAKES = [
    Mistake(
        "a number for a plan",
        lambda c: JaxRun(1.0, PARAMS),
        "plan",
        "got float",
        "a PrivacyPlan",
        "as in JaxRun(plan, params)",
    ),
    Mistake(
        "plan and parameters exchanged",
        lambda c: JaxRun(PARAMS, PLAN),
        "plan",
        "got dict",
        "a PrivacyPlan",
        "as in JaxRun(plan, params)",
    ),
    Mistake(
        "no parameters",
        lambda c: JaxRun(PLAN, None),
        "params",
        "got NoneType without one",
        "at least one array",
        "for example params={'w': jnp.zeros((4, 2))}",
    ),
    Mistake(
        "parameters of integers",
        lambda c: JaxRun(PLAN, {"w": jnp.zeros(3, jnp.int32)}),
        "params['w'] must",
        "got int32",
        "an array of real numbers",
        "convert it with .astype(jnp.float32)",
    ),
    Mistake(
        "a path for a ledger",
        lambda c: JaxRun(PLAN, PARAMS, ledger="b.db", scope="a"),
        "ledger",
        "got str",
        "an open PrivacyLedger",
        "PrivacyLedger.open('b.db')",
    ),
    Mistake(
        "a misspelt keyword of a class",
        lambda c: JaxRun(PLAN, PARAMS, legder=None),
        "'legder'",
        Reason.NOT_LOOKED_AT,
        "it takes plan, params, ledger",
        "did you mean 'ledger'",
    ),
    Mistake(
        "a number for a loss",
        lambda c: per_example_gradients(5),
        "loss",
        "got int",
        "a function loss(params, *example)",
        "for example lambda params, x, y: (x @ params - y) ** 2",
    ),
    Mistake(
        "a plan without a population",
        lambda c: pad_rows(None, 4),
        "indices",
        "got None",
        "rows",
        "write population_size=... in the plan",
    ),
    Mistake(
        "too few rows",
        lambda c: pad_rows([1, 2, 3], 2),
        "num_rows",
        "got 2",
        "at least the number of rows drawn",
        "batch_rows(plan) is enough",
    ),
    Mistake(
        "rows that are no integers",
        lambda c: pad_rows([0.5], 2),
        "indices",
        "got 1 dimensions of float64",
        "one-dimensional, of integers below 2^31",
        "pass step.indices",
    ),
    Mistake(
        "gradients without rows",
        lambda c: next(iter(JaxRun(PLAN, PARAMS))).add({"w": np.zeros((4, 2))}),
        "gradients['w'] must",
        "got (4, 2)",
        "shape (rows, 4, 2)",
        "jax.vmap of jax.grad puts rows in front",
    ),
    Mistake(
        "gradients of other names",
        lambda c: next(iter(JaxRun(PLAN, PARAMS))).add({"v": np.zeros((1, 4, 2))}),
        "gradients",
        "got PyTreeDef({'v': *})",
        "the tree structure of the parameters",
        "jax.grad returns it",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name)
def test_a_mistake_with_jax_is_told_in_four_parts(mistake):
    assert objections(mistake) == []
