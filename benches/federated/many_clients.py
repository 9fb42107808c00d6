"""One round of many simulated clients: CPU time, and the memory of the server in accumulators.

    python benches/federated/many_clients.py [CLIENTS] [PARAMETERS] [THREADS]

Updates of float32 arrive in no order from several threads, and each is added as soon as it is there.
An accumulator is 8 bytes a parameter. What is counted is the growth of the process from the moment at which the model
and an update of each thread are in memory, up to its peak, release included.
"""

import resource
import sys
import threading
import time

import numpy as np

from ferrodp.federated import FederatedRun
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan


def resident() -> int:
    """Return the memory of this process now, in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def main(clients: int, parameters: int, threads: int) -> None:
    """Run a round and print what it took."""
    model = {"w": np.zeros(parameters, np.float32)}
    plan = PrivacyPlan(
        unit="client",
        population_size=clients,
        sampling=FullBatch(),
        num_steps=1,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(1.0),
    )
    chance = np.random.default_rng(0)
    updates = [{"w": chance.standard_normal(parameters, dtype=np.float32)} for _ in range(threads)]
    begun = resident()
    started, cpu = time.monotonic(), time.process_time()
    with FederatedRun(plan, model) as run:
        round_ = next(run)
        arrivals = iter(range(clients))
        lock = threading.Lock()

        def arrive(update: dict[str, np.ndarray]) -> None:
            while True:
                with lock:
                    if next(arrivals, None) is None:
                        return
                round_.add(update)

        workers = [threading.Thread(target=arrive, args=(update,)) for update in updates]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        released = round_.release()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert released["w"].shape == (parameters,)
    spent = time.process_time() - cpu
    print(f"{clients} clients x {parameters} parameters, {threads} threads")
    print(f"{time.monotonic() - started:.1f} s, {spent:.1f} s of CPU, {1e3 * spent / clients:.2f} ms a client")
    print(f"{(peak - begun) / (8 * parameters):.2f} accumulators")


if __name__ == "__main__":
    main(*(int(each) for each in (*sys.argv[1:], *("10000", "1000000", "2")[len(sys.argv) - 1 :])))
