"""What a figure of the explorer is: inputs, a function of them, and an answer. Nothing here knows the web.

Lessons, the account and the attacks state their figures with these classes; the app turns a request into the inputs of
a figure and its `Answer` into JSON, and the page draws any `Plot`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, Literal, TypeAlias

import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter

SCHEMA = 1
"""Version of the JSON that figures are sent as."""
MAX_SEED = 2**31 - 1
PENDING = "…"
"""Stands for a number that is still being computed."""
_MAX_TEXT = 64
_DIGITS = 6
_BRIEF = 3
"""Digits of a number on the page; its cell and its exports have all of them."""

Value: TypeAlias = float | int | str
Numbers: TypeAlias = Sequence[float] | npt.NDArray[Any]
Parameters: TypeAlias = Mapping[str, Any]
Kind: TypeAlias = Literal["line", "steps", "points", "bars", "band", "area", "arrows", "image", "people", "ranges"]
Role: TypeAlias = Literal["private", "non-private", "bound", "lower", "neutral", "a", "b"]


def shown(value: Value) -> str:
    """Write a value as the page and every Python cell do: texts and integers as they are, floats with six digits.

    >>> shown(1 / 3), shown(1797), shown(2.0), shown("no guarantee")
    ('0.333333', '1797', '2', 'no guarantee')
    """
    return f"{value:.{_DIGITS}g}" if isinstance(value, float) else str(value)


class Bound(str):
    """A bound as a text of all digits, and as one of few digits that is rounded in the same direction."""

    __slots__ = ("brief",)
    brief: str


def upper(value: float, digits: int = _DIGITS) -> Bound:
    """Write an upper bound with few digits, rounded up: what is shown is a bound too.

    >>> upper(1.00000001), upper(math.inf), upper(2.5)
    ('1.00001', 'inf', '2.5')
    """
    return _bound(value, digits, ROUND_CEILING)


def lower(value: float, digits: int = _DIGITS) -> Bound:
    """Write a lower bound with few digits, rounded down.

    >>> lower(0.99999999), lower(0.0)
    ('0.999999', '0')
    """
    return _bound(value, digits, ROUND_FLOOR)


def brief(value: Value) -> str:
    """Write a value as sentences and lists do: three digits, a bound in its own direction.

    >>> brief(88.8889), brief(12345.6), brief(0.00012), brief(upper(1.65622)), brief(lower(0.99999)), brief(upper(1e4))
    ('88.9', '12346', '0.00012', '1.66', '0.999', '10000')
    """
    if isinstance(value, Bound):
        return value.brief
    if not isinstance(value, float):
        return str(value)
    if 10**_BRIEF <= abs(value) < 1e7:
        return f"{value:.0f}"
    return f"{value:.{_BRIEF}g}"


def _bound(value: float, digits: int, rounding: str) -> Bound:
    found = Bound(_directed(value, digits, rounding))
    whole = math.floor(math.log10(value)) + 1 if 1.0 <= value < 1e7 else 0  # digits before the point are all written
    found.brief = _directed(value, min(digits, max(_BRIEF, whole)), rounding)
    return found


def _directed(value: float, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return str(value)
    rounded = Context(prec=digits, rounding=rounding).create_decimal(Decimal(value))
    scientific = rounded and not -5 <= rounded.adjusted() < digits
    return f"{rounded.normalize():e}" if scientific else f"{rounded.normalize():f}"


@dataclass(frozen=True)
class Control:
    """One input of a figure: a slider that is a number field too, or a choice.

    `low` and `high` are accepted themselves. A control with `choices` is a select and its value a text; its `default`
    is one of the values.
    """

    name: str
    label: str
    default: float | str
    low: float = 0.0
    high: float = 1.0
    scale: Literal["linear", "log"] = "linear"
    integer: bool = False
    step: float | None = None
    unit: str = ""
    low_label: str = ""
    high_label: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    """Value and label of each choice."""
    needs: tuple[str, tuple[str, ...]] = ("", ())
    """A select and those of its values with which this control has an effect; the page dims it with the others."""

    def read(self, text: object) -> Value:
        """Return the value that a text denotes; raise `InvalidParameter` if it is no number, or outside the range."""
        if not isinstance(text, str) or len(text) > _MAX_TEXT:
            raise InvalidParameter(f"{self.name} must be a text of at most {_MAX_TEXT} characters")
        if self.choices:
            if text not in (names := [value for value, _ in self.choices]):
                raise _validate.out_of_domain(self.name, f"one of {', '.join(names)}", text)
            return text
        accepted = f"{'an integer' if self.integer else 'a number'} in [{self.low:g}, {self.high:g}]"
        try:
            number = math.nan if "_" in text else float(text)
        except ValueError:
            raise _validate.out_of_domain(self.name, accepted, text) from None
        if not self.low <= number <= self.high or (self.integer and number != int(number)):
            raise _validate.out_of_domain(self.name, accepted, text)
        return int(number) if self.integer else number


@dataclass(frozen=True)
class Series:
    """One line, band, set of bars, points or arrows of a plot; at most a few thousand numbers.

    `role` decides the color and the dash or marker, so that color alone never carries the meaning. `y2` is the upper
    edge of a band; arrows point from (x, y) to (x2, y2). Ranges are upright bars of error from `y` to `y2`. People are
    figures at places (x, y) without axes. An image has one number in [0, 1] for each pixel, row by row,
    in `y`, and its width as the only entry of `x`; several images stand side by side under their names.
    """

    name: str
    x: Numbers
    y: Numbers
    kind: Kind = "line"
    role: Role = "neutral"
    y2: Numbers | None = None
    x2: Numbers | None = None
    ids: Numbers | None = None
    """What a press on each point sets the plot's `pick` to."""

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON data; numbers that JSON lacks become null."""
        arrays = {
            key: [_finite(v) for v in value]
            for key in ("x", "y", "x2", "y2", "ids")
            if (value := getattr(self, key)) is not None
        }
        return {"name": self.name, "kind": self.kind, "role": self.role} | arrays


@dataclass(frozen=True)
class Plot:
    """What is drawn in one frame. `marks` are vertical lines with a label, such as that of the clip norm."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_scale: str = "linear"
    y_scale: str = "linear"
    marks: tuple[tuple[float, str], ...] = ()
    x_names: tuple[tuple[float, str], ...] = ()
    """What places on the x axis are called, where numbers would say nothing."""
    equal: bool = False
    """Whether a unit is as long on both axes, so that circles are circles."""
    drag: str = ""
    """The control that a press or a drag in the picture sets, to the place on the x axis."""
    pick: str = ""
    """The control that a press on a point sets, to its entry of `ids`."""
    vertical: bool = False
    """Whether `drag` follows the y axis."""

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        scales = {"x_scale": self.x_scale, "y_scale": self.y_scale}
        labels = {"title": self.title, "x_label": self.x_label, "y_label": self.y_label}
        marks = [[_finite(place), label] for place, label in self.marks]
        return (
            labels
            | scales
            | {
                "equal": self.equal,
                "drag": self.drag,
                "pick": self.pick,
                "vertical": self.vertical,
                "x_names": [list(each) for each in self.x_names],
                "marks": marks,
                "series": [each.as_json() for each in self.series],
            }
        )


