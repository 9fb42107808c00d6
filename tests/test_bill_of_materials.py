"""The bill of materials that wheels carry lists what Cargo says they are made of."""

import importlib.util
import json
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE = ROOT / "packaging" / "ferrodp.cdx.json"


@pytest.fixture(scope="module")
def sbom():
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "packaging" / "sbom.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_kept_bill_is_the_one_that_cargo_gives(sbom):
    assert sbom.text() == FILE.read_text(), "run: python packaging/sbom.py --write"


def test_every_crate_of_the_bill_is_locked_and_what_is_linked_is_told_from_what_builds():
    bill = json.loads(FILE.read_text())
    locked = {(p["name"], p["version"]): p for p in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]}
    scopes = {part["name"]: part["scope"] for part in bill["components"]}

    for part in bill["components"]:
        if part["name"] != "sqlite":
            package = locked[part["name"], part["version"]]
            assert [entry["content"] for entry in part.get("hashes", [])] == [
                package[k] for k in package if k == "checksum"
            ]
    assert {scopes[name] for name in ("ferrodp-core", "aes", "pyo3", "sqlite", "libc")} == {"required"}
    assert {scopes[name] for name in ("cc", "syn", "pyo3-macros")} == {"excluded"}
    assert not {"criterion", "ferrodp-testkit", "ferrodp-benches"} & scopes.keys()


def test_every_part_has_a_place_in_the_graph_of_dependencies():
    bill = json.loads(FILE.read_text())
    refs = {part["bom-ref"] for part in [*bill["components"], bill["metadata"]["component"]]}
    graph = {node["ref"]: node["dependsOn"] for node in bill["dependencies"]}

    assert refs == graph.keys()
    assert {ref for others in graph.values() for ref in others} <= refs


def test_the_bill_names_no_path_and_no_time():
    text = FILE.read_text()

    assert str(ROOT) not in text
    assert "file:" not in text
    assert "timestamp" not in text
