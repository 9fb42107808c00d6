"""Every release takes a ticket, and arms it after every check and before the first bit."""

import importlib
import inspect
import pkgutil
import sys
import threading
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.accounting import (
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    RandomAllocationEvent,
    SelfComposedEvent,
    TruncatedPoissonSampledEvent,
)
from ferrodp.errors import FerroError, InvalidParameter, InvalidType, LedgerError, TicketError
from ferrodp.tickets import TicketState
from support.entropy_filter import run_without_entropy
from support.tickets import ADD_OR_REMOVE, CASES, REPLACE, Book, ticket_for

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def ticket_of(case, book=None, event=None):
    return ticket_for(case.event if event is None else event, book, case.relation)


def contents(case):
    return None if case.buffer is None else case.buffer.tobytes()


def public_callables():
    """Yield every public function, class and method of the package."""
    for found in pkgutil.walk_packages(fd.__path__, "ferrodp."):
        if any(part.startswith("_") for part in found.name.split(".")):
            continue
        module = importlib.import_module(found.name)
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if inspect.isfunction(thing):
                yield thing, thing
            elif inspect.isclass(thing):
                for attribute, member in inspect.getmembers(thing, inspect.isfunction):
                    if not attribute.startswith("_") or attribute == "__init__":
                        yield thing, member


PAID_FOR_OTHERWISE = {
    "NoiseStream.__init__": "a stream is paid for once, when it is made: tests/correlated",
    "PlanStep.__init__": "its run reserves a ticket in the ledger that `PrivacyPlan.start` takes",
    "SecureSum.encode": "a share of noise: the sum of all costs `SecureSum.event`, for which `decode` takes a ticket",
    "ShuffledReports.encode": "one message of many: all cost `ShuffledReports.event`, for which `PlacedRun` pays",
    "private_statistic": "the release that it is given takes the ticket: tests/distributed, tests of Dask and Ray",
    "make_exact": "the optimizer's releases are composed by the accountant of its privacy engine",
}


def test_whatever_takes_a_source_takes_a_ticket_and_is_tried_here():
    seen = set()
    for owner, function in public_callables():
        parameters = inspect.signature(function).parameters
        if function.__module__ == "ferrodp.random.samples":
            continue  # who takes part is drawn, not released
        if "ledger" in parameters or function.__qualname__ in PAID_FOR_OTHERWISE:
            continue
        if "source" in parameters and "NoiseSource" in str(parameters["source"].annotation):  # not what is copied from
            assert "ticket" in parameters, function
            assert parameters["ticket"].default is None, function
            seen.add(owner)
    assert seen == {case.owner for case in CASES}


@each_case
def test_a_release_arms_its_ticket_once_before_anything_is_written(case):
    before = []
    book = Book(lambda ticket: before.append(contents(case)))
    ticket = ticket_of(case, book)
    untouched = contents(case)

    with ticket:
        assert case.release(ticket=ticket) is not None
        assert ticket.state is TicketState.ARMED
    assert book.calls == ["arm", "finish"]
    assert before == [untouched]
    assert case.buffer is None or contents(case) != untouched  # never all zero: 3 floats, 64 integers


@each_case
def test_a_ticket_pays_for_one_release(case):
    book = Book()
    ticket = ticket_of(case, book)
    case.release(ticket=ticket)
    written = contents(case)

    with pytest.raises(TicketError):
        case.release(ticket=ticket)
    assert book.calls == ["arm"]
    assert contents(case) == written


@each_case
def test_bad_input_leaves_the_ticket_held_and_draws_nothing(case):
    book = Book()
    ticket = ticket_of(case, book)
    untouched = contents(case)
    for bad in [*case.bad, {"source": 3}, {"source": fd.testing.seeded(bytes(32))}]:
        with pytest.raises(FerroError):
            case.release(ticket=ticket, **bad)
    assert ticket.state is TicketState.HELD
    assert book.calls == []
    assert contents(case) == untouched
    case.release(ticket=ticket)
    assert book.calls == ["arm"]


