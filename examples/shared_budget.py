"""Four processes release from one budget; the ledger lets through as many releases as the budget has room for.

Private unit: one person, added or removed. Each query is a count, so its L1 sensitivity is 1.
Guarantee: ε = 1 with δ = 0 for everything that the four processes release together.
"""

import multiprocessing
import time

import ferrodp as fd

LEDGER, SCOPE = "budget.db", "survey/2026"


def analyst(name: str) -> int:
    """Release counts until the budget is used up; return how many were released."""
    mechanism = fd.DiscreteLaplaceMechanism(scale=20)  # ε = 1/20
    with fd.PrivacyLedger.open(LEDGER) as ledger:  # every process opens the ledger for itself
        for number in range(1_000):
            try:
                ticket = ledger.reserve(SCOPE, mechanism.event, key=f"{name}-{number}")
            except fd.errors.BudgetExceeded:
                return number
            time.sleep(0.1)  # stands for the query, whose answer is 250
            with ticket:
                mechanism.release(250, ticket=ticket)
    return 1_000


if __name__ == "__main__":
    with fd.PrivacyLedger.open(LEDGER) as ledger:
        ledger.create(SCOPE, epsilon=1.0, delta=0.0, measure="pure")

    with multiprocessing.get_context("spawn").Pool(4) as pool:
        released = pool.map(analyst, ["Ada", "Bo", "Cy", "Di"], chunksize=1)

    with fd.PrivacyLedger.open(LEDGER) as ledger:
        report = ledger.report(SCOPE)
    print(f"releases of the four processes: {released}, {sum(released)} in all")
    print(f"charged: ε = {report.epsilon_charged} of {float(report.epsilon)}")
