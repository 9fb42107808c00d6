"""The ledger, in a file and on a server: scopes, charges, tickets, leases, and what each refuses."""

import contextlib
import threading
from collections import Counter, defaultdict
from decimal import Decimal
from fractions import Fraction

import pytest

import ferrodp as fd
from ferrodp import _native
from ferrodp.accounting import (
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    NonPrivateEvent,
    PldAccountant,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from ferrodp.accounting.filters import ZcdpFilter
from ferrodp.budget import Head, PrivacyLedger, TicketState, _measures
from ferrodp.budget.stores import rows as _rows
from ferrodp.errors import (
    BudgetExceeded,
    InvalidParameter,
    InvalidType,
    KeyUsed,
    LedgerError,
    TicketError,
    UnsupportedEventError,
)

TENTH = LaplaceEvent(noise_multiplier=10.0)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture(params=["file", "url"], ids=["sqlite", "postgresql"])
def path(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def ledger(path):
    with PrivacyLedger.open(path) as opened:
        opened.create("hospital", epsilon=1.0, delta=0.0, measure="pure")
        yield opened


def test_ten_tenths_fit_into_one_and_nothing_more(ledger):
    for _ in range(10):
        ledger.spend("hospital", TENTH)

    assert ledger.remaining_count("hospital", LaplaceEvent(noise_multiplier=1e300)) == 0
    with pytest.raises(BudgetExceeded, match="room for 0 more"):
        ledger.spend("hospital", LaplaceEvent(noise_multiplier=1e300))
    assert ledger.odometer("hospital").epsilon == 1.0


def test_what_is_charged_survives_the_process(ledger, path):
    ledger.spend("hospital", TENTH)
    ledger.reserve("hospital", TENTH)

    with PrivacyLedger.open(path) as again:
        report = again.report("hospital")

    assert (report.spent, report.held, report.epsilon_charged) == (1, 1, 0.2)


def test_a_key_is_charged_once_and_names_one_thing(ledger):
    first = ledger.reserve("hospital", TENTH, key="round-7")
    again = ledger.reserve("hospital", TENTH, key="round-7")

    assert first.id == again.id
    assert ledger.remaining_count("hospital", TENTH) == 9
    with pytest.raises(TicketError, match="round-7"):
        ledger.reserve("hospital", LaplaceEvent(noise_multiplier=11.0), key="round-7")


def test_one_of_two_holders_of_a_key_arms_it(ledger, path):
    first = ledger.reserve("hospital", TENTH, key="round-7")
    with PrivacyLedger.open(path) as other:
        second = other.reserve("hospital", TENTH, key="round-7")
        second.arm()

        with pytest.raises(TicketError, match="armed"):
            first.cancel()
        with pytest.raises(TicketError, match="armed"):
            first.arm()
        assert ledger.reserve("hospital", TENTH, key="round-7", again_ok=True).state is TicketState.ARMED


def test_a_key_is_used_once_its_release_has_begun(ledger, path):
    assert not ledger.key_used("hospital", TENTH, key="round-7")
    ticket = ledger.reserve("hospital", TENTH, key="round-7")
    assert not ledger.key_used("hospital", TENTH, key="round-7")
    ticket.cancel()
    assert not ledger.key_used("hospital", TENTH, key="round-7")
    ticket = ledger.reserve("hospital", TENTH, key="round-7")
    ticket.arm()
    with PrivacyLedger.open(path) as other:
        assert other.key_used("hospital", TENTH, key="round-7")
        ticket.close()
        assert other.key_used("hospital", TENTH, key="round-7")
        with pytest.raises(TicketError, match="used for another reservation"):
            other.key_used("hospital", LaplaceEvent(noise_multiplier=2.0), key="round-7")
    with pytest.raises(InvalidType, match="key must be a str"):
        ledger.key_used("hospital", TENTH, key=None)


def test_only_held_tickets_are_given_back(ledger):
    ticket = ledger.reserve("hospital", TENTH, key="round-7")
    ticket.cancel()
    assert ledger.remaining_count("hospital", TENTH) == 10

    with ledger.reserve("hospital", TENTH, key="round-7") as ticket:
        ticket.arm()
        with pytest.raises(TicketError):
            ticket.cancel()
    assert ticket.state is TicketState.SPENT
    assert ledger.remaining_count("hospital", TENTH) == 9


def test_a_block_that_releases_nothing_gives_its_ticket_back(ledger):
    with pytest.raises(ZeroDivisionError), ledger.reserve("hospital", TENTH):
        raise ZeroDivisionError

    assert ledger.remaining_count("hospital", TENTH) == 10


def test_scopes_around_a_scope_are_charged_too(ledger):
    ledger.create("hospital/images", epsilon=5.0, delta=0.0, measure="pure")
    ledger.create("clinic", epsilon=5.0, delta=0.0, measure="pure")

    ledger.spend(["hospital/images", "clinic"], TENTH)

    assert ledger.odometer("hospital").epsilon == ledger.odometer("clinic").epsilon == 0.1
    assert ledger.remaining_count("hospital/images", TENTH) == 9


def test_a_charge_that_does_not_fit_somewhere_is_charged_nowhere(ledger):
    ledger.create("clinic", epsilon=5.0, delta=0.0, measure="pure")

    with pytest.raises(BudgetExceeded, match="hospital"):
        ledger.reserve(["clinic", "hospital"], LaplaceEvent(noise_multiplier=0.5))

    assert ledger.odometer("clinic").epsilon == 0.0


def test_a_lease_is_charged_at_once_and_gives_back_what_is_left(ledger):
    with ledger.lease("hospital", TENTH, count=8) as lease:
        assert ledger.remaining_count("hospital", TENTH) == 2
        lease.draw().arm()
        lease.draw()

    assert ledger.remaining_count("hospital", TENTH) == 8
    with pytest.raises(TicketError, match="closed"):
        lease.draw()


def test_many_threads_that_use_the_same_keys_are_charged_once_for_each(ledger):
    """They ride in common transactions, in which keys and tickets are looked up together."""
    ledger.create("many", epsilon=100.0, delta=0.0, measure="pure")
    earlier = {f"key {number}": ledger.reserve("many", TENTH, key=f"key {number}").id for number in range(5)}
    found, armed, lock = defaultdict(set), Counter(), threading.Lock()

    def work(first):
        for number in range(20):
            key = f"key {(first + number) % 20}"
            ticket = ledger.reserve("many", TENTH, key=key, again_ok=True)
            with contextlib.suppress(TicketError):
                ticket.arm()
                with lock:
                    armed[key] += 1
            with lock:
                found[key].add(ticket.id)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == len(armed) == 20
    assert {len(names) for names in found.values()} == set(armed.values()) == {1}
    assert all(found[key] == {name} for key, name in earlier.items())
    assert ledger.remaining_count("many", TENTH) == 980
    assert ledger.report("many").armed == 20
    ledger.verify()


def test_a_lease_that_is_never_closed_is_spent(ledger, path):
    ledger.lease("hospital", TENTH, count=8).draw()

    with PrivacyLedger.open(path) as again:
        assert again.remaining_count("hospital", TENTH) == 2


def test_sums_are_those_of_the_filter(path):
    event = GaussianEvent(noise_multiplier=10.0)
    with PrivacyLedger.open(path) as ledger:
        ledger.create("study", epsilon=8.0, delta=1e-5, measure="zcdp")

        expected = ZcdpFilter.for_budget(epsilon=8.0, delta=1e-5).remaining_count(event)
        assert ledger.remaining_count("study", event) == expected


@pytest.mark.parametrize("measure", ["rdp", "zcdp", "gdp"])
def test_what_is_spent_is_never_more_than_what_was_promised(path, measure):
    event = GaussianEvent(noise_multiplier=30.0)
    with PrivacyLedger.open(path) as ledger:
        ledger.create("study", epsilon=2.0, delta=1e-6, measure=measure)
        count = ledger.remaining_count("study", event)
        ledger.lease("study", event, count=count)

        accountant = PldAccountant()
        accountant.compose(event, count)
        assert accountant.epsilon_bounds(1e-6).lower <= ledger.epsilon_charged("study") <= 2.0


def test_a_plan_costs_what_is_certified_for_the_whole(path):
    step = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.1))
    plan = SelfComposedEvent(event=step, count=1000)
    with PrivacyLedger.open(path) as ledger:
        ledger.create("study", epsilon=2.0, delta=1e-5, measure="pure")
        ticket = ledger.reserve("study", plan, plan_delta=1e-5)
        for _ in range(1000):
            _native.random_bytes(1, ticket.permit(GaussianEvent(noise_multiplier=1.1)))

        accountant = PldAccountant()
        accountant.compose(plan)
        assert ledger.epsilon_charged("study") == accountant.epsilon(1e-5)
        with pytest.raises(TicketError):
            _native.random_bytes(1, ticket.permit(GaussianEvent(noise_multiplier=1.1)))


