"""A page for every public class of the API, written before pages are read; the page of its module lists them.

They are no Markdown, so that nobody takes them for pages that a person wrote. They are in no tree of contents: two
hundred entries more in the sidebar of every page would help nobody, and took a third of the time of a build.

Exceptions stay on the page of their module, and so does a class that is documented elsewhere (`conf.py`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

_AUTOMODULE = re.compile(r"```\{eval-rst\}\n\.\. automodule:: (\S+)\n((?:   :.*\n)*)```\n")


def _classes(module: str, elsewhere: Collection[str]) -> dict[str, type]:
    """Return the public classes of a module that have a page of their own, by name."""
    found = import_module(module)
    return {
        name: value
        for name in getattr(found, "__all__", ())
        if inspect.isclass(value := getattr(found, name))
        and not issubclass(value, BaseException)
        and name not in elsewhere
        and value.__name__ == name
        and value.__module__.startswith("ferrodp.")
    }


def _write(app: Sphinx) -> None:
    """Write the pages; what is the same stays as it is, so that nothing is built again for it."""
    folder = Path(app.srcdir) / "api" / "classes"
    folder.mkdir(exist_ok=True)
    app.ferrodp_pages = {}  # type: ignore[attr-defined]
    written = set()
    for source in sorted((Path(app.srcdir) / "api").glob("*.md")):
        page = f"api/{source.stem}"
        for module, options in _AUTOMODULE.findall(source.read_text(encoding="utf-8")):
            if ":members:" not in options:
                continue
            classes = _classes(module, app.config.ferrodp_elsewhere.get(page, ()))
            app.ferrodp_pages[page, module] = classes  # type: ignore[attr-defined]
            for name in classes:
                text = f":orphan:\n\n{name}\n{'=' * len(name)}\n\nIn :doc:`{module} <../{source.stem}>`.\n\n"
                kept = "".join(f"{line}\n" for line in options.splitlines() if ":imported-members:" not in line)
                text += f".. autoclass:: {module}.{name}\n{kept}"
                path = folder / f"{module}.{name}.rst"
                written.add(path)
                if not path.exists() or path.read_text(encoding="utf-8") != text:
                    path.write_text(text, encoding="utf-8")
    for path in set(folder.glob("*.rst")) - written:
        path.unlink()


def _list(app: Sphinx, docname: str, content: list[str]) -> None:
    """List the classes of each module below what its page says of it."""

    def listed(found: re.Match[str]) -> str:
        classes = app.ferrodp_pages.get((docname, found[1]), {})  # type: ignore[attr-defined]
        if not classes:
            return found[0]
        rows = [f"| [`{name}`](classes/{found[1]}.{name}.rst) | {_summary(value)} |" for name, value in classes.items()]
        table = "\n".join(["| class | what it is |", "| --- | --- |", *rows])
        level = "###" if f"\n## {found[1]}\n" in content[0] else "##"
        return f"{found[0]}\n{level} Classes\n\n{table}\n"

    if docname.startswith("api/"):
        content[0] = _AUTOMODULE.sub(listed, content[0])


def _summary(value: type) -> str:
    """Return the first line of a docstring as it stands in a table of a page."""
    return (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def _skip(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave classes with a page of their own out of the page of their module."""
    listed = (classes for (page, _), classes in app.ferrodp_pages.items() if page == app.env.docname)  # type: ignore[attr-defined]
    return True if what == "module" and any(classes.get(name) is member for classes in listed) else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.add_config_value("ferrodp_elsewhere", {}, "env")
    app.connect("builder-inited", _write)
    app.connect("source-read", _list, priority=600)
    app.connect("autodoc-skip-member", _skip)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
