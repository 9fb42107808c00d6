"""Statistics of tables in partitions: integers, event and payment of one process, or a refusal before it."""

import collections
import contextlib
import datetime
import decimal
import fractions
import gc
import itertools
import math
import os
import pickle
import subprocess
import sys
import threading
import uuid
import weakref
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.distributed import private_statistic, statistics
from ferrodp.errors import FerroError, InvalidArray, InvalidParameter, InvalidType
from ferrodp.statistics import models, private_quantile_bins
from ferrodp.statistics.keys.routes import routes_of
from ferrodp.statistics.models._sums import Summed
from ferrodp.statistics.parts import exact, multisets
from ferrodp.statistics.parts.unions import Different, KeysOfUnits, Tally

ROWS, PARTS = 600, 5
KEYS = ["n", "s", "w"]
FIRST = {"unit": "person", "keep": "first"}


def by_region(frame, **options):
    return fd.private_group_by(frame, "region", keys=KEYS, **options)


def count(frame, **pay):
    return fd.private_count(frame["ill"], epsilon=1.0, **pay)


def count_of_units(frame, **pay):
    return fd.private_count(frame["ill"], epsilon=1.0, unit=frame["person"], max_contributions=2, keep="first", **pay)


def total(frame, **pay):
    return fd.private_sum(frame["pay"], bounds=(-3, 100), epsilon=1.0, **pay)


def total_of_units(frame, **pay):
    owners = {"unit": frame["person"], "max_contributions": 2, "keep": "first"}
    return fd.private_sum(frame["pay"], bounds=(0, 100), epsilon=1.0, delta=1e-6, **owners, **pay)


def mean(frame, **pay):
    return fd.private_mean(frame["pay"], bounds=(0, 100), epsilon=1.0, **pay)


def by_bin(frame, **pay):
    return fd.private_histogram(frame["pay"], bins=[0, 10, 50, 100], epsilon=1.0, **pay)


def by_category(frame, **pay):
    return fd.private_histogram(frame["region"], categories=["n", "s", "e", "x"], epsilon=1.0, **pay)


def median(frame, **pay):
    return fd.private_median(frame["pay"], bounds=(0, 100), epsilon=1.0, **pay)


def deciles(frame, **pay):
    owners = {"unit": frame["person"], "max_contributions": 2, "keep": "first"}
    levels = {"interval_level": 0.9, "epsilon": 3.0}
    return fd.private_quantiles(frame["pay"], [0.1, 0.5, 0.9], bounds=(0, 100), **levels, **owners, **pay)


def tables(frame, **pay):
    return fd.private_marginals(
        frame, 2, categories={"region": KEYS, "ill": [False, True]}, bins={"pay": [0, 50, 100]}, epsilon=1.0,
        delta=1e-6, **pay,
    )  # fmt: skip


def tables_of_units(frame, **pay):
    owners = {"unit": "person", "max_contributions": 2, "keep": "first"}
    return fd.private_marginals(
        frame, 1, categories={"region": KEYS}, bins={"pay": [0, 50, 100]}, epsilon=1.0, delta=1e-6, **owners, **pay
    )


def counts_of_groups(frame, **pay):
    return by_region(frame, rows_per_unit=2, **FIRST).count(epsilon=1.0, **pay)


def sums_of_groups(frame, **pay):
    limits = {"groups_per_unit": 2, "rows_per_group": 2}
    return by_region(frame, **limits, **FIRST).sum("pay", bounds=(0, 100), epsilon=1.0, delta=1e-6, **pay)


def means_of_groups(frame, **pay):
    return by_region(frame).mean("pay", bounds=(0, 100), epsilon=1.0, **pay)


def variances_of_groups(frame, **pay):
    return by_region(frame).variance("pay", bounds=(0, 100), epsilon=1.0, **pay)


def bins_of_groups(frame, **pay):
    return by_region(frame).histogram("pay", bins=[0, 50, 100], epsilon=1.0, **pay)


def variance(frame, **pay):
    return fd.private_variance(frame["pay"], bounds=(0, 100), epsilon=1.0, **pay)


def spread_of_units(frame, **pay):
    owners = {"unit": frame["person"], "max_contributions": 2, "keep": "first"}
    return fd.private_standard_deviation(frame["pay"], bounds=(0, 100), epsilon=1.0, **owners, **pay)


def largest(frame, **pay):
    return fd.private_max(frame["pay"], bounds=(0, 100), epsilon=1.0, **pay)


def smallest_near_a_rank(frame, **pay):
    return fd.private_min(frame["pay"], bounds=(0, 100), rank=3, epsilon=1.0, **pay)


def found_bounds(frame, **pay):
    return fd.private_bounds(frame["pay"], magnitudes=(0.01, 1e4), epsilon=1.0, **pay)


def most_frequent(frame, **pay):
    return fd.private_top(frame["region"], 2, categories=["n", "s", "e", "x"], epsilon=1.0, **pay)


def medians_of_groups(frame, **pay):
    return by_region(frame).median("pay", bounds=(0, 100), epsilon=1.0, **pay)


