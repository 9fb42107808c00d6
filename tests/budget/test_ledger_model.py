"""The ledger does what a page of fractions does, in whatever order it is asked, opened, dropped and opened again.

Run as a program for a longer search: `python tests/budget/test_ledger_model.py --seconds 600 --sequences 50000`.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from ferrodp.accounting import EpsilonDeltaEvent, LaplaceEvent
from ferrodp.budget import PrivacyLedger
from ferrodp.errors import BudgetExceeded, InvalidParameter, KeyUsed, TicketError
from reference.ledger_model import LedgerModel, Refused

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # what survives a crash is tested elsewhere
ERRORS = {"budget": BudgetExceeded, "ticket": TicketError, "key": KeyUsed, "parameter": InvalidParameter}

# Costs that are whole numbers of units, so that nothing is rounded and refusals have to agree to the last one.
EVENTS = [
    *((LaplaceEvent(noise_multiplier=float(n)), (Fraction(1, n), Fraction(0))) for n in (1, 3, 7, 10, 97)),
    *(
        (EpsilonDeltaEvent(epsilon=epsilon, delta=delta), (Fraction(epsilon), Fraction(delta)))
        for epsilon, delta in ((0.0, 0.0), (0.1, 0.0), (0.0, 1e-7), (0.3, 1e-6), (2.0**-40, 2.0**-60))
    ),
]
SCOPES = ("a", "a/b", "a/b/c", "a/e", "ab", "d")
SOME = st.lists(st.sampled_from(SCOPES), min_size=1, max_size=3)
CAPS = st.tuples(st.sampled_from([0.5, 2.0, 10.0, 100.0]), st.sampled_from([0.0, 1e-6, 2e-6, 1e-5]))
KEYS = st.none() | st.sampled_from(["one", "two", "three"])
INDEX = st.integers(0, 7)


def cap_of(epsilon, delta):
    """Caps of "pure" are taken exactly as they are written."""
    return Fraction(epsilon), Fraction(delta)


class LedgerMachine(RuleBasedStateMachine):
    sequences = 0

    def __init__(self):
        super().__init__()
        type(self).sequences += 1
        self.folder = tempfile.mkdtemp(dir=MEMORY, prefix="ledger")
        self.path = f"{self.folder}/budget.db"
        self.model = LedgerModel()
        self.handles = []
        self.tickets = []  # ticket, what the model calls it, the handle's index
        self.leases = []
        self.step = 0

    @initialize(first=CAPS, second=CAPS, names=st.sampled_from([("a", "a/b", "d"), ("a/b/c", "a/e", "a/b")]))
    def begin(self, first, second, names):
        self.open()
        for name, cap in zip(names, (first, second, (10.0, 1e-5)), strict=True):
            self.create(0, name, cap)

    def agree(self, ours, theirs):
        """Both are asked; both refuse for the same reason, or neither does. Return both answers."""
        try:
            expected = theirs()
        except Refused as refusal:
            with pytest.raises(ERRORS[str(refusal)]):
                ours()
            return None
        return ours(), expected

    def handle(self, index):
        return self.handles[index % len(self.handles)]

    @precondition(lambda self: len(self.handles) < 3)
    @rule()
    def open(self):
        self.handles.append(PrivacyLedger.open(self.path))

    @rule(index=INDEX)
    def close(self, index):
        self.leave(index, lambda ledger: ledger.close())

    @rule(index=INDEX)
    def crash(self, index):
        """The handle is dropped; whatever was not written down is lost, and nothing else."""
        self.leave(index, lambda ledger: ledger._access.finished.clear())

    def leave(self, index, how):
        index %= len(self.handles)
        ledger = self.handles.pop(index)
        self.tickets = [entry for entry in self.tickets if entry[2] is not ledger]
        self.leases = [entry for entry in self.leases if entry[2] is not ledger]
        how(ledger)
        del ledger
        if not self.handles:
            self.open()

    @rule(index=INDEX, name=st.sampled_from(SCOPES), cap=CAPS)
    def create(self, index, name, cap):
        epsilon, delta = cap
        self.agree(
            lambda: self.handle(index).create(name, epsilon=epsilon, delta=delta, measure="pure"),
            lambda: self.model.create(name, cap_of(*cap)),
        )

    @rule(index=INDEX, name=st.sampled_from(["a", "a/b"]))
    def create_around(self, index, name):
        self.create(index, name, (100.0, 1e-5))

    @rule(index=INDEX, names=SOME, event=st.sampled_from(EVENTS), key=KEYS)
    def reserve(self, index, names, event, key):
        self.hold(index, names, event, key, False)

    def hold(self, index, names, event, key, again_ok):
        ledger, known = self.handle(index), set(self.model.keys.values())
        both = self.agree(
            lambda: ledger.reserve(names, event[0], key=key, again_ok=again_ok),
            lambda: self.model.reserve(names, event[1], key=key, again_ok=again_ok),
        )
        if both is not None:
            ticket, paid = both
            assert ticket.is_new == (paid not in known)
            assert all((ticket.id == other.id) == (paid is known) for other, known, _ in self.tickets)
            assert (ticket.state.value == "held") == (paid.state == "held")
            self.tickets.append((ticket, paid, ledger))

    @rule(index=INDEX, names=SOME, event=st.sampled_from(EVENTS), key=KEYS)
    def spend(self, index, names, event, key):
        self.charge_once(index, names, event, key, False)

    def charge_once(self, index, names, event, key, again_ok):
        both = self.agree(
            lambda: self.handle(index).spend(names, event[0], key=key, again_ok=again_ok),
            lambda: self.model.spend(names, event[1], key, again_ok),
        )
        assert both is None or both[0] is both[1]

    @precondition(lambda self: self.model.keys)
    @rule(index=INDEX, which=INDEX, spend=st.booleans(), ok=st.booleans(), other=st.none() | st.sampled_from(EVENTS))
    def use_a_key_again(self, index, which, spend, ok, other):
        slot = sorted(self.model.keys)[which % len(self.model.keys)]
        key, (names, cost, _) = slot[1], self.model.keys[slot].what
        event = other or next(event for event in EVENTS if event[1] == cost)
        (self.charge_once if spend else self.hold)(index, list(names), event, key, ok)

    @precondition(lambda self: self.tickets)
    @rule(which=st.integers(0, 30), action=st.sampled_from(["arm", "cancel", "close"]))
    def use(self, which, action):
        live = [entry for entry in self.tickets if entry[1].state in ("held", "armed")] or self.tickets
        ticket, paid, _ = live[which % len(live)]
        known = ticket.state.value

        def expected():
            if action == "close":
                if known != "held":
                    return
                self.model.cancel(paid)
            elif known != "held":
                raise Refused("ticket")
            else:
                getattr(self.model, action)(paid)

        self.agree(getattr(ticket, action), expected)

    @rule(index=INDEX, names=SOME, event=st.sampled_from(EVENTS), count=st.integers(1, 12))
    def lease(self, index, names, event, count):
        ledger = self.handle(index)
        both = self.agree(
            lambda: ledger.lease(names, event[0], count=count),
            lambda: self.model.reserve(names, event[1], count=count, state="armed"),
        )
        if both is not None:
            self.leases.append((*both, ledger))

    @precondition(lambda self: self.leases)
    @rule(which=INDEX, draws=st.integers(0, 12))
    def draw_and_close(self, which, draws):
        lease, paid, _ = self.leases.pop(which % len(self.leases))
        drawn = 0
        for _ in range(min(draws, paid.count)):
            drawn += self.agree(lambda: (lease.draw().arm(),), lambda: (self.model.check_running(paid),)) is not None
        lease.close()
        self.model.end_lease(paid, paid.count - drawn)

    @rule(index=INDEX, name=st.sampled_from(SCOPES), cap=CAPS, more=st.booleans())
    def change_cap(self, index, name, cap, more):
        ledger = self.handle(index)
        change = ledger.raise_cap if more else ledger.lower_cap
        self.agree(
            lambda: change(name, epsilon=cap[0], delta=cap[1], reason="asked for"),
            lambda: self.model.change_cap(name, cap_of(*cap), more=more),
        )

    @rule(index=INDEX, name=st.sampled_from(SCOPES), frozen=st.booleans())
    def freeze(self, index, name, frozen):
        ledger = self.handle(index)

        def expected():
            self.model.around([name])
            self.model.scopes[name].frozen = frozen

        self.agree(lambda: (ledger.freeze if frozen else ledger.thaw)(name, reason="asked for"), expected)

    @rule(index=INDEX, names=SOME, event=st.sampled_from(EVENTS))
    def count(self, index, names, event):
        both = self.agree(
            lambda: self.handle(index).remaining_count(names, event[0]), lambda: self.model.remaining(names, event[1])
        )
        assert both is None or both[0] == both[1]

    @invariant()
    def every_handle_sees_the_same(self):
        self.step += 1
        ledger = self.handle(self.step)
        head = ledger.verify()
        assert {other.head for other in self.handles} == {head}
        for name in self.model.scopes:
            event, cost = EVENTS[(3, 8)[self.step % 2]]
            assert ledger.remaining_count(name, event) == self.model.remaining([name], cost)

    def teardown(self):
        for ledger in self.handles:
            ledger.close()
        shutil.rmtree(self.folder)


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
QUICK = [Phase.generate]  # shrinking takes minutes; the program below does it


class TestLedger(LedgerMachine.TestCase):
    settings = settings(max_examples=200, stateful_step_count=30, suppress_health_check=QUIET, phases=QUICK)


def main():
    """Search for as long as asked, with new examples every time."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--sequences", type=int, default=50_000)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    begin = time.monotonic()
    while LedgerMachine.sequences < options.sequences and time.monotonic() - begin < options.seconds:
        deep = settings(
            max_examples=min(50, options.sequences), stateful_step_count=options.steps, derandomize=False,
            database=None, deadline=None, suppress_health_check=QUIET,
        )  # fmt: skip
        run_state_machine_as_test(LedgerMachine, settings=deep)
    print(f"{LedgerMachine.sequences} sequences of up to {options.steps} steps in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
