"""Widths and times of random allocations, over releases, numbers of steps and of selected steps, rounds and δ.

    python benches/accounting/allocations.py [--release NAME ...]

Both ends of ε by `PldAccountant`, their distance as a part of the upper one, and the CPU time of both together: of the
first δ with the law that has to be made, and of the next ones with it at hand.
"""

from __future__ import annotations

import argparse
import datetime
import os
import time

import ferrodp as fd
from ferrodp.accounting import PldAccountant
from ferrodp.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    SelfComposedEvent,
)

RELEASES: dict[str, PrivacyEvent] = {
    "Gaussian z=1": GaussianEvent(noise_multiplier=1.0),
    "Laplace": LaplaceEvent(noise_multiplier=1.0),
    "discrete Gaussian": DiscreteGaussianEvent(scale=1.0),
    "discrete Laplace": DiscreteLaplaceEvent(scale=2.0),
    "(1, 0)": EpsilonDeltaEvent(epsilon=1.0, delta=0.0),
}
SIZES = [
    (100, 1, 1),
    (1000, 1, 1),
    (100, 2, 1),
    (1000, 2, 1),
    (1000, 4, 10),
    (10_000, 4, 1),
    (100_000, 1, 1),
    (100_000, 64, 1),
]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", nargs="+", choices=RELEASES, default=list(RELEASES))
    options = parser.parse_args()
    print(f"{datetime.date.today()}, ferrodp {fd.__version__}, load {os.getloadavg()[0]:.1f}")
    print("release                 T   k rounds  delta       lower     upper  distance   CPU")
    wide, slow, number = 0, 0, 0
    for name in options.release:
        for steps, selected, rounds in SIZES:
            event: PrivacyEvent = RandomAllocationEvent(num_steps=steps, num_selected=selected, event=RELEASES[name])
            if rounds > 1:
                event = SelfComposedEvent(event=event, count=rounds)
            accountant = PldAccountant()
            accountant.compose(event)
            for delta in (1e-6, 1e-12, 1e-20):
                begun = time.process_time()
                lower, upper = accountant.epsilon_bounds(delta=delta)
                took = time.process_time() - begun
                distance = 1.0 - lower / upper
                wide, slow, number = wide + (distance > 0.01), slow + (took > 0.1), number + 1
                print(
                    f"{name:18} {steps:7d} {selected:3d} {rounds:6d}  {delta:.0e}  {lower:10.6f}{upper:10.6f}"
                    f"{100 * distance:9.2f} %{1e3 * took:6.0f} ms",
                    flush=True,
                )
    print(f"{wide} of {number} wider than 1 %, {slow} took more than 100 ms")


if __name__ == "__main__":
    main()