def deciles_of_groups(frame, **pay):
    return by_region(frame, rows_per_unit=2, **FIRST).quantiles("pay", [0.1, 0.9], bounds=(0, 100), epsilon=1.0, **pay)


def largest_of_groups(frame, **pay):
    return by_region(frame).max("pay", bounds=(0, 100), epsilon=1.0, **pay)


def deviations_of_groups(frame, **pay):
    return by_region(frame).standard_deviation("pay", bounds=(0, 100), epsilon=1.0, **pay)


def different_of_groups(frame, **pay):
    return by_region(frame, rows_per_unit=2, **FIRST).distinct("code", epsilon=1.0, **pay)


def different_labels_of_groups(frame, **pay):
    return by_region(frame).distinct("region", epsilon=1.0, delta=1e-6, **pay)


def bounds_of_groups(frame, **pay):
    return by_region(frame).bounds("pay", epsilon=1.0, **pay)


def tops_of_groups(frame, **pay):
    return by_region(frame).top("code", 2, categories=range(1, 9), epsilon=1.0, **pay)


def bins_of_columns(frame, **pay):
    ends = {"pay": (0, 100), "code": (0, 60)}
    return private_quantile_bins(frame, 4, bounds=ends, epsilon=6.0, **pay)


def bins_of_units(frame, **pay):
    return private_quantile_bins(frame, 3, bounds={"pay": (0, 100)}, epsilon=6.0, unit="person", keep="first", **pay)


def different(frame, **pay):
    return fd.private_distinct(frame["pay"], epsilon=1.0, **pay)


def different_labels(frame, **pay):
    return fd.private_distinct(frame["region"], epsilon=1.0, **pay)


def different_of_units(frame, **pay):
    owners = {"unit": frame["person"], "max_contributions": 2, "keep": "first"}
    return fd.private_distinct(frame["pay"], epsilon=1.0, **owners, **pay)


def found_codes(frame, **pay):
    keys = fd.KeyThreshold(epsilon=1.0, delta=1e-6)
    return fd.private_group_by(frame, "code", keys=keys, **pay)


def found_pairs(frame, **pay):
    keys = fd.KeyThreshold(epsilon=1.0, delta=1e-6)
    return fd.private_group_by(frame, ["code", "ill"], keys=keys, **pay).found_counts


def found_codes_of_units(frame, **pay):
    keys = fd.KeyThreshold(epsilon=1.0, delta=1e-6)
    limits = {"groups_per_unit": 2, "rows_per_group": 2}
    return fd.private_group_by(frame, "code", keys=keys, **limits, **FIRST, **pay)


def selected_codes(frame, **pay):
    keys = fd.KeySelection(epsilon=1.0, delta=1e-6)
    return fd.private_group_by(frame, "code", keys=keys, groups_per_unit=1, **FIRST, **pay)


def features(frame):
    return {name: frame[name] for name in ("pay", "code")}


def moments_of_columns(frame, **pay):
    options = {"bounds": ([0, 0], [100, 20]), "clip_norm": 1.0, "epsilon": 1.0, "delta": 1e-6}
    return models.private_moments(features(frame), **options, **pay)


def moments_of_units(frame, **pay):
    options = {"bounds": ([0, 0], [100, 20]), "clip_norm": 1.0, "epsilon": 1.0, "delta": 1e-6}
    owners = {"unit": frame["person"], "max_contributions": 2, "keep": "first"}
    return models.private_moments(features(frame), **options, **owners, **pay)


def bayes(frame, **pay):
    options = {"bounds": ([0, 0], [100, 20]), "clip_norm": 1.0, "epsilon": 1.0, "delta": 1e-6}
    return models.private_naive_bayes(features(frame), frame["region"], classes=KEYS, **options, **pay)


def scales(frame, **pay):
    return models.private_scales(features(frame), bounds=([0, 0], [100, 20]), epsilon=1.0, delta=1e-6, **pay)


def categories(frame, **pay):
    columns = {"code": list(range(1, 6)), "ill": [False, True]}
    return models.private_categorical_bayes(
        frame, frame["region"], classes=KEYS, categories=columns, epsilon=1.0, **pay
    )


def categories_of_units(frame, **pay):
    owners = {"unit": frame["person"], "max_contributions": 2, "keep": "first"}
    options = {"categories": {"code": list(range(1, 6))}, "epsilon": 1.0, "delta": 1e-6}
    return models.private_categorical_bayes(frame, frame["region"], classes=KEYS, **options, **owners, **pay)


def united_codes(frame, **pay):
    keys = fd.KeyUnion(epsilon=4.0, delta=1e-3)
    return fd.private_group_by(frame, "code", keys=keys, groups_per_unit=20, **FIRST, **pay)


def united_pairs(frame, **pay):
    keys = fd.KeyUnion(epsilon=4.0, delta=1e-3)
    return fd.private_group_by(frame, ["code", "ill"], keys=keys, **pay)


