"""The code of README and of the documentation, as users copy it, passes a strict check of types."""

import re
from pathlib import Path

import blocks
import pytest
from mypy import api

import ferrodp

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What users have who install no stubs. Frameworks are not here: their classes are `Any`, also to those who derive from
# them, and whoever has the framework has its types.
CONFIGURATION = f"""
[mypy]
strict = true
disallow_subclassing_any = false
mypy_path = {Path(ferrodp.__file__).parents[1]}
[mypy-dask.*,dp_accounting.*,flwr.*,jax.*,jax_privacy.*,lightning.*,matplotlib.*,mbi.*,mindspore.*,nvflare.*,opacus.*]
ignore_missing_imports = true
[mypy-optax.*,peft.*,pandas.*,polars.*,pyarrow.*,ray.*,sklearn.*,statsmodels.*,torch.*,transformers.*]
ignore_missing_imports = true
"""


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """Return options of mypy: what one test has found out about numpy and this package, the other does not again."""
    folder = tmp_path_factory.mktemp("mypy")
    (folder / "mypy.ini").write_text(CONFIGURATION, encoding="utf-8")
    return ["--config-file", str(folder / "mypy.ini"), "--cache-dir", str(folder / "cache")]


def written(page, folder):
    """Write the Python code of a page that is run, in lines of the same numbers; None if there is none."""
    found = [
        block
        for block in blocks.find(page.read_text(encoding="utf-8"))
        if block.language == "python" and block.mark not in ("not run", "raises")
    ]
    if not found:
        return None
    text = ""
    for block in found:
        text += "\n" * (block.line - 1 - text.count("\n")) + block.code
    name = re.sub(r"\W", "_", page.relative_to(ROOT).with_suffix("").as_posix())
    path = folder / f"page_{name}.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_code_of_pages_passes_a_strict_check(tmp_path, options):
    paths = [path for path in (written(page, tmp_path) for page in PAGES) if path]

    found, errors, status = api.run([*options, *paths])

    assert len(paths) >= 30
    assert (found.splitlines()[-1][:7], errors, status) == ("Success", "", 0), found


def test_a_mistake_in_a_page_is_found(tmp_path, options):
    page = tmp_path / "page.py"
    page.write_text("import ferrodp as fd\n\nfd.private_count([True], epsilon='1')\n", encoding="utf-8")

    found, _, status = api.run([*options, str(page)])

    assert status == 1
    assert 'page.py:3: error: Argument "epsilon" to "private_count"' in found
