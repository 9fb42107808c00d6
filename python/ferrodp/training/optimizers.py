"""Optimizers on trees of numpy arrays: functions of released gradients, and therefore free of privacy cost."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ferrodp._base import _trees, _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidArray, InvalidParameter

__all__ = ["SGD", "Adam", "Momentum", "Optimizer"]

Tree = TypeVar("Tree")
Array: TypeAlias = npt.NDArray[Any]
Rate: TypeAlias = "Real | Callable[[int], Real]"


class Optimizer(abc.ABC):
    """Base class of optimizers.

    Parameters
    ----------
    learning_rate : float or callable
        Finite, ≥ 0; or a function from the number of the step, from 0, to such a number.
    weight_decay : float
        Each step also multiplies the parameters by 1 − rate·`weight_decay`, apart from the gradient ([LH19]); finite,
        ≥ 0.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    References
    ----------
    [LH19] Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.training import Adam, Optimizer
    >>> optimizer: Optimizer = Adam(0.01)
    >>> model = optimizer.step(np.zeros(2), np.ones(2))
    >>> resumed = Adam(0.01)
    >>> resumed.load_state(optimizer.state())
    >>> bool(np.array_equal(resumed.step(model, np.ones(2)), optimizer.step(model, np.ones(2))))
    True
    """

    _NUM_SLOTS = 0

    def __init__(self, learning_rate: Rate, *, weight_decay: Real = 0.0) -> None:
        self._rate: Callable[[int], Real]
        if callable(learning_rate):
            self._rate = learning_rate
        else:
            fixed = _validate.non_negative("learning_rate", learning_rate)
            self._rate = lambda _: fixed
        self._decay = _validate.non_negative("weight_decay", weight_decay)
        self._slots: list[list[Array]] = []
        self._num_steps = 0

    @property
    def num_steps(self) -> int:
        """How many steps were taken."""
        return self._num_steps

    def step(self, parameters: Tree, gradient: Any) -> Tree:
        """Return the parameters after a step along a gradient.

        Parameters
        ----------
        parameters : tree of ndarrays
            float32 or float64. Not changed.
        gradient : tree of ndarrays
            Like the parameters: what a step of a plan released.

        Returns
        -------
        tree of ndarrays
            Like the parameters, new arrays.

        Raises
        ------
        InvalidArray, InvalidArrayType
            If the two do not look alike, or the parameters look different from those of the step before.
        InvalidParameter
            If the learning rate of this step is not accepted.
        """
        leaves, structure = _trees.float_leaves(parameters, "parameters")
        slopes = [_slope(path, value) for path, value in _trees.matching_leaves(gradient, structure, "gradient")]
        for leaf, slope in zip(leaves, slopes, strict=True):
            if leaf.shape != slope.shape:
                raise InvalidArray(f"gradient must have the shapes of the parameters, got {slope.shape}")
        if not self._slots:
            self._slots = [[np.zeros_like(leaf) for leaf in leaves] for _ in range(self._NUM_SLOTS)]
        if any([s.shape for s in slot] != [leaf.shape for leaf in leaves] for slot in self._slots):
            raise InvalidArray("parameters must look like those of the step before")
        rate = _validate.non_negative("learning_rate", self._rate(self._num_steps))
        kept = 1.0 - rate * self._decay
        self._num_steps += 1
        moved = [
            leaf * kept - rate * self._direction(i, slope.astype(leaf.dtype, copy=False))
            for i, (leaf, slope) in enumerate(zip(leaves, slopes, strict=True))
        ]
        found: Tree = _trees.put_together(structure, moved)
        return found

    @abc.abstractmethod
    def _direction(self, leaf: int, slope: Array) -> Array:
        """Return what one array moves against, per unit of the learning rate; update its slots."""

    def state(self) -> dict[str, Any]:
        """Return what the next steps depend on, for `load_state`.

        Returns
        -------
        dict
            "num_steps" and "slots", lists of arrays: plain numpy, to be saved with the model. A function of releases,
            so no more private than the model.
        """
        return {"num_steps": self._num_steps, "slots": [[slot.copy() for slot in leaves] for leaves in self._slots]}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from where `state` was taken.

        Parameters
        ----------
        state : dict
            What `state` returned, of an optimizer of the same class.

        Raises
        ------
        InvalidParameter
            If it is not that.
        """
        try:
            num_steps, slots = state["num_steps"], [[np.array(slot) for slot in leaves] for leaves in state["slots"]]
        except (TypeError, KeyError, ValueError):
            raise InvalidParameter("state must be what state() returned") from None
        if len(slots) not in ({0, self._NUM_SLOTS} if num_steps == 0 else {self._NUM_SLOTS}):
            raise InvalidParameter(f"state must be that of a {type(self).__name__}")
        self._num_steps, self._slots = _validate.count("num_steps", num_steps, minimum=0), slots


