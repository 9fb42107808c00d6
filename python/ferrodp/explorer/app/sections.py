"""The sections of the page: what the navigation lists, and the figures that requests may ask for by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ferrodp.explorer.figures import Figure, Lesson
from ferrodp.explorer.lessons import LESSONS
from ferrodp.explorer.lessons.exam import EXAM
from ferrodp.explorer.model.account import ACCOUNT
from ferrodp.explorer.model.attacks import ATTACKS
from ferrodp.explorer.model.audits import AUDITS
from ferrodp.explorer.model.training import PLAYGROUND


@dataclass(frozen=True)
class Section:
    """One item of the navigation, and its pages."""

    name: str
    title: str
    entries: tuple[Lesson, ...]
    layout: Literal["picture", "form"] = "picture"
    """Whether the picture comes first, with its main controls under it, or all controls do."""

    def entry(self, name: str | None) -> Lesson | None:
        """Return the page of a name, or None."""
        return next((each for each in self.entries if each.name == name), None)


SECTIONS = tuple(
    section
    for section in (
        Section("learn", "Learn", LESSONS),
        Section("exam", "Exam", EXAM, "form"),
        Section("account", "Account", ACCOUNT, "form"),
        Section("attack", "Attack", ATTACKS),
        Section("audit", "Audit", AUDITS),
    )
    if section.entries
)
NAVIGATION = (
    (SECTIONS[0].name, SECTIONS[0].title),
    ("playground", "Playground"),
    *((each.name, each.title) for each in SECTIONS[1:]),
)
"""Name and title of each part, in the order in which they are listed."""
_FIGURES: dict[str, Figure] = {each.figure.name: each.figure for section in SECTIONS for each in section.entries}
_FIGURES[PLAYGROUND.name] = PLAYGROUND


def figure_named(name: str) -> Figure | None:
    """Return a figure that some page shows, or None."""
    return _FIGURES.get(name)
