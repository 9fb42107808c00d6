"""The bill of materials that wheels carry (PEP 770): the Rust crates and the C code in the native module.

``python packaging/sbom.py`` prints it; ``--write`` renews `ferrodp.cdx.json`, which a test compares with Cargo's
answer. It is CycloneDX 1.6, without a time or a path, so that it is the same wherever it is made.

Listed is what any of the published wheels contains: crates that are linked (scope "required"), and those that run only
while it is built, in build scripts and macros (scope "excluded").
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILE = Path(__file__).with_name("ferrodp.cdx.json")
MODULE = "ferrodp-py"
REPOSITORY = "https://github.com/ferrodp/ferrodp"
TARGETS = [
    f"{architecture}-{system}"
    for architecture in ("x86_64", "aarch64")
    for system in ("unknown-linux-gnu", "unknown-linux-musl", "apple-darwin", "pc-windows-msvc")
]


def ask_cargo(target: str) -> dict[str, Any]:
    """Return what `cargo metadata` says of the packages for one target."""
    command = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}"]
    answer: dict[str, Any] = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    return answer


def reach(cargo: dict[str, Any]) -> tuple[set[str], dict[str, set[str]]]:
    """Return the packages that are linked into the module, and all it is made with, each with what it needs."""
    nodes = {node["id"]: node for node in cargo["resolve"]["nodes"]}
    macros = {
        package["id"]
        for package in cargo["packages"]
        if any("proc-macro" in target["kind"] for target in package["targets"])
    }
    start = next(package["id"] for package in cargo["packages"] if package["name"] == MODULE)

    def needs(package: str, kinds: set[str | None]) -> set[str]:
        deps = nodes[package]["deps"]
        return {dep["pkg"] for dep in deps if kinds & {kind["kind"] for kind in dep["dep_kinds"]}}

    def closure(kinds: set[str | None], without: set[str]) -> set[str]:
        found, waiting = {start}, [start]
        while waiting:
            new = needs(waiting.pop(), kinds) - found - without
            found |= new
            waiting += new
        return found

    linked = closure({None}, macros)
    return linked, {package: needs(package, {None, "build"}) for package in closure({None, "build"}, set())}


def checksums() -> dict[tuple[str, str], str]:
    """Return the SHA-256 of each crate's archive, from the lock file."""
    packages = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    return {(p["name"], p["version"]): p["checksum"] for p in packages if "checksum" in p}


def crate(package: dict[str, Any], scope: str, sums: dict[tuple[str, str], str]) -> dict[str, Any]:
    """Return the entry of one crate."""
    name, version = package["name"], package["version"]
    purl = f"pkg:cargo/{name}@{version}"
    if package["source"] is None:
        purl += "?vcs_url=git%2B" + REPOSITORY.replace(":", "%3A").replace("/", "%2F")
    entry = {"type": "library", "bom-ref": f"{name}@{version}", "name": name, "version": version, "scope": scope}
    if (name, version) in sums:
        entry["hashes"] = [{"alg": "SHA-256", "content": sums[name, version]}]
    if package["license"]:
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    entry["purl"] = purl
    if package["repository"]:
        entry["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return entry


def sqlite(package: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of the SQLite that a crate brings as C code."""
    header = Path(package["manifest_path"]).with_name("sqlite3") / "sqlite3.h"
    found = re.search(r'#define SQLITE_VERSION\s+"([0-9.]+)"', header.read_text())
    assert found is not None, header
    return {
        "type": "library",
        "bom-ref": f"sqlite@{found[1]}",
        "name": "sqlite",
        "version": found[1],
        "scope": "required",
        "licenses": [{"expression": "blessing"}],
        "purl": f"pkg:generic/sqlite@{found[1]}",
        "externalReferences": [{"type": "website", "url": "https://sqlite.org"}],
    }


def bill() -> dict[str, Any]:
    """Return the whole document."""
    packages: dict[str, dict[str, Any]] = {}
    linked: set[str] = set()
    needed: dict[str, set[str]] = {}
    for target in TARGETS:
        cargo = ask_cargo(target)
        packages |= {package["id"]: package for package in cargo["packages"]}
        linked_here, needed_here = reach(cargo)
        linked |= linked_here
        for package, others in needed_here.items():
            needed.setdefault(package, set()).update(others)

    sums = checksums()
    entries = {id_: crate(packages[id_], "required" if id_ in linked else "excluded", sums) for id_ in needed}
    edges = {
        entries[id_]["bom-ref"]: sorted(entries[other]["bom-ref"] for other in others) for id_, others in needed.items()
    }
    (top,) = (id_ for id_ in entries if packages[id_]["name"] == MODULE)
    (bundling,) = (id_ for id_ in entries if packages[id_]["name"] == "libsqlite3-sys")
    c_code = sqlite(packages[bundling])
    edges[entries[bundling]["bom-ref"]].append(c_code["bom-ref"])
    edges[c_code["bom-ref"]] = []
    entry = entries.pop(top)
    del entry["scope"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": entry},
        "components": sorted([*entries.values(), c_code], key=lambda entry: str(entry["bom-ref"])),
        "dependencies": [{"ref": ref, "dependsOn": others} for ref, others in sorted(edges.items())],
    }


def text() -> str:
    """Return the document as it is stored."""
    return json.dumps(bill(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(text())
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        print(text(), end="")
