"""Renders mathematics as MathML when the pages are built: browsers show it without a script or a font of ours."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from latex2mathml.exceptions import DoubleSubscriptsError, DoubleSuperscriptsError
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

LOGGER = logging.getLogger(__name__)


def _render(node: nodes.Element, display: str) -> str:
    formula = node.astext()
    try:
        written = convert(formula, display=display)
    except (ValueError, IndexError, DoubleSubscriptsError, DoubleSuperscriptsError) as error:
        LOGGER.warning("%s cannot be rendered: %r", formula, error, location=node)
        return ""
    if "\\" in written.replace("\\|", ""):
        LOGGER.warning("%s has a command that is not known", formula, location=node)
    return written


def _inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(_render(node, "inline"))
    raise nodes.SkipNode


def _block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math-block") + _render(node, "block") + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
