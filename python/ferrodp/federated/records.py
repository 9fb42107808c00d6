"""What may be told of rounds, as values, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

__all__ = ["RoundRecord"]


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
            stream.write(to_csv([self], header=stream.tell() == 0))


def to_json(records: Iterable[RoundRecord]) -> str:
    """Return records as a list of objects."""
    return json.dumps([asdict(record) for record in records])


def to_csv(records: Iterable[RoundRecord], *, header: bool = True) -> str:
    """Return records as lines of CSV, after one of names."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [each.name for each in fields(RoundRecord)], lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(asdict(record) for record in records)
    return text.getvalue()
