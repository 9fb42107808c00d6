"""Random compositions with extreme parameters: what every answer of `PldAccountant` has to keep, and how long it takes.

Run as ``python tests/accounting/extreme_compositions.py --count 300``: a line for every composition that breaks a rule,
then how many were looked at, the slowest answers and the widest intervals. For each composition ε is asked at eight δ
from 10⁻³⁰⁰ to 1 − 10⁻¹², δ at six ε, and both for twice and for a hundred times as many repetitions. The rules:

- an interval is not crossed, and no interval contradicts another one about the same composition;
- upper and lower ends fall as δ grows and as ε grows, and rise with the count, to the last digits (see `SLACK`);
- no other method, where it applies, has a smaller upper end: Rényi divergences, the curve of a single step, the sum of
  all ε. In particular nothing is infinite that one of them bounds;
- no answer takes more than `MOST_SECONDS` of CPU time.

Parameters are log-uniform: noise 10⁻²–10³, sampling probabilities 10⁻¹²–1, counts 1–10⁹, one to three kinds of events.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    EpsilonDeltaEvent,
    ExponentialMechanismEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    NeighboringRelation,
    PldAccountant,
    PoissonSampledEvent,
    PrivacyEvent,
    PureDpAccountant,
    RandomizedResponseEvent,
    RdpAccountant,
    TruncatedPoissonSampledEvent,
)
from ferrodp.accounting.curves import hockey_stick_delta, hockey_stick_epsilon
from ferrodp.errors import UnsupportedEventError

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
DELTAS = (1e-300, 1e-100, 1e-39, 1e-12, 1e-5, 0.1, 0.9, 1.0 - 1e-12)
EPSILONS = (0.0, 1e-9, 0.01, 1.0, 30.0, 1e4)
SLACK = 2e-4
"""Relative: certified intervals are as wide as 10⁻⁴ of ε by design, and neighboring ones may lie on either side."""
SMALLEST_DELTA = 1e-290
"""Below it masses are no longer normal numbers: such a δ counts as 0."""
MOST_SECONDS = 1.0

Parts = tuple[tuple[PrivacyEvent, int], ...]


@dataclass(frozen=True)
class Setting:
    """A composition under a relation."""

    parts: Parts
    relation: NeighboringRelation


@dataclass
class Row:
    """What was found about a setting."""

    setting: Setting
    problems: list[str] = field(default_factory=list)
    slowest: float = 0.0
    slowest_call: str = ""
    widest: float = 0.0
    answers: int = 0


def settings(count: int, seed: int = 0) -> Iterator[Setting]:
    """Yield settings, the same for the same seed; a longer list begins with the shorter one."""
    rng = random.Random(f"extreme compositions {seed}")
    for _ in range(count):
        relation = rng.choice((ADD, ADD, REPLACE))
        kinds = rng.choice((1, 1, 1, 2, 2, 3))
        parts = tuple((_event(rng, relation), _count(rng)) for _ in range(kinds))
        yield Setting(parts, relation)


def _log(rng: random.Random, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def _count(rng: random.Random) -> int:
    return rng.choice((1, 1, max(1, int(_log(rng, 1.0, 1e9)))))


def _noise(rng: random.Random) -> PrivacyEvent:
    kind = rng.randrange(6)
    if kind <= 1:
        return GaussianEvent(noise_multiplier=_log(rng, 1e-2, 1e3))
    if kind <= 3:
        return LaplaceEvent(noise_multiplier=_log(rng, 1e-2, 1e3))
    if kind == 4:
        return DiscreteLaplaceEvent(scale=_log(rng, 0.1, 1e3), l1_sensitivity=rng.choice((1, 3)))
    return DiscreteGaussianEvent(scale=_log(rng, 0.3, 1e3), l2_sensitivity=rng.choice((1, 3)))


def _event(rng: random.Random, relation: NeighboringRelation) -> PrivacyEvent:
    kind = rng.randrange(10)
    if kind <= 2:
        return _noise(rng)
    if kind <= 5:
        inner: PrivacyEvent = _noise(rng)
        if rng.random() < 0.5:
            inner = GaussianEvent(noise_multiplier=_log(rng, 0.1, 1e2))
        return PoissonSampledEvent(sampling_probability=_log(rng, 1e-12, 1.0), event=inner)
    if kind == 6:
        delta = rng.choice((0.0, _log(rng, 1e-20, 0.5)))
        return EpsilonDeltaEvent(epsilon=rng.choice((0.0, _log(rng, 1e-3, 30.0))), delta=delta)
    if kind == 7:
        if relation is REPLACE:
            return RandomizedResponseEvent(noise_parameter=rng.uniform(0.01, 0.99), num_buckets=rng.choice((2, 100)))
        return ExponentialMechanismEvent(epsilon=_log(rng, 1e-3, 10.0))
    if kind == 8:
        population = rng.choice((10, 10**4, 10**9))
        size = max(1, int(population * rng.choice((1e-3, 0.1, 0.5))))
        return FixedSizeSampledEvent(population_size=population, sample_size=size, event=_noise(rng))
    if relation is REPLACE:
        return _noise(rng)
    if rng.random() < 0.5:
        chances = (0.5, 0.25, 0.25)
        return MixtureOfGaussiansEvent(
            noise_multiplier=_log(rng, 0.1, 1e2), shifts=(0.0, 1.0, rng.uniform(1.0, 3.0)), probabilities=chances
        )
    return TruncatedPoissonSampledEvent(
        population_size=1000, sampling_probability=0.01, truncated_batch_size=20, event=_noise(rng)
    )


def row(setting: Setting) -> Row:
    """Ask everything about a setting."""
    found = Row(setting)
    counts = (1, 2, 100)
    by_delta = [_ladder(found, times, "epsilon", DELTAS) for times in counts]
    by_epsilon = [_ladder(found, times, "delta", EPSILONS) for times in counts]
    for quantity, points, ladders in (("epsilon", DELTAS, by_delta), ("delta", EPSILONS, by_epsilon)):
        for times, ladder in zip(counts, ladders, strict=True):
            for (left, a), (right, b) in itertools.pairwise(zip(points, ladder, strict=True)):
                _falls(found, f"x{times}: {quantity} from {left!r} to {right!r}", quantity, a, b)
        for (few, one), (many, other) in itertools.pairwise(zip(counts, ladders, strict=True)):
            for at, a, b in zip(points, one, other, strict=True):
                _falls(found, f"{quantity}({at!r}) from x{many} to x{few}", quantity, b, a)
        for times, ladder in zip(counts, ladders, strict=True):
            for at, bounds in zip(points, ladder, strict=True):
                _least(found, times, quantity, at, bounds)
    return found


def _accountant(kind: Callable[..., object], setting: Setting, times: int) -> PldAccountant | None:
    accountant = kind(neighboring_relation=setting.relation)
    try:
        for event, count in setting.parts:
            accountant.compose(event, count * times)  # type: ignore[attr-defined]
    except UnsupportedEventError:
        return None
    return accountant  # type: ignore[return-value]


def _ladder(found: Row, times: int, quantity: str, points: tuple[float, ...]) -> list[Bounds]:
    accountant = _accountant(PldAccountant, found.setting, times)
    assert accountant is not None
    answers = []
    for at in points:
        began = time.process_time()
        bounds = accountant.epsilon_bounds(at) if quantity == "epsilon" else accountant.delta_bounds(at)
        seconds = time.process_time() - began
        found.answers += 1
        if seconds > found.slowest:
            found.slowest, found.slowest_call = seconds, f"x{times}: {quantity}({at!r})"
        if not 0.0 <= bounds.lower <= bounds.upper:
            found.problems.append(f"x{times}: {quantity}({at!r}) = {bounds} is crossed")
        answers.append(bounds)
    if found.slowest > MOST_SECONDS and not any("seconds" in problem for problem in found.problems):
        found.problems.append(f"{found.slowest_call} takes {found.slowest:.2f} seconds")
    return answers


def _slack(quantity: str, value: float) -> float:
    """Return what two bounds on the same number may differ by."""
    if value == math.inf:
        return 0.0
    return max(value * SLACK, SMALLEST_DELTA if quantity == "delta" else 0.0)


def _falls(found: Row, what: str, quantity: str, a: Bounds, b: Bounds) -> None:
    """Note it if `b` is above `a`."""
    if b.lower > a.upper:
        found.problems.append(f"{what}: {a} then {b} contradict each other")
    elif b.upper > a.upper + _slack(quantity, a.upper):
        found.problems.append(f"{what}: upper {a.upper!r} rises to {b.upper!r}")


def _least(found: Row, times: int, quantity: str, at: float, bounds: Bounds) -> None:
    """Note it if another method has less, or contradicts the lower end."""
    for name, upper, lower in _others(found.setting, times, quantity, at):
        if bounds.upper > upper + _slack(quantity, upper):
            found.problems.append(f"x{times}: {quantity}({at!r}) <= {bounds.upper!r}, but {name} has {upper!r}")
        if bounds.lower > upper or lower > bounds.upper:
            found.problems.append(f"x{times}: {quantity}({at!r}) = {bounds} contradicts {name}: {lower!r}, {upper!r}")
    if bounds.upper == math.inf and at >= 1e-100:
        found.widest = math.inf


def _others(setting: Setting, times: int, quantity: str, at: float) -> Iterator[tuple[str, float, float]]:
    for kind in (RdpAccountant, PureDpAccountant):
        accountant = _accountant(kind, setting, times)
        if accountant is not None:
            bounds = accountant.epsilon_bounds(at) if quantity == "epsilon" else accountant.delta_bounds(at)
            yield kind.__name__, bounds.upper, bounds.lower
    if len(setting.parts) == 1 and setting.parts[0][1] == times == 1:
        event, relation = setting.parts[0][0], setting.relation
        ask = hockey_stick_epsilon if quantity == "epsilon" else hockey_stick_delta
        bounds = ask(event, at, neighboring_relation=relation)
        yield ask.__name__, bounds.upper, bounds.lower


def main() -> None:
    """Look at many settings, and print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="how many compositions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first, so that processes share a run")
    chosen = parser.parse_args()
    rows = []
    for number, setting in enumerate(settings(chosen.first + chosen.count, chosen.seed)):
        if number < chosen.first:
            continue
        rows.append(row(setting))
        print(f"\r#{number}", end="", file=sys.stderr, flush=True)
        if rows[-1].problems:
            print(f"#{number} {setting}")
            for problem in rows[-1].problems:
                print("   ", problem, flush=True)
    answers, wrong = sum(row.answers for row in rows), sum(bool(row.problems) for row in rows)
    print(f"{len(rows)} compositions, {answers} answers, {wrong} compositions with problems")
    for each in sorted(rows, key=lambda row: -row.slowest)[:8]:
        print(f"{each.slowest:.2f} s: {each.slowest_call} of {each.setting}")


if __name__ == "__main__":
    main()
