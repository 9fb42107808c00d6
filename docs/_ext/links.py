"""Makes links of keys of the references, and of names of the library in code type, in pages and docstrings."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.osutil import relative_uri

LOGGER = logging.getLogger(__name__)
KEY = re.compile(r"\[([A-Z][A-Za-z]*[0-9]{2})\]")
# Functions with the names of events: `laplace` is more often a word than a curve.
_CURVES = "ferrodp.accounting.rdp."
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(\))?")


def _mark_references(app: Sphinx, tree: nodes.document) -> None:
    """Give each listed source an anchor."""
    if app.env.docname != "references":
        return
    for item in tree.findall(nodes.list_item):
        found = KEY.match(item.astext())
        if found:
            item["ids"].append(f"ref-{found[1].lower()}")
            app.env.__dict__.setdefault("ferrodp_references", {})[found[1]] = item["ids"][-1]


class Links(SphinxPostTransform):
    """Link keys and names, once everything has been read."""

    default_priority = 5

    def run(self, **kwargs: Any) -> None:
        """Walk over the text of one page."""
        for text in [*self.document.findall(nodes.Text)]:
            if not isinstance(
                text.parent, (nodes.literal, nodes.reference, nodes.literal_block, nodes.title, nodes.raw)
            ):
                self._keys(text)
        for xref in [*self.document.findall(addnodes.pending_xref)]:
            if xref.get("refdomain") == "py" and xref["reftarget"].islower():
                xref.replace_self(xref.children)  # an attribute or a word, which Sphinx would look for in every class
        objects = self.env.domaindata["py"]["objects"]
        for literal in [*self.document.findall(nodes.literal)]:
            if not isinstance(literal.parent, (nodes.reference, nodes.title)):
                self._name(literal, objects)

    def _keys(self, text: nodes.Text) -> None:
        known = self.env.__dict__.get("ferrodp_references", {})
        if self.env.docname == "references" or not KEY.search(text):
            return
        parts: list[nodes.Node] = []
        for index, part in enumerate(KEY.split(str(text))):
            if index % 2 == 0:
                parts.append(nodes.Text(part))
            elif part in known:
                uri = self._uri("references", known[part])
                parts.append(nodes.reference("", f"[{part}]", refuri=uri, internal=True, classes=["cite"]))
            else:
                LOGGER.warning("[%s] is not in references.md", part, location=text.parent)
                parts.append(nodes.Text(f"[{part}]"))
        text.parent.replace(text, parts)

    def _name(self, literal: nodes.literal, objects: dict[str, Any]) -> None:
        name = literal.astext()
        if not _NAME.fullmatch(name):
            return
        name = name.removesuffix("()")
        name = re.sub(r"^fd\b", "ferrodp", name)
        target = self._find(name, objects)
        if target is None or (target.docname == self.env.docname and target.objtype == "module"):
            return
        uri = self._uri(target.docname, target.node_id)
        link = nodes.reference("", "", refuri=uri, internal=True)
        literal.replace_self(link)
        link += literal

    def _uri(self, page: str, anchor: str) -> str:
        return f"{relative_uri(f'{self.env.docname}.html', f'{page}.html')}#{anchor}"

    def _find(self, name: str, objects: dict[str, Any]) -> Any:
        if name in objects:
            return objects[name]
        if "." not in name and not name[0].isupper() and "_" not in name:
            return None  # a parameter or a word
        # Some names are exported at the top as well, and documented where they are at home.
        name = name.rpartition(".")[2] if name.startswith("ferrodp.") else name
        matches = {
            (found.docname, found.node_id): found
            for full, found in objects.items()
            if full.endswith("." + name) and not full.startswith(_CURVES)
        }
        return next(iter(matches.values())) if len(matches) == 1 else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("doctree-read", _mark_references)
    app.add_post_transform(Links)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
