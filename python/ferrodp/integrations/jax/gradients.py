"""Gradients of single examples: inside jit, and between compiled steps for the batch that a step drew."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidArray, InvalidParameter, InvalidType
from ferrodp.integrations.jax._library import check_mask, library
from ferrodp.integrations.jax.rows import pad_rows
from ferrodp.integrations.jax.step import JaxStep

__all__ = ["ExampleGradients", "clipped_sum", "per_example_gradients"]


def per_example_gradients(loss: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that computes the gradient of `loss` for each example: ``jax.vmap(jax.grad(loss))``.

    Parameters
    ----------
    loss : callable
        ``loss(params, *example)``, a real number; `example` are the rows of one example, without the batch's axis.

    Returns
    -------
    callable
        ``gradients(params, *batch)``: trees like `params` with one more axis in front, one entry an example. To be
        called inside jit.

    Raises
    ------
    MissingPackage
        If jax is not installed.
    InvalidType
        If `loss` is no function.
    InvalidParameter
        By `gradients`, if the loss depends on no leaf of `params`, as its jaxpr says: a loss of parameters that it
        knows from elsewhere.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from ferrodp.integrations.jax import per_example_gradients
    >>> gradients = per_example_gradients(lambda params, x, y: (x @ params - y) ** 2)
    >>> gradients(jnp.zeros(3), jnp.ones((5, 3)), jnp.ones(5)).shape
    (5, 3)
    """
    jax = library()
    if not callable(loss):
        raise InvalidType(
            f"loss must be a function loss(params, *example), got {type(loss).__name__}; "
            "for example lambda params, x, y: (x @ params - y) ** 2"
        )
    gradient = jax.grad(loss)

    def gradients(params: Any, *batch: Any) -> Any:
        _check_use(loss, params, batch)
        return jax.vmap(lambda example: gradient(params, *example))(batch)

    return gradients


def _check_use(loss: Callable[..., Any], params: Any, batch: Any) -> None:
    """Refuse a loss of an example in whose jaxpr nothing leads from the parameters to the result.

    A matter of shapes and of the loss alone. What a call within the jaxpr does with its arguments is not looked at: it
    counts as a use of all of them.
    """
    jax = library()
    shape, kind = jax.numpy.shape, jax.numpy.result_type
    whole = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(shape(leaf), kind(leaf)), params)
    example = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(shape(leaf)[1:], kind(leaf)), batch)
    count = len(jax.tree.leaves(whole))
    try:
        jaxpr = jax.make_jaxpr(loss)(whole, *example).jaxpr
    except Exception:  # whatever the loss raises, its gradient raises, too
        return
    reached = set(jaxpr.invars[:count])

    def uses(variables: Any) -> bool:
        return any(not hasattr(each, "val") and each in reached for each in variables)  # literals have a value

    for equation in jaxpr.eqns:
        if uses(equation.invars):
            reached.update(equation.outvars)
    # mutant: jax-loss-without-parameters-trained
    if count and not uses(jaxpr.outvars):
        raise InvalidParameter(
            "loss must depend on the parameters that it is given, got one that depends on none of them: every release "
            "would be noise alone. Let it use its first argument, and not parameters that it knows from elsewhere"
        )


def clipped_sum(gradients: Any, clip_norm: Real, *, mask: Any = None) -> Any:
    """Return the sum of per-example gradients, each clipped to a norm over all leaves: for use inside jit.

    The clipping is that of floats: the sum moves with one example by `clip_norm` up to rounding. `JaxRun.aggregation`
    clips and sums exactly.

    Parameters
    ----------
    gradients : tree of arrays
        With one more axis in front, one entry an example.
    clip_norm : float
        Largest L2 norm of an example; finite, > 0.
    mask : (rows,) bool array, optional
        Which rows are real; the others count as zeros.

    Returns
    -------
    tree of arrays
        Without the axis in front; float32, or float64 where a leaf is.

    Raises
    ------
    InvalidParameter, InvalidType
        If the norm is not accepted.
    InvalidArray, InvalidArrayType
        If the mask does not have one bool a row.

    Notes
    -----
    ==========================  ==================================================================================
    norm at most the clip norm  unchanged
    norm above it               times ``clip_norm / norm``, less 2⁻¹⁶ of it for the rounding of factor and products
    norm not finite             zeros
    ==========================  ==================================================================================

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from ferrodp.integrations.jax import clipped_sum
    >>> gradients = {"w": jnp.array([[3.0, 4.0], [0.3, 0.4], [9.0, 9.0]])}
    >>> total = clipped_sum(gradients, 1.0, mask=jnp.array([True, True, False]))
    >>> bool(jnp.allclose(total["w"], jnp.array([0.6 + 0.3, 0.8 + 0.4]), rtol=1e-4))
    True
    """
    jax = library()
    numbers = jax.numpy
    bound = _validate.positive("clip_norm", clip_norm, toward="down")
    leaves, structure = jax.tree.flatten(gradients)
    leaves = [leaf.astype(numbers.promote_types(leaf.dtype, numbers.float32)) for leaf in map(numbers.asarray, leaves)]
    rows = leaves[0].shape[0]
    real = numbers.ones(rows, bool) if mask is None else numbers.asarray(check_mask(mask, rows))
    flat = [leaf.reshape(rows, -1) for leaf in leaves]
    largest = functools.reduce(numbers.maximum, [numbers.abs(leaf).max(axis=1, initial=0.0) for leaf in flat])
    unit = numbers.where((largest > 0) & numbers.isfinite(largest), largest, 1.0)[:, None]  # squares neither vanish
    norms = numbers.sqrt(sum(((leaf / unit) ** 2).sum(axis=1) for leaf in flat)) * unit[:, 0]  # nor overflow
    factors = numbers.where(norms > bound, bound / norms * (1 - 2.0**-16), 1.0)
    # mutant: padding-added-to-sum-in-jit
    kept = real & numbers.isfinite(norms)
    sums = [numbers.where(kept[:, None], leaf * factors[:, None], 0).sum(axis=0) for leaf in flat]
    shaped = [total.reshape(leaf.shape[1:]) for total, leaf in zip(sums, leaves, strict=True)]
    return jax.tree.unflatten(structure, shaped)


