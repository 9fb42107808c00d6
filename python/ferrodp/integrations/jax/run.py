"""A run of a plan over jax arrays: on the host between compiled steps, or inside them by ordered callbacks."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting.accountants.registry import AccountantChoice
from ferrodp.budget import PrivacyLedger
from ferrodp.errors import FerroError, InvalidParameter, InvalidType
from ferrodp.events import PrivacyEvent
from ferrodp.integrations._processes import refuse_jax_world
from ferrodp.integrations.jax._library import check_mask, library, refuse_device_code
from ferrodp.integrations.jax._parameters import ParameterTree
from ferrodp.integrations.jax.rows import pad_rows
from ferrodp.integrations.jax.step import JaxStep
from ferrodp.plan import FullBatch, GivenOrder, PerGroupClipping, PlanRun, PrivacyPlan
from ferrodp.random import NoiseSource
from ferrodp.training import Callback, Progress

__all__ = ["JaxRun"]


Result = TypeVar("Result")


class JaxRun:
    """A run of a privacy plan whose gradients are jax arrays.

    What `ferrodp.plan.PlanRun` guarantees holds here: each step is charged before its noise is drawn, sums are clipped
    and added exactly, and after the plan's last step nothing is released any more. There are two ways to use it, which
    can be mixed from step to step.

    *On the host.* Iterate; compute the gradients of ``step.indices`` by compiled code, such as `ExampleGradients`; give
    them to `JaxStep.add` and take the noised mean from `JaxStep.release`.

    *Inside jit.* `aggregation` is an optax transformation that takes per-example gradients and returns the noised mean:
    the compiled step calls back to the host, once and in order. `sample` draws the batch there too, so that a whole
    training can be one ``lax.scan``.

    Parameters
    ----------
    plan : PrivacyPlan
        What is to be done. With `PerGroupClipping`, groups are named by the path of a leaf or of a subtree, keys joined
        by dots: ``"dense.kernel"``, ``"dense"``.
    params : tree of arrays
        The parameters, or arrays of their shapes and dtypes: any pytree.
    ledger, scope, key : optional
        What pays for the steps; see `PrivacyPlan.start`.
    plan_delta : float, optional
        Charges all steps as one (ε, δ) before the first, as for `PrivacyPlan.start`.
    noise_file : path, optional
        Keeps the secret key of a plan's `CorrelatedNoise`, with `key`; as for `PrivacyPlan.start`.
    source : NoiseSource, optional
        None, or a seeded source for tests.

    Raises
    ------
    MissingPackage
        If jax is not installed.
    InvalidArray, InvalidArrayType
        If `params` are no arrays of real numbers.
    InvalidParameter, InvalidType
        If a parameter is not accepted, or ``jax.process_count()`` is above 1: a run belongs to one process.

    Notes
    -----
    ==================================  ===============================================================================
    gradients of bfloat16 and narrower  become float32, exactly; what is released is rounded to the parameter's dtype
    gradients not finite                the example counts as zeros
    rows that the mask leaves out       never leave the callback
    ==================================  ===============================================================================

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import optax
    >>> from ferrodp.integrations.jax import ExampleGradients, JaxRun
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     population_size=200,
    ...     sampling=PoissonSampling(0.1),
    ...     num_steps=3,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(2.0),
    ... )
    >>> x, y = np.ones((200, 4), np.float32), np.ones(200, np.float32)
    >>> params = {"w": jnp.zeros(4), "b": jnp.zeros(())}
    >>> gradients = ExampleGradients(lambda p, x, y: (x @ p["w"] + p["b"] - y) ** 2, num_rows=32)
    >>> optimizer = optax.adam(0.1)
    >>> state = optimizer.init(params)
    >>> run = JaxRun(plan, params)
    >>> for step in run:
    ...     gradients.add_to(step, params, x, y)
    ...     updates, state = optimizer.update(step.release(), state, params)
    ...     params = optax.apply_updates(params, updates)
    >>> run.step_number, run.epsilon(1e-5) == plan.epsilon(1e-5)
    (3, True)
    >>> JaxRun.from_state(run.state(), params).step_number
    3
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        params: Any,
        *,
        ledger: PrivacyLedger | None = None,
        scope: str | Sequence[str] | None = None,
        key: str | None = None,
        plan_delta: Real | None = None,
        noise_file: str | os.PathLike[str] | None = None,
        source: NoiseSource | None = None,
    ) -> None:
        if not isinstance(plan, PrivacyPlan):
            raise InvalidType(f"plan must be a PrivacyPlan, got {type(plan).__name__}; as in JaxRun(plan, params)")
        tree = ParameterTree.of(params)
        template = tree.template(_groups(plan))
        refuse_jax_world(library())
        run = plan.start(
            template,
            ledger=ledger,
            scope=scope,
            key=key,
            plan_delta=plan_delta,
            noise_file=noise_file,
            source=source,
        )
        self._bind(run, tree)

    def _bind(self, run: PlanRun[Any], tree: ParameterTree) -> None:
        plan = run.plan
        assert isinstance(plan, PrivacyPlan)
        self._run, self._tree, self._plan, self._groups = run, tree, plan, _groups(plan)
        self._failure: BaseException | None = None
        self._catches = False  # whether `jit` raises what a callback raised

    @classmethod
    def from_state(
        cls,
        state: bytes,
        params: Any,
        *,
        ledger: PrivacyLedger | None = None,
        scope: str | Sequence[str] | None = None,
        source: NoiseSource | None = None,
    ) -> Self:
        """Return the run that goes on where a state was saved.

        Parameters
        ----------
        state : bytes
            What `state` returned.
        params, ledger, scope, source
            As for the class; `params` of the shapes that the run was started with, or nothing can be added to it.

        Returns
        -------
        JaxRun
            See `ferrodp.plan.PlanRun.from_state`.

        Raises
        ------
        InvalidParameter, InvalidType, InvalidArray, FerroError
            As for `ferrodp.plan.PlanRun.from_state`, and for the class.
        """
        tree = ParameterTree.of(params)
        refuse_jax_world(library())
        made = cls.__new__(cls)
        made._bind(PlanRun.from_state(state, ledger=ledger, scope=scope, source=source), tree)
        return made

    @property
    def plan(self) -> PrivacyPlan:
        """What is being done."""
        return self._plan

    @property
    def plan_run(self) -> PlanRun[Any]:
        """The run of the plan itself, for monitors."""
        return self._run

    @property
    def step_number(self) -> int:
        """Number of the next step, from 0."""
        return self._run.step_number

    @property
    def stopped(self) -> Literal["finished", "budget"] | None:
        """Why iteration ended; None before."""
        return self._run.stopped

    @property
    def event(self) -> PrivacyEvent:
        """What was charged so far."""
        return self._run.event

    def epsilon(self, delta: Real, *, accountant: AccountantChoice = "pld") -> float:
        """Return an upper bound on the ε of the steps so far.

        Parameters
        ----------
        delta : float
            In (0, 1).
        accountant : str or callable
            As for `PrivacyPlan.epsilon`.

        Returns
        -------
        float
            See `ferrodp.plan.PlanRun.epsilon`.

        Raises
        ------
        InvalidParameter, InvalidType, UnsupportedEventError
            As for `PrivacyPlan.epsilon`.
        """
        return self._run.epsilon(delta, accountant=accountant)

    def state(self) -> bytes:
        """Return where the run stands, for `from_state`: save it with each checkpoint of the model.

        Returns
        -------
        bytes
            In a format that later versions read; nothing in it is private.
        """
        return self._run.state()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> JaxStep:
        self._settle()
        return self._advance()

    def _advance(self) -> JaxStep:
        return JaxStep(next(self._run), self._tree, self._groups)

    def _settle(self) -> None:
        """Wait for callbacks that were started, and raise what one of them raised, unless that was seen before."""
        try:
            library().effects_barrier()
        except Exception:
            if self._failure is None:
                raise
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def steps(self, callbacks: Sequence[Callback] = (), *, parameters: Any = None) -> Iterator[JaxStep]:
        """Iterate over the steps, and call the callbacks of `ferrodp.training` around each of them.

        Parameters
        ----------
        callbacks : sequence of Callback
            Monitors, logs, progress bars, and `BudgetStop`, which ends the iteration before the step that would exceed.
        parameters : tree of arrays, optional
            For callbacks that look at ``progress.parameters``. They are not kept up to date.

        Yields
        ------
        JaxStep
            To be released before the next one.

        Raises
        ------
        InvalidType
            If a callback is not one.
        FerroError
            As for the iteration itself.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> from ferrodp.integrations.jax import JaxRun
        >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
        >>> from ferrodp.training import PrivacyMonitor
        >>> plan = PrivacyPlan(
        ...     population_size=10,
        ...     sampling=FullBatch(),
        ...     num_steps=2,
        ...     clipping=FlatClipping(1.0),
        ...     noise=ConstantNoise(10.0),
        ... )
        >>> for step in JaxRun(plan, jnp.zeros(3)).steps([PrivacyMonitor(1e-5)]):
        ...     step.add(jnp.ones((10, 3)))
        ...     gradient = step.release()
        step 1 of 2: epsilon 0.3407 (pld), 0.3753 (rdp), 0.3753 (zcdp) at delta 1e-05
        step 2 of 2: epsilon 0.4970 (pld), 0.5458 (rdp), 0.5458 (zcdp) at delta 1e-05
        """
        for callback in callbacks:
            if not isinstance(callback, Callback):
                raise InvalidType(f"callbacks must be instances of Callback, got {type(callback).__name__}")
        return self._watched(callbacks, Progress(self._run, parameters))

    def _watched(self, callbacks: Sequence[Callback], progress: Progress) -> Iterator[JaxStep]:
        try:
            for callback in callbacks:
                callback.on_train_begin(progress)
            while True:
                if self._run.step_number < self._plan.num_steps:
                    for callback in callbacks:
                        callback.on_step_begin(progress)
                # mutant: training-in-jax-goes-on-after-a-callback-stopped-it
                step = None if progress.stop_reason else next(self, None)
                if step is None:
                    return
                yield step
                self._settle()
                progress.values = {}
                for callback in callbacks:
                    callback.on_step_end(progress)
        finally:
            for callback in callbacks:
                callback.on_train_end(progress)

    # Inside jit

    def aggregation(self) -> Any:
        """Return an optax transformation from per-example gradients to the noised mean of the clipped ones.

        Put it first in ``optax.chain``. Its ``update(gradients, state, params, mask=mask)`` takes gradients with one
        more axis in front, and a mask of the rows that are real; without one all are. The gradients go to the host,
        where they are clipped, summed and noised exactly, within the current step of the run.

        Returns
        -------
        optax.GradientTransformationExtraArgs
            Without state of its own: what was spent is in the run, not in an optimizer's state that can be restored.

        Raises
        ------
        MissingPackage
            If optax is not installed.

        Notes
        -----
        The callback is ordered, so the compiled code makes it exactly once for each time the update is executed, in
        loops too; it is never evaluated when traced, folded into a constant or merged with another. An update is
        refused if no step was drawn for it, if the step was released before, and if the plan has no further step. With
        `FullBatch` and `GivenOrder`, where no rows are drawn, an update without an open step begins one by itself.

        A refusal reaches the caller of a compiled function as a ``JaxRuntimeError`` that quotes it; `jit` gives back
        the exception itself, and so does the next step of an iteration.

        Under ``shard_map`` and ``pmap`` every device would make the callback for itself, so both are refused when
        traced. In jit over sharded arrays there is one callback, for all of the rows; jax before 0.10 refuses to
        compile that. ``vmap`` and ``grad`` of an update are refused by jax.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> import optax
        >>> from ferrodp.integrations.jax import JaxRun
        >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
        >>> plan = PrivacyPlan(
        ...     population_size=10,
        ...     sampling=FullBatch(),
        ...     num_steps=2,
        ...     clipping=FlatClipping(1.0),
        ...     noise=ConstantNoise(2.0),
        ... )
        >>> run = JaxRun(plan, jnp.zeros(3))
        >>> optimizer = optax.chain(run.aggregation(), optax.sgd(0.1))
        >>> state = optimizer.init(jnp.zeros(3))
        >>> update = run.jit(lambda gradients, state: optimizer.update(gradients, state))
        >>> updates, state = update(jnp.ones((10, 3)), state)
        >>> updates, state = update(jnp.ones((10, 3)), state)
        >>> updates, state = update(jnp.ones((10, 3)), state)
        Traceback (most recent call last):
            ...
        ferrodp.errors.FerroError: the run is over: all 2 steps of the plan were begun
        """

        def update(gradients: Any, state: Any, params: Any = None, *, mask: Any = None, **_: Any) -> tuple[Any, Any]:
            leaves = self._tree.leaves(gradients, "gradients")
            rows = self._tree.rows_of(leaves, "gradients")
            real = np.ones(rows, np.bool_) if mask is None else check_mask(mask, rows)
            return self._called_back(self._aggregate, leaves, real), state

        return self._transformation(update)

    def noise(self) -> Any:
        """Return an optax transformation from the *sum* of clipped gradients to the noised mean.

        For code that clips and sums inside jit, as `clipped_sum` does: only one gradient goes to the host. Otherwise as
        `aggregation`, which is to be preferred where the transfer of all gradients does not matter: there the
        sensitivity is exact, and the number of gradients is compared with that of the units drawn. Here both are the
        caller's promise, the first up to the rounding of a sum of floats.

        Returns
        -------
        optax.GradientTransformationExtraArgs
            ``update(total, state, params)``.

        Raises
        ------
        MissingPackage
            If optax is not installed.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> import optax
        >>> from ferrodp.integrations.jax import JaxRun, batch_rows, clipped_sum, pad_rows, per_example_gradients
        >>> from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling, PrivacyPlan
        >>> plan = PrivacyPlan(
        ...     population_size=200,
        ...     sampling=PoissonSampling(0.1),
        ...     num_steps=3,
        ...     clipping=FlatClipping(1.0),
        ...     noise=ConstantNoise(2.0),
        ... )
        >>> x, y = np.ones((200, 4), np.float32), np.ones(200, np.float32)
        >>> gradients = per_example_gradients(lambda p, x, y: (x @ p - y) ** 2)
        >>> params = jnp.zeros(4)
        >>> run = JaxRun(plan, params)
        >>> optimizer = optax.chain(run.noise(), optax.sgd(0.1))
        >>> state = optimizer.init(params)
        >>> @run.jit
        ... def update(params, state, x, y, mask):
        ...     total = clipped_sum(gradients(params, x, y), plan.clipping.clip_norm, mask=mask)
        ...     updates, state = optimizer.update(total, state, params)
        ...     return optax.apply_updates(params, updates), state
        >>> for step in run:
        ...     rows, mask = pad_rows(step.indices, batch_rows(plan))
        ...     params, state = update(params, state, x[rows], y[rows], mask)
        >>> run.step_number
        3
        """

        def update(total: Any, state: Any, params: Any = None, **_: Any) -> tuple[Any, Any]:
            leaves = self._tree.leaves(total, "total")
            self._tree.check_shapes(leaves, "total")
            return self._called_back(self._add_noise, leaves), state

        return self._transformation(update)

    def sample(self, num_rows: int) -> tuple[Any, Any]:
        """Begin the next step inside jit, and return its rows, padded, and which of them are real.

        Parameters
        ----------
        num_rows : int
            Rows to return, at least 1; see `batch_rows`.

        Returns
        -------
        rows : (num_rows,) int32 jax array
            Indices of the step's examples, then zeros.
        mask : (num_rows,) bool jax array
            For ``update(..., mask=mask)`` of the `aggregation`.

        Raises
        ------
        InvalidParameter, InvalidType
            If `num_rows` is not accepted; in the callback, if more rows were drawn. The step is begun then, and the run
            goes on only if it is released.
        FerroError
            In the callback, if the plan has no further step, or the step before was not released.

        Examples
        --------
        A whole training as one compiled loop:

        >>> import jax
        >>> import jax.numpy as jnp
        >>> import optax
        >>> from ferrodp.integrations.jax import JaxRun, batch_rows, per_example_gradients
        >>> from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling, PrivacyPlan
        >>> plan = PrivacyPlan(
        ...     population_size=200,
        ...     sampling=PoissonSampling(0.1),
        ...     num_steps=5,
        ...     clipping=FlatClipping(1.0),
        ...     noise=ConstantNoise(2.0),
        ... )
        >>> x, y = jnp.ones((200, 4)), jnp.ones(200)
        >>> gradients = per_example_gradients(lambda p, x, y: (x @ p - y) ** 2)
        >>> params = jnp.zeros(4)
        >>> run = JaxRun(plan, params)
        >>> optimizer = optax.chain(run.aggregation(), optax.sgd(0.1))
        >>> def one_step(carry, _):
        ...     params, state = carry
        ...     rows, mask = run.sample(batch_rows(plan))
        ...     updates, state = optimizer.update(gradients(params, x[rows], y[rows]), state, params, mask=mask)
        ...     return (optax.apply_updates(params, updates), state), None
        >>> @run.jit
        ... def train(params, state):
        ...     return jax.lax.scan(one_step, (params, state), length=plan.num_steps)[0][0]
        >>> train(params, optimizer.init(params)).shape, run.step_number
        ((4,), 5)
        """
        size = _validate.count("num_rows", num_rows)
        refuse_device_code()
        jax = library()
        shapes = jax.ShapeDtypeStruct((size,), np.int32), jax.ShapeDtypeStruct((size,), np.bool_)
        callback = functools.partial(self._draw, size)
        rows, mask = _everywhere(library("jax.experimental").io_callback(callback, shapes, ordered=True))
        return rows, mask

    def jit(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """Return ``jax.jit(function, **options)``, which raises a refusal of this run as itself.

        The result waits until its callbacks are done. Parameters that are donated are lost if one of them refuses.

        Parameters
        ----------
        function : callable
            A step, or a whole training, that uses `aggregation`.
        **options
            Of ``jax.jit``.

        Returns
        -------
        callable
            Takes and returns what `function` does.

        Raises
        ------
        MissingPackage
            If jax is not installed.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> import optax
        >>> from ferrodp.integrations.jax import JaxRun, batch_rows, pad_rows, per_example_gradients
        >>> from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling, PrivacyPlan
        >>> plan = PrivacyPlan(
        ...     population_size=200,
        ...     sampling=PoissonSampling(0.1),
        ...     num_steps=3,
        ...     clipping=FlatClipping(1.0),
        ...     noise=ConstantNoise(2.0),
        ... )
        >>> x, y = np.ones((200, 4), np.float32), np.ones(200, np.float32)
        >>> gradients = per_example_gradients(lambda p, x, y: (x @ p - y) ** 2)
        >>> params = jnp.zeros(4)
        >>> run = JaxRun(plan, params)
        >>> optimizer = optax.chain(run.aggregation(), optax.adam(0.1))
        >>> state = optimizer.init(params)
        >>> @run.jit
        ... def update(params, state, x, y, mask):
        ...     updates, state = optimizer.update(gradients(params, x, y), state, params, mask=mask)
        ...     return optax.apply_updates(params, updates), state
        >>> for step in run:
        ...     rows, mask = pad_rows(step.indices, batch_rows(plan))
        ...     params, state = update(params, state, x[rows], y[rows], mask)
        >>> run.step_number
        3
        """
        jax = library()
        compiled = jax.jit(function, **options)

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            self._catches = True
            try:
                result = jax.block_until_ready(compiled(*args, **kwargs))
                jax.effects_barrier()
            finally:
                self._catches = False
                failure, self._failure = self._failure, None
            # mutant: refusal-inside-jit-is-lost
            if failure is not None:
                raise failure
            return result

        return called

    def _transformation(self, update: Callable[..., tuple[Any, Any]]) -> Any:
        optax = library("optax")

        def init(params: Any) -> Any:
            self._tree.check_shapes(self._tree.leaves(params, "params"), "params")
            return optax.EmptyState()

        return optax.GradientTransformationExtraArgs(init, update)

    def _called_back(self, function: Callable[..., Any], leaves: Mapping[str, Any], *more: Any) -> Any:
        """Return what an ordered callback with these leaves returns: one array for each, of the parameter's shape."""
        refuse_device_code()
        jax = library()
        shapes = zip(leaves.values(), self._tree.shapes, strict=True)
        results = tuple(jax.ShapeDtypeStruct(shape, leaf.dtype) for leaf, shape in shapes)
        io_callback = library("jax.experimental").io_callback
        # mutant: callbacks-of-jit-in-any-order
        called = io_callback(function, results, *more, *leaves.values(), ordered=True)
        return self._tree.tree(_everywhere(called))

    def _aggregate(self, mask: Any, *leaves: Any) -> tuple[npt.NDArray[Any], ...]:
        """Add and release, on the host."""

        def released() -> tuple[npt.NDArray[Any], ...]:
            step = self._current()
            step.add(self._tree.tree(leaves), mask=mask)
            return self._like(leaves, step.release_arrays())

        shapes = zip(leaves, self._tree.shapes, strict=True)
        return self._answer(released, lambda: tuple(np.full(shape, np.nan, leaf.dtype) for leaf, shape in shapes))

    def _add_noise(self, *leaves: Any) -> tuple[npt.NDArray[Any], ...]:
        """Release a sum, on the host."""

        def released() -> tuple[npt.NDArray[Any], ...]:
            return self._like(leaves, self._current().release_arrays(self._tree.tree(leaves)))

        return self._answer(released, lambda: tuple(np.full(leaf.shape, np.nan, leaf.dtype) for leaf in leaves))

    def _like(self, leaves: Sequence[Any], released: Mapping[str, Any]) -> tuple[npt.NDArray[Any], ...]:
        """Return what was released in the order and the dtypes of the leaves of a callback."""
        names = zip(leaves, self._tree.names, strict=True)
        return tuple(released[name].astype(leaf.dtype, copy=False) for leaf, name in names)

    def _draw(self, size: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """Begin the next step, on the host."""

        def drawn() -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
            step = self._next_in_callback()
            if step.indices is None:
                raise InvalidParameter("sampling must draw rows: there are none to return where others choose them")
            return pad_rows(step.indices, size)

        return self._answer(drawn, lambda: (np.zeros(size, np.int32), np.zeros(size, np.bool_)))

    def _current(self) -> JaxStep:
        """Return the step that an update belongs to, in a callback."""
        if self._run.current is not None:
            return JaxStep(self._run.current, self._tree, self._groups)
        # mutant: update-begins-step-whose-rows-nobody-saw
        if isinstance(self.plan.sampling, (FullBatch, GivenOrder)) or self._run.step_number == self.plan.num_steps:
            return self._next_in_callback()
        what = "the last one was released" if self._run.step_number else "none was drawn"
        raise FerroError(f"no step is open: {what}; draw the next by iterating, or with JaxRun.sample")

    def _next_in_callback(self) -> JaxStep:
        try:
            return self._advance()
        except StopIteration:
            why = self._run.stop_reason or f"all {self.plan.num_steps} steps of the plan were begun"
            raise FerroError(f"the run is over: {why}") from None

    def _answer(self, work: Callable[[], Result], blank: Callable[[], Result]) -> Result:
        """Return what a callback does, and keep what it raises.

        An exception that leaves an ordered callback stays in jax's tokens, where the process's next ordered callback
        meets it, whatever that belongs to. So within `jit` none leaves: the call goes on with blanks, in which nothing
        more is drawn or charged, and raises what was kept at its end. Elsewhere jax passes it on as text.
        """
        # mutant: training-goes-on-after-a-refusal
        if self._catches and self._failure is not None:
            return blank()
        try:
            return work()
        except BaseException as error:
            self._failure = error
            if not self._catches:
                raise
            return blank()

    def __repr__(self) -> str:
        return f"<JaxRun at step {self.step_number} of {self.plan.num_steps}>"


def _everywhere(results: Any) -> Any:
    """Return the results of a callback on all devices of the computation.

    By itself it has them on the first alone, and an output that is nothing else would be zeros on the others.
    """
    # mutant: other-devices-keep-zeros
    return library().lax.optimization_barrier(results)


def _groups(plan: PrivacyPlan) -> tuple[str, ...]:
    """Return the names of groups that are clipped by themselves."""
    return tuple(plan.clipping.clip_norms) if isinstance(plan.clipping, PerGroupClipping) else ()
