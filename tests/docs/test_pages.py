"""Every code block of the README and of the documentation runs as written, in order, in an empty folder."""

import os
import pkgutil
import re
from pathlib import Path

import blocks
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Words that a fence may have after it; what is a program is run, or says why not.
SHOWN = {"text", "toml", "yaml", "json"}
FRAMEWORK = os.environ.get("FERRODP_FRAMEWORK")


def name(page):
    return page.relative_to(ROOT).as_posix()


def runs_here(page):
    """Whether a page has blocks for this environment: those of its framework, or without one those that need none."""
    return any(block.runs_here and FRAMEWORK in (None, block.needs) for block in blocks.find(page.read_text("utf-8")))


@pytest.mark.parametrize("page", [page for page in PAGES if runs_here(page)], ids=name)
def test_the_blocks_of_a_page_run(page):
    """`blocks.run` raises for a block that fails, and for a line of output that a block promises and does not print."""
    outputs = blocks.run(page)

    assert len(outputs) == len(blocks.find(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_block_escapes_its_test(page):
    """Every fence is found by the runner, is a directive of the site, or shows something that is no program."""
    text = page.read_text(encoding="utf-8")
    fences = re.findall(r"^(?:```+)([\w{][^\n]*)$", text, re.MULTILINE)

    others = [fence for fence in fences if fence not in blocks.LANGUAGES and not fence.startswith("{")]

    assert {*others} <= SHOWN
    assert len(blocks.find(text)) == len(fences) - len([fence for fence in fences if fence not in blocks.LANGUAGES])


def test_blocks_that_are_not_run_give_a_reason():
    skipped = [
        block for page in PAGES for block in blocks.find(page.read_text(encoding="utf-8")) if block.mark == "not run"
    ]

    assert all(len(block.value.split()) >= 3 for block in skipped)


def test_what_needs_a_framework_runs_where_that_is_and_nowhere_else(tmp_path, monkeypatch):
    block, whole = tmp_path / "block.md", tmp_path / "whole.md"
    block.write_text("<!-- needs: torch -->\n```python\n1 + 1\n```\n\n```python\n2 + 2\n```\n", encoding="utf-8")
    whole.write_text("<!-- needs: torch -->\n\n# Page\n\n```python\n1 + 1\n```\n", encoding="utf-8")

    for framework, expected in {None: [None, None], "jax": [None, None], "torch": ["2\n", "2\n"]}.items():
        monkeypatch.delenv("FERRODP_FRAMEWORK", raising=False)
        if framework:
            monkeypatch.setenv("FERRODP_FRAMEWORK", framework)
        assert [blocks.run(block)[0], blocks.run(whole)[0]] == expected
        assert blocks.run(block)[1] == "4\n"


def test_a_page_that_needs_a_framework_marks_its_blocks_like_others(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    blocks_of = "```python\nx = {}\n```\n\n<!-- raises: KeyError -->\n```python\nx[1]\n```\n"
    page.write_text(f"<!-- needs: torch -->\n\n{blocks_of}", encoding="utf-8")
    monkeypatch.setenv("FERRODP_FRAMEWORK", "torch")

    assert [(block.mark, block.needs) for block in blocks.find(page.read_text(encoding="utf-8"))] == [
        (None, "torch"),
        ("raises", "torch"),
    ]
    assert blocks.run(page) == ["", "KeyError: 1\n"]


def test_what_a_page_needs_is_tested_by_check_frameworks():
    folders = {path.parent.name for path in (ROOT / "tests" / "integrations").glob("*/requirements.txt")}
    needed = {block.needs for page in PAGES for block in blocks.find(page.read_text(encoding="utf-8"))}

    assert needed - {None} <= folders


def test_a_page_that_ran_well_in_this_check_does_not_run_again(tmp_path, monkeypatch):
    page, kept = tmp_path / "page.md", tmp_path / "kept"
    kept.mkdir()
    monkeypatch.setenv("FERRODP_PAGE_OUTPUTS", str(kept))
    monkeypatch.delenv("FERRODP_FRAMEWORK", raising=False)
    runs = tmp_path / "runs"
    page.write_text(f"```sh\necho once >> {runs}\n```\n", encoding="utf-8")

    assert [blocks.run(page), blocks.run(page)] == [[""], [""]]
    assert runs.read_text() == "once\n"
    page.write_text(f"```sh\necho again >> {runs}\n```\n", encoding="utf-8")
    blocks.run(page)
    assert runs.read_text() == "once\nagain\n"
    page.write_text("```sh\nfalse\n```\n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(blocks.BlockError):
            blocks.run(page)


def test_a_block_that_fails_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nprint(x)  # → 2\n```\n", encoding="utf-8")

    with pytest.raises(blocks.BlockError, match=r"page.md:6: no line '2' in the output"):
        blocks.run(page)


def test_an_exception_has_to_be_announced_and_to_happen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- raises: KeyError -->\n```python\n{}[1]\n```\n", encoding="utf-8")
    silent = tmp_path / "silent.md"
    silent.write_text("<!-- raises: KeyError -->\n```python\n{1: 2}[1]\n```\n", encoding="utf-8")
    surprising = tmp_path / "surprising.md"
    surprising.write_text("```sh\nfalse | true\n```\n", encoding="utf-8")

    assert blocks.run(page) == ["KeyError: 1\n"]
    with pytest.raises(blocks.BlockError, match="did not raise KeyError"):
        blocks.run(silent)
    with pytest.raises(blocks.BlockError, match="exit code 1"):
        blocks.run(surprising)


def test_blocks_share_names_and_a_folder(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\necho 7 > seven\n```\n```python\nn = int(open('seven').read())\n```\n```python\nn + 1\n```\n"
    )

    assert blocks.run(page) == ["", "", "8\n"]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_and_names_that_a_page_mentions_exist(page):
    text = page.read_text(encoding="utf-8")
    files = re.findall(r"`((?:tests|rust|python|benches|examples|docs)/[\w./-]+)`", text)
    names = re.findall(r"`((?:fd|ferrodp)\.[A-Za-z_][\w.]*)", text)

    assert [file for file in files if not (ROOT / file).exists()] == []
    for dotted in names:
        pkgutil.resolve_name(f"ferrodp.{dotted.partition('.')[2]}")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_to_files_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if ":" not in link]

    # the extension `gallery` runs the page's code before the pages are made
    made = {f"gallery/{name}" for name in re.findall(r'savefig\("([^"]+)"', page.read_text(encoding="utf-8"))}
    assert [link for link in links if link not in made and not (page.parent / link).exists()] == []
