"""The exceptions and warnings of FerroDP.

Every exception derives from `FerroError` and from the nearest builtin, so code that does not know this package catches
the right thing. Whether one is raised depends on parameters, types, shapes and dtypes, never on private values, and no
message quotes data, because an exception is an output too.
"""

from typing import ClassVar

__all__ = [
    "BudgetExceeded",
    "CalibrationError",
    "EntropyError",
    "FerroError",
    "InvalidArray",
    "InvalidArrayType",
    "InvalidParameter",
    "InvalidType",
    "KeyUsed",
    "LedgerDamaged",
    "LedgerError",
    "LedgerNotFound",
    "LedgerUnavailable",
    "MissingPackage",
    "PrivacyWarning",
    "ScopeFrozen",
    "TicketError",
    "UnknownScope",
    "UnsupportedEventError",
    "WeakPrivacyWarning",
]


class FerroError(Exception):
    """Root of every exception that this package raises on purpose.

    Attributes
    ----------
    code : str
        A short name of the kind of failure, the same in all versions: what the command line prints with ``--json``, and
        what a service can put into its answers or logs.

    Examples
    --------
    >>> import ferrodp as fd
    >>> try:
    ...     fd.GaussianMechanism(noise_multiplier=-1.0, l2_sensitivity=1.0)
    ... except fd.errors.FerroError as error:
    ...     print(error.code)
    invalid-parameter
    """

    code: ClassVar[str] = "failed"


class InvalidParameter(FerroError, ValueError):  # noqa: N818  # what is wrong, not that it is an error
    """A parameter of the right type lies outside its domain. Nothing was drawn, written or charged."""

    code: ClassVar[str] = "invalid-parameter"


class InvalidType(FerroError, TypeError):  # noqa: N818
    """A scalar parameter has a type that is not accepted. Nothing was drawn, written or charged."""

    code: ClassVar[str] = "invalid-parameter"


class InvalidArray(FerroError, ValueError):  # noqa: N818
    """An array has a shape, layout or overlap that is not accepted. Nothing was drawn, written or charged."""

    code: ClassVar[str] = "invalid-array"


class InvalidArrayType(InvalidArray, TypeError):  # noqa: N818
    """An array, or what was given in its place, has a type or dtype that is not accepted."""


class UnknownScope(InvalidParameter):
    """A ledger has no scope of this name. The message lists those that it has. Nothing was charged."""

    code: ClassVar[str] = "unknown-scope"


class EntropyError(FerroError, OSError):
    """The operating system gave no random bytes. Nothing was written; there is no fallback source."""

    code: ClassVar[str] = "no-entropy"


class CalibrationError(FerroError, ValueError):
    """No noise in the supported range reaches the target. The message holds the best value within reach."""

    code: ClassVar[str] = "out-of-reach"


class UnsupportedEventError(FerroError, ValueError):
    """An accountant has no proven bound for this event. Its state is as it was before the call."""

    code: ClassVar[str] = "unsupported-event"


class MissingPackage(FerroError, ImportError):  # noqa: N818
    """An optional package is not installed. The message says what to install."""

    code: ClassVar[str] = "missing-package"


class BudgetExceeded(FerroError):  # noqa: N818
    """The privacy budget does not allow this release, so it did not happen."""

    code: ClassVar[str] = "budget-exceeded"


class ScopeFrozen(BudgetExceeded):
    """An operator froze the scope, so nothing may be charged to it or released from it until it is thawed."""

    code: ClassVar[str] = "scope-frozen"


class LedgerError(FerroError, OSError):
    """A ledger cannot be opened, read or written. What was not acknowledged counts as spent."""

    code: ClassVar[str] = "ledger-refused"


class LedgerNotFound(LedgerError):  # noqa: N818
    """There is no ledger at this place, and none was to be made."""

    code: ClassVar[str] = "ledger-not-found"


class LedgerUnavailable(LedgerError):  # noqa: N818
    """A ledger does not answer now: its server is down, another writer is busy, the disk is full. Try again later."""

    code: ClassVar[str] = "ledger-unavailable"


class LedgerDamaged(LedgerError):  # noqa: N818
    """A ledger was changed by something else, cut, put back to an earlier state, or is no ledger: restore a backup."""

    code: ClassVar[str] = "ledger-damaged"


class TicketError(FerroError):
    """A ticket cannot be used: it was used or cancelled before, or belongs to another process. Nothing was drawn."""

    code: ClassVar[str] = "ticket-refused"


class KeyUsed(TicketError):  # noqa: N818  # what is wrong, not that it is an error
    """The release that a key names has begun, perhaps in a process that died. Nothing was charged.

    One charge pays for one release, so repeating it is refused unless requested with ``again_ok=True``.
    """

    code: ClassVar[str] = "key-used"


class WeakPrivacyWarning(UserWarning):
    """The parameters are valid and the guarantee holds, but it is too weak to be useful."""


class PrivacyWarning(UserWarning):
    """Something was taken from the data that the guarantee does not cover: it should have been a parameter."""
