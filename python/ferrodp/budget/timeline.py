"""What scopes had charged at each moment, and a picture of it. The picture needs ``pip install "ferrodp[plot]"``."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from ferrodp._base import _validate
from ferrodp._base._pictures import LIMIT, axes_of, finish, line_of, plain_dates, power
from ferrodp.budget import _names, records
from ferrodp.budget._measures import Amounts, Terms
from ferrodp.budget.ledger import PrivacyLedger
from ferrodp.budget.log import history
from ferrodp.budget.log.replay import Replay
from ferrodp.budget.records import Head
from ferrodp.budget.stores.base import Store
from ferrodp.errors import InvalidParameter, InvalidType

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes: TypeAlias = Any

__all__ = ["plot_ledger"]

_MOST_MOMENTS = 512
_MOST_SCOPES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What a scope had charged when a record was written.

    Attributes
    ----------
    time : datetime
        Of the record, in UTC, by the clock of the machine that wrote it.
    sequence : int
        The number of that record in the log.
    epsilon_charged : float
        As in a `ScopeReport` of that moment: the smallest budget into which all charges fitted. Rounded up.
    epsilon : float
        The budget then.
    """

    time: datetime.datetime
    sequence: int
    epsilon_charged: float
    epsilon: float


class _Noted(NamedTuple):
    time: str
    sequence: int
    terms: Terms
    spent: Amounts
    caps: Amounts


@dataclass(slots=True)
class _Trace:
    """The moments of a scope while the log is read: every one of a short log, evenly chosen ones of a long one."""

    found: list[_Noted] = field(default_factory=list)
    last: _Noted | None = None
    every: int = 1
    seen: int = 0

    def note(self, now: _Noted) -> None:
        # What changed between two that are kept is drawn with the later one.
        if self.last is not None and self.last[2:] == now[2:]:
            return
        self.last = now
        if self.seen % self.every == 0:
            self.found.append(now)
        self.seen += 1
        if len(self.found) >= _MOST_MOMENTS:
            self.found = self.found[::2]
            self.every *= 2

    def moments(self) -> tuple[Moment, ...]:
        kept = self.found if self.last is None or self.found[-1] is self.last else [*self.found, self.last]
        return tuple(
            Moment(
                time=datetime.datetime.fromisoformat(each.time),
                sequence=each.sequence,
                epsilon_charged=each.terms.epsilon_of(each.spent, each.caps),
                epsilon=_validate.rounded(each.terms.epsilon, "up"),
            )
            for each in kept
        )


def plot_ledger(
    ledger: PrivacyLedger,
    scopes: str | Sequence[str] | None = None,
    *,
    over: Literal["time", "records"] = "time",
    axes: Axes | None = None,
) -> Axes:
    """Draw what the scopes of a ledger had charged over time, and their budgets.

    The log is verified while it is read. Attempts that were refused are in no log, and so not in the picture.

    Parameters
    ----------
    ledger : PrivacyLedger
        An open ledger. Writers do not wait.
    scopes : str or sequence of str, optional
        Up to six scopes; by default the first six.
    over : {"time", "records"}
        Whether the horizontal axis is the time of the records, in UTC, or their number in the log, which shows what
        happened at once.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a new figure if left out.

    Returns
    -------
    matplotlib.axes.Axes
        A line in steps for each scope, the ε charged at the scope's δ, and a thin line for its budget. Of a long log up
        to 512 moments of each scope are drawn.

    Raises
    ------
    MissingPackage
        If matplotlib is not installed.
    InvalidParameter, InvalidType
        If there is no such scope, or none at all.
    LedgerError
        If the log was changed.

    Examples
    --------
    >>> import tempfile
    >>> import ferrodp as fd
    >>> with tempfile.TemporaryDirectory() as folder, fd.PrivacyLedger.open(f"{folder}/budget.db") as ledger:
    ...     ledger.create("survey", epsilon=2.0, delta=1e-6)
    ...     _ = ledger.spend("survey", fd.events.GaussianEvent(noise_multiplier=8.0))
    ...     axes = fd.budget.plot_ledger(ledger)
    >>> axes.get_ylabel()
    'ε charged at δ = 10⁻⁶'
    """
    if not isinstance(ledger, PrivacyLedger):
        raise InvalidType(
            f"ledger must be an open PrivacyLedger, got {type(ledger).__name__}: PrivacyLedger.open(where)"
        )
    if over not in ("time", "records"):
        raise _validate.out_of_domain("over", '"time" or "records"', over)
    if over not in ("time", "records"):
        raise _validate.out_of_domain("over", '"time" or "records"', over)
    known = ledger.scopes
    chosen = known[:_MOST_SCOPES] if scopes is None else (scopes,) if isinstance(scopes, str) else tuple(scopes)
    if not chosen:
        raise InvalidParameter("scopes must name at least one scope, and the ledger has none: ledger.create(…)")
    if len(chosen) > _MOST_SCOPES:
        raise InvalidParameter(f"scopes must be at most {_MOST_SCOPES}, got {len(chosen)}: draw a second picture")
    deltas = {_validate.rounded(ledger.report(_names.scope(name)).delta, "up") for name in chosen}
    with ledger._access.beside() as store:
        drawn = timelines(store, chosen)
    axes = axes_of(axes)
    until = max((moments[-1] for moments in drawn.values()), key=lambda moment: moment.sequence)
    for number, (name, moments) in enumerate(drawn.items()):
        places: list[Any] = [each.time if over == "time" else each.sequence for each in (*moments, until)]
        charged = [each.epsilon_charged for each in (*moments, moments[-1])]
        budgets = [each.epsilon for each in (*moments, moments[-1])]
        style = line_of(number)
        axes.step(places, charged, where="post", label=name, **style)
        axes.step(places, budgets, where="post", **{**LIMIT, "color": style["color"]})
        note = f"budget of {name}"
        axes.annotate(note, (places[0], budgets[0]), textcoords="offset points", xytext=(2, 3), fontsize="small")
    axes.set_ylim(0.0, 1.08 * axes.get_ylim()[1])
    if over == "time":
        plain_dates(axes.xaxis)
    at = f"δ = {power(min(deltas))}" if len(deltas) == 1 else "the scope's δ"
    along = "time (UTC)" if over == "time" else "records of the log"
    return finish(axes, along, f"ε charged at {at}", f"Budget over {over}")


def timelines(store: Store, names: Sequence[str]) -> dict[str, tuple[Moment, ...]]:
    """Return the moments at which a scope's charges or budget changed, oldest first, for each of some scopes."""
    traces = {name: _Trace() for name in names}
    with store.reading() as transaction:
        replay = Replay(Head(0, transaction.start))
    for row in history.forward(store):
        replay.read([row])
        time = None
        for name, trace in traces.items():
            scope = replay.scope(name)
            if scope is None or scope.version != row[0]:
                continue
            time = time or str(records.parsed(row[1])["time"])
            trace.note(_Noted(time, row[0], scope.terms, scope.spent, scope.caps))
    return {name: trace.moments() for name, trace in traces.items()}
