"""Sums of clipped rows: exact integers inside, released once, with noise."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _arrays, _trees, _validate
from ferrodp._base._trees import Shape
from ferrodp._base._validate import Real
from ferrodp._observer import OBSERVER
from ferrodp.errors import FerroError, InvalidArray, InvalidParameter, InvalidType
from ferrodp.events import GaussianEvent, NeighboringRelation, NonPrivateEvent, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.random.noise import source_or_default
from ferrodp.sums import _state as _sum_state
from ferrodp.sums._state import SumState
from ferrodp.sums.layout import Layout, from_template
from ferrodp.sums.outer import UnitRows, clipped_outer_sum, matrix
from ferrodp.tickets import Ticket
from ferrodp.tickets.payer import payer_of
from ferrodp.tickets.source import checked, source_for
from ferrodp.tickets.statistic import found_statistic

__all__ = ["ClippedSum", "GridSum"]

Tree = TypeVar("Tree")
Key = TypeVar("Key")
Floating = TypeVar("Floating", np.float32, np.float64)
Array: TypeAlias = npt.NDArray[Floating]
DType: TypeAlias = type[Floating] | np.dtype[Floating]
Doubles: TypeAlias = npt.NDArray[np.float64]
ShapeTree: TypeAlias = "Shape | list[ShapeTree] | tuple[ShapeTree, ...] | Mapping[str, ShapeTree]"
FloatTree: TypeAlias = (
    "npt.NDArray[np.floating[Any]] | list[FloatTree] | tuple[FloatTree, ...] | Mapping[Any, FloatTree]"
)
"""What is released where the types do not say what the template was."""

_MOST_ROWS = 2**32
_event_of = functools.lru_cache(maxsize=64)(lambda multiplier: GaussianEvent(noise_multiplier=multiplier))
"""The event of a release: the very one, for a noise multiplier that was released with before."""


class GridSum(Generic[Tree]):
    r"""A sum of clipped rows, in integers on a grid, that can be released once.

    Every row has an L2 norm of at most `clip_norm` *in exact arithmetic*, so adding or removing one row, or replacing
    it by zeros, moves the sum by at most `clip_norm`, and replacing it by another by at most twice that. This is exact,
    in any dimension and for any number of rows; the order of rows, the CPU and the number of threads change no bit.

    Returned by `clip_and_sum`. Only `release` and `event` are private.

    Attributes
    ----------
    clip_norm : float
        The norm C that rows were clipped to.
    stability : float or None
        The constant γ of normalized rows, or None where rows within the bound were kept.
    granularity : float
        The grid width g, the power of two with :math:`C 2^{-30} < g \le C 2^{-29}`.
    dtype : dtype
        Of the rows, and of what is released.
    count : int
        How many rows were added, those that counted as zero included. *Not private* unless that number is public.
    within_bound : int
        How many of the rows had an L2 norm of at most `clip_norm`. *Not private.*
    integers : ndarray of int64, or a tree of them
        The sum in units of `granularity`, a fresh copy. *Not private:* it carries no noise.

    Notes
    -----
    A row x becomes the integers :math:`k_i = \mathrm{trunc}(x_i f / g)`, where f is 1 for rows within the bound and
    otherwise :math:`C/\lVert x\rVert`, rounded down by more than all rounding errors together; with a stability γ, f is
    :math:`C/(\lVert x\rVert + \gamma)`, rounded down in the same way, for every row. Truncation goes toward
    zero, so :math:`\lVert k\rVert \le C/g`, and sums of integers are exact. It costs at most g per row and coordinate.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> total = fd.clip_and_sum(np.array([[3.0, 4.0], [0.5, 0.0]]), clip_norm=1.0)
    >>> total.to_float().round(6)
    array([1.1, 0.8])
    >>> released = total.release(noise_multiplier=2.0, denominator=2)
    >>> released.shape, total.event
    ((2,), GaussianEvent(noise_multiplier=2.0))
    """

    __slots__ = ("_clip_norm", "_event", "_layout", "_native", "_stability")

    def __init__(
        self, native: _native.GridSum, layout: Layout, clip_norm: float, stability: float | None = None
    ) -> None:
        self._native, self._layout, self._clip_norm, self._stability = native, layout, clip_norm, stability
        self._event: PrivacyEvent | None = None

    @property
    def clip_norm(self) -> float:
        """The norm that rows were clipped to."""
        return self._clip_norm

    @property
    def stability(self) -> float | None:
        """The constant that rows are normalized with, or None where rows within the bound are kept."""
        return self._stability

    @property
    def granularity(self) -> float:
        """The width of the grid, a power of two."""
        return math.ldexp(1.0, self._native.granularity_exponent)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the rows, and of what is released."""
        return self._layout.dtype

    @property
    def count(self) -> int:
        """How many rows were added, those that counted as zero included; not private unless that number is public."""
        return int(self._native.count)

    @property
    def within_bound(self) -> int:
        """How many of the rows had an L2 norm of at most `clip_norm`: *not private*, for it carries no noise.

        The norm is that of the row as it was given, in exact arithmetic, whether rows are normalized or not. A row with
        a NaN or an infinity counts in `count` and not here. One row changes the number by at most 1, so with noise of
        that sensitivity it may be published; adaptive clipping does so [ATMR21].

        Raises
        ------
        FerroError
            If it is not known: the sum, or one merged into it, came from a state of a version that did not count.

        References
        ----------
        [ATMR21] Andrew, Thakkar, McMahan, Ramaswamy, "Differentially private learning with adaptive clipping",
        NeurIPS 2021, Algorithm 1.

        Examples
        --------
        >>> import numpy as np
        >>> import ferrodp as fd
        >>> total = fd.clip_and_sum(np.array([[3.0, 4.0], [0.6, 0.0], [np.nan, 0.0]]), clip_norm=1.0)
        >>> total.count, total.within_bound
        (3, 1)
        """
        within = self._native.within
        if within is None:
            raise FerroError(
                "within_bound is not known: a part of this sum is of outer products, or from a version that did not "
                "count such rows"
            )
        return within

    @property
    def integers(self) -> Any:
        """The sum in units of `granularity`, without noise: not private. Like the template, in int64; a fresh copy."""
        return self._layout.split(self._native.snapshot()[1])

    @overload
    def to_float(self: GridSum[npt.NDArray[Any]]) -> Doubles: ...
    @overload
    def to_float(self: GridSum[dict[Key, npt.NDArray[Any]]]) -> dict[Key, Doubles]: ...
    @overload
    def to_float(self) -> FloatTree: ...
    @_arrays.quiet
    def to_float(self) -> Any:
        """Return the sum without noise, in float64: *not private*, for tests and diagnosis.

        Returns
        -------
        ndarray or tree of ndarrays
            Like the template; exact where a coordinate is below 2⁵³ grid steps.
        """
        return self._layout.split(self._native.snapshot()[1] * self.granularity)

    def release(
        self,
        *,
        noise_multiplier: Real,
        denominator: Real | None = None,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
        threads: int | None = None,
    ) -> Tree:
        r"""Return the sum with exactly rounded Gaussian noise, for publication.

        The noise has standard deviation σ = `noise_multiplier * clip_norm`, rounded up, in every coordinate. The exact
        sum with noise is rounded to a grid, as an integer, before anything becomes a float, so the result is a function
        of the ideal, real-valued Gaussian mechanism of sensitivity `clip_norm`, and `event` states its cost. A sum of
        no rows is noised like any other.

        A sum is released once. A second release would be a further query with its own cost: averaging the two would
        halve the variance that the first was charged for. To release twice, add the rows to two sums.

        Parameters
        ----------
        noise_multiplier : float
            Standard deviation of the noise divided by `clip_norm`; unitless, finite, > 0, from about 2^-32 to 2^14.
        denominator : float, optional
            Divides the result: a *public* number, such as the expected number of rows, for a mean. Post-processing.
        source : NoiseSource, optional
            None, or a seeded source for tests.
        ticket : Ticket, optional
            What pays for the release: see `ferrodp.tickets`. It is armed after all checks, right before the first
            random bit, and counts as spent from then on. It must have been paid for a Gaussian event of this noise
            multiplier, or of half of it under `REPLACE_ONE`, where a row moves the sum twice as far.
        threads : int, optional
            By default the library's choice; the result does not depend on it.

        Returns
        -------
        ndarray or tree of ndarrays
            Like the template, in its dtype. Values beyond the range of the dtype are its largest finite number.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is not accepted. Nothing was drawn.
        FerroError
            If the sum was released before; or in a forked child of the process that made it, as both could release it:
            use `ClippedSum.state` and `ClippedSum.from_state` to hand it over.
        TicketError
            If `ticket` was used or cancelled before.
        InvalidArray
            If an array changed while it was being added: the sum's sensitivity is not certain any more.
        EntropyError
            If the operating system gives no key; nothing was drawn, and the sum can still be released, with another
            ticket if it needs one.

        Notes
        -----
        The grid is that of the sum; for float32 it is coarser, of width σ·2⁻¹³ to σ·2⁻¹², unless that of the sum is no
        finer or the noise multiplier is above 256. Rounding the continuous mechanism to a grid of width g is
        post-processing and adds :math:`g^2/12` to the variance, at most 5·10⁻⁹ of it.
        """
        multiplier = _validate.positive("noise_multiplier", noise_multiplier)
        divisor = None if denominator is None else _validate.positive("denominator", denominator)
        released: Tree = self._layout.split(
            release_flat(self, multiplier, divisor, source, ticket, _validate.threads(threads))
        )
        return released

    @property
    def event(self) -> PrivacyEvent:
        """What an accountant needs to know about the release.

        A Gaussian event, stated for adding or removing one row, or replacing it by zeros; where a row may be replaced
        by another, the sensitivity is twice the clip norm, and the cost is that of half the noise multiplier. A release
        from a seeded source is a `NonPrivateEvent`: anyone holding the seed can subtract the noise.

        Raises
        ------
        FerroError
            If nothing was released yet.
        """
        if self._event is None:
            raise FerroError("event is known after the release, and this sum has not been released")
        return self._event

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._layout.size} {self.dtype}, clip_norm={self._clip_norm!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a sum cannot be copied or pickled: a copy could be released again; see ClippedSum.state")


def integers_flat(total: GridSum[Any]) -> npt.NDArray[np.int64]:
    """Return `GridSum.integers` as one array, all coordinates in the order of the template: not private; a copy."""
    return np.asarray(total._native.snapshot()[1])


def sum_of_integers(integers: npt.NDArray[np.int64], l2_sensitivity: float) -> GridSum[npt.NDArray[Any]]:
    """Return the sum of at most 2³² rows, each within that norm, given as integers: a copy, to be released once.

    The integers are the sum itself: its grid is 1, so that the norm is from 2²⁹ up to below 2³⁰. None of them may be
    beyond 2³² times the norm.
    """
    native = _native.GridSum.from_integers(integers, l2_sensitivity, "float64", None, _MOST_ROWS, None)
    assert native.granularity_exponent == 0
    return GridSum(native, Layout((integers.size,), np.dtype(np.float64)), l2_sensitivity)


def release_flat(
    total: GridSum[Any],
    multiplier: float,
    divisor: float | None,
    source: NoiseSource | None,
    ticket: Ticket | None,
    threads: int | None = None,
    out: npt.NDArray[Any] | None = None,
    distance: int = 1,
    recorded: tuple[PrivacyEvent, float] | None = None,
) -> npt.NDArray[Any]:
    """Return what `GridSum.release` returns as one array, all coordinates in the order of the template.

    For callers that split it themselves. The numbers are checked already. It is `out`, of that size and dtype, if that
    is given, but not where releases are recorded. How many clip norms apart neighbors are, 1 or 2, is for the record;
    so is what else the release costs, for neighbors that are otherwise far apart.
    """
    drawn_from = source_or_default(source)
    payer = payer_of(drawn_from) if ticket is None else None
    if ticket is not None or payer is not None:
        relation = checked(drawn_from, ticket).neighboring_relation if payer is None else payer.neighboring_relation
        replaced = relation is NeighboringRelation.REPLACE_ONE
        # mutant: sum-of-replaced-rows-costs-what-one
        paid = multiplier / 2.0 if replaced else multiplier  # exact, down to multipliers that no grid supports
        price = GaussianEvent(noise_multiplier=paid)
        words = found_statistic("sum of clipped rows", bounds=f"norm at most {total._clip_norm:g}")
        drawn_from = source_for(drawn_from, ticket if payer is None else payer.ticket(price), price, words)
    if out is None:
        out = np.empty(total._layout.size, total._layout.dtype)
    observer = OBSERVER.get()
    integers = None if observer is None else total._native.snapshot()[1]
    total._native.release(out, multiplier, divisor, drawn_from._key(), threads)
    event = _event_of(multiplier)
    total._event = event if drawn_from.is_private else NonPrivateEvent()
    if observer is not None and integers is not None:
        # mutant: replaced-rows-recorded-as-if-they-came
        apart = max(2, distance) if observer.neighboring_relation is NeighboringRelation.REPLACE_ONE else distance
        # The same noise, in units of the distance.
        cost, sensitivity = recorded or (_event_of(multiplier / apart), apart * total._clip_norm)
        out = observer.saw(
            total,
            integers,
            out,
            event=cost,
            norm="L2",
            sensitivity=sensitivity,
            # mutant: sum-reports-sensitivity-in-steps-of-grid
            unit=total.granularity,
            public=(f"denominator={divisor!r}",),
        )
    return out


class ClippedSum(GridSum[Tree]):
    r"""Add up updates as they arrive, each clipped to a norm, and release the sum with noise.

    For a server's round of federated learning, and any other sum of vectors of bounded norm. Each update is one vector:
    all its arrays together are clipped to L2 norm `clip_norm` in exact arithmetic, so the sum's sensitivity to adding
    or removing one update is exactly `clip_norm`. Sums are integers: order, batches, threads, machines and merges
    change no bit. Methods may be called from several threads.

    Parameters
    ----------
    template : tree of ndarrays, or tree of shapes
        What one update looks like: an array, or lists, tuples and mappings of arrays, arbitrarily nested, all float32
        or all float64. Only structure, shapes and dtype are used. A tuple of ints is a shape. Keys of mappings are str
        or int.
    clip_norm : float
        The bound on the L2 norm of an update, in its units; finite, > 0. From 2⁻¹²⁰ to 2¹²⁸ for float32, 2⁻⁵⁰⁰ to
        2⁵⁰⁰ for float64. Rounded down if not exactly representable.
    stability : float, optional
        Normalize every update x, short ones as well, to :math:`C x / (\lVert x\rVert + \gamma)` with this γ, in the
        units of the updates: automatic clipping [BWZK23]. A public number with the domain of `clip_norm`; rounded up if
        not exactly representable. The sensitivity is C all the same, and C is no more than the unit of the result.
    dtype : float32 or float64, optional
        For a template of shapes; float64 if not given.

    Raises
    ------
    InvalidParameter, InvalidType, InvalidArray, InvalidArrayType
        If the template, the clip norm, the stability or the dtype is not accepted.
    MemoryError
        If the sum does not fit in memory.

    See Also
    --------
    clip_and_sum : the same for one matrix whose rows are at hand.

    Notes
    -----
    ==========================  ==================================================================
    update within the bound     truncated to the grid, coordinate by coordinate, and no more
    update beyond the bound     scaled down first
    with a stability            every update is scaled first; zeros stay zeros
    NaN or infinity anywhere    the whole update counts as zeros, and in `count`
    array changed while added   `InvalidArray`; the sum refuses all further use (only if its norm grew)
    2³² updates                 the next one is refused: sums could overflow
    ==========================  ==================================================================

    References
    ----------
    [BWZK23] Bu, Wang, Zha, Karypis, "Automatic clipping: differentially private deep learning made easier and
    stronger", NeurIPS 2023, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> acc = fd.ClippedSum({"w": (2, 3), "b": (3,)}, clip_norm=1.0, dtype=np.float32)
    >>> for client in range(10):
    ...     acc.add({"w": np.ones((2, 3), np.float32), "b": np.zeros(3, np.float32)})
    >>> acc.add_many({"w": np.ones((5, 2, 3), np.float32), "b": np.zeros((5, 3), np.float32)})
    >>> elsewhere = fd.ClippedSum.from_state(acc.state())  # on another machine, say
    >>> acc.merge(fd.ClippedSum({"w": (2, 3), "b": (3,)}, clip_norm=1.0, dtype=np.float32))
    >>> model = {"w": np.zeros((2, 3), np.float32), "b": np.ones(3, np.float32)}
    >>> acc.add({"w": np.ones((2, 3), np.float32), "b": np.ones(3, np.float32)}, minus=model)
    >>> mean = acc.release(noise_multiplier=1.1, denominator=16)
    >>> mean["w"].shape, acc.event
    ((2, 3), GaussianEvent(noise_multiplier=1.1))

    Normalized updates point where they did, with a length that says little of their own:

    >>> acc = fd.ClippedSum((2,), clip_norm=1.0, stability=0.01)
    >>> acc.add_many(np.array([[3e5, 4e5], [3e-5, 4e-5], [0.0, 0.0]]))
    >>> acc.to_float().round(3)
    array([0.603, 0.804])
    """

    __slots__ = ()

    @overload
    def __init__(
        self: ClippedSum[Doubles], template: Shape, *, clip_norm: Real, stability: Real | None = ...
    ) -> None: ...
    @overload
    def __init__(
        self: ClippedSum[Array[Floating]],
        template: Shape,
        *,
        clip_norm: Real,
        stability: Real | None = ...,
        dtype: DType[Floating],
    ) -> None: ...
    @overload
    def __init__(
        self: ClippedSum[dict[Key, Doubles]],
        template: Mapping[Key, Shape],
        *,
        clip_norm: Real,
        stability: Real | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: ClippedSum[dict[Key, Array[Floating]]],
        template: Mapping[Key, Shape],
        *,
        clip_norm: Real,
        stability: Real | None = ...,
        dtype: DType[Floating],
    ) -> None: ...
    @overload
    def __init__(
        self: ClippedSum[FloatTree],
        template: ShapeTree,
        *,
        clip_norm: Real,
        stability: Real | None = ...,
        dtype: npt.DTypeLike = ...,
    ) -> None: ...
    @overload
    def __init__(self, template: Tree, *, clip_norm: Real, stability: Real | None = ...) -> None: ...
    def __init__(
        self, template: object, *, clip_norm: Real, stability: Real | None = None, dtype: npt.DTypeLike | None = None
    ) -> None:
        bound = _validate.positive("clip_norm", clip_norm, toward="down")
        # mutant: stability-rounded-down
        gamma = None if stability is None else _validate.positive("stability", stability, toward="up")
        layout = from_template(template, dtype)
        if layout is not template:
            _trees.check_keys(layout.structure, "template")
        _native.check_clip_norm(bound, layout.dtype.name, gamma)
        for shape in layout.shapes:
            if 0 in shape:  # the other lengths are in no number of elements
                _validate.addressable("template", shape, 8)
        _validate.fits_in_memory("template", 8 * layout.size)
        super().__init__(_native.GridSum(layout.size, bound, layout.dtype.name, gamma), layout, bound, gamma)

    @_arrays.quiet
    def add(self, update: object, *, minus: object = None, threads: int | None = None) -> None:
        """Add one update, clipped.

        Parameters
        ----------
        update : tree of ndarrays
            Structure, shapes and dtype of the template; where that is float32, float16 and bfloat16 as well, whose
            numbers are numbers of float32. Keys may come in any order. Read in place, in any memory layout, and
            never written to.
        minus : tree of ndarrays, optional
            Like `update`, and subtracted from it first, such as the model that a client was sent from the one that it
            sent back: the same, bit for bit, as adding ``update - minus`` in the template's dtype, and faster. The sum
            keeps memory of the size of one update for that until it is released; arrays not in C order are copied.
        threads : int, optional
            By default the library's choice; the result does not depend on it.

        Raises
        ------
        InvalidArray, InvalidArrayType
            If it does not look like the template. Nothing was added.
        InvalidParameter
            If 2³² updates were added already.
        FerroError
            If the sum has been released.
        """
        threads = _validate.threads(threads)
        if minus is None:
            if self._add_in_native_code(update, False, threads):
                return
            _arrays.add_rows(self._native, self._layout.rows(update, "update"), 1, threads)
        else:
            leaves, others = self._layout.dense(update, "update"), self._layout.dense(minus, "minus")
            # mutant: difference-added-with-its-sign-flipped
            self._native.add_difference(leaves, others, threads)

    @_arrays.quiet
    def add_many(self, updates: object, *, threads: int | None = None) -> None:
        """Add a batch of updates, each clipped by itself: the same as adding them one by one, and faster.

        Parameters
        ----------
        updates : tree of ndarrays
            Like the template, with one more axis in front of every array: update i is entry i of each. For a template
            of shape (d,), a matrix of shape (n, d).
        threads : int, optional
            As for `add`.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, FerroError
            As for `add`.
        """
        threads = _validate.threads(threads)
        if self._add_in_native_code(updates, True, threads):
            return
        leaves, count = self._layout.stacked_rows(updates)
        # mutant: batch-clipped-after-it-summed
        _arrays.add_rows(self._native, leaves, count, threads)

    def _add_in_native_code(self, tree: object, stacked: bool, threads: int | None) -> bool:
        """Add a tree of plain arrays, looked at in native code; False if it is none, and nothing was added."""
        template = self._layout.template
        return template is not None and self._native.add_tree(template, tree, stacked, threads)

    @_arrays.quiet
    def add_outer(self, left: npt.ArrayLike, right: npt.ArrayLike | UnitRows) -> None:
        """Add outer products, each clipped by itself, without writing them out: gradients of a linear layer.

        Update i is the matrix ``np.outer(left[i], right[i])``. The sum is that of updates within the clip norm in exact
        arithmetic, as for `add_many`, on a coarser grid; it takes one product of matrices instead of n·k·d numbers.

        Parameters
        ----------
        left : (n, k) array of float32 or float64
            Such as the errors of a linear classifier, one row for each record.
        right : (n, d) array of float32 or float64, or UnitRows
            Such as the features. `UnitRows` are prepared once for many sums; their norms count as those of the rows
            they were made of.

        Raises
        ------
        InvalidArray, InvalidArrayType
            If the template is not one array of shape (k, d), or the arguments do not fit it. Nothing was added.
        InvalidParameter
            If together there were more than 2³² updates. Nothing was added.
        FerroError
            If the sum has been released.

        Notes
        -----
        Both factors are truncated to integers whose squared norms, multiplied as integers, are compared with the bound;
        their matrix product is a sum of integers that floats hold exactly. The right factor keeps b = 14 + ⌈log₂(d)/4⌉
        bits of a unit row, the left one the other 29 − b bits of the clip norm. `within_bound` is not known after this.

        Examples
        --------
        >>> import numpy as np
        >>> import ferrodp as fd
        >>> acc = fd.ClippedSum((2, 3), clip_norm=1.0)
        >>> acc.add_outer(np.array([[3.0, 4.0]]), np.array([[0.0, 2.0, 0.0]]))
        >>> acc.to_float().round(3)
        array([[0. , 0.6, 0. ],
               [0. , 0.8, 0. ]])
        """
        errors = matrix(left, "left")
        rows = right if isinstance(right, UnitRows) else UnitRows(right)
        shape = errors.shape[1], rows.integers.shape[1]
        if self._layout.structure != shape:
            raise InvalidArray(f"the template must be one array of shape {shape}, as left and right, for {self!r}")
        if len(errors) != len(rows):
            raise InvalidArray(f"left and right must have as many rows, got {len(errors)} and {len(rows)}")
        total = clipped_outer_sum(
            errors, rows, clip_norm=self._clip_norm, granularity=self.granularity, stability=self._stability
        )
        self._native.merge_integers(total.ravel(), len(errors), None)

    def merge(self, other: ClippedSum[Any]) -> None:
        """Add all that another accumulator holds, which stays unchanged.

        The caller ensures that no update is in both, and that the other one is not released as well: an update that
        counts twice has twice the sensitivity.

        Parameters
        ----------
        other : ClippedSum
            Of the same structure, shapes, dtype, clip norm and stability.

        Raises
        ------
        InvalidParameter
            If the two differ in structure, shapes, dtype, clip norm or stability, or together hold more than 2³²
            updates.
        FerroError
            If it is this accumulator itself, or one of the two has been released.
        InvalidType
            If `other` is no `ClippedSum`.
        """
        if not isinstance(other, ClippedSum):
            raise InvalidType(f"other must be a ClippedSum, got {type(other).__name__}")
        if other._layout != self._layout:
            raise _validate.out_of_domain("other", f"a sum over the same template as {self!r}", other)
        self._native.merge(other._native)

    def merge_state(self, state: bytes) -> None:
        """Add all that a state holds: `merge` with `from_state`, without a second accumulator in memory.

        The caller ensures what `merge` asks for; a state that is merged twice counts twice.

        Parameters
        ----------
        state : bytes
            What `state` returned, of the same structure, shapes, dtype, clip norm and stability.

        Raises
        ------
        InvalidParameter, InvalidType
            If the bytes are no state, or one of another template, dtype, clip norm or stability, or if together the two
            hold more than 2³² updates. Nothing was added.
        FerroError
            If this sum has been released.

        Examples
        --------
        >>> import numpy as np
        >>> import ferrodp as fd
        >>> here, elsewhere = fd.ClippedSum((3,), clip_norm=1.0), fd.ClippedSum((3,), clip_norm=1.0)
        >>> elsewhere.add(np.ones(3))
        >>> here.merge_state(elsewhere.state(checksum="fast"))
        >>> here.count
        1
        """
        loaded = _sum_state.load(state)
        same = (loaded.clip_norm, loaded.stability) == (self._clip_norm, self._stability)
        # mutant: states-of-other-clip-norms-merged
        if Layout(loaded.structure, np.dtype(loaded.dtype)) != self._layout or not same:
            rule = f"state must be of a sum with the template, dtype, clip norm and stability of {self!r}"
            raise InvalidParameter(rule)
        self._native.merge_integers(loaded.integers, loaded.count, loaded.within_bound)

    def state(self, *, checksum: str = "sha256") -> bytes:
        """Return all that was added so far as bytes, for `from_state`, also on another machine.

        *Not private:* it is the sum without noise, and as secret as the updates. It has a checksum against accidents,
        not a signature: keep it where only this program writes. Restoring it twice and releasing both is a second
        release of the same updates.

        Parameters
        ----------
        checksum : {"sha256", "fast"}
            How accidents are noticed. "sha256" is for files and for whatever keeps states for long. "fast" writes and
            reads at memory speed, and is for channels within one program, such as those between the workers of a
            cluster: 64 bits that notice every change of a single word, and miss other changes with probability 2⁻⁶⁴.

        Returns
        -------
        bytes
            In a format that later versions read.

        Raises
        ------
        FerroError
            If the sum has been released.
        InvalidParameter
            If `checksum` is neither of the two.
        """
        if checksum not in ("sha256", "fast"):
            raise _validate.out_of_domain("checksum", "'sha256' or 'fast'", checksum)
        if checksum == "fast":
            layout = self._layout
            prefix = _sum_state.fast_prefix(layout.dtype.name, self._clip_norm, self._stability, layout.structure)
            return self._native.state(prefix)
        if self._native.released:
            raise FerroError("this sum has been released; start a new one")
        count, integers, within = self._native.snapshot()
        structure = self._layout.structure
        return _sum_state.dump(
            SumState(self.dtype.name, self._clip_norm, count, structure, integers, self._stability, within)
        )

    @classmethod
    def from_state(cls, state: bytes) -> ClippedSum[FloatTree]:
        """Return the accumulator that a state describes.

        Parameters
        ----------
        state : bytes
            What `state` returned.

        Returns
        -------
        ClippedSum
            Containers of its template are plain dicts, lists and tuples.

        Raises
        ------
        InvalidParameter, InvalidType
            If the bytes are cut, altered, or not a state at all.
        """
        loaded = _sum_state.load(state)
        restored: ClippedSum[Any] = cls.__new__(cls)
        native = _native.GridSum.from_integers(
            loaded.integers, loaded.clip_norm, loaded.dtype, loaded.stability, loaded.count, loaded.within_bound
        )
        layout = Layout(loaded.structure, np.dtype(loaded.dtype))
        GridSum.__init__(restored, native, layout, loaded.clip_norm, loaded.stability)
        return restored
