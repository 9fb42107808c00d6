"""Test hook: named points at which tests let a process die."""

from collections.abc import Callable

POINTS = (
    "before the rows",
    "between the scopes",
    "before the log",
    "before the commit",
    "after the commit",
    "before arming",
    "after arming",
)


def _nothing(_: str) -> None:
    pass


observer: Callable[[str], None] = _nothing
"""Called with the name of each point that is reached; tests replace it."""


def reached(name: str) -> None:
    """Say that a point is reached."""
    observer(name)