def test_caps_go_up_and_down_with_a_reason(ledger):
    ledger.raise_cap("hospital", epsilon=2.0, reason="second wave approved")
    assert ledger.remaining_count("hospital", TENTH) == 20
    with pytest.raises(InvalidParameter, match="at least"):
        ledger.raise_cap("hospital", epsilon=1.0, reason="oops")

    ledger.spend("hospital", LaplaceEvent(noise_multiplier=1.0))
    ledger.lower_cap("hospital", epsilon=0.5, reason="withdrawn")
    assert ledger.remaining_count("hospital", TENTH) == 0
    assert [body["reason"] for body in ledger.history("hospital") if body["kind"] == "cap"] == [
        "second wave approved",
        "withdrawn",
    ]


def test_nothing_happens_in_a_frozen_scope(ledger):
    held = ledger.reserve("hospital", TENTH)
    ledger.freeze("hospital", reason="incident")

    with pytest.raises(BudgetExceeded, match="frozen"):
        ledger.reserve("hospital", TENTH)
    with pytest.raises(BudgetExceeded, match="frozen"):
        held.arm()
    ledger.thaw("hospital", reason="resolved")
    ledger.spend("hospital", TENTH)


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (NonPrivateEvent(), BudgetExceeded),
        (GaussianEvent(noise_multiplier=1.0), UnsupportedEventError),
        (EpsilonDeltaEvent(epsilon=0.1, delta=1e-9), BudgetExceeded),
        ("laplace", InvalidType),
    ],
)
def test_what_cannot_be_charged_is_refused(ledger, event, error):
    before = ledger.head

    with pytest.raises(error):
        ledger.reserve("hospital", event)

    assert ledger.head == before


