"""Records of rounds: what may be published of them, as values, JSON and CSV."""

from __future__ import annotations

import abc
import csv
import io
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting.accountants.registry import AccountantChoice, accountant_maker
from ferrodp.errors import UnsupportedEventError
from ferrodp.events import PrivacyEvent

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


class Records(abc.ABC):
    """The records of a run, and its ε: what `FederatedRun` and `PlacedRun` share.

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
    >>> from ferrodp.federated import FederatedRun, PlacedRun
    >>> from ferrodp.federated.records import Records
    >>> issubclass(FederatedRun, Records), issubclass(PlacedRun, Records)
    (True, True)
    >>> def told(run):
    ...     return run.plan, run.event, run.epsilon(1e-5), run.records, run.to_json(), run.to_csv()
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

    @property
    @abc.abstractmethod
    def plan(self) -> Any:
        """What is run."""

    @property
    @abc.abstractmethod
    def event(self) -> PrivacyEvent:
        """What was charged for rounds that have begun; `NonPrivateEvent` if the source was seeded."""

    def epsilon(self, delta: Real, *, accountant: AccountantChoice = "pld") -> float:
        """Return an upper bound on the ε of the rounds so far.

        Parameters
        ----------
        delta : float
            In (0, 1). Rounded down if not exactly representable.
        accountant : str or callable
            As for `PrivacyPlan.epsilon`.

        Returns
        -------
        float
            Infinite if the source was seeded.

        Raises
        ------
        InvalidParameter, InvalidType, UnsupportedEventError
            As for `PrivacyPlan.epsilon`.
        """
        return self._epsilon_of(self.event, delta, accountant)

    def _epsilon_of(self, event: PrivacyEvent, delta: Real, choice: AccountantChoice = "pld") -> float:
        counted = accountant_maker(choice, self.plan.neighboring_relation)()
        counted.compose(event)
        return counted.epsilon(delta)

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

    def append_missing_to(self, path: str | os.PathLike[str]) -> None:
        """Append to a CSV file the records of rounds that it does not have: of a server that was killed before it did.

        Parameters
        ----------
        path : str or PathLike
            The file. Its folder must exist.

        Raises
        ------
        OSError
            If it cannot be read or written.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> from ferrodp.federated import FederatedRun
        >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
        >>> plan = PrivacyPlan(
        ...     unit="client",
        ...     population_size=2,
        ...     sampling=FullBatch(),
        ...     num_steps=2,
        ...     clipping=FlatClipping(1.0),
        ...     noise=ConstantNoise(1.0),
        ... )
        >>> run = FederatedRun(plan, np.zeros(3))
        >>> for round_ in run:
        ...     round_.add_missing(2)
        ...     _ = round_.release()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "rounds.csv")
        ...     run.records[0].append_to(file)
        ...     run.append_missing_to(file)
        ...     file.read_text() == run.to_csv()
        True
        """
        known = set()
        if Path(path).exists():
            with Path(path).open(newline="", encoding="utf-8") as stream:
                known = {row.get("round") for row in csv.DictReader(stream)}
        for record in self._records:
            if str(record.round) not in known:
                record.append_to(path)

    def _note(self, number: int, multiplier: float, clip_norm: float, denominator: float) -> None:
        """Keep the record of a round that was just released."""
        try:
            renyi = self.epsilon(self._delta, accountant="rdp")
        except UnsupportedEventError:
            renyi = None
        epsilon, delta = self.epsilon(self._delta), self._delta
        self._records.append(RoundRecord(number, multiplier, clip_norm, denominator, epsilon, delta, renyi))


def _csv(records: Iterable[RoundRecord], *, header: bool = True) -> str:
    """Return records as lines of CSV, after one of names."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [each.name for each in fields(RoundRecord)], lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(asdict(record) for record in records)
    return text.getvalue()
