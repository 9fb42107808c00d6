"""Dates, datetimes, durations and times of day as columns: numbers by public kinds, and times again when released."""

import datetime
import itertools
import json
import math

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.errors import InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.statistics._column import column
from ferrodp.statistics.rows.times import Clock, of_bounds

pytestmark = pytest.mark.filterwarnings("ignore::ferrodp.errors.WeakPrivacyWarning")
UTC = datetime.UTC
DAY, HOUR = datetime.timedelta(days=1), datetime.timedelta(hours=1)
ZONE = datetime.timezone(datetime.timedelta(hours=-5))
KINDS = {
    "dates": [datetime.date(2024, 1, 1) + each * DAY for each in range(5)],
    "datetimes": [datetime.datetime(2024, 1, 1, 0, 30) + each * HOUR for each in range(5)],
    "datetimes with a time zone": [datetime.datetime(2024, 1, 1, 9, tzinfo=ZONE) + each * HOUR for each in range(5)],
    "durations": [each * HOUR for each in range(5)],
    "times": [datetime.time(each, 30) for each in range(5)],
}
"""Five evenly spaced times of each kind, in ascending order."""


def columns_of(times):
    """The same rows, and a missing one, as columns of every library that has the kind."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    arrow = pytest.importorskip("pyarrow")
    rows = [*times, None]
    objects = np.empty(len(rows), object)
    objects[:] = rows
    found = {"list": rows, "objects": objects, "polars": polars.Series(rows), "arrow": arrow.array(rows)}
    found["chunks"] = arrow.chunked_array([rows[:2], rows[2:]], type=found["arrow"].type)
    if not isinstance(times[0], datetime.time):
        zoned = getattr(times[0], "tzinfo", None) is not None
        kind = "timedelta64[ns]" if isinstance(times[0], datetime.timedelta) else "datetime64[ns]"
        found["pandas"] = pandas.Series(rows if zoned else pandas.Series(rows, dtype=kind))
        if not zoned:
            found["numpy"] = np.array(rows, kind.replace("ns", "us"))
            found["days"] = np.array(rows, "datetime64[D]") if isinstance(times[0], datetime.date) else found["numpy"]
    if type(times[0]) is not datetime.date:
        found.pop("days", None)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_times_of_every_library_are_the_same_numbers(kind):
    times = KINDS[kind]
    clock, (lower, upper) = of_bounds((times[0], times[-1]))

    assert (clock.kind, lower < upper) == (kind, True)
    exact = [clock.number(each) for each in times]
    assert np.diff(exact).tolist() == [1 if kind == "dates" else 3600] * 4
    for name, held in columns_of(times).items():
        found = column(held, clock=clock)
        assert found.values.tolist()[:5] == exact, name
        assert found.nulls.tolist() == [False] * 5 + [True], name
        assert (found.values.dtype, found.can_miss) == (np.int64 if kind == "dates" else np.float64, True)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_released_of_times_are_times(kind):
    """At ε = 1e9 the noise is below a second."""
    times = KINDS[kind]
    bounds, near = (times[0], times[-1]), datetime.timedelta(seconds=1)

    def distance(one, other):
        if isinstance(one, datetime.time):
            one, other = (datetime.datetime.combine(datetime.date(2024, 1, 1), each) for each in (one, other))
        return abs(one - other)

    mean = fd.private_mean(times, bounds=bounds, epsilon=1e9)
    middle = datetime.datetime(2024, 1, 3) if kind == "dates" else times[2]
    assert distance(mean.value, middle) < near
    assert isinstance(mean.standard_error, datetime.timedelta)
    lower, upper = mean.interval(0.9)
    assert lower <= mean.value <= upper
    median = fd.private_median(times, bounds=bounds, candidates=None, epsilon=1e9, interval_level=0.9)
    assert type(median.value) is type(times[2])
    assert distance(median.value, times[2]) < near
    assert median.interval(0.9).lower <= times[2] <= median.interval(0.9).upper
    assert fd.private_median(times, candidates=times, epsilon=1e9).value == times[2]
    three = fd.private_quantiles(times * 9, [0.1, 0.5, 0.9], candidates=times, epsilon=1e9)
    assert [Clock.of(each).kind for each in three.value] == ["dates" if kind == "dates" else kind] * 3
    assert fd.private_max(times, candidates=times, rank=0, epsilon=1e9).value == times[-1]
    assert fd.private_min(times, candidates=times, rank=0, epsilon=1e9).value == times[0]
    deviation = fd.private_standard_deviation(times * 1000, bounds=bounds, epsilon=1e9)
    assert abs(deviation.value - (DAY if kind == "dates" else HOUR) * math.sqrt(2)) < near
    variance = fd.private_variance(times * 1000, bounds=bounds, epsilon=1e9)
    assert variance.value == pytest.approx(2.0 if kind == "dates" else 2.0 * 3600.0**2, rel=1e-5)
    assert variance.statistic.endswith("in squared days" if kind == "dates" else "in squared seconds")
    assert json.loads(json.dumps(mean.to_dict()))["standard_error"] == mean.standard_error.total_seconds()


def test_sums_are_of_durations_alone():
    total = fd.private_sum(KINDS["durations"], bounds=(0 * HOUR, 2 * HOUR), epsilon=1e9)

    assert abs(total.value - 7 * HOUR) < datetime.timedelta(seconds=1)
    assert total.statistic == "sum of values clamped to [0:00:00, 2:00:00]"
    for kind in ("dates", "datetimes", "times"):
        with pytest.raises(InvalidParameter, match="numbers or durations"):
            fd.private_sum(KINDS[kind], bounds=(KINDS[kind][0], KINDS[kind][1]), epsilon=1.0)


def test_a_datetime_counts_as_its_day_where_bounds_are_dates():
    late = [datetime.datetime(2024, 1, 2, 23, 59, 59), datetime.datetime(1969, 12, 31, 1)]
    bounds = (datetime.date(1960, 1, 1), datetime.date(2025, 1, 1))
    clock, _ = of_bounds(bounds)

    assert column(late, clock=clock).values.tolist() == [19724, -1]
    whole, _ = of_bounds((late[1], late[0]))
    assert column([datetime.date(2024, 1, 2)], clock=whole).values.tolist() == [19724 * 86400.0]


def test_parts_of_microseconds_are_cut_toward_the_past():
    clock, _ = of_bounds((datetime.datetime(1960, 1, 1), datetime.datetime(2025, 1, 1)))

    fine = np.array(["2024-01-01T00:00:00.000001999", "1969-12-31T23:59:59.999999001"], "datetime64[ns]")
    assert column(fine, clock=clock).values.tolist() == [clock.number(datetime.datetime(2024, 1, 1, 0, 0, 0, 1)), -1e-6]


def test_the_number_of_a_row_depends_on_that_row_alone_and_never_raises():
    clock, _ = of_bounds((datetime.date(2024, 1, 1), datetime.date(2025, 1, 1)))

    class Odd:
        def __hash__(self):
            raise RuntimeError("secret")

    rows = [datetime.date(2024, 1, 1), "2024-01-02", 7, math.nan, Odd(), datetime.datetime(2024, 1, 5, tzinfo=UTC),
            datetime.time(3), HOUR, np.datetime64("NaT"), datetime.date.min, datetime.date.max]  # fmt: skip
    alone = [column([row], clock=clock) for row in rows]
    for order in itertools.islice(itertools.permutations(range(len(rows))), 0, None, 4_000_001):
        found = column([rows[place] for place in order], clock=clock)
        for place, value, missing in zip(order, found.values.tolist(), found.nulls.tolist(), strict=True):
            assert (value, missing) == (alone[place].values[0], alone[place].nulls[0])
    assert [bool(each.nulls[0]) for each in alone] == [False] + [True] * 8 + [False] * 2
    far = [datetime.datetime.min.replace(tzinfo=datetime.timezone(23 * HOUR))]
    zoned, _ = of_bounds((KINDS["datetimes with a time zone"][0], KINDS["datetimes with a time zone"][1]))
    assert column(far, clock=zoned).nulls.tolist() == [True]


def test_neighbors_of_times_are_as_far_apart_as_numbers_are(monkeypatch):
    """Every column of three rows, and each without one of them: means and sums before their noise."""
    from ferrodp.mechanisms import DiscreteLaplaceMechanism

    seen = []
    release = DiscreteLaplaceMechanism.release

    def record(mechanism, value, **options):
        seen.append((mechanism, int(value)))
        return release(mechanism, value, **options)

    monkeypatch.setattr(DiscreteLaplaceMechanism, "release", record)
    for kind, times in KINDS.items():
        values = [times[0], times[2], times[4], None]
        for rows in itertools.product(values, repeat=3):
            for gone in range(3):
                runs = []
                for each in (rows, rows[:gone] + rows[gone + 1 :]):
                    seen.clear()
                    fd.private_mean(list(each), bounds=(times[1], times[3]), epsilon=1.0)
                    runs.append(list(seen))
                moved = sum(abs(a - b) / float(one.scale) for (one, a), (_, b) in zip(*runs, strict=True))
                assert moved <= 1.0 + 1e-9, (kind, rows, gone)


def test_bad_kinds_are_refused_by_type_alone():
    day, noon = datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1, 12)
    for bounds in [(day, noon), (day, 7), (noon, noon.replace(tzinfo=UTC))]:
        with pytest.raises((InvalidArrayType, InvalidParameter), match="bounds must all be"):
            fd.private_mean([day], bounds=bounds, epsilon=1.0)
    with pytest.raises(InvalidParameter, match="ascending order"):
        fd.private_mean([day], bounds=(day, day - DAY), epsilon=1.0)
    with pytest.raises(InvalidArrayType, match="values must be dates, as the bounds are, got float64"):
        fd.private_mean(np.zeros(3), bounds=(day, day + DAY), epsilon=1.0)
    with pytest.raises(InvalidArrayType, match=r"got dates \(bounds may be dates, too\); convert it"):
        fd.private_mean(np.array(["2024-01-01"], "datetime64[D]"), bounds=(0, 1), epsilon=1.0)
    with pytest.raises(InvalidArrayType, match="as the bounds are, got datetimes"):
        fd.private_mean(np.array(["2024-01-01T00:00"], "datetime64[s]"), bounds=(HOUR, DAY), epsilon=1.0)
    with pytest.raises(InvalidParameter, match="no zero"):
        fd.private_mean([day], bounds=(day, day + DAY), missing="zero", epsilon=1.0)
    estimate = fd.private_mean([day], bounds=(day, day + DAY), epsilon=1.0)
    with pytest.raises(InvalidType, match="no sums and products"):
        estimate + 1
    with pytest.raises(InvalidType, match="is not drawn"):
        estimate.plot()


def test_groups_have_statistics_of_times():
    times = KINDS["datetimes"]
    frame = {"g": ["a", "b"] * 500, "when": (times[:1] + times[4:]) * 500, "how_long": [HOUR, 3 * HOUR] * 500}
    groups = fd.private_group_by(frame, "g", keys=["a", "b"])
    mean = groups.mean("when", bounds=(times[0], times[4]), epsilon=1e9)

    assert np.abs(mean.value - np.array([times[0], times[4]], "datetime64[us]")).max() < np.timedelta64(1, "s")
    assert abs(mean[1].value - times[4]) < datetime.timedelta(seconds=1)
    assert mean[1].interval().upper >= mean[1].value
    assert groups.median("when", bounds=(times[0], times[4]), epsilon=1e9).value.dtype.kind == "M"
    lengths = groups.sum("how_long", bounds=(0 * HOUR, 2 * HOUR), epsilon=1e9)
    assert np.abs(lengths.value - np.array([500 * HOUR, 1000 * HOUR], "timedelta64[us]")).max() < np.timedelta64(9, "s")
    assert groups.variance("when", bounds=(times[0], times[4]), epsilon=1e9).statistic.startswith("variances of when")
    table = fd.release(frame, sums={"how_long": (0 * HOUR, 4 * HOUR)}, epsilon=1e9)
    assert abs(table["how_long"].value[0] - np.timedelta64(2000, "h")) < np.timedelta64(99, "s")
    with pytest.raises(InvalidParameter, match="durations"):
        fd.release(frame, sums={"when": (times[0], times[4])}, epsilon=1.0)


def test_edges_may_be_times():
    days = KINDS["dates"]
    found = fd.private_histogram(days, bins=[days[0], days[2], days[4]], epsilon=1e9)

    assert found.value.tolist() == [2, 3]
    assert found.to_frame().index.tolist() == ["[2024-01-01, 2024-01-03)", "[2024-01-03, 2024-01-05]"]
    assert found.to_dict()["edges"] == ["2024-01-01", "2024-01-03", "2024-01-05"]
