"""Commands as data: a function whose docstring is the help text, its options, and the function that prints its report.

The function does the work and returns a report of plain JSON data; `show` prints that report for people. So `--json`
and the printed form cannot differ, and nothing is printed before the work is done.

The first line of the docstring is the summary in the list of commands. What follows is the description, and from the
first line that is a heading ("examples:") what `--help` prints below the options.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ferrodp.cli._console import Console, Report
from ferrodp.cli.printing.shapes import Fields
from ferrodp.events import NeighboringRelation

Args: TypeAlias = argparse.Namespace
Option: TypeAlias = "tuple[tuple[str, ...], dict[str, Any]]"
"""The arguments of `add_argument`."""
Run: TypeAlias = Callable[..., Report]
Show: TypeAlias = Callable[[Report, Console], None]


@dataclass(frozen=True, slots=True)
class Command:
    """A command, or an action of one.

    Parameters
    ----------
    run : callable
        Does the work and returns the report.
    show : callable
        Prints the report for people.
    options : sequence of Option
        What it takes; of options in a list of their own exactly one has to be given.
    notes : str
        What `--help` prints below the options, before what the docstring says there.
    only_reads : bool
        For actions on a ledger: whether there is an option `--read-only`.
    fields : sequence of Fields
        What the report has beside the command's name, as JSON Schema; several if there are several kinds of reports.
    """

    run: Run
    show: Show
    options: Sequence[Option | list[Option]]
    notes: str = ""
    only_reads: bool = False
    fields: Sequence[Fields] = ()

    def declare(self, commands: Any, name: str) -> argparse.ArgumentParser:
        """Add the command under a name, with its options."""
        summary, _, text = inspect.cleandoc(self.run.__doc__ or "").partition("\n\n")
        heading = re.search(r"^\w+:$", text, re.MULTILINE)
        end = heading.start() if heading else len(text)
        parser: argparse.ArgumentParser = commands.add_parser(
            name,
            help=summary[:1].lower() + summary[1:].rstrip("."),
            description=text[:end].rstrip(),
            epilog=self.notes + text[end:],
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        for each in self.options:
            if isinstance(each, list):
                add_options(parser.add_mutually_exclusive_group(required=True), each)
            else:
                add_options(parser, [each])
        return parser


def command(
    *options: Option | list[Option],
    show: Show,
    fields: Fields | Sequence[Fields] = (),
    notes: str = "",
    only_reads: bool = False,
) -> Callable[[Run], Command]:
    """Make a command of a function; see `Command`."""
    kinds = (fields,) if isinstance(fields, Mapping) else tuple(fields)
    return lambda run: Command(run, show, options, notes, only_reads, kinds)


GENERAL: tuple[Option, ...] = (
    (
        ("--json",),
        {
            "action": "store_true",
            "default": argparse.SUPPRESS,
            "help": "print exactly one JSON object instead of text; errors, too",
        },
    ),
    (
        ("--no-color",),
        {
            "action": "store_true",
            "default": argparse.SUPPRESS,
            "help": "no colors and no bold letters (also: NO_COLOR=1)",
        },
    ),
    (
        ("-v", "--verbose"),
        {"action": "count", "default": argparse.SUPPRESS, "help": "log what is done to standard error; twice for more"},
    ),
)
"""The options of every command, before or after the name of an action; the parser of all commands has the defaults."""


class Misused(Exception):  # noqa: N818  # what the user did
    """The command line does not parse.

    Parameters
    ----------
    program : str
        The command, with the program's name.
    message : str
        What is wrong.
    """

    def __init__(self, program: str, message: str) -> None:
        super().__init__(f"{message} (see {program} --help)")
        self.program = program


def option(*names: str, **settings: Any) -> Option:
    """Return an option, with the arguments of `add_argument`."""
    return names, settings


def add_options(parser: Any, options: Sequence[Option]) -> None:
    """Add options to a parser or a group."""
    for names, settings in options:
        parser.add_argument(*names, **settings)


def relation_option(note: str = "") -> Option:
    """Return the option that says which datasets are neighbors."""
    return option(
        "--neighboring-relation",
        choices=[relation.value for relation in NeighboringRelation],
        default=NeighboringRelation.ADD_OR_REMOVE_ONE.value,
        metavar="RELATION",
        help=f"add_or_remove_one (default), replace_one or replace_special{note}",
    )


def null_distance_option(default: float | None, note: str = "") -> Option:
    """Return the option that says how far a record's result is from none."""
    return option(
        "--null-distance",
        type=float,
        default=default,
        metavar="N",
        help="of sampling under replace_one: how far a record's result is from none, over sensitivity; 0.5 for sums of "
        f"clipped contributions (default: unknown{note})",
    )
