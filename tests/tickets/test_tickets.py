"""Tickets pay once: who may arm them, for what, and what is left afterwards."""

import copy
import os
import pickle
import threading

import numpy as np
import pytest

import ferrodp as fd
from ferrodp import _native
from ferrodp.accounting import (
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    SelfComposedEvent,
)
from ferrodp.errors import InvalidParameter, InvalidType, LedgerError, TicketError
from ferrodp.tickets import TicketState
from ferrodp.tickets.source import source_for
from support.tickets import Book, draw, ticket_for

GAUSSIAN = GaussianEvent(noise_multiplier=1.0)
LAPLACE = LaplaceEvent(noise_multiplier=2.0)


def test_a_ticket_is_held_then_armed_then_spent():
    book = Book()
    ticket = ticket_for(GAUSSIAN, book)
    assert ticket.state is TicketState.HELD
    with ticket:
        draw(ticket.permit(GAUSSIAN))
        assert ticket.state is TicketState.ARMED
    assert ticket.state is TicketState.SPENT
    assert book.calls == ["arm", "finish"]


def test_a_ticket_that_nothing_was_released_with_is_cancelled_at_the_end_of_the_block():
    book = Book()
    with ticket_for(GAUSSIAN, book) as ticket:
        ticket.permit(GAUSSIAN)  # asked for, not drawn with
    assert ticket.state is TicketState.CANCELLED
    assert book.calls == ["cancel"]


def test_an_error_in_the_block_does_not_give_an_armed_ticket_back():
    book = Book()
    ticket = ticket_for(GAUSSIAN, book)

    def fail_after_the_draw():
        with ticket:
            draw(ticket.permit(GAUSSIAN))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_the_draw()
    assert ticket.state is TicketState.SPENT
    assert book.calls == ["arm", "finish"]


@pytest.mark.parametrize("state", [TicketState.ARMED, TicketState.SPENT, TicketState.CANCELLED])
def test_only_a_held_ticket_can_be_cancelled(state):
    book = Book()
    ticket = ticket_for(GAUSSIAN, book, state=state)
    with pytest.raises(TicketError):
        ticket.cancel()
    assert ticket.state is state
    assert book.calls == []


@pytest.mark.parametrize("state", [TicketState.ARMED, TicketState.SPENT, TicketState.CANCELLED])
def test_a_ticket_that_comes_armed_spent_or_cancelled_pays_for_nothing(state):
    """Armed by a process that died, say: whether it drew anything is unknown."""
    ticket = ticket_for(GAUSSIAN, state=state)
    with pytest.raises(TicketError):
        ticket.permit(GAUSSIAN)
    with pytest.raises(TicketError):
        ticket.arm()


def test_a_ticket_pays_once():
    book = Book()
    ticket = ticket_for(GAUSSIAN, book)
    permits = [ticket.permit(GAUSSIAN) for _ in range(2)]
    draw(permits[0])
    with pytest.raises(TicketError):
        draw(permits[1])
    with pytest.raises(TicketError):
        ticket.permit(GAUSSIAN)
    with pytest.raises(TicketError):
        ticket.arm()
    assert book.calls == ["arm"]


def test_a_release_may_draw_several_times_for_one_payment():
    book = Book()
    permit = ticket_for(GAUSSIAN, book).permit(GAUSSIAN)
    assert draw(permit) != draw(permit)
    assert book.calls == ["arm"]


def test_a_permit_outlives_no_cancellation():
    ticket = ticket_for(GAUSSIAN)
    permit = ticket.permit(GAUSSIAN)
    ticket.cancel()
    with pytest.raises(TicketError):
        draw(permit)
    assert ticket.state is TicketState.CANCELLED


