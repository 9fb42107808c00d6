"""Tables in files: which reader reads one, and what all readers give.

What is in a cell never raises: one that holds no number, such as "1,234.5", is missing, and so is one that a short row
lacks. Names of columns, the types of a Parquet file, and that no line of a text has more cells than its first are
public: they are the structure of the file. A line that has more is refused, as its cells belong to no column, and a
decimal comma would pass for two numbers.

Rows are read in blocks: numbers go into an array at once, and of names each is kept once, with its place for each row.
So memory holds 8 bytes a number and 4 bytes a name, not the file; of texts that say whose a row is, and are not
released, 21 bytes each: `ferrodp.statistics.rows.ids`.

*Conditions select rows before anything is released.* Whether a row is selected depends on that row alone and on what
is written in the command. If two tables differ by the rows of a unit, what is selected of them differs by rows of that
unit, by no more than before, so every (ε, δ) stands. A row that is replaced may be selected in one table only. That is
covered under `REPLACE_ONE`, too: every column read here counts as one whose rows can be missing, so a statistic takes
no number of rows for public, and gives the same for a table without a row as for one in which that row is missing. A
row that is not selected has no unit, and takes no place among the rows of its unit that count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ferrodp.cli.stats import parquet, text
from ferrodp.cli.stats.asked import Condition
from ferrodp.cli.stats.columns import How, Opened, Table
from ferrodp.errors import InvalidParameter
from ferrodp.files import FileRefused

_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def how(path: str, separator: str | None, decimal: str, conditions: tuple[Condition, ...] = ()) -> How:
    """Return how a file is to be read: by its name, and by what is given.

    Raises
    ------
    FileRefused
        If its name has no ending that is known.
    InvalidParameter
        If what is given does not fit together.
    """
    bare = path[: -len(".gz")] if path.lower().endswith(".gz") else path
    ending = bare[bare.rfind(".") :].lower()
    if ending == ".parquet" and bare == path:
        if separator is not None or decimal != ".":
            raise InvalidParameter("--separator and --decimal must be of a text, and a Parquet file is none")
        return How(path, "", decimal, False, conditions)
    found = (separator or ",") if path == "-" else separator or _SEPARATORS.get(ending)
    if found is None:
        raise FileRefused(path, "must end in .csv, .tsv or .parquet, the first two also in .gz; or give --separator")
    if found == decimal:
        raise InvalidParameter(f"--separator must not be the decimal mark, {decimal!r}, which stands within a cell")
    return How(path, found, decimal, bare != path, conditions)


@contextmanager
def opened(wanted: How) -> Iterator[Table]:
    """Give the table in a file.

    Raises
    ------
    FileRefused
        If it cannot be read, or is none.
    """
    reader: Opened = text.opened(wanted) if wanted.separator else parquet.opened(wanted)
    with reader as table:
        yield table
