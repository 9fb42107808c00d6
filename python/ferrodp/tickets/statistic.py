"""What a release says about the data, in words: kept with its charge, for whoever has to answer for the budget.

Words come from code alone: the name of a statistic, of a column and of a unit, and public bounds. Nothing of them is
computed from rows. Words that a caller writes are refused where they would not be readable; names that are found in a
table, such as a long question of a survey, are shortened, so that no table is refused for its header.
"""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Self

from ferrodp._base import _texts, _validate
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation

__all__ = ["ReleasedStatistic", "describing"]

MAX_WORDS = 200
MAX_STATISTICS = 1000
_FIELDS = ("statistic", "column", "bounds", "unit")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedStatistic:
    """What a charge was for, in words: recorded with the charge, and never derived from data.

    The functions of `ferrodp.statistics`, mechanisms and the command line write it by themselves, in the transaction
    that spends the budget. Give it to `PrivacyLedger.reserve` for a ticket that pays for several releases, or for code
    of your own; `describing` names columns and units that a plain array does not name.

    Parameters
    ----------
    statistic : str
        What is released, such as ``mean``.
    column : str, optional
        The column, or several, that it is about.
    bounds : str, optional
        Public bounds of the values.
    unit : str, optional
        Whom the guarantee protects.

    Raises
    ------
    InvalidParameter, InvalidType
        If a text is empty, longer than 200 characters, or has characters that cannot be seen.

    Examples
    --------
    >>> import ferrodp as fd
    >>> words = fd.tickets.ReleasedStatistic(statistic="mean", column="age", bounds="[0, 120]", unit="one patient")
    >>> print(words)
    mean, column age, bounds [0, 120], unit: one patient
    >>> fd.tickets.ReleasedStatistic.from_dict(words.to_dict()) == words
    True
    """

    statistic: str
    column: str | None = None
    bounds: str | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        for name in _FIELDS:
            value = getattr(self, name)
            if value is not None or name == "statistic":
                # mutant: words-that-cannot-be-read-are-recorded
                object.__setattr__(self, name, _texts.text(name, value, MAX_WORDS, "NFC"))

    def __str__(self) -> str:
        column = "" if self.column is None else f", column {self.column}"
        bounds = "" if self.bounds is None else f", bounds {self.bounds}"
        return self.statistic + column + bounds + ("" if self.unit is None else f", unit: {self.unit}")

    def to_dict(self) -> dict[str, str]:
        """Return the words by name, without those that are not given.

        Returns
        -------
        dict
        """
        found = {name: getattr(self, name) for name in _FIELDS}
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def from_dict(cls, words: dict[str, Any]) -> Self:
        """Return what `to_dict` wrote.

        Parameters
        ----------
        words : dict
            Texts by name.

        Returns
        -------
        ReleasedStatistic

        Raises
        ------
        InvalidParameter, InvalidType
            If it is anything else.
        """
        if not isinstance(words, dict):
            raise _validate.wrong_type("words", "a dict", words, write='{"statistic": "mean"}')
        if "statistic" not in words or not words.keys() <= set(_FIELDS):
            raise InvalidParameter(f"words must have a statistic, and nothing but {', '.join(_FIELDS)}")
        return cls(**words)


_SAID: ContextVar[dict[str, str]] = ContextVar("words of releases", default={})  # noqa: B039  # it is never changed


