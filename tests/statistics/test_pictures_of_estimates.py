"""Pictures of released numbers show their intervals, and no more digits than the noise leaves meaning."""

import math
import sys

import matplotlib as mpl
import numpy as np
import pytest

import ferrodp as fd
from ferrodp.errors import InvalidParameter, MissingPackage
from ferrodp.statistics._pictures import plain

mpl.use("Agg")


def source():
    return fd.testing.seeded(bytes(32))


def bars(axes):
    """Return the ends of the error bars, row by row."""
    [segments] = [each.get_segments() for each in axes.containers[0][2]]
    return [(segment[0][0], segment[1][0]) for segment in segments]


def test_a_histogram_has_a_bar_for_each_bin_as_long_as_its_interval(tmp_path):
    estimate = fd.private_histogram(np.arange(100.0), bins=[0, 20, 50, 100], epsilon=0.5, source=source())
    axes = estimate.plot(level=0.9)
    interval = estimate.interval(0.9)

    assert np.allclose(np.array(bars(axes)), np.stack(interval, axis=1), rtol=1e-12)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["[0, 20)", "[20, 50)", "[50, 100]"]
    assert axes.get_xlabel() == "released value and 90 % interval"
    assert axes.get_title() == "counts by bin\nε = 0.5, for one row"
    for suffix in ("png", "svg", "pdf"):
        axes.figure.savefig(tmp_path / f"plot.{suffix}")
        assert (tmp_path / f"plot.{suffix}").stat().st_size > 1000


def test_one_number_is_drawn_without_a_label():
    axes = fd.private_mean(np.arange(100.0), bounds=(0, 100), epsilon=1.0, source=source()).plot()

    assert [label.get_text() for label in axes.get_yticklabels()] == [""]
    assert len(bars(axes)) == 1


def test_a_choice_has_no_bar():
    axes = fd.private_median(np.arange(100.0), bounds=(0, 100), epsilon=1.0, source=source()).plot()

    assert axes.get_xlabel() == "released value"
    assert len(axes.texts) == 1


def test_intervals_without_an_end_are_drawn(tmp_path):
    axes = fd.private_mean([1.0], bounds=(0, 100), epsilon=0.001, source=source()).plot()

    axes.figure.savefig(tmp_path / "plot.png")
    assert all(math.isfinite(end) for ends in bars(axes) for end in ends)


def test_many_rows_are_cut_and_say_so():
    estimate = fd.private_histogram([0], categories=list(range(300)), epsilon=1.0, source=source())
    axes = estimate.plot()

    assert len(axes.get_yticks()) == 200
    assert "100 more rows: to_frame()" in axes.get_title()
    assert len(axes.texts) == 0


def test_a_table_has_axes_for_each_statistic():
    frame = {"region": ["north", "south"] * 50, "age": [30.0] * 100}
    groups = fd.private_group_by(frame, "region", keys=["north", "south"])
    figure = fd.release(frame, groups=groups, sums={"age": (0, 100)}, epsilon=1.0, source=source()).plot()

    assert len(figure.axes) == 2
    assert [label.get_text() for label in figure.axes[1].get_yticklabels()] == ["north", "south"]
    assert figure.get_suptitle() == "Released together at ε = 1"


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (1234.567, 14.0, "1235"),
        (1234.567, 28.0, "1230"),
        (1234.567, 1400.0, "1200"),
        (50.4321, 0.31, "50.4"),
        (50.4321, 0.031, "50.43"),
        (-0.04, 1.0, "-0.0"),
        (3.14159, math.nan, "3.142"),
        (3.14159, 0.0, "3.142"),
    ],
)
def test_numbers_have_the_digits_that_their_noise_leaves(value, error, shown):
    assert plain(value, error) == shown


def test_rounding_moves_a_number_by_a_quarter_of_its_standard_error_at_most():
    rng = np.random.default_rng(0)
    for value, error in zip(rng.normal(0, 1e3, 2000), 10 ** rng.uniform(-4, 4, 2000), strict=True):
        assert abs(float(plain(value, error)) - value) <= error / 4 * (1 + 1e-9)  # the last digit of a decimal


def test_levels_are_checked_and_matplotlib_is_asked_for(monkeypatch):
    estimate = fd.private_count([True], epsilon=1.0)
    with pytest.raises(InvalidParameter, match="level must be between 0 and 1"):
        estimate.plot(level=1.0)

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackage, match=r'pip install "ferrodp\[plot\]"'):
        estimate.plot()
