"""Strategies of jax_privacy's optimizers on a grid of steps, participations and separations, as JSON.

    python benches/correlated/jax_grid.py GRID.json

Needs jax_privacy, and nothing of this package; `errors.py` reads what it writes.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax_privacy.matrix_factorization import buffered_toeplitz, toeplitz


def main() -> None:
    """Write the grid."""
    jax.config.update("jax_enable_x64", True)
    rows = []
    for steps in (64, 256, 1024):
        for bands in (4, 16, 64):
            for objective, reduce in (("rms", jnp.mean), ("max", jnp.max)):
                began = time.process_time()
                found = np.asarray(toeplitz.optimize_banded_toeplitz(steps, bands, reduction_fn=reduce))
                row = {"what": "banded", "T": steps, "bands": bands, "coef": (found / found[0]).tolist()}
                rows.append({**row, "objective": objective, "s": time.process_time() - began})
        for count, apart in ((1, 1), (4, steps // 8), (8, steps // 8), (4, steps // 4)):
            for objective, error in (("rms", "mean"), ("max", "max")):
                began = time.process_time()
                blt = buffered_toeplitz.optimize(
                    n=steps, min_sep=apart, max_participations=count, error=error, min_buffers=3, max_buffers=3
                )
                row = {"what": "blt", "T": steps, "k": count, "b": apart, "objective": objective}
                row |= {"theta": np.asarray(blt.buf_decay).tolist(), "omega": np.asarray(blt.output_scale).tolist()}
                rows.append({**row, "s": time.process_time() - began})
    Path(sys.argv[1]).write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