@pytest.mark.parametrize("name", ["", "/", "a/", "/a", "a//b", "..", "a/../b", "a\x00b", "a\u200bb", " a", "x" * 201])
def test_names_that_are_no_paths_are_refused(ledger, name):
    with pytest.raises(InvalidParameter):
        ledger.create(name, epsilon=1.0, delta=1e-6)


def test_names_are_normalized(ledger):
    ledger.create("caf\u00e9", epsilon=1.0, delta=1e-6)

    with pytest.raises(InvalidParameter, match="exists"):
        ledger.create("cafe\u0301", epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize(
    "budget",
    [
        {"epsilon": -1.0, "delta": 0.1},
        {"epsilon": float("nan"), "delta": 0.1},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": 0.0},
        {"epsilon": 1.0, "delta": 0.1, "measure": "pld"},
        {"epsilon": 1.0, "delta": 0.1, "measure": "zcdp", "orders": [2.0]},
        {"epsilon": 1e-9, "delta": 1e-9, "orders": [2.0]},
    ],
)
def test_budgets_that_are_none_are_refused(ledger, budget):
    with pytest.raises((InvalidParameter, InvalidType)):
        ledger.create("study", **budget)

    assert ledger.scopes == ("hospital",)


def test_decimals_and_ratios_are_taken_as_they_are_written(ledger):
    ledger.create("decimal", epsilon=Decimal("0.5"), delta=Fraction(0), measure="pure")

    assert ledger.remaining_count("decimal", LaplaceEvent(noise_multiplier=6.0)) == 3


def test_scopes_of_different_relations_are_not_charged_together(ledger):
    ledger.create("swap", epsilon=1.0, delta=0.0, measure="pure", neighboring_relation=NeighboringRelation.REPLACE_ONE)

    with pytest.raises(InvalidParameter, match="relation"):
        ledger.reserve(["hospital", "swap"], TENTH)


def test_a_witness_refuses_an_earlier_state(file):
    with PrivacyLedger.open(file) as ledger:
        ledger.create("hospital", epsilon=1.0, delta=0.0, measure="pure")
        kept = file.read_bytes()
        ledger.spend("hospital", TENTH)
        witness = ledger.head

    with PrivacyLedger.open(file, witness=str(witness)) as again:
        assert again.head == witness
    file.write_bytes(kept)
    with pytest.raises(LedgerError, match="witness"):
        PrivacyLedger.open(file, witness=witness)


def test_a_witness_is_a_number_and_a_hash():
    assert Head.parse(f"7:{'ab' * 32}") == Head(7, "ab" * 32)
    for text in ("", "7", "7:xyz", f"-1:{'ab' * 32}"):
        with pytest.raises(InvalidParameter):
            Head.parse(text)


def test_threads_share_one_budget(ledger):
    ledger.raise_cap("hospital", epsilon=10.0, reason="for the test")
    acknowledged = []

    def work():
        for _ in range(20):
            try:
                acknowledged.append(ledger.reserve("hospital", TENTH).id)
            except BudgetExceeded:
                return

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(acknowledged)) == len(acknowledged) == 100
    assert ledger.verify() == ledger.head


