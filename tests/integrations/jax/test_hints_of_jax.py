"""Each way out that a message of `integrations.jax` names is taken, and no place with one is without a row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from small_runs import full_batches, plan

from ferrodp.integrations.jax import ExampleGradients, JaxRun, batch_rows, pad_rows, per_example_gradients
from support.hints import Hint, assert_all_lead_out, identifiers, lead_out

SIZE = 40
PARAMS = {"w": jnp.zeros((4, 2))}
ROWS = np.ones((SIZE, 4, 2), np.float32)


def squared(params, x, y):
    return ((x @ params["w"] - y) ** 2).sum()


def stepped(*parts):
    """Release a step of these parts of gradients."""
    step = next(JaxRun(full_batches(population=SIZE), PARAMS))
    for part in parts:
        step.add({"w": part})
    return step.release()


def sharded():
    return jax.device_put(ROWS, NamedSharding(Mesh(np.array(jax.devices()), ("batch",)), PartitionSpec("batch")))


def of_groups():
    return next(JaxRun(plan(population=SIZE, records_per_group=2), PARAMS))


def by_loss(step):
    ExampleGradients(squared, num_rows=SIZE).add_to(step, PARAMS, np.ones((SIZE, 4)), np.ones((SIZE, 2)))


def by_hand(step):
    step.add({"w": jnp.zeros((len(step.groups), 4, 2))})
    step.release()


def updated(run, mask=None):
    return run.aggregation().update({"w": jnp.asarray(ROWS)}, None, mask=mask)


def sampled():
    """Draw and update in one compiled function."""
    run = JaxRun(plan(population=SIZE), PARAMS)

    def one():
        _, mask = run.sample(SIZE)
        return updated(run, mask)[0]

    return run.jit(one)()


def undrawn():
    run = JaxRun(plan(population=SIZE), PARAMS)
    return run.jit(lambda: updated(run)[0])()


def iterated():
    run = JaxRun(plan(population=SIZE), PARAMS)
    step = next(run)
    return updated(run, pad_rows(step.indices, SIZE)[1])


HINTS = [
    Hint(
        "add each of its addressable_shards, or collect it with jax.device_get",
        lambda c: stepped(sharded()),
        lambda c: (
            stepped(*(shard.data for shard in sharded().addressable_shards)),
            stepped(jax.device_get(sharded())),
        ),
    ),
    Hint(
        "for example params={'w': jnp.zeros((4, 2))}",
        lambda c: JaxRun(plan(), {}),
        lambda c: JaxRun(plan(), params={"w": jnp.zeros((4, 2))}),
    ),
    Hint(
        "convert it with .astype(jnp.float32)",
        lambda c: JaxRun(plan(), {"w": jnp.zeros(3, jnp.int32)}),
        lambda c: JaxRun(plan(), {"w": jnp.zeros(3, jnp.int32).astype(jnp.float32)}),
    ),
    Hint(
        "for example lambda params, x, y: (x @ params - y) ** 2",
        lambda c: per_example_gradients(5),
        lambda c: per_example_gradients(lambda params, x, y: (x @ params - y) ** 2)(
            jnp.zeros(4), jnp.ones((SIZE, 4)), jnp.ones(SIZE)
        ),
    ),
    Hint("not groups of them: use JaxStep.add", lambda c: by_loss(of_groups()), lambda c: by_hand(of_groups())),
    Hint(
        "write population_size=... in the plan",
        lambda c: pad_rows(None, SIZE),
        lambda c: pad_rows(next(JaxRun(plan(population_size=SIZE), PARAMS)).indices, SIZE),
    ),
    Hint(
        "pass step.indices",
        lambda c: pad_rows([0.5], SIZE),
        lambda c: pad_rows(next(JaxRun(plan(population=SIZE), PARAMS)).indices, SIZE),
    ),
    Hint(
        "choose num_rows yourself",
        lambda c: batch_rows(plan(population=None)),
        lambda c: pad_rows([3, 17], num_rows=4),
    ),
    Hint("as in JaxRun(plan, params)", lambda c: JaxRun(PARAMS, plan()), lambda c: JaxRun(plan(), PARAMS)),
    Hint(
        "no step is open: none was drawn; draw the next by iterating, or with JaxRun.sample",
        lambda c: undrawn(),
        lambda c: (iterated(), sampled()),
    ),
]
ELSEWHERE = {
    ("integrations/jax/_library.py", "must lie on the CPU"): "on another device; jax.device_get is taken above"
}
"""Places without a row here: file, words of the text, and where the way out is taken."""


@pytest.mark.parametrize("hint", HINTS, ids=identifiers(HINTS))
def test_a_way_out_of_jax_leads_out(hint):
    lead_out(hint)


def test_no_way_out_of_jax_is_without_a_test():
    assert_all_lead_out("jax", HINTS, ELSEWHERE)
