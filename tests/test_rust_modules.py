"""The modules of every Rust crate use one another in one direction: no two files need each other."""

import re
from pathlib import Path

import pytest

import rust_counts
import test_words

RUST = Path(__file__).parents[1] / "rust"
CRATES = sorted(RUST.glob("*/src"))
MOST_FILES = 15
"""As in a folder of Python."""

CONSTANT = re.compile(
    r"^(?:pub(?:\([^)]*\))? )?(?:const|static)(?: mut)? ([A-Z]\w*)\s*:[^=]+=\s*([^;]+(?:;[^;]*\])?);", re.MULTILINE
)
WORDS = {"UNIT"}
"""Constants whose one word is a term of the field: the unit roundoff of floats."""

# A file's place in its crate: ("sample", "types") is sample/types.rs, () is lib.rs.
Module = tuple[str, ...]

INLINE = re.compile(r"\bmod\s+\$?\w+\s*\{")
TEST_ONLY = r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\(\w+\))?\s+)?mod\s+(\w+)\s*"


def closing(text: str, start: int) -> int:
    """Return the place after the brace that closes the one before `start`."""
    depth = 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[start], 0)
        start += 1
    return start


def code_alone(text: str) -> str:
    """Return the text without comments, strings, visibilities and tests."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r'"(?:\\.|[^"\\])*"', '""', text)
    text = re.sub(r"pub\s*\((?:in )?[\w:]+\)", "pub", text)
    while found := re.search(TEST_ONLY + r"\{", text):
        text = text[: found.start()] + text[closing(text, found.end()) :]
    return text


def leaves(tree: str, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the paths of a use tree such as `super::{a, b::{c, d}}`."""
    found = re.match(r"((?:\w+\s*::\s*)*)\{(.*)\}$", tree.strip(), re.DOTALL)
    if not found:
        return [(*prefix, *(part.strip() for part in re.sub(r"\s+as\s+\w+$", "", tree).split("::")))]
    prefix = (*prefix, *(part.strip() for part in found[1].split("::") if part.strip()))
    parts, depth = [""], 0
    for letter in found[2]:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [leaf for part in parts if part.strip() for leaf in leaves(part, prefix)]


def paths(text: str, children: set[str], depth: int = 0) -> list[tuple[tuple[str, ...], int]]:
    """Return the paths that code names, and how many inline modules it is in."""
    found, rest, start = [], "", 0
    while inline := INLINE.search(text, start):
        end = closing(text, inline.end())
        found += paths(text[inline.end() : end - 1], children, depth + 1)
        rest += text[start : inline.start()]
        start = end
    rest += text[start:]
    found += [(leaf, depth) for tree in re.findall(r"\buse\s+([^;]+);", rest) for leaf in leaves(tree)]
    rest = re.sub(r"\buse\s+[^;]+;", "", rest)
    named = re.findall(r"\b(?:crate|super|self)(?:::\w+)+", rest)
    named += [f"self::{child}" for child in children if re.search(rf"(?<!:)\b{child}::\w", rest)]
    return found + [(tuple(path.split("::")), depth) for path in named]


def edges(source: Path) -> dict[Module, set[Module]]:
    """Return which files of a crate use which; tests may use whatever they want."""
    files = {path.relative_to(source).with_suffix("").parts: path for path in source.rglob("*.rs")}
    texts = {() if module == ("lib",) else module: path.read_text() for module, path in files.items()}
    tests = {(*module, name) for module, text in texts.items() for name in re.findall(TEST_ONLY + ";", text)}
    found: dict[Module, set[Module]] = {module: set() for module in texts}
    for module, text in texts.items():
        if any(module[: len(test)] == test for test in tests):
            continue
        children = {other[-1] for other in texts if other and other[:-1] == module}
        for path, depth in paths(code_alone(text), children):
            target = resolved(module, path, depth, texts.keys())
            if target is not None and target != module:
                found[module].add(target)
    return found


def resolved(module: Module, path: tuple[str, ...], depth: int, files) -> Module | None:
    """Return the file that a path leads to; None if it is outside of the crate."""
    names = list(path)
    if names[0] == "crate":
        place, names = (), names[1:]
    elif names[0] in ("self", "super"):
        above = 0
        while names and names[0] in ("self", "super"):
            above += names.pop(0) == "super"
        if above < depth:
            return module
        place = module[: len(module) - (above - depth)]
    elif (*module, names[0]) in files:
        place = module
    else:
        return None
    while names and (*place, names[0]) in files:
        place = (*place, names.pop(0))
    return place


def circle(graph: dict[Module, set[Module]]) -> list[str]:
    """Return the names of files that need one another, or nothing."""
    left = dict(graph)
    while free := [module for module, used in left.items() if not used & left.keys()]:
        for module in free:
            del left[module]
    while free := [module for module in left if not any(module in used for used in left.values())]:
        for module in free:
            del left[module]
    return sorted("/".join(module) or "lib" for module in left)


@pytest.mark.parametrize("source", CRATES, ids=lambda source: source.parent.name)
def test_no_files_of_a_crate_need_one_another(source):
    assert circle(edges(source)) == []


