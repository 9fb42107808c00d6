"""Error of all tables of two columns beside mbi, which measures each table and fits a graphical model to all of them.

    PYTHONPATH=python python benches/statistics/fitted_tables.py [REPETITIONS]

in an environment with mbi 2 and statsmodels, whose table `fair` it takes. Both have ε = 1 and δ = 1e-6, by the curve of
the Gaussian mechanism. mbi's tables have noise for the ten of them together; its model is fitted by a thousand steps of
mirror descent. Errors are root mean squares over the cells of all tables, with one standard error; time is that of the
processor. Models are not negative, so ours is shown with that, too.
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Callable

import jax
import mbi
import numpy as np
from statsmodels.datasets import fair

import ferrodp as fd

EPSILON, DELTA = 1.0, 1e-6
COLUMNS = ("rate_marriage", "age", "yrs_married", "children", "religious")
Tables = dict[tuple[str, ...], np.ndarray]


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    jax.config.update("jax_enable_x64", True)
    rows = fair.load_pandas().data
    public = {name: sorted(rows[name].unique().tolist()) for name in COLUMNS}
    codes = {name: np.searchsorted(public[name], rows[name]) for name in COLUMNS}
    sizes = {name: len(labels) for name, labels in public.items()}
    pairs = list(itertools.combinations(COLUMNS, 2))
    exact = {}
    for one, other in pairs:
        exact[one, other] = np.zeros((sizes[one], sizes[other]))
        np.add.at(exact[one, other], (codes[one], codes[other]), 1.0)

    def ours(*, positive: bool) -> Tables:
        found = fd.private_marginals(codes, 2, categories=listed, epsilon=EPSILON, delta=DELTA)
        shown = found.nonnegative() if positive else found
        return {pair: shown.table(pair) for pair in pairs}

    def fitted() -> Tables:
        length = math.sqrt(len(pairs))
        noise = fd.GaussianMechanism.calibrated(epsilon=EPSILON, delta=DELTA, l2_sensitivity=length)
        deviation = float(noise.noise_multiplier) * length
        measured = [mbi.LinearMeasurement(noise.release(exact[pair].ravel()), pair, deviation) for pair in pairs]
        model = mbi.estimation.MirrorDescent().estimate(mbi.Domain.fromdict(sizes), measured, iters=1000)
        return {pair: np.asarray(model.project(pair).datavector()).reshape(exact[pair].shape) for pair in pairs}

    listed = {name: list(range(size)) for name, size in sizes.items()}
    ways: dict[str, Callable[[], Tables]] = {
        "ours": lambda: ours(positive=False),
        "ours, not negative": lambda: ours(positive=True),
        "mbi": fitted,
    }
    for name, way in ways.items():
        way()
        begun, squares = time.process_time(), []
        for _ in range(repetitions):
            found = way()
            squares.append(np.mean(np.concatenate([((found[pair] - exact[pair]) ** 2).ravel() for pair in pairs])))
        spent = (time.process_time() - begun) / repetitions
        error = math.sqrt(np.mean(squares))
        spread = np.std(squares, ddof=1) / math.sqrt(repetitions) / (2 * error)
        print(f"{name:20} {1e3 * spent:8.1f} ms  {error:7.3f} ± {spread:.3f}")


if __name__ == "__main__":
    main()