def rows_per_unit(frame, **pay):
    return fd.private_rows_per_unit(frame["person"], at_most=50, epsilon=1.0, **pay)


PLAIN = [count, total, mean, by_bin, by_category, median, tables, means_of_groups, variances_of_groups, bins_of_groups]
PLAIN += [variance, largest, smallest_near_a_rank, found_bounds, most_frequent, medians_of_groups, largest_of_groups]
PLAIN += [deviations_of_groups, different_labels_of_groups, bounds_of_groups, tops_of_groups]
PLAIN += [bins_of_columns, different, different_labels, found_codes, found_pairs]
PLAIN += [moments_of_columns, bayes, scales, categories, united_pairs]
OF_UNITS = [count_of_units, total_of_units, deciles, tables_of_units, counts_of_groups, sums_of_groups]
OF_UNITS += [
    different_of_groups,
    spread_of_units,
    deciles_of_groups,
    different_of_units,
    found_codes_of_units,
    selected_codes,
]
OF_UNITS += [moments_of_units, bins_of_units, categories_of_units, united_codes, rows_per_unit]


def table(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    pay = rng.normal(50, 40, rows)
    pay[::17] = np.nan
    pay[5::41] = np.inf
    return {
        "pay": pay,
        "region": rng.choice(["n", "s", "e"], rows),
        "person": rng.integers(0, rows // 3, rows),
        "ill": rng.integers(0, 2, rows).astype(bool),
        "code": rng.geometric(0.2, rows),
    }


def cut(frame, parts=PARTS):
    """Cut a table at uneven places, one part empty."""
    rows = len(frame["pay"])
    ends = [0, rows // 7, rows // 7, rows // 3, rows // 3 + 1, rows][: parts + 1]
    return [{name: column[a:b] for name, column in frame.items()} for a, b in itertools.pairwise(ends)]


def numbers(found):
    if isinstance(found, models.CategoricalBayes):
        return [found.class_counts.tolist(), *(each.tolist() for each in found.counts)]
    if isinstance(found, (models.PrivateMoments, models.NaiveBayes, models.ColumnScales)):
        names = ("count", "mean", "covariance", "priors", "means", "variances", "variance")
        return {name: np.asarray(getattr(found, name)).tolist() for name in names if hasattr(found, name)}
    if isinstance(found, fd.statistics.PrivateGroups):
        counts = found.found_counts
        return {"keys": found.keys, "counts": counts if counts is None else counts.value.tolist()}
    several = isinstance(found, (fd.statistics.PrivateMarginals, fd.statistics.ReleasedTable))
    tables_of = found if several else {"": found}
    return {name: np.asarray(tables_of[name].value).tolist() for name in tables_of}


@pytest.fixture
def seed():
    return lambda: fd.testing.seeded(b"parts".ljust(32))


@pytest.mark.parametrize("release", PLAIN + OF_UNITS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("pool", ["threads", "processes"])
def test_what_is_released_of_partitions_is_what_is_released_of_their_table(release, pool, seed):
    """The same noise is drawn for both: numbers are equal only if all integers under them are."""
    frame, unit = table(), "person" if release in OF_UNITS else None
    alone = release(frame, source=seed(), ticket=None)
    with ThreadPoolExecutor(2) if pool == "threads" else ProcessPoolExecutor(1) as executor:
        spread = private_statistic(cut(frame), release, unit=unit, executor=executor, source=seed())

    assert numbers(alone) == numbers(spread)
    assert alone.event == spread.event
    if isinstance(alone, fd.statistics.Estimate):
        assert (alone.statistic, alone.unit, alone.labels) == (spread.statistic, spread.unit, spread.labels)
        if release not in (
            median,
            medians_of_groups,
            deciles_of_groups,
            found_bounds,
            bounds_of_groups,
        ):  # which have none
            assert np.array_equal(alone.interval(0.9), spread.interval(0.9))


@pytest.mark.parametrize("release", PLAIN + OF_UNITS, ids=lambda each: each.__name__)
def test_with_rows_and_numbers_on_a_disk_the_same_is_released(release, seed, tmp_path, monkeypatch):
    monkeypatch.setattr(multisets, "FEW", 3)
    monkeypatch.setattr(multisets, "_ALL", 3)
    frame, unit = table(), "person" if release in OF_UNITS else None
    alone = release(frame, source=seed(), ticket=None)
    for executor in (None, ThreadPoolExecutor(2)):
        options = {"executor": executor, "scratch": tmp_path, "source": seed()}
        spread = private_statistic(cut(frame), release, unit=unit, **options)
        assert numbers(alone) == numbers(spread)
        assert alone.event == spread.event
        assert not [*tmp_path.iterdir()]


class Watching:
    """A release that keeps which files there are while it counts, and fails if it is so wanted."""

    def __init__(self, folder, fails):
        self.folder, self.fails, self.seen = folder, fails, set()

    def __call__(self, frame, **pay):
        self.seen.update((each.is_dir(), each.stat().st_mode & 0o777) for each in self.folder.rglob("*"))
        if self.fails and len(frame["pay"]):
            raise OSError("no space")
        return deciles(frame, **pay)


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_on_the_disk_is_for_its_owner_alone_and_gone_in_the_end(fails, tmp_path):
    old, release = os.umask(0), Watching(tmp_path, fails)
    try:
        with contextlib.ExitStack() as stack:
            if fails:
                stack.enter_context(pytest.raises(OSError, match="no space"))
            executor = stack.enter_context(ThreadPoolExecutor(3))
            private_statistic(cut(table()), release, unit="person", executor=executor, scratch=tmp_path)
    finally:
        os.umask(old)
    assert release.seen == {(True, 0o700), (False, 0o600)}
    assert not [*tmp_path.iterdir()]


def dies_with_rows(frame, **pay):
    if len(frame["pay"]):
        os._exit(1)
    return deciles(frame, **pay)


def test_a_worker_that_dies_leaves_nothing_on_the_disk(tmp_path):
    with ProcessPoolExecutor(2) as pool, pytest.raises(BrokenProcessPool):
        private_statistic(cut(table()), dies_with_rows, unit="person", executor=pool, scratch=tmp_path)
    assert not [*tmp_path.iterdir()]


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(InvalidType, match="scratch must be the path"):
        private_statistic(cut(table()), total, scratch=3)
    with pytest.raises(InvalidParameter, match="scratch must be a folder"):
        private_statistic(cut(table()), total, scratch=tmp_path / "none")


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_partitions_are_read_in_step_with_the_work(workers, seed):
    """Beside the four that are joined next, two for each worker at most."""
    begun, loaded, ahead = [], [], []

    def partitions():
        for part in [*cut(table()), *cut(table(seed=1)), *cut(table(seed=2)), *cut(table(seed=3))]:
            begun.append(part)
            ahead.append(len(begun) - len(loaded))
            yield part

    def load(part):
        loaded.append(part)
        return part

    with ThreadPoolExecutor(workers) if workers else contextlib.nullcontext() as executor:
        spread = private_statistic(partitions(), median, load=load, executor=executor, source=seed())

    whole = [table(seed=number) for number in range(4)]
    joined = {name: np.concatenate([each[name] for each in whole]) for name in whole[0]}
    assert numbers(spread) == numbers(median(joined, source=seed()))
    assert max(ahead) <= 4 + 2 * max(workers, 1)


def test_a_partition_that_was_counted_is_not_kept_in_memory():
    frame = table()
    kept = weakref.ref(frame["pay"])
    state = statistics.Part(total, None).count(frame)
    del frame
    gc.collect()
    assert kept() is None
    assert len(state.columns["pay"]) == 0


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "lists"])
@pytest.mark.parametrize("release", [total_of_units, counts_of_groups, tables], ids=lambda each: each.__name__)
def test_tables_of_all_libraries_are_partitions(library, release, seed):
    frame = table()
    lists = {name: column.tolist() for name, column in frame.items()}
    if library == "lists":
        parts, whole = cut(lists), lists
    else:
        module = pytest.importorskip(library)
        whole = module.table(lists) if library == "pyarrow" else module.DataFrame(lists)
        ends = [0, 0, 90, 91, ROWS]
        parts = [whole.slice(a, b - a) if library == "pyarrow" else whole[a:b] for a, b in itertools.pairwise(ends)]
    alone = release(whole, source=seed(), ticket=None)
    spread = private_statistic(parts, release, unit=None if release is tables else "person", source=seed())

    assert numbers(alone) == numbers(spread)


@pytest.mark.parametrize("release", [different_of_units, found_codes_of_units, moments_of_units, sums_of_groups])
def test_fragments_of_an_arrow_dataset_on_disk_are_partitions(release, seed, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    dataset = pytest.importorskip("pyarrow.dataset")
    frame = table()
    whole = arrow.table(frame)
    for number, part in enumerate(cut(frame)):
        dataset.write_dataset(
            arrow.table(part), tmp_path, format="parquet", basename_template=f"{number}-{{i}}.parquet",
            existing_data_behavior="overwrite_or_ignore",
        )  # fmt: skip
    fragments = sorted(dataset.dataset(tmp_path).get_fragments(), key=lambda fragment: fragment.path)
    assert len(fragments) == PARTS - 1  # one is empty
    with ProcessPoolExecutor(1) as executor:
        spread = private_statistic(
            fragments, release, unit="person", load=read_fragment, executor=executor, source=seed()
        )

    alone = release(read_fragment(whole), source=seed(), ticket=None)
    assert numbers(alone) == numbers(spread)


def read_fragment(fragment):
    held = fragment.to_table() if hasattr(fragment, "to_table") else fragment
    return {name: held[name] for name in held.column_names}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "numpy", "lists"])
def test_no_row_of_a_partition_travels_with_its_integers(library):
    rows = {"name": [f"row {number:05}" for number in range(3000)], "pay": [float(number) for number in range(3000)]}
    if library == "numpy":
        rows = {name: np.array(column) for name, column in rows.items()}
    elif library != "lists":
        module = pytest.importorskip(library)
        rows = module.table(rows) if library == "pyarrow" else module.DataFrame(rows)
    state = statistics.Part(total, None)(rows)
    sent = pickle.dumps(state)

    assert len(sent) < 4000
    assert b"row 0" not in sent
    assert statistics.join(pickle.loads(sent), state).types == state.types


UNITS, VALUES = (0, 1), (-1.0, 0.75, math.nan)


@pytest.mark.parametrize(
    "release",
    [
        *[
            count,
            total,
            mean,
            by_bin,
            median,
            tables,
            means_of_groups,
            variance,
            largest,
            found_bounds,
            different,
            found_codes,
            found_pairs,
        ],
        *[moments_of_columns, bayes, scales, different_labels, categories, united_pairs, *OF_UNITS],
    ],
    ids=lambda each: each.__name__,
)
def test_integers_of_all_small_tables_are_those_of_one_process_however_they_are_cut(release):
    """Every table of at most three rows over two units and three values, and every way to put rows into two parts."""
    unit = "person" if release in OF_UNITS else None
    part = statistics.Part(release, unit)
    rows = list(itertools.product(UNITS, VALUES))
    for size in (1, 2, 3):
        for chosen in itertools.combinations_with_replacement(rows, size):
            whole = frame_of(chosen)
            expected = part.count(whole).counted
            for places in itertools.product((0, 1), repeat=size):
                # those of one part, then those of the other: a unit's rows keep their order among each other only so
                ordered = frame_of(
                    [row for side in (0, 1) for row, at in zip(chosen, places, strict=True) if at == side]
                )
                one = part.count(ordered).counted
                parts = [
                    frame_of([row for row, at in zip(chosen, places, strict=True) if at == side]) for side in (0, 1)
                ]
                if unit is None:
                    states = [part(each) for each in parts]
                    assert same(one.integers, expected.integers)  # no order of rows matters
                else:
                    split = [part.split(each, 2) for each in parts]
                    states = [part.count_pieces(*(each[piece] for each in split)) for piece in (0, 1)]
                found = statistics.join(*states).counted
                assert same(found.integers, one.integers), (chosen, places)
                assert found.public == one.public


def frame_of(rows):
    return {
        "pay": np.array([value for _, value in rows], float),
        "region": np.array([KEYS[0 if value != value else int(value > 0)] for _, value in rows], "U1"),
        "person": np.array([owner for owner, _ in rows], np.int64),
        "ill": np.array([owner == 0 for owner, _ in rows], bool),
        "code": np.array([int(4 * value) if value == value else 9 for _, value in rows], np.int64),
    }


def family(held):
    """Return how many units have each set of keys, in the form that they are compared by."""
    keys, sets = list(held.keys), {}
    assert keys == sorted(keys)
    for owner, code in zip(held.owners.tolist(), held.codes.tolist(), strict=True):
        assert keys[code] not in sets.setdefault(owner, set())  # a pair is there once
        sets[owner].add(keys[code])
    return collections.Counter(map(frozenset, sets.values())), held.keys


def same(first, second):
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, Different):
        return np.array_equal(sorted(first.values), sorted(second.values))
    if isinstance(first, KeysOfUnits):
        return family(first) == family(second)
    return first == second if isinstance(first, (Tally, Summed)) else np.array_equal(first, second)


