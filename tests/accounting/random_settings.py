"""Certified intervals of random settings, against peers' intervals where they are installed and answer.

Run as ``python tests/accounting/random_settings.py --count 10000 --peers FILE``. A row of FILE is written for every
setting as soon as it is done; a run that was stopped goes on where it stopped, and ``--report FILE`` prints what is
there: the settings that contradict something (there must be none), median and 99th percentile of the widths, what stays
wide, and how many settings were compared with whom. Without ``--peers`` nobody else is asked.

Settings are log-uniform: noise multiplier 0.2–1000, sampling probability 1e-6–1, steps 1–10⁶, δ 1e-15–0.1. A peer's
interval is (lower, upper) of dp_accounting (its optimistic and its pessimistic estimate) and of prv_accountant; ours
has to meet it. An interval is as true on a coarse grid as on a fine one: grids are as fine as `PEER_NODES` nodes allow,
and what still takes more than `PEER_SECONDS` is given up. Their bounds are those of real arithmetic: a coefficient of a
transform is off by a few units, and its T-th power by T times that. They are therefore asked at δ less (for the upper
end) and more (for the lower one) T·2⁻⁴⁹, and not at all where that is no small part of δ, nor below δ = 1e-11.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import signal
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

BOX = {"noise_multiplier": (0.2, 1000.0), "sampling_probability": (1e-6, 1.0), "count": (1, 1e6), "delta": (1e-15, 0.1)}
PEER_SECONDS = 0.8
PEER_MEMORY = 4 << 30
PEER_NODES = 1 << 15
PEER_LEAST_DELTA = 1e-11
PEER_ROUNDING = 2.0**-49  # 16 units: those of a transform of 2¹⁵ numbers or 2¹⁶


@dataclass(frozen=True)
class Setting:
    """One composition and the δ that is asked."""

    noise_multiplier: float
    sampling_probability: float
    count: int
    delta: float


@dataclass(frozen=True)
class Row:
    """A setting, our interval, how long it took, others' intervals, and why others have none."""

    setting: Setting
    lower: float
    upper: float
    seconds: float
    method: str
    peers: dict[str, tuple[float, float]] = field(default_factory=dict)
    unanswered: dict[str, str] = field(default_factory=dict)

    @property
    def width(self) -> float:
        """The width relative to ε, or to 10⁻⁶ where ε is smaller."""
        if math.isinf(self.upper):
            return math.inf
        return (self.upper - self.lower) / max(self.upper, 1e-6)

    @property
    def contradictions(self) -> list[str]:
        """What cannot be true."""
        found = [] if 0.0 <= self.lower <= self.upper else ["lower above upper"]
        for name, (low, high) in self.peers.items():
            if self.lower > high or self.upper < low:
                found.append(f"{name} has ({low!r}, {high!r})")
        return found


def settings(count: int, seed: int = 0) -> Iterator[Setting]:
    """Yield settings, the same for the same seed; a longer list begins with the shorter one."""
    rng = random.Random(f"random settings {seed}")
    for _ in range(count):
        drawn = {name: math.exp(rng.uniform(math.log(low), math.log(high))) for name, (low, high) in BOX.items()}
        yield Setting(**{**drawn, "count": int(drawn["count"])})


def interval(setting: Setting) -> tuple[float, float, str]:
    """Return our bounds on ε, and the method that found them."""
    told = _accountant(setting).explain(setting.delta)
    return told.lower, told.value, told.method


def _accountant(setting: Setting):
    from ferrodp.accounting import GaussianEvent, PldAccountant, PoissonSampledEvent

    accountant = PldAccountant()
    event = GaussianEvent(noise_multiplier=setting.noise_multiplier)
    event = PoissonSampledEvent(sampling_probability=setting.sampling_probability, event=event)
    accountant.compose(event, setting.count)
    return accountant


