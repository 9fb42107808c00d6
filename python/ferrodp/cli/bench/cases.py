"""What `ferrodp bench` measures, and with whom it compares. Run as a module in a process of its own (see `bench`).

Peers are asked for the same job in the way their users write it. Their noise is neither exact nor cryptographic, but
for OpenDP's, which is both. Whoever is not installed is left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp.cli.bench.measure import OURS, Case, Contender, compare, peak_growth
from ferrodp.cli.bench.peers import mkl_random_state, opendp_integers, opendp_release, peer
from ferrodp.clipping import ClippedSum, clip_and_sum
from ferrodp.mechanisms import ExponentialMechanism, GaussianMechanism, RandomizedResponse
from ferrodp.random import NoiseSource

SCALE = 1.0
GAUSSIAN_SCALES = (1.0, 10.0, 1e3, 1e6, 1e9)  # of the integer laws: from one table entry an integer to wide blocks
LAPLACE_SCALES = (1.0, 1e3, 1e6)
NUM_CATEGORIES = 10
CLIP_NORM = 1.0
SLOW_VALUES = 2000  # what a peer of 50 µs a value is given
SCALAR_CALLS = 2000
CACHED_CALLS = 5


class Sizes:
    """How much work each case is: enough to leave the caches, or, if quick, enough to see the order of magnitude."""

    def __init__(self, quick: bool) -> None:
        self.values32 = 2_000_000 if quick else 25_000_000
        self.values64 = 1_000_000 if quick else 10_000_000
        self.rows, self.columns = (256, 20_000) if quick else (1024, 100_000)
        self.clients, self.parameters = (20, 200_000) if quick else (100, 1_000_000)
        self.cached = 1 << 19
        self.candidates = 100_000 if quick else 1_000_000
        self.repetitions = 3 if quick else 5


def cases(sizes: Sizes, threads: int) -> Iterator[Case]:
    """Yield the cases one after another; the arrays of one are gone when the next is made."""
    for make in (gaussian32, gaussian64, laplace64):
        yield make(sizes, threads)
    for scale in GAUSSIAN_SCALES:
        yield integer_gaussian(sizes, threads, scale)
    for scale in LAPLACE_SCALES:
        yield integer_laplace(sizes, threads, scale)
    for make in (selection, responses, clip_rows, federated_round, scalar):
        yield make(sizes, threads)
    yield two_threads(sizes)


def gaussian32(sizes: Sizes, threads: int) -> Case:
    """Noise on a model update in place."""
    n, rng, source = sizes.values32, np.random.default_rng(), NoiseSource()
    v = np.zeros(n, np.float32)
    contenders = [
        Contender(OURS, lambda: source.add_gaussian_(v, standard_deviation=SCALE, threads=threads)),
        Contender(
            "numpy: v += rng.standard_normal(n, float32) * s",
            lambda: _add(v, rng.standard_normal(n, np.float32) * np.float32(SCALE)),
        ),
        Contender("numpy: v += np.random.normal(0, s, n)", lambda: _add(v, np.random.normal(0, SCALE, n))),
        Contender(
            "Flower's formula: v + np.random.normal(0, s, shape).astype(dtype)",
            lambda: v + np.random.normal(0, SCALE, v.shape).astype(v.dtype),
        ),
    ]
    if (torch := peer("torch")) is not None:
        torch.set_num_threads(threads)
        tensor = torch.from_numpy(v)
        contenders.append(Contender("torch: t.normal_() (fills only)", lambda: tensor.normal_()))
        contenders.append(Contender("torch: t += torch.randn(n) * s", lambda: tensor.add_(torch.randn(n), alpha=SCALE)))
    if (mkl := peer("mkl_random")) is not None:
        draw = functools.partial(mkl_random_state(mkl).normal, 0, SCALE, n, method="ICDF")
        contenders.append(Contender("mkl_random (ARS5, ICDF): v += normal(0, s, n)", lambda: _add(v, draw())))
    return Case(f"add Gaussian noise in place, {n:,} float32", contenders, n)


def gaussian64(sizes: Sizes, threads: int) -> Case:
    """Noise in double precision, where numpy may fill a buffer that is there already."""
    n, rng, source = sizes.values64, np.random.default_rng(), NoiseSource()
    v, w = np.zeros(n), np.zeros(n)
    contenders = [
        Contender(OURS, lambda: source.add_gaussian_(v, standard_deviation=SCALE, threads=threads)),
        Contender("numpy: v += rng.standard_normal(n) * s", lambda: _add(v, rng.standard_normal(n) * SCALE)),
        Contender("numpy: rng.standard_normal(out=w) (fills only)", lambda: rng.standard_normal(out=w)),
    ]
    if (mkl := peer("mkl_random")) is not None:
        draw = functools.partial(mkl_random_state(mkl).normal, 0, SCALE, n, method="ICDF")
        contenders.append(Contender("mkl_random (ARS5, ICDF): v += normal(0, s, n)", lambda: _add(v, draw())))
    if (release := opendp_release("make_gaussian", SCALE, SLOW_VALUES)) is not None:
        contenders.append(Contender("OpenDP: make_gaussian", release, times=SLOW_VALUES / n))
    return Case(f"add Gaussian noise in place, {n:,} float64", contenders, n)


def laplace64(sizes: Sizes, threads: int) -> Case:
    """Laplace noise in place."""
    n, rng, source = sizes.values64, np.random.default_rng(), NoiseSource()
    v = np.zeros(n)
    contenders = [
        Contender(OURS, lambda: source.add_laplace_(v, scale=SCALE, threads=threads)),
        Contender("numpy: v += rng.laplace(0, b, n)", lambda: _add(v, rng.laplace(0, SCALE, n))),
    ]
    if (mkl := peer("mkl_random")) is not None:
        laplace = functools.partial(mkl_random_state(mkl).laplace, 0, SCALE, n)
        contenders.append(Contender("mkl_random (ARS5): v += laplace(0, b, n)", lambda: _add(v, laplace())))
    if (release := opendp_release("make_laplace", SCALE, SLOW_VALUES)) is not None:
        contenders.append(Contender("OpenDP: make_laplace", release, times=SLOW_VALUES / n))
    return Case(f"add Laplace noise in place, {n:,} float64", contenders, n)


def integer_gaussian(sizes: Sizes, threads: int, scale: float) -> Case:
    """Noise of the discrete Gaussian law; numpy has none, so its floats are the yardstick."""
    n, rng, source = sizes.values64, np.random.default_rng(), NoiseSource()
    v, w = np.zeros(n, np.int64), np.zeros(n)
    contenders = [
        Contender(OURS, lambda: source.add_discrete_gaussian_(v, scale=scale, threads=threads)),
        Contender("numpy: rng.standard_normal(out=w) (floats, fills only)", lambda: rng.standard_normal(out=w)),
        Contender(
            "numpy: v += np.rint(rng.standard_normal(n) * s).astype(int64)",
            lambda: _add(v, np.rint(rng.standard_normal(n) * scale).astype(np.int64)),
        ),
    ]
    if (release := opendp_integers("make_gaussian", scale, SLOW_VALUES)) is not None:
        contenders.append(Contender("OpenDP: make_gaussian on integers", release, times=SLOW_VALUES / n))
    return Case(f"add discrete Gaussian noise in place, {n:,} int64, scale {scale:g}", contenders, n)


def integer_laplace(sizes: Sizes, threads: int, scale: float) -> Case:
    """Noise of the discrete Laplace law: the difference of two geometric variables."""
    n, rng, source = sizes.values64, np.random.default_rng(), NoiseSource()
    v, p = np.zeros(n, np.int64), -np.expm1(-1 / scale)
    contenders = [
        Contender(OURS, lambda: source.add_discrete_laplace_(v, scale=scale, threads=threads)),
        Contender(
            "numpy: v += rng.geometric(p, n) - rng.geometric(p, n)",
            lambda: _add(v, rng.geometric(p, n) - rng.geometric(p, n)),
        ),
    ]
    if (release := opendp_integers("make_laplace", scale, SLOW_VALUES)) is not None:
        contenders.append(Contender("OpenDP: make_laplace on integers", release, times=SLOW_VALUES / n))
    return Case(f"add discrete Laplace noise in place, {n:,} int64, scale {scale:g}", contenders, n)


def selection(sizes: Sizes, threads: int) -> Case:
    """One of many candidates by the exponential mechanism."""
    n, rng = sizes.candidates, np.random.default_rng(0)
    utilities = rng.standard_normal(n)
    mechanism = ExponentialMechanism(scale=0.5, sensitivity=1.0)
    contenders = [
        Contender(OURS, lambda: mechanism.release(utilities)),
        Contender("numpy: argmax(u / s + rng.gumbel(size=n))", lambda: np.argmax(utilities / 0.5 + rng.gumbel(size=n))),
        Contender("numpy: rng.choice(n, p=softmax(u / s))", lambda: rng.choice(n, p=_softmax(utilities / 0.5))),
    ]
    return Case(f"exponential mechanism, {n:,} candidates", contenders, n)


def responses(sizes: Sizes, threads: int) -> Case:
    """Randomized response over a few categories."""
    n, rng = sizes.values64, np.random.default_rng()
    answers = rng.integers(0, NUM_CATEGORIES, n)
    mechanism = RandomizedResponse(noise_parameter=0.25, num_categories=NUM_CATEGORIES)
    contenders = [
        Contender(OURS, lambda: mechanism.release(answers, threads=threads)),
        Contender(
            "numpy: where(rng.random(n) < p, rng.integers(0, k, n), answers)",
            lambda: np.where(rng.random(n) < 0.25, rng.integers(0, NUM_CATEGORIES, n), answers),
        ),
    ]
    return Case(f"randomized response, {n:,} answers of {NUM_CATEGORIES}", contenders, n)


def clip_rows(sizes: Sizes, threads: int) -> Case:
    """Clip each row and add the rows: the inner step of private training. About half of the rows are clipped."""
    rows, columns = sizes.rows, sizes.columns
    x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
    x *= np.linspace(0.5, 1.5, rows, dtype=np.float32)[:, None] / np.float32(columns**0.5)

    def einsum() -> object:
        norms = np.sqrt(np.einsum("ij,ij->i", x, x))
        return np.minimum(1, CLIP_NORM / norms) @ x

    def plain() -> object:
        norms = np.linalg.norm(x, axis=1)
        return (x * np.minimum(1, CLIP_NORM / norms)[:, None]).sum(axis=0)

    contenders = [
        Contender(OURS, lambda: clip_and_sum(x, clip_norm=CLIP_NORM, threads=threads)),
        Contender("numpy: einsum, then factors @ x", einsum),
        Contender("numpy: linalg.norm, then (x * factors).sum(0)", plain),
    ]
    if (torch := peer("torch")) is not None:
        torch.set_num_threads(threads)
        t = torch.from_numpy(x)
        contenders.append(
            Contender(
                "torch: norms, then einsum('i,ij->j')",
                lambda: torch.einsum("i,ij->j", (CLIP_NORM / t.norm(dim=1)).clamp(max=1.0), t),
            )
        )
    return Case(f"clip rows and add them, {rows:,} x {columns:,} float32", contenders, rows * columns)


def federated_round(sizes: Sizes, threads: int) -> Case:
    """Clip, sum and noise: what a server does each round."""
    clients, n, rng = sizes.clients, sizes.parameters, np.random.default_rng(0)
    updates = [rng.standard_normal(n, np.float32) / np.float32(n**0.5) for _ in range(clients)]

    def ours() -> object:
        total = ClippedSum(updates[0], clip_norm=CLIP_NORM)
        for update in updates:
            total.add(update, threads=threads)
        return total.release(noise_multiplier=1.0, threads=threads)

    def plain() -> object:
        mean = np.mean([update * _factor(update) for update in updates], axis=0)
        return mean + np.random.normal(0, CLIP_NORM / clients, n)

    def streaming() -> object:
        total = np.zeros(n, np.float32)
        for update in updates:
            total += update * np.float32(_factor(update))
        total += rng.standard_normal(n, np.float32) * np.float32(CLIP_NORM)
        return total

    def flower() -> object:
        clipped = [update * _factor(update) for update in updates]
        mean = functools.reduce(np.add, [update * 1 for update in clipped]) / clients
        return mean + np.random.normal(0, CLIP_NORM / clients, mean.shape).astype(mean.dtype)

    contenders = [
        Contender(OURS, ours),
        Contender("numpy: np.mean([u * factor ...], axis=0) + np.random.normal", plain),
        Contender("numpy: total += u * factor ...; total += rng.standard_normal", streaming),
        Contender("Flower's formula", flower),
    ]
    return Case(f"clip, add and noise {clients} updates of {n:,} float32", contenders, clients * n)


def scalar(sizes: Sizes, threads: int) -> Case:
    """Noise on one number: what a single release costs."""
    mechanism = GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=SCALE)
    rng = np.random.default_rng()
    contenders = [
        Contender(OURS, _repeated(lambda: mechanism.release(1.0), SCALAR_CALLS), SCALAR_CALLS),
        Contender(
            "numpy: 1.0 + rng.normal(0, s)", _repeated(lambda: 1.0 + rng.normal(0, SCALE), SCALAR_CALLS), SCALAR_CALLS
        ),
    ]
    if (release := opendp_release("make_gaussian", SCALE)) is not None:
        contenders.append(Contender("OpenDP: make_gaussian", _repeated(release, SCALAR_CALLS), SCALAR_CALLS))
    return Case("release one number", contenders, 1)


def two_threads(sizes: Sizes) -> Case:
    """Two threads against one, on values that stay in the cache. Elapsed time."""
    v, source = np.zeros(sizes.cached, np.float32), NoiseSource()

    def noise(threads: int) -> Callable[[], None]:
        return _repeated(lambda: source.add_gaussian_(v, standard_deviation=SCALE, threads=threads), CACHED_CALLS)

    contenders = [
        Contender(f"{OURS}, 2 threads", noise(2), CACHED_CALLS),
        Contender(f"{OURS}, 1 thread", noise(1), CACHED_CALLS),
    ]
    return Case(
        f"add Gaussian noise in place, {sizes.cached:,} float32 in cache", contenders, sizes.cached, wall=True, more=20
    )


def noising_memory(sizes: Sizes, threads: int) -> int | None:
    """Return the bytes of memory that noising takes beside the array itself."""
    v, source = np.ones(sizes.values32, np.float32), NoiseSource()
    source.add_gaussian_(v[:1000], standard_deviation=SCALE)
    return peak_growth(lambda: source.add_gaussian_(v, standard_deviation=SCALE, threads=threads))


def _add(v: npt.NDArray[Any], noise: npt.NDArray[Any]) -> None:
    v += noise


def _softmax(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum(), np.float64)


def _factor(update: npt.NDArray[Any]) -> float:
    return min(1.0, CLIP_NORM / float(np.linalg.norm(update)))


def _repeated(call: Callable[[], object], times: int) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(times):
            call()

    return loop


def _main() -> None:
    """Print one JSON object per case, as soon as it is measured, and one for the memory at the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # `bench` hears it too, and ends this process
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    sizes = Sizes(args.quick)
    print(json.dumps({"extra_bytes": noising_memory(sizes, args.threads)}), flush=True)
    for case in cases(sizes, args.threads):
        timed = dataclasses.replace(case, wall=case.wall or args.threads > 1)
        print(json.dumps(compare(timed, sizes.repetitions)), flush=True)


if __name__ == "__main__":
    _main()
