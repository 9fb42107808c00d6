"""The source distribution holds what it needs to be built, and what its pages link to."""

import re
import shutil
import subprocess
import sysconfig
import tarfile
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)#:]*[./][^)#:]*)(?:#[^)]*)?\)")
OWN_URL = re.compile(r"https://github\.com/ferrodp/ferrodp/blob/main/([\w./-]*\w)")


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    maturin = shutil.which("maturin", path=sysconfig.get_path("scripts")) or shutil.which("maturin")
    if maturin is None:
        pytest.skip("maturin is not installed")
    folder = tmp_path_factory.mktemp("sdist")
    subprocess.run([maturin, "sdist", "-o", str(folder)], cwd=ROOT, check=True, capture_output=True)
    (archive,) = folder.glob("ferrodp-*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def test_what_pages_link_to_is_in_it(members):
    pages = sorted(members.rglob("*.md"))
    assert {"README.md", "SECURITY.md", "ARCHITECTURE.md", "CHANGELOG.md"} <= {page.name for page in pages}
    for page in pages:
        for target in LINK.findall(page.read_text()):
            # the gallery's pictures are made with the pages
            assert (page.parent / target).exists() or target.startswith("gallery/"), f"{page.name} links to {target}"
        for target in OWN_URL.findall(page.read_text()):
            assert (members / target).exists(), f"{page.name} links to {target}"


def test_what_the_readme_links_to_is_found_from_an_index_as_well():
    """An index shows the README alone, where links to neighbors lead nowhere."""
    assert LINK.findall((ROOT / "README.md").read_text()) == []


@pytest.mark.parametrize("name", ["CITATION.cff", "packaging/ferrodp.cdx.json", "docs/conf.py", "examples", "LICENSE"])
def test_what_belongs_to_it_beside_the_sources_is_in_it(members, name):
    assert (members / name).exists()


def test_nothing_that_was_built_is_in_it(members):
    built = [path for path in members.rglob("*") if path.suffix in (".so", ".pyc") or path.name == "_build"]
    built += (members / "docs").rglob("*.html")

    assert built == []


def test_the_lock_file_fits_after_members_were_left_out(members):
    """Cargo has to be free to drop the left-out members, and needs no network for that."""
    assert not (members / "benches" / "Cargo.toml").exists()
    asked = [shutil.which("cargo") or "cargo", "metadata", "--offline", "--format-version=1", "--no-deps"]
    subprocess.run(asked, cwd=members, check=True, capture_output=True)

    settings = tomllib.loads((members / "pyproject.toml").read_text())["tool"]["maturin"]
    assert not settings.get("locked")
    assert not settings.get("frozen")


def test_python_files_are_all_in_it(members):
    here = {path.relative_to(ROOT) for path in (ROOT / "python").rglob("*.py*") if path.suffix in (".py", ".pyi")}
    there = {path.relative_to(members) for path in (members / "python").rglob("*.py*")}

    assert here == there
