"""Each way out that a refusal names is taken, and no place in the sources that names one is without a test.

The census reads the sources: every text in an exception, or in what one is made of, that says what to do instead. Each
has a row in `hints.py`, whose message is compared with the text in full, or stands in `ELSEWHERE` with the test that
takes its way out, or the reason why a test cannot.
"""

import ast
import functools
import re
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hints import HINTS, Hint
from mistaken_objects import ledgers

import ferrodp as fd

ROOT = Path(fd.__file__).parent
TESTS = Path(__file__).parents[1]
IDS = [f"{number}-{hint.words[:40]}" for number, hint in enumerate(HINTS)]
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


@dataclass(frozen=True)
class Place:
    """A text with a way out, and the file that it stands in; `{}` stands for what is filled in."""

    file: str
    text: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """What matches a message made of the text."""
        return re.compile(".*".join(re.escape(part) for part in self.text.split("{}")), re.DOTALL)


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


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield all texts but docstrings and the help of options."""
    if (text := _template(node)) is not None:
        yield text
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.keyword) and node.arg in ("help", "description", "epilog", "metavar"):
        return
    for child in ast.iter_child_nodes(node):
        yield from _texts(child)


@functools.cache
def places() -> tuple[Place, ...]:
    """Return every place of the sources whose text says what to do instead."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        for text in _texts(ast.parse(path.read_text())):
            if WAY_OUT.search(text):
                found[file, text] = Place(file, text)
    return tuple(found.values())


@functools.cache
def messages() -> dict[int, str]:
    """What the mistakes of the table are answered with, as they are made."""
    return {}


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A ledger of two scopes, and one without any: new ones, as ways out change them."""
    monkeypatch.chdir(tmp_path)
    with ledgers(tmp_path) as made:
        yield made


def message_of(hint: Hint, context: Any) -> str:
    """Return what the mistake is answered with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ERRORS, match=re.escape(hint.words)) as caught:
            hint.mistake(context)
    return str(caught.value)


@pytest.mark.parametrize("hint", HINTS, ids=IDS)
def test_a_way_out_is_named_and_leads_out(hint: Hint, context: Any) -> None:
    message = message_of(hint, context)
    messages()[HINTS.index(hint)] = message

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hint.way(context)

    assert [place for place in places() if place.pattern.search(message)], message


OF_ARRAYS = "test_conversions.py: each conversion is evaluated and its result accepted"
FORKED = "in a forked child, which ends there: test_forked_processes.py, and in the folder of the room"
SYSTEM = "needs a mount, a full disk, another user or a server: tests/budget"
ELSEWHERE = {
    ("_base/_arrays.py", ""): OF_ARRAYS,
    ("statistics/_column.py", "must not be a masked array"): OF_ARRAYS,
    ("statistics/_foreign.py", ""): OF_ARRAYS,
    ("budget/blocks/_accounts.py", "parent of this forked process"): FORKED,
    ("budget/stores/base.py", "was opened by the parent"): FORKED,
    ("budget/stores/sqlite/store.py", "was in use when this process was forked"): FORKED,
    ("counters/stream.py", "in a forked child"): FORKED,
    ("engine/_counter.py", "parent of this forked process"): FORKED,
    ("mechanisms/sparse_vector.py", "in a forked child"): FORKED,
    ("plan/payments.py", "parent of this forked process"): FORKED,
    ("budget/stores/postgres/roles.py", ""): SYSTEM,
    ("budget/stores/sqlite/connection.py", ""): SYSTEM,
    ("budget/stores/sqlite/file.py", "beyond a link that no path"): SYSTEM,
    ("budget/stores/sqlite/filesystem.py", ""): SYSTEM,
    ("budget/stores/sqlite/store.py", "full disk"): SYSTEM,
    ("budget/stores/sqlite/store.py", "failed ({}: {})"): SYSTEM,
    ("budget/log/old_format.py", "has format 1"): "the way out is a new ledger, as in all rows with one",
    ("budget/records.py", "of a move that is not complete"): "killed moves are repeated in tests/budget/test_moves.py",
    ("budget/transfer.py", "did not note the destination"): "tests/budget/test_moves.py",
    ("federated/checkpoints.py", "put both files of one moment back"): "tests/federated: killed servers go on",
    ("federated/rounds.py", "failed after it was paid for"): "tests/federated: killed servers go on",
    ("files/_npy.py", "use .npz or .safetensors"): "tests/files/test_file_formats.py",
    ("plan/run.py", "leaves canaries out"): "tests/audit/test_canaries.py",
    ("statistics/rows/frames.py", "to_frame needs"): "what to install is the name that is filled in",
}
"""Places without a row here: file, words of the text (all of the file if empty), and where its way out is taken."""
PROGRAMS = ("cli/", "demo/", "explorer/", "integrations/")
"""Rooms of programs and frameworks, whose messages are tested where these are installed: no place is counted there."""
INSTALLED = re.compile(r'pip install "ferrodp\[([a-z]+)\]"')


def _is_elsewhere(place: Place) -> bool:
    return any(place.file == file and words in place.text for file, words in ELSEWHERE)


def test_no_way_out_is_without_a_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Needs the messages of all rows, which are made anew where tests were chosen or spread over processes."""
    found = messages()
    for number, hint in enumerate(HINTS):
        if number not in found:
            folder = tmp_path / str(number)
            folder.mkdir()
            monkeypatch.chdir(folder)
            with ledgers(folder) as made:
                found[number] = message_of(hint, made)
    places_left = [
        f"{place.file}: {place.text}"
        for place in places()
        if not place.file.startswith(PROGRAMS)
        and not _is_elsewhere(place)
        and not INSTALLED.search(place.text)
        and "pip install pandas" not in place.text
        and not any(place.pattern.search(message) for message in found.values())
    ]

    assert not places_left, "\n".join(places_left)


def test_exceptions_from_the_census_are_there() -> None:
    for file, words in ELSEWHERE:
        assert [place for place in places() if place.file == file and words in place.text], (file, words)


def test_extras_that_messages_say_to_install_exist() -> None:
    """Those of `pip install "ferrodp[…]"`, as the project declares them."""
    project = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["project"]
    named = {name for place in places() for name in INSTALLED.findall(place.text) if name}

    assert len(named) >= 10
    assert named <= set(project["optional-dependencies"])
