"""The files of the page: small, and of this machine alone."""

import re
from importlib import resources
from pathlib import Path

from ferrodp import explorer

ROOT = Path(__file__).resolve().parents[2]


def page_files():
    return [path for folder in ("static", "pages") for path in (resources.files(explorer) / folder).iterdir()]


def test_all_files_of_the_page_are_within_250_kilobytes():
    assert 0 < sum(len(path.read_bytes()) for path in page_files()) < 250_000


def test_no_file_names_another_host_or_runs_text_as_code():
    for path in page_files():
        text = path.read_text(encoding="utf-8")
        hosts = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", text)) - {"http://www.w3.org"}  # a name of XML
        assert hosts == set(), path.name
        assert not re.search(r"\beval\(|new Function|\bstyle=|\bon[a-z]+=", text), path.name


def test_the_picture_in_the_readme_is_small():
    picture = ROOT / "docs" / "_static" / "explorer.png"

    assert picture.stat().st_size <= 150_000
    assert "docs/_static/explorer.png" in (ROOT / "README.md").read_text(encoding="utf-8")