@contextlib.contextmanager
def describing(
    *, statistic: str | None = None, column: str | None = None, bounds: str | None = None, unit: str | None = None
) -> Iterator[None]:
    """Say what the releases within a block are about, where the ledger would not know it otherwise.

    A pandas or polars column has a name, which is recorded; an array has none. Words that are given here take the place
    of those that a release would have recorded. They cover what runs in the block, other threads not among it.

    Parameters
    ----------
    statistic, column, bounds, unit : str, optional
        As for `ReleasedStatistic`. Within another block, what is not given is as there.

    Yields
    ------
    None

    Raises
    ------
    InvalidParameter, InvalidType
        If nothing is given, or a text is not accepted. Nothing was released.

    Examples
    --------
    >>> import tempfile
    >>> import ferrodp as fd
    >>> folder = tempfile.TemporaryDirectory()
    >>> with fd.PrivacyLedger.open(f"{folder.name}/budget.db") as ledger:
    ...     with fd.budget(epsilon=1.0, ledger=ledger, scope="survey"):
    ...         with fd.tickets.describing(column="age", unit="one patient"):
    ...             _ = fd.private_mean([31.0, 47.0, 62.0], bounds=(0, 120), epsilon=0.5)
    ...     print(*[str(words) for each in ledger.releases() for words in each.statistics])
    mean, column age, bounds [0, 120], unit: one patient
    >>> folder.cleanup()
    """
    given = {"statistic": statistic, "column": column, "bounds": bounds, "unit": unit}
    said = {name: text for name, text in given.items() if text is not None}
    if not said:
        raise InvalidParameter('at least one of the words must be given, got none; for example column="age"')
    checked = ReleasedStatistic(**({"statistic": "statistic"} | said)).to_dict()
    token = _SAID.set(_SAID.get() | {name: checked[name] for name in said})
    try:
        yield
    finally:
        _SAID.reset(token)


@contextlib.contextmanager
def known_as(words: ReleasedStatistic) -> Iterator[None]:
    """Say what the releases of a block are, where a room knows more of them than they do; `describing` knows best."""
    token = _SAID.set(words.to_dict() | _SAID.get())
    try:
        yield
    finally:
        _SAID.reset(token)


def found_statistic(
    statistic: str, column: str | None = None, bounds: str | None = None, unit: str | None = None
) -> ReleasedStatistic:
    """Return the words of a release as it knows them, shortened where they are too long to be recorded.

    What `describing` says takes their places.
    """
    words = {"column": column, "bounds": bounds, "unit": unit}
    texts = {name: short for name, text in words.items() if (short := _shortened(text))}
    return ReleasedStatistic(**({"statistic": _shortened(statistic) or "statistic"} | texts | _SAID.get()))


def changed(relation: NeighboringRelation, unit: str) -> str:
    """Return what happens to the unit in whose data neighbors differ."""
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        return "added or removed"
    # mutant: words-say-the-other-relation
    return "replaced by another" if relation is NeighboringRelation.REPLACE_ONE else f"replaced by a null {unit}"


def recorded_statistic(words: dict[str, str]) -> ReleasedStatistic:
    """Return the words of a record, whatever version of Unicode the program knew that wrote it."""
    texts = {name: short for name in _FIELDS if (short := _shortened(words.get(name)))}
    return ReleasedStatistic(**({"statistic": "statistic"} | texts))


def checked_statistics(value: object) -> tuple[ReleasedStatistic, ...]:
    """Return the words of a charge: one or several; none if there are none."""
    if isinstance(value, ReleasedStatistic):
        return (value,)
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise _validate.wrong_type(
            "statistics",
            "a ReleasedStatistic or several",
            value,
            write='fd.tickets.ReleasedStatistic(statistic="mean")',
        )
    found = tuple(value)
    for each in found:
        if not isinstance(each, ReleasedStatistic):
            raise InvalidType(f"statistics must be of type ReleasedStatistic, got {type(each).__name__}")
    if len(found) > MAX_STATISTICS:
        raise InvalidParameter(f"statistics must be at most {MAX_STATISTICS}, got {len(found)}")
    return found


def are_words(value: object) -> bool:
    """Whether JSON data says in words what was released."""
    if not isinstance(value, dict) or "statistic" not in value or not value.keys() <= set(_FIELDS):
        return False
    return all(type(text) is str for text in value.values())


def _shortened(text: str | None) -> str | None:
    """Return a text of a table's header as one that can be recorded: visible characters, and not too many."""
    if text is None:
        return None
    seen = "".join(
        letter if _is_visible(letter) else " " for letter in unicodedata.normalize("NFC", text[: 4 * MAX_WORDS])
    )
    short = " ".join(seen.split())
    # mutant: long-names-of-columns-refuse-a-release
    return short if len(short) <= MAX_WORDS else short[: MAX_WORDS - 1].rstrip() + "…"


def _is_visible(letter: str) -> bool:
    return unicodedata.category(letter) not in _texts.UNSEEN and ord(letter) not in _texts.NO_INK