@dataclass(frozen=True)
class Guess:
    """A question that the reader answers before the truth is shown: about one person, again and again."""

    ask: str
    options: tuple[str, ...]
    right: int
    control: str
    """The control that chooses whom the next question is about."""
    best: float
    """The chance of a right answer that nobody can exceed."""


@dataclass(frozen=True)
class Answer:
    """What a figure found out.

    `sentence` says what the picture shows, with its numbers and without grading ε. `numbers` is printed on the page by
    label, each value by `shown`; bounds are texts made by `upper` and `lower`. `cell` is Python source that prints the
    same lines, ``label: value``.
    """

    sentence: str
    numbers: Mapping[str, Value]
    plots: tuple[Plot, ...]
    cell: str
    warnings: tuple[str, ...] = ()
    guess: Guess | None = None

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON data, in which numbers are written with all digits, and as the page shows them."""
        return {
            "schema": SCHEMA,
            "sentence": self.sentence,
            "numbers": {label: shown(value) for label, value in self.numbers.items()},
            "brief": {label: brief(value) for label, value in self.numbers.items()},
            "guess": vars(self.guess) if self.guess else None,
            "plots": [plot.as_json() for plot in self.plots],
            "cell": self.cell,
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True)
class Action:
    """A button of a figure that does something once, such as ending a process. It is sent as POST, with the token.

    `run` gets the validated parameters of the figure and may take a few seconds; the app bounds how many run at once.
    """

    name: str
    label: str
    run: Callable[[Parameters], Answer]


@dataclass(frozen=True)
class Figure:
    """Inputs and a pure function of them.

    A `seeded` figure draws noise: the page offers to draw again and says that the seed makes it repeatable, and
    `compute` gets the integer ``seed`` besides its controls.

    Where `compute` takes long, `first` returns what is known at once: the same labels, `PENDING` for what is not known
    yet, and no plots that would have to wait. The page shows it while the rest is computed.
    """

    name: str
    controls: tuple[Control, ...]
    compute: Callable[[Parameters], Answer]
    seeded: bool = False
    action: Action | None = None
    first: Callable[[Parameters], Answer] | None = None
    main: tuple[str, ...] = ()
    """The one or two controls under the picture; the first two, if none is named. The others are folded."""

    @property
    def inputs(self) -> tuple[Control, ...]:
        """Return the controls, and that of the seed if there is one."""
        seed = Control("seed", "Seed", 1, low=0, high=MAX_SEED, integer=True)
        return (*self.controls, *([seed] if self.seeded else []))

    def read(self, query: Mapping[str, str]) -> dict[str, Value]:
        """Return the value of every input, the default where the query has none.

        Raises `InvalidParameter` for a value outside its domain and for a name that is no input.
        """
        inputs = {each.name: each for each in self.inputs}
        unknown = sorted(set(query) - inputs.keys())
        if unknown:
            raise InvalidParameter(f"unknown parameter {_validate.shown(unknown[0])}; there are {', '.join(inputs)}")
        return {name: each.read(query[name] if name in query else str(each.default)) for name, each in inputs.items()}

    def answer(self, query: Mapping[str, str]) -> Answer:
        """Return the answer to a query: validated, then computed."""
        return self.compute(self.read(query))

    def as_json(self) -> dict[str, Any]:
        """Return what the page needs to show the inputs."""
        controls = [
            {key: value for key, value in vars(each).items() if value not in ("", None, (), ("", ()))}
            for each in self.controls
        ]
        action = {"action": {"name": self.action.name, "label": self.action.label}} if self.action else {}
        first = {"first": True} if self.first else {}
        main = {"main": list(self.main or [each.name for each in self.controls[:2]])}
        return (
            {"schema": SCHEMA, "name": self.name, "controls": controls, "seeded": self.seeded} | main | action | first
        )


@dataclass(frozen=True)
class Prediction:
    """What a lesson asks before it tells: one of the options is right, and `because` is said after any answer."""

    ask: str
    options: tuple[str, ...]
    right: int
    because: str


@dataclass(frozen=True)
class Try:
    """A button that sets controls of the figure."""

    label: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class Lesson:
    """One idea, one figure, and a theorem behind a "why".

    `text` and `why` are restricted HTML: p, em, strong, ul, ol, li, code, sub, sup, h3 and MathML, without attributes
    except those of MathML. `terms` are the terms of the learning hub that the lesson covers.
    """

    name: str
    title: str
    idea: str
    text: str
    figure: Figure
    why: str
    terms: tuple[str, ...]
    person: str = ""
    """Somebody, named by role, who has something to lose here."""
    question: Prediction | None = None
    tries: tuple[Try, ...] = ()


def _finite(value: float) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
