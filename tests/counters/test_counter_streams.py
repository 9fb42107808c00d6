"""Streams of counters in files and ledgers: charged once, no day twice, nothing lost, whatever ends the process."""

import json
import math
import os
import random
import shutil
import signal
import stat
import threading
import time

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.counters import _file
from ferrodp.errors import BudgetExceeded, FerroError, InvalidArray, InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation
from support import children

COUNTER = fd.Counter(noise_multiplier=20.0, days=40)
SIZE = 5


def opened(path, relation=NeighboringRelation.ADD_OR_REMOVE_ONE):
    ledger = fd.PrivacyLedger.open(path)
    if "a" not in [str(each) for each in ledger.scopes]:
        ledger.create("a", epsilon=2.0, delta=1e-6, measure="zcdp", neighboring_relation=relation)
    return ledger


def counts(day, size=SIZE):
    return np.arange(size) * 10 + day


def fed(stream, days):
    return [stream.release(counts(day, stream.num_counters), day=day) for day in range(stream.day, days)]


@pytest.fixture
def ledger(tmp_path):
    with opened(tmp_path / "b.db") as found:
        yield found


def test_a_stream_that_goes_on_releases_what_it_would_have(tmp_path):
    """Two copies of one file before its first day, without a ledger: one goes on, the other is opened for each day."""
    COUNTER.start(SIZE, file=tmp_path / "one", key="k").close()
    shutil.copy(tmp_path / "one", tmp_path / "two")
    with fd.CounterStream.open(tmp_path / "one") as stream:
        whole = fed(stream, 12)
    pieces = []
    for day in range(12):
        with fd.CounterStream.open(tmp_path / "two") as stream:
            assert stream.day == day
            if day:
                np.testing.assert_array_equal(stream.last, pieces[-1])
            pieces += fed(stream, day + 1)
    np.testing.assert_array_equal(whole, pieces)
    assert len({tuple(each - 10 * np.arange(SIZE) * (day + 1)) for day, each in enumerate(whole)}) == 12


def test_two_streams_have_noise_of_their_own(tmp_path):
    found = []
    for name in ("one", "two"):
        with COUNTER.start(50, file=tmp_path / name, key="k") as stream:
            found.append(stream.release(np.zeros(50, np.int64)))
    assert not np.array_equal(*found)


def test_persons_are_remembered_by_the_file(tmp_path):
    counter = fd.Counter(noise_multiplier=0.125, days=40, max_days=2, max_counters=1)
    whole = counter.start(["x"], file=tmp_path / "f", key="k")
    for _ in range(5):
        with whole:
            last = whole.release_units(["ann", "bob"] * 3, ["x"] * 6)
        whole = fd.CounterStream.open(tmp_path / "f")
    with whole:
        # Two persons on two days; noise of 1/8 is rounded off but for a share below 10⁻⁴ on some days.
        assert abs(int(last[0]) - 4) <= 2
        assert whole.day == 5


def test_a_stream_is_charged_once_and_before_its_first_day(tmp_path, ledger):
    price = None
    for _ in range(4):
        with COUNTER.start(SIZE, file=tmp_path / "f", ledger=ledger, scope="a", key="k") as stream:
            price = price or ledger.epsilon_charged("a")
            fed(stream, stream.day + 2)
        assert ledger.epsilon_charged("a") == price
    with opened(tmp_path / "c.db") as other:
        other.spend("a", COUNTER.event)
        assert price == other.epsilon_charged("a")
    assert stream.day == 8


def test_a_budget_that_is_too_small_makes_no_stream(tmp_path, ledger):
    counter = fd.Counter(noise_multiplier=0.5, days=40)
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            counter.start(SIZE, file=tmp_path / "f", ledger=ledger, scope="a", key="k")
    assert not (tmp_path / "f").exists()
    assert ledger.epsilon_charged("a") == 0.0