def google_interval(setting: Setting) -> tuple[float, float]:
    """Return what dp_accounting's optimistic and pessimistic estimates say."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    # What its grid has to hold: the losses of a step, whose tails it cuts at 1e-15, and of all steps.
    sigma, q = setting.noise_multiplier, setting.sampling_probability
    step = math.log1p(q * math.expm1(min(0.5 / sigma**2 + 8.0 / sigma, 700.0))) - math.log1p(-min(q, 1 - 1e-6))
    total = 2.0 * _accountant(setting).epsilon(1e-14)
    ends = []
    for pessimistic in (False, True):
        law = pld.from_gaussian_mechanism(
            sigma,
            pessimistic_estimate=pessimistic,
            sampling_prob=q,
            value_discretization_interval=max(step, total, 1e-9) / PEER_NODES,
            use_connect_dots=pessimistic,
        )
        ends.append(law.self_compose(setting.count).get_epsilon_for_delta(_asked(setting)[pessimistic]))
    return ends[0], ends[1]


def _asked(setting: Setting) -> tuple[float, float]:
    """Return the δ to ask a peer's lower and upper end at."""
    rounding = setting.count * PEER_ROUNDING
    return setting.delta + rounding, setting.delta - rounding


def microsoft_interval(setting: Setting) -> tuple[float, float]:
    """Return prv_accountant's bounds."""
    from prv_accountant.accountant import PRVAccountant, compute_safe_domain_size
    from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism as Mechanism
    from prv_accountant.privacy_random_variables import PrivacyRandomVariableTruncated as Truncated

    delta_error = setting.delta / 1000
    counts = [setting.count]
    # Its grid: [−L, L] in steps of error/√(k/2·ln(12/δ_error)), L some 3 more than a Rényi bound on ε.
    reach = 3.0 + 1.5 * _accountant(setting).epsilon(delta_error / 4)
    steps = math.sqrt(0.5 * setting.count * math.log(12.0 / delta_error))
    law = Mechanism(sampling_probability=setting.sampling_probability, noise_multiplier=setting.noise_multiplier)
    error = max(2.0 * reach * steps / PEER_NODES, 0.001)
    reach = compute_safe_domain_size([law], counts, eps_error=error, delta_error=delta_error)
    accountant = PRVAccountant(
        prvs=[law], max_self_compositions=counts, eps_error=error, delta_error=delta_error, eps_max=reach
    )
    composed = accountant.compute_composition(counts)
    # Its bounds rest on the mean of the loss, which it integrates on one panel from 0.1 to L, and the period of its
    # transform has to begin at the right place; on coarse grids both can be far off.
    truncated = Truncated(law, -reach, reach)
    mean = setting.count * _mean(truncated)
    found = float((composed.domain.ts() * composed.pmf).sum())
    if max(abs(setting.count * truncated.mean() - mean), abs(found - mean)) > 0.1 * error:
        raise _MeanError
    ends = [composed.compute_epsilon(each, delta_error, error) for each in _asked(setting)]
    if ends[1][2] > composed.domain.t_max():
        raise _GridError
    return max(ends[0][0], 0.0), ends[1][2]


class _MeanError(ArithmeticError):
    """A peer's mean is too far off for its error bound."""


class _GridError(ArithmeticError):
    """A peer's bound lies beyond the end of its grid."""


def _mean(truncated) -> float:
    """Return the mean of a law from its distribution function, on many panels."""
    import numpy as np

    end, (nodes, weights) = truncated.t_max, np.polynomial.legendre.leggauss(24)
    edges = np.concatenate([[0.0], np.geomspace(1e-9, end, 240)])
    centers, halves = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    x = centers[:, None] + halves[:, None] * nodes
    above, below = 1.0 - truncated.cdf(x), truncated.cdf(-x)
    return float(np.sum(halves[:, None] * weights * (above - below)))


PEERS = {"dp_accounting": google_interval, "prv_accountant": microsoft_interval}


class _OutOfTimeError(Exception):
    pass


def _stop(*_: object) -> None:
    raise _OutOfTimeError


