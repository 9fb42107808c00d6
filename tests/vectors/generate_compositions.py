"""Write `compositions.json`: composed Poisson-sampled Gaussians, drawn at random or chosen to be hard, and the truth.

Run as `python tests/vectors/generate_compositions.py [processes]`; it takes some forty minutes of processor time (with
python-flint), and keeps what an earlier run found. A value is kept if two paths of integration agree on 25 digits (see
`tests/reference/composition_truth.py`); `verify_compositions.py` takes other roads to the same numbers. All parameters
are doubles, taken as the numbers they are.

An entry is `{"id", "events": [[sigma, q, count], ...], "delta", "epsilon": {"remove", "add"}, "at", "delta_at": {…}}`.
`epsilon` solves δ(ε) = delta in each direction, 0 where δ(0) is below; `delta_at` is δ at the double `at`, close to the
larger ε. A direction that did not converge is left out where its ε is known to be smaller.
"""

from __future__ import annotations

import json
import math
import random
import signal
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import mpmath as mp

from reference import composition_truth
from reference.composition_truth import ADD, REMOVE, Composition, NotConvergedError, Step, solve

PATH = Path(__file__).with_name("compositions.json")
DIGITS = 28
SECONDS = 20  # of processor time for a direction; what takes longer is left out, and said

Case = tuple[str, tuple[tuple[float, float, int], ...], float]


def _log_uniform(rng: random.Random, low: float, high: float) -> float:
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.4g}")


def drawn(count: int) -> Iterator[Case]:
    """Settings log-uniform in σ from 0.2 to 1000, q from 1e-6 to 1, T from 1 to 10⁶, δ from 1e-15 to 0.1."""
    rng = random.Random("compositions")
    for k in range(count):
        sigma, q = _log_uniform(rng, 0.2, 1000), _log_uniform(rng, 1e-6, 1)
        yield f"drawn-{k}", ((sigma, q, int(_log_uniform(rng, 1, 1e6))),), _log_uniform(rng, 1e-15, 0.1)


def small_losses(count: int) -> Iterator[Case]:
    """Settings with T·q below 4 and σ below 1.5, where losses are nearly atoms, and δ below the total variation."""
    rng = random.Random("small losses")
    for k in range(count):
        sigma, q = _log_uniform(rng, 0.2, 1.5), _log_uniform(rng, 1e-6, 0.5)
        steps = max(1, int(_log_uniform(rng, 1e-2, 4) / q))
        yield f"atomic-{k}", ((sigma, q, steps),), float(f"{min(0.1, steps * q / 3) * 10 ** -rng.uniform(0, 9):.4g}")


CHOSEN: list[Case] = [
    ("anchor-1", ((1.0, 0.01, 1000),), 1e-5),
    ("anchor-2", ((1.0, 0.01, 1000),), 1e-10),
    ("anchor-3", ((1.0, 0.01, 1000),), 1e-18),
    ("anchor-4", ((1.5, 0.04, 2250),), 1e-5),
    ("anchor-5", ((4.0, 0.01, 10_000),), 1e-5),
    ("anchor-6", ((1.0, 0.01, 100_000),), 1e-5),
    ("tail-1", ((1.0, 0.01, 1000),), 1e-30),
    ("tail-2", ((1.1, 0.01, 10_000),), 1e-30),
    ("tail-3", ((20.0, 0.5, 500),), 1e-30),
    ("tail-4", ((2.0, 0.001, 100_000),), 1e-100),
    ("tail-5", ((5.0, 0.05, 10_000),), 1e-290),
    ("long-1", ((1.0, 0.01, 1_000_000),), 1e-5),
    ("long-2", ((1.0, 0.001, 1_000_000_000),), 1e-10),
    ("long-3", ((100.0, 1e-6, 1_000_000_000),), 1e-12),
    ("corner-1", ((0.2, 0.999, 1),), 1e-5),
    ("corner-2", ((0.2, 0.999, 1000),), 1e-15),
    ("corner-3", ((0.2, 0.01, 1000),), 1e-5),
    ("corner-4", ((0.2, 1e-6, 1_000_000),), 1e-3),
    ("corner-5", ((0.2, 0.5, 2),), 0.1),
    ("corner-6", ((0.2, 0.5, 1),), 1e-15),
    ("corner-7", ((1000.0, 1e-6, 1),), 1e-15),
    ("corner-8", ((1000.0, 0.001, 10_000),), 1e-8),
    ("corner-9", ((1000.0, 1.0, 1),), 1e-6),
    ("corner-10", ((1.0, 1.0, 10),), 1e-15),
    ("corner-11", ((1.0, 0.5, 1),), 1e-30),
    ("corner-12", ((0.5, 0.999999, 3),), 1e-10),
    ("corner-13", ((1.0, 0.25, 2),), 1e-12),
    ("corner-14", ((0.7, 0.1, 2),), 1e-4),
    ("corner-15", ((3.0, 0.01, 1),), 1e-9),
    ("corner-16", ((0.5, 0.1, 3),), 0.01),
    ("flat-1", ((300.0, 0.001, 10),), 3e-9),
    ("flat-2", ((50.0, 1e-4, 10_000),), 7e-5),
    ("mixed-1", ((1.0, 0.01, 100), (2.0, 0.05, 50), (5.0, 1.0, 3)), 1e-6),
    ("mixed-2", ((0.5, 1e-3, 300), (3.0, 0.2, 7)), 1e-9),
    ("mixed-3", ((1.0, 0.01, 1000), (1.2, 0.01, 1000), (1.5, 0.02, 1000), (2.0, 0.04, 1000)), 1e-5),
    ("mixed-4", ((0.3, 1e-4, 100), (10.0, 1.0, 1)), 1e-7),
]


