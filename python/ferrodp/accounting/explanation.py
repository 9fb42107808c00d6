"""Explanations: an accountant's answer with its method, parameters and assumptions, printed as sentences."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from ferrodp._base import _html
from ferrodp.errors import InvalidParameter, InvalidType

_SYMBOLS = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ", "order": "order α", "log_delta": "ln δ"}
_GIVEN = {"epsilon": "delta", "delta": "epsilon"}
_LARGEST_EXPONENT = 700.0
_DIRECTIONS = {
    "add": "The worse direction is the one in which the unit is only in the second dataset (add).",
    "remove": "The worse direction is the one in which the unit is only in the first dataset (remove).",
    "both": "Both directions, the unit in the first or the second dataset, were computed; the larger value is given.",
    "symmetric": "The two directions are the same by symmetry, so one was computed.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One number with its bounds, method and assumptions; `str` returns it as sentences.

    Parameters
    ----------
    quantity : str
        What the number is: "epsilon", "delta", "noise_multiplier", … .
    value : float
        The number: an upper bound on the exact one if `is_bound`.
    lower : float
        A lower bound on the exact number; 0 if none is known.
    method : str
        How it was found, with the source, as a noun phrase: "Rényi divergences, converted with …".
    direction : str
        "add", "remove", "both" or "symmetric"; any other text is shown as it is.
    parameters : dict
        What the number depends on or was found at, by name: what was given (`delta` for an ε, `epsilon` for a δ), the
        order, the interval … . Shown in this order.
    slack : float
        By how much the value can exceed the exact number at most, as far as is known; `inf` if nothing is.
    assumptions : tuple of str
        What has to be true for the number to mean what it says, one sentence each.
    is_bound : bool
        True for a proven upper bound, False for an estimate.

    Raises
    ------
    InvalidParameter, InvalidType
        If a number is NaN, `lower` exceeds the `value` of a bound, or a field is of another type.

    Examples
    --------
    >>> from ferrodp.accounting import Explanation
    >>> found = Explanation(quantity="epsilon", value=4.5, lower=4.25, method="an example", parameters={"delta": 1e-05})
    >>> found.to_dict()["slack"]
    'inf'
    >>> print(found)
    ε is at most 4.5 at δ = 1e-05: a proven upper bound, rounding errors included.
    Meaning: whatever one looks for in the released values, its probability under one of two
        neighboring datasets is at most e^4.5 = 90.02 times that under the other, plus 1e-05.
    The exact ε lies between 4.25 and 4.5: it is overstated by at most 0.25 (5.6 %).
    Method: an example.
    """

    quantity: str
    value: float
    lower: float = 0.0
    method: str
    direction: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    slack: float = math.inf
    assumptions: tuple[str, ...] = ()
    is_bound: bool = True

    def __post_init__(self) -> None:
        for name in ("quantity", "method", "direction"):
            if not isinstance(getattr(self, name), str):
                raise InvalidType(f"{name} must be text, got {type(getattr(self, name)).__name__}")
        for name in ("value", "lower", "slack"):
            if math.isnan(getattr(self, name)):
                raise InvalidParameter(f"{name} must be a number, got nan")
        if self.is_bound and self.lower > self.value:
            raise InvalidParameter(f"lower must be at most value = {self.value!r}, got {self.lower!r}")
        if isinstance(self.assumptions, str) or not isinstance(self.assumptions, Iterable):
            raise InvalidType("assumptions must be a tuple of sentences")
        object.__setattr__(self, "assumptions", tuple(self.assumptions))
        object.__setattr__(self, "parameters", dict(self.parameters))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON data.

        Returns
        -------
        dict
            By name; numbers that are not finite are text.
        """
        plain = dataclasses.asdict(self)
        plain["assumptions"] = list(self.assumptions)
        return {name: _plain(value) for name, value in plain.items()}

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def _repr_html_(self) -> str:
        return _html.text(str(self))


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value


def _lines(explanation: Explanation) -> Iterable[str]:
    """Yield the sentences."""
    name = _SYMBOLS.get(explanation.quantity, explanation.quantity)
    given = _GIVEN.get(explanation.quantity)
    known = (
        f" at {_SYMBOLS[given]} = {_number(explanation.parameters[given])}" if given in explanation.parameters else ""
    )
    yield _headline(explanation, name, known)
    yield from _meaning(explanation)
    yield from _width(explanation, name)
    yield f"Method: {explanation.method.rstrip('.')}."
    if explanation.direction:
        yield _DIRECTIONS.get(explanation.direction, f"Direction: {explanation.direction.rstrip('.')}.")
    details = [f"{_label(key)} = {_number(value)}" for key, value in explanation.parameters.items() if key != given]
    if details:
        yield f"Found with {', '.join(details)}."
    if explanation.assumptions:
        yield "It holds if:"
        yield from (f"  - {assumption.rstrip('.')}" for assumption in explanation.assumptions)


def _headline(explanation: Explanation, name: str, known: str) -> str:
    # mutant: estimate-called-bound
    if not explanation.is_bound:
        return (
            f"{name} is about {_number(explanation.value)}{known}: an estimate, NOT a bound; the truth may be larger."
        )
    if explanation.value == math.inf:
        return f"{name} is infinite{known}: no finite bound is known."
    return f"{name} is at most {_number(explanation.value)}{known}: a proven upper bound, rounding errors included."


def _meaning(explanation: Explanation) -> Iterable[str]:
    """Say what an (ε, δ) promises (Dwork, Roth, "The algorithmic foundations of differential privacy", 2014, 2.3.1)."""
    given = _GIVEN.get(explanation.quantity)
    if given is None or given not in explanation.parameters:
        return
    pair = {explanation.quantity: explanation.value, given: explanation.parameters[given]}
    epsilon, delta = pair["epsilon"], pair["delta"]
    meaning = "Meaning" if explanation.is_bound else "Meaning, if the estimate were exact"
    if math.isinf(epsilon) or delta >= 1.0:
        yield f"{meaning}: nothing is promised; what was released may tell neighboring datasets apart with certainty."
    elif epsilon == 0.0 and delta == 0.0:
        yield f"{meaning}: what was released says nothing that could tell two neighboring datasets apart."
    else:
        power = _rounded_up(Decimal(epsilon), 6) if epsilon else ""
        factor = f"e^{power} = {_exp(epsilon)} times that under the other" if epsilon else "that under the other"
        plus = f", plus {_number(delta)}" if delta else ""
        yield (
            f"{meaning}: whatever one looks for in the released values, its probability under one of two\n"
            f"    neighboring datasets is at most {factor}{plus}."
        )


def _exp(epsilon: float) -> str:
    """Return e^ε with four digits, rounded up."""
    if epsilon > _LARGEST_EXPONENT:
        return "more than 1e304"
    return _rounded_up(Decimal(epsilon).exp(), 4)


def _rounded_up(value: Decimal, digits: int) -> str:
    """Write a positive number for people: 7.39, 15,210, 4.852e+08."""
    # mutant: factor-of-explanation-rounded-to-nearest
    shown = Context(prec=digits, rounding=ROUND_CEILING).plus(value)
    if not Decimal("1e-4") <= shown < 10**6:
        return f"{shown:.{digits - 1}e}"
    text = f"{shown:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _width(explanation: Explanation, name: str) -> Iterable[str]:
    value, lower, slack = explanation.value, explanation.lower, explanation.slack
    if not explanation.is_bound or math.isinf(value):
        return
    if lower > 0.0 and lower == value:
        yield f"The exact {name} is this very number."
    elif lower > 0.0:
        width = min(slack, value - lower)
        share = f" ({100 * width / value:.2g} %)"
        yield (
            f"The exact {name} lies between {_number(lower)} and {_number(value)}: it is overstated by at most "
            f"{width:.2g}{share}."
        )
    elif slack < value:
        yield f"It exceeds the exact {name} by at most {slack:.2g}."
    elif value > 0.0:
        yield f"How far the exact {name} lies below it is not known."


def _label(key: str) -> str:
    return _SYMBOLS.get(key, key.replace("_", " "))


def _number(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)
