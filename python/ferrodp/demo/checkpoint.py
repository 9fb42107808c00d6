"""What a training needs to continue in another process: everything made from noised sums, and what was paid.

A checkpoint holds nothing that the ledger was not charged for, so it is as private as the model. It names the head of
the ledger: a ledger that does not contain it is another one, or was put back, and the training is not continued with
it.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ferrodp.demo._training import SHAPES, Model, Round
from ferrodp.files import Destination, FileRefused

_VERSION = 1
_TEXTS = "run", "scope", "head"
_MODELS = "model", "velocity"
_OTHER = "is not a checkpoint of this version; move it away to begin anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A training after a round.

    Attributes
    ----------
    run : str
        Names the training in the keys of its charges.
    scope : str
        What it is charged to.
    head : str
        Of the ledger, after the last charge.
    settings : dict
        What must not change between processes: noise, clip norm and how the images are dealt.
    charges : int
        How many keys are used up: rounds, and charges whose result was lost in a crash.
    rounds : tuple of Round
        What was measured after each round.
    model, velocity : Model
        Where the server stands.
    """

    run: str
    scope: str
    head: str
    settings: dict[str, float | int]
    charges: int
    rounds: tuple[Round, ...]
    model: Model = field(compare=False)
    velocity: Model = field(compare=False)

    def save(self, path: Path, before: Checkpoint | None) -> None:
        """Replace the file, whole or not at all, unless it is not what was saved `before`: another process is at work.

        Two that save at the very same moment are not told apart; the ledger charges both all the same.
        """
        if Checkpoint.load(path) != before:
            raise FileRefused(os.fspath(path), "was changed by another process, which continues this training")
        plain = {"version": _VERSION, **{name: getattr(self, name) for name in (*_TEXTS, "settings", "charges")}}
        plain["rounds"] = [[each.accuracy, each.epsilon] for each in self.rounds]
        for kind in _MODELS:
            plain[kind] = {name: array.ravel().tolist() for name, array in getattr(self, kind).items()}
        text = json.dumps(plain, allow_nan=False)
        with Destination(path, force=True) as destination:
            destination.commit(lambda stream: stream.write(text.encode()))

    @staticmethod
    def load(path: Path) -> Checkpoint | None:
        """Return what `save` wrote, or None if there is no such file.

        Raises
        ------
        FileRefused
            If it holds anything else.
        """
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FileRefused(os.fspath(path), f"cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError):
            plain = None
        try:
            return _parsed(plain)
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
            raise FileRefused(os.fspath(path), _OTHER) from None


def _parsed(plain: Any) -> Checkpoint:
    if plain["version"] != _VERSION:
        raise ValueError
    texts = {name: plain[name] for name in _TEXTS}
    if not all(isinstance(text, str) and text for text in texts.values()):
        raise TypeError
    rounds = tuple(Round(float(accuracy), float(epsilon)) for accuracy, epsilon in plain["rounds"])
    charges = plain["charges"]
    if type(charges) is not int or charges < len(rounds):
        raise ValueError
    models: dict[str, Any] = {kind: _arrays(plain[kind]) for kind in _MODELS}
    return Checkpoint(**texts, settings=dict(plain["settings"]), charges=charges, rounds=rounds, **models)


def _arrays(plain: Any) -> Model:
    arrays = {name: np.array(plain[name], np.float64) for name in SHAPES}
    for name, array in arrays.items():
        if array.shape != (math.prod(SHAPES[name]),) or not np.isfinite(array).all():
            raise ValueError
    return {name: array.astype(np.float32).reshape(SHAPES[name]) for name, array in arrays.items()}
