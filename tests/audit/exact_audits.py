"""Audits of what is released with so little noise that it is certain, and of noise against the exact rule behind it."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from unittest import mock

import mpmath
import numpy as np
import pandas as pd
from alarms import LEVEL, REPLACE, code, function
from mpmath import mp

import ferrodp as fd
from ferrodp.audit import _binomial, audit_code
from ferrodp.events import EpsilonDeltaEvent
from ferrodp.statistics.tables import release

CERTAIN = 1e4
"""An ε at which noise other than zero has a probability of e⁻¹⁰⁰ at most."""
SOURCE = fd.NoiseSource()
NAN = math.nan
EPSILONS = (0.1, 0.3, 0.7, 1.0, 1.1, 1.7, 2.3, 3.3)


def differs(release: Callable[[], Any], expected: Any) -> bool:
    """Whether a release that is certain is another one, or fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fd.errors.WeakPrivacyWarning)
        try:
            found = release()
        except fd.errors.FerroError:
            return True
    return not np.array_equal(np.asarray(getattr(found, "value", found)), np.asarray(expected))


def passes(release: Callable[[], Any]) -> bool:
    """Whether something is released that has to be refused: neighbors would be farther apart than stated."""
    try:
        release()
    except fd.errors.FerroError:
        return False
    return True


def count(values: Any, **options: Any) -> Any:
    return fd.private_count(values, epsilon=CERTAIN, **options)


def histogram(values: Any, **options: Any) -> Any:
    return fd.private_histogram(values, epsilon=CERTAIN, **options)


def total(values: Any, **options: Any) -> Any:
    return fd.private_sum(values, bounds=(-16.0, 16.0), epsilon=20.0, **options)


def missing_rows() -> bool:
    """Whether rows that are missing count, by what they are or by how they are written."""
    nothing = pd.array([0, None, 1, None], dtype="Int64")
    return (
        differs(lambda: count(np.array([False, "x", None, True], dtype=object)), 2)
        or differs(lambda: count(np.array([1.0, NAN, 2.0])), 2)
        or differs(lambda: count([1.0, None, 2.0]), 2)
        or differs(lambda: histogram([0, None, 1, None], categories=[0, 1]), [1, 1])
        or differs(lambda: histogram(pd.Series(nothing), categories=[0, 1]), [1, 1])
        or not abs(total(np.array([NAN, 5.0]), missing="zero").value - 5.0) < 40.0
        or passes(lambda: fd.private_count([None, None], epsilon=1.0, missing="zero"))
    )


def ties() -> bool:
    """Whether values equal to a candidate or an edge count as if they were beyond it."""
    among: dict[str, Any] = {"candidates": [1.0, 2.0, 3.0], "epsilon": CERTAIN}
    rows = np.array([1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 3.0])
    return (
        differs(lambda: fd.private_max(rows[:6], rank=2, **among), 2.0)
        or differs(lambda: fd.private_quantile(rows, 0.5, **among), 2.0)
        or differs(lambda: histogram(np.array([0.0, 1.0, 2.0]), bins=[0.0, 1.0, 2.0]), [1, 2])
    )


