"""Sums that are kept until what was released of them is safe: a step that was paid for is not lost with its process.

Before a step is paid for, its sum and a fresh key are written down together. Its noise is drawn with that key alone. A
process that goes on can then only repeat the release, bit for bit:

- *No new sum under old noise.* A key is drawn for one record, which holds the sum; once it is written, the step takes
  no more vectors.
- *No old sum under fresh noise.* A sum that is read from a record is released with the key of the record.
- *No second release for one payment.* A record names the ticket that it was written under, and a ticket of a step has
  one run that writes such a record: a run that finds it reserved cancels it and reserves another, unless it has that
  run's record. A cancelled ticket cannot be armed. So of all records of a step, those of a single sum and key are ever
  drawn under an armed ticket, and however often they are, the numbers are the same.

Correlated noise has one key for all steps, and step t the same noise whatever its sum. The first rule is then the third
one's: a run that reads an older record, or forms another sum, has another ticket for it, and a ticket of a step is
armed for one of them. So correlated noise needs a ledger here.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ferrodp import _native
from ferrodp.errors import InvalidParameter
from ferrodp.random import NoiseSource
from ferrodp.sums import ClippedSum
from ferrodp.tickets.payer import payer_of

__all__ = ["KeptSum", "StepKeeper"]


@dataclass(frozen=True, slots=True, repr=False)
class KeptSum:
    """A complete sum of a step, and the key of its noise. *Secret*: whoever has both has the sum without noise.

    Attributes
    ----------
    step : int
        Number of the step.
    ticket : str or None
        Name of the ticket that pays for it; None without a ledger.
    key : bytes
        32 bytes, of this sum alone; with correlated noise that of the run.
    parts : mapping of str to bytes
        The states of its sums.

    Examples
    --------
    >>> from ferrodp.plan import KeptSum
    >>> KeptSum(3, None, bytes(32), {"": b"..."})
    <KeptSum of step 3>
    """

    step: int
    ticket: str | None
    key: bytes
    parts: Mapping[str, bytes]

    def __repr__(self) -> str:
        return f"<KeptSum of step {self.step}>"


class _KeptSource(NoiseSource):
    """Draws each call with the next key that follows from a kept one."""

    __slots__ = ("_calls", "_kept")

    def __init__(self, key: bytes) -> None:
        self._kept, self._calls = key, 0

    def _key(self) -> bytes:
        number = self._calls
        # mutant: draws-of-one-kept-step-share-a-key
        self._calls += 1
        return _native.derive_key(self._kept, number)


class StepKeeper:
    """Keeps the sum of one step before it is paid for, once, and says what its noise is drawn from.

    Attributes
    ----------
    is_kept : bool
        Whether the sum was written down: then nothing may be added to it any more.

    Parameters
    ----------
    keep : callable
        Writes a `KeptSum` down, durably, or raises.
    step : int
        Number of the step.
    ticket : str or None
        That pays for it.
    key : bytes, optional
        Of a sum that was kept already, or of the correlated noise of the run; by default a fresh one.
    is_kept : bool
        Whether the sum was kept already.

    Examples
    --------
    >>> from ferrodp.plan._kept import StepKeeper
    >>> StepKeeper(print, 0, None).is_kept
    False
    """

    __slots__ = ("_keep", "_key", "_step", "_ticket", "is_kept")

    def __init__(
        self,
        keep: Callable[[KeptSum], None],
        step: int,
        ticket: str | None,
        key: bytes | None = None,
        *,
        is_kept: bool = False,
    ) -> None:
        self._keep, self._step, self._ticket, self._key = keep, step, ticket, key
        self.is_kept = is_kept

    def source(self, parts: Mapping[str, ClippedSum[Any]], source: NoiseSource) -> NoiseSource:
        """Return what to draw from instead of `source`, once the sum is written down.

        Parameters
        ----------
        parts : mapping of str to ClippedSum
            The sum.
        source : NoiseSource
            Of the run.

        Returns
        -------
        NoiseSource
            With the kept key, at its first draw.

        Raises
        ------
        InvalidParameter
            In a block that charges each release by itself.
        """
        if payer_of(source) is not None:
            raise InvalidParameter(
                "a run that keeps its sums must not be in a `with budget(...)` block, which pays for a release with "
                "fresh noise; start it with ledger= and scope="
            )
        if not self.is_kept:
            key = self._key or _fresh_key(self._step)
            self._keep(KeptSum(self._step, self._ticket, key, {name: total.state() for name, total in parts.items()}))
            self._key, self.is_kept = key, True
        assert self._key is not None
        return _KeptSource(self._key)


def _fresh_key(step: int) -> bytes:  # tests have one that depends on the step
    return secrets.token_bytes(32)
