"""The extensions that build the site: mathematics, links, output of blocks, and nothing from elsewhere."""

import re
from io import StringIO
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="building pages needs ferrodp[docs]")

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from ferrodp import correlated

ROOT = Path(__file__).parents[2]
EXTENSIONS = ["myst_parser", "sphinx.ext.autodoc", "mathml", "pages", "links", "classes"]
REFERENCES = '# References\n\n- [Mir17] Mironov, "Rényi differential privacy", CSF 2017.\n'


@pytest.fixture
def build(tmp_path):
    """Return a function that builds pages, given by name, and returns the HTML of `index` and all warnings."""

    def built(**pages):
        source = tmp_path / "source"
        (source / "api").mkdir(parents=True)
        for name, text in {"references": REFERENCES, **pages}.items():
            (source / f"{name}.md").write_text(f"---\norphan: true\n---\n{text}", encoding="utf-8")
        warnings = StringIO()
        settings = {
            "extensions": EXTENSIONS,
            "myst_enable_extensions": ["dollarmath"],
            "html_math_renderer": "mathml",
            "root_doc": "index",
        }
        target = tmp_path / "built"
        with docutils_namespace():  # one build after another in one process
            Sphinx(source, None, target, tmp_path / "trees", "html", settings, status=None, warning=warnings).build()
        return (target / "index.html").read_text(encoding="utf-8"), warnings.getvalue()

    return built


def test_formulas_become_mathml(build):
    html, warnings = build(index="# Page\n\nInline $\\varepsilon$, and\n\n$$\\frac{a}{b}$$\n")

    assert 'display="inline"><mrow><mi>&#x003B5;</mi></mrow></math>' in html
    assert "<mfrac>" in html
    assert "<script" not in html.partition("<body>")[2].partition("mfrac")[0]
    assert warnings == ""


def test_a_formula_with_an_unknown_command_is_a_warning(build):
    _, warnings = build(index="# Page\n\n$\\nosuchthing x$\n")

    assert "has a command that is not known" in warnings


def test_keys_of_references_are_links_and_unknown_ones_warnings(build):
    html, warnings = build(index="# Page\n\nBy [Mir17] Proposition 3, not [Nob99].\n")

    assert 'href="references.html#ref-mir17"' in html
    assert "[Nob99] is not in references.md" in warnings
    assert warnings.count("WARNING") == 1


def test_what_a_block_prints_is_shown_below_it(build):
    html, warnings = build(index="# Page\n\n```python\nprint('seven' * 2)\n```\n")

    assert "sevenseven" in html
    assert warnings == ""


def test_a_block_that_fails_is_a_warning(build):
    _, warnings = build(index="# Page\n\n```python\n1 / 0\n```\n")

    assert "ZeroDivisionError: division by zero" in warnings


@pytest.mark.parametrize(
    "loaded",
    ['<script src="https://example.org/x.js"></script>', '<img src="//example.org/x.png">'],
)
def test_a_page_that_loads_something_from_elsewhere_is_a_warning(build, loaded):
    _, warnings = build(index=f"# Page\n\n{loaded}\n\n[A link](https://example.org) loads nothing.\n")

    assert "index.html loads from elsewhere" in warnings
    assert warnings.count("WARNING") == 1


def test_marks_of_blocks_are_not_shown(build):
    html, _ = build(index="# Page\n\n<!-- not run: it is an example only -->\n```python\n1 / 0\n```\n")

    assert "not run" not in html


def test_records_are_files_to_open_newest_first(build, tmp_path):
    (tmp_path / "benches").symlink_to(ROOT / "benches")  # beside the folder of the pages, as in the repository
    html, warnings = build(index="# Page\n\n## Records\n\n<!-- records -->\n")

    dates = re.findall(r"<p>(\d{4}-\d\d-\d\d)</p>", html)
    assert len(dates) == len([*(ROOT / "benches" / "record").glob("*.txt")]) > 10
    assert dates == sorted(dates, reverse=True)
    (link,) = re.findall(r'href="([^"]+2026-11-22-aarch64.txt)"', html)
    assert "46 digests" in (tmp_path / "built" / link).read_text(encoding="utf-8")
    assert "46 digests" not in html
    assert not warnings


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")  # of Sphinx
def test_a_class_has_a_page_that_the_page_of_its_module_lists(build, tmp_path):
    directive = "```{eval-rst}\n.. automodule:: ferrodp.correlated\n   :members:\n```\n"
    _, warnings = build(index="# Page\n", **{"api/correlated": f"# ferrodp.correlated\n\n{directive}"})

    pages = tmp_path / "built" / "api"
    module = (pages / "correlated.html").read_text(encoding="utf-8")
    own = {path.stem.rpartition(".")[2] for path in (pages / "classes").glob("*.html")}
    assert own == {name for name in correlated.__all__ if isinstance(getattr(correlated, name), type)}
    assert len(own) > 5
    for name in own:
        assert f'href="classes/ferrodp.correlated.{name}.html"' in module
        assert f'id="ferrodp.correlated.{name}"' not in module
        page = (pages / "classes" / f"ferrodp.correlated.{name}.html").read_text(encoding="utf-8")
        assert f'id="ferrodp.correlated.{name}"' in page
    assert "duplicate object" not in warnings