def runs_of_candidates() -> bool:
    """Whether runs win otherwise than in proportion to their candidates, or places in a run are not equally likely.

    3000 draws each: a count is six standard deviations off with probability 2·10⁻⁹.
    """
    mechanism = fd.ExponentialMechanism(scale=1.0, sensitivity=1.0)
    counts = np.array([3, 5, 1 << 40, 3 << 62], np.uint64)
    utilities = np.array([0.0, np.log(2.0), -37.0 * np.log(2.0), -1000.0])
    draws, runs, thirds = 3000, np.zeros(4), np.zeros(3)
    for _ in range(draws):
        runs[int(mechanism.release_from_runs(utilities, counts, lambda run, _: run))] += 1
        thirds[int(mechanism.release_from_runs([0.0], counts[3:], lambda _, place: place >> 62))] += 1
    shares = np.array([3.0, 10.0, 8.0, 0.0]) / 21.0
    tolerance = 6.0 * np.sqrt(draws * shares * (1.0 - shares))
    flips = fd.PermuteAndFlip(scale=1.0, sensitivity=1.0)
    mixed, two, none = np.zeros(2), np.array([2, 1], np.uint64), np.zeros(2, np.uint64)
    for _ in range(draws):
        # two uniform arrivals against one, and one against a weight of 3/4
        mixed[0] += flips.release_from_runs([0.0, 0.0], two, lambda run, _: run == 0, weights=none)
        one, three = np.array([1, 0], np.uint64), np.array([0, 3], np.uint64)
        mixed[1] += flips.release_from_runs([0.0, 0.0], one, lambda run, _: run == 0, weights=three, unit=2)
    due = draws * np.array([2.0 / 3.0, (1.0 - np.exp(-0.75)) / 0.75])
    return bool(
        (np.abs(runs - draws * shares) > tolerance).any()
        or (np.abs(thirds - draws / 3) > 155).any()
        or (np.abs(mixed - due) > 165).any()
    )


def places_of_candidates() -> bool:
    """Whether what is released of equally useful decimals is always the same one."""
    column = np.array([], np.float64)
    found = {fd.private_median(column, bounds=(0.0, 1.0), epsilon=1.0).value for _ in range(60)}
    return len(found) < 15


def rows_of_a_list() -> bool:
    """Whether one row of a list decides on how the others are read, or on whether they are."""
    rows = [2**53 + 1] * 3 + [2**53] * 2
    for options in ({"categories": [2**53, 2**53 + 1]}, {"bins": [2**53 - 1, 2**53 + 1, 2**53 + 9]}):
        found = [counts_of_list([*rows, *others], **options) for others in ([], [0.5], [2**63], [-(2**70)])]
        if any(not np.array_equal(each, found[0]) for each in found):
            return True
    return False


