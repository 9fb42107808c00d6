r"""A classifier that needs no tuning: it is trained for a target ε.

Steps, learning rate and clip norm follow from public numbers alone: ε, the number of records and that of features. A
choice that is tuned on private data is a release of its own, and is usually not accounted; `select` accounts one.

Where the constants come from: they were chosen on scikit-learn's digits, a public dataset, on other splits than those
that the documentation reports. None of them is to be tuned on private data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp.audit import CanaryReport
from ferrodp.errors import BudgetExceeded, InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.plan import FlatClipping, FullBatch, PiecewiseNoise, PlanStep, PoissonSampling, PrivacyPlan
from ferrodp.sums import ClippedSum, UnitRows
from ferrodp.sums.outer import row_norms
from ferrodp.training._rows import Floats, numbers, unit
from ferrodp.training.loop import Callback, Progress, check_callbacks, drive
from ferrodp.training.optimizers import Momentum

if TYPE_CHECKING:
    from ferrodp.budget import PrivacyLedger
    from ferrodp.random import NoiseSource

__all__ = ["Recipe", "SoftmaxModel", "recipe", "train"]

_GRADIENT_STEPS = 120
"""More average no less noise, as its sum over the steps is what the budget fixes; fewer have not converged at ε = 8."""
_CLIP_NORM = 2.0**-5
"""For features of unit norm, whose gradients have norms up to √2: all but well classified records count alike, so none
is wasted on a sensitivity that few need. Results do not depend on it between 0.015 and 0.05."""
_MEAN_SHARE = 0.02
"""Of the budget, as 1/z² adds up, for the mean of the features: its noise is small with d = 137, n = 1437 and ε = 1."""
_MOMENTUM = 0.85
_RATE, _RATE_RECORDS, _RATE_POWER, _LARGEST_RATE = 10.0, 1437, 0.7, 50.0
"""The learning rate is 10·(ε·n/1437)^0.7, up to 50: weights may grow as far as the signal exceeds the noise."""
_BIAS = 0.1
"""Feature for the intercept, small so that it takes no part of the norm from the others."""
_LARGEST_BATCH = 2**15
"""Expected number of records in a step; up to it every step uses all, the best there is, and beyond it a sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What `train` does for a target: a function of public numbers.

    Attributes
    ----------
    plan : PrivacyPlan
        Step 0 releases the mean of the features; the others are gradient steps.
    learning_rate : float
        For gradients divided by the clip norm.
    momentum : float
        Decay of the moving average of gradients that the weights move along.

    Examples
    --------
    >>> from ferrodp.training import recipe
    >>> found = recipe(epsilon=2.0, delta=1e-5, num_records=1437, num_features=64)
    >>> found.plan.num_steps, round(found.learning_rate, 3)
    (121, 16.245)
    """

    plan: PrivacyPlan
    learning_rate: float
    momentum: float


def recipe(
    *,
    epsilon: Real,
    delta: Real,
    num_records: int,
    num_features: int,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
) -> Recipe:
    """Return what `train` would do, before it does it.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee to keep. Rounded down if not exactly representable.
    num_records, num_features : int
        Public numbers, at least 1.
    neighboring_relation : NeighboringRelation
        Which datasets the guarantee tells apart.

    Returns
    -------
    Recipe

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.
    CalibrationError
        If ε is so small that no noise in range keeps it.

    Examples
    --------
    >>> found = recipe(epsilon=1.0, delta=1e-6, num_records=1_000_000, num_features=20)
    >>> found.plan.sampling
    PoissonSampling(probability=0.032768)
    """
    target = _validate.positive("epsilon", epsilon, toward="down")
    size = _validate.count("num_records", num_records, maximum=2**32)
    _validate.count("num_features", num_features)
    chance = min(_LARGEST_BATCH / size, 1.0)
    # 1/z₀² is to be the share s of 1/z₀² + T/z²: z₀/z = √((1 − s)/(s·T)).
    ratio = math.sqrt((1.0 - _MEAN_SHARE) / (_MEAN_SHARE * _GRADIENT_STEPS))
    plan = PrivacyPlan(
        population_size=size,
        sampling=FullBatch() if chance == 1.0 else PoissonSampling(chance),
        num_steps=1 + _GRADIENT_STEPS,
        clipping=FlatClipping(_CLIP_NORM),
        noise=PiecewiseNoise((ratio, 1.0), boundaries=(1,)),
        neighboring_relation=neighboring_relation,
    ).calibrated(epsilon=target, delta=delta)
    rate = _RATE * (target * size / _RATE_RECORDS) ** _RATE_POWER
    return Recipe(plan=plan, learning_rate=min(rate, _LARGEST_RATE), momentum=_MOMENTUM)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SoftmaxModel:
    """A softmax regression on features that are centered and scaled to unit norm: what `train` returns. Private.

    Attributes
    ----------
    classes : (k,) ndarray
        Labels, in the order of the scores.
    coef : (k, d) ndarray of float64
        Weights of the features.
    intercept : (k,) ndarray of float64
        Added to the scores.
    center : (d,) ndarray of float64
        Released mean of the features of unit norm, subtracted from them.
    plan : PrivacyPlan
        What was run.
    num_steps : int
        How many of its steps were.
    event : PrivacyEvent
        What was released, for accountants; `NonPrivateEvent` if the source was seeded.
    epsilon, delta : float
        The guarantee, as certified; infinite if the source was seeded.
    stop_reason : str or None
        Why not all steps were run, if so.
    audit : CanaryReport or None
        What canaries showed, beside the certified ε; None without `audit_canaries`.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.training import train
    >>> x = np.random.default_rng(0).normal(size=(2000, 2))
    >>> y = np.where(x[:, 0] > 0, "right", "left")
    >>> model = train(x, y, epsilon=2.0, delta=1e-6, classes=["left", "right"])
    >>> model.predict([[5.0, 0.0], [-5.0, 0.0]])
    array(['right', 'left'], dtype='<U5')
    >>> model.predict_proba([[5.0, 0.0]]).shape, int(model.scores([[5.0, 0.0]]).argmax())
    ((1, 2), 1)
    >>> model.coef.shape, model.epsilon <= 2.0
    ((2, 2), True)
    """

    classes: npt.NDArray[Any]
    coef: Floats
    intercept: Floats
    center: Floats
    plan: PrivacyPlan
    num_steps: int
    event: PrivacyEvent
    epsilon: float
    delta: float
    stop_reason: str | None = None
    audit: CanaryReport | None = None

    def scores(self, features: npt.ArrayLike) -> Floats:
        """Return a score for each class; the largest is the prediction.

        Parameters
        ----------
        features : (n, d) array
            Rows that hold NaN or infinity count as zeros.

        Returns
        -------
        (n, k) ndarray of float64

        Raises
        ------
        InvalidArray, InvalidArrayType
            If the shape or dtype is not accepted.
        """
        rows = numbers(features, "features")
        if rows.ndim != 2 or rows.shape[1] != len(self.center):
            raise InvalidArray(f"features must have the shape (n, {len(self.center)}), got {rows.shape}")
        found: Floats = unit(unit(rows) - self.center) @ self.coef.T + self.intercept
        return found

    def predict_proba(self, features: npt.ArrayLike) -> Floats:
        """Return the probability of each class, as the model has it.

        Parameters
        ----------
        features : (n, d) array
            As for `scores`.

        Returns
        -------
        (n, k) ndarray of float64
            Rows add up to 1.

        Raises
        ------
        InvalidArray, InvalidArrayType
            As for `scores`.
        """
        found: Floats = _softmax(self.scores(features))
        return found

    def predict(self, features: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        features : (n, d) array
            As for `scores`.

        Returns
        -------
        (n,) ndarray
            Of the dtype of `classes`.

        Raises
        ------
        InvalidArray, InvalidArrayType
            As for `scores`.
        """
        found: npt.NDArray[Any] = self.classes[np.argmax(self.scores(features), axis=1)]
        return found


