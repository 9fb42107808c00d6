"""Numbers with their counts say of ranks what rows say that are repeated, in memory and in files."""

import itertools
import os
import stat

import numpy as np
import pytest

from ferrodp.statistics.parts import multisets
from ferrodp.statistics.parts.exact import added
from ferrodp.statistics.parts.multisets import Ascending, Multiset, Runs


def plain(rows, start, stop, step):
    """Of rows one by one: the different steps of some ranks, how many rows are below each, and at most that."""
    steps = step(rows)
    found = np.unique(steps[start:stop])
    return [(each, int((steps < each).sum()), int((steps <= each).sum())) for each in found.tolist()]


def read(held, start, stop, step):
    return list(zip(*(each.tolist() for each in held.steps(start, stop, step)), strict=True))


def halves(rows):
    return np.floor(rows / 2).astype(np.int64)


def forms(rows):
    """The same rows, each by itself and with counts."""
    return Ascending(rows), Multiset.of(rows).ascending()


@pytest.mark.parametrize("all_at_once", [0, 1 << 12])
def test_ranks_among_counts_are_those_among_repeated_rows(all_at_once, monkeypatch):
    """All multisets of up to six of four numbers, all ranges of ranks."""
    monkeypatch.setattr(multisets, "_ALL", all_at_once)
    for size in range(7):
        for each in itertools.combinations_with_replacement([-np.inf, 0.0, 1.0, 5.0], size):
            rows = np.array(each)
            for step in (halves, lambda rows: np.clip(rows, -1, 3).astype(np.int64)):
                safe = rows if step is not halves else np.clip(rows, -9, None)
                for held in forms(safe):
                    assert held.rows == size
                    for start, stop in itertools.combinations_with_replacement(range(size + 1), 2):
                        assert read(held, start, stop, step) == plain(safe, start, stop, step)


def test_ranks_among_many_numbers_are_found_without_a_step_of_each():
    rows = np.sort(np.random.default_rng(0).integers(0, 30_000, 60_000).astype(np.float64))
    seen = []

    def step(some):
        seen.append(some.size)
        return (some // 1000).astype(np.int64)

    for held in forms(rows):
        seen.clear()
        found = read(held, 31_000, 31_050, step)
        assert sum(seen) < 300
        assert found == plain(rows, 31_000, 31_050, lambda some: (some // 1000).astype(np.int64))


@pytest.mark.parametrize("number", [1, 2, 7])
def test_the_sum_of_files_is_the_sum_in_memory(number, tmp_path, monkeypatch):
    monkeypatch.setattr(multisets, "FEW", 40)
    monkeypatch.setattr(multisets, "_BLOCK", 0)
    rng = np.random.default_rng(number)
    parts = [Multiset.of(rng.integers(-900, 9000, rng.integers(0, 9000)) / 4) for _ in range(number)]
    parts[0] = Multiset.of(np.zeros(70))  # few numbers: in memory
    files = [multisets.kept([each, 5], str(tmp_path)) for each in parts]
    files = sorted(files, key=lambda each: isinstance(each[0], Runs))
    total, found = [parts[0], 5], files[0]
    for each in parts[1:]:
        total = added(total, [each, 5])
    for each in files[1:]:
        found = added(found, each)

    assert isinstance(files[0][0], Multiset)
    assert isinstance(found[0], Runs) is (number > 1)
    assert found[1] == total[1] == 5 * number
    here, there = total[0].ascending(), found[0].ascending()
    assert (here.values.tolist(), here.ends.tolist()) == (there.values.tolist(), there.ends.tolist())
    assert read(here, 50, here.rows, halves) == read(there, 50, here.rows, halves)


def test_files_of_numbers_are_for_their_owner_alone(tmp_path):
    old = os.umask(0)
    try:
        kept = multisets.kept(Multiset.of(np.arange(2.0 * multisets.FEW)), str(tmp_path))
        kept.ascending()
    finally:
        os.umask(old)
    modes = {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    assert modes == {0o600}
    assert len([*tmp_path.iterdir()]) == 4


def test_files_without_numbers_have_no_ranks(tmp_path):
    nothing = Runs(str(tmp_path), (Multiset.of(np.zeros(0)),)).ascending()
    assert (nothing.rows, nothing.values.size) == (0, 0)
