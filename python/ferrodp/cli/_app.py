"""Parsing, dispatch, and how every command ends when something goes wrong.

Exit codes: 0 done; 1 refused or failed, with one line on standard error; 2 a command line that cannot be parsed;
3 refused because the release that a key names has begun before; 130 interrupted; 141 nobody reads the output.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import ferrodp
from ferrodp.cli._console import Console, one_line
from ferrodp.cli.audit import audit
from ferrodp.cli.bench.command import bench
from ferrodp.cli.calibrate import calibrate
from ferrodp.cli.demo.command import demo
from ferrodp.cli.epsilon import epsilon
from ferrodp.cli.explore import explore
from ferrodp.cli.ledger.command import add_actions, ledger
from ferrodp.cli.plan import plan
from ferrodp.cli.releasing.command import release
from ferrodp.errors import FerroError, KeyUsed
from ferrodp.files import FileRefused

COMMANDS = {
    "release": release,
    "epsilon": epsilon,
    "calibrate": calibrate,
    "plan": plan,
    "ledger": ledger,
    "demo": demo,
    "explore": explore,
    "audit": audit,
    "bench": bench,
}
TRACEBACK = "FERRODP_TRACEBACK"
"""Environment variable: anything but empty lets unexpected exceptions through, for a report of the defect."""

FAILED, MISUSED, KEY_USED, INTERRUPTED, UNREAD = 1, 2, 3, 130, 141

_DESCRIPTION = """\
Exact differential privacy at memory speed: clip, sum and noise model updates,
and know what it costs."""
_EPILOG = """examples:
  ferrodp release u*.npz --clip-norm 1.0 --noise-multiplier 1.1 -o sum.npz
  ferrodp epsilon --noise-multiplier 1.1 --sampling-probability 0.01 \\
      --count 10000
  ferrodp calibrate noise-multiplier --epsilon 3 --sampling-probability 0.01 \\
      --count 5000
  ferrodp plan forecast plan.json
  ferrodp ledger status budget.db
  ferrodp demo
  ferrodp explore
  ferrodp audit mechanism gaussian --epsilon 1 --draws 1e7
  ferrodp bench --quick

'ferrodp COMMAND --help' explains a command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name; by default that of the process) and return its exit code."""
    try:
        return _run(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:
        print("ferrodp: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _close_stdout()
        return UNREAD


def _run(argv: list[str]) -> int:
    """Parse, run, print. Whatever a user can cause ends in one line."""
    name = "ferrodp"
    try:
        args = build_parser().parse_args(argv)
        name = " ".join(("ferrodp", args.command, *([args.action] if "action" in args else ())))
        console = Console(json=args.json)
        command = COMMANDS[args.command]
        report = command.run(args, console)
        _print(lambda: console.report(report, command.show), "; the work itself is done")
    except SystemExit:  # --help and --version
        return 0
    except _Misused as error:
        return _failed(error.program, str(error), MISUSED)
    except BrokenPipeError:
        raise
    except (FerroError, MemoryError, OSError) as error:
        return _failed(name, _told(error), KEY_USED if isinstance(error, KeyUsed) else FAILED)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        # Neither message nor trace: an exception that nobody foresaw could quote data.
        return _failed(name, f"internal error ({type(error).__name__}); {TRACEBACK}=1 shows where", FAILED)
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for all commands."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        prog="ferrodp", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=layout, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"ferrodp {ferrodp.__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        each = command.declare(commands, name)
        if command is ledger:
            add_actions(each)
        each.add_argument("--json", action="store_true", help="print exactly one JSON object instead of text")
    return parser


class _Misused(Exception):  # noqa: N818  # what the user did
    """The command line does not parse."""

    def __init__(self, program: str, message: str) -> None:
        super().__init__(message)
        self.program = program


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage in front."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and let an optional positional argument come after options, which Python 3.11 does not."""
        found, rest = super().parse_known_args(args, namespace)
        for action in self._get_positional_actions():
            if action.nargs == "?" and len(rest) == 1 and getattr(found, action.dest) is None and rest[0][:1] != "-":
                setattr(found, action.dest, rest.pop())
        return found, rest

    def error(self, message: str) -> NoReturn:
        raise _Misused(self.prog, f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: object = None) -> None:
        _print(lambda: sys.stdout.write(message))  # the original ignores a full disk


def _told(error: BaseException) -> str:
    """Return the message of an exception that a user can do something about."""
    if isinstance(error, FerroError):
        return str(error)
    if isinstance(error, MemoryError):
        return str(error) or "not enough memory"
    if isinstance(error, OSError) and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}" if error.filename else error.strerror
    return type(error).__name__


def _failed(program: str, message: str, code: int) -> int:
    print(one_line(f"{program}: error: {message}"), file=sys.stderr)
    return code


def _print(write: Callable[[], object], note: str = "") -> None:
    """Let `write` print, and bring it to its reader now, while a failure can still be told; `note` is told with it."""
    if sys.stdout is None:
        raise FileRefused("standard output", "is closed" + note)
    try:
        write()
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _close_stdout()
        raise FileRefused("standard output", (error.strerror or "cannot be written") + note) from None


def _close_stdout() -> None:
    """Send what is left in the buffer nowhere, so that the interpreter does not try again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):  # not a real file
        pass
    finally:
        os.close(nowhere)
