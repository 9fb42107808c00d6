"""Each way out that a refusal names is taken, and no place in the sources that names one is without a test.

What is a place, and how it is compared with messages, is in `support/hints.py`; the rows are in the tables `hints*.py`
beside this file. Places of integrations have tables in the folders of their frameworks, which a test here sees to:
`tests/integrations/NAME/test_hints_of_NAME.py`.
"""

import ast
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hints import HINTS as OF_LIBRARY
from hints_of_programs import HINTS as OF_PROGRAMS
from mistaken_objects import ledgers

from support.hints import (
    INSTALLED,
    Hint,
    Place,
    identifiers,
    known,
    known_message,
    lead_out,
    left_over,
    places,
    without_place,
)

TESTS = Path(__file__).parents[1]
HINTS = [*OF_LIBRARY, *OF_PROGRAMS]


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A ledger of two scopes, and one without any: new ones, as ways out change them."""
    monkeypatch.chdir(tmp_path)
    with ledgers(tmp_path) as made:
        yield made


@pytest.mark.parametrize("hint", HINTS, ids=identifiers(HINTS))
def test_a_way_out_is_named_and_leads_out(hint: Hint, context: Any) -> None:
    lead_out(hint, context)


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
    ("explorer/app/trainings.py", "Close another page"): "tests/explorer/test_trainings.py, with a server",
    ("federated/checkpoints.py", "put both files of one moment back"): "tests/federated: killed servers go on",
    ("federated/rounds.py", "failed after it was paid for"): "tests/federated: killed servers go on",
    ("files/_npy.py", "use .npz or .safetensors"): "tests/files/test_file_formats.py",
    ("plan/run.py", "leaves canaries out"): "tests/audit/test_canaries.py",
    ("statistics/rows/frames.py", "to_frame needs"): "what to install is the name that is filled in",
}
"""Places without a row here: file, words of the text (all of the file if empty), and where its way out is taken."""


def test_no_way_out_is_without_a_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Needs the messages of all rows, which are made anew where tests were chosen or spread over processes."""
    found = []
    for number, hint in enumerate(HINTS):
        if known(hint):
            found.append(known_message(hint))
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        with ledgers(folder) as made:
            found.append(known_message(hint, made))
    left = left_over([place for place in places() if not place.framework], found, ELSEWHERE)

    assert not left, "\n".join(left)


def test_exceptions_from_the_census_are_there() -> None:
    assert without_place(ELSEWHERE) == []


def test_each_integration_has_a_census_of_its_own() -> None:
    """In the folder of its framework, where `./check frameworks` has that installed and runs it."""
    frameworks = sorted({place.framework for place in places()} - {""})
    own = {place.framework for place in places() if place.file.startswith("integrations/")}

    assert len(frameworks) >= 10
    assert own == set(frameworks)
    for name in frameworks:
        path = TESTS / "integrations" / name / f"test_hints_of_{name}.py"
        assert path.exists(), name
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        censuses = [node for node in calls if ast.unparse(node.func) == "assert_all_lead_out"]
        assert [ast.literal_eval(node.args[0]) for node in censuses] == [name]


@pytest.mark.parametrize(
    ("messages", "elsewhere", "is_left"),
    [
        ([], [], True),
        (["got 3; give one number"], [], True),
        (["got 3; give two numbers instead"], [], False),
        ([], [("a/b.py", "two numbers")], False),
        ([], [("a/c.py", "two numbers")], True),
    ],
)
def test_a_place_without_a_row_is_found(messages: list[str], elsewhere: list[tuple[str, str]], is_left: bool) -> None:
    place = Place("a/b.py", "got {}; give two numbers")

    assert bool(left_over([place], messages, elsewhere)) is is_left


def refused(text: str) -> None:
    """Refuse something in these words."""
    raise ValueError(text)


@pytest.mark.parametrize(
    ("mistake", "way"),
    [
        (lambda c: None, lambda c: None),
        (lambda c: refused("give three"), lambda c: None),
        (lambda c: refused("; give no such thing"), lambda c: refused("; give no such thing")),
        (lambda c: refused("; give no such thing"), lambda c: warnings.warn("; give no such thing", stacklevel=1)),
        (lambda c: refused("; give no such thing"), lambda c: None),
    ],
    ids=["not answered", "other words", "refused", "warned of", "no text of the sources"],
)
def test_a_row_that_does_not_lead_out_fails(mistake: Callable[[Any], object], way: Callable[[Any], object]) -> None:
    with pytest.raises((AssertionError, ValueError)):
        lead_out(Hint("; give no such thing", mistake, way))


def test_extras_that_messages_say_to_install_exist() -> None:
    """Those of `pip install "ferrodp[…]"`, as the project declares them."""
    project = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["project"]
    named = {name for place in places() for name in INSTALLED.findall(place.text) if name and name != "{}"}

    assert len(named) >= 10
    assert named <= set(project["optional-dependencies"])