@pytest.mark.parametrize("error", [LedgerError("disk full"), TicketError("expired"), KeyboardInterrupt()])
def test_where_arming_fails_nothing_is_drawn_and_the_ticket_is_spent(error):
    def fail(_):
        raise error

    ticket = ticket_for(GAUSSIAN, Book(fail))
    permit = ticket.permit(GAUSSIAN)
    array = np.ones(4)
    with pytest.raises(type(error)):
        _native.add_noise(array, "gaussian", 1.0, None, permit, None, False)
    assert array.tolist() == [1.0] * 4
    assert ticket.state is TicketState.SPENT
    with pytest.raises(TicketError):  # nor later, with the same permit
        _native.add_noise(array, "gaussian", 1.0, None, permit, None, False)
    assert array.tolist() == [1.0] * 4
    with pytest.raises(TicketError):
        ticket.permit(GAUSSIAN)


def test_a_permit_lets_nobody_draw_while_it_is_being_armed():
    refused = []

    def arm():
        with pytest.raises(TicketError):
            draw(permit)
        refused.append(True)

    permit = _native.Permit(arm)
    draw(permit)
    assert refused == [True]


UTILITIES = np.array([0.0, 1.0])


@pytest.mark.parametrize(
    "call",
    [
        lambda permit: _native.add_noise(np.zeros(2), "normal", 1.0, None, permit, None, False),
        lambda permit: _native.add_noise(np.zeros(2), "laplace", -1.0, None, permit, None, False),
        lambda permit: _native.add_noise(np.zeros((2, 2)).T[:1], "laplace", 1.0, None, permit, None, False),
        lambda permit: _native.release_scalar(0.0, "gaussian", 1.0, 60, permit),
        lambda permit: _native.add_discrete_noise(np.zeros(2, np.int64), "gaussian", 0, 1, permit, None),
        lambda permit: _native.add_discrete_noise(np.zeros(2, np.int8), "gaussian", 1, 1, permit, None),
        lambda permit: _native.add_discrete_noise_in_fixed_time(np.zeros(2, np.int64), "gaussian", 65, 1, permit, None),
        lambda permit: _native.choose_candidate(UTILITIES[:0], "gumbel", 1.0, 1.0, 1, permit),
        lambda permit: _native.choose_candidate(UTILITIES, "gumbel", 0.0, 1.0, 1, permit),
        lambda permit: _native.NoisyThreshold(np.nan, 1.0, 1.0, permit),
        lambda permit: _native.NoisyThreshold(1.0, 1.0, 1e301, permit),
        lambda permit: _native.randomize_responses(np.zeros(2, np.int64), 0.0, 2, permit, None),
        lambda permit: _native.randomize_responses(np.zeros(2, np.int16), 0.5, 2, permit, None),
        lambda permit: _native.GridSum(2, 1.0, "float64").release(np.zeros(3), 1.0, None, permit, None),
        lambda permit: _native.GridSum(2, 1.0, "float64").release(np.zeros(2), 1e-30, None, permit, None),
        lambda permit: _native.GridSum(2, 1.0, "float64").release(np.zeros(2, int), 1.0, None, permit, None),
    ],
)
def test_the_native_code_asks_for_the_ticket_after_every_check_of_its_own(call):
    asked = []
    with pytest.raises((ValueError, TypeError)):
        call(_native.Permit(lambda: asked.append(True)))
    assert asked == []


