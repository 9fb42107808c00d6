"""Words that say little, in comments and docstrings of Python and on pages; CONTRIBUTING.md has what to write."""

import re
from pathlib import Path

import pytest

from test_house import MODULES
from test_pointers import texts

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/*.md")])
WORDS = {
    "asked for": r"\basked for\b",
    "meanwhile": r"\bmeanwhile\b",
    "brought": r"\bbrought\b",
    "turned": r"\bturned\b(?! (?:in)?to\b)",
    "where it lies": r"\bwhere (?:it|they) lies?\b(?! (?:in|beyond|between)\b)",
    "told": r"\btold\b(?! apart\b)",
}
ON_PAGES_ALONE = {"told"}
"""Words that code may still have: it speaks of what a program was told."""


def found_in(text, words):
    return [word for word in words if re.search(WORDS[word], text, re.IGNORECASE)]


def test_the_list_of_contributing_is_this_list():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

    assert re.findall(r"^\| \*(.+?)\* \|", page, re.MULTILINE) == list(WORDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_have_no_words_of_the_list(page):
    lines = page.read_text(encoding="utf-8").splitlines()

    assert {
        number: found
        for number, line in enumerate(lines, 1)
        if (found := found_in(line, WORDS)) and not re.match(r"\| \*.+?\* \|", line)
    } == {}


def test_comments_and_docstrings_have_no_words_of_the_list():
    words = [word for word in WORDS if word not in ON_PAGES_ALONE]

    assert {
        f"{name}:{line}": found
        for name, path in MODULES.items()
        for line, text in texts(path.read_text(encoding="utf-8"))
        if "mutant:" not in text and (found := found_in(text, words))
    } == {}


def test_words_are_found():
    assert found_in("Meanwhile, rows are turned; what is asked for was told where it lies.", WORDS) == [
        "asked for",
        "meanwhile",
        "turned",
        "where it lies",
        "told",
    ]
    assert found_in("An exception turned into a warning; lines that can be told apart.", WORDS) == []
