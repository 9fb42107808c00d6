"""Prepares each page before Sphinx reads it: runs its blocks, inserts their output, resolves links between files.

The pages are written to be read in a repository browser as well. So a page may include a file of the repository's
root, links point to files, and marks of blocks are comments.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import blocks
import records
from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
ROOT = Path(__file__).parents[2]
_LOADED = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"'](?:https?:)?//[^\"']*"
    r"|@import[^;]*//[^;]*|url\([\"']?https?:[^)]*"
)
_INCLUDED = re.compile(r"^```\{include\} \.\./(\w+\.md)\n```$", re.MULTILINE)
# Files of the repository's root that have a page of their own.
_PAGES = {"README": "index", "SECURITY": "security", "ARCHITECTURE": "architecture", "CHANGELOG": "changelog"}
_PAGES |= {"CONTRIBUTING": "contributing"}


def _prepare(app: Sphinx, docname: str, content: list[str]) -> None:
    path = Path(app.env.doc2path(docname))
    if path.suffix != ".md":
        return
    text = _with_outputs(path, content[0], docname)
    for name in _INCLUDED.findall(text):
        app.env.note_dependency(str(ROOT / name))
        included = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        text = text.replace(f"```{{include}} ../{name}\n```", included)
    for name, page in _PAGES.items():
        text = re.sub(rf"\]\((?:\.\./)*{name}\.md(#[\w-]+)?\)", rf"](/{page}.md\1)", text)
    if records.MARK in text:
        folder = ROOT / "benches" / "record"
        for record in folder.iterdir():
            app.env.note_dependency(str(record))
        text = text.replace(records.MARK, records.rows(folder))
    content[0] = re.sub(r"^<!--.*?-->\n", "", text, flags=re.MULTILINE | re.DOTALL)


def _with_outputs(path: Path, text: str, docname: str) -> str:
    found = blocks.find(text)
    if not any(block.runs_here for block in found):
        return text
    try:
        outputs = blocks.run(path)
    except blocks.BlockError as error:
        LOGGER.warning("%s", error, location=docname)
        return text
    for block, output in reversed([*zip(found, outputs, strict=True)]):
        if output and output.strip():
            shown = f"\n\n```{{code-block}} text\n:class: output\n\n{output.rstrip()}\n```"
            text = text[: block.end] + shown + text[block.end :]
    return text


def _check_offline(app: Sphinx, exception: Exception | None) -> None:
    """Warn of every script, style sheet, font or picture that a page would load from elsewhere."""
    if exception is not None or app.builder.format != "html":
        return
    for folder, _, names in os.walk(app.outdir):
        for name in names:
            if name.endswith((".html", ".css")):
                path = Path(folder, name)
                for found in _LOADED.findall(path.read_text(encoding="utf-8")):
                    LOGGER.warning("%s loads from elsewhere: %s", path.relative_to(app.outdir), found)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("source-read", _prepare)
    app.connect("build-finished", _check_offline)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
