"""Errors of strategies beside those of jax_privacy's optimizers, and of a numpy implementation.

    python benches/correlated/errors.py GRID.json

GRID.json is what `python benches/correlated/jax_grid.py GRID.json` wrote in an environment that has jax_privacy.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from ferrodp.correlated import BandedToeplitz, BufferedToeplitz, SquareRoot, Strategy, Tree


def in_numpy(column: np.ndarray) -> tuple[float, float]:
    """Return RMS and maximum of the error times sensitivity, one participation, by whole matrices."""
    steps = len(column)
    matrix = np.array([[column[i - j] if i >= j else 0.0 for j in range(steps)] for i in range(steps)])
    rows = np.tril(np.ones((steps, steps))) @ np.linalg.inv(matrix)
    squares = (rows**2).sum(axis=1)
    norm = np.linalg.norm(column)
    return float(np.sqrt(squares.mean()) * norm), float(np.sqrt(squares.max()) * norm)


def main() -> None:
    """Print tables."""
    print("1024 steps, one participation: RMS, maximum of error times sensitivity; by whole matrices; CPU seconds")
    for name, make in {
        "independent": lambda: BandedToeplitz(num_steps=1024, bands=1),
        "tree": lambda: Tree(num_steps=1024),
        "square root, 16 bands": lambda: SquareRoot(num_steps=1024, bands=16),
        "square root": lambda: SquareRoot(num_steps=1024),
        "16 bands": lambda: BandedToeplitz(num_steps=1024, bands=16),
        "64 bands": lambda: BandedToeplitz(num_steps=1024, bands=64),
        **{
            f"{n} buffers": lambda n=n: BufferedToeplitz(num_steps=1024, buffers=n)  # type: ignore[misc]
            for n in (1, 2, 3, 5)
        },
        "3 buffers, max": lambda: BufferedToeplitz(num_steps=1024, buffers=3, objective="max"),
    }.items():
        began = time.process_time()
        strategy = make()
        took = time.process_time() - began
        column = np.zeros(1024)
        whole = ""
        if not isinstance(strategy, Tree):
            column[: len(strategy.coefficients())] = strategy.coefficients()
            whole = "{:.4f} {:.4f}".format(*in_numpy(column))
        print(f"{name:22} {strategy.rms_error():8.4f} {strategy.max_error():8.4f}   {whole:16} {took:.2f}")
    print("\nratio of this package's optimum to jax_privacy's, both evaluated here; CPU seconds of either")
    worst = 0.0
    for row in json.loads(Path(sys.argv[1]).read_text()):
        steps, goal = row["T"], row["objective"]
        count, apart = row.get("k", 1), row.get("b", 1)
        began = time.process_time()
        if row["what"] == "banded":
            theirs: Strategy = BandedToeplitz(num_steps=steps, bands=row["bands"], coefficients=row["coef"])
            ours: Strategy = BandedToeplitz(num_steps=steps, bands=row["bands"], objective=goal)
            what = f"{row['bands']} bands"
        else:
            theirs = BufferedToeplitz(num_steps=steps, buffers=3, decays=row["theta"], weights=row["omega"])
            ours = BufferedToeplitz(
                num_steps=steps, buffers=3, num_participations=count, min_separation=apart, objective=goal
            )
            what = "3 buffers"
        took = time.process_time() - began
        error = "rms_error" if goal == "rms" else "max_error"
        here, there = getattr(ours, error)(count, apart), getattr(theirs, error)(count, apart)
        worst = max(worst, here / there)
        print(
            f"T {steps:4} k {count} b {apart:3} {what:10} {goal:3} {here:8.4f} {there:8.4f} {here / there:.5f}"
            f"  {took:5.2f} {row['s']:5.2f}"
        )
    print(f"largest ratio {worst:.5f}")


if __name__ == "__main__":
    main()
