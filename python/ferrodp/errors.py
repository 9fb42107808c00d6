"""The exceptions and warnings of FerroDP.

Every exception derives from `FerroError` and from the nearest builtin, so code that does not know this package catches
the right thing. Whether one is raised depends on parameters, types, shapes and dtypes, never on private values, and no
message quotes data, because an exception is an output too.
"""

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
    "LedgerError",
    "MissingPackage",
    "PrivacyWarning",
    "TicketError",
    "UnsupportedEventError",
    "WeakPrivacyWarning",
]


class FerroError(Exception):
    """Root of every exception that this package raises on purpose."""


class InvalidParameter(FerroError, ValueError):  # noqa: N818  # what is wrong, not that it is an error
    """A parameter of the right type lies outside its domain. Nothing was drawn, written or charged."""


class InvalidType(FerroError, TypeError):  # noqa: N818
    """A scalar parameter has a type that is not accepted. Nothing was drawn, written or charged."""


class InvalidArray(FerroError, ValueError):  # noqa: N818
    """An array has a shape, layout or overlap that is not accepted. Nothing was drawn, written or charged."""


class InvalidArrayType(InvalidArray, TypeError):  # noqa: N818
    """An array, or what was given in its place, has a type or dtype that is not accepted."""


class EntropyError(FerroError, OSError):
    """The operating system gave no random bytes. Nothing was written; there is no fallback source."""


class CalibrationError(FerroError, ValueError):
    """No noise in the supported range reaches the target. The message holds the best value within reach."""


class UnsupportedEventError(FerroError, ValueError):
    """An accountant has no proven bound for this event. Its state is as it was before the call."""


class MissingPackage(FerroError, ImportError):  # noqa: N818
    """An optional package is not installed. The message says what to install."""


class BudgetExceeded(FerroError):  # noqa: N818
    """The privacy budget does not allow this release, so it did not happen."""


class LedgerError(FerroError, OSError):
    """A ledger cannot be opened, read or written. What was not acknowledged counts as spent."""


class TicketError(FerroError):
    """A ticket cannot be used: it was used or cancelled before, or belongs to another process. Nothing was drawn."""


class KeyUsed(TicketError):  # noqa: N818  # what is wrong, not that it is an error
    """The release that a key names has begun, perhaps in a process that died. Nothing was charged.

    One charge pays for one release, so repeating it is refused unless requested with ``again_ok=True``.
    """


class WeakPrivacyWarning(UserWarning):
    """The parameters are valid and the guarantee holds, but it is too weak to be useful."""


class PrivacyWarning(UserWarning):
    """Something was taken from the data that the guarantee does not cover: it should have been a parameter."""
