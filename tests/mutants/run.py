"""Apply every mutant to a copy of the sources, one after the other, and see that its killer notices.

Run as `python tests/mutants/run.py [--only TEXT] [--file TEXT] [--record FILE] [--built] [--list]`. All of them take
hours, so no other command runs it. The copy is built in a target folder of its own, which is kept from run to run.
First every killer has to pass on the unchanged copy. Exit code 1 if a mutant survived, 2 if one could not be built or
applied.

``--record FILE`` keeps what was killed, so that a later run repeats only mutants whose file, or whose killer's command
or test files, have changed since: an interrupted run goes on where it was. Changes elsewhere are not looked at; a run
without a record looks at everything. ``--built`` leaves out the mutants of Rust and of frameworks and runs the others
with the native module that is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mutants import KILLERS, MUTANTS, BrokenError, Mutant, file_of

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "target" / "mutants"
MODULE = Path("python", "ferrodp", "_native.abi3.so")
SECONDS = 600  # a mutant that hangs is noticed too


def copy_sources(to: Path) -> None:
    """Copy what git knows, and what it does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    for name in listed.stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)  # with the time of now, or cargo would take an older build for this one


def run(command: list[str], tree: Path, **variables: str) -> int:
    """Run a command in the copy and return its exit code; -1 if it took too long."""
    environment = os.environ | {"CARGO_TARGET_DIR": str(TARGET), "PYTHONDONTWRITEBYTECODE": "1"} | variables
    with (tree.parent / "log.txt").open("ab") as log:
        try:
            return subprocess.run(
                command, cwd=tree, env=environment, stdout=log, stderr=log, timeout=SECONDS, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            return -1


def passes(killer: str, tree: Path, *, build: bool = True) -> bool:
    """Build what the killer needs, unless the module in the copy serves, run it, and return whether it passed."""
    program, *arguments = shlex.split(KILLERS[killer])
    if program == "cargo":
        which = arguments[1 : arguments.index("--")] if "--" in arguments else arguments[1:]
        if run(["cargo", "test", "--no-run", *which], tree) != 0:
            raise BrokenError("does not build")
        return run(["cargo", *arguments], tree) == 0
    if build:
        if run(["cargo", "build", "-p", "ferrodp-py", "--features", "testing"], tree) != 0:
            raise BrokenError("does not build")
        shutil.copy2(TARGET / "debug" / "lib_native.so", tree / MODULE)
    python, variables = sys.executable, {}
    if program == "framework":
        name, *arguments = arguments
        python = str(ROOT / ".venv-frameworks" / name / "bin" / "python")
        variables = {"FERRODP_FRAMEWORK": name, "OMP_NUM_THREADS": "1"}
        if not Path(python).exists():
            raise BrokenError(f"needs ./check frameworks {name}")
        arguments += ["-o", "filterwarnings=default"]
    command = [python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments]
    code = run(command, tree, PYTHONPATH=str(tree / "python"), FERRODP_ISA="portable", **variables)
    if code > 1:  # below 0 a signal ended it: a check of the library, or time
        raise BrokenError(f"pytest ended with {code}")
    return code == 0


def survives(mutant: Mutant, tree: Path, *, build: bool = True) -> bool:
    """Apply the mutant, see whether its killer passes, and put the file back."""
    file = file_of(mutant, tree)
    original = file.read_text()
    try:
        file.write_text(mutant.applied(original))
        return passes(mutant.killer, tree, build=build)
    finally:
        file.write_text(original)


def digest(mutant: Mutant, root: Path) -> str:
    """Return what identifies a mutant, its file, its killer's command and the test files that this names."""
    words = shlex.split(KILLERS[mutant.killer])
    named = [root / word.split("::")[0] for word in words]
    files = [file_of(mutant, root)] + [path for path in named if path.is_file()]
    seen = hashlib.sha256(repr((mutant, words)).encode())
    for file in files:
        seen.update(hashlib.sha256(file.read_bytes()).digest())
    return seen.hexdigest()


def main() -> int:
    """Run the chosen mutants and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="run the mutants whose name or killer holds this text")
    parser.add_argument("--file", default="", help="run the mutants of files whose path holds this text")
    parser.add_argument("--record", type=Path, help="a file of mutants that were killed: leave those out, add others")
    parser.add_argument("--built", action="store_true", help="run mutants of Python alone, with the installed module")
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only in mutant.name or options.only in mutant.killer]
    chosen = [mutant for mutant in chosen if options.file in str(file_of(mutant, ROOT))]
    if options.built:
        chosen = [mutant for mutant in chosen if needs_no_build(mutant)]
    if options.record and options.record.exists():
        dead = set(options.record.read_text().split())
        chosen = [mutant for mutant in chosen if digest(mutant, ROOT) not in dead]
    if options.list:
        print("\n".join(f"{mutant.killer:10} {mutant.name}" for mutant in chosen))
        return 0
    with tempfile.TemporaryDirectory(prefix="ferrodp-mutants-") as folder:
        tree = Path(folder) / "tree"
        copy_sources(tree)
        if options.built:
            shutil.copy2(ROOT / MODULE, tree / MODULE)
        for killer in sorted({mutant.killer for mutant in chosen}):
            if not passes_unchanged(killer, tree, build=not options.built):
                print(f"{killer} fails without any mutant; its log:\n{(Path(folder) / 'log.txt').read_text()[-4000:]}")
                return 2
        return report(chosen, tree, build=not options.built, record=options.record)


def needs_no_build(mutant: Mutant) -> bool:
    """Return whether the mutant is one of Python whose killer runs in the environment of this program."""
    return file_of(mutant, ROOT).suffix == ".py" and shlex.split(KILLERS[mutant.killer])[0] == "pytest"


def passes_unchanged(killer: str, tree: Path, *, build: bool = True) -> bool:
    """Return whether a killer is at peace with the sources as they are."""
    try:
        return passes(killer, tree, build=build)
    except BrokenError:
        return False


def report(chosen: list[Mutant], tree: Path, *, build: bool = True, record: Path | None = None) -> int:
    """Run the mutants, print a line for each, and return the exit code."""
    outcomes = []
    for mutant in chosen:
        begin = time.monotonic()
        try:
            outcome = "SURVIVED" if survives(mutant, tree, build=build) else "killed"
        except BrokenError as reason:
            outcome = f"BROKEN: {reason}"
        outcomes.append(outcome)
        print(f"{outcome:9} {time.monotonic() - begin:5.0f} s  {mutant.killer:10} {mutant.name}", flush=True)
        if record and outcome == "killed":
            with record.open("a") as dead:
                dead.write(f"{digest(mutant, tree)}\n")
    killed = outcomes.count("killed")
    print(f"{killed} of {len(chosen)} mutants killed")
    if "SURVIVED" in outcomes:
        return 1
    return 0 if killed == len(chosen) else 2


if __name__ == "__main__":
    sys.exit(main())