def test_a_scope_of_another_relation_pays_for_no_counter(tmp_path):
    with opened(tmp_path / "r.db", NeighboringRelation.REPLACE_ONE) as ledger:
        with pytest.raises(InvalidParameter, match="neighboring_relation"):
            COUNTER.start(SIZE, file=tmp_path / "f", ledger=ledger, scope="a", key="k")
        assert ledger.epsilon_charged("a") == 0.0


def test_a_file_that_is_gone_is_not_made_anew_for_the_same_charge(tmp_path, ledger):
    where = {"file": tmp_path / "f", "ledger": ledger, "scope": "a", "key": "k"}
    with COUNTER.start(SIZE, **where) as stream:
        fed(stream, 1)
    os.unlink(tmp_path / "f")
    for file in (tmp_path / "f", tmp_path / "g"):
        with pytest.raises(FerroError, match="another key"):
            COUNTER.start(SIZE, **{**where, "file": file})
    assert not (tmp_path / "g").exists()


def test_one_charge_pays_for_one_file(tmp_path, ledger):
    """A second file under the same key, made as if the first were not seen: a file of a stream without a ledger."""
    where = {"ledger": ledger, "scope": "a", "key": "k"}
    COUNTER.start(SIZE, file=tmp_path / "f", **where).close()
    with opened(tmp_path / "c.db") as other:
        COUNTER.start(SIZE, file=tmp_path / "g", **{**where, "ledger": other}).close()
    with pytest.raises(FerroError, match="copy or an older one"):
        COUNTER.start(SIZE, file=tmp_path / "g", **where)
    with COUNTER.start(SIZE, file=tmp_path / "f", **where) as stream:
        fed(stream, 2)


def test_a_copied_file_releases_no_day_that_the_other_released(tmp_path, ledger):
    where = {"ledger": ledger, "scope": "a"}
    with COUNTER.start(SIZE, file=tmp_path / "f", key="k", **where) as stream:
        fed(stream, 3)
    shutil.copy(tmp_path / "f", tmp_path / "old")
    with fd.CounterStream.open(tmp_path / "f", **where) as stream:
        fed(stream, 4)
    with fd.CounterStream.open(tmp_path / "old", **where) as stream:
        assert stream.day == 3
        with pytest.raises(FerroError, match="day 3"):
            stream.release(counts(3) + 1)
        with pytest.raises(FerroError, match="broke off"):
            stream.release(counts(3))
    with pytest.raises(FerroError, match="day 3"):  # its file holds a day that it must not release
        fd.CounterStream.open(tmp_path / "old", **where)
    with fd.CounterStream.open(tmp_path / "f", **where) as stream:
        assert stream.day == 4


def test_a_frozen_scope_stops_a_stream_until_it_is_thawed(tmp_path, ledger):
    where = {"ledger": ledger, "scope": "a"}
    with COUNTER.start(SIZE, file=tmp_path / "f", key="k", **where) as stream:
        fed(stream, 1)
        ledger.freeze("a", reason="review")
        with pytest.raises(BudgetExceeded):
            stream.release(counts(1))
    with pytest.raises(BudgetExceeded):
        fd.CounterStream.open(tmp_path / "f", **where)
    ledger.thaw("a", reason="reviewed")
    with fd.CounterStream.open(tmp_path / "f", **where) as stream:
        assert stream.day == 2
        assert abs(int(stream.last[0]) - 1) < 300
    with COUNTER.start(SIZE, ledger=ledger, scope="a", key="memory") as stream:
        ledger.freeze("a", reason="review")
        with pytest.raises(BudgetExceeded):
            stream.release(counts(0))


def test_one_stream_at_a_time_has_the_file(tmp_path):
    with COUNTER.start(SIZE, file=tmp_path / "f", key="k"):
        with pytest.raises(FerroError, match="open in another stream"):
            fd.CounterStream.open(tmp_path / "f")
        assert children.run(_refused, tmp_path / "f") == 0
    fd.CounterStream.open(tmp_path / "f").close()


