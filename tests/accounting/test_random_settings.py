"""A few of the random settings of `random_settings.py`, without peers: intervals are intervals, and narrow."""

import json
from dataclasses import asdict

import pytest
import random_settings


@pytest.fixture(scope="module")
def rows():
    return [random_settings.row(setting) for setting in random_settings.settings(200)]


def test_no_interval_contradicts_itself(rows):
    assert [row for row in rows if row.contradictions] == []


def test_intervals_are_narrow(rows):
    widths = sorted(row.width for row in rows)

    assert widths[100] <= 1e-4
    assert widths[197] <= 0.01  # all but two of 200: the 99th percentile


def test_a_longer_list_begins_with_the_shorter_one(rows):
    assert [row.setting for row in rows[:20]] == list(random_settings.settings(20))


def test_rows_are_read_from_a_file_whose_last_one_is_torn(tmp_path, rows):
    path = tmp_path / "rows"
    lines = [json.dumps(asdict(row)) for row in rows[:4]]
    path.write_text("\n".join(lines)[:-20])

    assert random_settings.read(path) == rows[:3]