class ExampleGradients:
    """Compute the gradients of a step's examples and add them to it, in chunks of a few fixed sizes.

    Compiled once for each size, whatever the batches drawn; the last chunk of a batch is padded, and the padding is
    dropped again before anything is summed. Chunks also bound the memory of the gradients.

    Parameters
    ----------
    loss : callable
        ``loss(params, *example)``, as for `per_example_gradients`.
    num_rows : int or tuple of int
        Sizes of chunks, at least 1. With several, the last chunk of a batch takes the smallest that holds it.

    Raises
    ------
    InvalidParameter, InvalidType
        If a size is not accepted.
    MissingPackage
        If jax is not installed.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from ferrodp.integrations.jax import ExampleGradients, JaxRun
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     population_size=200,
    ...     sampling=PoissonSampling(0.1),
    ...     num_steps=10,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(2.0),
    ... )
    >>> x, y = np.ones((200, 4), np.float32), np.ones(200, np.float32)
    >>> gradients = ExampleGradients(lambda params, x, y: (x @ params - y) ** 2, num_rows=(8, 32))
    >>> for step in JaxRun(plan, jnp.zeros(4)):
    ...     gradients.add_to(step, jnp.zeros(4), x, y)
    ...     gradient = step.release()
    >>> gradients.num_compilations <= 2
    True
    """

    def __init__(self, loss: Callable[..., Any], *, num_rows: int | Sequence[int] = 128) -> None:
        sizes = [num_rows] if not isinstance(num_rows, (list, tuple)) else num_rows
        if not sizes:
            raise InvalidParameter("num_rows must name at least one size")
        self._sizes = sorted({_validate.count("num_rows", size) for size in sizes})
        self._compiled = library().jit(per_example_gradients(loss))
        self._loss, self._is_checked = loss, False

    @property
    def num_compilations(self) -> int:
        """How often the gradients were compiled: at most once a size, dtype and device."""
        return int(self._compiled._cache_size())

    def add_to(self, step: JaxStep, params: Any, *data: Any) -> None:
        """Add the gradients of the examples of a step.

        Parameters
        ----------
        step : JaxStep
            Its `indices` say which rows of the data take part; all of them, where it has none.
        params : tree of arrays
            Where the gradients are taken.
        *data : tree of arrays
            Numpy or jax arrays with a row for each example of the dataset, handed to the loss in this order.

        Raises
        ------
        InvalidArray, InvalidArrayType
            If the arrays of `data` have different numbers of rows, or the gradients do not look like the parameters
            that the run was made for.
        InvalidParameter
            If the units of the step are groups of examples: add their gradients with `JaxStep.add`; or if the loss
            depends on no leaf of `params`.
        """
        jax = library()
        lengths = {len(leaf) for leaf in jax.tree.leaves(data)}
        if len(lengths) != 1:
            raise InvalidArray(f"data must be arrays of one number of rows, got {sorted(lengths)}")
        if step.groups is not None:
            raise InvalidParameter("step must have examples for units, not groups of them: use JaxStep.add")
        if not self._is_checked:  # of an empty batch, too: whether a batch is empty is private
            _check_use(self._loss, params, data)
            self._is_checked = True
        rows = np.arange(lengths.pop()) if step.indices is None else step.indices
        largest = self._sizes[-1]
        for start in range(0, len(rows), largest):
            chunk = rows[start : start + largest]
            padded, mask = pad_rows(chunk, next(size for size in self._sizes if size >= len(chunk)))
            batch = jax.tree.map(lambda leaf, padded=padded: leaf[padded], data)
            step.add(self._compiled(params, *batch), mask=mask)

    def __repr__(self) -> str:
        return f"<ExampleGradients in chunks of {', '.join(map(str, self._sizes))}>"
