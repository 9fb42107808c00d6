"""Bins of a calendar: where each begins, and which one a row is in."""

import datetime
import random
import zoneinfo

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.errors import InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.statistics._column import read
from ferrodp.statistics.rows import calendars

pytestmark = pytest.mark.filterwarnings("ignore::ferrodp.errors.WeakPrivacyWarning")
DATE, MOMENT = datetime.date, datetime.datetime
NEW_YORK = zoneinfo.ZoneInfo("America/New_York")


def begun(day, every):
    """Where the bin of a date begins, by the calendar: slow and obvious."""
    if every == "day":
        return day
    if every == "week":
        while day.weekday() != 0:
            day -= datetime.timedelta(days=1)
        return day
    month = {"month": day.month, "quarter": {1: 1, 2: 1, 3: 1, 4: 4, 5: 4, 6: 4, 7: 7, 8: 7, 9: 7}.get(day.month, 10)}
    return day.replace(month=month.get(every, 1), day=1)


@pytest.mark.parametrize("every", ["day", "week", "month", "quarter", "year"])
def test_a_row_is_in_the_bin_that_its_calendar_says(every):
    draw = random.Random(every)
    for _ in range(20):
        start = DATE(1999, 1, 1) + datetime.timedelta(draw.randrange(2000))
        end = start + datetime.timedelta(draw.randrange(1, 1500))
        bins = fd.CalendarBins(start, end, every)
        rows = [start + datetime.timedelta(draw.randrange(-30, (end - start).days + 30)) for _ in range(50)]
        rows += [start, end, end - datetime.timedelta(1), start - datetime.timedelta(1)]
        places = calendars.places(bins, read(rows), "values")

        for row, place in zip(rows, places.tolist(), strict=True):
            if not start <= row < end:
                assert place == -1
            else:
                assert bins.starts[place] == max(begun(row, every), start)
        assert len(set(bins.labels)) == len(bins.starts)


def test_hours_and_midnights_of_a_zone_follow_its_clocks():
    """On 10 March 2024 a day of New York has 23 hours."""
    start, end = MOMENT(2024, 3, 10, tzinfo=NEW_YORK), MOMENT(2024, 3, 11, tzinfo=NEW_YORK)

    assert len(fd.CalendarBins(start, end, "hour").starts) == 23
    two = fd.CalendarBins(start, MOMENT(2024, 3, 12, tzinfo=NEW_YORK), "day")
    late = [MOMENT(2024, 3, 11, 3, 59, tzinfo=datetime.UTC), MOMENT(2024, 3, 11, 4, 0, tzinfo=datetime.UTC)]
    assert calendars.places(two, read(late), "values").tolist() == [0, 1]
    assert fd.CalendarBins(MOMENT(2024, 1, 1, 5, 30), MOMENT(2024, 1, 1, 7), "hour").labels == (
        "2024-01-01 05:00",
        "2024-01-01 06:00",
    )


def test_bins_of_a_calendar_are_bins_and_keys():
    year = fd.CalendarBins(DATE(2024, 1, 1), DATE(2025, 1, 1))
    days = np.array(["2024-01-31", "2024-02-01", "2023-12-31", "2025-01-01", "NaT"] * 2, "datetime64[D]")
    found = fd.private_histogram(days, bins=year, epsilon=1e9)

    assert found.value.tolist() == [2, 2, *[0] * 10]
    assert found.labels[:2] == ("2024-01", "2024-02")
    frame = {"day": days, "g": ["a", "b"] * 5, "who": [1] * 10}
    groups = fd.private_group_by(frame, "day", keys=year, unit="who", groups_per_unit=2)
    assert groups.count(epsilon=1e9).value.tolist() == [1, 1, *[0] * 10]
    both = fd.private_group_by(frame, ["day", "g"], keys={"day": year, "g": ["a", "b"]})
    assert both.count(epsilon=1e9).value.tolist()[:4] == [1, 1, 1, 1]
    assert both.keys[:2] == (("2024-01", "a"), ("2024-01", "b"))
    by_group = fd.private_group_by(frame, "g", keys=["a", "b"])
    assert by_group.histogram("day", bins=year, epsilon=1e9).labels[0] == ("a", "2024-01")


def test_every_row_is_in_one_bin_so_that_a_row_moves_one_count_by_one():
    bins = fd.CalendarBins(DATE(2024, 1, 1), DATE(2024, 3, 1), "week")
    rows = [DATE(2023, 12, 30) + datetime.timedelta(each) for each in range(70)]
    whole = calendars.places(bins, read([*rows, None]), "values")

    for place, row in enumerate(rows):
        assert calendars.places(bins, read([row]), "values")[0] == whole[place]
    assert whole[-1] == -1


def test_bad_calendars_are_refused():
    day = DATE(2024, 1, 1)
    for arguments, error, words in [
        ((day, day), InvalidParameter, "before end"),
        ((day, DATE(2025, 1, 1), "fortnight"), InvalidParameter, "every must be"),
        ((day, DATE(2025, 1, 1), "hour"), InvalidParameter, "datetime for bins of hours"),
        ((day, MOMENT(2025, 1, 1)), InvalidParameter, "one of dates"),
        (("2024-01-01", day), InvalidType, "start must be a date"),
        ((MOMENT(1, 1, 1), MOMENT(9999, 1, 1), "hour"), InvalidParameter, "at most 1000000 bins"),
    ]:
        with pytest.raises(error, match=words):
            fd.CalendarBins(*arguments)
    with pytest.raises(InvalidArrayType, match="must be dates, as the bounds are, got strings"):
        fd.private_histogram(np.array(["a"]), bins=fd.CalendarBins(day, DATE(2025, 1, 1)), epsilon=1.0)
    assert fd.CalendarBins(DATE(9999, 11, 5), DATE(9999, 12, 31), "month").labels == ("9999-11", "9999-12")
