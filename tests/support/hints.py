"""The census of what messages say to do instead, and rows of tables that make a mistake and take its way out.

A place is a text in the sources that names a way out. Each has a row, whose message is compared with the text in full,
or stands in a table of exceptions with the test that takes its way out, or the reason why a test cannot.
"""

import ast
import functools
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ferrodp as fd

ROOT = Path(fd.__file__).parent
ERRORS = (fd.errors.FerroError, TypeError, ValueError, AttributeError)
VERBS = (
    "create|use|pass|write|give|call|choose|open|make|take|convert it|list its|move|put|add|begin|start|leave|lower|"
    "set|compose|name|read|end|close|remove|collect|let|freeze|see|account|draw|hold|wait|keep|raise|mount|try"
)
WAY_OUT = re.compile(
    rf"(?:[;:.] |, and |, or |; or )(?:then |to [^;]{{3,60}} )?(?:{VERBS})\b|for example |such as |as in |pip install|"
    r"instead\b|did you mean|% write|PrivacyLedger\.open\(|to_json\(\) writes it|needs canaries|one of its columns is|"
    r"equal bins are"
)
INSTALLED = re.compile(r'pip install "ferrodp\[([a-z{}]+)\]"')
"""What to install, where it lacks: no place for a row, as a test has it installed."""
PROSE = "explorer/"
"""Lessons and captions of pictures: there, only what is raised is a message."""
SHARED = {"integrations/_processes.py": "mindspore", "integrations/_tensors.py": "opacus"}
"""Files of several integrations, and the one in whose table their places are."""


@dataclass(frozen=True)
class Hint:
    """A mistake whose message has these words, and what they say to do; both get the context of their table."""

    words: str
    mistake: Callable[[Any], object]
    way: Callable[[Any], object]


@dataclass(frozen=True)
class Place:
    """A text with a way out, and the file that it stands in; `{}` stands for what is filled in."""

    file: str
    text: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """What matches a message made of the text."""
        return re.compile(".*".join(re.escape(part) for part in self.text.split("{}")), re.DOTALL)

    @property
    def framework(self) -> str:
        """The integration whose table the place belongs to, if any."""
        room, _, name = self.file.partition("/")
        own = name.split("/")[0].removesuffix(".py") if room == "integrations" else ""
        return SHARED.get(self.file, own)


def _template(node: ast.AST) -> str | None:
    """Return a text as it is written, with `{}` for what is filled in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [_template(side) for side in (node.left, node.right)]
        return None if sides == [None, None] else "".join("{}" if side is None else side for side in sides)
    return None


def texts(node: ast.AST) -> Iterator[str]:
    """Yield all texts but docstrings and the help of options."""
    if (text := _template(node)) is not None:
        yield text
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.keyword) and node.arg in ("help", "description", "epilog", "metavar"):
        return
    children: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        children = [value for key, value in pairs if not (isinstance(key, ast.Constant) and key.value == "help")]
    for child in children:
        yield from texts(child)


def raised(node: ast.AST) -> Iterator[str]:
    """Yield the texts of what is raised, and of refusals that are made to be."""
    for each in ast.walk(node):
        name = each.func.id if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) else ""
        if isinstance(each, ast.Raise) or name == "Refused":
            yield from texts(each)


@functools.cache
def places() -> tuple[Place, ...]:
    """Return every place of the sources whose text says what to do instead."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for text in (raised if file.startswith(PROSE) else texts)(tree):
            if WAY_OUT.search(text):
                found[file, text] = Place(file, text)
    return tuple(found.values())


def message_of(hint: Hint, context: Any = None) -> str:
    """Return what the mistake is answered with: the text of the exception, or of the warnings."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            hint.mistake(context)
            message = "\n".join(str(each.message) for each in warned)
        except ERRORS as error:
            message = str(error)
    assert hint.words in message, f"{hint.words!r} is not in the answer: {message or 'there is none'}"
    return message


@functools.cache
def _messages() -> dict[Hint, str]:
    """What the mistakes of tables are answered with, as they are made."""
    return {}


def known_message(hint: Hint, context: Any = None) -> str:
    """Return what the mistake is answered with; it is made once a process."""
    if hint not in _messages():
        _messages()[hint] = message_of(hint, context)
    return _messages()[hint]


def known(hint: Hint) -> bool:
    """Return whether the mistake was made already in this process."""
    return hint in _messages()


def lead_out(hint: Hint, context: Any = None) -> None:
    """Make the mistake of a row and take its way out, which has to pass and not to be warned of in the same words."""
    message = known_message(hint, context)

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        hint.way(context)

    assert [each for each in warned if hint.words in str(each.message)] == []
    assert [place for place in places() if place.pattern.search(message)], message


def identifiers(hints: Sequence[Hint]) -> list[str]:
    """Return names for the tests of rows."""
    return [f"{number}-{hint.words[:40]}" for number, hint in enumerate(hints)]


def left_over(candidates: Iterable[Place], messages: Iterable[str], elsewhere: Iterable[tuple[str, str]]) -> list[str]:
    """Return the places of which no message is made, and that no exception covers."""
    found, excepted = list(messages), list(elsewhere)
    return [
        f"{place.file}: {place.text}"
        for place in candidates
        if not any(place.file == file and words in place.text for file, words in excepted)
        and not INSTALLED.search(place.text)
        and "pip install pandas" not in place.text
        and not any(place.pattern.search(message) for message in found)
    ]


def without_place(elsewhere: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the exceptions that no place of the sources needs."""
    return [
        (file, words)
        for file, words in elsewhere
        if not any(place.file == file and words in place.text for place in places())
    ]


def of_framework(name: str) -> list[Place]:
    """Return the places of a framework's integration."""
    return [place for place in places() if place.framework == name]


def assert_all_lead_out(
    framework: str, hints: Sequence[Hint], elsewhere: Iterable[tuple[str, str]] = (), context: Any = None
) -> None:
    """Check that each place of a framework's integration has a row, or an exception that is needed."""
    excepted = list(elsewhere)
    left = left_over(of_framework(framework), [known_message(hint, context) for hint in hints], excepted)

    assert of_framework(framework)
    assert not left, "\n".join(left)
    assert without_place(excepted) == []