def train(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    epsilon: Real,
    delta: Real,
    classes: Sequence[Any] | npt.NDArray[Any],
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    callbacks: Sequence[Callback] = (),
    ledger: PrivacyLedger | None = None,
    scope: str | Sequence[str] | None = None,
    key: str | None = None,
    plan_delta: Real | None = None,
    source: NoiseSource | None = None,
    audit_canaries: int = 0,
) -> SoftmaxModel:
    r"""Train a classifier that is (ε, δ)-differentially private for each record. There is nothing to tune.

    Steps, noise, learning rate and clip norm come from ε, δ, the number of records and that of features; see `recipe`.
    Anyone who sees the model and all steps of its training learns no more about a record than ε and δ say.

    Parameters
    ----------
    features : (n, d) array of numbers
        One row for each record; n and d are public. A row of a list, or of an array of objects, that holds something
        else counts like one that holds NaN. Each row is scaled to unit norm, so its length does not matter:
        bring columns of different units to a common scale first, with constants that do not come from the data.
    labels : (n,) array or sequence
        One class for each record. A record whose label is none of `classes` changes nothing. Labels in a list, or in an
        array of objects, are compared one by one, whatever their types are.
    epsilon, delta : float
        The guarantee to keep. Rounded down if not exactly representable.
    classes : sequence
        All labels there can be, at least 2: a public list, not what occurs in the data.
    neighboring_relation : NeighboringRelation
        Which datasets the guarantee tells apart.
    callbacks : sequence of Callback
        See `fit`. Their steps count the release of the mean, too.
    ledger, scope, key
        As for `PrivacyPlan.start`. Where the ledger's budget ends, so does the training.
    plan_delta : float, optional
        Charges all steps as one (ε, δ) before the first, as for `PrivacyPlan.start`: with `delta`, at most `epsilon`.
    source : NoiseSource, optional
        None, or a seeded source for tests: then nothing is private.
    audit_canaries : int
        How many canaries test the training, such as 1000, or 0 for none; see `PlanRun.audit`. They change neither the
        model's law nor the guarantee.

    Returns
    -------
    SoftmaxModel

    Raises
    ------
    InvalidParameter, InvalidType, InvalidArray, InvalidArrayType
        If a parameter, shape or dtype is not accepted, or there is no record. Nothing was drawn or charged.
    CalibrationError
        If ε is so small that no noise in range keeps it.
    BudgetExceeded
        If the ledger does not allow a single step, or not all of them as one charge.

    Notes
    -----
    Rows are scaled to unit norm, centered by their released mean and scaled again. Weights begin at zero and follow the
    moving average of clipped, noised gradients of the cross-entropy; the model is the mean over the last third of the
    steps. A gradient is the outer product of an error and a row, so the exact sum of clipped gradients is a product of
    two matrices (`ClippedSum.add_outer`).

    ==============================  ================================================================
    row holds NaN or infinity       the record changes nothing
    label not among `classes`       the record's gradients are zeros
    class without records           predicted where the noise says so; costs nothing
    few records                     valid, and near chance: below about n·ε = 300 noise dominates
    more than 2¹⁵ records           a step uses a Poisson sample of about 2¹⁵ of them
    ==============================  ================================================================

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.training import train
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=3000)
    >>> x = np.eye(3)[y] + rng.normal(scale=0.3, size=(3000, 3))
    >>> model = train(x, y, epsilon=1.0, delta=1e-6, classes=range(3))
    >>> bool(np.mean(model.predict(x) == y) > 0.9), model.plan.num_steps
    (True, 121)
    """
    rows = numbers(features, "features")
    if rows.ndim != 2 or not rows.shape[0] or not rows.shape[1]:
        raise InvalidArray(f"features must have the shape (n, d) with at least one record, got {rows.shape}")
    known = _known(classes)
    targets = _targets(labels, known, len(rows))
    checked = _validate.delta(delta)
    check_callbacks(callbacks)
    plan = recipe(
        epsilon=epsilon,
        delta=checked,
        num_records=rows.shape[0],
        num_features=rows.shape[1],
        neighboring_relation=neighboring_relation,
    )
    fitting = _Fitting(plan, unit(rows), targets, len(known))
    run = plan.plan.start(
        fitting.weights,
        ledger=ledger,
        scope=scope,
        key=key,
        plan_delta=plan_delta,
        source=source,
        audit_canaries=audit_canaries,
    )
    progress = Progress(run, fitting.weights)
    with run:
        drive(progress, lambda step: fitting.take(step, progress), callbacks)
    if run.stopped == "budget" and progress.gradient is None:
        raise BudgetExceeded(f"no step is allowed: {run.stop_reason}")
    coef, intercept = fitting.model()
    return SoftmaxModel(
        classes=known,
        coef=coef,
        intercept=intercept,
        center=fitting.center,
        plan=plan.plan,
        num_steps=run.step_number,
        event=run.event,
        epsilon=run.epsilon(checked),
        delta=checked,
        stop_reason=progress.stop_reason,
        audit=run.audit(checked) if audit_canaries and run.step_number else None,
    )


