"""Results: intervals that hold what they promise, arithmetic, tables."""

import datetime
import json
import math
import sys

import numpy as np
import pytest
from scipy import stats

import ferrodp as fd
from ferrodp.errors import InvalidParameter, InvalidType, MissingPackage, WeakPrivacyWarning
from ferrodp.statistics import _noise
from ferrodp.statistics.models import private_moments

ROWS = np.random.default_rng(4).gamma(3.0, 10.0, 4000)
CLAMPED = np.clip(ROWS, 0.0, 60.0)
EDGES = [0, 15, 30, 60]
TRUTH = {
    "count": ROWS.size,
    "sum": CLAMPED.sum(),
    "mean": CLAMPED.mean(),
    "histogram": np.histogram(ROWS, EDGES)[0][1],
}


def released(kind, delta, source):
    keywords = {"epsilon": 0.1, "delta": delta, "source": source}
    match kind:
        case "count":
            return fd.private_count(ROWS, **keywords)
        case "sum":
            return fd.private_sum(ROWS, bounds=(0, 60), **keywords)
        case "mean":
            return fd.private_mean(ROWS, bounds=(0, 60), **keywords)
        case "histogram":
            return fd.private_histogram(ROWS, bins=EDGES, **keywords)[1]


WEAK = {"epsilon": 50.0, "source": fd.testing.seeded(bytes(31) + b"\x21")}
FRAME = {"key": ["a", "b"] * 25, "value": np.ones(50)}
WEAK_STATISTICS = {
    "count": lambda: fd.private_count(FRAME["value"], **WEAK),
    "sum": lambda: fd.private_sum(FRAME["value"], bounds=(0, 2), **WEAK),
    "mean": lambda: fd.private_mean(FRAME["value"], bounds=(0, 2), **WEAK),
    "variance": lambda: fd.private_variance(FRAME["value"], bounds=(0, 2), **WEAK),
    "standard deviation": lambda: fd.private_standard_deviation(FRAME["value"], bounds=(0, 2), delta=1e-6, **WEAK),
    "histogram": lambda: fd.private_histogram(FRAME["value"], bins=[0, 1, 2], **WEAK),
    "median": lambda: fd.private_median(FRAME["value"], bounds=(0, 2), **WEAK),
    "quantiles": lambda: fd.private_quantiles(FRAME["value"], (0.2, 0.8), bounds=(0, 2), **WEAK),
    "minimum": lambda: fd.private_min(FRAME["value"], bounds=(0, 2), **WEAK),
    "bounds": lambda: fd.private_bounds(FRAME["value"], **WEAK),
    "different values": lambda: fd.private_distinct(FRAME["key"], **WEAK),
    "top": lambda: fd.private_top(FRAME["key"], 1, categories=["a", "b", "c"], **WEAK),
    "groups": lambda: fd.private_group_by(FRAME, "key", keys=["a", "b"]).mean("value", bounds=(0, 2), **WEAK),
    "table": lambda: fd.release(FRAME, sums={"value": (0, 2)}, **WEAK),
    "moments": lambda: private_moments(np.ones((50, 2)), bounds=(0, 2), delta=1e-6, **WEAK),
}


@pytest.mark.parametrize("name", WEAK_STATISTICS)
def test_a_weak_statistic_warns_once_a_call_however_many_mechanisms_it_has(name):
    """Also of an ε whose parts are not weak, and when its mechanisms are there from an earlier call."""
    for _ in range(2):
        with pytest.warns(WeakPrivacyWarning, match="epsilon is above 20") as caught:
            WEAK_STATISTICS[name]()

        assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("kind", TRUTH)
