"""How the documentation is built: `sphinx-build -W docs target/docs`, without a network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import ferrodp
import ferrodp.events

project = "FerroDP"
author = "The FerroDP developers"
copyright = author
version = release = ferrodp.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml", "pages", "links"]
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
_ELSEWHERE = {"api/accounting": set(ferrodp.events.__all__)}


def _skip(app, what, name, member, skip, options):
    return True if what == "module" and name in _ELSEWHERE.get(app.env.docname, ()) else None


def setup(app):
    """Connect to Sphinx."""
    app.connect("autodoc-skip-member", _skip)


html_theme = "furo"
html_title = f"FerroDP {version}"
html_static_path = ["_static"]
html_css_files = ["ferrodp.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "default"
