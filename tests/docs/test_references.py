"""Sources are cited by keys that the page of references lists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEY = re.compile(r"\[([A-Z][A-Za-z]*[0-9]{2})\]")
LISTED = re.findall(r"^- \[(\w+)\]", (ROOT / "docs" / "references.md").read_text(encoding="utf-8"), re.MULTILINE)


def cited():
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "python").rglob("*.py")]
    for file in files:
        if file.name != "references.md":
            for key in KEY.findall(file.read_text(encoding="utf-8")):
                yield key, file.relative_to(ROOT).as_posix()
    for file in (ROOT / "rust").rglob("*.rs"):
        comments = re.findall(r"//.*", file.read_text(encoding="utf-8"))
        for key in KEY.findall("\n".join(comments)):
            yield key, file.relative_to(ROOT).as_posix()


def test_every_key_that_is_cited_is_listed():
    assert [(key, file) for key, file in cited() if key not in LISTED] == []


def test_references_are_sorted_and_listed_once():
    assert sorted(set(LISTED), key=str.casefold) == LISTED
