"""Counts the keys that `KeyUnion` finds among a million units of up to a hundred keys, and the time it takes.

    python benches/statistics/key_unions.py [--units 1000000]

Units draw geometric numbers of keys from a Zipf law, one for each exponent; some draws are the same key. Two runs each,
with the CPU time of `private_group_by` whole: the table of a rule is made in the first.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

import ferrodp as fd

EXPONENTS = (1.1, 1.3)
MOST = 100


def main() -> None:
    """Print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=10**6)
    units = parser.parse_args().units
    print(f"load {os.getloadavg()[0]:.1f}; epsilon 1, delta 1e-6, {units} units")
    rng = np.random.default_rng(0)
    for exponent in EXPONENTS:
        owners = np.repeat(np.arange(units), np.minimum(rng.geometric(1 / 10.5, units), MOST))
        table = {"key": np.minimum(rng.zipf(exponent, owners.size), 10**8), "unit": owners}
        for _ in range(2):
            begun = time.process_time()
            keys = fd.KeyUnion(epsilon=1.0, delta=1e-6)
            found = fd.private_group_by(table, "key", keys=keys, unit="unit", groups_per_unit=MOST)
            took = time.process_time() - begun
            print(f"exponent {exponent}: {owners.size} rows, {len(found.keys)} keys, {took:.2f} s")


if __name__ == "__main__":
    main()
