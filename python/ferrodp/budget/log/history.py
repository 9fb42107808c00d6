"""The records of a log, read in parts: memory is bounded, and neither writers nor a database's cleaning have to wait.

A log only grows. So what is read in several short transactions, up to a record that was there at the beginning, is what
it held at one moment.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from ferrodp.budget import records
from ferrodp.budget.stores.base import Store, Transaction
from ferrodp.budget.stores.rows import in_parts, ticket_record
from ferrodp.errors import LedgerDamaged

_RECORDS_AT_ONCE = 1000


def forward(store: Store) -> Iterator[Sequence[Any]]:
    """Return all records there are now, to go through: number, text, hash."""
    with store.reading() as transaction:
        end = transaction.read_head.sequence

    def read(last: int | None) -> list[Sequence[Any]]:
        with store.reading() as transaction:
            return transaction.records(last, size)

    size = _RECORDS_AT_ONCE
    return itertools.takewhile(lambda row: row[0] <= end, in_parts(read, size))


def backward(store: Store, scope: str | None, *, with_scopes: bool = False) -> Iterator[dict[str, Any]]:
    """Go through the records there are now, the latest first; those of one scope, or all.

    On request each record about a ticket says for which scopes that was reserved.
    """
    with store.reading() as transaction:
        last = transaction.read_head.sequence + 1
    authors: dict[int, Any] = {}
    while last > 1:
        begun: dict[int, dict[str, Any]] = {}
        with store.reading() as transaction:
            rows = transaction.records_before(last, _RECORDS_AT_ONCE)
            bodies = [records.parsed(text) for _, text, _ in rows]
            _name_authors(transaction, bodies, authors)
            if scope is not None or with_scopes:
                begun = _first_records(transaction, bodies)
        for body in bodies:
            first = begun.get(_begun(body), {})
            if scope is None or body.get("scope") == scope or scope in first.get("charges", ()):
                yield {**body, "scopes": first["scopes"]} if with_scopes and first else body
        if len(rows) < _RECORDS_AT_ONCE:
            return
        last = rows[-1][0]


def _name_authors(transaction: Transaction, bodies: list[dict[str, Any]], known: dict[int, Any]) -> None:
    """Let each record say who wrote it, as in the log only the first one of an author does."""
    known |= {body["sequence"]: body["who"] for body in bodies if isinstance(body.get("who"), dict)}
    later = [body for body in bodies if isinstance(body.get("who"), int)]
    for sequence, text, _ in transaction.records_at(sorted({body["who"] for body in later} - known.keys())):
        known[sequence] = records.parsed(text).get("who")
    for body in later:
        who = known.get(body["who"])
        if not isinstance(who, dict):
            raise LedgerDamaged(f"the log has no record {body['who']} that says who wrote record {body['sequence']}")
        # mutant: history-names-number-of-author
        body["who"] = who


def _begun(body: dict[str, Any]) -> int:
    """Return the record that began the ticket of a record, or 0."""
    return ticket_record(body.get("ticket", ""))


def _first_records(transaction: Transaction, bodies: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return the records that began the tickets of some records."""
    found = {body["sequence"]: body for body in bodies if "charges" in body}
    wanted = sorted({_begun(body) for body in bodies} - found.keys() - {0})
    found |= {sequence: records.parsed(text) for sequence, text, _ in transaction.records_at(wanted)}
    if not found.keys() >= set(wanted):
        raise LedgerDamaged("the log has no record that began a ticket of it: records were removed")
    return found
