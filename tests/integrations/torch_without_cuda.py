"""Makes PyTorch for Linux work without the CUDA libraries that its package asks for: on a CPU, for tests alone.

They are 3 GB to download, and nothing on a CPU calls them; but PyTorch's own libraries are linked against them and are
not loaded without them. So they are left out of the installation, and a library that nobody provides gets a stand-in:
a shared object of its name which defines every symbol that PyTorch wants of it, under the version it wants, as a
function that ends the process. A call would stop the tests; it would never compute something wrong.

The two smallest, libcudart and libcupti, are installed, as PyTorch reads data of theirs.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

EXCLUDED = Path(__file__).with_name("torch_without_cuda.txt")
_LIBRARY = re.compile(r"lib(cu|nv|nccl)")
_UNVERSIONED = re.compile(r"(nccl|cusparseLt|cuFile|nvJitLink)\w+")
_DRIVER = "libcuda.so.1"
"""PyTorch looks for the driver itself and does without it."""


def stand_in(python: Path) -> None:
    """Give the PyTorch of an environment stand-ins for the libraries that it lacks.

    Parameters
    ----------
    python : Path
        The interpreter of the environment.
    """
    found = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    site = Path(found.stdout.strip())
    folder = site / "torch" / "lib"
    own = sorted(path for path in folder.glob("*.so*") if not path.is_symlink())
    for path in site.glob("nvidia/cu*/lib/lib*.so.*"):
        if not (folder / path.name).exists():
            os.symlink(path, folder / path.name)

    wanted = _wanted_symbols(own)
    for name in sorted(_needed(own)):
        if name != _DRIVER and not (folder / name).exists():
            _build(folder / name, wanted.pop(name, {}) | wanted.pop("", {}))


def _tool(*command: object) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def _needed(libraries: list[Path]) -> set[str]:
    """Return the names of the CUDA libraries that libraries are linked against."""
    listing = "".join(_tool("readelf", "--dynamic", path) for path in libraries)
    return {name for name in re.findall(r"\(NEEDED\).*\[(.+?)\]", listing) if _LIBRARY.match(name)}


def _wanted_symbols(libraries: list[Path]) -> dict[str, dict[str, str]]:
    """Return the version of each symbol that is wanted, by library; those without a version belong to library ""."""
    wanted: dict[str, dict[str, str]] = defaultdict(dict)
    for path in libraries:
        library, home = "", {}
        for line in _tool("readelf", "--version-info", "--wide", path).splitlines():
            if found := re.search(r"\bFile: (\S+)", line):
                library = found[1]
            elif found := re.search(r"\bName: (\S+)", line):
                home[found[1]] = library
        for line in _tool("nm", "--dynamic", "--undefined-only", path).splitlines():
            symbol, _, version = line.split()[-1].partition("@")
            version = version.lstrip("@")
            if _LIBRARY.match(home.get(version, "")):
                wanted[home[version]][symbol] = version
            elif not version and _UNVERSIONED.fullmatch(symbol):
                wanted[""][symbol] = ""
    return wanted


def _build(path: Path, symbols: dict[str, str]) -> None:
    """Write a shared object that defines symbols, each under its version, as functions that end the process."""
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder, "stand_in.c"), Path(folder, "versions")
        source.write_text("".join(f"void {symbol}(void) {{ __builtin_trap(); }}\n" for symbol in sorted(symbols)))
        by_version = defaultdict(list)
        for symbol, version in symbols.items():
            by_version[version].append(symbol)
        named = {version: each for version, each in by_version.items() if version}
        script.write_text("".join(f"{version} {{ global: {'; '.join(each)}; }};\n" for version, each in named.items()))
        versions = [f"-Wl,--version-script={script}"] if named else []
        _tool("gcc", "-shared", "-fPIC", "-w", source, "-o", path, f"-Wl,-soname,{path.name}", *versions)
