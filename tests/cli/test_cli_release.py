"""`ferrodp release`: the right sum and no more, or one line and no file."""

import errno
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from ferrodp import files
from ferrodp.accounting import GaussianEvent, PrivacyEvent, gaussian_epsilon
from ferrodp.clipping import ClippedSum
from ferrodp.files import FileRefused

QUIET = 2.0**-20
"""A noise multiplier so small that the sum shows through it."""


def clipped_sum(updates: list[dict[str, Any]], clip_norm: float) -> dict[str, Any]:
    """Return the sum as the definition says it."""
    total = {name: np.zeros(array.shape) for name, array in updates[0].items()}
    for update in updates:
        norm = np.sqrt(sum(float(np.sum(np.square(array, dtype=np.float64))) for array in update.values()))
        if np.isfinite(norm):
            factor = min(1.0, clip_norm / norm) if norm else 1.0
            for name, array in update.items():
                total[name] += factor * array.astype(np.float64)
    return total


def tolerance(clip_norm: float, count: int, largest: float) -> float:
    """Return how far a released value may be from the sum: noise, grid and the output's float32.

    9 standard deviations of the noise: exceeded with probability 2.3e-19 a value. Every update is off by less than one
    step of the grid, at most clip_norm * 2^-29, and one relative rounding of its factor; the release by half a step.
    """
    return clip_norm * (9 * QUIET + (count + 1) * 2.0**-28) + largest * 2.0**-23


def assert_is_sum(found: Any, updates: list[dict[str, Any]], clip_norm: float, denominator: float = 1.0) -> None:
    expected = clipped_sum(updates, clip_norm)
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].shape == array.shape
        allowed = tolerance(clip_norm, len(updates), float(np.abs(array).max(initial=0)))
        assert np.all(np.abs(found[name] * denominator - array) <= allowed)


@pytest.fixture
def release(ferrodp: Callable[..., Any]) -> Callable[..., Any]:
    """Run a release with next to no noise; later arguments override."""

    def run(*argv: object) -> Any:
        given = ["--clip-norm", 1, "--noise-multiplier", QUIET, *argv]
        for option in ("--clip-norm", "--noise-multiplier", "-o"):
            while given.count(option) > 1:  # the command itself refuses an option that is given again
                place = given.index(option)
                del given[place : place + 2]
        return ferrodp("release", *given)

    return run


# ---------------------------------------------------------------------------------------------------- results


