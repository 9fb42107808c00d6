"""The log: records, each tied to all before it by a hash.

The hash of a record is SHA-256 of the previous hash, a line feed and the record's text. So nothing can be changed,
removed, added or moved without changing every hash that follows, and anyone who knows the last one, the *head*, can
tell. The chain begins with a hash of the ledger's random identity, so that records of one ledger fit no other.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import secrets
from typing import Any, NamedTuple, Self

from ferrodp._base import _validate
from ferrodp.errors import LedgerDamaged, LedgerError, LedgerNotFound

FORMAT = 3
"""Of the ledger: files of another one are refused."""


OLD_START = "0" * 64
"""What stood before the first record in format 2."""


class Head(NamedTuple):
    """The last record of a log: its number, and the hash that ties it to all before.

    A head that is kept elsewhere is a *witness*: a ledger that was put back to an earlier state does not contain it.

    Parameters
    ----------
    sequence : int
        Number of the record; 0 for a log without records.
    hash : str
        64 hexadecimal digits.

    Raises
    ------
    InvalidParameter, InvalidType
        By `Head.parse`, if the text is not that of a head.

    Examples
    --------
    >>> import ferrodp as fd
    >>> head = fd.budget.Head(12, "6b86b273ff34fce19d6b804eff5a3f57" * 2)
    >>> str(head)[:11]
    '12:6b86b273'
    >>> fd.budget.Head.parse(str(head)) == head
    True
    """

    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"{self.sequence}:{self.hash}"

    @classmethod
    def parse(cls, text: object) -> Self:
        """Return the head that a text stands for.

        Parameters
        ----------
        text : str or Head
            A number, a colon and 64 hexadecimal digits, as `str` writes a head.

        Returns
        -------
        Head

        Raises
        ------
        InvalidParameter, InvalidType
            If it is anything else.
        """
        if isinstance(text, cls):
            return text
        if not isinstance(text, str):
            raise _validate.wrong_type("witness", "a str or a Head", text, write="ledger.head")
        if not re.fullmatch(r"[0-9]{1,18}:[0-9a-f]{64}", text):
            raise _validate.out_of_domain(
                "witness", "a number, a colon and 64 hexadecimal digits", text, write="str(ledger.head)"
            )
        number, digest = text.split(":")
        return cls(int(number), digest)


class Encoded(str):
    """A text that is JSON already, as `plain` writes it."""

    __slots__ = ()


_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # `raw_decode` without its wrapping
_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
_quoted = json.encoder.encode_basestring_ascii
"""What the encoder makes of a text."""


def plain(body: Any) -> Encoded:
    """Return the one text that JSON data has in a ledger."""
    return Encoded(_encoder.encode(body))


def plain_object(fields: dict[str, Any]) -> str:
    """Return the text of an object, some of whose values may be `Encoded`."""
    names, pattern = _form(tuple(fields))
    texts = [
        # most values are texts and numbers, which need no encoder
        # mutant: texts-of-record-not-escaped
        _quoted(value) if (kind := type(value)) is str else value if kind in _PLAIN else _encoder.encode(value)
        for value in map(fields.__getitem__, names)
    ]
    return pattern % tuple(texts)


_PLAIN = frozenset({Encoded, int})


@functools.lru_cache(maxsize=256)
def _form(names: tuple[str, ...]) -> tuple[list[str], str]:
    """Return names in the order in which an object has them, and the object with a place for each value."""
    found = sorted(names)
    return found, "{" + ",".join(f'"{name}":'.replace("%", "%%") + "%s" for name in found) + "}"


def new_identity(receives: str | None = None) -> str:
    """Return a name for a new ledger that no other has.

    If it shall receive another ledger, of that identity, `is_for` can tell.
    """
    return secrets.token_hex(16) + ("" if receives is None else f"-{digest(receives)[:16]}")


def is_for(identity: str, receives: str) -> bool:
    """Whether the ledger of the first identity was made to receive that of the second."""
    return identity.endswith(f"-{digest(receives)[:16]}")


def start_of(identity: str) -> str:
    """Return what stands before the first record of a new ledger."""
    return hashlib.sha256(f"FerroDP ledger\n{identity}".encode()).hexdigest()


def other_format(name: str, found: object) -> LedgerError:
    """Return the refusal of a ledger of another format."""
    return LedgerError(
        f"{name} has format {found}; this version reads {FORMAT}: `ferrodp ledger migrate` copies an older one into a "
        "new ledger, and a newer one needs a newer version"
    )


STILL_PENDING = (
    "is the destination of a move that is not complete, and takes no record before that: repeat the move "
    "(`ferrodp ledger migrate`), or remove this ledger, which is empty"
)
"""What is said of a ledger that was made to receive another, which is not in it yet."""


def not_there(name: str) -> LedgerNotFound:
    """Return the refusal of a place without a ledger."""
    return LedgerNotFound(
        f"{name} does not exist; PrivacyLedger.open(where, create=True), or 'ferrodp ledger create', begins one"
    )


def chained(before: str, text: str) -> str:
    """Return the hash of a record with this text after that hash."""
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def digest(text: object) -> str:
    """Return the SHA-256 of a text."""
    if not isinstance(text, str):
        raise LedgerDamaged("the ledger holds a state that no version of this program wrote")
    return hashlib.sha256(text.encode()).hexdigest()


_DESTINATION = {"ledger": str, "name": str, "place": str}


def destination_of(move: dict[str, Any]) -> str | None:
    """Return the identity of the ledger that a record of a move names; None if it is of a version that named none."""
    if "to" not in move:
        return None
    to = move["to"]
    if not isinstance(to, dict) or {name: type(value) for name, value in to.items()} != _DESTINATION:
        raise LedgerDamaged("the log holds a move whose destination no version of this program wrote")
    return str(to["ledger"])


def loaded(text: Any) -> Any:
    """Return the JSON data of a text in a table."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise LedgerDamaged("the ledger holds a row that no version of this program wrote") from error


def parsed(text: str) -> dict[str, Any]:
    """Return the record that a text holds."""
    try:
        body, end = _scan(text, 0)
    except (ValueError, StopIteration, RecursionError) as error:
        raise LedgerDamaged("the log holds a record that is not JSON") from error
    if end != len(text) or not isinstance(body, dict):
        raise LedgerDamaged("the log holds a record that is not a JSON object")
    return body
