"""Runs the tests against real frameworks, each in a virtual environment of its own: `./check frameworks [NAME ...]`.

A folder beside this file is one framework. Its `requirements.txt` says what its environment has besides the
dependencies of this package, pytest and hypothesis; a line `-r ../torch/requirements.txt` takes in another's. The
environments are kept in `.venv-frameworks/NAME` and made anew when what they hold has changed. The package is that of
this checkout, with the native module that `./check` has built there.

In each environment run, with `FERRODP_FRAMEWORK=NAME` and `OMP_NUM_THREADS=1`: the tests of the folder, the pages that
say `<!-- needs: NAME -->`, and the examples in the docstrings of `ferrodp.integrations.NAME`. Warnings are errors where
this package causes them, and nowhere else.

The environments are made one after the other in a thread of their own, ahead of the tests: that waits for the network
and the disk, tests for a processor. `--prepare` makes them and tests nothing, so that it can be done while other things
are built. Four frameworks are tested at a time, the longest first; what one prints is shown when it has ended.

A framework that cannot be installed is skipped, which the last line says. Frameworks that cannot be in the ordinary run
for their size are left out of it by a file `only-if-asked` in their folder, which gives the reason; `--all`, or their
name, runs them too.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import os
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import torch_without_cuda

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENTS = ROOT / ".venv-frameworks"
TOOLS = ["pytest>=8", "hypothesis>=6.100"]
PROGRAMS = {"spark": "java"}
"""What a framework needs of the system, beside what can be installed here."""
LONGEST = ["explorer", "flower", "mindspore", "torch", "jax", "dask", "nvflare"]
AT_A_TIME = 4
WARNINGS = "filterwarnings=default\nerror:::ferrodp"


class InstallError(Exception):
    """A framework's environment cannot be made."""


def frameworks() -> list[str]:
    """Return the names of all folders with requirements."""
    return sorted(path.parent.name for path in HERE.glob("*/requirements.txt"))


def requirements(path: Path) -> list[str]:
    """Return the lines of a file of requirements and of those it takes in, without comments."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("-r "):
            found += requirements(path.parent / line.removeprefix("-r ").strip())
        elif line:
            found.append(line)
    return found


def environment(name: str) -> Path:
    """Return the interpreter of a framework's environment, which is made if it is missing or of other requirements.

    Raises
    ------
    InstallError
        If a requirement cannot be installed.
    """
    program = PROGRAMS.get(name)
    if program is not None and shutil.which(program) is None:
        raise InstallError(f"it needs {program}, which this system does not have")
    with (ROOT / "pyproject.toml").open("rb") as file:
        own = tomllib.load(file)["project"]["dependencies"]
    wanted = [*own, *TOOLS, *requirements(HERE / name / "requirements.txt")]
    key = hashlib.sha256("\n".join([sys.version, *wanted]).encode()).hexdigest()
    folder = ENVIRONMENTS / name
    python, stamp = folder / "bin" / "python", folder / "requirements.sha256"
    if python.exists() and stamp.exists() and stamp.read_text() == key:
        return python

    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", folder])
    if _has_torch(wanted):
        install_with_torch(python, wanted)
    else:
        install(python, wanted)
    site = _run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    Path(site, "ferrodp-checkout.pth").write_text(f"{ROOT / 'python'}\n")
    command = folder / "bin" / "ferrodp"  # which pages call
    command.write_text(f"#!{python}\nfrom ferrodp.cli import main\nraise SystemExit(main())\n")
    command.chmod(0o755)
    stamp.write_text(key)
    print(f"{name}: environment made in {time.monotonic() - started:.0f} s", flush=True)
    return python


def install(python: Path, wanted: list[str], *options: str) -> None:
    """Install with uv, which the environment gets if there is none; with pip if that fails, without the options."""
    programs = [Path(sys.executable).parent, python.parent, ROOT / ".venv" / "bin"]
    folders = [*map(str, programs), os.environ["PATH"]]
    if shutil.which("uv", path=os.pathsep.join(folders)) is None:
        subprocess.run([python, "-m", "pip", "install", "--quiet", "uv"], capture_output=True)
    uv = shutil.which("uv", path=os.pathsep.join(folders))
    if uv:
        _run([uv, "pip", "install", "--quiet", "--python", python, *options, *wanted])
    else:
        _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted])


def install_with_torch(python: Path, wanted: list[str]) -> None:
    """Install PyTorch without what only a graphics processor needs; where that fails, all of it."""
    if shutil.which("gcc") and sys.platform == "linux":
        try:
            install(python, wanted, "--excludes", str(torch_without_cuda.EXCLUDED))
            torch_without_cuda.stand_in(python)
            _run([python, "-c", "import torch; torch.ones(2, 2) @ torch.ones(2, 2)"])
            return
        except InstallError as error:
            print(f"PyTorch without CUDA cannot be installed, so all of it is: {error}", flush=True)
    install(python, wanted)


def _has_torch(wanted: list[str]) -> bool:
    return any(line.startswith(("torch=", "torch>", "torch<", "torch~")) or line == "torch" for line in wanted)


def _run(command: list[object]) -> str:
    ended = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if ended.returncode:
        raise InstallError((ended.stderr or ended.stdout).strip()[-2000:])
    return ended.stdout


def versions(python: Path, name: str) -> str:
    """Return the versions that an environment has of what the framework's requirements name."""
    lines = requirements(HERE / name / "requirements.txt")
    code = (
        "import importlib.metadata as m, re, sys; "
        "names = ['numpy', *(re.split(r'[^\\w.-]', each)[0] for each in sys.argv[1:])]; "
        "print(', '.join(['Python ' + sys.version.split()[0], *(f'{each} {m.version(each)}' for each in names)]))"
    )
    return _run([python, "-c", code, *lines]).strip()


