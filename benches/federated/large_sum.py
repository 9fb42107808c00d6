"""A secure sum of 10⁸ coordinates, divided among processes: what a round of 10⁵ clients and 10⁹ coordinates would take.

    export OMP_NUM_THREADS=1
    .venv/bin/python benches/federated/large_sum.py [--coordinates D] [--clients N] [--processes W]

Coordinates are independent once updates are clipped, so each process has a slice of them: it encodes the slice of every
client's update with a share of noise, adds the messages, and decodes. Clipping to the norm of the whole update comes
first, where it is made. Slices of 10⁶ coordinates are worked on one after the other, so memory does not grow with the
model. Printed are bytes, CPU time, and peak memory of a process, the variance of the noise against the stated one, and
what follows from them for 10⁵ clients and 10⁹ coordinates.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np

from ferrodp.federated import SecureSum

SLICE = 1_000_000


@dataclass(frozen=True)
class Part:
    """What a process found."""

    encoding: float
    adding: float
    decoding: float
    squares: float
    sent: int
    peak: int


def secure_sum(size: int, clients: int) -> SecureSum:
    """Return the sum of a slice: the clip norm of a slice alone is looser than that of the update, and public."""
    return SecureSum(
        (size,), clip_norm=1.0, noise_multiplier=1.0, min_clients=clients, max_clients=clients, dtype=np.float32
    )


def work(slices: int, clients: int) -> Part:
    """Return what the slices of one process take, for updates of zeros, whose noise is all that is left."""
    secure = secure_sum(SLICE, clients)
    update = np.zeros(SLICE, np.float32)
    encoding = adding = decoding = squares = 0.0
    sent = 0
    for _ in range(slices):
        total = secure.zero()
        for _client in range(clients):
            began = time.process_time()
            message = secure.encode(update)
            encoded = time.process_time()
            secure.add(total, message)
            adding += time.process_time() - encoded
            encoding += encoded - began
            sent += message.nbytes
        began = time.process_time()
        value = secure.decode(total, num_clients=clients).value
        decoding += time.process_time() - began
        squares += float(np.square(value, dtype=np.float64).sum())
    return Part(encoding, adding, decoding, squares, sent, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--coordinates", type=int, default=100_000_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    slices = [asked.coordinates // SLICE // asked.processes] * asked.processes
    coordinates = SLICE * sum(slices)
    with ProcessPoolExecutor(asked.processes, get_context("spawn")) as pool:
        parts = list(pool.map(work, slices, [asked.clients] * asked.processes))
    values = coordinates * asked.clients
    encode = sum(part.encoding for part in parts) / values
    add = sum(part.adding for part in parts) / values
    decode = sum(part.decoding for part in parts) / coordinates
    sent = sum(part.sent for part in parts) / values
    variance = sum(part.squares for part in parts) / coordinates
    deviations = (variance - 1) * (coordinates / 2) ** 0.5
    load = os.getloadavg()[0]
    print(f"{coordinates} coordinates, {asked.clients} clients, {asked.processes} processes, load {load:.1f}")
    print(f"variance of a coordinate: {variance:.6f} of 1, off by {deviations:.2f} standard deviations")
    print(f"peak memory of a process: {max(part.peak for part in parts) / 1e6:.0f} MB")
    each = {"encode": encode, "add": add, "decode": decode}
    times = ", ".join(f"{name} {1e9 * seconds:.2f} ns" for name, seconds in each.items())
    print(f"a coordinate: {times}, {sent:.0f} bytes")
    n, d = 1e5, 1e9
    wide = 8  # 10⁵ clients need 64 bits
    print(f"10⁵ clients, 10⁹ coordinates: {wide * d / 1e9:.0f} GB and {encode * d:.0f} s of CPU time a client,")
    server = f"{wide * n * d / 1e12:.0f} TB, {add * n * d / 3600:.0f} hours of one core"
    print(f"at the server {server}, {decode * d:.0f} s to decode")


if __name__ == "__main__":
    main()
