"""Rows of the tables of mistakes: what somebody wrote, and the four parts that the message has to have.

A part is a text that stands in the message as whole words, at a place that no other part of the row shares. Where a
part makes no sense, the row has one of the reasons below in its place.
"""

import enum
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ferrodp.errors import FerroError

PARTS = ("parameter", "value", "allowed", "way_out")
ERRORS = (FerroError, TypeError, ValueError, AttributeError)


class Reason(enum.Enum):
    """Why a message lacks one of the parts."""

    NO_PARAMETER = "an operator or a call is at fault, no parameter of it"
    NOTHING_GIVEN = "nothing was given: that is the mistake"
    NOT_LOOKED_AT = "the keyword is unknown: what it was given is not looked at"
    DATA = "data: how many records there are is not told"
    FRAMEWORKS_OWN = "the framework's own message, which its checks ask for"


@dataclass(frozen=True)
class Mistake:
    """A mistake, and the parts of its message.

    Parameters
    ----------
    name : str
        What was mistaken.
    call : callable
        Makes the mistake; takes the context of its table.
    parameter : str or Reason
        The name of the parameter, as it was written.
    value : str or Reason
        What was given: the value itself, or the type or shape of arrays, data and secrets.
    allowed : str or Reason
        The range, the choices or the type.
    way_out : str or Reason
        What to write instead.
    hidden : str
        A piece of data or a secret that must not be in the message.
    """

    name: str
    call: Callable[[Any], object]
    parameter: str | Reason
    value: str | Reason
    allowed: str | Reason
    way_out: str | Reason
    hidden: str = ""

    def texts(self) -> dict[str, str]:
        """Return the parts that the message has to have."""
        return {part: text for part in PARTS if isinstance(text := getattr(self, part), str)}


def message_of(mistake: Mistake, context: Any = None) -> str:
    """Return what somebody is told who makes a mistake."""
    with pytest.raises(ERRORS) as caught:
        mistake.call(context)
    return str(caught.value)


def missing(mistake: Mistake, part: str, message: str) -> bool:
    """Return whether a message lacks one part of a mistake."""
    text = getattr(mistake, part)
    return isinstance(text, str) and not _spans(message, text)


def share_a_place(mistake: Mistake, message: str) -> bool:
    """Return whether two parts of a mistake can only be found where they overlap."""
    places = [_spans(message, text) for text in mistake.texts().values()]
    return not any(map(_are_apart, itertools.product(*places)))


def malformed(mistake: Mistake) -> str:
    """Return what is wrong with a row, or nothing: parts that are empty, equal, or too short to say anything."""
    texts = list(mistake.texts().values())
    if any(len(text) < 2 or not re.search(r"\w", text) for text in texts):
        return "a part says nothing"
    if len(set(texts)) < len(texts):
        return "two parts are the same"
    if mistake.way_out not in (*texts, Reason.FRAMEWORKS_OWN) or len(texts) < 2:
        return "a message has a way out, and something beside it"
    return ""


def objections(mistake: Mistake, context: Any = None) -> list[str]:
    """Return all that is wrong with the message of a mistake, for tables whose rows are one test each."""
    message = message_of(mistake, context)
    found = [f"{part} is missing" for part in PARTS if missing(mistake, part, message)]
    found += [wrong] if (wrong := malformed(mistake)) else []
    found += ["two parts share a place"] if not found and share_a_place(mistake, message) else []
    found += ["it is told"] if mistake.hidden and mistake.hidden in message else []
    return [f"{each}: {message}" for each in found]


def _spans(message: str, text: str) -> list[tuple[int, int]]:
    """Return where a text stands in a message as whole words."""
    return [match.span() for match in re.finditer(rf"(?<!\w){re.escape(text)}(?!\w)", message)]


def _are_apart(spans: Sequence[tuple[int, int]]) -> bool:
    ordered = sorted(spans)
    return all(first[1] <= second[0] for first, second in itertools.pairwise(ordered))
