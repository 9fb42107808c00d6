"""Curves of a private training: the mean loss and the share of clipped gradients, released with the gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from ferrodp._base import _validate
from ferrodp.errors import FerroError, InvalidParameter, InvalidType

__all__ = ["CurvePoint", "TrainingCurves"]

_STEPS_BITS = 20
"""A number of an example has at least so many bits: its rounding is far below the noise."""


class CurvePoint(NamedTuple):
    """What was released about the losses of one step; unbiased, and so perhaps outside of what is possible.

    Attributes
    ----------
    step : int
        From 0.
    loss : float
        Noised mean loss of the examples, each clamped to [0, `TrainingCurves.loss_bound`].
    clipped_share : float
        Noised share of examples whose gradient was longer than what gradients are clipped to.

    Examples
    --------
    >>> from ferrodp.integrations.torch import CurvePoint
    >>> CurvePoint(step=0, loss=2.3, clipped_share=0.75).loss
    2.3
    """

    step: int
    loss: float
    clipped_share: float


@dataclass(frozen=True, slots=True)
class TrainingCurves:
    r"""Release the mean loss and the share of clipped gradients of each step, as two more coordinates of its vector.

    They have a share of the clip norm: gradients are clipped to :math:`C\sqrt{1-s}`, and the two numbers of an example
    are at most :math:`C\sqrt{s/2}` each. So the vector of an example is still at most :math:`C` long, and the one noise
    of the step covers all of it: the plan, its event and its ε stay as they are. Whoever sees the curves and all that
    the optimizer gets learns no more than `plan.epsilon(delta)` says.

    Parameters
    ----------
    loss_bound : float
        Losses of examples are clamped to [0, `loss_bound`]; > 0, fixed without the data, such as twice the logarithm of
        the number of classes.
    share : float
        Of the squared clip norm; in (0, 0.5]. Gradients lose about half of it.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    With a noise multiplier :math:`z` and batches of :math:`B` examples on average, the standard deviation of the noise
    is :math:`zL/(B\sqrt{2s})` for the loss, with :math:`L` the bound, and :math:`z/(B\sqrt{2s})` for the share. The
    number of examples of a Poisson sample is not known: an example moves the mean by its distance from the middle.

    Numbers of examples are integers on a grid whose width is a power of two, so their sums are exact, and the norms are
    rounded so that :math:`C'^2 + 2(Ku)^2 \le C^2` for the gradient norm :math:`C'` and :math:`K` steps of width
    :math:`u`, in exact arithmetic. An absent example, a null one included, adds zeros.

    ==========================  =============================================
    loss below 0, above bound   the bound of the interval
    loss NaN                    `loss_bound`
    gradient not finite         clipped
    ==========================  =============================================

    Examples
    --------
    >>> import torch
    >>> from ferrodp.integrations.torch import TrainingCurves, make_private
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
    >>> data = torch.utils.data.TensorDataset(torch.ones(200, 4), torch.zeros(200, dtype=torch.int64))
    >>> plan = PrivacyPlan(
    ...     population_size=200,
    ...     sampling=FullBatch(),
    ...     num_steps=3,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(1.0),
    ... )
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> loader = torch.utils.data.DataLoader(data)
    >>> curves = TrainingCurves(loss_bound=4.0, share=0.02)
    >>> model, optimizer, loader = make_private(model, optimizer, loader, plan=plan, curves=curves)
    >>> while optimizer.private.stopped is None:
    ...     for x, y in loader:
    ...         losses = torch.nn.functional.cross_entropy(model(x), y, reduction="none")
    ...         optimizer.private.watch(losses)
    ...         losses.mean().backward()
    ...         optimizer.step()
    >>> [point.step for point in optimizer.private.curves]
    [0, 1, 2]
    """

    loss_bound: float
    share: float = 0.01

    def __post_init__(self) -> None:
        object.__setattr__(self, "loss_bound", _validate.positive("loss_bound", self.loss_bound))
        share = _validate.positive("share", self.share)
        if share > 0.5:
            raise InvalidParameter(f"share must be in (0, 0.5], got {share:g}")
        object.__setattr__(self, "share", share)


class Split(NamedTuple):
    """How a clip norm is shared out, in exact arithmetic."""

    gradient_norm: float
    unit: float
    """Width of the grid of the two numbers of an example: a power of two."""
    most: int
    """How many steps of the grid each of them is at most."""


@lru_cache(maxsize=64)
def split(clip_norm: float, share: float) -> Split:
    """Return what gradients are clipped to, and the grid of the two numbers beside them."""
    part = clip_norm * math.sqrt(share / 2.0)
    unit = math.ldexp(1.0, math.frexp(part)[1] - 1 - _STEPS_BITS)
    square = Fraction(clip_norm) ** 2
    most = math.isqrt(int(square * Fraction(share) / 2 / Fraction(unit) ** 2))
    norm = clip_norm * math.sqrt(1.0 - share)
    # mutant: curves-beside-gradients-of-the-whole-clip-norm
    while Fraction(norm) ** 2 + 2 * (most * Fraction(unit)) ** 2 > square:
        norm = math.nextafter(norm, 0.0)
    return Split(norm, unit, most)


class Curves:
    """What is added up about the losses of a step, and what was released."""

    def __init__(self, torch: Any, settings: TrainingCurves) -> None:
        self._torch, self._settings = torch, settings
        self.points: list[CurvePoint] = []
        self._shifted = 0
        self._is_watched = False
        self._clip_norm = 1.0

    def restart(self, clip_norm: float) -> None:
        """Begin a step."""
        self._shifted, self._is_watched, self._clip_norm = 0, False, clip_norm

    def begin_part(self) -> None:
        """Let the losses of the next part be given."""
        self._is_watched = False

    def split(self) -> Split:
        """Return how the clip norm of this step is shared out."""
        return split(self._clip_norm, self._settings.share)

    def watch(self, losses: Any, length: int, count: int) -> None:
        """Add the losses of the examples of a part, of which `count` are some of the data."""
        torch = self._torch
        if not isinstance(losses, torch.Tensor) or not losses.is_floating_point():
            raise InvalidType(f"losses must be a tensor of floating-point numbers, got {type(losses).__name__}")
        if tuple(losses.shape) != (length,):
            raise InvalidParameter(
                f"losses must have one number for each example of the batch, ({length},), got {tuple(losses.shape)}; "
                'write cross_entropy(model(x), y, reduction="none")'
            )
        if self._is_watched:
            raise FerroError("watch was called for this batch already: give it all losses at once")
        self._is_watched = True
        own = losses.detach().as_subclass(torch.Tensor).cpu().to(torch.float64)[:count]
        bound = self._settings.loss_bound
        own = torch.where(own.isnan(), bound, own)
        # mutant: loss-of-a-curve-not-clamped
        middle = own.clamp(0.0, bound) / bound * 2.0 - 1.0
        self._shifted += int((middle * self.split().most).round().to(torch.int64).sum())

    def check_watched(self) -> None:
        """Refuse a step whose losses are not known."""
        if not self._is_watched:
            raise FerroError(
                "optimizer.private.watch(losses) has to be called for every batch, with one loss an example, before "
                "optimizer.step()"
            )

    def sums(self, count: int, within: int) -> tuple[float, float]:
        """Return the two coordinates beside the sum of gradients: exact integers of the grid."""
        found = self.split()
        # mutant: share-of-clipped-gradients-moves-by-both-ends
        clipped = found.most * (count - 2 * within)
        return self._shifted * found.unit, clipped * found.unit

    def keep(self, step: int, noised: Any, divisor: float) -> None:
        """Remember what was released."""
        found = self.split()
        loss, clipped = (float(each) / (found.most * found.unit) / divisor for each in noised)
        self.points.append(CurvePoint(step, self._settings.loss_bound * 0.5 * (1.0 + loss), 0.5 * (1.0 + clipped)))
