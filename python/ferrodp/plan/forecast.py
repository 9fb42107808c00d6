"""What a plan will cost, before it runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ferrodp._base import _html
from ferrodp._base._pictures import axes_of, finish, line_of, power

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes: TypeAlias = Any

__all__ = ["Forecast"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """ε, noise and batch size of a plan at some of its steps; `print` shows a table.

    Attributes
    ----------
    unit : str
        What is protected.
    delta : float
        At which ε is stated.
    neighboring_relation : str
        Which datasets the guarantee tells apart.
    steps : tuple of int
        Numbers of steps run.
    epsilon, epsilon_lower : tuple of float
        Bounds on the ε of the first so many steps.
    noise_multiplier : tuple of float
        Of the last of them.
    standard_deviation : tuple of float
        Of the noise in each coordinate of its sum, at the initial clip norm.
    expected_batch_size : float or None
        What the sum is divided by; None if not known.
    notes : tuple of str
        What makes the plan dearer than it need be.

    Examples
    --------
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
    >>> plan = PrivacyPlan(sampling=FullBatch(), num_steps=2, clipping=FlatClipping(1.0), noise=ConstantNoise(10.0))
    >>> print(plan.forecast(1e-5))
      step    epsilon    noise/norm    noise in sum
         1     0.3407            10              10
         2     0.4970            10              10
    epsilon at delta = 1e-05, for one record (add_or_remove_one)
    >>> forecast = plan.forecast(1e-5)
    >>> forecast.to_dict()["steps"], forecast.to_json()[:16]
    ([1, 2], '{"unit": "record')
    >>> forecast.plot().get_xlabel()
    'steps'
    """

    unit: str
    delta: float
    neighboring_relation: str
    steps: tuple[int, ...]
    epsilon: tuple[float, ...]
    epsilon_lower: tuple[float, ...]
    noise_multiplier: tuple[float, ...]
    standard_deviation: tuple[float, ...]
    expected_batch_size: float | None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data.

        Returns
        -------
        dict
            Its keys are the attributes.
        """
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the numbers as JSON.

        Parameters
        ----------
        indent : int, optional
            As for `json.dumps`.

        Returns
        -------
        str
            An infinite ε is "inf".

        Raises
        ------
        TypeError
            If `indent` is not accepted by `json.dumps`.
        """
        plain = {
            name: ["inf" if each == float("inf") else each for each in value] if isinstance(value, list) else value
            for name, value in self.to_dict().items()
        }
        return json.dumps(plain, indent=indent)

    def __str__(self) -> str:
        size = self.expected_batch_size
        lines = ["  step    epsilon    noise/norm    noise in sum" + ("    noise in mean" if size else "")]
        for step, epsilon, multiplier, deviation in zip(
            self.steps, self.epsilon, self.noise_multiplier, self.standard_deviation, strict=True
        ):
            mean = f"{deviation / size:17.4g}" if size else ""
            lines.append(f"{step:6d}{epsilon:11.4f}{multiplier:14.4g}{deviation:16.4g}{mean}")
        about = f"epsilon at delta = {self.delta:g}, for one {self.unit} ({self.neighboring_relation})"
        batch = f"; expected batch {size:g}" if size else ""
        return "\n".join([*lines, about + batch, *self.notes])

    def _repr_html_(self) -> str:
        header = ["step", "epsilon, at most", "noise multiplier", "noise in sum"]
        columns = [self.steps, map(_html.at_most, self.epsilon), self.noise_multiplier, self.standard_deviation]
        caption = f"epsilon at delta = {self.delta:g}, for one {self.unit} ({self.neighboring_relation})"
        notes = "".join(map(_html.text, self.notes))
        return _html.table(caption, header, zip(*columns, strict=True), more="to_dict()") + notes

    def plot(self, *, axes: Axes | None = None) -> Axes:
        """Draw ε over the steps, and the noise beside it. Needs matplotlib: ``pip install "ferrodp[plot]"``.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Where to draw ε; a new figure if left out.

        Returns
        -------
        matplotlib.axes.Axes
            Of ε; the noise multiplier has an axis of its own on the right.

        Raises
        ------
        MissingPackage
            If matplotlib is not installed.
        """
        axes = axes_of(axes)
        [line] = axes.plot(self.steps, self.epsilon, label="ε, upper bound", **line_of(0))
        axes.fill_between(self.steps, self.epsilon_lower, self.epsilon, color=line.get_color(), alpha=0.2, linewidth=0)
        axes.set_ylim(bottom=0.0)
        axes.set_xlim(0, self.steps[-1])
        other = axes.twinx()
        points = {"marker": "o", "markersize": 2.5, **line_of(1)}  # between these steps the schedule is not known here
        other.plot(self.steps, self.noise_multiplier, label="noise multiplier σ, right axis", **points)
        other.set_ylabel("noise multiplier σ")
        other.set_ylim(bottom=0.0)
        least, most = (f"{end(self.noise_multiplier):.4g}" for end in (min, max))
        noise = least if least == most else f"{least} to {most}"
        batch = f", batches of {self.expected_batch_size:g}" if self.expected_batch_size else ""
        title = f"Privacy loss of one {self.unit}\nσ = {noise}, T = {self.steps[-1]}{batch}"
        return finish(axes, "steps", f"ε at δ = {power(self.delta)}", title, others=other)
