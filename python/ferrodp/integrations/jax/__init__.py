"""Private training in JAX and optax: a plan's steps on the host, or inside compiled code.

`JaxRun`
    A run of a plan over jax arrays. Iterate it and use `JaxStep.add` and `JaxStep.release` between compiled steps, or
    put `JaxRun.aggregation` first in ``optax.chain``: it calls back to the host from inside jit, once and in order.
`ExampleGradients`, `per_example_gradients`
    Gradients of single examples: compiled once for batches of every size; or to be used inside jit.
`pad_rows`, `batch_rows`
    Batches of a random size, padded to a fixed one, and which size is enough.
`clipped_sum`
    Clipping inside jit, for `JaxRun.noise`.

Events of dp_accounting and jax_privacy are read by `ferrodp.accounting.from_dp_accounting` and
`ferrodp.accounting.reports.from_jax_privacy`, and written by `ferrodp.accounting.to_dp_accounting`.

Needs jax and optax: ``pip install "ferrodp[jax]"``.
"""

from ferrodp._base import _public
from ferrodp.integrations.jax.gradients import ExampleGradients, clipped_sum, per_example_gradients
from ferrodp.integrations.jax.rows import batch_rows, pad_rows
from ferrodp.integrations.jax.run import JaxRun
from ferrodp.integrations.jax.step import JaxStep

__all__ = [
    "ExampleGradients",
    "JaxRun",
    "JaxStep",
    "batch_rows",
    "clipped_sum",
    "pad_rows",
    "per_example_gradients",
]

_public.install_in(__name__)
