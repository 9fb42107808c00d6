"""A clipped sum of 200 updates of 10⁶ float32 on two workers of Dask or Ray, against one process.

    export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
    .venv-frameworks/dask/bin/python benches/federated/cluster_sums.py dask
    .venv-frameworks/dask/bin/python benches/federated/cluster_sums.py dask --keep-memory
    .venv-frameworks/ray/bin/python benches/federated/cluster_sums.py ray

Loading is part of the work: each of 8 partitions reads 25 compressed files (npz, with the precision of bfloat16), about
13 ms each. Printed are seconds of wall time, which a loaded machine makes longer, and of CPU time on the longest path:
the busiest worker and the driver, as if each had a processor of its own. The driver's part holds the scheduler and what
the cluster costs while it waits, 0.04 s of each second with Dask. Workers are warm: they did the same before, and the
start of the cluster is not counted. The integers have to be the same.

By default Dask starts workers with MALLOC_TRIM_THRESHOLD_=65536. The C library then returns every array to the system
and gets new pages for the next one: 5400 page faults for each update that is loaded here, as much work as the loading
itself. With --keep-memory workers start with higher thresholds, as the page on distributed sums advises; one process
has the C library's own, which adapt.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import ferrodp as fd

SIZE, PARTITIONS, EACH = 1_000_000, 8, 25
Engine: TypeAlias = tuple[Callable[[], Any], Callable[[], dict[int, float]], Callable[[], None]]
KEEP = {f"distributed.nanny.pre-spawn-environ.MALLOC_{name}_THRESHOLD_": 2**30 for name in ("TRIM", "MMAP")}


def write(path: str) -> None:
    """Write a compressed file with an update."""
    update = np.random.default_rng(0).standard_normal(SIZE, dtype=np.float32)
    np.savez_compressed(path, update=(update.view(np.uint32) & 0xFFFF0000).view(np.float32))


def load(partition: tuple[str, int]) -> Any:
    """Return the updates of a partition, one after the other."""
    path, number = partition
    for place in range(EACH):
        with np.load(path) as file:
            yield file["update"] * np.float32(1 + number * EACH + place)


def cpu_time() -> tuple[int, float]:
    """Return the id of this process and its CPU time."""
    return os.getpid(), time.process_time()


def on_dask(partitions: list[tuple[str, int]], keep_memory: bool) -> Engine:
    """Return what sums on two workers, tells their CPU times, and ends them."""
    import dask

    from distributed import Client, LocalCluster
    from ferrodp.integrations.dask import clipped_sum

    if keep_memory:
        dask.config.set(KEEP)
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    client = Client(cluster)

    def end() -> None:
        client.close()
        cluster.close()

    return (
        lambda: clipped_sum(partitions, (SIZE,), clip_norm=1.0, dtype="f4", load=load, client=client),
        lambda: dict(client.run(cpu_time).values()),
        end,
    )


def on_ray(partitions: list[tuple[str, int]]) -> Engine:
    """Return what sums on two workers, tells their CPU times, and ends them."""
    import psutil
    import ray

    from ferrodp.integrations.ray import clipped_sum

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)

    def times() -> dict[int, float]:
        found = {}
        for process in psutil.Process().children(recursive=True):
            try:
                if process.cmdline()[:1] and process.cmdline()[0].startswith("ray::"):
                    spent = process.cpu_times()
                    found[process.pid] = spent.user + spent.system
            except psutil.Error:
                continue
        return found

    return (
        lambda: clipped_sum(partitions, (SIZE,), clip_norm=1.0, dtype="f4", load=load),
        times,
        ray.shutdown,
    )


def alone(partitions: list[tuple[str, int]]) -> fd.ClippedSum[Any]:
    """Return the sum that one process makes."""
    total = fd.ClippedSum((SIZE,), clip_norm=1.0, dtype="f4")
    for partition in partitions:
        for update in load(partition):
            total.add(update, threads=1)
    return total


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("engine", choices=["dask", "ray"])
    parser.add_argument("--keep-memory", action="store_true", help="workers of Dask keep freed memory for reuse")
    asked = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "update.npz")
    write(path)
    partitions = [(path, number) for number in range(PARTITIONS)]
    summed, times, end = on_dask(partitions, asked.keep_memory) if asked.engine == "dask" else on_ray(partitions)
    summed()  # imports, and memory
    load_before = os.getloadavg()[0]
    began, spent = time.perf_counter(), time.process_time()
    expected = alone(partitions)
    single = time.perf_counter() - began, time.process_time() - spent
    before = times()
    began, spent = time.perf_counter(), time.process_time()
    found = summed()
    wall, driver = time.perf_counter() - began, time.process_time() - spent
    after = times()
    workers = [after[pid] - before.get(pid, 0.0) for pid in after]
    assert np.array_equal(found.integers, expected.integers)
    longest = max(workers) + driver
    kept = ", freed memory kept" if asked.keep_memory else ""
    print(f"{asked.engine}{kept}, {PARTITIONS * EACH} updates of {SIZE} float32, load {load_before:.1f}")
    print(f"one process: wall {single[0]:.2f} s, CPU {single[1]:.2f} s")
    print(
        f"two workers: wall {wall:.2f} s, CPU {', '.join(f'{each:.2f}' for each in workers)} s, driver {driver:.2f} s"
    )
    print(f"ratio: wall {single[0] / wall:.2f}, CPU of the longest path {single[1] / longest:.2f}")
    end()
    folder.cleanup()


if __name__ == "__main__":
    main()