def test_what_is_spent_under_the_key_of_a_held_ticket_is_not_given_back(ledger):
    ticket = ledger.reserve("hospital", TENTH, key="round-7")
    ledger.spend("hospital", TENTH, key="round-7")

    with pytest.raises(TicketError):
        ticket.cancel()
    assert ledger.remaining_count("hospital", TENTH) == 9


def test_orders_without_budget_are_kept_when_a_cap_is_lowered(path):
    event = GaussianEvent(noise_multiplier=10.0)
    with PrivacyLedger.open(path) as ledger:
        ledger.create("study", epsilon=8.0, delta=1e-6)
        before = ledger.remaining_count("study", event)
        ledger.spend("study", event)

        ledger.lower_cap("study", epsilon=0.4, reason="withdrawn")
        _measures._terms.cache_clear()  # as in another process, which reads what the terms are
        _rows._scopes_known.clear()
        assert ledger.remaining_count("study", event) == 0
        ledger.raise_cap("study", epsilon=8.0, reason="approved again")
        assert ledger.remaining_count("study", event) == before - 1
        ledger.verify()


def test_decimals_are_added_up_as_they_are_written(path):
    tenth = EpsilonDeltaEvent(epsilon=Decimal("0.1"), delta=Decimal("1e-7"))
    with PrivacyLedger.open(path) as ledger:
        ledger.create("study", epsilon=Decimal("0.3"), delta=Decimal("3e-7"), measure="pure")
        for _ in range(3):
            ledger.spend("study", tenth)
        with pytest.raises(
            BudgetExceeded, match=r"of 0\.3 at delta 3e-07 is charged \(pure\), and there is room for 0 more"
        ):
            ledger.spend("study", EpsilonDeltaEvent(epsilon=5e-324))
        ledger.raise_cap("study", epsilon=Decimal("0.4"), delta=Decimal("4e-7"), reason="one more")
    with PrivacyLedger.open(path) as ledger:
        assert ledger.report("study").epsilon == Fraction(2, 5)
        assert ledger.remaining_count("study", tenth) == 1


def test_the_float_above_one_tenth_fits_twice_into_three_tenths(ledger):
    ledger.create("study", epsilon=Decimal("0.3"), delta=0, measure="pure")

    assert ledger.remaining_count("study", EpsilonDeltaEvent(epsilon=0.1)) == 2


def test_a_used_key_is_refused_unless_it_is_asked_for(ledger):
    assert ledger.spend("hospital", TENTH, key="week-12")
    head, left = ledger.head, ledger.remaining_count("hospital", TENTH)
    for charge in (ledger.spend, ledger.reserve):
        with pytest.raises(KeyUsed, match="week-12"):
            charge("hospital", TENTH, key="week-12")
    assert not ledger.spend("hospital", TENTH, key="week-12", again_ok=True)
    ticket = ledger.reserve("hospital", TENTH, key="week-12", again_ok=True)

    assert (ticket.state, ticket.is_new) == (TicketState.SPENT, False)
    assert (ledger.head, ledger.remaining_count("hospital", TENTH)) == (head, left)
    for wrong in (None, 1, "yes"):
        with pytest.raises(InvalidType, match="again_ok"):
            ledger.spend("hospital", TENTH, again_ok=wrong)


def test_a_ticket_says_whether_it_is_new(ledger):
    first, second = (ledger.reserve("hospital", TENTH, key="round-7") for _ in range(2))
    assert (first.is_new, second.is_new) == (True, False)
    assert ledger.reserve("hospital", TENTH).is_new
    assert ledger.spend("hospital", TENTH, key="round-7")  # the first to use it
    with pytest.raises(KeyUsed):
        ledger.spend("hospital", TENTH, key="round-7")


def test_a_key_of_a_composed_ticket_or_a_lease_is_used_with_its_first_release(ledger):
    both = ComposedEvent(events=(TENTH, TENTH))
    ticket = ledger.reserve("hospital", both, key="pair")
    fd.LaplaceMechanism(scale=10.0, l1_sensitivity=1.0).release(0.0, ticket=ticket)
    with pytest.raises(KeyUsed):
        ledger.reserve("hospital", both, key="pair")
    fd.LaplaceMechanism(scale=10.0, l1_sensitivity=1.0).release(0.0, ticket=ticket)

    with ledger.lease("hospital", TENTH, count=2, key="training"), pytest.raises(KeyUsed):
        ledger.lease("hospital", TENTH, count=2, key="training")
    with pytest.raises(KeyUsed):
        ledger.lease("hospital", TENTH, count=2, key="training")
    ledger.reserve("hospital", TENTH, key="one")
    with pytest.raises(TicketError, match="another reservation"):
        ledger.lease("hospital", TENTH, count=1, key="one")
    ledger.verify()