def test_a_circle_is_found():
    graph = {("a",): {("b",)}, ("b",): {("c",)}, ("c",): {("b",), ("d",)}, ("d",): set()}

    assert circle(graph) == ["b", "c"]


def test_uses_are_read_as_rust_reads_them(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "lib.rs").write_text("mod one;\nmod two;\npub use one::{inner::Deep, Other};\n")
    (tmp_path / "one.rs").write_text(
        "mod inner;\n// crate::two\nfn f() { inner::g(); }\n#[cfg(test)]\nmod t { use crate::two; }\n"
    )
    (tmp_path / "one" / "inner.rs").write_text("mod m { use super::super::super::two::{A, B}; }\n")
    (tmp_path / "two.rs").write_text('const T: &str = "crate::one";\npub(in crate::one) struct A;\n')

    assert edges(tmp_path) == {
        (): {("one",), ("one", "inner")},
        ("one",): {("one", "inner")},
        ("one", "inner"): {("two",)},
        ("two",): set(),
    }


def test_no_folder_is_a_drawer():
    folders = [folder for folder in RUST.rglob("*") if folder.is_dir() and "target" not in folder.parts]
    full = {str(folder.relative_to(RUST)): len(list(folder.glob("*.rs"))) for folder in folders}

    assert {folder: files for folder, files in full.items() if files > MOST_FILES} == {}
    # None of them is overlooked.
    assert full["ferrodp-core/src"] > 5


def constants(source: Path) -> dict[str, dict[str, list[str]]]:
    """Return the constants of modules by name and value, and where they are; those of tests are left out."""
    files = {path: path.read_text() for path in source.rglob("*.rs")}
    only_tests = {
        path.parent / found[1]
        if found[1]
        else (path.parent if path.name == "lib.rs" else path.with_suffix("")) / f"{found[2]}.rs"
        for path, text in files.items()
        for found in rust_counts.TESTS.finditer(text)
    }
    found: dict[str, dict[str, list[str]]] = {}
    for path, text in files.items():
        if path not in only_tests and not any(test.with_suffix("") in path.parents for test in only_tests):
            for name, value in CONSTANT.findall(rust_counts.without_tests(text)):
                places = found.setdefault(name, {}).setdefault(" ".join(value.split()), [])
                places.append(str(path.relative_to(source)))
    return found


@pytest.mark.parametrize("source", CRATES, ids=lambda source: source.parent.name)
def test_no_constant_is_one_bare_word(source):
    assert {name for name in constants(source) if name.isalpha()} <= WORDS


@pytest.mark.parametrize("source", CRATES, ids=lambda source: source.parent.name)
def test_a_constant_means_one_thing_in_a_crate(source):
    assert {name: values for name, values in constants(source).items() if len(values) > 1} == {}


def test_constants_are_read_as_rust_reads_them(tmp_path):
    (tmp_path / "lib.rs").write_text(
        "mod a;\n#[cfg(test)]\nmod t;\nconst MOST: usize = 3;\nimpl A {\n    const ZERO: A = A;\n}\n"
    )
    (tmp_path / "a.rs").write_text("pub(crate) static MOST: [u8; 2] =\n    [1, 2];\n#[cfg(test)]\nmod t {\n}\n")
    (tmp_path / "t.rs").write_text("const FEW: u8 = 1;\n")

    assert constants(tmp_path) == {"MOST": {"3": ["lib.rs"], "[1, 2]": ["a.rs"]}}


def test_comments_have_no_words_of_the_list():
    words = [word for word in test_words.WORDS if word not in test_words.ON_PAGES_ALONE]
    files = [path for path in RUST.rglob("*.rs") if "target" not in path.parts]

    assert {
        f"{path.relative_to(RUST)}:{number}": found
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (comment := line.partition("//")[2])
        and not re.search(r"mutant:|Record:", comment)
        and (found := test_words.found_in(comment, words))
    } == {}


def test_clip_stays_small():
    counts = rust_counts.clip_counts()

    assert {what: count for what, count in counts.items() if count > rust_counts.LIMITS[what]} == {}
    # None of them is overlooked.
    assert counts["code lines"] > 1000
    assert min(counts.values()) > 1


def test_code_lines_are_counted_without_tests_and_comments():
    text = "//! A\nfn a() { // b\n\n}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n/// c\nfn d() {}\n"

    assert rust_counts.code_of(text) == ["fn a() {", "}", "fn d() {}"]


CANNOT_FAIL = re.compile(r"PyArray\w*::(?:from_slice|from_vec2|zeros|new)\b|\.to_pyarray\(|PyByteArray::new\(")
"""What makes an array of Python's, as long as an argument wants, and panics where there is no memory for it."""


def test_the_binding_makes_no_array_in_a_way_that_cannot_fail():
    """A vector is made in a way that can, and given to Python as it is."""
    files = [path for path in (RUST / "ferrodp-py/src").rglob("*.rs") if path.name != "testing.rs"]
    found = [f"{path.name}: {each}" for path in files for each in CANNOT_FAIL.findall(code_alone(path.read_text()))]

    assert len(files) > 20
    assert found == []
