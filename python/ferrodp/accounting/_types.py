"""Words that every room of accounting uses with one meaning."""

from __future__ import annotations

from typing import Literal, TypeAlias

Direction: TypeAlias = Literal["remove", "add"]
"""Which of two neighbors comes first: "remove", the one that has the record; "add", the one that lacks it."""
