"""How often `audit_callable` finds the mistakes of `tests/audit/planted.py`, and accuses the same releases done right.

``python benches/audit/planted.py --mistakes 3 --twins 200 --draws 200000``
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from scipy.stats import binom

from ferrodp.audit import AuditReport, audit_callable

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "audit"))
import planted

LEVEL = 1e-3
"""Of one audit: the default confidence is 99.9 %."""


def audited(case: planted.Case, release: Any, draws: int) -> AuditReport:
    return audit_callable(
        None,  # type: ignore[arg-type]
        neighbors=case.neighbors,
        epsilon=case.epsilon,
        delta=0.0,
        draws=draws,
        release_many=release,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mistakes", type=int, default=3, help="audits of each mistake")
    parser.add_argument("--twins", type=int, default=200, help="audits of each twin")
    parser.add_argument("--draws", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so many")
    args = parser.parse_args()
    planted.reseed(args.seed)
    began = time.perf_counter()
    alarms = runs = over = found = tried = 0
    for turn in range(max(args.mistakes, args.twins)):
        slowest = 0.0
        for name, case in planted.CASES.items():
            if turn < args.mistakes:
                before = time.process_time()
                report = audited(case, case.mistake, args.draws)
                slowest = max(slowest, time.process_time() - before)
                tried, found = tried + 1, found + report.violation
                print(f"{name}: found {report.violation}, {report.epsilon_lower_bound_999:.2f}, by {report.region}")
            if turn < args.twins:
                report = audited(case, case.twin, args.draws)
                runs, alarms = runs + 1, alarms + report.violation
                over += report.epsilon_lower_bound > case.epsilon
                if report.violation:
                    print(f"ALARM: {name}: {report.epsilon_lower_bound_999:.3f}, by {report.region}")
        print(
            f"turn {turn + 1}: mistakes {found} of {tried}; twins {alarms} alarms and {over} at 95 % of {runs} audits"
        )
        if slowest:
            print(f"slowest audit of a mistake: {slowest:.1f} s of processor time")
        sys.stdout.flush()
        if time.perf_counter() - began > 60.0 * args.minutes:
            break
    print(f"{args.draws} draws a side, seed {args.seed}, {time.perf_counter() - began:.0f} s")
    print(f"alarms: {alarms} of {runs}; at most {LEVEL * runs:.1f} expected, 99.9 % quantile", end=" ")
    print(int(binom.ppf(0.999, runs, LEVEL)) if runs else 0)
    print(f"bounds at 95 % above the claim: {over} of {runs}; at most {0.05 * runs:.0f} expected")


if __name__ == "__main__":
    main()
