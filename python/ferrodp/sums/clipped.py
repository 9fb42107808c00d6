"""Sums of clipped rows: exact integers inside, noise at the door, once."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ferrodp import _arrays, _native, _trees, _validate
from ferrodp._observer import OBSERVER
from ferrodp._trees import Node
from ferrodp._validate import Real
from ferrodp.errors import FerroError, InvalidArray, InvalidArrayType, InvalidType
from ferrodp.events import GaussianEvent, NeighboringRelation, NonPrivateEvent, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.random.laws import float_dtype
from ferrodp.random.noise import source_or_default
from ferrodp.sums import _state as _sum_state
from ferrodp.sums._state import SumState
from ferrodp.tickets import Ticket
from ferrodp.tickets.source import checked, source_for

__all__ = ["ClippedSum", "GridSum"]


class GridSum:
    r"""A sum of clipped rows, in integers on a grid, that can be released once.

    Every row has an L2 norm of at most `clip_norm` *in exact arithmetic*, so adding or removing one row, or replacing
    it by zeros, moves the sum by at most `clip_norm`, and replacing it by another by at most twice that. This is exact,
    in any dimension and for any number of rows; the order of rows, the CPU and the number of threads change no bit.

    `clip_and_sum` returns one. Nothing here but `release` and `event` is private.

    Attributes
    ----------
    clip_norm : float
        The norm C that rows were clipped to.
    granularity : float
        The grid width g, the power of two with :math:`C 2^{-30} < g \le C 2^{-29}`.
    dtype : dtype
        Of the rows, and of what is released.
    count : int
        How many rows were added, those that counted as zero included. *Not private* unless that number is public.
    integers : ndarray of int64, or a tree of them
        The sum in units of `granularity`, a fresh copy. *Not private:* it carries no noise.

    Notes
    -----
    A row x becomes the integers :math:`k_i = \mathrm{trunc}(x_i f / g)`, where f is 1 for rows within the bound and
    otherwise :math:`C/\lVert x\rVert`, rounded down by more than all rounding errors together. Truncation goes toward
    zero, so :math:`\lVert k\rVert \le C/g`, and sums of integers are exact. It costs at most g per row and coordinate.
    """

    __slots__ = ("_clip_norm", "_dtype", "_event", "_native", "_shapes", "_size", "_structure")

    def __init__(self, native: _native.GridSum, structure: Node, dtype: np.dtype[Any], clip_norm: float) -> None:
        self._native = native
        self._structure = structure
        self._shapes = _trees.shapes(structure)
        self._size = sum(math.prod(shape) for shape in self._shapes)
        self._dtype = dtype
        self._clip_norm = clip_norm
        self._event: PrivacyEvent | None = None

    @property
    def clip_norm(self) -> float:
        """The norm that rows were clipped to."""
        return self._clip_norm

    @property
    def granularity(self) -> float:
        """The width of the grid, a power of two."""
        return math.ldexp(1.0, self._native.granularity_exponent)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the rows, and of what is released."""
        return self._dtype

    @property
    def count(self) -> int:
        """How many rows were added, those that counted as zero included; not private unless that number is public."""
        return int(self._native.count)

    @property
    def integers(self) -> Any:
        """The sum in units of `granularity`, without noise: not private. Like the template, in int64; a fresh copy."""
        return _trees.split(self._native.snapshot()[1], self._structure)

    @_arrays.quiet
    def to_float(self) -> Any:
        """Return the sum without noise, in float64: *not private*, for tests and diagnosis.

        Exact where a coordinate is below 2⁵³ grid steps.
        """
        return _trees.split(self._native.snapshot()[1] * self.granularity, self._structure)

    def release(
        self,
        *,
        noise_multiplier: Real,
        denominator: Real | None = None,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
        threads: int | None = None,
    ) -> Any:
        r"""Return the sum with exactly rounded Gaussian noise: the one thing here that may be published.

        The noise has standard deviation `noise_multiplier * clip_norm`, rounded up, in every coordinate. Its integer is
        drawn on the grid of the sum and added to the sum's integer before anything becomes a float, so the result is
        a function of the ideal, real-valued Gaussian mechanism of sensitivity `clip_norm`, and `event` says what it
        costs. A sum of no rows is noised like any other.

        A sum is released once. A second release would be a second query with a price of its own, and averaging the two
        would halve the variance that the first was charged for; whoever means that adds the rows to two sums.

        Parameters
        ----------
        noise_multiplier : float
            Standard deviation of the noise divided by `clip_norm`; unitless, finite, > 0, from about 2^-32 to 2^14.
        denominator : float, optional
            Divides the result: a *public* number, such as the expected number of rows, for a mean. Post-processing.
        source : NoiseSource, optional
            None, or a seeded source for tests.
        ticket : Ticket, optional
            What pays for the release: see `ferrodp.tickets`. It is armed after every check, right before the first
            random bit, and spent from then on, whatever happens. It must have been paid for a Gaussian event of this
            noise multiplier; of half of it where the ticket speaks of replaced rows, which move the sum twice as far.
        threads : int, optional
            By default the library's choice; the result does not depend on it.

        Returns
        -------
        ndarray or tree of ndarrays
            Like the template, in its dtype. Values beyond the range of the dtype are its largest finite number.

        Raises
        ------
        InvalidParameter, InvalidType
            Before anything is drawn.
        FerroError
            If the sum was released before; or in a forked child of the process that made it, for both could release
            it: `ClippedSum.state` and `ClippedSum.from_state` hand it over on purpose.
        TicketError
            If `ticket` was used or cancelled before.
        InvalidArray
            If an array changed while it was being added: the sum's sensitivity is not certain any more.
        EntropyError
            If the operating system gives no key; nothing was drawn, and the sum can still be released, with another
            ticket if it needs one.

        Notes
        -----
        Rounding the continuous mechanism to the grid is post-processing and adds :math:`g^2/12` to the variance.
        """
        multiplier = _validate.positive("noise_multiplier", noise_multiplier)
        divisor = None if denominator is None else _validate.positive("denominator", denominator)
        threads = _validate.threads(threads)
        drawn_from = source_or_default(source)
        if ticket is not None:
            replaced = checked(drawn_from, ticket).neighboring_relation is NeighboringRelation.REPLACE_ONE
            # mutant: sum-of-replaced-rows-costs-what-one
            paid = multiplier / 2.0 if replaced else multiplier  # exact, down to multipliers that no grid supports
            drawn_from = source_for(drawn_from, ticket, GaussianEvent(noise_multiplier=paid))
        out = np.empty(self._size, self._dtype)
        observer = OBSERVER.get()
        integers = None if observer is None else self._native.snapshot()[1]
        self._native.release(out, multiplier, divisor, drawn_from._key(), threads)
        event = GaussianEvent(noise_multiplier=multiplier)
        self._event = event if drawn_from.is_private else NonPrivateEvent()
        if observer is not None and integers is not None:
            out = observer.saw(
                self,
                integers,
                out,
                event=event,
                norm="L2",
                sensitivity=self._clip_norm,
                # mutant: sum-reports-sensitivity-in-steps-of-grid
                unit=self.granularity,
                public=(f"denominator={divisor!r}",),
            )
        return _trees.split(out, self._structure)

    @property
    def event(self) -> PrivacyEvent:
        """What an accountant needs to know about the release.

        A Gaussian event, stated for adding or removing one row, or replacing it by zeros; where a row may be replaced
        by another, the sensitivity is twice the clip norm, and half the noise multiplier tells the cost. A release from
        a seeded source is a `NonPrivateEvent`: whoever has the seed can subtract the noise.

        Raises
        ------
        FerroError
            If nothing was released yet.
        """
        if self._event is None:
            raise FerroError("event is known after the release, and this sum has not been released")
        return self._event

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._size} {self._dtype}, clip_norm={self._clip_norm!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a sum cannot be copied or pickled: a copy could be released again; see ClippedSum.state")


class ClippedSum(GridSum):
    r"""Add up updates as they arrive, each clipped to a norm, and release the sum with noise.

    The server's accumulator for federated learning, and any other sum of vectors of bounded norm. Each update is one
    vector: all its arrays together are clipped to L2 norm `clip_norm`, which holds in exact arithmetic, so the sum's
    sensitivity to adding or removing one update is exactly `clip_norm`. Sums are integers: order, batches, threads,
    machines and merges change no bit. Methods may be called from several threads.

    Parameters
    ----------
    template : tree of ndarrays, or tree of shapes
        What one update looks like: an array, or lists, tuples and mappings of arrays, nested as you like, all float32
        or all float64. Only structure, shapes and dtype are taken. A tuple of ints is a shape. Keys of mappings are str
        or int.
    clip_norm : float
        The bound on the L2 norm of an update, in its units; finite, > 0. From 2⁻¹²⁰ to 2¹²⁸ for float32, 2⁻⁵⁰⁰ to
        2⁵⁰⁰ for float64. Rounded down if it is no float.
    dtype : float32 or float64, optional
        For a template of shapes; float64 if not given.

    Raises
    ------
    InvalidParameter, InvalidType, InvalidArray, InvalidArrayType, MemoryError

    See Also
    --------
    clip_and_sum : the same for one matrix whose rows are at hand.

    Notes
    -----
    ==========================  ==================================================================
    update within the bound     truncated to the grid, coordinate by coordinate, and no more
    update beyond the bound     scaled down first
    NaN or infinity anywhere    the whole update counts as zeros, and in `count`
    array changed meanwhile     `InvalidArray`; the sum refuses all further use (only if its norm grew)
    2³² updates                 the next one is refused: sums could overflow
    ==========================  ==================================================================

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> acc = fd.ClippedSum({"w": (2, 3), "b": (3,)}, clip_norm=1.0, dtype=np.float32)
    >>> for client in range(10):
    ...     acc.add({"w": np.ones((2, 3), np.float32), "b": np.zeros(3, np.float32)})
    >>> mean = acc.release(noise_multiplier=1.1, denominator=10)
    >>> mean["w"].shape, acc.event
    ((2, 3), GaussianEvent(noise_multiplier=1.1))
    """

    __slots__ = ()

    def __init__(self, template: object, *, clip_norm: Real, dtype: npt.DTypeLike | None = None) -> None:
        bound = _validate.positive("clip_norm", clip_norm, toward="down")
        structure, kind = _from_template(template, dtype)
        _trees.check_keys(structure, "template")
        _native.check_clip_norm(bound, kind.name)
        size = sum(math.prod(shape) for shape in _trees.shapes(structure))
        for shape in _trees.shapes(structure):
            _validate.addressable("template", shape, 8)
        _validate.fits_in_memory("template", 8 * size)
        super().__init__(_native.GridSum(size, bound, kind.name), structure, kind, bound)

    @_arrays.quiet
    def add(self, update: object, *, threads: int | None = None) -> None:
        """Add one update, clipped.

        Parameters
        ----------
        update : tree of ndarrays
            Structure, shapes and dtype of the template; any memory layout. Keys may come in any order. Never written
            to.
        threads : int, optional
            By default the library's choice; the result does not depend on it.

        Raises
        ------
        InvalidArray, InvalidArrayType
            If it does not look like the template: nothing is added.
        InvalidParameter
            If 2³² updates were added already.
        FerroError
            If the sum has been released.
        """
        self._native.add(self._leaves(update, "update", ()), 1, _validate.threads(threads))

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
        """
        threads = _validate.threads(threads)
        path, first = _trees.matching_leaves(updates, self._structure, "updates")[0]
        shape = _trees.float_array(path, first).shape
        if not shape:
            raise InvalidArray(f"{_trees.where(path)} must have one more axis than in the template, in front")
        count = shape[0]
        # mutant: batch-clipped-after-it-summed
        self._native.add(self._leaves(updates, "updates", (count,)), count, threads)

    def merge(self, other: ClippedSum) -> None:
        """Add all that another accumulator holds, which stays as it is.

        The caller sees to it that no update is in both, and that the other one is not released as well: an update that
        counts twice has twice the sensitivity.

        Raises
        ------
        InvalidParameter
            If the two differ in structure, shapes, dtype or clip norm, or together hold more than 2³² updates.
        FerroError
            If it is this accumulator itself, or one of the two has been released.
        """
        if not isinstance(other, ClippedSum):
            raise InvalidType(f"other must be a ClippedSum, got {type(other).__name__}")
        if (other._structure, other._dtype) != (self._structure, self._dtype):
            raise _validate.out_of_domain("other", f"a sum over the same template as {self!r}", other)
        self._native.merge(other._native)

    def state(self) -> bytes:
        """Return all that was added so far as bytes, for `from_state`, also on another machine.

        *Not private:* it is the sum without noise, and as secret as the updates. It has a checksum against accidents,
        not a signature: keep it where only this program writes. Restoring it twice and releasing both is a second
        release of the same updates.

        Raises
        ------
        FerroError
            If the sum has been released.
        """
        if self._native.released:
            raise FerroError("this sum has been released; start a new one")
        count, integers = self._native.snapshot()
        return _sum_state.dump(SumState(self._dtype.name, self._clip_norm, count, self._structure, integers))

    @classmethod
    def from_state(cls, state: bytes) -> ClippedSum:
        """Return the accumulator whose `state` this is; containers of the template become plain ones.

        Raises
        ------
        InvalidParameter, InvalidType
            If the bytes are cut, altered, or not a state at all.
        """
        loaded = _sum_state.load(state)
        restored = cls.__new__(cls)
        native = _native.GridSum.from_integers(loaded.integers, loaded.clip_norm, loaded.dtype, loaded.count)
        GridSum.__init__(restored, native, loaded.structure, np.dtype(loaded.dtype), loaded.clip_norm)
        return restored

    def _leaves(self, tree: object, name: str, front: tuple[int, ...]) -> list[npt.NDArray[Any]]:
        """Return the arrays of one or many updates, in order, or refuse what does not look like the template."""
        leaves = _trees.matching_leaves(tree, self._structure, name)
        _trees.refuse_shared(leaves)
        arrays = []
        for (path, value), shape in zip(leaves, self._shapes, strict=True):
            array = _trees.float_array(path, value)
            if array.dtype != self._dtype:
                rule = f"must have the dtype of the template, {self._dtype}"
                raise InvalidArrayType(f"{_trees.where(path)} {rule}, got {array.dtype}")
            if array.shape != front + shape:
                raise InvalidArray(f"{_trees.where(path)} must have shape {front + shape}, got {array.shape}")
            arrays.append(array)
        return arrays


def _from_template(template: object, dtype: npt.DTypeLike | None) -> tuple[Node, np.dtype[Any]]:
    """Return the structure of one update and its dtype."""
    leaves, structure = _trees.take_apart(template, "template", _is_shape)
    if leaves and all(_is_shape(value) for _, value in leaves):
        kind = float_dtype(np.float64 if dtype is None else dtype)
        sizes = [_validate.size(value, name=_trees.where(path), itemsize=8) for path, value in leaves]
        return _trees.with_shapes(structure, sizes), kind
    if dtype is not None:
        raise InvalidType("dtype must be left out where template holds arrays: it is theirs")
    for path, value in leaves:
        if isinstance(value, (int, float, np.number)):
            rule = "must be an array or a shape, a tuple of ints; for a vector write (length,)"
            raise InvalidArrayType(f"{_trees.where(path)} {rule}")
    arrays, shaped = _trees.float_leaves(template, "template")
    return shaped, arrays[0].dtype


def _is_shape(value: object) -> bool:
    """Whether `value` is a shape: a plain tuple of ints."""
    return type(value) is tuple and all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in value)
