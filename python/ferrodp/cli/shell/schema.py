"""`ferrodp schema`: what commands print with --json, as a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ferrodp.cli._command import Args, Command, command
from ferrodp.cli._console import Console, Report
from ferrodp.cli.printing import shapes
from ferrodp.cli.printing.shapes import Shape


def actions() -> dict[str, Command]:
    """Return the actions on a ledger by name."""
    from ferrodp.cli.ledger.command import ACTIONS

    return ACTIONS


def document(commands: Mapping[str, Command]) -> Shape:
    """Return the schema of everything that commands print with ``--json``."""
    found = {name: each for name, each in commands.items() if name != "ledger"}
    of_ledgers = {
        f"ledger {name}": [{"ledger": shapes.TEXT, **fields} for fields in each.fields]
        for name, each in actions().items()
    }
    return shapes.document({name: each.fields for name, each in found.items()} | of_ledgers)


def _show(report: Report, console: Console) -> None:
    """Print the schema alone, to be kept in a file."""
    print(json.dumps(report["document"], indent=2))


@command(show=_show, fields={"document": shapes.ANYTHING})
def schema(args: Args, _: Console) -> Report:
    r"""Print the JSON Schema of what commands print with --json.

    Every command prints one object with --json: its report, or the error that it
    ended with. "schema" in it is the version of this schema; it changes when a
    field is removed or changes its meaning, not when one is added.

    example:
      ferrodp schema > ferrodp-1.schema.json
    """
    return {"command": "schema", "document": document(args.commands)}