@each_case
def test_a_ticket_for_something_else_is_refused_before_anything(case):
    book = Book()
    ticket = ticket_of(case, book, EpsilonDeltaEvent(epsilon=1e-9))
    untouched = contents(case)
    with pytest.raises(InvalidParameter, match="ticket must have been paid for"):
        case.release(ticket=ticket)
    for no_ticket in ("t-1", 1, object(), case.event):
        with pytest.raises(InvalidType, match="ticket must be a Ticket or None"):
            case.release(ticket=no_ticket)
    assert ticket.state is TicketState.HELD
    assert book.calls == []
    assert contents(case) == untouched


@each_case
def test_a_ticket_for_a_sample_pays_for_what_is_released_about_it(case):
    book = Book()
    step = PoissonSampledEvent(sampling_probability=0.25, event=case.event)
    ticket = ticket_of(case, book, SelfComposedEvent(event=step, count=2))
    for _ in range(2):
        case.release(ticket=ticket)
    with pytest.raises(TicketError):
        case.release(ticket=ticket)
    assert book.calls == ["arm"]


@each_case
def test_where_arming_fails_nothing_is_drawn_or_written(case):
    def fail(_):
        raise LedgerError("disk full")

    ticket = ticket_of(case, Book(fail))
    untouched = contents(case)
    with pytest.raises(LedgerError):
        case.release(ticket=ticket)
    assert contents(case) == untouched
    with pytest.raises(TicketError):
        case.release(ticket=ticket)
    assert contents(case) == untouched


WITHOUT_ENTROPY = r"""
from support.tickets import CASES, Book, ticket_for
from ferrodp.tickets import TicketState

for case in CASES:
    book = Book()
    ticket = ticket_for(case.event, book, case.relation)
    untouched = None if case.buffer is None else case.buffer.tobytes()
    try:
        case.release(ticket=ticket)
    except fd.errors.EntropyError:
        pass
    else:
        sys.exit(f"{case.name}: noise without entropy")
    assert book.calls == ["arm"], f"{case.name}: armed after the key was asked for, or not at all"
    assert ticket.state is TicketState.ARMED, case.name
    assert case.buffer is None or case.buffer.tobytes() == untouched, case.name
"""


def test_the_ticket_is_armed_before_a_key_is_asked_for_and_spent_if_there_is_none():
    # the statistics' own events are found by releasing once, so the cases are made before the system gives no more keys
    run_without_entropy(WITHOUT_ENTROPY, before="import support.tickets")


def sum_of_ones():
    total = fd.ClippedSum((3,), clip_norm=1.0)
    total.add(np.ones(3))
    return total


@pytest.mark.parametrize(("relation", "paid"), [(ADD_OR_REMOVE, 2.0), (REPLACE, 1.0)])
def test_a_sum_costs_twice_as_much_where_rows_are_replaced(relation, paid):
    dear, enough = (GaussianEvent(noise_multiplier=each) for each in (np.nextafter(paid, np.inf), paid))
    ticket = ticket_for(dear, relation=relation)
    with pytest.raises(InvalidParameter, match="ticket must have been paid for"):
        sum_of_ones().release(noise_multiplier=2.0, ticket=ticket)
    assert ticket.state is TicketState.HELD
    sum_of_ones().release(noise_multiplier=2.0, ticket=ticket_for(enough, relation=relation))


def test_a_sum_that_was_released_leaves_the_next_ticket_held():
    total, book = sum_of_ones(), Book()
    total.release(noise_multiplier=1.0)
    ticket = ticket_for(GaussianEvent(noise_multiplier=1.0), book)
    with pytest.raises(FerroError, match="has been released"):
        total.release(noise_multiplier=1.0, ticket=ticket)
    assert book.calls == []


def test_a_sum_that_is_released_by_another_thread_while_the_ticket_is_armed_is_not_released_again():
    total = sum_of_ones()

    def release_first(_):
        other = threading.Thread(target=total.release, kwargs={"noise_multiplier": 1.0})
        other.start()
        other.join(30)
        assert not other.is_alive()  # arming holds no lock that the sum needs

    ticket = ticket_for(GaussianEvent(noise_multiplier=1.0), Book(release_first))
    with pytest.raises(FerroError, match="has been released"):
        total.release(noise_multiplier=1.0, ticket=ticket)
    assert ticket.state is TicketState.ARMED


