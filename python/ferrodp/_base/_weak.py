"""The warning for guarantees that are true and promise next to nothing."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ferrodp.errors import WeakPrivacyWarning

WEAK_EPSILON = 20.0
"""Above this, one unit changes the probability of an output by a factor of more than e^20 = 4.9e8."""
_PART_OF_A_STATISTIC: ContextVar[bool] = ContextVar("part_of_a_statistic", default=False)


@contextmanager
def part_of_a_statistic() -> Iterator[None]:
    """Leave the warning to the statistic that mechanisms are made for, which gives it once, of its whole ε."""
    before = _PART_OF_A_STATISTIC.set(True)
    try:
        yield
    finally:
        _PART_OF_A_STATISTIC.reset(before)


def warn_if_weak(epsilon: object) -> None:
    """Warn the nearest caller outside this package where a guarantee is true and promises next to nothing."""
    if float(epsilon) <= WEAK_EPSILON or _PART_OF_A_STATISTIC.get():  # type: ignore[arg-type]  # checked by the caller
        return
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("ferrodp."):
        frame, level = frame.f_back, level + 1
    warnings.warn(
        f"epsilon is above {WEAK_EPSILON:g}: one unit can change the probability of an output by a factor "
        "of more than 4e8; the guarantee is true, and weak",
        WeakPrivacyWarning,
        stacklevel=level,
    )