def _slope(path: _trees.Path, value: object) -> Array:
    return _trees.float_array(path, value)


class SGD(Optimizer):
    """Gradient descent: w ← (1 − ηλ)·w − η·g.

    Parameters
    ----------
    learning_rate : float or callable
        η; finite, ≥ 0; or a function from the number of the step, from 0, to such a number.
    weight_decay : float
        λ; finite, ≥ 0.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.training import SGD
    >>> SGD(0.5).step({"w": np.ones(2)}, {"w": np.array([1.0, -1.0])})
    {'w': array([0.5, 1.5])}
    """

    def _direction(self, leaf: int, slope: Array) -> Array:
        return slope


class Momentum(Optimizer):
    """Gradient descent with momentum: v ← β·v + (1 − β')·g, w ← (1 − ηλ)·w − η·v.

    Parameters
    ----------
    learning_rate : float or callable
        η; finite, ≥ 0; or a function from the number of the step, from 0, to such a number.
    momentum : float
        β; in [0, 1).
    dampening : float, optional
        β', by which a new gradient counts less; in [0, 1]. 0 by default; with β' = β, v is a moving average.
    nesterov : bool
        Look ahead: w moves by β·v + (1 − β')·g, with the new v.
    weight_decay : float
        λ; finite, ≥ 0.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.training import Momentum
    >>> optimizer = Momentum(1.0, momentum=0.5)
    >>> w = np.zeros(1)
    >>> for _ in range(2):
    ...     w = optimizer.step(w, np.ones(1))
    >>> w
    array([-2.5])
    """

    _NUM_SLOTS = 1

    def __init__(
        self,
        learning_rate: Rate,
        momentum: Real = 0.9,
        *,
        dampening: Real = 0.0,
        nesterov: bool = False,
        weight_decay: Real = 0.0,
    ) -> None:
        super().__init__(learning_rate, weight_decay=weight_decay)
        self._momentum = _below_one("momentum", momentum)
        self._share = 1.0 - _validate.probability("dampening", dampening)
        self._nesterov = _validate.truth("nesterov", nesterov)

    def _direction(self, leaf: int, slope: Array) -> Array:
        fresh = self._share * slope
        velocity = self._momentum * self._slots[0][leaf] + fresh
        self._slots[0][leaf] = velocity
        return self._momentum * velocity + fresh if self._nesterov else velocity


class Adam(Optimizer):
    """Adam ([KB15]), with decoupled weight decay (AdamW, [LH19]) if `weight_decay` is not 0.

    Parameters
    ----------
    learning_rate : float or callable
        Finite, ≥ 0; or a function from the number of the step, from 0, to such a number.
    betas : (float, float)
        Decay of the moving averages of the gradient and of its square; in [0, 1).
    stability : float
        Added to the root of the second moment; finite, > 0.
    weight_decay : float
        Finite, ≥ 0.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    The noise of a private gradient is part of its second moment: coordinates whose gradient is smaller than the noise
    move all by about the same.

    References
    ----------
    [KB15] Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015, Algorithm 1.

    [LH19] Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.training import Adam
    >>> Adam(0.1, weight_decay=0.01).step(np.ones(2), np.array([3.0, -0.02])).round(6)
    array([0.899, 1.099])
    """

    _NUM_SLOTS = 2

    def __init__(
        self,
        learning_rate: Rate,
        *,
        betas: tuple[Real, Real] = (0.9, 0.999),
        stability: Real = 1e-8,
        weight_decay: Real = 0.0,
    ) -> None:
        super().__init__(learning_rate, weight_decay=weight_decay)
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise _validate.out_of_domain("betas", "two numbers in [0, 1)", betas)
        self._betas = _below_one("betas", betas[0]), _below_one("betas", betas[1])
        self._stability = _validate.positive("stability", stability)

    def _direction(self, leaf: int, slope: Array) -> Array:
        first, second = self._betas
        means, squares = self._slots
        means[leaf] = first * means[leaf] + (1.0 - first) * slope
        squares[leaf] = second * squares[leaf] + (1.0 - second) * np.square(slope)
        mean = means[leaf] / (1.0 - first**self._num_steps)
        root = np.sqrt(squares[leaf] / (1.0 - second**self._num_steps))
        found: Array = mean / (root + self._stability)
        return found


def _below_one(name: str, value: Real) -> float:
    number = _validate.non_negative(name, value, toward="down")
    if not number < 1.0 or not math.isfinite(number):
        raise _validate.out_of_domain(name, "in [0, 1)", value)
    return number
