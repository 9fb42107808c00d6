"""The cases of `ferrodp bench`, run as a module in a process of its own (see `bench`).

Peers do the same job in the way their users write it. Their noise is neither exact nor cryptographic, except OpenDP's,
which is both. Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import json
import signal
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp.cli.bench.measure import OURS, Case, Contender, compare, peak_growth
from ferrodp.cli.bench.peers import mkl_random_state, opendp_release, peer
from ferrodp.cli.bench.shapes import shapes
from ferrodp.cli.bench.sibling import busy
from ferrodp.clipping import ClippedSum, clip_and_sum
from ferrodp.mechanisms import ExponentialMechanism, GaussianMechanism, RandomizedResponse
from ferrodp.random import NoiseSource

SCALE = 1.0
GAUSSIAN_SCALES = (
    1.0,
    10.0,
    1e3,
    1e6,
    1e9,
    1e15,
)  # of the integer laws: from one table entry an integer to wide blocks
LAPLACE_SCALES = (1.0, 1e3, 1e6, 1e15)
NUM_CATEGORIES = 10
CLIP_NORM = 1.0
SLOW_VALUES = 2000  # what a peer of 50 µs a value is given
SCALAR_CALLS = 2000
SMALL = 1000
CACHED_CALLS = 5


Works: TypeAlias = dict[str, Callable[[], object]]


class Sizes:
    """How much work each case is: enough to leave the caches, or, if quick, enough to see the order of magnitude."""

    def __init__(self, quick: bool) -> None:
        self.values32 = 2_000_000 if quick else 25_000_000
        self.values64 = 1_000_000 if quick else 10_000_000
        self.rows, self.columns = (256, 20_000) if quick else (1024, 100_000)
        self.clients, self.parameters = (20, 200_000) if quick else (100, 1_000_000)
        self.cached = 1 << 19
        self.matrix = 1_600_000 if quick else 16_000_000
        self.candidates = 100_000 if quick else 1_000_000
        self.repetitions = 3 if quick else 5


def cases(sizes: Sizes, threads: int, *, pinned: bool = False) -> Iterator[Case]:
    """Yield the cases one after another; the arrays of one are gone when the next is made.

    That of two threads is left out where the process is bound to one processor.
    """
    for make in (gaussian32, gaussian64, laplace64):
        yield make(sizes, threads)
    for scale in GAUSSIAN_SCALES:
        yield integer_gaussian(sizes, threads, scale)
    for scale in LAPLACE_SCALES:
        yield integer_laplace(sizes, threads, scale)
    for make in (selection, responses, clip_rows, federated_round, small_calls, scalar, no_numbers):
        yield make(sizes, threads)
    yield from shapes(sizes.matrix, threads)
    if not pinned:
        yield two_threads(sizes)


def gaussian32(sizes: Sizes, threads: int) -> Case:
    """Noise on a model update in place."""
    n, rng, source = sizes.values32, np.random.default_rng(), NoiseSource()
    v = np.zeros(n, np.float32)
    works: Works = {
        OURS: lambda: source.add_gaussian_(v, standard_deviation=SCALE, threads=threads),
        "numpy: v += rng.standard_normal(n, float32) * s": lambda: _add(
            v, rng.standard_normal(n, np.float32) * np.float32(SCALE)
        ),
        "numpy: v += np.random.normal(0, s, n)": lambda: _add(v, np.random.normal(0, SCALE, n)),
        "Flower's formula: v + np.random.normal(0, s, shape).astype(dtype)": lambda: (
            v + np.random.normal(0, SCALE, v.shape).astype(v.dtype)
        ),
    }
    if (torch := peer("torch")) is not None:
        torch.set_num_threads(threads)
        tensor = torch.from_numpy(v)
        works["torch: t.normal_() (fills only)"] = lambda: tensor.normal_()
        works["torch: t += torch.randn(n) * s"] = lambda: tensor.add_(torch.randn(n), alpha=SCALE)
    title = f"add Gaussian noise in place, {n:,} float32"
    return _case(title, works | _mkl("ARS5, ICDF", "normal(0, s, n)", v, method="ICDF"), n)


def gaussian64(sizes: Sizes, threads: int) -> Case:
    """Noise in double precision, where numpy may fill a buffer that is there already."""
    n, rng, source = sizes.values64, np.random.default_rng(), NoiseSource()
    v, w = np.zeros(n), np.zeros(n)
    works: Works = {
        OURS: lambda: source.add_gaussian_(v, standard_deviation=SCALE, threads=threads),
        "numpy: v += rng.standard_normal(n) * s": lambda: _add(v, rng.standard_normal(n) * SCALE),
        "numpy: rng.standard_normal(out=w) (fills only)": lambda: rng.standard_normal(out=w),
    }
    title = f"add Gaussian noise in place, {n:,} float64"
    return _case(
        title, works | _mkl("ARS5, ICDF", "normal(0, s, n)", v, method="ICDF"), n, slow=_opendp("make_gaussian", SCALE)
    )


def laplace64(sizes: Sizes, threads: int) -> Case:
    """Laplace noise in place."""
    n, rng, source = sizes.values64, np.random.default_rng(), NoiseSource()
    v = np.zeros(n)
    works: Works = {
        OURS: lambda: source.add_laplace_(v, scale=SCALE, threads=threads),
        "numpy: v += rng.laplace(0, b, n)": lambda: _add(v, rng.laplace(0, SCALE, n)),
    }
    title = f"add Laplace noise in place, {n:,} float64"
    return _case(title, works | _mkl("ARS5", "laplace(0, b, n)", v), n, slow=_opendp("make_laplace", SCALE))


def integer_gaussian(sizes: Sizes, threads: int, scale: float) -> Case:
    """Noise of the discrete Gaussian law; numpy has none, so its floats are the yardstick."""
    n, rng, source = sizes.values64, np.random.default_rng(), NoiseSource()
    v, w = np.zeros(n, np.int64), np.zeros(n)
    works: Works = {
        OURS: lambda: source.add_discrete_gaussian_(v, scale=scale, threads=threads),
        "numpy: rng.standard_normal(out=w) (floats, fills only)": lambda: rng.standard_normal(out=w),
        "numpy: v += np.rint(rng.standard_normal(n) * s).astype(int64)": lambda: _add(
            v, np.rint(rng.standard_normal(n) * scale).astype(np.int64)
        ),
    }
    title = f"add discrete Gaussian noise in place, {n:,} int64, scale {scale:g}"
    return _case(title, works, n, slow=_opendp("make_gaussian", scale, integers=True))


def integer_laplace(sizes: Sizes, threads: int, scale: float) -> Case:
    """Noise of the discrete Laplace law: the difference of two geometric variables."""
    n, rng, source = sizes.values64, np.random.default_rng(), NoiseSource()
    v, p = np.zeros(n, np.int64), -np.expm1(-1 / scale)
    works: Works = {
        OURS: lambda: source.add_discrete_laplace_(v, scale=scale, threads=threads),
        "numpy: v += rng.geometric(p, n) - rng.geometric(p, n)": lambda: _add(
            v, rng.geometric(p, n) - rng.geometric(p, n)
        ),
    }
    title = f"add discrete Laplace noise in place, {n:,} int64, scale {scale:g}"
    return _case(title, works, n, slow=_opendp("make_laplace", scale, integers=True))


def selection(sizes: Sizes, threads: int) -> Case:
    """One of many candidates by the exponential mechanism."""
    n, rng = sizes.candidates, np.random.default_rng(0)
    utilities = rng.standard_normal(n)
    mechanism = ExponentialMechanism(scale=0.5, sensitivity=1.0)
    works: Works = {
        OURS: lambda: mechanism.release(utilities),
        "numpy: argmax(u / s + rng.gumbel(size=n))": lambda: np.argmax(utilities / 0.5 + rng.gumbel(size=n)),
        "numpy: rng.choice(n, p=softmax(u / s))": lambda: rng.choice(n, p=_softmax(utilities / 0.5)),
    }
    return _case(f"exponential mechanism, {n:,} candidates", works, n)


def responses(sizes: Sizes, threads: int) -> Case:
    """Randomized response over a few categories."""
    n, rng = sizes.values64, np.random.default_rng()
    answers = rng.integers(0, NUM_CATEGORIES, n)
    mechanism = RandomizedResponse(noise_parameter=0.25, num_categories=NUM_CATEGORIES)
    works: Works = {
        OURS: lambda: mechanism.release(answers, threads=threads),
        "numpy: where(rng.random(n) < p, rng.integers(0, k, n), answers)": lambda: np.where(
            rng.random(n) < 0.25, rng.integers(0, NUM_CATEGORIES, n), answers
        ),
    }
    return _case(f"randomized response, {n:,} answers of {NUM_CATEGORIES}", works, n)


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

    works: Works = {
        OURS: lambda: clip_and_sum(x, clip_norm=CLIP_NORM, threads=threads),
        "numpy: einsum, then factors @ x": einsum,
        "numpy: linalg.norm, then (x * factors).sum(0)": plain,
    }
    if (torch := peer("torch")) is not None:
        torch.set_num_threads(threads)
        t = torch.from_numpy(x)
        works["torch: norms, then einsum('i,ij->j')"] = lambda: torch.einsum(
            "i,ij->j", (CLIP_NORM / t.norm(dim=1)).clamp(max=1.0), t
        )
    return _case(f"clip rows and add them, {rows:,} x {columns:,} float32", works, rows * columns)


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

    works: Works = {
        OURS: ours,
        "numpy: np.mean([u * factor ...], axis=0) + np.random.normal": plain,
        "numpy: total += u * factor ...; total += rng.standard_normal": streaming,
        "Flower's formula": flower,
    }
    return _case(f"clip, add and noise {clients} updates of {n:,} float32", works, clients * n)


def small_calls(sizes: Sizes, threads: int) -> Case:
    """Noise on a small vector, again and again: what a call costs."""
    n, rng, source = SMALL, np.random.default_rng(), NoiseSource()
    v = np.zeros(n, np.float32)
    works: Works = {
        OURS: lambda: source.add_gaussian_(v, standard_deviation=SCALE, threads=threads),
        "numpy: v += rng.standard_normal(n, float32) * s": lambda: _add(
            v, rng.standard_normal(n, np.float32) * np.float32(SCALE)
        ),
    }
    contenders = [Contender(name, _repeated(work, SCALAR_CALLS), SCALAR_CALLS) for name, work in works.items()]
    return Case(f"add Gaussian noise in place, {n:,} float32, call by call", contenders, n)


def no_numbers(sizes: Sizes, threads: int) -> Case:
    """Noise on values that count as zeros, against noise on zeros: what the time tells of data."""
    n, source = sizes.cached, NoiseSource()

    def noise(value: float) -> Callable[[], object]:
        v, filled = np.zeros(n, np.float32), np.full(n, value, np.float32)

        def work() -> None:
            np.copyto(v, filled)
            source.add_gaussian_(v, standard_deviation=SCALE, threads=threads)

        return work

    values = {f"{OURS}, zeros": 0.0, f"{OURS}, NaN": np.nan, f"{OURS}, the largest float32": 3.4e38}
    contenders = [Contender(name, noise(value)) for name, value in values.items()]
    v, rng = np.zeros(n, np.float32), np.random.default_rng()
    contenders.append(
        Contender("numpy, any value: v += rng.standard_normal", lambda: _add(v, rng.standard_normal(n, np.float32)))
    )
    return Case(f"add Gaussian noise in place, {n:,} float32 that are unusual", contenders, n)


def scalar(sizes: Sizes, threads: int) -> Case:
    """Noise on one number: what a single release costs."""
    mechanism = GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=SCALE)
    rng = np.random.default_rng()
    works: dict[str, Callable[[], object] | None] = {
        OURS: lambda: mechanism.release(1.0),
        "numpy: 1.0 + rng.normal(0, s)": lambda: 1.0 + rng.normal(0, SCALE),
        "OpenDP: make_gaussian": opendp_release("make_gaussian", SCALE),
    }
    contenders = [Contender(name, _repeated(work, SCALAR_CALLS), SCALAR_CALLS) for name, work in works.items() if work]
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


def _case(title: str, works: Works, items: int, *, slow: Works | None = None) -> Case:
    """Return a case; of what is slow, one call does `SLOW_VALUES` of the items."""
    contenders = [Contender(name, work) for name, work in works.items()]
    contenders += [Contender(name, work, times=SLOW_VALUES / items) for name, work in (slow or {}).items()]
    return Case(title, contenders, items)


def _mkl(how: str, call: str, v: npt.NDArray[Any], **settings: str) -> Works:
    """Return mkl_random adding noise in place, if it is installed."""
    if (mkl := peer("mkl_random")) is None:
        return {}
    draw = functools.partial(getattr(mkl_random_state(mkl), call.partition("(")[0]), 0, SCALE, len(v), **settings)
    return {f"mkl_random ({how}): v += {call}": lambda: _add(v, draw())}


def _opendp(make: str, scale: float, *, integers: bool = False) -> Works:
    """Return OpenDP's release of `SLOW_VALUES` values, if it is installed."""
    release = opendp_release(make, scale, SLOW_VALUES, integers=integers)
    return {} if release is None else {f"OpenDP: {make}{' on integers' if integers else ''}": release}


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
    parser.add_argument("--contended", type=int, nargs=2, metavar="PROCESSOR")
    args = parser.parse_args()
    sizes = Sizes(args.quick)
    print(json.dumps({"extra_bytes": noising_memory(sizes, args.threads)}), flush=True)
    with busy(*args.contended) if args.contended else contextlib.nullcontext() as sibling:
        for case in cases(sizes, args.threads, pinned=sibling is not None):
            timed = dataclasses.replace(case, wall=case.wall or args.threads > 1)
            print(json.dumps(compare(timed, sizes.repetitions, sibling)), flush=True)


if __name__ == "__main__":
    _main()