def test_of_many_threads_one_wins():
    book = Book()
    ticket = ticket_for(SelfComposedEvent(event=GAUSSIAN, count=3), book)
    outcomes = []
    barrier = threading.Barrier(12)

    def release():
        barrier.wait()
        try:
            draw(ticket.permit(GAUSSIAN))
            outcomes.append("drawn")
        except TicketError:
            outcomes.append("refused")

    threads = [threading.Thread(target=release) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["drawn"] * 3 + ["refused"] * 9
    assert (book.calls, book.asked) == (["arm"], 2)


def test_while_one_thread_arms_another_waits_and_is_refused():
    arming, go_on = threading.Event(), threading.Event()

    def slow(_):
        arming.set()
        go_on.wait(10)

    ticket = ticket_for(GAUSSIAN, Book(slow))
    winner = threading.Thread(target=draw, args=(ticket.permit(GAUSSIAN),))
    late = ticket.permit(GAUSSIAN)
    winner.start()
    assert arming.wait(10)
    threading.Timer(0.05, go_on.set).start()
    with pytest.raises(TicketError):
        draw(late)
    winner.join()
    assert ticket.state is TicketState.ARMED


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_cannot_use_its_parents_ticket_and_leaves_it_alone():
    book = Book()
    ticket = ticket_for(GAUSSIAN, book)
    permit = ticket.permit(GAUSSIAN)
    attempts = [ticket.arm, ticket.cancel, ticket.close, lambda: ticket.permit(GAUSSIAN), lambda: draw(permit)]
    child = os.fork()
    if not child:
        refused, code = 0, 1
        try:
            with ticket:
                for attempt in attempts:
                    try:
                        attempt()
                    except TicketError:
                        refused += 1
            code = 0 if refused == len(attempts) and not book.calls else 2
        finally:
            os._exit(code)  # 1 if leaving the block raised
    assert os.waitpid(child, 0)[1] == 0
    draw(permit)
    assert book.calls == ["arm"]


def test_code_of_ones_own_takes_the_whole_ticket():
    book = Book()
    ticket = ticket_for(ComposedEvent(events=(GAUSSIAN, LAPLACE)), book)
    ticket.arm()
    assert ticket.state is TicketState.ARMED
    for attempt in (ticket.arm, ticket.cancel, lambda: ticket.permit(GAUSSIAN)):
        with pytest.raises(TicketError):
            attempt()
    ticket.close()
    assert book.calls == ["arm", "finish"]


def test_a_ticket_used_in_part_cannot_be_taken_as_a_whole():
    ticket = ticket_for(ComposedEvent(events=(GAUSSIAN, LAPLACE)))
    draw(ticket.permit(LAPLACE))
    with pytest.raises(TicketError):
        ticket.arm()
    draw(ticket.permit(GAUSSIAN))


def test_the_record_may_look_at_the_ticket_it_is_asked_about():
    seen = []
    ticket = ticket_for(GAUSSIAN, Book(lambda ticket: seen.append((ticket.id, ticket.scopes, ticket.state))))
    draw(ticket.permit(GAUSSIAN))
    assert seen == [("t-1", ("a/b",), TicketState.SPENT)]  # until it is recorded, nobody else may use it


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_ticket_cannot_be_copied(duplicate):
    with pytest.raises(TypeError, match="cannot be copied"):
        duplicate(ticket_for(GAUSSIAN))
    with pytest.raises(TypeError, match="cannot be copied"):
        duplicate(source_for(None, ticket_for(GAUSSIAN), GAUSSIAN))


@pytest.mark.parametrize("name", ["event", "id", "key", "scopes", "neighboring_relation", "state"])
def test_what_was_paid_for_cannot_be_changed(name):
    with pytest.raises(AttributeError):
        setattr(ticket_for(GAUSSIAN), name, getattr(ticket_for(LAPLACE), name))


def test_a_seeded_source_is_refused_with_a_ticket():
    ticket = ticket_for(GAUSSIAN)
    with pytest.raises(InvalidParameter, match="source must be private"):
        source_for(fd.testing.seeded(bytes(32)), ticket, GAUSSIAN)
    assert ticket.state is TicketState.HELD


def test_a_ticket_is_a_ticket():
    with pytest.raises(InvalidType, match="ticket must be a Ticket or None, got str"):
        source_for(None, "t-1", GAUSSIAN)
    with pytest.raises(TypeError, match="key must be"):
        draw(bytes(31))
    with pytest.raises(TypeError, match="key must be"):
        draw(ticket_for(GAUSSIAN))


def test_nothing_of_what_a_ticket_is_for_is_left_out_of_its_text():
    assert repr(ticket_for(GAUSSIAN)) == "<Ticket t-1, held, for a/b>"
