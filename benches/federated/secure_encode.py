"""What one client's message to a secure sum costs: clip, quantize, add a share of noise, reduce; 10⁶ float32.

    export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
    .venv/bin/python benches/federated/secure_encode.py

Printed are milliseconds of one thread's CPU time: the minimum of 30 messages, and their median. With a rotation the
message has 2²⁰ coordinates. Then the same for a server that adds one message.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from ferrodp.federated import SecureSum

SIZE, ROUNDS = 10**6, 30


def timed(part: Callable[[], object]) -> str:
    """Return the minimum and the median of the CPU time of some calls."""
    spent = []
    for _ in range(ROUNDS):
        started = time.thread_time()
        part()
        spent.append((time.thread_time() - started) * 1e3)
    return f"{min(spent):8.2f}{statistics.median(spent):8.2f}"


def main() -> None:
    """Measure and print."""
    update = np.random.default_rng(0).standard_normal(SIZE, dtype=np.float32) * np.float32(1e-3)
    print(f"{SIZE} float32, ms a message, load {os.getloadavg()[0]:.1f}")
    print(f"{'':24}{'minimum':>8}{'median':>8}")
    for modulus in ("uint32", "uint64", "field64"):
        for rotated in (False, True):
            secure = SecureSum(
                (SIZE,),
                clip_norm=1.0,
                noise_multiplier=1.0,
                min_clients=80,
                max_clients=100,
                dtype=np.float32,
                modulus=modulus,
                rotation_seed=bytes(32) if rotated else None,
            )
            name = f"{modulus}, rotated" if rotated else modulus
            print(f"{name:24}{timed(partial(secure.encode, update))}")
            print(f"{'  server, add':24}{timed(partial(secure.add, secure.zero(), secure.encode(update)))}")


if __name__ == "__main__":
    main()
