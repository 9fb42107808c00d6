"""The command line: `ferrodp COMMAND`, one file per command."""

from ferrodp.cli._app import main

__all__ = ["main"]
