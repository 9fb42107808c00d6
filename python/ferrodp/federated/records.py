"""What may be told of rounds, as values, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ferrodp import _validate
from ferrodp._validate import Real
from ferrodp.accounting.accountants.registry import AccountantChoice
from ferrodp.errors import UnsupportedEventError

__all__ = ["Records", "RoundRecord"]


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """What may be told of a round: nothing in it depends on an update but through what was released.

    Attributes
    ----------
    round : int
        From 0.
    noise_multiplier, clip_norm : float
        With which the sum was released.
    denominator : float
        What it was divided by.
    epsilon, delta : float
        The guarantee of this round and all before it: ε is an upper bound, infinite for a seeded source.
    renyi_epsilon : float or None
        The same by Rényi divergences, as many tools report it: another upper bound, usually a looser one. None where
        no Rényi bound is known.

    Examples
    --------
    >>> from ferrodp.federated import RoundRecord
    >>> RoundRecord(0, 1.0, 0.5, 10.0, 4.37, 1e-5, 4.73).epsilon
    4.37
    """

    round: int
    noise_multiplier: float
    clip_norm: float
    denominator: float
    epsilon: float
    delta: float
    renyi_epsilon: float | None = None

    def append_to(self, path: str | os.PathLike[str]) -> None:
        """Append the record to a file of CSV, which gets a line of names first if it is new or empty.

        Parameters
        ----------
        path : str or PathLike
            The file. Its folder must exist.

        Raises
        ------
        OSError
            If it cannot be written.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from ferrodp.federated import RoundRecord
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "rounds.csv")
        ...     RoundRecord(0, 1.0, 0.5, 10.0, 4.37, 1e-5).append_to(file)
        ...     len(file.read_text().splitlines())
        2
        """
        with Path(path).open("a", newline="", encoding="utf-8") as stream:
            stream.write(_csv([self], header=stream.tell() == 0))


class Records:
    """The records of a run, and the ε at which it ends: what `FederatedRun` and `PlacedRun` share.

    Parameters
    ----------
    delta : float
        For which ε is stated.
    max_epsilon : float or None
        No round begins that would bring ε above this.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Examples
    --------
    >>> from ferrodp.federated.records import Records
    >>> Records(1e-5, None).records, Records(1e-5, None).to_json(), Records(1e-5, None).to_csv()[:5]
    ((), '[]', 'round')
    """

    __slots__ = ("_delta", "_max_epsilon", "_records")

    def __init__(self, delta: Real, max_epsilon: Real | None) -> None:
        self._delta = _validate.delta(delta)
        self._max_epsilon = (
            None if max_epsilon is None else _validate.positive("max_epsilon", max_epsilon, toward="down")
        )
        self._records: list[RoundRecord] = []

    @property
    def records(self) -> tuple[RoundRecord, ...]:
        """One record for each round that was released."""
        return tuple(self._records)

    def to_json(self) -> str:
        """Return the records as JSON: a list with an object for each round.

        Returns
        -------
        str
        """
        return json.dumps([asdict(record) for record in self._records])

    def to_csv(self) -> str:
        """Return the records as CSV: a line of names, and one for each round.

        Returns
        -------
        str
        """
        return _csv(self._records)

    def _note(
        self, number: int, multiplier: float, clip_norm: float, denominator: float, epsilon: Callable[..., float]
    ) -> None:
        """Keep the record of a round, with the ε that `epsilon(delta, accountant=…)` states after it."""
        renyi: float | None
        try:
            choice: AccountantChoice = "rdp"
            renyi = epsilon(self._delta, accountant=choice)
        except UnsupportedEventError:
            renyi = None
        self._records.append(
            RoundRecord(number, multiplier, clip_norm, denominator, epsilon(self._delta), self._delta, renyi)
        )


def _csv(records: Iterable[RoundRecord], *, header: bool = True) -> str:
    """Return records as lines of CSV, after one of names."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [each.name for each in fields(RoundRecord)], lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(asdict(record) for record in records)
    return text.getvalue()