def test_a_failed_ticket_leaves_the_sum_to_be_released_with_another():
    def fail(_):
        raise LedgerError("disk full")

    total, event = sum_of_ones(), GaussianEvent(noise_multiplier=1.0)
    with pytest.raises(LedgerError):
        total.release(noise_multiplier=1.0, ticket=ticket_for(event, Book(fail)))
    with pytest.raises(FerroError, match="has not been released"):
        _ = total.event
    total.release(noise_multiplier=1.0, ticket=ticket_for(event))
    assert total.event == event


def test_the_queries_of_a_run_need_no_further_ticket():
    book = Book()
    with ticket_for(EpsilonDeltaEvent(epsilon=1.0), book) as ticket:
        run = fd.SparseVector(threshold=1e6, sensitivity=1.0, epsilon=1.0, ticket=ticket)
    assert [run.query(0.0) for _ in range(3)] == [False] * 3
    assert book.calls == ["arm", "finish"]


@pytest.mark.parametrize("epsilon", [Decimal("0.7"), Fraction(1, 3), 0.1])
def test_a_guarantee_that_is_no_float_is_paid_for_exactly(epsilon):
    event = EpsilonDeltaEvent(epsilon=epsilon)
    fd.SparseVector(threshold=0.0, sensitivity=1.0, epsilon=epsilon, ticket=ticket_for(event))
    fd.private_mean([1.0], bounds=(0.0, 4.0), epsilon=epsilon, ticket=ticket_for(event))


def test_a_mean_is_not_begun_with_a_ticket_for_half_of_it():
    arguments = {"bounds": (0.0, 4.0), "epsilon": 1.0}
    rows, values = fd.private_mean([1.0], **arguments).event.events
    assert rows != values
    for paid in (rows, values, ComposedEvent(events=(rows, rows))):
        book = Book()
        with pytest.raises(FerroError):
            fd.private_mean([1.0], **arguments, ticket=ticket_for(paid, book))
        assert book.calls == []


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name.startswith("private_")], ids=lambda case: case.name
)
def test_a_statistic_refuses_a_ticket_about_other_neighbors(case):
    book = Book()
    other = ADD_OR_REMOVE if case.relation is REPLACE else REPLACE
    with pytest.raises(InvalidParameter, match="neighboring_relation must be that of the ticket"):
        case.release(ticket=ticket_for(case.event, book, other))
    assert book.calls == []


def test_a_release_with_a_ticket_is_the_same_release(monkeypatch):
    """Given one key the bits are the same: the ticket decides whether noise is drawn, not which."""
    key = bytes(range(32))
    monkeypatch.setattr(sys.modules["ferrodp.tickets.source"].TicketedSource, "_key", lambda self: key)
    monkeypatch.setattr(sys.modules["ferrodp.testing"].SeededNoiseSource, "_key", lambda self: key)
    for case in CASES:
        if case.owner is not fd.SparseVector and case.buffer is None:
            paid, seeded = case.release(ticket=ticket_of(case)), case.release(source=fd.testing.seeded(key))
            assert str(getattr(paid, "value", paid)) == str(getattr(seeded, "value", seeded)), case.name


