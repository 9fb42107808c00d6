"""Error of `private_marginals` beside the least of all linear Gaussian mechanisms, with its time and memory.

    PYTHONPATH=python python benches/statistics/marginals.py

The shape is that of Adult: 15 columns, 48 000 rows. The least total variance of a workload at noise multiplier z is
z²·(Σ √(v_S p_S))², in closed form [XHK23], and no linear mechanism with Gaussian noise has less [LM13]; z is the least
multiplier with the (ε, δ) of the exact curve. Of the drawn tables the root of the mean squared error is taken over all
cells.

References
----------
[LM13] Li, Miklau, "Optimal error of query sets under the differentially-private matrix mechanism", ICDT 2013.
[XHK23] Xiao, He, Zhang, Kifer, "An optimal and scalable matrix mechanism for noisy marginals under convex loss
functions", NeurIPS 2023.
"""

from __future__ import annotations

import itertools
import math
import resource
import time
from typing import Any

import numpy as np

import ferrodp as fd
from ferrodp.mechanisms import GaussianMechanism

SIZES = (100, 100, 100, 99, 85, 42, 16, 16, 15, 9, 7, 6, 5, 2, 2)
ROWS = 48_000
DELTA = 1e-6


def least_variance(tables: list[tuple[int, ...]]) -> float:
    """Return (Σ √(v_S p_S))²: the least total variance of a workload at noise multiplier 1."""
    factors: dict[tuple[int, ...], float] = {}
    for table in tables:
        cells = math.prod(SIZES[i] for i in table)
        for size in range(len(table) + 1):
            for of in itertools.combinations(table, size):
                rest = math.prod(SIZES[i] for i in table if i not in of)
                factors[of] = factors.get(of, 0.0) + cells / rest**2
    roots = (math.prod(1.0 - 1.0 / SIZES[i] for i in of) * math.sqrt(each) for of, each in factors.items())
    return math.fsum(roots) ** 2


def main() -> None:
    """Print a line for each workload and ε."""
    rng = np.random.default_rng(20261128)
    frame: dict[str, Any] = {
        f"c{i}": np.minimum((rng.beta(1.0, 3.0, ROWS) * n).astype(int), n - 1) for i, n in enumerate(SIZES)
    }
    public = {f"c{i}": range(n) for i, n in enumerate(SIZES)}
    print("columns ε | stated, drawn | least | stated / least | tables one by one | CPU s, s, GB")
    for ways in (1, 2, 3):
        tables = list(itertools.combinations(range(len(SIZES)), ways))
        cells = sum(math.prod(SIZES[i] for i in table) for table in tables)
        for epsilon in (0.1, 1.0, 10.0):
            began, used = time.perf_counter(), time.process_time()
            found = fd.private_marginals(frame, ways, categories=public, epsilon=epsilon, delta=DELTA)
            used, began = time.process_time() - used, time.perf_counter() - began
            stated = drawn = 0.0
            for table in tables:
                names = tuple(f"c{i}" for i in table)
                truth = np.zeros([SIZES[i] for i in table])
                np.add.at(truth, tuple(frame[name] for name in names), 1.0)
                drawn += float(((found.table(names) - truth) ** 2).sum())
                stated += truth.size * found.standard_error(names) ** 2
            noise = GaussianMechanism.calibrated(epsilon=epsilon, delta=DELTA, l2_sensitivity=1.0).noise_multiplier
            least = noise**2 * least_variance(tables)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            alone = math.sqrt(len(tables)) * noise
            print(
                f"{ways} {epsilon:4g} | {math.sqrt(stated / cells):.3f}, {math.sqrt(drawn / cells):.3f} | "
                f"{math.sqrt(least / cells):.3f} | {math.sqrt(stated / least):.6f} | {alone:.3f} | "
                f"{used:.2f}, {began:.2f}, {memory:.2f}",
                flush=True,
            )
            del found


if __name__ == "__main__":
    main()