def test_the_noised_sum_of_the_clipped_updates_is_written(release: Callable[..., Any], updates: list[Any]) -> None:
    assert release("u0.npz", "u1.npz", "u2.npz", "u3.npz", "u4.npz", "-o", "sum.npz").code == 0

    with np.load("sum.npz", allow_pickle=False) as found:
        assert_is_sum(found, updates, clip_norm=1.0)
        assert {array.dtype for array in found.values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize("option", ["--mean", "--denominator"])
def test_a_mean_is_the_sum_divided_by_the_number_given(
    release: Callable[..., Any], updates: list[Any], option: str
) -> None:
    assert release("u*.npz", "-o", "mean.npz", option, 8, "--clip-norm", 100).code == 0

    with np.load("mean.npz") as found:
        assert_is_sum(found, updates, clip_norm=100.0, denominator=8.0)


def test_the_noise_is_there_and_of_the_stated_size(release: Callable[..., Any], tmp_path: Path) -> None:
    np.save(tmp_path / "u.npy", np.zeros(100_000, np.float32))
    assert release(tmp_path / "u.npy", "-o", tmp_path / "o.npy", "--clip-norm", 2, "--noise-multiplier", 3).code == 0

    noise = np.load(tmp_path / "o.npy").astype(np.float64)
    # A sum of n squares of normals, over its variance, has mean n and standard deviation sqrt(2n); 7 of them: 3e-12.
    assert abs(np.sum(np.square(noise)) / 36 - 100_000) < 7 * np.sqrt(200_000)
    # On a grid of 2^-10, which is 6/6144, rounded normal numbers are 26 200 different ones; on one of 2^-9, 15 100.
    assert np.unique(noise).size > 20_000


def test_two_releases_have_different_noise(release: Callable[..., Any], updates: list[Any]) -> None:
    for name in ("a.npz", "b.npz"):
        assert release("u?.npz", "-o", name, "--noise-multiplier", 1, "--dtype", "float64").code == 0

    with np.load("a.npz") as a, np.load("b.npz") as b:
        # The grid has 2^30 steps a standard deviation: one of 12 values agrees by chance with probability below 4e-9.
        assert not np.any(a["weights"] == b["weights"])


def test_the_report_says_what_it_cost(release: Callable[..., Any], updates: list[Any]) -> None:
    found = release(
        "u*.npz", "-o", "o.npz", "--clip-norm", 0.5, "--noise-multiplier", 1.1, "--delta", 1e-6, "--mean", 10, "--json"
    ).json

    assert PrivacyEvent.from_dict(found.pop("event")) == GaussianEvent(noise_multiplier=1.1)
    assert found == {
        "schema": 1,
        "command": "release",
        "output": "o.npz",
        "inputs": 5,
        "inputs_protected": False,
        "arrays": {
            "weights": {"shape": [3, 4], "dtype": "float32"},
            "bias": {"shape": [4], "dtype": "float32"},
        },
        "clip_norm": 0.5,
        "noise_multiplier": 1.1,
        "standard_deviation": 0.55,
        "denominator": 10.0,
        "epsilon": gaussian_epsilon(delta=1e-6, noise_multiplier=1.1),
        "delta": 1e-6,
        "unit": "one input file",
        "neighboring_relations": ["add_or_remove_one", "replace_special"],
        "ledger": None,
    }


def test_the_printed_report_says_the_same(release: Callable[..., Any], updates: list[Any]) -> None:
    found = release("u*.npz", "-o", "o.npz", "--noise-multiplier", 1.1, "--mean", 10)

    assert (found.code, found.err) == (0, "")
    fields = dict(line.split(maxsplit=1) for line in found.out.splitlines())
    assert fields["written"] == "o.npz (2 arrays, 16 values)"
    assert fields["inputs"] == "5 (the count is not protected)"
    assert fields["noise"] == "exact Gaussian of standard deviation 1.1 on the sum, then all divided by 10"
    assert fields["event"] == "GaussianEvent(noise_multiplier=1.1)"
    assert fields["epsilon"] == "3.922 at delta 1e-05"  # 3.92110..., rounded up
    assert fields["unit"] == "one input file, added, removed or replaced by zeros"
    assert "weak" in release("u*.npz", "-o", "p.npz").out


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".safetensors"])
@pytest.mark.parametrize("to", [".npz", ".npy", ".safetensors"])
def test_every_format_goes_into_every_format(release: Callable[..., Any], tmp_path: Path, suffix: str, to: str) -> None:
    updates = [{"arr_0": np.full((2, 3), index, np.float64)} for index in range(3)]
    for index, update in enumerate(updates):
        with (tmp_path / f"u{index}{suffix}").open("wb") as stream:
            files.write(stream, suffix, update)

    assert release(tmp_path / f"u?{suffix}", "-o", tmp_path / f"o{to}").code == 0

    found = {
        ".npz": lambda path: dict(np.load(path)),
        ".npy": lambda path: {"arr_0": np.load(path)},
        ".safetensors": safetensors.numpy.load_file,
    }[to](tmp_path / f"o{to}")
    assert found["arr_0"].dtype == np.float64
    assert_is_sum(found, updates, clip_norm=1.0)


def test_formats_may_be_mixed(release: Callable[..., Any], updates: list[Any]) -> None:
    safetensors.numpy.save_file(updates[1], "u1.safetensors")
    np.savez_compressed("c.npz", **updates[2])

    assert release("u0.npz", "u1.safetensors", "c.npz", "-o", "o.npz").code == 0
    with np.load("o.npz") as found:
        assert_is_sum(found, updates[:3], clip_norm=1.0)


