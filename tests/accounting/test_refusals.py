"""A refusal names a way out that is one: whatever it recommends accepts the event."""

import re

import pytest

from ferrodp import accounting as ac
from ferrodp.accounting import NeighboringRelation
from ferrodp.errors import UnsupportedEventError
from support import refusal_page
from support.refusals import ROWS

ACCOUNTANTS = (ac.PldAccountant, ac.RdpAccountant, ac.ZcdpAccountant, ac.PureDpAccountant, ac.GdpAccountant)
FILTERS = {
    "PureDpFilter": lambda relation: ac.filters.PureDpFilter(epsilon=1.0, delta=0.1, neighboring_relation=relation),
    "ZcdpFilter": lambda relation: ac.filters.ZcdpFilter(rho=1.0, delta=0.1, neighboring_relation=relation),
    "GdpFilter": lambda relation: ac.filters.GdpFilter(mu=1.0, neighboring_relation=relation),
    "RdpFilter": lambda relation: ac.filters.RdpFilter(orders=[2.0], budgets=[1.0], neighboring_relation=relation),
}
NAMES = {each.__name__: lambda relation, each=each: each(neighboring_relation=relation) for each in ACCOUNTANTS}
ALL = NAMES | FILTERS


def refusal(name, relation, event):
    """Return the message with which the event is refused, or None."""
    one = ALL[name](relation)
    try:
        one.compose(event, 0) if name in NAMES else one.would_exceed(event)
    except UnsupportedEventError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("row", ROWS)
def test_whatever_a_refusal_recommends_accepts(row, name):
    """Every class and relation that the message names, after the reason, was tried by the test itself."""
    for relation in NeighboringRelation:
        message = refusal(name, relation, ROWS[row])
        if message is None:
            continue
        others = [other for other in (NAMES if name in NAMES else FILTERS) if other != name]
        for other in set(re.findall("ADD_OR_REMOVE_ONE|REPLACE_ONE|REPLACE_SPECIAL", message)) - {relation.name}:
            places = [refusal(each, NeighboringRelation[other], ROWS[row]) for each in NAMES]
            assert None in places, (relation, message)
        use = re.search(r"; use ([\w ]+)(?:, or state its sensitivities for ([\w ]+))?$", message)
        if use is not None:
            for other in use[1].split(" or "):
                assert other != name
                assert refusal(other, relation, ROWS[row]) is None, (relation, message)
            for other in use[2].split(" or ") if use[2] else ():
                assert refusal(name, NeighboringRelation[other], ROWS[row]) is None, (relation, message)
            continue
        able = [other for other in others if refusal(other, relation, ROWS[row]) is None]
        assert set(able) <= {"GdpAccountant"}, (relation, message)
        for part in re.findall(r"([\w ]+) under (\w+)(?:;|$)", message.partition("another relation: ")[2]):
            for other in part[0].strip().split(" or "):
                assert refusal(other, NeighboringRelation[part[1]], ROWS[row]) is None, (relation, message)
        assert "another relation: " in message or "no other one bounds it either" in message or "same sample" in message


def test_the_table_has_refusals_with_and_without_a_way_out():
    """So that the test above looks at something."""
    texts = [refusal(name, relation, ROWS[row]) for row in ROWS for name in ALL for relation in NeighboringRelation]

    for ending in ("; use ", "another relation: ", "no other one bounds it either"):
        assert sum(text is not None and ending in text for text in texts) > 10
    assert sum(text is None for text in texts) > 100


def test_the_page_about_refusals_says_what_is_so():
    """Write it anew with ``PYTHONPATH=tests python -m support.refusal_page``."""
    assert refusal_page.PAGE.read_text() == refusal_page.page()