VALUES = np.array([99.5, 99.0, 100.0, 99.25])
TRUTHS = np.array([True, False, True])
WHOLE = np.array([99, 100])
STATISTICS = [  # what is released of a sample, and the least null_distance that it keeps
    ("sum around 0", 0.5, lambda **k: fd.private_sum(VALUES, bounds=(-100.0, 100.0), epsilon=0.5, **k)),
    ("sum from 0", 1.0, lambda **k: fd.private_sum(VALUES, bounds=(0.0, 100.0), epsilon=0.5, **k)),
    ("sum from 99", 100.0, lambda **k: fd.private_sum(WHOLE, bounds=(99.0, 100.0), epsilon=0.5, **k)),
    ("sum that may miss", 1.0, lambda **k: fd.private_sum(VALUES, bounds=(99.0, 100.0), epsilon=0.5, **k)),
    ("count", 1.0, lambda **k: fd.private_count(TRUTHS, epsilon=0.5, **k)),
    ("histogram", 0.5, lambda **k: fd.private_histogram(VALUES, bins=[99, 99.5, 100], epsilon=0.5, **k)),
    ("histogram", 0.7072, lambda **k: fd.private_histogram(VALUES, bins=[99, 99.5, 100], epsilon=0.5, delta=1e-6, **k)),
    ("one bin", 1.0, lambda **k: fd.private_histogram(VALUES, bins=[99, 100], epsilon=0.5, **k)),
    ("mean", np.inf, lambda **k: fd.private_mean(VALUES, bounds=(99.0, 100.0), epsilon=0.5, **k)),
    ("median", np.inf, lambda **k: fd.private_quantile(VALUES, 0.5, bounds=(99.0, 100.0), epsilon=0.5, **k)),
]


def sampled_ticket(about, null_distance, relation):
    """A ticket for what is released about a sample, said to be that far from what is released without a record."""
    step = PoissonSampledEvent(sampling_probability=0.1, event=about, null_distance=null_distance)
    return ticket_for(SelfComposedEvent(event=step, count=2), relation=relation)


@pytest.mark.parametrize(("kind", "least", "release"), STATISTICS)
def test_a_statistic_takes_no_ticket_that_supposes_less_of_a_missing_row_than_it_tells(kind, least, release):
    """Values from 99 to 100 move a sum by 1 if one is replaced, and by 100 if one is not in the sample."""
    event = release(neighboring_relation=REPLACE).event
    for distance in (0.5, 0.7072, 1.0, 99.9, 100.0, np.inf):
        ticket = sampled_ticket(event, float(distance), REPLACE)
        if distance >= least:
            assert release(neighboring_relation=REPLACE, ticket=ticket).event == event
            continue
        with pytest.raises(InvalidParameter, match=r"null_distance is .*tell of a missing record"):
            release(neighboring_relation=REPLACE, ticket=ticket)
        assert ticket.state is TicketState.HELD


def test_a_null_row_is_a_row_of_a_statistic():
    """So that samples with it are others than samples without it, as their cost supposes."""
    relation = NeighboringRelation.REPLACE_SPECIAL
    for _, _, release in STATISTICS:
        event = release(neighboring_relation=relation).event
        with pytest.raises(InvalidParameter, match="null rows are rows"):
            release(neighboring_relation=relation, ticket=sampled_ticket(event, np.inf, relation))


@pytest.mark.parametrize(
    "sampled",
    [
        lambda event: TruncatedPoissonSampledEvent(
            population_size=100, sampling_probability=0.1, truncated_batch_size=20, event=event
        ),
        lambda event: RandomAllocationEvent(num_steps=10, num_selected=1, event=event),
    ],
)
def test_a_null_row_is_a_row_of_every_sample_of_random_size(sampled):
    """A sum of one step of an allocation holds a row's share of it where the row was allotted to it, null or not."""
    relation = NeighboringRelation.REPLACE_SPECIAL
    for _, _, release in STATISTICS:
        ticket = ticket_for(sampled(release(neighboring_relation=relation).event), relation=relation)
        with pytest.raises(InvalidParameter, match="null rows are rows"):
            release(neighboring_relation=relation, ticket=ticket)
        assert ticket.state is TicketState.HELD


def test_a_clipped_sum_keeps_the_distance_of_clipped_contributions():
    """2C between two rows, C to none: half of the sensitivity."""
    ticket = sampled_ticket(GaussianEvent(noise_multiplier=0.5), 0.5, REPLACE)

    total = sum_of_ones()
    total.release(noise_multiplier=1.0, ticket=ticket)

    assert total.event == GaussianEvent(noise_multiplier=1.0)
