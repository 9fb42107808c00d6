"""What several tables of mistakes are made with: a plan, mechanisms, columns, and a ledger to make mistakes on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import ferrodp as fd
from ferrodp import plan
from ferrodp.events import GaussianEvent

EVENT = GaussianEvent(noise_multiplier=10.0)
COLUMN = np.arange(10.0)
FRAME = {"region": ["n", "s"], "age": [1.0, 2.0]}
GAUSSIAN = fd.GaussianMechanism(noise_multiplier=2.0, l2_sensitivity=1.0)
DISCRETE = fd.DiscreteGaussianMechanism(scale=2.0, l2_sensitivity=1.0)


def planned(**changes: Any) -> fd.PrivacyPlan:
    """Return a plan, with parts replaced by mistakes."""
    parts = {
        "sampling": plan.PoissonSampling(probability=0.01),
        "clipping": plan.FlatClipping(clip_norm=1.0),
        "noise": plan.ConstantNoise(noise_multiplier=1.0),
        "num_steps": 10,
    }
    return fd.PrivacyPlan(**{**parts, **changes})


def secure(**changes: int) -> object:
    """Return a secure sum, with numbers of clients."""
    return fd.federated.SecureSum((3,), clip_norm=1.0, noise_multiplier=1.0, **changes)


@contextmanager
def ledgers(folder: Path) -> Iterator[Any]:
    """Yield a ledger of two scopes, one without any, and the path of the first."""
    path = str(folder / "budget.db")
    with fd.PrivacyLedger.open(path) as ledger, fd.PrivacyLedger.open(folder / "empty.db") as empty:
        ledger.create("hospital/images", epsilon=4.0, delta=1e-6)
        ledger.create("p", epsilon=4.0, delta=0, measure="pure")
        yield SimpleNamespace(ledger=ledger, empty=empty, path=path)