def cases() -> list[Case]:
    """All settings, the same at every run."""
    return [*CHOSEN, *drawn(120), *small_losses(24)]


def _use_flint() -> None:
    """Sum exponentials by python-flint if it is installed: the same sums, four times faster."""
    try:
        import flint
    except ImportError:
        return

    def exact(z: mp.mpc) -> flint.acb:
        return flint.acb(flint.arb(z.real), flint.arb(z.imag))

    def number(x: flint.arb) -> mp.mpf:
        mantissa, exponent = x.mid().man_exp()
        return mp.ldexp(mp.mpf(int(mantissa)), int(exponent))

    converted: dict[int, tuple[list, list]] = {}

    def total(terms, kept, s):
        flint.ctx.prec = mp.mp.prec
        if id(terms) not in converted:
            if len(converted) > 10:
                converted.clear()
            # `terms` is kept as well, so that its number stays its own
            converted[id(terms)] = terms, [tuple(exact(x) for x in pair) for pair in terms]
        at, point = converted[id(terms)][1], exact(s)
        result = flint.acb(0)
        for k in kept:
            weight, ratio = at[k]
            result += (weight + point * ratio).exp()
        return mp.mpc(number(result.real), number(result.imag))

    composition_truth.sum_of_exponentials = total


def _stop(*_: object) -> None:
    raise NotConvergedError("out of time")


def entry(case: Case) -> dict | str:
    """Return the entry of a setting, or why there is none."""
    name, events, delta = case
    steps = tuple(Step(*event) for event in events)
    signal.signal(signal.SIGVTALRM, _stop)
    solved, failures = {}, {}
    with mp.workdps(60):
        for direction in (REMOVE, ADD):
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
                solved[direction] = solve(steps, direction, delta)
            except ArithmeticError as reason:
                failures[direction] = reason
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        # A direction that did not converge is left out if Chernoff's bound shows it to be the smaller one.
        if any(
            Composition(steps, d).chernoff(delta) >= max([e for e, _ in solved.values()], default=0) for d in failures
        ):
            return f"{name} {events} {delta} {failures}"
        larger = max(solved, key=lambda direction: solved[direction][0])
        at = float(f"{float(solved[larger][0]):.3g}")
        epsilons = {d: mp.nstr(epsilon, DIGITS) for d, (epsilon, _) in solved.items()}
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
            deltas = {d: mp.nstr(composition.delta(at), DIGITS) for d, (_, composition) in solved.items()}
        except ArithmeticError as reason:
            return f"{name} at: {reason}"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    if at == 0.0 and not _agree(deltas.values()):
        return f"{name} at: the two directions of δ(0), one total variation distance, differ: {deltas}"
    return {"id": name, "events": events, "delta": delta, "epsilon": epsilons, "at": at, "delta_at": deltas}


def _agree(values: Iterable[str]) -> bool:
    """Return whether all are there, and the same to 20 digits."""
    numbers = [mp.mpf(value) for value in values]
    return len(numbers) == 2 and abs(numbers[0] - numbers[1]) <= abs(numbers[0]) * mp.mpf("1e-20")


def entry_or_kept(kept: dict[str, dict], case: Case) -> dict | str:
    """Return the entry that an earlier run found for the same setting, or a new one."""
    name, events, delta = case
    old = kept.get(name)
    return old if old and (old["events"], old["delta"]) == ([list(e) for e in events], delta) else entry(case)


def main(processes: int) -> None:
    """Write the file."""
    kept = {e["id"]: e for e in json.loads(PATH.read_text())} if PATH.exists() else {}
    order = [name for name, *_ in cases()]
    found, missed = [], 0
    with ProcessPoolExecutor(processes, initializer=_use_flint) as pool:
        running = [pool.submit(entry_or_kept, kept, case) for case in cases()]
        for future in as_completed(running):
            result = future.result()
            print(result if isinstance(result, str) else result["id"], flush=True)
            if isinstance(result, str):
                missed += 1
                continue
            found.append(result)
            known = {**kept, **{e["id"]: e for e in found}}
            lines = ",\n".join(json.dumps(known[name]) for name in order if name in known)
            PATH.write_text(f"[\n{lines}\n]\n")
    print(f"{len(found)} compositions, {missed} left out")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
