"""How the documentation is built: `sphinx-build -W docs target/docs`, without a network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from sphinx.domains.python import PyObject

import ferrodp
import ferrodp.accounting
import ferrodp.events

project = "FerroDP"
author = "The FerroDP developers"
copyright = author
version = release = ferrodp.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "mathml",
    "pages",
    "links",
    "gallery",
    "classes",
]
extensions += ["sphinx_copybutton", "sphinx_design"]
exclude_patterns = ["_ext", "_build"]

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 4

autodoc_typehints = "none"  # the docstrings say types, shapes and units
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
default_role = "literal"  # `links` makes links of names that it knows
add_module_names = False
toc_object_entries_show_parents = "hide"

# A name that several modules export is documented where it is at home; elsewhere it would be a second target of links.
_EVENTS = set(ferrodp.events.__all__)
ferrodp_elsewhere = {"api/accounting": _EVENTS, "api/submodules": _EVENTS | set(ferrodp.accounting.__all__)}


def _skip(app, what, name, member, skip, options):
    elsewhere = what == "module" and name in ferrodp_elsewhere.get(app.env.docname, ())
    field_of_a_tuple = str(getattr(member, "__doc__", "")).startswith("Alias for field number")
    return True if elsewhere or field_of_a_tuple else None


def _write_attributes(app, what, name, member, options, lines):
    """Write attributes as napoleon reads them: `a, b : type` as two attributes with the same description."""
    found = next((i for i, line in enumerate(lines) if line == "Attributes"), None)
    while found is not None and found < len(lines):
        names, colon, kind = lines[found].partition(" : ")
        if colon and ", " in names and not names.startswith(" "):
            end = next((i for i in range(found + 1, len(lines)) if not lines[i].startswith(" ")), len(lines))
            described = lines[found + 1 : end]
            lines[found:end] = [line for each in names.split(", ") for line in (f"{each} : {kind}", *described)]
        found += 1


def _rejoin(app, what, name, member, options, lines):
    """Undo that napoleon takes what comes before a colon in an attribute's first line for a type."""
    for number, line in enumerate(lines):
        if what == "attribute" and line.startswith(":type: "):
            lines[0] = f"{line.removeprefix(':type: ')}: {lines[0]}"
            del lines[number]
            break


def setup(app):
    """Connect to Sphinx."""
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _write_attributes, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", _rejoin, priority=600)  # after it
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"


html_theme = "furo"
html_title = f"FerroDP {version}"
html_static_path = ["_static"]
html_css_files = ["ferrodp.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
copybutton_selector = "div.highlight:not(.output *) pre"  # code, not what it printed
pygments_style = "default"
