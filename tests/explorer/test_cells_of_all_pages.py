"""Every figure of every page prints, as a cell, the numbers that it shows."""

import contextlib
import io
import warnings

import pytest

from ferrodp.explorer.app.sections import SECTIONS
from ferrodp.explorer.figures import shown

ENTRIES = [
    pytest.param(entry, id=f"{section.name}-{entry.name}")
    for section in SECTIONS
    if section.name not in ("learn", "exam")  # those have tests of their own, with other inputs besides the defaults
    for entry in section.entries
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_cell_of_a_page_prints_the_numbers_on_it(entry):
    pytest.importorskip("sklearn")
    printed = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
        warnings.simplefilter("ignore")  # of weak privacy, where a page shows some
        answer = entry.figure.answer({})
        exec(compile(answer.cell, "cell", "exec"), {"__name__": "cell"})

    assert answer.numbers
    assert printed.getvalue() == "".join(f"{label}: {shown(value)}\n" for label, value in answer.numbers.items())
