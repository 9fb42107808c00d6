"""Parsing, dispatch, and how every command ends when something goes wrong; `printing.exits` has the exit codes."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import ferrodp
from ferrodp.cli._command import GENERAL, Misused, add_options
from ferrodp.cli._console import Console, logged, one_line
from ferrodp.cli.audit import audit
from ferrodp.cli.bench.command import bench
from ferrodp.cli.calibrate import calibrate
from ferrodp.cli.count import count
from ferrodp.cli.demo.command import demo
from ferrodp.cli.epsilon import epsilon
from ferrodp.cli.explore import explore
from ferrodp.cli.ledger.command import add_actions, ledger
from ferrodp.cli.plan import plan
from ferrodp.cli.printing import exits
from ferrodp.cli.releasing.command import release
from ferrodp.cli.shell.completion import completion
from ferrodp.cli.shell.schema import schema
from ferrodp.cli.statement import statement_
from ferrodp.cli.stats.command import stats
from ferrodp.errors import FerroError
from ferrodp.files import FileRefused

_log = logging.getLogger(__name__)

COMMANDS = {
    "release": release,
    "stats": stats,
    "count": count,
    "epsilon": epsilon,
    "calibrate": calibrate,
    "plan": plan,
    "ledger": ledger,
    "statement": statement_,
    "demo": demo,
    "explore": explore,
    "audit": audit,
    "bench": bench,
    "completion": completion,
    "schema": schema,
}

_DESCRIPTION = """\
Exact differential privacy at memory speed: clip, sum and noise model updates,
and know what it costs."""
_EPILOG = f"""{exits.table()}
environment:
  FERRODP_LEDGER     the ledger of commands that are not told one
  FERRODP_PROGRAM    this program's name in the records of a ledger
  FERRODP_TRACEBACK  1 shows where an unexpected error comes from
  NO_COLOR           1 is --no-color

examples:
  ferrodp release u*.npz --clip-norm 1.0 --noise-multiplier 1.1 -o sum.npz
  ferrodp stats visits.csv --count --mean age:0,120 --epsilon 1
  ferrodp count start visits --counters home,news --epsilon 1
  ferrodp epsilon --noise-multiplier 1.1 --sampling-probability 0.01 \\
      --count 10000
  ferrodp calibrate noise-multiplier --epsilon 3 --sampling-probability 0.01 \\
      --count 5000
  ferrodp plan forecast plan.json
  ferrodp ledger status budget.db
  ferrodp statement --ledger budget.db --scope hospital
  ferrodp demo
  ferrodp explore
  ferrodp audit mechanism gaussian --epsilon 1 --draws 1e7
  ferrodp bench --quick
  eval "$(ferrodp completion bash)"

'ferrodp COMMAND --help' explains a command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name; by default that of the process) and return its exit code."""
    given = sys.argv[1:] if argv is None else list(argv)
    console = Console(json="--json" in given, color="--no-color" not in given)
    try:
        return _run(given, console)
    except KeyboardInterrupt:
        print("ferrodp: interrupted", file=sys.stderr)
        console.failure(exits.as_json(exits.INTERRUPTED, "interrupted"))
        return exits.EXITS[exits.INTERRUPTED].status
    except BrokenPipeError:
        _close_stdout()
        return exits.EXITS[exits.UNREAD].status


def _run(argv: list[str], console: Console) -> int:
    """Parse, run, print. Whatever a user can cause ends in one line, and with `--json` in one object."""
    name = "ferrodp"
    try:
        parser = build_parser()
        args = parser.parse_args(argv)
        args.parser, args.commands = parser, COMMANDS  # for commands about commands
        name = " ".join(("ferrodp", args.command, *([args.action] if "action" in args else ())))
        command = COMMANDS[args.command]
        with logged(args.verbose):
            _log.info("%s begins, version %s", name, ferrodp.__version__)
            report = command.run(args, console)
            _print(lambda: console.report(report, command.show), "; the work itself is done")
            _log.info("%s is done", name)
    except SystemExit:  # --help and --version
        return 0
    except Misused as error:
        return _failed(console, error.program, exits.MISUSED, str(error))
    except BrokenPipeError:
        raise
    except Exception as error:
        code = exits.code_of(error)
        if code == exits.INTERNAL and os.environ.get(exits.TRACEBACK):
            raise
        return _failed(console, name, code, exits.told(error))
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for all commands."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        prog="ferrodp", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=layout, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"ferrodp {ferrodp.__version__}")
    parser.set_defaults(json=False, no_color=False, verbose=0)
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        each = command.declare(commands, name)
        if command is ledger:
            add_actions(each)
        add_options(each, GENERAL)
    return parser


class _Once(argparse.Action):
    """Stores a value, and refuses the option where it is given again: the former value would be forgotten."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        if option_string is not None:
            if self.dest in parser.given:
                raise argparse.ArgumentError(self, "must be given once")
            parser.given.add(self.dest)
        setattr(namespace, self.dest, values)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage in front."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.given: set[str] = set()
        for action in (None, "store"):
            self.register("action", action, _Once)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and let an optional positional argument come after options, which Python 3.11 does not."""
        self.given = set()
        found, rest = super().parse_known_args(args, namespace)
        for action in self._get_positional_actions():
            if action.nargs == "?" and len(rest) == 1 and getattr(found, action.dest) is None and rest[0][:1] != "-":
                setattr(found, action.dest, rest.pop())
        return found, rest

    def error(self, message: str) -> NoReturn:
        raise Misused(self.prog, message)

    def _print_message(self, message: str, file: object = None) -> None:
        _print(lambda: sys.stdout.write(message))  # the original ignores a full disk


def _failed(console: Console, program: str, code: str, message: str) -> int:
    """Say what went wrong: in a line on standard error, and with `--json` as an object on standard output."""
    print(one_line(f"{program}: error: {message}"), file=sys.stderr)
    console.failure(exits.as_json(code, message))
    return exits.EXITS[code].status


def _print(write: Callable[[], object], note: str = "") -> None:
    """Let `write` print, and bring it to its reader now, while a failure can still be told; `note` is told with it."""
    if sys.stdout is None:
        raise FileRefused("standard output", "is closed" + note)
    try:
        write()
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except FerroError:  # from the ledger whose records are printed
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