def counts_of_list(rows: list[Any], **options: Any) -> Any:
    """Return the counts of a histogram that is certain, or None if it is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fd.errors.WeakPrivacyWarning)
        try:
            return histogram(rows, **options).value
        except fd.errors.FerroError:
            return None


def values_beyond_edges() -> bool:
    """Whether values beyond the last edge are lost."""
    sizes: dict[str, Any] = {"magnitudes": (1.0, 1024.0), "epsilon": CERTAIN}
    return differs(lambda: fd.private_bounds(np.full(50, 1e300), **sizes), [512.0, 1024.0]) or differs(
        lambda: fd.private_bounds(np.full(50, -1e300), **sizes), [-1024.0, -512.0]
    )


def steps_of_sums() -> bool:
    """Whether a row at a bound that is no step of the grid moves a sum by a step more than stated."""
    return any(
        code(
            lambda d, upper=upper: fd.private_sum(d, bounds=(0.0, upper), epsilon=1.0).value,
            data=np.array([upper, upper / 2.0, 0.0]),
        )
        for upper in (0.1, 0.3, 0.6, 0.7, 1 / 3, 1.1, 1.3)
    )


def replaced_by_missing() -> bool:
    """Whether a row that is replaced by a missing one moves a sum or a mean farther than stated."""
    data = np.array([100.0, 99.0, 99.5, NAN])
    others = [np.where(np.arange(4) == i, to, data) for i in range(4) for to in (NAN, 99.0, 100.0)]

    def violates(run: Callable[[np.ndarray], object]) -> bool:
        accounted = EpsilonDeltaEvent(epsilon=1.0)
        return audit_code(run, data, others, accounted=accounted, neighboring_relation=REPLACE).violation

    options: dict[str, Any] = {"bounds": (99.0, 100.0), "epsilon": 1.0, "neighboring_relation": REPLACE}
    return violates(lambda d: fd.private_sum(d, **options).value) or violates(
        lambda d: fd.private_mean(d, **options).value
    )


def shares() -> bool:
    """Whether the parts of a budget are more than all of it."""
    column = np.arange(10.0)
    for parts in (3, 5, 7, 11):
        ratios = [(i + 1) / (parts + 1) for i in range(parts)]
        for epsilon in EPSILONS:
            found = fd.private_quantiles(column, ratios, bounds=(0.0, 10.0), epsilon=epsilon)
            spent = sum(Fraction(each.epsilon) for each in found[0].event.events)
            if spent > Fraction(epsilon):
                return True
    groups = fd.private_group_by({"k": [0] * 10, "x": column}, "k", keys=[0])
    options: dict[str, Any] = {"bounds": (0.0, 10.0), "epsilon": 2.0}
    several = groups.quantiles("x", [0.2, 0.5, 0.7], **options).event
    with_ends = fd.private_median(column, interval_level=0.9, **options).event
    top = fd.private_top(column, 3, categories=column, epsilon=1.0).event.events[:3]
    extreme = fd.private_max(column, **options).event
    of_group = groups.max("x", **options).event.events[0]
    two = {"a": column, "b": column}
    bins = fd.statistics.private_quantile_bins(two, 3, bounds=dict.fromkeys(two, (0.0, 10.0)), epsilon=2.0).event
    composed = several.events[0].events, bins.events, with_ends.events, extreme.events, of_group.events, (*top, *top)
    return any(sum(Fraction(part.epsilon) for part in each) > 2 for each in composed)


def roots_of_sensitivities() -> bool:
    """Whether the L2 norm of what a unit moves is stated below what it is."""
    for rows in range(1, 12):
        options: dict[str, Any] = {"bins": [0.0, 1.0, 2.0], "max_contributions": rows, "delta": 1e-6}
        made = fd.private_histogram(np.ones(3), epsilon=1.0, neighboring_relation=REPLACE, **options)
        if Fraction(made.event.l2_sensitivity) ** 2 < 2 * rows**2:
            return True
    return False


def calibrations() -> bool:
    """Whether a scale is below what ε asks for, by any amount."""
    kinds = (fd.ExponentialMechanism, fd.PermuteAndFlip, fd.ReportNoisyMax)
    for epsilon in EPSILONS:
        target = Fraction(epsilon)
        integers = fd.DiscreteLaplaceMechanism.calibrated(epsilon=epsilon, l1_sensitivity=1)
        if Fraction(integers.scale) * target < 1:
            return True
        if any(Fraction(kind.calibrated(epsilon=epsilon, sensitivity=1.0).scale) * target < 2 for kind in kinds):
            return True
        for categories in (2, 3, 10):
            made = fd.RandomizedResponse.calibrated(epsilon=epsilon, num_categories=categories)
            with mp.workprec(300):
                p = mpmath.mpf(made.noise_parameter)
                if 1 + (1 - p) * categories / p > mpmath.exp(mpmath.mpf(epsilon)):
                    return True
    return False


def choices_of_any_direction() -> bool:
    """Whether utilities that move both ways cost what is stated for them: one rises, and all others fall."""
    made = fd.ExponentialMechanism(scale=1.0, sensitivity=1.0)
    utilities = (np.eye(50)[0], 1.0 - np.eye(50)[0])
    return function(
        lambda value, n: np.array([made.release(value) == 0 for _ in range(n)]),
        utilities,
        epsilon=made.epsilon(),
        draws=40_000,
    )


def integers_beyond_floats() -> bool:
    """Whether integers between two floats are rounded before they are noised or compared."""
    made = fd.GaussianMechanism(noise_multiplier=0.125, l2_sensitivity=1.0)
    if len({made.release(2**53 + 3) for _ in range(200)}) < 2:
        return True
    choice = fd.ExponentialMechanism(scale=0.01, sensitivity=1.0)
    for higher in (0, 1):
        utilities = np.full(2, 2**60)
        utilities[higher] += 1
        if any(choice.release(utilities) != higher for _ in range(30)):
            return True
    return False


def other_dimensions() -> bool:
    """Whether more integers are released than the guarantee is about."""
    return any(
        passes(
            lambda size=size, made=made: fd.DiscreteGaussianMechanism(
                scale=2.0, l2_sensitivity=1, dimension=made
            ).release(np.zeros(size, np.int64))
        )
        for made, size in ((1, 2), (1, 5), (3, 4), (3, 2))
    )


def bare_integers() -> bool:
    """Whether `out` holds the bare integers if nothing can be drawn."""
    out = np.zeros(3, np.int64)
    made = fd.DiscreteGaussianMechanism(scale=2.0, l2_sensitivity=1, dimension=3)
    source = fd.NoiseSource()

    def fail(*_: object) -> None:
        raise fd.errors.EntropyError("nothing to draw")

    with mock.patch.object(type(source), "_key", fail):
        if not passes(lambda: made.release(np.array([7, 8, 9]), out=out, source=source)):
            return bool(out.any())
    return True


def grids_of_data() -> bool:
    """Whether a value decides on the grid of the noise of another one."""

    def second(value: float, n: int) -> np.ndarray:
        values = np.zeros(n + 1)
        values[0] = value
        SOURCE.add_gaussian_(values, standard_deviation=1.0)
        return values[1:]

    return function(second, (0.0, 2.0), epsilon=0.5, delta=1e-5)


def sums_that_travel() -> bool:
    """Whether the state of a sum is that sum, and no other sum takes it."""
    made, other = (fd.ClippedSum((2,), clip_norm=each, stability=0.25) for each in (1.0, 2.0))
    other.add(np.array([3.0, 4.0]))
    if passes(lambda: made.merge_state(other.state())):
        return True
    if passes(lambda: fd.ClippedSum((2,), clip_norm=1.0).add(np.ones(2, np.float16))):
        return True
    exact = fd.ClippedSum((2,), clip_norm=1.0, stability=Fraction(1, 3))  # type: ignore[arg-type]
    again = fd.ClippedSum.from_state(made.state())
    for each in (made, again):
        each.add(np.array([0.1, 0.2]))
    return not np.array_equal(made.integers, again.integers) or 3 * Fraction(exact.stability or 0.0) < 1


def outer_products() -> bool:
    """Whether an outer product is longer than the bound."""
    rng = np.random.default_rng(36)
    for _ in range(20):
        left, right = rng.normal(size=(1, 3)), 4.0 * rng.normal(size=(1, 5))
        made = fd.ClippedSum((3, 5), clip_norm=1.0)
        try:
            made.add_outer(left, right)
            integers = made.integers
        except fd.errors.FerroError:  # too long for the sum, which this tells
            return True
        square = sum(int(each) ** 2 for each in integers.reshape(-1).tolist())
        if square * Fraction(made.granularity) ** 2 > 1:
            return True
    return False


def grouped(keys: Any, who: Any, found: Any = None, **options: Any) -> Any:
    frame = {"key": keys, "who": who}
    made = fd.private_group_by(frame, "key", keys=[0] if found is None else found, unit="who", **options)
    return made.count(epsilon=CERTAIN)


def ids() -> bool:
    """Whether two units count as one, or one as two."""
    mixed = np.array([1, 1.0, True, "a"], dtype=object)
    return differs(lambda: grouped([0, 0, 0], [2**53, 2**53 + 1, 0.5]), [3]) or differs(
        lambda: grouped([0, 0, 0, 0], mixed), [2]
    )


def labels(keys: list[Any]) -> list[str]:
    found = fd.statistics.KeyThreshold(epsilon=CERTAIN, delta=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fd.errors.WeakPrivacyWarning)
        made = grouped(np.array([*keys, None], dtype=object)[:-1], list(range(len(keys))), found)
        return [repr(each) for each in made.labels]


def keys_that_are_found() -> bool:
    """Whether keys of few units are found, or what is found tells the order of the rows."""
    if labels(["a"] * 50 + ["b"]) != ["'a'"]:
        return True
    mixed: list[Any] = [1.0, 1, True, "x"]
    if any(sorted(labels(rows * 50)) != ["'x'", "1", "1.0", "True"] for rows in (mixed, mixed[::-1])):
        return True
    frame = {"key": ["a"] * 32, "who": [1] * 32}
    asked = fd.statistics.KeyThreshold(epsilon=1.0, delta=0.1)
    draws = 4000
    hits = sum(
        len(fd.private_group_by(frame, "key", keys=asked, unit="who", rows_per_unit=32).keys) for _ in range(draws)
    )
    return _binomial.lower_bound(hits, draws, LEVEL) > 0.1


def _finds(rule: Any, keys: list[int], units: list[int], **bounds: int) -> bool:
    return bool(fd.private_group_by({"key": keys, "who": units}, "key", keys=rule, unit="who", **bounds).keys)


def _is_more_often(release: Callable[[], bool], probability: float, draws: int = 2000) -> bool:
    return _binomial.lower_bound(sum(release() for _ in range(draws)), draws, LEVEL) > probability


def selected_keys() -> bool:
    """Whether a key is selected more often than both inequalities allow, given how often one of fewer units is."""
    rule, most = fd.KeySelection(epsilon=1.0, delta=0.1), 0.0
    for number in range(1, 4):
        missed = (1.0 - most - 0.1) / math.e
        most = min(math.e * most + 0.1, 1.0 - missed)
        if _is_more_often(functools.partial(_finds, rule, [7] * number, list(range(number))), most + 1e-9):
            return True
    return _is_more_often(lambda: _finds(rule, [7] * 4, [1] * 4, rows_per_unit=4, groups_per_unit=1), 0.1)


def united_keys() -> bool:
    """Whether keys of one unit alone are found with a probability of more than half of δ, by each of both ways."""
    for epsilon in (1.0, 0.2):
        rule = fd.KeyUnion(epsilon=epsilon, delta=0.2)
        for number in (1, 4, 8):
            keys, units = list(range(number)), [1] * number
            if _is_more_often(functools.partial(_finds, rule, keys, units, groups_per_unit=4), 0.1):
                return True
    return False


def tables() -> bool:
    """Whether all statistics of one table cost more than is stated for them together."""
    data = np.array([0.0, 3.0, 9.0, 9.0])
    others = [np.delete(data, i) for i in range(data.size)]

    def run(column: np.ndarray) -> object:
        made = release({"x": column}, sums={"x": (0.0, 10.0)}, epsilon=1.0)
        return [made[name].value for name in made]

    return audit_code(run, data, others, accounted=EpsilonDeltaEvent(epsilon=1.0)).violation


AUDITS: dict[str, Callable[[], bool]] = {
    "missing rows": missing_rows,
    "ties with candidates and edges": ties,
    "runs of candidates": runs_of_candidates,
    "places of candidates": places_of_candidates,
    "rows of a list": rows_of_a_list,
    "values beyond edges": values_beyond_edges,
    "steps of sums": steps_of_sums,
    "rows replaced by missing ones": replaced_by_missing,
    "shares of a budget": shares,
    "roots of sensitivities": roots_of_sensitivities,
    "exact calibrations": calibrations,
    "choices of any direction": choices_of_any_direction,
    "integers beyond floats": integers_beyond_floats,
    "integers of another dimension": other_dimensions,
    "bare integers": bare_integers,
    "grids of data": grids_of_data,
    "sums that travel": sums_that_travel,
    "outer products": outer_products,
    "ids of units": ids,
    "keys that are found": keys_that_are_found,
    "keys that are selected": selected_keys,
    "keys of unions": united_keys,
    "statistics of one table": tables,
}
"""Whether an audit raises an alarm: by chance less often than `alarms.LEVEL` says."""