def test(python: Path, name: str) -> tuple[bool, str]:
    """Run the tests of a framework; return whether all passed, and what they printed."""
    command = [python, "-m", "pytest", "-o", WARNINGS, HERE / name]
    command += [ROOT / "tests/docs/test_pages.py::test_the_blocks_of_a_page_run"]
    command += [ROOT / "tests/test_docstrings.py::test_examples_run_as_shown"]
    settings = {"FERRODP_FRAMEWORK": name, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    started = time.monotonic()
    ended = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=os.environ | settings,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return ended.returncode == 0, f"{ended.stdout}{name}: tested in {time.monotonic() - started:.0f} s"


def main() -> int:
    """Run the tests of the frameworks that were asked for, or of all; return the exit code."""
    parser = argparse.ArgumentParser(prog="./check frameworks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a folder of tests/integrations; all if none is named")
    parser.add_argument("--all", action="store_true", help="those as well that are left out of the ordinary run")
    parser.add_argument("--prepare", action="store_true", help="make the environments, and test nothing")
    asked = parser.parse_args()
    unknown = sorted(set(asked.names) - set(frameworks()))
    if unknown:
        parser.error(f"no framework {', '.join(unknown)}; there are {', '.join(frameworks())}")

    names = asked.names or frameworks()
    reasons = {name: HERE / name / "only-if-asked" for name in names if not asked.names and not asked.all}
    left_out = {name: path.read_text(encoding="utf-8").strip() for name, path in reasons.items() if path.exists()}
    tested = set(names) - set(left_out)
    in_order = [name for name in LONGEST if name in tested] + sorted(tested - set(LONGEST))
    for name, reason in left_out.items():
        print(f"\n== {name}\nleft out: {reason}", flush=True)
    passed, failed, skipped = [], [], []
    with concurrent.futures.ThreadPoolExecutor(1) as maker, concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as tester:
        made = {name: maker.submit(environment, name) for name in in_order}

        def result(name: str) -> tuple[str, list[str], str]:
            try:
                python = made[name].result()
                listed = versions(python, name)
            except InstallError as error:
                return name, skipped, f"SKIPPED: {name} cannot be installed here\n{error}"
            if asked.prepare:
                return name, passed, listed
            is_good, printed = test(python, name)
            return name, passed if is_good else failed, f"{listed}\n{printed}"

        for done in concurrent.futures.as_completed([tester.submit(result, name) for name in in_order]):
            name, kind, printed = done.result()
            kind.append(name)
            print(f"\n== {name}\n{printed}", flush=True)
    if asked.prepare:
        return 0

    print(
        f"\nframeworks: {len(passed)} passed ({', '.join(passed) or 'none'}), "
        f"{len(failed)} failed ({', '.join(failed) or 'none'}), "
        f"{len(skipped)} skipped because they cannot be installed ({', '.join(skipped) or 'none'})",
        flush=True,
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
