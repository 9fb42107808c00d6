"""The code blocks of a Markdown page: found, run in order, and their output.

Every block of a page runs, as written, in the order of the page, in one empty folder: Python blocks in one namespace,
shell blocks in bash with `set -euo pipefail` and the folder of this interpreter's programs first in PATH. As in a
notebook, the value of a Python block's last expression is part of its output. A comment in the line before a fence
changes what is expected of the block:

    <!-- not run: REASON -->    the block is not run, for the stated reason
    <!-- raises: NAME -->       the block ends with this exception, whose message is its last line of output
    <!-- exits: CODE -->        the shell block ends with this code
    <!-- needs: NAME -->        the block runs only where the framework NAME is, in the environment that
                                `./check frameworks NAME` makes; as the first line of a page, all its blocks

In a block, a comment `# → TEXT` promises a line TEXT of output, in which … stands for anything; a page without that
line fails. Warnings are errors; where a framework runs, its own are not. The same function runs the blocks for the
tests and for the built pages, which show the output. `./check` does both, and names a folder in `FERRODP_PAGE_OUTPUTS`
that is empty when it begins: a page that has run well leaves its outputs there, and does not run again. Where this user
may make a namespace without a network, blocks run in one.

    python docs/_ext/blocks.py PAGE      prints the blocks and what they print
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

LANGUAGES = ("python", "sh")
_FENCE = re.compile(
    r"^(?:<!-- (?P<mark>not run|raises|exits|needs): (?P<value>[^\n]+?) -->\n)?"
    r"(?P<fence>```+)(?P<language>\w+)\n(?P<code>.*?)^(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)
_NEEDED_BY_ALL = re.compile(r"<!-- needs: (\S+) -->\n(?!```)")
_EXPECTED = re.compile(r"# → (.*)$", re.MULTILINE)


class BlockError(Exception):
    """A block did not do what the page says."""


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, code, mark, framework, the line it begins in, and where it ends in the page."""

    language: str
    code: str
    mark: str | None
    value: str | None
    needs: str | None
    line: int
    end: int

    @property
    def runs_here(self) -> bool:
        """Whether the block is one to be run, in this environment."""
        return self.mark != "not run" and self.needs in (None, os.environ.get("FERRODP_FRAMEWORK"))


def find(text: str) -> list[Block]:
    """Return the Python and shell blocks of a page."""
    all_need = _NEEDED_BY_ALL.match(text)
    return [
        Block(
            language=found["language"],
            code=found["code"],
            mark=found["mark"],
            value=found["value"],
            needs=found["value"] if found["mark"] == "needs" else all_need and all_need[1],
            line=text[: found.start("code")].count("\n") + 1,
            end=found.end(),
        )
        for found in _FENCE.finditer(text)
        if found["language"] in LANGUAGES
    ]


def run(page: Path) -> list[str | None]:
    """Run the blocks of a page in a process and an empty folder of their own; return what each prints, None if not run.

    Outputs of the same text that are kept in `FERRODP_PAGE_OUTPUTS` are returned instead.

    Raises
    ------
    BlockError
        If a block fails, or prints something else than the page says.
    """
    kept = _kept(page)
    if kept and kept.exists():
        found: list[str | None] = json.loads(kept.read_text(encoding="utf-8"))
        return found
    with tempfile.TemporaryDirectory(dir=_local_folder()) as folder:
        environment = os.environ | {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "MPLBACKEND": "Agg",
            "NO_COLOR": "1",
            "COLUMNS": "100",
        }
        command = [*_offline(), sys.executable, __file__, "--json", str(page.resolve())]
        ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if ended.returncode:
        raise BlockError(ended.stderr.strip())
    outputs: list[str | None] = json.loads(ended.stdout)
    if kept:
        whole = kept.with_suffix(f".{os.getpid()}")
        whole.write_text(ended.stdout, encoding="utf-8")
        whole.replace(kept)
    return outputs


def _kept(page: Path) -> Path | None:
    """Return where the outputs of a page's text are kept, if they are; those of frameworks are not."""
    folder = os.environ.get("FERRODP_PAGE_OUTPUTS")
    if not folder or "FERRODP_FRAMEWORK" in os.environ:
        return None
    return Path(folder, hashlib.sha256(f"{page.resolve()}\n{page.read_text(encoding='utf-8')}".encode()).hexdigest())


@functools.cache
def _offline() -> tuple[str, ...]:
    """Return the command that runs another without a network, where that is possible; frameworks need the loopback."""
    offline = ("unshare", "--net")
    if "FERRODP_FRAMEWORK" in os.environ or not shutil.which("unshare"):
        return ()
    return offline if not subprocess.run([*offline, "true"], capture_output=True).returncode else ()


def _local_folder() -> str | None:
    """Return where ledgers may lie if the default folder for temporary files is a container's overlay."""
    found = subprocess.run(
        ["stat", "--file-system", "--format=%T", tempfile.gettempdir()], capture_output=True, text=True
    )
    return "/dev/shm" if found.stdout.strip() == "overlayfs" and os.path.isdir("/dev/shm") else None


def _run_here(page: Path) -> list[str | None]:
    # A framework warns of its own affairs; this package's warnings are errors everywhere.
    warnings.filterwarnings("error", module="ferrodp" if os.environ.get("FERRODP_FRAMEWORK") else "")
    names: dict[str, Any] = {"__name__": "__main__"}
    outputs: list[str | None] = []
    for block in find(page.read_text(encoding="utf-8")):
        if not block.runs_here:
            outputs.append(None)
            continue
        where = f"{page.name}:{block.line}"
        output = _shell(block, where) if block.language == "sh" else _python(block, where, names)
        _compare(block, where, output)
        outputs.append(output)
    return outputs


def _python(block: Block, where: str, names: dict[str, Any]) -> str:
    # Line numbers of a traceback are those of the page.
    tree = ast.parse("\n" * (block.line - 1) + block.code, where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    expected = block.value if block.mark == "raises" else None
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(tree, where, "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), where, "eval"), names)
                if value is not None:
                    print(repr(value))
        except Exception as error:
            if type(error).__name__ != expected:
                raise BlockError(f"{where}: {type(error).__name__}: {error}") from error
            print(f"{type(error).__name__}: {error}")
        else:
            if expected is not None:
                raise BlockError(f"{where}: did not raise {expected}")
    return printed.getvalue()


def _shell(block: Block, where: str) -> str:
    ended = subprocess.run(
        ["bash", "-c", "set -euo pipefail\n" + block.code],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    if ended.returncode != int(block.value if block.mark == "exits" and block.value else 0):
        raise BlockError(f"{where}: exit code {ended.returncode}\n{ended.stdout}")
    return ended.stdout


def _compare(block: Block, where: str, output: str) -> None:
    lines = iter(output.splitlines())
    for expected in _EXPECTED.findall(block.code):
        pattern = re.compile(".*".join(map(re.escape, expected.strip().split("…"))))
        if not any(pattern.fullmatch(line.strip()) for line in lines):
            raise BlockError(f"{where}: no line {expected!r} in the output\n{output}")


def main() -> None:
    """Run the blocks of one page; see the module."""
    page = Path(sys.argv[-1])
    if "--json" in sys.argv:
        try:
            json.dump(_run_here(page), sys.stdout)
        except BlockError as error:
            sys.exit(str(error))
        return
    for block, output in zip(find(page.read_text(encoding="utf-8")), run(page), strict=True):
        shown = output if output is not None else f"(not run: {block.value or block.needs})"
        print(asdict(block)["code"], shown, sep="--\n")


if __name__ == "__main__":
    main()