@pytest.mark.parametrize("release", [by_bin, tables, counts_of_groups, sums_of_groups], ids=lambda each: each.__name__)
def test_integers_that_an_engine_sends_are_read_and_left_as_they_are(release, seed):
    """Of arrays that may not be written to: noise is added in place, to a copy."""
    unit = "person" if release in OF_UNITS else None
    frame = table()
    counted = statistics.Part(release, unit).count(frame).counted

    def lock(integers):
        for each in integers if isinstance(integers, (list, tuple)) else [integers]:
            lock(each) if isinstance(each, (list, tuple)) else each.setflags(write=False)

    lock(counted.integers)
    empty = {name: column[:0] for name, column in frame.items()}
    found = exact.released(release, empty, unit, counted, source=seed(), ticket=None)

    assert numbers(release(frame, source=seed(), ticket=None)) == numbers(found)


def test_a_random_subset_keeps_the_bound_of_a_unit_across_partitions():
    """1200 rows of 40 units in 6 partitions: of each unit 5 rows count, wherever its rows were."""
    rng = np.random.default_rng(1)
    frame = {"person": rng.integers(0, 40, 1200), "pay": np.ones(1200)}

    def release(frame, **pay):
        owners = {"unit": frame["person"], "max_contributions": 5}
        return fd.private_sum(frame["pay"], bounds=(0, 1), epsilon=1.0, **owners, **pay)

    part = statistics.Part(release, "person")
    split = [part.split({name: column[i::6] for name, column in frame.items()}, 4) for i in range(6)]
    states = [part.count_pieces(*(each[piece] for each in split)) for piece in range(4)]
    steps, beyond = statistics.join(*states).counted.integers
    width = fd.private_sum(frame["pay"], bounds=(0, 1), epsilon=1.0)._law.width

    assert (steps + beyond / 2**22) * width == 40 * 5


