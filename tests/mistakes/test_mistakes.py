"""Mistakes that people make, and what they are told: the parameter, the value, what is allowed, the way out."""

from typing import Any

import pytest
from mistaken_objects import ledgers, planned
from mistakes_in_all_rooms import IN_ALL_ROOMS
from mistakes_of_each_user import OF_EACH_USER
from mistakes_of_newcomers import NEWCOMERS

from ferrodp import accounting, events
from support.mistakes import PARTS, Mistake, Reason, malformed, message_of, missing, share_a_place

ALL = [*NEWCOMERS, *IN_ALL_ROOMS, *OF_EACH_USER]
NAMES = [mistake.name for mistake in ALL]


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A ledger of two scopes, one without any, and the path of the first."""
    with ledgers(tmp_path_factory.mktemp("mistakes")) as made:
        yield made


@pytest.fixture(scope="module")
def messages(context: Any) -> dict[str, str]:
    """What is said to each mistake; no mistake changes anything, so they share the ledgers."""
    return {mistake.name: message_of(mistake, context) for mistake in ALL}


def test_there_are_a_hundred_and_thirty_mistakes() -> None:
    assert (len(NEWCOMERS), len(IN_ALL_ROOMS)) == (40, 40)
    assert len(OF_EACH_USER) >= 50
    assert len(set(NAMES)) == len(ALL)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("mistake", ALL, ids=NAMES)
def test_a_message_has_each_part(messages: dict[str, str], mistake: Mistake, part: str) -> None:
    assert not missing(mistake, part, messages[mistake.name]), messages[mistake.name]


@pytest.mark.parametrize("mistake", ALL, ids=NAMES)
def test_the_parts_of_a_row_say_something_and_stand_apart(messages: dict[str, str], mistake: Mistake) -> None:
    assert not malformed(mistake)
    assert not share_a_place(mistake, messages[mistake.name]), messages[mistake.name]


@pytest.mark.parametrize("mistake", [each for each in ALL if each.hidden], ids=lambda each: each.name)
def test_data_and_secrets_are_not_told(messages: dict[str, str], mistake: Mistake) -> None:
    assert mistake.hidden not in messages[mistake.name]


def test_only_values_and_parameters_are_left_out_and_for_a_reason() -> None:
    """What is allowed and the way out are in every message."""
    for mistake in ALL:
        assert isinstance(mistake.allowed, str), mistake.name
        assert isinstance(mistake.way_out, str), mistake.name
    assert len([mistake for mistake in ALL if isinstance(mistake.parameter, Reason)]) <= 10
    assert len([mistake for mistake in ALL if isinstance(mistake.value, Reason)]) <= 30


WHOLE = "count must be an int >= 1, got 0; for example count=1"
ROW = Mistake("none", lambda c: None, "count", "got 0", "an int >= 1", "for example count=1")


@pytest.mark.parametrize("part", PARTS)
def test_a_message_without_a_part_is_noticed(part: str) -> None:
    assert not missing(ROW, part, WHOLE)
    assert not share_a_place(ROW, WHOLE)
    without = WHOLE.replace(getattr(ROW, part), "...")

    assert missing(ROW, part, without) or share_a_place(ROW, without)


def test_a_row_that_any_message_satisfies_is_noticed() -> None:
    assert malformed(Mistake("none", lambda c: None, "count", "count", "an int", "for example"))
    assert malformed(Mistake("none", lambda c: None, "count", "", "an int", "for example"))
    assert malformed(Mistake("none", lambda c: None, "count", "got", "an int", Reason.NO_PARAMETER))
    assert missing(ROW, "parameter", "discounts must be positive")
    assert share_a_place(Mistake("none", lambda c: None, "count", "got 0", "an int >= 1", "int >= 1"), WHOLE)


def test_a_relation_may_be_given_by_its_value(context: Any) -> None:
    relation = events.NeighboringRelation.REPLACE_ONE
    context.ledger.create("x", epsilon=1.0, delta=1e-6, neighboring_relation="replace_one")

    assert accounting.RdpAccountant(neighboring_relation="replace_one").neighboring_relation is relation
    assert context.ledger.report("x").neighboring_relation is relation
    assert planned(neighboring_relation="replace_one").neighboring_relation is relation
