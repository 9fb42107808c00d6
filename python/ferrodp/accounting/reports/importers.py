"""Conversion of events from and to other libraries.

Reading needs none of these libraries: their events are recognized by class name and fields. What has no counterpart is
refused by name; nothing is approximated. Parameters are taken as they are, so the neighboring relation is the one for
which the other library's numbers were stated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from ferrodp import events
from ferrodp._base import _validate
from ferrodp.accounting.sampling.groups import grouped
from ferrodp.errors import InvalidParameter, InvalidType, MissingPackage, UnsupportedEventError
from ferrodp.events import ComposedEvent, GaussianEvent, NonPrivateEvent, PrivacyEvent, decompose
from ferrodp.events.base import MAX_DEPTH, check_event

_NOTHING = ComposedEvent(events=())


def from_opacus_history(history: Iterable[Sequence[Any]]) -> ComposedEvent:
    """Return the event of a training run that an Opacus accountant recorded.

    Parameters
    ----------
    history : iterable of (noise_multiplier, sample_rate, num_steps)
        ``accountant.history``, or the entry "history" of its ``state_dict()``. A noise multiplier of 0 is a release
        without protection.

    Returns
    -------
    ComposedEvent
        Poisson-sampled Gaussian releases.

    Raises
    ------
    InvalidParameter, InvalidType
        If an entry is not a triple of numbers in their domains.

    Notes
    -----
    Opacus accounts each step as a Poisson sample with probability ``sample_rate`` in the add-or-remove relation,
    whether or not the data loader drew one. The event states that it did: convert a history only if so.

    Examples
    --------
    >>> from ferrodp.accounting import from_opacus_history
    >>> event = from_opacus_history([(1.1, 0.01, 500), (1.3, 0.01, 250)])
    >>> [part.count for part in event.events]
    [500, 250]
    """
    if isinstance(history, Mapping):
        raise InvalidType(
            "history must be a list of triples, got a mapping; of an accountant's state_dict(), pass "
            "state_dict['history']"
        )
    if isinstance(history, (str, bytes)) or not isinstance(history, Iterable):
        raise InvalidType(
            f"history must be a list of triples, got {type(history).__name__}; for example [(1.1, 0.01, 500)]"
        )
    steps = []
    for entry in history:
        if not isinstance(entry, (tuple, list)) or len(entry) != 3:
            raise InvalidParameter(
                "history must hold triples of noise multiplier, sample rate and number of steps, as in "
                f"accountant.history, got {type(entry).__name__}; for example [(1.1, 0.01, 500)]"
            )
        noise_multiplier, sample_rate, num_steps = entry
        sampled = events.PoissonSampledEvent(sampling_probability=sample_rate, event=_gaussian(noise_multiplier))
        steps.append(events.SelfComposedEvent(event=sampled, count=num_steps))
    return ComposedEvent(events=tuple(steps))


def from_dp_accounting(event: Any) -> PrivacyEvent:
    """Return the event that a ``DpEvent`` of Google's dp_accounting describes.

    Parameters
    ----------
    event : DpEvent
        Known by its class name and fields: those of version 0.6, and (ε, δ), discrete Gaussian, exponential mechanism
        and permute-and-flip as they are in its main branch. The named tuples that ``to_named_tuple`` makes are accepted
        as well.

    Returns
    -------
    PrivacyEvent
        Of the same cost, or one rounded up.

    Raises
    ------
    UnsupportedEventError
        For events without a counterpart: sampling with replacement, (ξ, ρ)-zCDP with ξ ≠ 0, ``UnsupportedDpEvent`` and
        classes that are not known.
    InvalidParameter, InvalidType
        If a parameter lies outside its domain.

    Notes
    -----
    The `null_distance` of a Poisson sample is not known: state it with ``dataclasses.replace`` if it is to be
    accounted under `REPLACE_ONE`. Noise of scale 0 becomes `NonPrivateEvent`, but nothing at all for a mixture all of
    whose shifts are 0. The parameter a of a discrete Laplace event becomes the scale 1/a, rounded down. A tree event
    with several trees, in all of which a record takes part once, becomes its largest tree.

    Discrete Gaussian noise in a number of dimensions that is not stated gets the bound that holds in any; in one
    dimension the sensitivity of integers is a whole number. Permute-and-flip becomes what is ε-private (McKenna,
    Sheldon, "Permute-and-flip", NeurIPS 2020, Theorem 1).

    Examples
    --------
    >>> from ferrodp.accounting import from_dp_accounting
    >>> class GaussianDpEvent:
    ...     noise_multiplier = 1.1
    >>> from_dp_accounting(GaussianDpEvent())
    GaussianEvent(noise_multiplier=1.1)
    """
    return _read(event, MAX_DEPTH)


def to_dp_accounting(event: PrivacyEvent) -> Any:
    """Return the ``DpEvent`` of Google's dp_accounting for an event; needs that package.

    Gaussian releases with correlated noise and adaptive clipping become the Gaussian event of the same cost. The
    `null_distance` of a Poisson sample is left out.

    Parameters
    ----------
    event : PrivacyEvent
        What was released.

    Returns
    -------
    dp_accounting.DpEvent
        An event of the installed version of that package.

    Raises
    ------
    UnsupportedEventError
        For events without a counterpart in the installed version: random allocation, and in 0.6 also discrete Gaussian,
        exponential mechanism and (ε, δ).
    MissingPackage
        If dp_accounting is not installed.
    InvalidType
        If `event` is no event.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, to_dp_accounting
    >>> try:
    ...     print(to_dp_accounting(GaussianEvent(noise_multiplier=1.1)).noise_multiplier)
    ... except ImportError:
    ...     print(1.1)  # dp_accounting is not installed here
    1.1
    """
    check_event("event must be", event)
    try:
        from dp_accounting import dp_event
    except ImportError as error:
        raise MissingPackage("to_dp_accounting needs dp_accounting, which is not installed") from error
    return _write(event, dp_event)


def from_jax_privacy(dp_params: Any, num_updates: int) -> ComposedEvent:
    """Return the event of a training that Google's jax_privacy describes by its ``DpParams``.

    An execution plan of that package has its event already: pass its ``dp_event`` to `from_dp_accounting`.

    Parameters
    ----------
    dp_params : jax_privacy.accounting.DpParams
        Known by its fields; those of version 2.0.
    num_updates : int
        Number of steps of the training; ≥ 0.

    Returns
    -------
    ComposedEvent
        One part for each stretch of steps with one noise multiplier and one batch size.

    Raises
    ------
    UnsupportedEventError
        For groups of examples per user that are not Poisson samples, or truncated, or drawn in cycles.
    InvalidParameter, InvalidType
        If a field is missing, or has a value outside its domain.

    Notes
    -----
    ===================================  ===============================================================================
    Poisson batches                      samples with probability ``batch_size / (num_samples // cycle_length)``
    the same, truncated                  truncated Poisson samples of that group
    batches of fixed size                samples without replacement of noise with half the multiplier, as a replaced
                                         example moves the sum by two clip norms: account it under `REPLACE_ONE`
    ``cycle_length`` c                   an example can be in every c-th step only, so each stretch counts t / c times,
                                         rounded up
    ``examples_per_user`` k > 1          the event of a group of k examples ([Gan24] Theorem 3.1)
    ``is_finite_guarantee=False``        `NonPrivateEvent`, unless there are no steps
    ===================================  ===============================================================================

    That a schedule begins at its stated step, and is repeated in whole cycles, is how ``DpsgdTrainingAccountant``
    reads it.

    References
    ----------
    [Gan24] Ganesh, "Tight group-level DP guarantees for DP-SGD with sampling via mixture of Gaussians mechanisms",
    arXiv:2401.10294, Theorem 3.1.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from ferrodp.accounting.reports.importers import from_jax_privacy
    >>> params = SimpleNamespace(  # jax_privacy.accounting.DpParams(...)
    ...     noise_multipliers=[(0, 1.0), (600, 2.0)],
    ...     num_samples=60_000,
    ...     batch_sizes=600,
    ...     is_finite_guarantee=True,
    ...     examples_per_user=None,
    ...     cycle_length=None,
    ...     sampling_method="POISSON",
    ...     truncated_batch_size=None,
    ... )
    >>> [(part.event.sampling_probability, part.count) for part in from_jax_privacy(params, 1000).events]
    [(0.01, 600), (0.01, 400)]
    """
    steps = _validate.count("num_updates", num_updates, minimum=0)
    try:
        return ComposedEvent(events=tuple(_stretches(dp_params, steps)))
    except AttributeError as error:
        raise InvalidParameter(f"dp_params must have the field {error.name}") from None


def _stretches(params: Any, steps: int) -> Iterable[PrivacyEvent]:
    """Yield the event of each stretch of steps with one noise multiplier and one batch size."""
    if not params.is_finite_guarantee:
        if steps:
            yield NonPrivateEvent()
        return
    cycle = 1 if params.cycle_length is None else _validate.count("cycle_length", params.cycle_length)
    multipliers = _schedule("noise_multipliers", params.noise_multipliers, steps)
    sizes = _schedule("batch_sizes", params.batch_sizes, steps)
    begins = sorted({*multipliers, *sizes})
    for begin, end in zip(begins, [*begins[1:], steps], strict=True):
        multiplier, size = (
            schedule[max(step for step in schedule if step <= begin)] for schedule in (multipliers, sizes)
        )
        step = _sampled(params, multiplier, size, cycle)
        # mutant: cycles-of-stretch-rounded-down
        yield events.SelfComposedEvent(event=step, count=-(-(end - begin) // cycle))


def _schedule(name: str, schedule: Any, steps: int) -> dict[int, Any]:
    """Return the values of a schedule by the steps from which they hold, the first of which is 0."""
    if not isinstance(schedule, (list, tuple)):
        schedule = [(0, schedule)]
    if not all(isinstance(entry, (list, tuple)) and len(entry) == 2 for entry in schedule):
        raise InvalidParameter(f"{name} must be a number, or a list of pairs of step and number")
    values = {_validate.count(name, step, minimum=0): value for step, value in schedule}
    if 0 not in values:
        raise InvalidParameter(f"{name} must say what holds from step 0 on")
    return {step: value for step, value in values.items() if step < max(steps, 1)}


def _sampled(params: Any, multiplier: Any, batch_size: Any, cycle: int) -> PrivacyEvent:
    """Return one step of a training that `from_jax_privacy` reads."""
    method = getattr(params.sampling_method, "name", params.sampling_method)
    population = _validate.count("num_samples", params.num_samples) // cycle
    users = params.examples_per_user
    item = getattr(batch_size, "item", lambda: batch_size)()  # a schedule of optax returns an array of one float
    size = _validate.count("batch_size", int(item) if isinstance(item, float) and item.is_integer() else item)
    if not size <= population:
        raise InvalidParameter(f"batch_size must be at most num_samples // cycle_length = {population}, got {size}")
    is_plain = params.truncated_batch_size is None
    if users not in (None, 1) and not (method == "POISSON" and is_plain and cycle == 1):
        raise UnsupportedEventError("examples_per_user > 1 has a counterpart for plain Poisson samples only")
    if method == "FIXED_BATCH_SIZE" and is_plain:
        # mutant: replaced-example-of-fixed-batch-moves-sum-once
        noise = _gaussian(_validate.non_negative("noise_multipliers", multiplier, toward="down") / 2.0)
        return events.FixedSizeSampledEvent(population_size=population, sample_size=size, event=noise)
    if method != "POISSON":
        raise UnsupportedEventError(f"sampling_method {_validate.shown(method)} has no counterpart")
    probability = _validate.rounded(Fraction(size, population), "up")
    if is_plain:
        step = events.PoissonSampledEvent(sampling_probability=probability, event=_gaussian(multiplier))
        return step if users in (None, 1) else grouped(step, users)
    return events.TruncatedPoissonSampledEvent(
        population_size=population,
        sampling_probability=probability,
        truncated_batch_size=params.truncated_batch_size,
        event=_gaussian(multiplier),
    )


def _gaussian(noise_multiplier: Any) -> PrivacyEvent:
    """Return a Gaussian event, or, without noise, one without protection."""
    _validate.non_negative("noise_multiplier", noise_multiplier)
    return GaussianEvent(noise_multiplier=noise_multiplier) if noise_multiplier else NonPrivateEvent()


def _laplace(event: Any, depth: int) -> PrivacyEvent:
    multiplier = _validate.non_negative("noise_multiplier", event.noise_multiplier, toward="down")
    return events.LaplaceEvent(noise_multiplier=multiplier) if multiplier else NonPrivateEvent()


def _discrete_laplace(event: Any, depth: int) -> PrivacyEvent:
    parameter = _validate.exact("noise_parameter", event.noise_parameter)
    if parameter <= 0:
        raise _validate.out_of_domain("noise_parameter", "finite and > 0", event.noise_parameter)
    # mutant: scale-of-imported-event-rounded-up
    scale = _validate.positive("1/noise_parameter", 1 / parameter, toward="down")
    return events.DiscreteLaplaceEvent(scale=scale, l1_sensitivity=event.sensitivity)


def _randomized_response(event: Any, depth: int) -> PrivacyEvent:
    if _validate.count("num_buckets", event.num_buckets) == 1:
        return _NOTHING  # there is but one answer
    return events.RandomizedResponseEvent(noise_parameter=event.noise_parameter, num_buckets=event.num_buckets)


def _mixture(event: Any, depth: int) -> PrivacyEvent:
    deviation = _validate.non_negative("standard_deviation", event.standard_deviation, toward="down")
    shifts, probabilities = tuple(event.sensitivities), tuple(event.sampling_probs)
    mixture = events.MixtureOfGaussiansEvent(
        noise_multiplier=deviation or 1.0, shifts=shifts, probabilities=probabilities
    )
    if deviation:
        return mixture
    # Without noise the result is a number, and unmoved it is the same one with and without the record.
    is_moved = any(shift and chance for shift, chance in zip(mixture.shifts, mixture.probabilities, strict=True))
    return NonPrivateEvent() if is_moved else _NOTHING


def _tree(event: Any, depth: int) -> PrivacyEvent:
    counts = event.step_counts if isinstance(event.step_counts, (list, tuple)) else [event.step_counts]
    # mutant: of-several-trees-smallest-taken
    steps = max((_validate.count("step_counts", each, minimum=0) for each in counts), default=0)
    multiplier = _validate.non_negative("noise_multiplier", event.noise_multiplier, toward="down")
    if not steps:
        return _NOTHING
    return (
        events.TreeAggregationEvent(noise_multiplier=multiplier, num_steps=steps) if multiplier else NonPrivateEvent()
    )


def _epsilon_delta(event: Any, depth: int) -> PrivacyEvent:
    delta = _validate.probability("delta", event.delta)
    if delta == 1.0 or event.epsilon == math.inf:
        return NonPrivateEvent()
    return events.EpsilonDeltaEvent(epsilon=event.epsilon, delta=event.delta)


def _discrete_gaussian(event: Any, depth: int) -> PrivacyEvent:
    """Return discrete Gaussian noise; for a number of coordinates that is not known, the bound that holds for any."""
    scale = _validate.non_negative("sigma", event.sigma, toward="down")
    sensitivity = _validate.non_negative("sensitivity", event.sensitivity)
    dimension = 2 if event.dimension is None else _validate.count("dimension", event.dimension)
    if dimension == 1:
        sensitivity = float(math.floor(sensitivity))  # the results are integers
    if not sensitivity:
        return _NOTHING
    if not scale:
        return NonPrivateEvent()
    return events.DiscreteGaussianEvent(scale=event.sigma, l2_sensitivity=sensitivity, dimension=dimension)


def _exponential(event: Any, depth: int) -> PrivacyEvent:
    return NonPrivateEvent() if event.epsilon == math.inf else events.ExponentialMechanismEvent(epsilon=event.epsilon)


def _permute_and_flip(event: Any, depth: int) -> PrivacyEvent:
    return NonPrivateEvent() if event.epsilon == math.inf else events.EpsilonDeltaEvent(epsilon=event.epsilon)


def _zcdp(event: Any, depth: int) -> PrivacyEvent:
    if event.xi != 0.0:
        raise UnsupportedEventError(f"ZCDpEvent has no counterpart for xi = {_validate.shown(event.xi)}, only for 0")
    return events.ZcdpEvent(rho=event.rho)


def _truncated(event: Any, depth: int) -> PrivacyEvent:
    return events.TruncatedPoissonSampledEvent(
        population_size=event.dataset_size,
        sampling_probability=event.sampling_probability,
        truncated_batch_size=event.truncated_batch_size,
        event=_gaussian(event.noise_multiplier),
    )


def _composed(event: Any, depth: int) -> PrivacyEvent:
    if not isinstance(event.events, (list, tuple)):
        raise InvalidType(f"events must be a list, got {type(event.events).__name__}")
    return ComposedEvent(events=tuple(_read(part, depth) for part in event.events))


def _without_replacement(event: Any, depth: int) -> PrivacyEvent:
    return events.FixedSizeSampledEvent(
        population_size=event.source_dataset_size, sample_size=event.sample_size, event=_read(event.event, depth)
    )


_READERS: dict[str, Callable[[Any, int], PrivacyEvent]] = {
    "NoOpDpEvent": lambda event, depth: _NOTHING,
    "NonPrivateDpEvent": lambda event, depth: NonPrivateEvent(),
    "GaussianDpEvent": lambda event, depth: _gaussian(event.noise_multiplier),
    "LaplaceDpEvent": _laplace,
    "DiscreteGaussianDpEvent": _discrete_gaussian,
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "EpsilonDeltaDpEvent": _epsilon_delta,
    "ExponentialMechanismDpEvent": _exponential,
    "PermuteAndFlipDpEvent": _permute_and_flip,
    "RandomizedResponseDpEvent": _randomized_response,
    "MixtureOfGaussiansDpEvent": _mixture,
    "SingleEpochTreeAggregationDpEvent": _tree,
    "ZCDpEvent": _zcdp,
    "TruncatedSubsampledGaussianDpEvent": _truncated,
    "ComposedDpEvent": _composed,
    "SelfComposedDpEvent": lambda event, depth: events.SelfComposedEvent(
        event=_read(event.event, depth), count=event.count
    ),
    "PoissonSampledDpEvent": lambda event, depth: events.PoissonSampledEvent(
        sampling_probability=event.sampling_probability, event=_read(event.event, depth)
    ),
    "SampledWithoutReplacementDpEvent": _without_replacement,
    "RepeatAndSelectDpEvent": lambda event, depth: events.RepeatAndSelectEvent(
        event=_read(event.event, depth), mean=event.mean, shape=event.shape
    ),
}


def _read(event: Any, depth: int) -> PrivacyEvent:
    name = getattr(event, "class_name", None) or type(event).__name__
    reader = _READERS.get(name) if isinstance(name, str) else None
    if reader is None:
        raise UnsupportedEventError(
            f"{_validate.shown(name)} has no counterpart; known are {', '.join(sorted(_READERS))}"
        )
    if depth == 0:
        raise InvalidParameter(f"events must be nested at most {MAX_DEPTH} deep")
    try:
        return reader(event, depth - 1)
    except AttributeError as error:
        raise InvalidParameter(f"a {name} must have the field {error.name}") from None


def _write(event: PrivacyEvent, library: Any) -> Any:
    if isinstance(event, (events.AdaptiveClipEvent, events.MatrixMechanismEvent)):
        [(event, _)] = decompose(event)
    if isinstance(event, events.TreeAggregationEvent) and event.max_participation > 1:
        event = next((part for part, _ in decompose(event)), _NOTHING)
    match event:
        case ComposedEvent():
            return library.ComposedDpEvent([_write(part, library) for part in event.events])
        case events.SelfComposedEvent():
            return library.SelfComposedDpEvent(_write(event.event, library), event.count)
        case events.PoissonSampledEvent():
            return library.PoissonSampledDpEvent(event.sampling_probability, _write(event.event, library))
        case events.FixedSizeSampledEvent():
            inner = _write(event.event, library)
            return library.SampledWithoutReplacementDpEvent(event.population_size, event.sample_size, inner)
        case events.TruncatedPoissonSampledEvent(event=GaussianEvent() as inner):
            return library.TruncatedSubsampledGaussianDpEvent(
                event.population_size, event.sampling_probability, event.truncated_batch_size, inner.noise_multiplier
            )
        case events.RepeatAndSelectEvent():
            return library.RepeatAndSelectDpEvent(_write(event.event, library), event.mean, event.shape)
        case GaussianEvent():
            return library.GaussianDpEvent(event.noise_multiplier)
        case events.LaplaceEvent():
            return library.LaplaceDpEvent(event.noise_multiplier)
        case events.DiscreteLaplaceEvent():
            parameter = _validate.rounded(1 / Fraction(event.scale), "up")
            if parameter == math.inf:
                raise UnsupportedEventError(
                    "dp_accounting has no counterpart of events.DiscreteLaplaceEvent at this small scale"
                )
            return library.DiscreteLaplaceDpEvent(parameter, event.l1_sensitivity)
        case events.RandomizedResponseEvent():
            return library.RandomizedResponseDpEvent(event.noise_parameter, event.num_buckets)
        case events.MixtureOfGaussiansEvent():
            shifts, probabilities = list(event.shifts), list(event.probabilities)
            return library.MixtureOfGaussiansDpEvent(event.noise_multiplier, shifts, probabilities)
        case events.TreeAggregationEvent():
            return library.SingleEpochTreeAggregationDpEvent(event.noise_multiplier, event.num_steps)
        case events.EpsilonDeltaEvent() if hasattr(library, "EpsilonDeltaDpEvent"):
            stated = (_validate.rounded(each, "up") for each in (event.epsilon, event.delta))
            return library.EpsilonDeltaDpEvent(*stated)
        case events.DiscreteGaussianEvent() if hasattr(library, "DiscreteGaussianDpEvent"):
            return library.DiscreteGaussianDpEvent(event.scale, event.l2_sensitivity, event.dimension)
        case events.ExponentialMechanismEvent() if hasattr(library, "ExponentialMechanismDpEvent"):
            return library.ExponentialMechanismDpEvent(event.epsilon)
        case events.ZcdpEvent():
            return library.ZCDpEvent(event.rho)
        case NonPrivateEvent():
            return library.NonPrivateDpEvent()
    raise UnsupportedEventError(f"dp_accounting has no counterpart of {type(event).__name__}")