def test_of_a_unit_with_many_keys_in_all_partitions_no_more_have_weight_than_in_one_process(seed):
    """40 units with 30 keys each, of which 2 may have weight: sums of weights are those of 80 pairs in each round."""
    rng = np.random.default_rng(1)
    frame = {"person": rng.integers(0, 40, 2400), "code": rng.integers(0, 30, 2400)}
    sums = []

    class Recorded(fd.KeyUnion):
        def _some(self, owners, degrees, groups, drawn):
            kept = fd.KeyUnion._some(owners, degrees, groups, drawn)
            sums.append(np.bincount(owners[kept]).max(initial=0))
            return kept

    def release(frame, **pay):
        keys = Recorded(epsilon=1.0, delta=1e-6)
        return fd.private_group_by(frame, "code", keys=keys, unit="person", groups_per_unit=2, **pay)

    parts = [{name: column[i::6] for name, column in frame.items()} for i in range(6)]
    spread = private_statistic(parts, release, unit="person", source=seed())

    assert len(sums) == 3
    assert max(sums) == 2
    assert set(spread.keys) <= set(range(30))


def test_a_union_of_keys_is_the_same_whatever_units_are_called_and_in_which_order_their_pairs_are(seed):
    rng = np.random.default_rng(2)
    pairs = np.unique(np.column_stack([rng.integers(0, 50, 400), rng.geometric(0.2, 400) % 30]), axis=0)
    keys = fd.KeyUnion(epsilon=4.0, delta=1e-3)
    found = keys._found(pairs[:, 0], pairs[:, 1], 30, 30, seed())

    assert 0 < found.size < 30
    for _ in range(5):
        order, names = rng.permutation(len(pairs)), rng.permutation(50)
        assert np.array_equal(keys._found(names[pairs[order, 0]], pairs[order, 1], 30, 30, seed()), found)


