"""Callbacks that show or write what happens: a progress bar, and a line for each step in a file."""

from __future__ import annotations

import abc
import csv
import io
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from ferrodp.errors import InvalidType, MissingPackage
from ferrodp.training.loop import Callback, Progress

__all__ = ["CsvLog", "JsonLog", "ProgressBar"]


class ProgressBar(Callback):
    """Show how far the training is. Needs rich: ``pip install "ferrodp[cli]"``.

    Parameters
    ----------
    description : str
        Stands before the bar.

    Raises
    ------
    MissingPackage
        If rich is not installed.

    Examples
    --------
    >>> from ferrodp.training import ProgressBar
    >>> bar = ProgressBar("private training")
    """

    def __init__(self, description: str = "training") -> None:
        try:
            import rich.progress as rich
        except ImportError:
            raise MissingPackage('a progress bar needs rich: pip install "ferrodp[cli]"') from None
        self._make: Callable[[], Any] = lambda: rich.Progress(
            *rich.Progress.get_default_columns(), rich.MofNCompleteColumn()
        )
        self._description = description
        self._bar: Any = None
        self._task: Any = None

    def _begin(self, progress: Progress) -> None:
        """Draw the bar."""
        self._bar = self._make()
        self._bar.start()
        total = progress.run.plan.num_steps
        self._task = self._bar.add_task(self._description, total=total, completed=progress.num_steps)

    def _after(self, progress: Progress) -> None:
        """Move it."""
        self._bar.update(self._task, completed=progress.num_steps)

    def _end(self, progress: Progress) -> None:
        """Leave it as it is."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class _Log(Callback, abc.ABC):
    """A line for each step: its number, and what callbacks before this one recorded in `Progress.values`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise InvalidType(f"path must be a str or a path, got {type(path).__name__}")
        self.path = Path(path)
        self._file: TextIO | None = None

    def _begin(self, progress: Progress) -> None:
        """Open the file, behind the lines of a training that goes on."""
        self._file = self.path.open("a" if progress.num_steps else "w", encoding="utf-8", newline="")

    def _after(self, progress: Progress) -> None:
        """Write a line."""
        if self._file is not None:
            self._file.write(self._line({"step": progress.num_steps, **progress.values}))
            self._file.flush()

    def _end(self, progress: Progress) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @abc.abstractmethod
    def _line(self, values: dict[str, float | None]) -> str:
        """Return the line of a step."""


class CsvLog(_Log):
    """Write a line of comma-separated values for each step.

    Parameters
    ----------
    path : str or path
        A file; replaced by a training that begins, continued by one that goes on.

    Raises
    ------
    InvalidType
        If the path is none.

    Notes
    -----
    The columns are "step" and what callbacks before this one recorded in the first step that is logged, so list a
    `PrivacyMonitor` first, with ``every=1``.

    Examples
    --------
    >>> from ferrodp.training import CsvLog, PrivacyMonitor
    >>> callbacks = [PrivacyMonitor(1e-5, verbose=False), CsvLog("training.csv")]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._columns: list[str] = []

    def _begin(self, progress: Progress) -> None:
        """Open the file, and read its columns if the training goes on."""
        self._columns = []
        if progress.num_steps and self.path.exists():
            with self.path.open(encoding="utf-8", newline="") as file:
                self._columns = next(csv.reader(file), [])
        super()._begin(progress)

    def _line(self, values: dict[str, float | None]) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self._columns:
            self._columns = list(values)
            writer.writerow(self._columns)
        writer.writerow([values.get(name) for name in self._columns])
        return text.getvalue()


class JsonLog(_Log):
    """Write a JSON object a line for each step.

    Parameters
    ----------
    path : str or path
        A file; replaced by a training that begins, continued by one that goes on.

    Raises
    ------
    InvalidType
        If the path is none.

    Notes
    -----
    Keys are "step" and what callbacks before this one recorded. An infinite ε is "inf".

    Examples
    --------
    >>> from ferrodp.training import JsonLog
    >>> log = JsonLog("training.jsonl")
    """

    def _line(self, values: dict[str, float | None]) -> str:
        plain = {name: "inf" if value == math.inf else value for name, value in values.items()}
        return json.dumps(plain) + "\n"
