"""Refuses a wheel that is not what it says: ``python packaging/inspect_wheel.py WHEEL``.

Refused are machine code that needs a newer glibc or a library which the wheel's tag does not promise, paths of the
machine that built it, a missing license or bill of materials, and files outside of the package.
"""

import io
import json
import re
import sys
from pathlib import Path
from zipfile import ZipFile

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

ROOT = Path(__file__).resolve().parents[1]
GLIBC = (2, 17)  # of manylinux2014
LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
BESIDE = ["METADATA", "RECORD", "WHEEL", "licenses/LICENSE", "licenses/LICENSE-APACHE", "licenses/LICENSE-MIT"]


def faults_of_code(code: bytes) -> list[str]:
    """Return what keeps a shared library from loading on every system of the wheel's tag."""
    elf = ELFFile(io.BytesIO(code))
    faults = []
    for section in elf.iter_sections():
        if not isinstance(section, GNUVerNeedSection):
            continue
        for library, versions in section.iter_versions():
            for version in versions:
                found = re.fullmatch(r"GLIBC_([0-9.]+)", version.name)
                if found is None or tuple(map(int, found[1].split("."))) > GLIBC:
                    faults.append(f"needs {version.name} of {library.name}")
    dynamic = elf.get_section_by_name(".dynamic")
    needed = {tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"}
    return faults + [f"needs {library}" for library in sorted(needed - LIBRARIES)]


def faults(wheel: Path) -> list[str]:
    """Return everything that is wrong with a wheel."""
    archive = ZipFile(wheel)
    names = archive.namelist()
    found = [f"{name} twice" for name in {name for name in names if names.count(name) > 1}]

    (info,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
    wanted = [f"{info}/{name}" for name in [*BESIDE, "sboms/ferrodp.cdx.json"]] + ["ferrodp/py.typed"]
    found += [f"{name} is missing" for name in wanted if name not in names]
    found += [f"{name} is in it" for name in names if not name.startswith(("ferrodp/", f"{info}/"))]

    paths = {str(ROOT).encode(), str(Path.home()).encode() + b"/"}
    for name in names:
        content = archive.read(name)
        found += [f"{name} holds the path {path.decode()}" for path in paths if path in content]
        if name.endswith(".so"):
            found += [f"{name} {fault}" for fault in faults_of_code(content)]
            found += [f"{name} holds the functions that only tests call"] if b"_testing" in content else []
        if "/sboms/" in name:
            listed = json.loads(content)["components"]
            found += [f"{name} lists nothing"] if not listed else []
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    wrong = faults(Path(sys.argv[1]))
    if wrong:
        sys.exit("\n".join(wrong))
    print("glibc, libraries, paths, texts and bill of materials are in order")