def test_intervals_hold_the_truth_as_often_as_they_say(kind, delta):
    """4000 releases: outside 95 ± 1.6 percent with probability 4e-6 at a coverage of exactly 95; fixed seed."""
    source = fd.testing.seeded(bytes(31) + b"\x11")
    held, releases = 0, 4000
    for _ in range(releases):
        lower, upper = released(kind, delta, source).interval(0.95)
        held += lower <= TRUTH[kind] <= upper

    assert 0.934 <= held / releases <= 0.966


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_intervals_of_means_hold_where_the_count_is_mostly_noise(delta):
    """40 rows at a standard error of the count near 20: a normal approximation would fail. 2000 releases, 5 sigma."""
    source, truth = fd.testing.seeded(bytes(31) + b"\x12"), CLAMPED[:40].mean()
    found = [
        fd.private_mean(ROWS[:40], bounds=(0, 60), epsilon=0.2 if not delta else 0.5, delta=delta, source=source)
        for _ in range(2000)
    ]
    held = sum(lower <= truth <= upper for lower, upper in (each.interval(0.9) for each in found))

    assert abs(held / 2000 - 0.9) < 5 * math.sqrt(0.09 / 2000) + 0.02  # where no row is seen it is all of the bounds


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_half_widths_are_the_least_that_hold_the_level(level):
    for scale in (0.05, 0.5, 1.0, 3.7, 40.0, 600.0):
        for mechanism, law in (
            (fd.DiscreteLaplaceMechanism(scale=scale), stats.dlaplace(1.0 / scale)),
            (fd.DiscreteGaussianMechanism(scale=max(scale, 0.3)), None),
        ):
            reach = _noise.half_width(mechanism, level)
            places, masses = _noise._masses(mechanism)
            if law is not None:
                np.testing.assert_allclose(masses, law.pmf(places), atol=1e-15)
            inside = masses[np.abs(places) <= reach].sum()
            assert inside >= level - 1e-12
            if float(mechanism.scale) <= 512.0:
                assert masses[np.abs(places) <= reach - 1].sum() < level
    for scale in (1e3, 1e12):
        mechanism = fd.DiscreteGaussianMechanism(scale=scale)
        exact = stats.norm.isf(0.5 - 0.5 * level) * scale
        assert exact <= _noise.half_width(mechanism, level) <= exact + 2


@pytest.mark.parametrize("kind", [fd.DiscreteLaplaceMechanism, fd.DiscreteGaussianMechanism])
def test_laws_of_combinations_are_those_of_samples(kind):
    """10^5 draws each; a Kolmogorov distance of 0.0088 has probability 4e-7 (Massart)."""
    source = fd.NoiseSource()
    for terms in ([(1e6, 2e-5), (3.0, 4.0)], [(1e6, 1e-5), (2e6, 5e-6), (200.0, 0.02)], [(1e6, 1e-5), (1e6, 1e-5)]):
        draw = source.discrete_laplace if kind is fd.DiscreteLaplaceMechanism else source.discrete_gaussian
        drawn = sum(factor * draw(100_000, scale=scale) for scale, factor in terms)
        mechanisms = [(kind(scale=scale), factor) for scale, factor in terms]
        reaches = np.linspace(0.5, 60.0, 40)
        seen = (np.abs(drawn)[:, None] <= reaches).mean(axis=0)
        assert np.abs(seen - [_noise.inside(reach, mechanisms) for reach in reaches]).max() < 0.0088


def a_count():
    return fd.private_count([True] * 100, epsilon=1.0, source=fd.testing.seeded(bytes(32)))


def test_public_numbers_move_values_errors_and_intervals_together():
    count = a_count()
    error, (low, high) = count.standard_error, count.interval()
    for found, value, times, shift in [
        (count + 5, count.value + 5, 1, 5),
        (5 + count, count.value + 5, 1, 5),
        (count - 5, count.value - 5, 1, -5),
        (5 - count, 5 - count.value, -1, 5),
        (count * 3, count.value * 3, 3, 0),
        (-2 * count, count.value * -2, -2, 0),
        (count / 8, count.value / 8, 1 / 8, 0),
        (-count, -count.value, -1, 0),
    ]:
        assert found.value == value
        assert found.standard_error == abs(times) * error
        assert list(found.interval()) == sorted([low * times + shift, high * times + shift])
        assert found.event == count.event
    assert type((count + 1).value) is int
    mean = fd.private_mean(ROWS, bounds=(0, 60), epsilon=1.0)
    low, high = mean.interval(0.9)
    for found, ends in [
        (1 - mean, (1 - high, 1 - low)),
        (2 * mean + 1, (2 * low + 1, 2 * high + 1)),
        ((mean + 1) * -2, (-2 * high - 2, -2 * low - 2)),
    ]:
        assert found.interval(0.9) == pytest.approx(ends)


def test_an_estimate_is_a_number_where_one_is_needed():
    count = a_count()
    assert (float(count), int(count), round(count / 3, 1), f"{count / 4:.2f}", f"{count}") == (
        float(count.value),
        count.value,
        round(count.value / 3, 1),
        f"{count.value / 4:.2f}",
        str(count.value),
    )
    for other in (count, "a", True, None):
        with pytest.raises(InvalidType):
            count + other
    with pytest.raises(InvalidType, match="value > 0"):
        bool(count)
    with pytest.raises(InvalidType, match="one number"):
        count[0]
    with pytest.raises(InvalidParameter, match="finite"):
        count + math.inf
    with pytest.raises(ZeroDivisionError):
        count / 0