class _Fitting:
    """The state of a training: all of it but the rows and targets is a function of releases.

    Scores that all grow by the same number predict the same, so gradients live in the k − 1 dimensions orthogonal to
    that direction; an orthonormal basis keeps their norms.
    """

    def __init__(self, found: Recipe, rows: Floats, targets: npt.NDArray[np.int64], num_classes: int) -> None:
        self._rows, self._targets = rows, targets
        self._clip_norm = found.plan.clipping.initial_norm
        self._basis = _helmert(num_classes)
        self._optimizer = Momentum(found.learning_rate, found.momentum, dampening=found.momentum)
        self._first_averaged = found.plan.num_steps - (found.plan.num_steps - 1) // 3
        self._total: Floats = np.zeros((num_classes - 1, rows.shape[1] + 1))
        self._count = 0
        self.center = np.zeros(rows.shape[1])
        self.weights = np.zeros((num_classes - 1, rows.shape[1] + 1))
        self._inputs: UnitRows | None = None

    @_arrays.quiet
    def take(self, step: PlanStep[Any], progress: Progress) -> None:
        """Release the mean of the rows, or a gradient, and move."""
        members: Any = slice(None) if len(step.indices) == len(self._rows) else step.indices  # type: ignore[arg-type]
        if step.number == 0:
            self.center = self._mean(step, members)
            progress.gradient = np.zeros_like(self.weights)
            return
        rows = self._prepared()[members]
        total = ClippedSum(self.weights, clip_norm=step.clip_norm)
        total.add_outer(self._errors(rows, self._targets[members]), rows)
        step.merge(total)
        progress.gradient = step.release() / self._clip_norm
        progress.parameters = self.weights = self._optimizer.step(self.weights, progress.gradient)
        if step.number >= self._first_averaged:
            self._total, self._count = self._total + self.weights, self._count + 1

    @_arrays.quiet
    def model(self) -> tuple[Floats, Floats]:
        """Return coefficients and intercepts, for rows of unit norm without the bias feature."""
        mean = self._total / self._count if self._count else self.weights
        weights = self._basis.T @ mean / math.hypot(1.0, _BIAS)
        return np.ascontiguousarray(weights[:, :-1]), weights[:, -1] * _BIAS

    def _mean(self, step: PlanStep[Any], members: Any) -> Floats:
        """Return the released mean of the rows, which the first row of the sum holds."""
        rows = UnitRows(np.pad(self._rows[members], ((0, 0), (0, 1))))
        left = np.zeros((len(rows), len(self.weights)))
        left[:, 0] = self._clip_norm
        total = ClippedSum(self.weights, clip_norm=step.clip_norm)
        total.add_outer(left, rows)
        step.merge(total)
        mean: Floats = step.release()[0, :-1] / self._clip_norm
        return mean

    def _prepared(self) -> UnitRows:
        """Return the centered rows with the bias feature, on a grid; rows of zeros stay zeros."""
        if self._inputs is None:
            usable = self._rows.any(axis=1)
            rows = unit(np.pad(unit(self._rows - self.center), ((0, 0), (0, 1)), constant_values=_BIAS))
            rows[~usable] = 0.0
            self._inputs = UnitRows(rows)
        return self._inputs

    def _errors(self, rows: UnitRows, targets: npt.NDArray[np.int64]) -> Floats:
        """Return predicted minus true probabilities, in the basis; zeros for a record without a class.

        Those of a record are a function of that record and of releases: another record changes no bit of them. A
        library's product of matrices rounds a row as it falls among others, so here all products are of integers that
        floats hold exactly, in any order.
        """
        classed = targets >= 0
        errors = _softmax(exact_scores(rows, self._basis.T @ self.weights).astype(np.float32))
        errors[np.flatnonzero(classed), targets[classed]] -= 1.0
        # mutant: label-that-is-no-class-moves-gradients
        errors[~classed] = 0.0
        # ‖errors‖ ≤ √2 and a row of the basis has norm 1: sums of at most 1.5·2²⁴·2²⁶ < 2⁵³, by Cauchy and Schwarz.
        # mutant: errors-rounded-among-others
        found: Floats = np.rint(np.ldexp(errors.astype(np.float64), 24)) @ np.rint(np.ldexp(self._basis.T, 26))
        return np.ldexp(found, -50)