EQUAL = [
    [7, 7.0, np.int8(7), np.float32(7.0), decimal.Decimal("7.00"), fractions.Fraction(7)],
    [True, 1, 1.0],
    ["7", np.str_("7")],
    [b"7", np.bytes_(b"7")],
    [uuid.UUID(int=5), uuid.UUID(int=5)],
    [datetime.date(2020, 1, 2), np.datetime64("2020-01-02")],
    [
        datetime.datetime(2020, 1, 2, 12, tzinfo=datetime.UTC),
        datetime.datetime(2020, 1, 2, 14, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
    ],
    [datetime.timedelta(days=1), np.timedelta64(24, "h")],
    [("a", 7), ("a", 7.0)],
]
PRINTED = """
from ferrodp.statistics.keys.routes import routes_of
print(routes_of({"id": ["7", b"x", ("a", 7), 2.5]}, "id"))
"""


def ways(ids):
    return routes_of({"id": ids}, "id")


def test_ids_that_are_equal_go_one_way_and_many_ids_go_many():
    for ids in EQUAL:
        routes = {int(ways([each])[0]) for each in ids}
        assert len(routes) == 1, ids
        array = np.array([ids[0]])
        if array.ndim == 1 and array.dtype.kind in "biufUS":
            assert int(ways(array)[0]) in routes
    routes = ways([f"person {number}" for number in range(4000)]) % np.uint64(4)
    # each of four counts is binomial about 1000 with a deviation of 27.4; 7 of them are left with chance 2.6e-12
    assert np.abs(np.bincount(routes.astype(int), minlength=4) - 1000).max() < 192
    assert len({int(each) for each in ways(np.arange(100.0))}) == 100


def test_routes_of_integers_are_those_of_python():
    near = [sign * (factor * (2**61 - 1) + off) for sign in (-1, 1) for factor in range(4) for off in (-2, -1, 0, 1, 2)]
    known = [*near, 2**63 - 1, -(2**63), *np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 200).tolist()]
    assert ways(np.array(known)).tolist() == ways(known).tolist() == [hash(each) % 2**64 for each in known]
    large = [2**64 - 1, 2**63, 7]
    assert ways(np.array(large, np.uint64)).tolist() == ways(large).tolist()
    assert ways(np.array([-1, -128], np.int8)).tolist() == ways([-1, -128]).tolist()


