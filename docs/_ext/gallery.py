"""Makes the pictures of the gallery: runs the page's Python code in the folder that the page shows them from."""

import contextlib
from pathlib import Path

import blocks


def make(page: Path, folder: Path) -> None:
    """Run the code of a page with `folder` as the current one, where it saves its pictures."""
    import matplotlib as mpl

    mpl.use("agg")
    folder.mkdir(exist_ok=True)
    names: dict[str, object] = {}
    with contextlib.chdir(folder):
        for block in blocks.find(page.read_text(encoding="utf-8")):
            if block.language == "python":
                exec(compile(block.code, str(page), "exec"), names)


def setup(app):
    """Make the pictures before the pages are read."""
    app.connect("builder-inited", lambda app: make(Path(app.srcdir) / "gallery.md", Path(app.srcdir) / "gallery"))
    return {"parallel_read_safe": True}