def ask_peers(setting: Setting) -> tuple[dict[str, tuple[float, float]], dict[str, str]]:
    """Return the intervals of the peers that answer in time, with numbers, and why the others do not."""
    found, unanswered = {}, {}
    if setting.delta < PEER_LEAST_DELTA:
        return found, dict.fromkeys(PEERS, "small delta")
    if setting.count * PEER_ROUNDING > setting.delta / 8:
        return found, dict.fromkeys(PEERS, "rounding")
    signal.signal(signal.SIGVTALRM, _stop)
    for name, ask in PEERS.items():
        signal.setitimer(signal.ITIMER_VIRTUAL, PEER_SECONDS)
        try:
            low, high = ask(setting)
            if math.isfinite(low) and math.isfinite(high) and low <= high:
                found[name] = (float(low), float(high))
            else:
                unanswered[name] = "no interval"
        except _OutOfTimeError:
            unanswered[name] = "out of time"
        except Exception as error:  # whatever a peer cannot do is no evidence
            unanswered[name] = type(error).__name__
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return found, unanswered


def row(setting: Setting, with_peers: bool = False) -> Row:
    """Return the row of a setting."""
    start = time.process_time()
    lower, upper, method = interval(setting)
    seconds = time.process_time() - start
    return Row(setting, lower, upper, seconds, method, *(ask_peers(setting) if with_peers else ()))


def read(path: Path) -> list[Row]:
    """Return the rows that a run has written so far."""
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    return [Row(**{**each, "setting": Setting(**each["setting"])}) for each in rows]


def main() -> None:
    """Draw, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peers", type=Path, help="ask peers too; write all rows there")
    parser.add_argument("--report", type=Path, help="print what such a file says")
    options = parser.parse_args()
    if options.report:
        report(read(options.report))
        return
    warnings.simplefilter("ignore")  # the peers' own
    todo = list(settings(options.count, options.seed))
    if not options.peers:
        report([row(setting) for setting in todo])
        return
    resource.setrlimit(resource.RLIMIT_AS, (PEER_MEMORY, PEER_MEMORY))
    done = 0
    if options.peers.exists():
        lines = [line for line in options.peers.read_text().splitlines() if line.endswith("}")]  # all but a torn one
        options.peers.write_text("".join(line + "\n" for line in lines))
        done = len(lines)
    with options.peers.open("a") as file:
        for setting in todo[done:]:
            file.write(json.dumps(asdict(row(setting, with_peers=True))) + "\n")
            file.flush()
    report(read(options.peers))


def report(rows: list[Row]) -> None:
    """Print what was found."""
    widths = sorted(r.width for r in rows)
    bad = [r for r in rows if r.contradictions]
    print(f"{len(rows)} settings, {len(bad)} contradictions")
    for r in bad:
        print(f"  {r.setting} ({r.lower!r}, {r.upper!r}): {'; '.join(r.contradictions)}")
    for name in PEERS:
        compared = [r for r in rows if name in r.peers]
        widths_there = [r.peers[name][1] - r.peers[name][0] for r in compared]
        tighter = sum(r.upper - r.lower < width for r, width in zip(compared, widths_there, strict=True))
        close = sum(width < 0.1 * r.peers[name][1] for r, width in zip(compared, widths_there, strict=True))
        reasons = Counter(r.unanswered[name] for r in rows if name in r.unanswered)
        print(f"  compared with {name}: {len(compared)}; {close} of its intervals narrower than 10 %")
        print(f"    ours is narrower in {tighter}; not compared: {dict(reasons)}")
    print(f"  compared with any: {sum(bool(r.peers) for r in rows)}")
    print(f"relative width: median {widths[len(widths) // 2]:.2e}, 99th percentile {_quantile(widths, 0.99):.2e}")
    times = sorted(r.seconds for r in rows)
    middle, high = times[len(times) // 2], _quantile(times, 0.99)
    print(f"processor time: median {middle:.2e} s, 99th percentile {high:.2e} s, most {times[-1]:.2e} s")
    wide = sorted((r for r in rows if r.width > 0.01), key=lambda r: -r.width)
    print(f"{len(wide)} wider than 1 %:")
    for r in wide[:60]:
        s = r.setting
        print(
            f"  z={s.noise_multiplier:.4g} q={s.sampling_probability:.4g} T={s.count} delta={s.delta:.3g} "
            f"T*q={s.count * s.sampling_probability:.3g}: ({r.lower:.6g}, {r.upper:.6g}) {r.method}"
        )


def _quantile(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)]


if __name__ == "__main__":
    main()
