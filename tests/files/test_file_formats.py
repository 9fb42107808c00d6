"""Array files: what is written is read, by us and by others, and everything that is not promised is refused."""

import ast
import io
import json
import os
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from ferrodp import files

ARRAYS = {
    "layer/0.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "bias": np.array(-0.0),
    "empty": np.zeros((0, 5), np.float32),
    "ü": np.array([np.nan, np.inf, 5e-324]),
}


def written(path: Path, arrays: Mapping[str, Any]) -> Path:
    with path.open("wb") as stream:
        files.write(stream, path.suffix, arrays)
    return path


def loaded(path: Path) -> dict[str, Any]:
    buffers = {name: np.full(entry.shape, 7, entry.dtype) for name, entry in files.describe(path).items()}
    files.read_into(path, buffers)
    return buffers


def assert_same(expected: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    assert set(expected) == set(found)
    for name, array in expected.items():
        assert (array.shape, array.dtype) == (found[name].shape, found[name].dtype)
        assert array.tobytes() == found[name].tobytes()


def with_header(path: Path, header: Any, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def entry(span: Any, shape: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": span}


def npy_bytes(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def archive(path: Path, *members: tuple[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_what_is_written_is_read_bit_for_bit(tmp_path: Path, suffix: str) -> None:
    assert_same(ARRAYS, loaded(written(tmp_path / f"a{suffix}", ARRAYS)))


def test_other_libraries_read_what_is_written(tmp_path: Path) -> None:
    with np.load(written(tmp_path / "a.npz", ARRAYS), allow_pickle=False) as found:
        assert_same(ARRAYS, dict(found))
    assert_same(ARRAYS, safetensors.numpy.load_file(written(tmp_path / "a.safetensors", ARRAYS)))
    np.testing.assert_array_equal(ARRAYS["ü"], np.load(written(tmp_path / "a.npy", {"x": ARRAYS["ü"]})))


def test_what_other_libraries_write_is_read(tmp_path: Path) -> None:
    safetensors.numpy.save_file(ARRAYS, tmp_path / "a.safetensors", metadata={"format": "np"})
    np.savez(tmp_path / "a.npz", **ARRAYS)
    np.savez_compressed(tmp_path / "b.npz", **ARRAYS)
    np.save(tmp_path / "a.npy", ARRAYS["ü"])

    for name in ("a.safetensors", "a.npz", "b.npz"):
        assert_same(ARRAYS, loaded(tmp_path / name))
    assert_same({"arr_0": ARRAYS["ü"]}, loaded(tmp_path / "a.npy"))


def test_wide_numbers_of_safetensors_are_aligned_in_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "a.safetensors", {"odd": np.zeros(3, np.float32), "wide": np.zeros(2)})

    size = struct.unpack("<Q", path.read_bytes()[:8])[0]
    header = json.loads(path.read_bytes()[8 : 8 + size])

    assert (8 + size) % 8 == 0
    assert header["wide"]["data_offsets"][0] % 8 == 0


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("byte_order", ["<", ">"])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 5), (7,), (), (1, 0, 2)])
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_orders_of_bytes_and_of_indexes_do_not_matter(
    tmp_path: Path, suffix: str, shape: tuple[int, ...], byte_order: str, order: Any
) -> None:
    array = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    stored = np.array(array, dtype=byte_order + "f8", order=order)
    path = tmp_path / f"a{suffix}"
    np.save(path, stored) if suffix == ".npy" else np.savez(path, stored)

    assert_same({"arr_0": array}, loaded(path))


def test_an_array_larger_than_a_chunk_is_read_whole(tmp_path: Path) -> None:
    array = np.arange((1 << 18) + 3, dtype=np.float64)  # 2 MiB and a little, in chunks of 1 MiB
    for suffix in (".npz", ".safetensors"):
        assert_same({"x": array}, loaded(written(tmp_path / f"a{suffix}", {"x": array})))


def test_a_second_version_of_the_npy_header_is_read(tmp_path: Path) -> None:
    with (tmp_path / "a.npy").open("wb") as stream:
        np.lib.format.write_array(stream, np.ones(3), version=(2, 0))

    assert_same({"arr_0": np.ones(3)}, loaded(tmp_path / "a.npy"))


@pytest.mark.parametrize("dtype", ["f2", "f16", "i4", "c8", "O", "U3", "M8[s]", "?", "V4", [("a", "f4")]])
def test_other_dtypes_are_refused(tmp_path: Path, dtype: Any) -> None:
    array = np.zeros(2, dtype)
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    np.savez(tmp_path / "a.npz", array)

    for name in ("a.npy", "a.npz"):
        with pytest.raises(files.FileRefused, match="'arr_0' must have dtype float32 or float64"):
            files.describe(tmp_path / name)


def test_a_pickle_is_not_run(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (os.mkdir, (str(tmp_path / "exploded"),))

    np.save(tmp_path / "a.npy", np.array([Bomb()], dtype=object), allow_pickle=True)

    with pytest.raises(files.FileRefused):
        loaded(tmp_path / "a.npy")
    assert not (tmp_path / "exploded").exists()


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    sources = {
        "a.npy": npy_bytes(np.ones(5)),
        "a.npz": written(tmp_path / "whole.npz", {"x": np.ones(5), "y": np.ones(3)}).read_bytes(),
        "a.safetensors": written(tmp_path / "whole.safetensors", {"x": np.ones(5)}).read_bytes(),
    }
    for name, content in sources.items():
        for length in range(len(content)):
            (tmp_path / name).write_bytes(content[:length])
            with pytest.raises(files.FileRefused):
                loaded(tmp_path / name)


@pytest.mark.parametrize("name", ["a.npy", "a.safetensors"])
def test_bytes_behind_the_last_element_are_refused(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, {"arr_0": np.ones(5)})
    path.write_bytes(path.read_bytes() + b"\0")

    with pytest.raises(files.FileRefused, match="bytes behind its last"):
        files.describe(path)


def test_a_flipped_bit_in_an_archive_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path / "a.npz", {"x": np.arange(5000.0)})
    content = bytearray(path.read_bytes())
    content[20_000] ^= 1  # an element far behind what the header's reader looks at
    path.write_bytes(content)

    with pytest.raises(files.FileRefused, match="is damaged"):
        loaded(path)


@pytest.mark.parametrize(
    "name", ["../a", "/a", "a/../../b", "a\\b", "C:a", "", "a//b", "./a", "a\nb", "\x1b[31m", "x" * 2000]
)
def test_names_that_lead_out_of_an_archive_are_refused(tmp_path: Path, name: str) -> None:
    sources = [with_header(tmp_path / "a.safetensors", {name: entry([0, 4], [1])}, b"1234")]
    if "\\" not in name:  # zip has no such names: they become slashes on some systems
        sources.append(archive(tmp_path / "a.npz", (name + ".npy", npy_bytes(np.ones(2)))))

    for path in sources:
        with pytest.raises(files.FileRefused, match="the name of an array must") as caught:
            files.describe(path)
        assert "\n" not in str(caught.value)
        assert "\x1b" not in str(caught.value)


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = archive(tmp_path / "a.npz", ("x.npy", npy_bytes(np.ones(2))), ("x.npy", npy_bytes(np.zeros(2))))

    with pytest.raises(files.FileRefused, match="more than one array named 'x'"):
        files.describe(path)
    with pytest.raises(files.FileRefused, match="more than one array named 'x'"):
        files.read_into(path, {"x": np.zeros(2)})

    one, other = (b'"x":' + json.dumps(entry(span, [1])).encode() for span in ([0, 4], [4, 8]))
    with pytest.raises(files.FileRefused, match=r"no readable .safetensors header"):
        files.describe(with_header(tmp_path / "a.safetensors", b"{" + one + b"," + other + b"}", bytes(8)))


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(files.FileRefused, match="holds no arrays"):
        files.describe(archive(tmp_path / "empty.npz"))
    with pytest.raises(files.FileRefused, match=r"'readme.txt', which is no .npy array"):
        files.describe(archive(tmp_path / "b.npz", ("readme.txt", b"hello")))
    with pytest.raises(files.FileRefused, match=r"no readable .npy header"):
        files.describe(archive(tmp_path / "c.npz", ("x.npy", b"hello")))
    with pytest.raises(files.FileRefused, match="bytes behind"):
        files.describe(archive(tmp_path / "d.npz", ("x.npy", npy_bytes(np.ones(2)) + b"more")))


def test_an_encrypted_archive_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", ("x.npy", npy_bytes(np.ones(2))))
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(content)

    with pytest.raises(files.FileRefused, match="is encrypted"):
        files.describe(path)


@pytest.mark.parametrize(
    "header",
    [
        {"x": entry([0, 8], [2]), "y": entry([4, 12], [2])},  # overlap
        {"x": entry([0, 4], [1]), "y": entry([8, 12], [1])},  # hole
        {"x": entry([4, 12], [2])},  # begins late
        {"x": entry([0, 12], [2])},  # longer than its shape
        {"x": entry([12, 0], [3])},
        {"x": entry([0, 12], [-3])},
        {"x": entry([0, 12], [3.0])},
        {"x": entry([0, 12], [True, 3])},
        {"x": entry([0, 12], None)},
        {"x": entry(None, [3])},
        {"x": entry([0], [3])},
        {"x": entry([0, 12], [3], "I32")},
        {"x": entry([0, 12], [3], "BF16")},
        {"x": entry([0, 12], [3], None)},
        {"x": entry([0, 0], [0, 2**70]), "y": entry([0, 12], [3])},
        {"x": entry([0, 12], [1] * 65 + [3])},
        {"x": {"dtype": "F32", "shape": [3]}},
        {"x": entry([0, 12], [3]) | {"more": 1}},
        {"x": [0, 12]},
        {},
        {"__metadata__": {"a": "b"}},
        [],
        7,
        b"not json",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"x": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_safetensors_header_that_lies_is_refused(tmp_path: Path, header: Any) -> None:
    with pytest.raises(files.FileRefused):
        files.describe(with_header(tmp_path / "a.safetensors", header, bytes(12)))


def test_more_arrays_than_any_model_has_are_refused_before_they_are_looked_at(tmp_path: Path) -> None:
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    path = with_header(tmp_path / "a.safetensors", dict.fromkeys(map(str, range(2**16 + 1)), empty), b"")

    with pytest.raises(files.FileRefused, match="at most 65536 arrays"):
        files.describe(path)


def test_a_safetensors_header_longer_than_the_file_is_refused(tmp_path: Path) -> None:
    for size in (3, 10**8, 2**63, 2**64 - 1):
        (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", size) + b"{}")
        with pytest.raises(files.FileRefused, match=r"no readable .safetensors header"):
            files.describe(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 99999999999999999999999)}",
        "{'descr': '<f4', 'fortran_order': 3, 'shape': (1,)}",
        "{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'shape': (1,)}",
        "__import__('os').abort()",
        "(" * 3000,
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}\xa0",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), \x85}",
        "\x00",
        "",
    ],
)
def test_an_npy_header_that_lies_is_refused(tmp_path: Path, header: str) -> None:
    text = header.encode("latin1") + b"\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(4))

    with pytest.raises(files.FileRefused):
        files.describe(tmp_path / "a.npy")


def test_headers_mean_what_numpy_says(tmp_path: Path) -> None:
    """Headers as numpy writes them, as others may, and with one character changed, removed or added."""
    good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
    headers = [
        good,
        good.replace("'", '"'),
        good.replace(" ", ""),
        "{ 'shape' : ( 2 ,3 ) , 'fortran_order':True,'descr' : '>f8'}",
        "{'shape': (2L, 3L), 'descr': '<f4', 'fortran_order': False}",
        "{'shape': (2), 'descr': '<f4', 'fortran_order': False}",
        "{'shape': (2,), 'descr': '<f4', 'fortran_order': False}",
        "{'shape': (), 'descr': '<f4', 'fortran_order': False}",
        "{'shape': (,), 'descr': '<f4', 'fortran_order': False}",
        "{'shape': (2,3), 'descr': '<f4' 'fortran_order': False}",
        "{'shape': (2,3), 'descr': '<f4', 'fortran_order': False, 'more': 1}",
        "{'shape': True, 'descr': '<f4', 'fortran_order': False}",
        "{'shape': (2,3), 'descr': '<f4', 'fortran_order': (1,)}",
    ]
    for place in range(len(good)):
        headers += [good[:place] + more + good[place + kept :] for more in ("", "9", ",", "'", ")") for kept in (0, 1)]
    path, read = tmp_path / "a.npy", 0
    for header in headers:
        text = header.encode() + b"\n"
        start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
        try:
            stream = io.BytesIO(start[8:])
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
            known = dtype in (np.float32, np.float64, ">f8") and dtype.isnative == (dtype.str[0] == "<")
        except Exception:
            known = False
        path.write_bytes(start + bytes(dtype.itemsize * int(np.prod(shape)) if known else 0))
        if not known:
            with pytest.raises(files.FileRefused):
                files.describe(path)
            continue
        (entry,) = files.describe(path).values()
        assert (entry.shape, entry.fortran, entry.dtype) == (shape, fortran, dtype.newbyteorder("=")), header
        read += 1
    assert read > 50


def test_headers_are_read_without_the_parser_that_fails_in_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ast.literal_eval` of CPython 3.11 raises SystemError where a finalizer lets another thread parse meanwhile."""
    path = written(tmp_path / "a.npz", {"x": np.ones((2, 3))})

    def failing(*_: Any) -> Any:
        raise SystemError("AST constructor recursion depth mismatch")

    monkeypatch.setattr(ast, "parse", failing)
    monkeypatch.setattr(ast, "literal_eval", failing)
    assert files.describe(path)["x"].shape == (2, 3)
    with pytest.raises(SystemError):
        np.lib.format.read_array_header_1_0(io.BytesIO(npy_bytes(np.ones(3))[8:]))


def test_other_content_under_a_known_extension_is_refused(tmp_path: Path) -> None:
    contents = [b"", b"\0" * 100, b"PK\3\4 but no archive", npy_bytes(np.ones(3)), os.urandom(500)]
    for suffix in (".npz", ".safetensors"):
        for content in contents:
            (tmp_path / f"a{suffix}").write_bytes(content)
            with pytest.raises(files.FileRefused):
                files.describe(tmp_path / f"a{suffix}")


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "folder.npz").mkdir()
    for name, reason in [("pipe.npz", "not a regular"), ("folder.npz", "not a regular"), ("none.npz", "No such file")]:
        with pytest.raises(files.FileRefused, match=reason):
            files.describe(tmp_path / name)


def test_an_unknown_extension_is_refused(tmp_path: Path) -> None:
    for name in ("a.pt", "a", ".npz", "a.npz.gz"):
        with pytest.raises(files.FileRefused, match=r"must end in .npy, .npz or .safetensors"):
            files.describe(tmp_path / name)
    assert files.extension("A.NPZ") == ".npz"


def test_files_that_differ_are_told_apart(tmp_path: Path) -> None:
    template = files.describe(written(tmp_path / "t.npz", {"x": np.ones((2, 3)), "y": np.ones(2)}))
    cases = {
        "lacks array 'y'": {"x": np.ones((2, 3))},
        "holds array 'z'": {"x": np.ones((2, 3)), "y": np.ones(2), "z": np.ones(1)},
        r"'x' has shape \(3, 2\), in the first file \(2, 3\)": {"x": np.ones((3, 2)), "y": np.ones(2)},
        "'y' has dtype float32, in the first file float64": {"x": np.ones((2, 3)), "y": np.ones(2, np.float32)},
    }
    for reason, arrays in cases.items():
        path = written(tmp_path / "a.npz", arrays)
        buffers = {"x": np.zeros((2, 3)), "y": np.zeros(2)}
        with pytest.raises(files.FileRefused, match=reason):
            files.check_alike(path, files.describe(path), template)
        with pytest.raises(files.FileRefused, match=reason):
            files.read_into(path, buffers)


def test_the_order_of_arrays_in_a_file_does_not_matter(tmp_path: Path) -> None:
    arrays = {"x": np.ones(2), "y": np.zeros(3)}
    path = written(tmp_path / "a.npz", dict(reversed(arrays.items())))

    files.check_alike(path, files.describe(path), files.describe(written(tmp_path / "b.npz", arrays)))
    assert_same(arrays, loaded(path))


def test_a_format_that_cannot_hold_the_arrays_is_refused(tmp_path: Path) -> None:
    with pytest.raises(files.FileRefused, match="holds one array, not 2"):
        files.check_writable(tmp_path / "a.npy", ("x", "y"))
    with pytest.raises(files.FileRefused, match="__metadata__"):
        files.check_writable(tmp_path / "a.safetensors", ("__metadata__",))
    files.check_writable(tmp_path / "a.npz", ("x", "y", "__metadata__"))