def _refused(path):
    with pytest.raises(FerroError, match="open in another stream"):
        fd.CounterStream.open(path)


def test_a_forked_child_is_refused(tmp_path):
    with COUNTER.start(SIZE, file=tmp_path / "f", key="k") as stream, COUNTER.start(SIZE) as other:
        before = fed(stream, 1)
        assert children.run(_in_a_child, stream) == 0
        assert children.run(_in_a_child, other) == 0
        np.testing.assert_array_equal(stream.last, before[0])
    with fd.CounterStream.open(tmp_path / "f") as stream:
        assert stream.day == 1


def _in_a_child(stream):
    for call in (lambda: stream.release(counts(1)), lambda: stream.release(counts(1), day=0)):
        with pytest.raises(FerroError, match="forked child"):
            call()


def test_the_file_is_for_its_owner_alone_and_says_nothing_else(tmp_path):
    COUNTER.start(SIZE, file=tmp_path / "f", key="k").close()

    assert stat.S_IMODE(os.stat(tmp_path / "f").st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["f"]


def test_totals_are_on_disk_before_the_page_that_names_them(tmp_path, monkeypatch):
    done = []
    with COUNTER.start(SIZE, file=tmp_path / "f", key="k") as stream:
        write, sync = os.pwrite, os.fdatasync
        monkeypatch.setattr(os, "pwrite", lambda *a: (done.append(len(a[1])), write(*a))[1])
        monkeypatch.setattr(os, "fdatasync", lambda *a: (done.append("sync"), sync(*a))[1])
        real = fd.counters.stream.CounterStream._drawn
        monkeypatch.setattr(fd.counters.stream.CounterStream, "_drawn", lambda *a: (done.append("noise"), real(*a))[1])
        fed(stream, 2)
    one = [8 * SIZE, "sync", 4096, "sync", "noise"]
    assert done == one + one


@pytest.mark.parametrize("cut", range(3))
def test_a_day_that_was_not_committed_whole_is_none(tmp_path, cut):
    """The file as it would be if the power failed within the second day's page, or between its two writes."""
    with COUNTER.start(SIZE, file=tmp_path / "f", key="k") as stream:
        first = fed(stream, 1)[0]
        before = (tmp_path / "f").read_bytes()
        fed(stream, 2)
        after = (tmp_path / "f").read_bytes()
    pages = [
        place for place in range(0, len(after), 4096) if after[place : place + 4096] != before[place : place + 4096]
    ]
    torn = bytearray(after)
    page = min(pages)
    torn[page : page + 4096] = [
        before[page : page + 4096].ljust(4096, b"\0"),
        after[page : page + 100] + bytes(3996),
        bytes(4096),
    ][cut]
    (tmp_path / "f").write_bytes(torn)
    with fd.CounterStream.open(tmp_path / "f") as stream:
        assert stream.day == 1
        np.testing.assert_array_equal(stream.last, first)


def _stream_of(folder, diary, size, delay):
    with (
        opened(folder / "b.db") as ledger,
        children.diary(diary) as wrote,
        COUNTER.start(size, file=folder / "f", ledger=ledger, scope="a", key="k") as stream,
    ):
        if stream.day:
            wrote(json.dumps([stream.day - 1, stream.last.tolist()]))
        while stream.day < COUNTER.horizon:
            day = stream.day
            time.sleep(delay)
            wrote(json.dumps([day, stream.release(counts(day, size), day=day).tolist()]))


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment_a_stream_loses_no_day_and_releases_none_twice(tmp_path, seed):
    """21 kills in all, at random moments of up to twice a day's time."""
    opened(tmp_path / "b.db").close()
    draw = random.Random(seed)
    for _ in range(7):
        child = children.start(_stream_of, tmp_path, tmp_path / "diary", SIZE, 0.002)
        time.sleep(draw.uniform(0.0, 0.08))
        os.kill(child, signal.SIGKILL)
        children.end_of(child)
    assert children.run(_stream_of, tmp_path, tmp_path / "diary", SIZE, 0.0) == 0

    check_diary(tmp_path)


def check_diary(folder):
    written = {}
    for line in (folder / "diary").read_text().splitlines():
        day, totals = json.loads(line)
        assert written.setdefault(day, totals) == totals
    assert sorted(written) == list(range(COUNTER.horizon))
    truth = np.cumsum([counts(day) for day in range(COUNTER.horizon)], axis=0)
    noise = np.array([written[day] for day in sorted(written)]) - truth
    for day in range(COUNTER.horizon):  # 200 numbers: beyond 7 deviations with probability below 10⁻⁹
        assert np.all(np.abs(noise[day]) <= 7.0 * COUNTER.standard_error(day) + 0.5)
    with fd.PrivacyLedger.open(folder / "b.db") as ledger, opened(folder / "c.db") as other:
        other.spend("a", COUNTER.event)
        assert ledger.epsilon_charged("a") == other.epsilon_charged("a")


def test_the_last_day_may_be_repeated_and_no_other(tmp_path):
    with COUNTER.start(SIZE, file=tmp_path / "f", key="k") as stream:
        stream.release(counts(0), day=0)
        one = stream.release(counts(1), day=1)
        np.testing.assert_array_equal(stream.release(counts(7), day=1), one)
        assert stream.day == 2
        for day in (0, 3, 39):
            with pytest.raises(InvalidParameter, match="day must be 2"):
                stream.release(counts(0), day=day)
        with pytest.raises(InvalidParameter):
            stream.release(counts(0), day=40)
        with pytest.raises(ValueError, match="read-only"):
            one[:] = 0


def test_totals_never_leave_their_64_bits(tmp_path):
    """Counts of any size are cut so that no sum of all days overflows; smaller ones are not."""
    counter = fd.Counter(noise_multiplier=1.0, days=4)
    stream = counter.start(3)
    for _ in range(4):
        found = stream.release(np.array([2**63 - 1, -(2**63), 2**60]))
    most = 4 * (2**62 // 4)
    assert np.all(np.abs(found.astype(object) - np.array([most, -most, 4 * 2**60], object)) < 50)
    with pytest.raises(FerroError, match="this stream is over"):
        stream.release(np.zeros(3, np.int64))


def test_a_stream_in_memory_is_paid_by_the_open_budget():
    counter = fd.Counter.calibrated(epsilon=0.5, delta=1e-6, days=3)
    with fd.budget(epsilon=0.6, delta=1e-6, measure="gdp") as spent:
        stream = counter.start(2)
        stream.release(np.array([1, 2]))
        with pytest.raises(BudgetExceeded):
            counter.start(2)
        with pytest.raises(InvalidParameter, match="block"):
            counter.start(2, file="never-made", key="k")
    assert spent is not None
    assert not os.path.exists("never-made")


def test_a_seed_repeats_a_stream_and_is_kept_from_files(tmp_path):
    one, two = (COUNTER.start(3, source=fd.testing.seeded(b"s" * 32)) for _ in range(2))
    np.testing.assert_array_equal(fed(one, 5), fed(two, 5))
    with pytest.raises(InvalidParameter, match="private"):
        COUNTER.start(3, file=tmp_path / "f", key="k", source=fd.testing.seeded(b"s" * 32))


def test_bits_depend_on_no_number_of_threads():
    found = []
    for threads in (1, 2, 5):
        stream = COUNTER.start(5000, source=fd.testing.seeded(b"t" * 32))
        found.append([stream.release(np.zeros(5000, np.int64), threads=threads) for _ in range(3)])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"counters": 6}, InvalidParameter),
        ({"counters": list("abcde")}, InvalidParameter),
        ({"key": "other"}, InvalidParameter),
        ({"counter": fd.Counter(noise_multiplier=21.0, days=40)}, InvalidParameter),
    ],
)
def test_the_file_of_another_stream_is_refused(tmp_path, change, error):
    COUNTER.start(SIZE, file=tmp_path / "f", key="k").close()
    given = {"counter": COUNTER, "counters": SIZE, "key": "k", **change}

    with pytest.raises(error, match="each stream has a file of its own"):
        fd.CounterStream(given["counter"], given["counters"], file=tmp_path / "f", key=given["key"])