def test_histograms_have_places_edges_labels_and_tables():
    pandas = pytest.importorskip("pandas")
    binned = fd.private_histogram(ROWS, bins=EDGES, epsilon=1.0)
    assert len(binned) == 3
    assert binned.edges.tolist() == EDGES
    assert [int(binned[i]) for i in range(3)] == binned.value.tolist()
    assert [int(each) for each in binned] == binned.value.tolist()
    assert binned[-1].interval().lower == binned.interval().lower[-1]
    assert binned[:2].value.tolist() == binned.value[:2].tolist()
    frame = binned.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.index.tolist() == ["[0, 15)", "[15, 30)", "[30, 60]"]
    assert frame["value"].tolist() == binned.value.tolist()
    assert (frame["upper"] - frame["lower"]).tolist() == [2.0 * _noise.half_width(binned._law.mechanism, 0.95)] * 3
    named = fd.private_histogram(["a", "b"], categories=["b", "<i>"], epsilon=1.0)
    assert named.labels == ("b", "<i>")
    assert named[1].labels is None or named[1].labels == ("<i>",)
    assert "&lt;i&gt;" in named._repr_html_()
    assert "<i>" not in named._repr_html_()
    assert json.loads(json.dumps(named.to_dict()))["labels"] == ["b", "<i>"]
    assert len(repr(fd.private_histogram(ROWS, bins=np.arange(1000), epsilon=1.0))) < 200


def test_tables_of_polars_and_arrow_have_the_same_columns_and_labels():
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    groups = fd.private_group_by({"a": [1, 2], "b": ["x", "y"]}, ["a", "b"], keys={"a": [1, 2], "b": ["x", "y"]})
    of_groups, whole = groups.count(epsilon=1.0), fd.private_count([1, 2], epsilon=1.0)
    for library, kind in (("polars", polars.DataFrame), ("arrow", arrow.Table)):
        frame = of_groups.to_frame(library=library)
        assert isinstance(frame, kind)
        names = list(getattr(frame, "column_names", getattr(frame, "columns", None)))
        assert names == ["label_0", "label_1", "value", "standard_error", "lower", "upper", "unit"]
        columns = frame.to_pydict() if library == "arrow" else frame.to_dict(as_series=False)
        assert (columns["label_0"], columns["label_1"]) == ([1, 1, 2, 2], ["x", "y", "x", "y"])
        assert columns["value"] == of_groups.value.tolist()
        assert columns["unit"] == ["one row"] * 4
        assert str(whole.to_frame(library=library)["label"][0]) == whole.statistic
    mixed = fd.private_histogram(["1", 1], categories=["1", 1], epsilon=1.0).to_frame(library="polars")
    assert mixed["label"].to_list() == ["1", "1"]
    day = datetime.date(2024, 1, 1)
    means = fd.private_group_by({"g": ["a"], "d": [day]}, "g", keys=["a"]).mean(
        "d", bounds=(day, day.replace(year=2025)), epsilon=1.0
    )
    assert str(means.to_frame(library="polars")["value"].dtype).startswith("Datetime")
    table = fd.release({"age": [30.0]}, sums={"age": (0, 100)}, epsilon=1.0)
    assert table.to_frame(library="arrow").column_names == ["label", "count", "age"]


def test_a_table_of_another_library_is_refused(monkeypatch):
    estimate = fd.private_count([1], epsilon=1.0)
    with pytest.raises(InvalidParameter, match='library must be "pandas", "polars" or "arrow"'):
        estimate.to_frame(library="dask")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingPackage, match="pip install polars"):
        estimate.to_frame(library="polars")


def test_a_quantile_has_no_interval_and_a_table_all_the_same():
    pytest.importorskip("pandas")
    median = fd.private_quantile(ROWS, 0.5, bounds=(0, 60), epsilon=1.0)
    with pytest.raises(InvalidParameter, match="ranks"):
        median.interval()
    assert median.to_frame().columns.tolist() == ["value", "standard_error", "unit"]
    assert "quantile 0.5" in median._repr_html_()
    for level in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(InvalidParameter, match="level"):
            a_count().interval(level)