def test_byte_and_index_order_do_not_matter(release: Callable[..., Any], updates: list[Any]) -> None:
    other = {name: np.asarray(array, array.dtype.newbyteorder(">"), order="F") for name, array in updates[1].items()}
    np.savez("other.npz", **dict(reversed(other.items())))

    assert release("u0.npz", "other.npz", "-o", "o.npz").code == 0
    with np.load("o.npz") as found:
        assert_is_sum(found, updates[:2], clip_norm=1.0)


def test_arrays_without_elements_or_dimensions_are_arrays(release: Callable[..., Any], tmp_path: Path) -> None:
    update = {"scalar": np.array(0.25), "none": np.zeros((0, 3)), "one": np.ones(1)}
    np.savez(tmp_path / "u.npz", **update)
    np.savez(tmp_path / "nothing.npz", none=np.zeros((0, 3)))

    assert release(tmp_path / "u.npz", "-o", tmp_path / "o.npz").code == 0
    with np.load(tmp_path / "o.npz") as found:
        assert_is_sum(found, [update], clip_norm=1.0)
    found = release(tmp_path / "nothing.npz", "-o", tmp_path / "n.npz", "--json").json
    assert found["epsilon"] > 0  # charged all the same: the cost must not depend on a size
    assert np.load(tmp_path / "n.npz")["none"].shape == (0, 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_update_that_is_not_finite_counts_as_zeros(
    release: Callable[..., Any], updates: list[Any], bad: float
) -> None:
    updates[3]["bias"][2] = bad
    np.savez("u3.npz", **updates[3])

    found = release("u*.npz", "-o", "o.npz", "--json")
    assert found.json["inputs"] == 5  # the report does not tell
    with np.load("o.npz") as total:
        assert_is_sum(total, updates, clip_norm=1.0)


def test_the_output_may_have_another_dtype(release: Callable[..., Any], updates: list[Any]) -> None:
    assert release("u*.npz", "-o", "o.npz", "--dtype", "float64").code == 0

    with np.load("o.npz") as found:
        assert {array.dtype for array in found.values()} == {np.dtype(np.float64)}
        assert_is_sum(found, updates, clip_norm=1.0)


def test_dtypes_may_be_mixed_in_a_file_and_stay_what_they_are(release: Callable[..., Any], tmp_path: Path) -> None:
    update = {"narrow": np.array([0.125, -3.0], np.float32), "wide": np.array([1e-3, 4.0])}
    np.savez(tmp_path / "u.npz", **update)

    for option, dtypes in (([], ["float32", "float64"]), (["--dtype", "float32"], ["float32"] * 2)):
        assert release(tmp_path / "u.npz", "-o", tmp_path / "o.npz", "--force", *option).code == 0
        with np.load(tmp_path / "o.npz") as found:
            assert [str(array.dtype) for array in found.values()] == dtypes
            assert_is_sum(found, [update], clip_norm=1.0)


def test_a_value_beyond_the_range_of_a_narrower_dtype_is_its_largest_number(
    release: Callable[..., Any], tmp_path: Path
) -> None:
    np.save(tmp_path / "u.npy", np.array([1e300, -1e300]))
    argv = ["-o", tmp_path / "o.npy", "--clip-norm", 1e140, "--dtype", "float32"]

    assert release(tmp_path / "u.npy", *argv).code == 0
    largest = np.finfo(np.float32).max
    assert np.load(tmp_path / "o.npy").tolist() == [largest, -largest]


def test_a_mean_beyond_the_range_of_the_dtype_is_its_largest_number(
    release: Callable[..., Any], tmp_path: Path
) -> None:
    np.save(tmp_path / "u.npy", np.array([3.0, -4.0, 0.0], np.float32))

    assert release(tmp_path / "u.npy", "-o", tmp_path / "o.npy", "--mean", 1e-300).code == 0
    found = np.load(tmp_path / "o.npy")
    assert np.all(np.isfinite(found))
    assert list(np.sign(found[:2])) == [1, -1]


def test_the_number_of_threads_changes_nothing_but_time(release: Callable[..., Any], updates: list[Any]) -> None:
    for threads in (1, 2, 7):
        assert release("u*.npz", "-o", "o.npz", "--threads", threads, "--force").code == 0
        with np.load("o.npz") as found:
            assert_is_sum(found, updates, clip_norm=1.0)


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_the_number_of_workers_changes_nothing_but_time(
    release: Callable[..., Any], updates: list[Any], workers: int
) -> None:
    assert release("u*.npz", "-o", "o.npz", "--workers", workers).code == 0
    with np.load("o.npz") as found:
        assert_is_sum(found, updates, clip_norm=1.0)


# ------------------------------------------------------------------------------------------------ naming inputs


def test_patterns_and_lists_name_files(release: Callable[..., Any], updates: list[Any]) -> None:
    os.mkdir("folder")
    os.rename("u4.npz", "folder/[u4].npz")
    Path("list.txt").write_text("u2.npz\r\n\n  \nfolder/[u4].npz\n")

    assert release("u[01].npz", "@list.txt", "u3.npz", "-o", "o.npz", "--json").json["inputs"] == 5
    with np.load("o.npz") as found:
        assert_is_sum(found, updates, clip_norm=1.0)


def test_a_list_may_come_from_standard_input(finish: Callable[..., Any], updates: list[Any]) -> None:
    listing = subprocess.Popen(["printf", "u0.npz\\nu1.npz\\n"], stdout=subprocess.PIPE)
    argv = ["release", "@-", "-o", "o.npz", "--clip-norm", 1, "--noise-multiplier", 1, "--json"]
    with listing:
        assert finish(*argv, stdin=listing.stdout).json["inputs"] == 2


def test_a_file_that_is_given_twice_is_refused_however_it_is_named(
    release: Callable[..., Any], updates: list[Any]
) -> None:
    os.symlink("u0.npz", "soft.npz")
    os.link("u0.npz", "hard.npz")
    for again in ("u0.npz", "./u0.npz", "soft.npz", "hard.npz", os.path.abspath("u0.npz"), "u*.npz"):
        found = release("u0.npz", again, "-o", "o.npz")

        assert "is given twice" in found.error
        assert "its update would count twice" in found.error
        assert not os.path.exists("o.npz")


def test_an_output_that_is_an_input_is_refused(release: Callable[..., Any], updates: list[Any]) -> None:
    before = Path("u0.npz").read_bytes()
    os.symlink("u0.npz", "link.npz")
    for output in ("u0.npz", "link.npz"):
        assert "is one of the inputs" in release("u*.npz", "-o", output, "--force").error

    assert Path("u0.npz").read_bytes() == before


# ----------------------------------------------------------------------------------------------------- refusals


def never_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a sum of updates is noised; the sum of nothing on which parameters are tried may be."""
    release = ClippedSum.release

    def only_nothing(total: ClippedSum, **options: Any) -> Any:
        assert total.integers.size == 0, "noise was drawn"
        return release(total, **options)

    monkeypatch.setattr(ClippedSum, "release", only_nothing)


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--clip-norm", "0"], "--clip-norm must be finite and > 0, got 0.0"),
        (["--clip-norm", "nan"], "--clip-norm must be finite and > 0, got nan"),
        (["--clip-norm", "-1"], "--clip-norm must be finite and > 0"),
        (["--noise-multiplier", "0"], "--noise-multiplier must be finite and > 0"),
        (["--noise-multiplier", "inf"], "--noise-multiplier must be finite and > 0"),
        (["--noise-multiplier", "1e300"], "noise_multiplier"),
        (["--clip-norm", "1e-320"], "clip_norm"),
        (["--delta", "0"], "--delta must be finite and in (0, 1)"),
        (["--delta", "1"], "--delta must be finite and in (0, 1)"),
        (["--mean", "0"], "--mean must be finite and > 0"),
        (["--mean", "-5"], "--mean must be finite and > 0"),
        (["--threads", "0"], "threads must be an int from 1 to 256"),
        (["--workers", "0"], "--workers must be an int from 1 to 1024"),
        (["--workers", "2", "--dask", "127.0.0.1:8786"], "--workers and --dask must not be given both"),
        (["-o", "o.pt"], "o.pt: the name must end in .npy, .npz or .safetensors"),
        (["-o", "o.npy"], "o.npy: a .npy file holds one array, not 2; use .npz or .safetensors"),
        (["-o", "missing/o.npz"], "missing/o.npz: cannot be written: No such file or directory"),
        (["-o", "u0.npz/o.npz"], "cannot be written: Not a directory"),
        (["-o", "taken.npz"], "taken.npz: exists already; --force replaces it"),
        (["-o", "folder.npz", "--force"], "folder.npz: is not a regular file"),
        (["none.npz"], "none.npz: No such file or directory"),
        (["no*.npz"], "no*.npz: matches no file"),
        (["@none"], "none: list cannot be read: No such file or directory"),
        (["@empty"], "empty: lists no file"),
        (["@binary"], "is not a path"),
        (["folder.npz"], "folder.npz: is not a regular file"),
        (["pipe.npz"], "pipe.npz: is not a regular file"),
        (["notes.txt"], "notes.txt: the name must end in .npy, .npz or .safetensors"),
        (["bad\n\x1b2J.npz"], r"bad\n\x1b2J.npz: No such file or directory"),
        (["shape.npz"], "shape.npz: array 'bias' has shape (5,), in the first file (4,)"),
        (["dtype.npz"], "dtype.npz: array 'bias' has dtype float64, in the first file float32"),
        (["fewer.npz"], "fewer.npz: lacks array 'bias', which the first file has"),
        (["more.npz"], "more.npz: holds array 'extra', which the first file lacks"),
        (["int.npz"], "int.npz: array 'bias' must have dtype float32 or float64, got int64"),
        (["object.npz"], "object.npz: array 'bias' must have dtype float32 or float64, got object"),
        (["cut.npz"], "cut.npz: is damaged, or no .npz file"),
        (["flipped.npz"], "flipped.npz: "),
        (["empty.npz"], "empty.npz: holds no arrays"),
        (["zero.npz"], "zero.npz: is damaged, or no .npz file"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_before_noise_is_drawn_and_nothing_is_written(
    release: Callable[..., Any], updates: list[Any], monkeypatch: pytest.MonkeyPatch, argv: list[str], reason: str
) -> None:
    first = updates[0]
    np.savez("shape.npz", weights=first["weights"], bias=np.zeros(5, np.float32))
    np.savez("dtype.npz", weights=first["weights"], bias=np.zeros(4))
    np.savez("fewer.npz", weights=first["weights"])
    np.savez("more.npz", **first, extra=np.zeros(1, np.float32))
    np.savez("int.npz", weights=first["weights"], bias=np.zeros(4, np.int64))
    np.savez("object.npz", weights=first["weights"], bias=np.array([{}] * 4))
    np.savez("empty.npz")
    whole = Path("u0.npz").read_bytes()
    Path("cut.npz").write_bytes(whole[:-10])
    Path("flipped.npz").write_bytes(whole.replace(first["bias"].tobytes(), first["bias"].tobytes()[::-1]))
    for name in ("taken.npz", "notes.txt", "empty", "zero.npz"):
        Path(name).touch()
    Path("binary").write_bytes(b"\0\xff\n")
    os.mkdir("folder.npz")
    os.mkfifo("pipe.npz")
    before = sorted(os.listdir())
    never_drawn(monkeypatch)

    inputs, options = ([], argv) if argv[0].startswith("-") else (argv, [])
    found = release("u0.npz", *inputs, "-o", "o.npz", *options)

    assert found.error.startswith("ferrodp release: error: ")
    assert reason in found.error
    assert sorted(os.listdir()) == before
    assert Path("taken.npz").read_bytes() == b""


def test_messages_do_not_hold_values(release: Callable[..., Any], tmp_path: Path) -> None:
    secret = 1234.5678
    np.save(tmp_path / "a.npy", np.full(10, secret))
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "b.npy").write_bytes(content[:-1])
    (tmp_path / "c.npy").write_bytes(content.replace(b"'<f8'", b"1e400"))
    for name in ("b.npy", "c.npy"):
        error = release(tmp_path / "a.npy", tmp_path / name, "-o", tmp_path / "o.npy").error
        assert "1234" not in error
        assert name in error


def test_no_element_makes_the_command_say_more(release: Callable[..., Any], tmp_path: Path) -> None:
    """A signalling NaN that is widened, and noise that leaves the range of what it is narrowed to."""
    signalling = np.array([0x7F80_0001], np.uint32).view(np.float32)
    told = []
    for number, odd in enumerate([np.ones(1, np.float32), signalling]):
        np.savez(tmp_path / f"{number}.npz", a=odd, b=np.full(2, 1e-320))
        with np.errstate(all="raise"):
            told.append(release(tmp_path / f"{number}.npz", "-o", tmp_path / f"o{number}.npz", "--dtype", "float32"))

    assert [(found.code, found.err) for found in told] == [(0, "")] * 2
    assert told[1].out.replace("o1.npz", "o0.npz") == told[0].out


def test_a_file_that_changes_between_check_and_sum_is_refused(
    release: Callable[..., Any], updates: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    never_drawn(monkeypatch)
    check = files.check_writable

    def and_change(*argv: Any) -> None:
        np.savez("u3.npz", weights=np.zeros((3, 4), np.float32), bias=np.zeros(9, np.float32))
        check(*argv)

    monkeypatch.setattr(files, "check_writable", and_change)
    assert "u3.npz: array 'bias' has shape (9,)" in release("u*.npz", "-o", "o.npz").error
    assert not os.path.exists("o.npz")


def test_a_disk_without_room_is_one_line_before_noise_is_drawn(
    release: Callable[..., Any], updates: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    never_drawn(monkeypatch)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, old[1]))
    try:
        found = release("u*.npz", "-o", "o.npz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)

    assert found.error == "ferrodp release: error: o.npz: cannot be written: File too large\n"
    assert not os.path.exists("o.npz")


def test_a_disk_that_fills_at_the_end_is_one_line(
    release: Callable[..., Any], updates: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    found = release("u*.npz", "-o", "o.npz")

    assert found.error == "ferrodp release: error: o.npz: cannot be written: No space left on device\n"
    assert sorted(os.listdir()) == [f"u{index}.npz" for index in range(5)]


def test_a_report_that_cannot_be_printed_is_one_line_and_the_output_stays(
    start: Callable[..., Any], updates: list[Any]
) -> None:
    argv = ["release", "u0.npz", "-o", "o.npz", "--clip-norm", 1, "--noise-multiplier", 1]
    with open("/dev/full", "w") as full, start(*argv, stdout=full) as process:
        _, err = process.communicate(timeout=60)

    assert err == "ferrodp release: error: standard output: No space left on device; the work itself is done\n"
    assert process.returncode == 15

    line = shlex.join([sys.executable, "-m", "ferrodp", *map(str, argv), "--force"])
    closed = subprocess.run(f"{line} >&-", shell=True, capture_output=True, text=True)
    assert closed.stderr == "ferrodp release: error: standard output: is closed; the work itself is done\n"
    assert closed.returncode == 15
    assert sorted(np.load("o.npz")) == ["bias", "weights"]


def test_an_existing_output_is_replaced_only_by_force(release: Callable[..., Any], updates: list[Any]) -> None:
    Path("o.npz").write_bytes(b"old")
    assert "exists already" in release("u*.npz", "-o", "o.npz").error
    assert Path("o.npz").read_bytes() == b"old"

    assert release("u*.npz", "-o", "o.npz", "--force").code == 0
    assert sorted(np.load("o.npz")) == ["bias", "weights"]


# ------------------------------------------------------------------------------------------------ size and death


def test_many_small_files_are_one_release(release: Callable[..., Any], tmp_path: Path) -> None:
    count = 2000
    update = np.array([0.5, -0.25], np.float32)
    for index in range(count):
        np.save(tmp_path / f"{index}.npy", update)

    assert release(tmp_path / "*.npy", "-o", tmp_path / "o.npy", "--json").json["inputs"] == count
    assert_is_sum({"arr_0": np.load(tmp_path / "o.npy")}, [{"arr_0": update}] * count, clip_norm=1.0)


def test_memory_does_not_grow_with_the_number_of_files(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from ferrodp.cli import main; main(sys.argv[1:]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    update = np.ones(1 << 18, np.float32)  # 1 MiB
    for index in range(24):
        np.savez(tmp_path / f"{index}.npz", u=update)
    (tmp_path / "out").mkdir()

    def peak(count: int) -> int:
        paths = [str(tmp_path / f"{index}.npz") for index in range(count)]
        output = str(tmp_path / "out" / f"{count}.npz")
        argv = ["release", *paths, "-o", output, "--clip-norm", "1", "--noise-multiplier", "1", "--threads", "1"]
        return int(
            subprocess.run(
                [sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True
            ).stdout.split()[-1]
        )

    # In KiB. 20 updates more would be 20 MiB more; a page here and there is not.
    assert peak(24) - peak(4) < 4 * 1024


@pytest.mark.parametrize("force", [False, True])
def test_a_killed_release_leaves_no_partial_output(start: Callable[..., Any], tmp_path: Path, force: bool) -> None:
    update = {"u": np.ones(1 << 20, np.float32)}
    for index in range(10):
        np.savez(tmp_path / f"{index}.npz", **update)
    output, inputs = tmp_path / "out" / "o.npz", sorted(tmp_path.glob("*.npz"))
    output.parent.mkdir()
    argv = ["release", *inputs, "-o", output, "--clip-norm", 1, "--noise-multiplier", 1, "--json"]
    old = b"the old file"

    began = time.perf_counter()
    with start(*argv) as whole:
        report = json.loads(whole.communicate(timeout=60)[0])
    duration = time.perf_counter() - began
    assert report["inputs"] == 10

    fates = []
    for part in np.linspace(0.3, 1.05, 12):  # most of the first third is Python starting
        output.unlink(missing_ok=True)
        if force:
            output.write_bytes(old)
        with start(*argv, *["--force"] * force) as process:
            time.sleep(part * duration)
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)
        left = os.listdir(output.parent)
        fates.append(process.returncode)
        if output.exists() and output.read_bytes() != old:
            with np.load(output) as found:
                assert found["u"].shape == (1 << 20,)
            assert left == ["o.npz"]
        else:
            assert left == ["o.npz"] * force
    assert -signal.SIGKILL in fates


def test_the_examples_of_the_documentation_run(finish: Callable[..., Any], updates: list[Any]) -> None:
    argv = ["release", "u*.npz", "--clip-norm", "1.0", "--noise-multiplier", "1.1", "-o", "sum.npz"]
    found = finish(*argv)

    assert (found.code, found.err) == (0, "")
    assert "epsilon" in found.out
    assert sorted(np.load("sum.npz")) == ["bias", "weights"]


def test_no_warning_is_raised(release: Callable[..., Any], updates: list[Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert release("u*.npz", "-o", "o.npz").err == ""


def test_refusals_are_values_errors_for_who_calls_from_python() -> None:
    assert issubclass(FileRefused, ValueError)