def exact_scores(rows: UnitRows, weights: Floats) -> Floats:
    """Return the products of rows and weights, which are rounded to a grid first; the products are exact.

    With integers m of a row, ‖m‖ ≤ 2ᵇ, and v of weights, ‖v‖ ≤ 2^(50 − b) + √d/2 ≤ 2^(51 − b), no sum of products
    exceeds 2⁵¹, by Cauchy and Schwarz. So a row's scores do not depend on how sums are ordered, hence not on the rows
    beside it.
    """
    largest = float(np.max(row_norms(weights), initial=0.0))
    # Twice what `frexp` says bounds the norm, rounding errors included.
    shift = 51 - rows.bits - (math.frexp(largest)[1] + 1)
    # mutant: scores-rounded-among-others
    found: Floats = rows.integers @ np.rint(np.ldexp(weights.T, shift))
    return np.ldexp(found, -shift - rows.bits)


def _softmax(scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    powers: npt.NDArray[Any] = np.exp(scores - scores.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


def _helmert(size: int) -> Floats:
    """Return `size` − 1 orthonormal rows, each orthogonal to the vector of ones."""
    rows = np.tril(np.ones((size, size)), -1)[1:]
    i = np.arange(1, size)
    rows[i - 1, i] = -i
    found: Floats = rows / np.sqrt(i * (i + 1.0))[:, None]
    return found


def _known(classes: Any) -> npt.NDArray[Any]:
    """Return the list of classes as an array, or refuse it."""
    if isinstance(classes, (str, bytes)):
        raise InvalidParameter("classes must be a sequence of labels, not one str")
    if not isinstance(classes, Iterable):
        raise InvalidType(f"classes must be a sequence of labels such as range(10), got {type(classes).__name__}")
    known = np.asarray(list(classes))
    if known.ndim != 1 or len(known) < 2:
        raise InvalidParameter("classes must be a sequence of at least two labels")
    if known.dtype.kind not in "biufUSO" or len(set(known.tolist())) < len(known):
        raise InvalidParameter("classes must be different numbers or strings")
    return known


@_arrays.quiet
def _targets(labels: npt.ArrayLike, known: npt.NDArray[Any], count: int) -> npt.NDArray[np.int64]:
    """Return the position of each label among the classes, −1 for one that is none of them.

    Arrays of numbers or texts are compared as a whole, by their dtype. Labels in a list, or in an array of objects, are
    compared one by one: in an array that holds them all, one label would decide the dtype of the others, and so whether
    they are equal to a class.
    """
    if isinstance(labels, (str, bytes)):
        raise InvalidArrayType(f"labels must be an array, got {type(labels).__name__}")
    # mutant: labels-compared-in-the-dtype-of-all
    values = np.empty(0, object) if isinstance(labels, Sequence) else np.asarray(labels)
    shape = (len(labels),) if isinstance(labels, Sequence) else values.shape
    if shape != (count,):
        raise InvalidArray(f"labels must have the shape ({count},), one for each row of features, got {shape}")
    if values.dtype.kind == "O":
        each = list(labels) if isinstance(labels, Sequence) else values.tolist()
        return _places(each, known.tolist())
    kinds = {values.dtype.kind, known.dtype.kind}
    texts = kinds & {"U", "S"}
    if not kinds <= set("biufUSO") or ("O" not in kinds and texts and texts != kinds):
        raise InvalidArrayType(f"labels must have the type of the classes, {known.dtype}, got {values.dtype}")
    found = np.full(count, -1, np.int64)
    for i, label in enumerate(known.tolist()):
        found[values == label] = i
    return found


_HASHED = (bool, int, float, str, bytes, np.bool_, np.integer)
"""Types whose values have equal hashes wherever they are equal; those of float32 are equal to decimals near them."""


def _places(labels: list[Any], known: list[Any]) -> npt.NDArray[np.int64]:
    """Return the position of each label, compared by itself."""
    table = {label: i for i, label in enumerate(known)}

    def place(label: Any) -> int:
        if isinstance(label, _HASHED):
            return table.get(label, -1)
        for i, other in enumerate(known):
            try:
                if label == other:
                    return i
            except Exception:  # an object that cannot be compared is no class
                return -1
        return -1

    return np.fromiter(map(place, labels), np.int64, len(labels))
