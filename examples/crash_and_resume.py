"""A job that is killed between rounds, and goes on where it was: keys make sure that no round is released twice.

Private unit: one client, added or removed.
Guarantee: (4, 1e-6) for all rounds, whenever the job is killed and however often it is started.
"""

import os
import subprocess
import sys

import numpy as np

import ferrodp as fd

LEDGER, SCOPE, ROUNDS = "budget.db", "keyboard/next-word", 5
EVENT = fd.accounting.GaussianEvent(noise_multiplier=5.0)


def run(stop_in: int | None) -> None:
    """Release the rounds that have not been released yet; die in one of them if told so."""
    with fd.PrivacyLedger.open(LEDGER) as ledger:
        for number in range(ROUNDS):
            try:
                ticket = ledger.reserve(SCOPE, EVENT, key=f"round-{number}")
            except fd.errors.KeyUsed:  # its noise was drawn before: take the saved result, if there is one
                print(f"round {number}: {'saved' if os.path.exists(f'{number}.npy') else 'lost, and charged'}")
                continue
            again = "" if ticket.is_new else ", charged before the crash"
            if number == stop_in:
                os._exit(1)  # charged, not released
            total = fd.ClippedSum(np.zeros(1_000, np.float32), clip_norm=1.0)
            total.add_many(np.random.default_rng(number).standard_normal((100, 1_000), np.float32))
            with ticket:
                np.save(f"{number}.npy", total.release(noise_multiplier=5.0, ticket=ticket))
            print(f"round {number}: released{again}")


if __name__ == "__main__":
    if sys.argv[1:]:
        run(int(sys.argv[1]))
    else:
        with fd.PrivacyLedger.open(LEDGER) as ledger:
            ledger.create(SCOPE, epsilon=4.0, delta=1e-6)
        subprocess.run([sys.executable, __file__, "2"], check=False)
        print("killed in round 2; started again")
        run(None)
        with fd.PrivacyLedger.open(LEDGER) as ledger:
            print(f"charged: ε = {ledger.report(SCOPE).epsilon_charged:.3f} of 4.0 for {ROUNDS} rounds")
