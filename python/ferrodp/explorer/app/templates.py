"""Pages from templates, and the files that they load."""

from __future__ import annotations

import hashlib
import html
import json
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import Any

from ferrodp import explorer
from ferrodp.explorer.app.sections import NAVIGATION, Section
from ferrodp.explorer.figures import Lesson

KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
PURPOSE = "Learn differentially private training; every number is computed when it is shown."


@dataclass(frozen=True)
class File:
    """A file as it is sent."""

    body: bytes
    kind: str
    tag: str


def static_files() -> dict[str, File]:
    """Return all files of the page by name, read once: no path of a request ever reaches the file system."""
    found = {}
    for path in (resources.files(explorer) / "static").iterdir():
        kind = KINDS.get(path.name.rpartition(".")[2])
        if kind is not None:
            body = path.read_bytes()
            found[path.name] = File(body, kind, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
    return found


class Pages:
    """The pages, filled in."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._templates = {
            path.name.removesuffix(".html"): Template(path.read_text(encoding="utf-8"))
            for path in (resources.files(explorer) / "pages").iterdir()
            if path.name.endswith(".html")
        }

    def entry(self, section: Section, entry: Lesson) -> str:
        """Return the page of a lesson, or of another section's entry."""
        place = section.entries.index(entry)
        body = self._templates["entry"].substitute(
            section=section.name,
            section_title=section.title,
            side=_side(section, entry),
            number=place + 1,
            name=entry.name,
            title=html.escape(entry.title),
            idea=html.escape(entry.idea),
            layout=section.layout,
            text=_text(entry, folded=section.layout == "picture"),
            figure=entry.figure.name,
            island=island(entry.figure.as_json()),
            question=_question(entry),
            tries=_tries(entry),
            why=f"<details class=why><summary>Why</summary>{entry.why}</details>" if entry.why else "",
            steps=_steps(section, place, last=_LAST if section.name == "learn" else ""),
        )
        return self._shell(section.name, entry.title, body, turn=_turn(section, place))

    def page(self, name: str, title: str, **values: str) -> str:
        """Return a page with a template of its own."""
        return self._shell(name, title, self._templates[name].substitute(**values))

    def not_found(self) -> str:
        """Return the page for an address that is none."""
        return self._shell(
            "", "Not found", '<div class="panel"><h1>There is no such page</h1><p>Choose one above.</p></div>'
        )

    def _shell(self, active: str, title: str, body: str, turn: str = "") -> str:
        return self._templates["shell"].substitute(
            title=html.escape(title),
            purpose=PURPOSE,
            token=self._token,
            navigation=_navigation(active),
            body=body,
            turn=turn,
        )


def island(value: Any) -> str:
    """Return JSON that can stand in a script element."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def _navigation(active: str) -> str:
    items = (
        f'<li><a href="/{name}"{_current(name == active)}>{html.escape(title)}</a></li>' for name, title in NAVIGATION
    )
    return f"<ul>{''.join(items)}</ul>"


def _side(section: Section, current: Lesson) -> str:
    items = (
        f'<li><a href="/{section.name}/{each.name}" data-entry="{each.name}"{_current(each is current)}>'
        f"{html.escape(each.title)}</a></li>"
        for each in section.entries
    )
    place = section.entries.index(current) + 1
    here = f"{place} of {len(section.entries)}"
    return (
        '<button type="button" class="menu" aria-expanded="false" aria-controls="entries">'
        f'<span class="place">{here}</span> {html.escape(current.title)}</button>'
        f'<ol id="entries">{"".join(items)}</ol>'
    )


_LAST = (
    '<a rel="next" href="/exam">Take the exam</a> <a href="/playground">Train a model of your own</a> '
    '<a href="/audit">Catch a program that lies</a>'
)
"""Where the last lesson leads."""


def _text(entry: Lesson, *, folded: bool) -> str:
    """Return who has something to lose and the first paragraph; the rest unfolds, where the picture comes first."""
    person = f"<p class=person>{html.escape(entry.person)}</p>" if entry.person else ""
    text = entry.text.replace("h3>", "h2>")  # no level between them and the title
    first, end, rest = text.partition("</p>")
    if not folded or not rest.strip():
        return person + text
    return f"{person}{first}{end}<details class=more><summary>More about this</summary>{rest}</details>"


def _question(entry: Lesson) -> str:
    """Return what is asked before anything is said; the page shows the truth after any answer."""
    if entry.question is None:
        return ""
    asked = entry.question
    options = "".join(
        f'<button type="button" data-option="{place}">{html.escape(option)}</button>'
        for place, option in enumerate(asked.options)
    )
    return (
        f'<section class="question" data-right="{asked.right}" aria-label="A question first">'
        f"<p>{html.escape(asked.ask)}</p><div class=buttons>{options}</div>"
        f'<p class="truth" role="status" data-truth="{html.escape(asked.because)}"></p></section>'
    )


def _tries(entry: Lesson) -> str:
    """Return buttons that set the controls of the figure."""
    buttons = "".join(
        f'<button type="button" data-try="{html.escape(json.dumps(dict(each.values)))}">{html.escape(each.label)}'
        "</button>"
        for each in entry.tries
    )
    return f'<div class="buttons tries" role="group" aria-label="Try">{buttons}</div>' if buttons else ""


def _turn(section: Section, place: int) -> str:
    """Return short links to the entries before and after, near the begin of the page."""
    found = []
    for there, word, sign, relation in ((place - 1, "Previous", "‹", "prev"), (place + 1, "Next", "›", "next")):
        if 0 <= there < len(section.entries):
            entry = section.entries[there]
            found.append(
                f'<a data-turn="{relation}" href="/{section.name}/{entry.name}" '
                f'aria-label="{word}: {html.escape(entry.title)}">{sign}</a>'
            )
    here = f"<span>{place + 1} of {len(section.entries)}</span>"
    found.insert(1 if place else 0, here)
    return f'<nav class="turn" aria-label="Page">{"".join(found)}</nav>'


def _steps(section: Section, place: int, last: str = "") -> str:
    """Return links to the entries before and after, and from the last one to `last`."""
    found = []
    for there, word, relation in ((place - 1, "Previous", "prev"), (place + 1, "Next", "next")):
        if 0 <= there < len(section.entries):
            entry = section.entries[there]
            address = f"/{section.name}/{entry.name}"
            link = f'<a rel="{relation}" href="{address}"><span>{word}:</span> {html.escape(entry.title)}</a>'
            found.append(link)
    return "".join(found) + (last if place + 1 == len(section.entries) else "")


def _current(is_current: bool) -> str:
    return ' aria-current="page"' if is_current else ""
