"""Lists the records of measurements on the page of results: a row a file, newest first, each a file to open."""

from pathlib import Path

MARK = "<!-- records -->\n"


def rows(folder: Path) -> str:
    """Return the files of `folder`, named `YYYY-MM-DD-subject.txt`, as a table whose rows link to the files."""
    paths = sorted(folder.glob("*.txt"), key=lambda path: (path.name[:10], path.name), reverse=True)
    return "\n".join(["| date | record |", "| --- | --- |", *map(_row, paths)]) + "\n"


def _row(path: Path) -> str:
    date, subject = path.stem[:10], path.stem[11:].replace("-", " ")
    return f"| {date} | {{download}}`{subject} </../benches/record/{path.name}>` |"
