"""One step of a plan: who takes part, the sum of their vectors, and its release."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.errors import FerroError, InvalidParameter
from ferrodp.mechanisms import GaussianMechanism
from ferrodp.plan._kept import StepKeeper
from ferrodp.plan._sums import StepSum
from ferrodp.plan.clipping import AdaptiveClipping, refuse_l1
from ferrodp.plan.correlated import check_no_block
from ferrodp.plan.payments import Payments
from ferrodp.plan.sampling import GivenOrder
from ferrodp.random import NoiseSource
from ferrodp.random.samples import Indices
from ferrodp.sums.layout import Layout
from ferrodp.tickets import Ticket, TicketState

if TYPE_CHECKING:
    from ferrodp.plan.plan import PrivacyPlan

__all__ = ["PlanStep"]

Tree = TypeVar("Tree")
"""What the template of the run is: an array, or a tree of arrays."""


class PlanStep(Generic[Tree]):
    """A step that is paid for: add the vectors of the units that were drawn, and release their noised sum. Once.

    Handed out by iterating over a `PlanRun`.

    Attributes
    ----------
    number : int
        From 0.
    indices : ndarray of int64, or None
        Units that take part, in increasing order. *Secret:* amplification holds for those who do not know them. None
        where others choose: `GivenOrder`, or an unknown `population_size`.
    groups : list of ndarray of int64, or None
        With `records_per_group` > 1: the units of each group, perhaps none, drawn at random. Add one vector for each
        group, zeros for an empty one.
    noise_multiplier : float
        Of this step.
    clip_norm : float
        Largest L2 norm that a vector adds.
    marks : ndarray of float64, or None
        With `audit_canaries`: what was released about the canaries, in clip norms.
    expected_batch_size : float or None
        What the release is divided by.
    is_kept : bool
        Whether the sum is complete: with `PlanRun.keep_sums`, after a release that failed or a process that died.

    Examples
    --------
    >>> import ferrodp as fd
    >>> import numpy as np
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, FixedSizeSampling, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     population_size=100,
    ...     sampling=FixedSizeSampling(10),
    ...     num_steps=5,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(2.0),
    ... )
    >>> run = plan.start({"w": (2,)})
    >>> step = next(run)
    >>> len(step.indices), step.noise_multiplier, step.expected_batch_size
    (10, 2.0, 10.0)
    >>> step.add({"w": np.ones((10, 2))})
    >>> step.release()["w"].shape
    (2,)
    >>> step = next(run)
    >>> step.add_missing(1)
    >>> for _ in step.indices[2:]:
    ...     step.add_one({"w": np.ones(2)})
    >>> elsewhere = fd.ClippedSum({"w": (2,)}, clip_norm=1.0)
    >>> elsewhere.add({"w": np.ones(2)})
    >>> step.merge(elsewhere)
    >>> step.release(denominator=1)["w"].dtype
    dtype('float64')
    >>> next(run).release_sum({"w": np.zeros(2)})["w"].shape
    (2,)
    """

    __slots__ = (
        "_begun",
        "_done",
        "_expected",
        "_groups",
        "_indices",
        "_keeper",
        "_layout",
        "_lock",
        "_missing",
        "_number",
        "_over",
        "_payments",
        "_plan",
        "_source",
        "_sum",
    )

    def __init__(
        self,
        plan: PrivacyPlan,
        number: int,
        expected_batch_size: float | None,
        indices: Indices | None,
        groups: list[Indices] | None,
        layout: Layout,
        total: StepSum,
        payments: Payments,
        source: NoiseSource,
        done: Callable[[PlanStep[Tree], float | None], None],
    ) -> None:
        self._plan, self._number, self._indices, self._groups, self._layout = plan, number, indices, groups, layout
        self._expected = expected_batch_size
        self._sum, self._payments, self._source, self._done = total, payments, source, done
        self._begun = self._over = False
        self._keeper: StepKeeper | None = None
        self._missing = 0
        self._lock = threading.Lock()

    @property
    def number(self) -> int:
        """Number of the step, from 0."""
        return self._number

    @property
    def indices(self) -> Indices | None:
        """Units that take part; secret. None where others choose."""
        return self._indices

    @property
    def groups(self) -> list[Indices] | None:
        """The units of each group, with `records_per_group` > 1; secret."""
        return self._groups

    @property
    def is_kept(self) -> bool:
        """Whether the sum is complete and written down, perhaps by a run that died: nothing can be added any more."""
        return self._keeper is not None and self._keeper.is_kept

    @property
    def noise_multiplier(self) -> float:
        """Noise multiplier of this step."""
        return self._plan.noise.at(self._number, self._plan.num_steps)

    @property
    def clip_norm(self) -> float:
        """Largest L2 norm that a vector adds."""
        return self._sum.clip_norm

    @property
    def marks(self) -> npt.NDArray[np.float64] | None:
        """Released coordinates of the canaries of an audit, in clip norms; None without canaries or a release."""
        return self._sum.marks

    @property
    def expected_batch_size(self) -> float | None:
        """What the release is divided by: a public number."""
        return self._expected

    def add(self, gradients: Any) -> None:
        """Add the vectors of some units, each clipped by itself.

        Parameters
        ----------
        gradients : tree of ndarrays
            Like the template, with one more axis in front: entry i of each array belongs to one unit. May be added in
            chunks. Never written to. A unit whose vector holds NaN or infinity counts as zeros. Vectors have to be the
            true ones: undo the scaling of a loss first.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            If the arrays do not look like the template. Nothing was added.
        FerroError
            If the step was released.
        """
        self._check_unkept()
        self._sum.add(gradients)

    def add_one(self, update: Any, *, minus: Any = None) -> None:
        """Add the vector of one unit, such as the update of a client.

        Parameters
        ----------
        update : tree of ndarrays
            Like the template. As for `add`.
        minus : tree of ndarrays, optional
            Subtracted from it, as for `ClippedSum.add`.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, FerroError
            As for `add`.
        """
        self._check_unkept()
        self._sum.add_one(update, minus)

    def add_missing(self, count: int) -> None:
        """Count units that were drawn and sent nothing, such as clients that dropped out, as zero vectors.

        Parameters
        ----------
        count : int
            ≥ 0. Whether a unit sends anything must depend on that unit alone.

        Raises
        ------
        InvalidParameter, InvalidType
            If `count` is out of its domain.
        FerroError
            If the step was released.
        """
        self._check_unkept()
        self._missing += _validate.count("count", count, minimum=0)

    def merge(self, total: Any) -> None:
        """Add what was added elsewhere to a sum over the same template with the same clip norm.

        Parameters
        ----------
        total : ClippedSum
            Of units that take part in this step; left as it is.

        Raises
        ------
        InvalidParameter, InvalidType, FerroError
            If it is another kind of sum, or this step or the sum was released.
        """
        self._check_unkept()
        self._sum.merge(total)

    def release(self, *, denominator: Real | None = None) -> Tree:
        """Return the noised sum, divided by the expected batch size, and end the step.

        Parameters
        ----------
        denominator : float, optional
            Divides the sum instead: a *public* number, such as 1 for the sum itself. Never the number of vectors.

        Returns
        -------
        tree of ndarrays
            Like the template, in its dtype.

        Raises
        ------
        FerroError
            If the number of vectors added is not the number of units drawn, or the step was released, perhaps by
            another run. Nothing was drawn or spent.
        InvalidParameter, InvalidType
            If the denominator is not accepted, or is needed: the plan knows no batch size. Nothing was drawn.
        BudgetExceeded, TicketError
            If the ledger refuses in between, as when a scope was frozen. Nothing was drawn.
        EntropyError, InvalidArray
            If no key is to be had, or an array changed while it was added. The step is over, its cost spent.
        """
        released: Tree = self._layout.split(release_flat(self, denominator))
        return released

    def release_sum(self, total: Any, *, denominator: Real | None = None) -> Tree:
        """Return a sum that the caller clipped and added up, with the noise of this step, and end the step.

        For frameworks that sum inside compiled code. What `add` ensures is the caller's promise here: each vector has
        an L2 norm of at most `clip_norm`, and those of exactly the units drawn are added. A sum of floats keeps the
        first only up to rounding.

        Parameters
        ----------
        total : tree of ndarrays
            Like the template. Never written to. A coordinate that is not finite counts as 0.
        denominator : float, optional
            As for `release`.

        Returns
        -------
        tree of ndarrays
            Like the template, in its dtype.

        Raises
        ------
        InvalidParameter
            If vectors were added to the step, too, or the clip norm is adaptive: its count is not known then.
        InvalidArray, InvalidArrayType, InvalidType, FerroError, BudgetExceeded, TicketError, EntropyError
            As for `release`.
        """
        with self._lock:
            self._check_open()
            # mutant: sum-of-compiled-code-with-laplace-noise
            refuse_l1(self._plan.clipping)
            if self._sum.count or isinstance(self._plan.clipping, AdaptiveClipping):
                raise InvalidParameter("release_sum takes the whole sum, of vectors clipped to a norm fixed in advance")
            divisor = self._divisor(denominator)
            values = self._layout.flat(total, "total")
            own, signs = values.size, self._sum.signs
            if signs is not None:
                values = np.concatenate([values, (signs * self.clip_norm).astype(values.dtype)])
            apart, correlated = self._sum.distance, self._sum.correlated
            mechanism = GaussianMechanism(
                noise_multiplier=self.noise_multiplier / apart, l2_sensitivity=apart * self.clip_norm
            )
            if correlated is not None:
                check_no_block(self._source)
                correlated.advance(self._number)
            try:
                self._pay()
                # mutant: sum-of-compiled-code-noised-as-if-steps-were-independent
                if correlated is not None:
                    correlated.add_to(values)
                else:
                    mechanism.release(values, out=values, source=self._source)
                if signs is not None:
                    self._sum.marks = values[own:].astype(np.float64) / self.clip_norm
                    values = values[:own].copy()
            finally:
                self._finish(None)
        np.divide(values, divisor, out=values)
        noised: Tree = self._layout.split(values)
        return noised

    def _pay(self) -> None:
        """Pay for the step: called before the first random bit of its noise."""
        self._payments.pay(self._number)
        self._begun = True

    def _finish(self, ticket: Ticket | None) -> None:
        """End the step if it was paid for; the ticket is the one that its sum took along."""
        # mutant: step-whose-release-failed-begins-again
        if self._begun or (ticket is not None and ticket.state is not TicketState.HELD):
            self._over = True
            if not self._begun:
                self._payments.count(self._number)
            expected = self._expected
            self._done(self, None if expected is None else self._sum.share_within(expected))

    def _divisor(self, denominator: Real | None) -> float:
        if denominator is not None:
            return _validate.positive("denominator", denominator)
        # mutant: sum-divided-by-realized-batch-size
        expected = self._expected
        if expected is None:
            raise InvalidParameter("denominator must be given: the plan has no population_size to derive it from")
        return expected

    def _close(self) -> None:
        """End the step without a release: called when its run is closed."""
        self._over = True

    def _check_open(self) -> None:
        if self._over:
            raise FerroError(f"step {self._number} was released, or its run has ended; go on with the next one")

    def _check_unkept(self) -> None:
        self._check_open()
        # mutant: kept-sum-takes-more-vectors
        if self.is_kept:
            raise FerroError(f"the sum of step {self._number} is complete and was kept: release it")

    def _check_count(self, added: int | None = None) -> None:
        """Refuse a batch that is not the one that was drawn. No message tells how many there were."""
        drawn = self._indices if self._groups is None else self._groups
        count = (self._sum.count if added is None else added) + self._missing
        if drawn is None:
            sampling = self._plan.sampling
            # mutant: batch-larger-than-the-plan-says
            if isinstance(sampling, GivenOrder) and count > sampling.batch_size:
                raise FerroError(f"the vectors added must be at most batch_size = {sampling.batch_size}")
            return
        # mutant: batch-that-was-not-drawn-released
        if count != len(drawn):
            what = "units drawn" if self._groups is None else "groups"
            raise FerroError(f"the number of vectors added must be that of the {what}: add each of them exactly once")

    def __repr__(self) -> str:
        return f"<PlanStep {self._number} of {self._plan.num_steps}, {'over' if self._over else 'open'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a step cannot be copied or pickled: the copy could be released again")


def release_flat(
    step: PlanStep[Any], denominator: Real | None = None, out: npt.NDArray[Any] | None = None
) -> npt.NDArray[Any]:
    """Return what `PlanStep.release` returns as one array, all coordinates in the order of the template.

    For frameworks that split it themselves. It may be `out`, of that size and dtype, if that is given.
    """
    with step._lock:
        step._check_open()
        step._check_count()
        divisor = step._divisor(denominator)
        total = step._sum
        source, ticket = step._source, step._payments.ticket_for(step._number) if total.takes_ticket else None
        if step._keeper is not None:
            # mutant: sum-kept-and-noised-from-another-key
            source, ticket = step._keeper.source(total.parts, source), None
        # In a given order the least noise of all is charged first, which need not be that of this step.
        if ticket is not None and isinstance(step._plan.sampling, GivenOrder):
            ticket = None
        try:
            return total.release(step.noise_multiplier, divisor, source=source, ticket=ticket, pay=step._pay, out=out)
        finally:
            step._finish(ticket)


def release_bounded(
    step: PlanStep[Any],
    total: npt.NDArray[np.float64],
    *,
    count: int,
    within: int,
    denominator: Real | None = None,
) -> float:
    """Add the noise of a step to a sum of floats, in place, end the step, and return what the sum is to be divided by.

    For frameworks that prove how far neighboring sums of theirs can be apart, float errors included: that must be
    `PlanStep.clip_norm` at most. All coordinates are in the order of the template.
    """
    with step._lock:
        step._check_open()
        if step._sum.count:
            raise InvalidParameter("vectors were added to the step, and its sum is formed elsewhere")
        step._check_count(count)
        divisor = step._divisor(denominator)
        try:
            step._sum.release_bounded(
                total, step.noise_multiplier, count=count, within=within, source=step._source, pay=step._pay
            )
        finally:
            step._finish(None)
    return divisor
