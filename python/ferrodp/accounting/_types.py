"""Words that every room of accounting uses with one meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Direction: TypeAlias = Literal["remove", "add"]
"""Which of two neighbors comes first: "remove", the one that has the record; "add", the one that lacks it."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Returned in place of an answer that is not known for an event."""

    reason: str
    """Why not: the end of a sentence."""

    def __str__(self) -> str:
        return self.reason
