"""The process that lesson 5 ends: it pays for a release, makes it, and says so, again and again.

Called with the path of a ledger, the noise multiplier and the number of releases. After these it pays for one more and
waits before it draws, so that whoever started it can end it between the two.
"""

from __future__ import annotations

import sys

import ferrodp as fd


def main(path: str, noise_multiplier: float, releases: int) -> None:
    """Release the number 0 so many times, each paid for, and stop between payment and noise of the next."""
    mechanism = fd.GaussianMechanism(noise_multiplier=noise_multiplier, l2_sensitivity=1.0)
    with fd.PrivacyLedger.open(path, create=False, allow_unsafe_file_system=True) as ledger:
        for number in range(releases):
            with ledger.reserve("lesson", mechanism.event, key=f"query-{number}") as ticket:
                mechanism.release(0.0, ticket=ticket)
            print("released", flush=True)
        ledger.reserve("lesson", mechanism.event, key=f"query-{releases}")
        print("paid", flush=True)
        sys.stdin.read()  # ends when whoever started this process ends


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
