"""What the rows of `hints_of_ledgers`, `hints_of_plans` and `hints_of_releases` share."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mistaken_objects import planned

import ferrodp as fd
from ferrodp import correlated, federated, plan
from ferrodp.events import NeighboringRelation

REMOVE, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL


def fresh(name: str) -> Path:
    """Return a path in a new folder."""
    return Path(tempfile.mkdtemp(prefix="ferrodp-hints-")) / name


def in_block(call: Callable[[], object]) -> object:
    """Call within an open budget."""
    with fd.budget(epsilon=8.0, delta=1e-3):
        return call()


def written(content: bytes, name: str) -> Path:
    """Return a new file of these bytes."""
    path = fresh(name)
    path.write_bytes(content)
    return path


STRATEGY = correlated.BufferedToeplitz(num_steps=9, buffers=2)


def block(call: Callable[[], object], **caps: Any) -> object:
    """Call within an open budget of these caps."""
    with fd.budget(**caps):
        return call()


def rounds(template: Any = None, **changes: Any) -> federated.FederatedRun:
    """Return federated rounds."""
    chosen = planned(unit="client", population_size=100, noise=plan.ConstantNoise(100.0))
    return federated.FederatedRun(chosen, {"w": np.zeros(3)} if template is None else template, **changes)
