"""The promised shapes of clipped sums, timed side by side: with this tree's native module, another one's, and numpy.

    python benches/clipping/shapes.py [--other PATH-TO-A-NATIVE-MODULE] [--rounds N] [--only WORD]

Every module runs in a process of its own, and these take turns, round by round, so that a noisy machine disturbs all
alike. Times are processor times of one thread; of all rounds the least is printed, for noise only adds.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

# The smallest ratios to the other module that a change of `clip` may show: of the geometric mean, and of any one shape.
LEAST_MEAN, LEAST_RATIO = 0.9, 0.75

SHAPES = (
    "1024 x 100,000",
    "round of 100 x 1,000,000, one update after the other",
    "256 x 100,000 in 4 leaves",
    "256 x 100,000 in 1000 leaves",
    "1,000,000 x 16",
    "160,000 x 100",
    "160,000 x 100, Fortran order",
    "160,000 x 100, float64 at the bound",
    "160,000 x 100, Fortran order, float64 at the bound",
)
# Within 3 times of numpy's way, and nothing more is promised.
OTHERS = (
    "1024 x 100,000, Fortran order",
    "200,000 x 64, every other column",
    "500,000 x 3",
    "2,000,000 x 1",
    "160,000 x 100, float16",
    "160,000 x 100, other byte order",
    "64 x 30,000 in 10,000 leaves",
    "160,000 x 100, float64, squares overflow",
)
UPDATES = 100


def matrices(name: str) -> list[np.ndarray]:
    """Return the leaves of a shape: matrices with one row for each unit."""
    rng = np.random.default_rng(1)

    def normal(*shape, dtype=np.float32):
        return rng.standard_normal(shape, dtype=dtype)

    match name.split(",")[0] if name.startswith("round") else name:
        case "1024 x 100,000":
            return [normal(1024, 100_000)]
        case "round of 100 x 1":
            return [normal(4, 1_000_000)]
        case "256 x 100,000 in 4 leaves":
            return [normal(256, 25_000) for _ in range(4)]
        case "256 x 100,000 in 1000 leaves":
            return [normal(256, 100) for _ in range(1000)]
        case "1,000,000 x 16":
            return [normal(1_000_000, 16)]
        case "160,000 x 100":
            return [normal(160_000, 100)]
        case "160,000 x 100, Fortran order":
            return [np.asfortranarray(normal(160_000, 100))]
        case "160,000 x 100, float64 at the bound":
            return [at_bound(normal(160_000, 100, dtype=np.float64))]
        case "160,000 x 100, Fortran order, float64 at the bound":
            return [np.asfortranarray(at_bound(normal(160_000, 100, dtype=np.float64)))]
        case "1024 x 100,000, Fortran order":
            return [np.asfortranarray(normal(1024, 100_000))]
        case "200,000 x 64, every other column":
            return [normal(200_000, 128)[:, ::2]]
        case "500,000 x 3":
            return [normal(500_000, 3)]
        case "2,000,000 x 1":
            return [normal(2_000_000, 1)]
        case "160,000 x 100, float16":
            return [normal(160_000, 100).astype(np.float16)]
        case "160,000 x 100, other byte order":
            return [normal(160_000, 100).astype(">f4")]
        case "64 x 30,000 in 10,000 leaves":
            return [normal(64, 3) for _ in range(10_000)]
        case "160,000 x 100, float64, squares overflow":
            return [normal(160_000, 100, dtype=np.float64) * 1e200]
    raise ValueError(name)


def at_bound(rows: np.ndarray) -> np.ndarray:
    """Return rows of norm 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def clip_norm(name: str) -> float:
    """Return the bound: of most shapes about half of the rows are longer."""
    if "bound" in name:
        return 1.0
    columns = int(
        name.replace("round of 100 x ", "1 x ")
        .split(",  ")[0]
        .split(" x ")[1]
        .split(" ")[0]
        .rstrip(",")
        .replace(",", "")
    )
    return math.sqrt(columns)


def by_ferrodp(name: str, leaves: list[np.ndarray]):
    """Return what adds the rows once."""
    import ferrodp as fd

    dtype = "float64" if leaves[0].dtype.itemsize == 8 else "float32"
    bound = clip_norm(name)
    if name.startswith("round"):
        total = fd.ClippedSum(np.zeros(leaves[0].shape[1], dtype), clip_norm=bound)

        def add():
            for i in range(UPDATES):
                total.add(leaves[0][i % 4], threads=1)
    else:
        template = [np.zeros(leaf.shape[1:], dtype) for leaf in leaves]
        total = fd.ClippedSum(template, clip_norm=bound)

        def add():
            total.add_many(leaves, threads=1)

    return add


def by_numpy(name: str, leaves: list[np.ndarray]):
    """Return what adds the rows once, as one would with numpy."""
    bound = clip_norm(name)

    def add(rows):
        squares = sum(np.einsum("ij,ij->i", leaf, leaf) for leaf in rows)
        factors = np.minimum(1, bound / np.sqrt(squares)).astype(rows[0].dtype)
        return [factors @ leaf for leaf in rows]

    if name.startswith("round"):

        def each():
            total = np.zeros(leaves[0].shape[1], np.float32)
            for i in range(UPDATES):
                row = leaves[0][i % 4]
                total += row * np.float32(min(1, bound / math.sqrt(row @ row)))

        return each
    return lambda: add(leaves)


def serve(module: str | None) -> None:
    """Time one shape for each line of input: `numpy` or the native module at a path."""
    if module not in (None, "numpy"):
        import importlib.util

        spec = importlib.util.spec_from_file_location("ferrodp._native", module)
        native = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(native)
        sys.modules["ferrodp._native"] = native
    work, name = None, None
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["name"] != name:
            name, work = asked["name"], None
            leaves = matrices(name)
            work = (by_numpy if module == "numpy" else by_ferrodp)(name, leaves)
            work()
        start = time.process_time()
        work()
        print(time.process_time() - start, flush=True)


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", help="another native module, such as one of an older commit")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="shapes with this in their name")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(None if given.serve == "own" else given.serve)
        return
    sides = {"new": "own", **({"old": str(Path(given.other).resolve())} if given.other else {}), "numpy": "numpy"}
    servers = {
        side: subprocess.Popen(
            [sys.executable, __file__, "--serve", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for side, module in sides.items()
    }
    ratios = []
    print(f"{'ms of':60}", *(f"{side:>9}" for side in sides), "  old/new numpy/new")
    for name in (*SHAPES, *OTHERS):
        if given.only not in name:
            continue
        least = dict.fromkeys(sides, math.inf)
        for _ in range(given.rounds):
            for side, server in servers.items():
                server.stdin.write(json.dumps({"name": name}) + "\n")
                server.stdin.flush()
                least[side] = min(least[side], float(server.stdout.readline()))
        old = least.get("old", math.nan) / least["new"]
        if name in SHAPES:
            ratios.append(old)
        print(
            f"{name:60}",
            *(f"{1e3 * spent:9.1f}" for spent in least.values()),
            f"{old:9.2f} {least['numpy'] / least['new']:9.2f}",
            flush=True,
        )
    for server in servers.values():
        server.stdin.close()
        server.wait()
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean of the promised shapes: {mean:.3f}, least {min(ratios):.2f}")
    if given.other and (mean < LEAST_MEAN or min(ratios) < LEAST_RATIO):
        sys.exit(f"a mean below {LEAST_MEAN}, or a shape below {LEAST_RATIO}")


if __name__ == "__main__":
    main()
