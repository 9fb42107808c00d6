"""Puts the records of measurements into the page of results: a section a file, newest first."""

from pathlib import Path

MARK = "<!-- records -->\n"


def sections(folder: Path) -> str:
    """Return the files of `folder`, named `YYYY-MM-DD-subject.txt`, as sections of a page."""
    paths = sorted(folder.glob("*.txt"), key=lambda path: (path.name[:10], path.name), reverse=True)
    return "\n".join(_section(path) for path in paths)


def _section(path: Path) -> str:
    date, subject = path.stem[:10], path.stem[11:].replace("-", " ")
    return f"### {date}, {subject}\n\n```{{code-block}} text\n{path.read_text(encoding='utf-8').rstrip()}\n```\n"
