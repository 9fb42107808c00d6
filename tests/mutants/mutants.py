"""Defects that must not pass: each is one change of the sources and the command that has to notice it.

Chosen so that a differential, statistical or property test notices, not the pinned outputs, which any change at all
would fail. A mutant is at the line below a comment ``mutant: …`` that the sources have once, and says what it changes
on that line. Where the line no longer holds that: rewrite the mutant, do not drop it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

ROOMS = [
    import_module(path.stem)
    for path in sorted(Path(__file__).parent.glob("*.py"))
    if path.stem not in ("mutants", "run", "test_mutants")
]
MARKER = re.compile(r"^ *(?://|#) mutant: ([a-z0-9-]+)\n", re.MULTILINE)


class BrokenError(Exception):
    """The mutant says nothing: it did not apply, or did not build."""


@dataclass(frozen=True)
class Mutant:
    """One defect: on the line below `marker` the only `old` becomes `new`, and the command `killer` has to fail.

    `old` may go on in the lines that follow.
    """

    name: str
    marker: str
    old: str
    new: str
    killer: str

    def applied(self, text: str) -> str:
        """Return a source that has the marker, with the defect; raise `BrokenError` where it does not apply."""
        found = [match for match in MARKER.finditer(text) if match[1] == self.marker]
        if len(found) != 1:
            raise BrokenError(f"its marker is there {len(found)} times")
        before, after = text[: found[0].end()], MARKER.sub("", text[found[0].end() :])
        places = [place for place in range(after.index("\n")) if after.startswith(self.old, place)]
        if len(places) != 1:
            raise BrokenError(f"the line below its marker has {len(places)} times what it changes: {self.old!r}")
        return before + after[: places[0]] + self.new + after[places[0] + len(self.old) :]


# Commands by name. "cargo" runs as it stands; "pytest" builds the extension module first and runs on the portable path,
# so that a change of that path is seen on any CPU.
KILLERS = {name: command for room in ROOMS for name, command in room.KILLERS.items()}
MUTANTS = [Mutant(*fields) for room in ROOMS for fields in room.MUTANTS]


@cache
def markers(root: Path) -> dict[str, list[Path]]:
    """Return the files in which each marker is, one as often as it is there, under the sources in `root`."""
    found: dict[str, list[Path]] = {}
    for file in sorted([*root.glob("rust/*/src/**/*.rs"), *root.glob("python/**/*.py")]):
        for match in MARKER.finditer(file.read_text(encoding="utf-8")):
            found.setdefault(match[1], []).append(file)
    return found


def file_of(mutant: Mutant, root: Path) -> Path:
    """Return the file that has the mutant's marker."""
    files = markers(root).get(mutant.marker, [])
    if len(files) != 1:
        raise BrokenError(f"its marker is there {len(files)} times")
    return files[0]
