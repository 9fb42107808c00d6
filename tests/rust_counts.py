"""Counts what keeps `clip` small enough for one engineer to own.

    python tests/rust_counts.py

Code lines are those without blank lines, comments and tests.
"""

from __future__ import annotations

import re
from pathlib import Path

CORE = Path(__file__).parents[1] / "rust" / "ferrodp-core" / "src"
LIMITS = {"code lines": 4000, "unsafe blocks": 60, "routes": 6, "files in a folder": 12}
"""The most of each. To add a route, take another's place."""

TESTS = re.compile(
    r"\n *#\[cfg\(test\)\]\n(?: *#\[path = \"(\w+\.rs)\"\]\n)? *(?:pub\S* )?(?:unsafe )?(?:mod|fn|const) (\w+)"
)


def without_tests(text: str) -> str:
    """Return the text without items that only tests have."""
    while found := TESTS.search(text):
        opening = re.compile(r"[{;]").search(text, found.end())
        end = opening.end()
        if opening[0] == "{":
            depth = 1
            while depth:
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
        text = text[: found.start()] + text[end:]
    return text


def code_of(text: str) -> list[str]:
    """Return the code lines of a text."""
    lines = (re.sub(r"\s*//.*", "", line).strip() for line in without_tests(text).splitlines())
    return [line for line in lines if line]


def clip_counts() -> dict[str, int]:
    """Return how many there are of what `LIMITS` limits."""
    files = [CORE / "clip.rs", *sorted((CORE / "clip").rglob("*.rs"))]
    texts = {file: file.read_text() for file in files}
    only_tests = {
        file.parent / (found[1] or f"{found[2]}.rs")
        if found[1] or file.parent != CORE
        else CORE / "clip" / f"{found[2]}.rs"
        for file, text in texts.items()
        for found in TESTS.finditer(text)
    }
    code = [line for file, text in texts.items() if file not in only_tests for line in code_of(text)]
    routes = re.search(r"enum Route \{(.*?)\n\}", texts[CORE / "clip" / "route.rs"], re.DOTALL)[1]
    folders = [CORE / "clip", *(path for path in (CORE / "clip").rglob("*") if path.is_dir())]
    return {
        "code lines": len(code),
        "unsafe blocks": sum(len(re.findall(r"\bunsafe\s*\{", line)) for line in code),
        "routes": len(re.findall(r"^    \w+,$", routes, re.MULTILINE)),
        "files in a folder": max(len(list(folder.glob("*.rs"))) for folder in folders),
    }


if __name__ == "__main__":
    for what, count in clip_counts().items():
        print(f"{count:6} {what}, at most {LIMITS[what]}")