def test_other_files_are_refused_and_left_as_they_are(tmp_path):
    for number, text in enumerate([b"", b"hello" * 2000, _file._MAGIC, _file._MAGIC + bytes(9000)]):
        path = tmp_path / str(number)
        path.write_bytes(text)
        with pytest.raises(InvalidParameter, match="file must be one that"):
            COUNTER.start(SIZE, file=path, key="k")
        assert path.read_bytes() == text
    with pytest.raises(InvalidParameter, match="none is at"):
        fd.CounterStream.open(tmp_path / "none")
    with COUNTER.start(SIZE, file=tmp_path / "cut", key="k") as stream:
        fed(stream, 2)
    (tmp_path / "cut").write_bytes((tmp_path / "cut").read_bytes()[:-8])
    with pytest.raises(InvalidParameter, match="cut off"):
        fd.CounterStream.open(tmp_path / "cut")


def test_a_stream_that_a_ledger_owns_needs_it_to_go_on(tmp_path, ledger):
    COUNTER.start(SIZE, file=tmp_path / "f", ledger=ledger, scope="a", key="k").close()
    for call in (
        lambda: fd.CounterStream.open(tmp_path / "f"),
        lambda: COUNTER.start(SIZE, file=tmp_path / "f", key="k"),
    ):
        with pytest.raises(InvalidParameter):
            call()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"counters": 0}, InvalidParameter),
        ({"counters": 2.5}, InvalidType),
        ({"counters": ["a", "a"]}, InvalidParameter),
        ({"counters": []}, InvalidParameter),
        ({"counters": 3, "file": "x"}, InvalidParameter),
        ({"counters": 3, "key": "k"}, InvalidParameter),
        ({"counters": 3, "key": 7, "file": "x"}, InvalidType),
        ({"counters": 3, "key": "k", "file": 7}, InvalidType),
        ({"counters": 3, "scope": "a"}, InvalidParameter),
        ({"counters": 3, "plan_delta": 1e-6}, InvalidParameter),
    ],
)
def test_arguments_that_do_not_fit_together_are_refused(given, error):
    with pytest.raises(error):
        COUNTER.start(given.pop("counters"), **given)
    assert not os.path.exists("x")


def test_counts_of_another_shape_or_type_commit_nothing(tmp_path):
    with COUNTER.start(SIZE, file=tmp_path / "f", key="k") as stream:
        for wrong in (np.zeros(SIZE + 1, np.int64), np.zeros((1, SIZE), np.int64), np.zeros(SIZE), "abc"):
            with pytest.raises((InvalidArray, InvalidType, TypeError)):
                stream.release(wrong)
        assert stream.day == 0
    with pytest.raises(FerroError, match="closed"):
        stream.release(counts(0))
    with pytest.raises(TypeError):
        __import__("pickle").dumps(stream)


def test_threads_release_one_day_at_a_time():
    stream = fd.Counter(noise_multiplier=1.0, days=3000).start(20_000)
    found, errors = [], []

    def work():
        for _ in range(40):
            try:
                found.append(stream.release(np.ones(20_000, np.int64)))
            except FerroError as error:
                errors.append(str(error))

    workers = [threading.Thread(target=work) for _ in range(3)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert stream.day == len(found)
    assert all("one day at a time" in each for each in errors)
    assert sorted(math.floor(float(np.mean(each)) + 0.5) for each in found) == list(range(1, len(found) + 1))