def test_routes_are_the_same_in_every_process():
    found = {
        subprocess.run(
            [sys.executable, "-c", PRINTED], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip

    assert len(found) == 1


def found_regions(frame, **pay):
    keys = fd.KeyThreshold(epsilon=1.0, delta=1e-6)
    return fd.private_group_by(frame, "region", keys=keys, **pay).found_counts


def test_found_labels_are_noised_in_ascending_order_whichever_partition_has_them_first(seed):
    """One process takes the labels in the order of the table: of a table in ascending order it is the same."""
    frame = table()
    order = np.argsort(frame["region"], kind="stable")
    alone = found_regions({name: column[order] for name, column in frame.items()}, source=seed(), ticket=None)

    for parts in (cut(frame), cut(frame)[::-1], [frame]):
        spread = private_statistic(parts, found_regions, source=seed())
        assert (alone.labels, alone.value.tolist()) == (spread.labels, spread.value.tolist())


def test_statistics_of_groups_whose_rows_are_in_partitions_are_refused_and_their_keys_are_for_others(tmp_path):
    groups = private_statistic(cut(table()), found_codes)
    with pytest.raises(InvalidParameter, match="they are in partitions"):
        groups.count(epsilon=1.0)
    with pytest.raises(InvalidParameter, match="they are in partitions"):
        groups.median("pay", bounds=(0, 100), epsilon=1.0)

    def means(frame, **pay):
        return fd.private_group_by(frame, "code", keys=groups.keys).mean("pay", bounds=(0, 100), epsilon=1.0, **pay)

    assert len(groups.most_frequent(2).labels) == 2
    assert private_statistic(cut(table()), means).labels == groups.keys


def test_one_ticket_pays_for_found_keys(tmp_path):
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("survey", epsilon=9.0, delta=1e-5, measure="pure")
        ticket = ledger.reserve("survey", fd.events.EpsilonDeltaEvent(epsilon=1.0, delta=1e-6))
        private_statistic(cut(table()), found_codes, ticket=ticket)
        with pytest.raises(fd.errors.TicketError):
            private_statistic(cut(table()), found_codes, ticket=ticket)


VALUES_OF_MANY_TYPES = """
import datetime, fractions, ipaddress, uuid
VALUES = ["7", b"7", 7, 2.5, ("a", 7), ("a", ("b", b"c")), fractions.Fraction(1, 3), uuid.UUID(int=5)]
VALUES += [datetime.date(2020, 1, 2), datetime.timedelta(1), ipaddress.ip_address("1.2.3.4"), None, [], 7.0]
"""
WRITTEN = (
    VALUES_OF_MANY_TYPES
    + """
import pickle, sys
import ferrodp as fd
from ferrodp.distributed import statistics
def release(frame, **pay):
    return fd.private_distinct(frame["value"], epsilon=1.0, **pay)
sys.stdout.buffer.write(pickle.dumps(statistics.Part(release, None)({"value": VALUES}).counted.integers))
"""
)


def test_values_that_come_from_other_processes_are_those_of_this_one():
    """Their hashes differ there: a set of them that kept those would hold values twice."""
    space = {}
    exec(VALUES_OF_MANY_TYPES, space)
    part = statistics.Part(lambda frame, **pay: fd.private_distinct(frame["value"], epsilon=1.0, **pay), None)
    here = part({"value": space["VALUES"]}).counted.integers
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        sent = subprocess.run([sys.executable, "-c", WRITTEN], env=environment, capture_output=True, check=True).stdout
        here = exact.added(here, pickle.loads(sent))
        # of fourteen, None and the list are no values, and 7.0 is 7
        assert len(here) == 11


def test_values_of_several_partitions_count_once_and_a_task_that_is_run_twice_changes_nothing():
    part = statistics.Part(different_labels, None)
    states = [part(each) for each in cut(table())]

    assert len(statistics.join(*states).counted.integers) == 3
    assert statistics.join(*states, *states).counted.integers == statistics.join(*states).counted.integers


def paid(tmp_path, release, parts, **options):
    """Release with a ticket; return the states of tickets after a refusal, or after the release."""
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("survey", epsilon=9.0, delta=1e-5)
        ticket = ledger.reserve("survey", fd.events.EpsilonDeltaEvent(epsilon=1.0, delta=0.0))
        try:
            private_statistic(parts, release, ticket=ticket, **options)
        finally:
            states = [each.state.value for each in ledger.tickets("survey")]
        return states


def test_one_ticket_pays_for_all_partitions(tmp_path):
    assert paid(tmp_path, total, cut(table())) in (["armed"], ["spent"])


def bounds_from_rows(frame, **pay):
    top = float(np.max(frame["pay"], where=np.isfinite(frame["pay"]), initial=1.0))
    return fd.private_sum(frame["pay"], bounds=(0, top), epsilon=1.0, **pay)


def bounds_without_rows(frame, **pay):
    return fd.private_sum(frame["pay"], bounds=(0, 100 if len(frame["pay"]) else 1), epsilon=1.0, **pay)


def two_statistics(frame, **pay):
    total(frame, **pay)
    return count(frame)


def other_unit(frame, **pay):
    return fd.private_count(frame["ill"], epsilon=1.0, unit=frame["region"], **pay)


def other_unit_of_groups(frame, **pay):
    return by_region(frame, unit="person").count(epsilon=1.0, **pay)


def union_of_other_units(frame, **pay):
    keys = fd.KeyUnion(epsilon=1.0, delta=1e-6)
    return fd.private_group_by(frame, "region", keys=keys, groups_per_unit=2, **FIRST, **pay)


def found_length(frame, **pay):
    options = {"bounds": ([0, 0], [100, 20]), "epsilon": 1.0, "delta": 1e-6}
    return models.private_moments(features(frame), **options, **pay)


def centers(frame, **pay):
    options = {"bounds": ([0, 0], [100, 20]), "clip_norm": 1.0, "epsilon": 1.0, "delta": 1e-6}
    return models.private_clusters(features(frame), 2, **options, **pay)


@pytest.mark.parametrize(
    ("release", "options", "error", "message"),
    [
        (bounds_from_rows, {}, InvalidParameter, "nothing but parameters"),
        (bounds_without_rows, {}, InvalidParameter, "nothing but parameters"),
        (count_of_units, {}, InvalidParameter, "unit must name the column"),
        (other_unit, {"unit": "person"}, InvalidParameter, "unit must name the column"),
        (other_unit_of_groups, {"unit": "region"}, InvalidParameter, "unit must name the column"),
        (union_of_other_units, {"unit": "region"}, InvalidParameter, "unit must name the column"),
        (rows_per_unit, {}, InvalidParameter, "unit must name the column"),
        (found_length, {}, InvalidParameter, "with a public clip_norm"),
        (centers, {}, InvalidParameter, "release must be a count"),
        (lambda frame, **pay: None, {}, FerroError, "called none"),
        (total, {"unit": "nobody"}, InvalidParameter, "must have a column 'nobody'"),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_what_is_no_statistic_of_partitions_is_refused_before_it_is_paid(tmp_path, release, options, error, message):
    with pytest.raises(error, match=message):
        paid(tmp_path, release, cut(table()), **options)
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        assert [each.state.value for each in ledger.tickets("survey")] == ["held"]


def test_a_second_statistic_of_one_release_is_refused(tmp_path):
    with pytest.raises(InvalidParameter, match="a second one"):
        private_statistic(cut(table()), two_statistics)


def test_partitions_of_other_types_are_refused_whatever_they_hold(tmp_path):
    parts = cut(table())
    for changed in ({"pay": parts[-1]["pay"].astype(np.float32)}, {"more": parts[-1]["pay"]}):
        for unit in (None, "person"):
            with pytest.raises(InvalidArray, match="same types"):
                private_statistic([*parts[:-1], parts[-1] | changed], total, unit=unit)
    with pytest.raises(InvalidArray, match="as many rows"):
        private_statistic([parts[0] | {"pay": np.ones(3)}], total)


def test_other_arguments_are_refused():
    parts = cut(table())
    for options, name in (({"unit": 3}, "unit"), ({"load": 3}, "load"), ({"executor": 3}, "executor")):
        with pytest.raises(InvalidType, match=name):
            private_statistic(parts, total, **options)
    with pytest.raises(InvalidType, match="release must be a function"):
        private_statistic(parts, "count")
    with pytest.raises(InvalidParameter, match="one partition at least"):
        private_statistic([], total)
    with pytest.raises(InvalidParameter, match="one partition at least"):
        private_statistic([], total_of_units, unit="person")
    with pytest.raises(InvalidParameter, match="given twice"):
        private_statistic([parts[0], parts[0]], total)


def test_tables_of_more_rows_than_sums_hold_are_refused():
    half = exact.Counted(0, b"", 2**30)

    assert (half + half).rows == 2**31
    with pytest.raises(InvalidParameter, match="at most 2147483648 rows"):
        half + half + exact.Counted(0, b"", 1)


def broken(frame, **pay):
    os._exit(1)


def test_a_worker_that_dies_leaves_the_ticket_unused(tmp_path):
    with ProcessPoolExecutor(1) as pool, pytest.raises(BrokenProcessPool):
        paid(tmp_path, broken, cut(table()), executor=pool)
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        assert [each.state.value for each in ledger.tickets("survey")] == ["held"]


def test_an_open_budget_pays_for_the_release_and_not_for_the_parts():
    with fd.budget(epsilon=2.0, parts=2) as spending:
        private_statistic(cut(table()), total)
        total(table())  # the other half
        with pytest.raises(fd.errors.BudgetExceeded):
            total(table())

    assert len(spending.report().charges) == 2


def test_statistics_of_whole_tables_are_not_disturbed_beside_one_of_parts():
    """What a thread counts in parts is that thread's: others release as ever."""
    done = threading.Event()
    seen = []

    def slow(frame, **pay):
        done.wait(10)
        return count(frame, **pay)

    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(private_statistic, cut(table()), slow)
        seen.append(type(count(table()).value))
        done.set()
        assert isinstance(running.result().value, int)
    assert seen == [int]


def test_parts_are_not_noised_by_another_release_than_counted_them(seed):
    """A function that says something else when it is called again is refused before it is paid."""
    frame = table()
    counted = statistics.Part(total, None).count(frame).counted
    empty = {name: column[:0] for name, column in frame.items()}

    def other(frame, **pay):
        return fd.private_sum(frame["pay"], bounds=(-3, 99), epsilon=1.0, **pay)

    with pytest.raises(InvalidParameter, match="nothing but parameters"):
        exact.released(other, empty, None, counted, source=seed(), ticket=None)
