"""What a refusal offers instead: a value that is allowed, written as in a call.

An example is derived from the words with which the refusal states what is allowed, so that whoever states a range has
stated its example, too. Of ranges of numbers the usual value of the parameter is taken if it lies within, otherwise a
number of the range that is near the one given.
"""

from __future__ import annotations

import math
import re

_USUAL = {
    "audit_canaries": "1000",
    "clip_norm": "1.0",
    "confidence": "0.95",
    "count": "1000",
    "delta": "1e-6",
    "dimension": "3",
    "failure_probability": "0.05",
    "learning_rate": "0.1",
    "level": "0.95",
    "max_clients": "100",
    "momentum": "0.9",
    "noise_multiplier": "1.1",
    "num_steps": "1000",
    "population_size": "60000",
    "probability": "0.01",
    "quantile": "0.5",
    "sample_rate": "0.01",
    "sampling_probability": "0.01",
    "sampling_rate": "0.01",
    "tail_mass": "1e-15",
    "target_delta": "1e-6",
    "target_quantile": "0.5",
    "wrap_probability": "1e-12",
}
"""What people write who use these parameters."""
_PAIRS = {"bounds": "(0, 100)"}
"""What is written for parameters that hold several numbers, each of which is checked under their name."""
_NUMBER = r"-?(?:inf|[0-9.]+(?:\^-?[0-9]+)?(?:e-?[0-9]+)?)"
_FROM_TO = re.compile(rf"\bfrom ({_NUMBER}) to ({_NUMBER})(?![\w/])")
_INTERVAL = re.compile(rf"([(\[])({_NUMBER}), ({_NUMBER})([)\]])")
_BETWEEN = re.compile(rf"\bbetween ({_NUMBER}) and ({_NUMBER})")
_ABOVE = re.compile(rf"(>=|>) ({_NUMBER})")
_END = re.compile(rf"\bat (?:most|least) (?:[^,;]* ?= ?)?({_NUMBER})(?![\w.]| times)")
_QUOTED = re.compile(r"""(["'])([^"']+)\1""")
_LISTED = re.compile(r"\bone of ([\w.-]+)(?=[, ]|$)")


def offered(name: str, accepted: str, value: object, write: str = "") -> str:
    """Return the end of a refusal that shows an allowed value; nothing if none follows from what is accepted.

    `name` is what is refused: a parameter, or an option of the command line; `write` is an allowed value, if known.
    """
    found = write or _PAIRS.get(name) or allowed(name, accepted, value)
    if not found:
        return ""
    option = name.startswith("--")
    return (
        f"; for example {name}{' ' if option else '='}{found}"
        if option or name.isidentifier()
        else f"; for example {found}"
    )


def allowed(name: str, accepted: str, value: object) -> str:
    """Return a value that is accepted, as text of Python, or nothing."""
    if match := _QUOTED.search(accepted):
        return repr(match[2])
    if match := _LISTED.search(accepted):
        return match[1] if re.fullmatch(_NUMBER, match[1]) else repr(match[1])
    if "True or False" in accepted:
        return str(str(value).lower() not in ("0", "no", "off", "false", "none", ""))
    return _number(name.removeprefix("--").replace("-", "_"), accepted, value)


def _number(name: str, accepted: str, value: object) -> str:
    """Return a number in the range that is told, or nothing."""
    whole = re.search(r"\b(?:ints?|whole)\b", accepted) is not None
    if re.match("two|at least one|a pair|a sequence", accepted):
        return ""
    low, high, open_ends = _range(accepted)
    if not low <= high:
        return ""
    near = _as_given(value)
    if near is not None and whole:
        near = int(min(max(near, low), high))
    if near is not None and (whole or isinstance(value, str)) and _within(near, low, high, open_ends):
        return repr(near)
    usual = _USUAL.get(name, "1" if whole else "1.0")
    if _within(float(usual), low, high, open_ends):
        return usual
    if whole or not any(open_ends):
        return repr(low)
    if math.isfinite(low):
        return repr((low + high) / 2 if math.isfinite(high) else low + 1.0)
    return ""


def _range(accepted: str) -> tuple[float, float, tuple[bool, bool]]:
    """Return the ends of the range that is told, and which of them are excluded; an empty one if none is told."""
    if match := _FROM_TO.search(accepted):
        return _value(match[1]), _value(match[2]), (False, False)
    if match := _INTERVAL.search(accepted):
        return _value(match[2]), _value(match[3]), (match[1] == "(", match[4] == ")")
    if match := _BETWEEN.search(accepted):
        return _value(match[1]), _value(match[2]), (True, True)
    if match := _ABOVE.search(accepted):
        return _value(match[2]), math.inf, (match[1] == ">", True)
    if match := _END.search(accepted):
        return _value(match[1]), _value(match[1]), (False, False)
    if re.match(r"(?:an int|finite|a (?:real )?number)(?! and)\b(?!,)", accepted):
        return -math.inf, math.inf, (True, True)
    return math.inf, -math.inf, (True, True)


def _within(number: float, low: float, high: float, open_ends: tuple[bool, bool]) -> bool:
    above = number > low if open_ends[0] else number >= low
    return above and (number < high if open_ends[1] else number <= high)


def _as_given(value: object) -> float | None:
    """Return the number that was given, in text perhaps, or None if there is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)) or len(str(value)) > 30:
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _value(text: str) -> float:
    """Return the number that is written in a message, such as 2^57."""
    if re.fullmatch("-?[0-9]+", text):
        return int(text)
    base, _, exponent = text.partition("^")
    return float(base) ** int(exponent) if exponent else float(base)
