"""`ferrodp explore`: the explorer, served on this machine until Ctrl-C."""

from __future__ import annotations

import sys

from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report, one_line
from ferrodp.cli.printing.shapes import TEXT
from ferrodp.explorer.app import DEFAULT_PORT


def _show(report: Report, console: Console) -> None:
    """Print the report for people."""
    console.line("Ended.")


@command(
    option("--port", type=int, metavar="P", help=f"TCP port (default: {DEFAULT_PORT}, or a free one)"),
    option("--no-browser", action="store_true", help="do not open the page in a browser"),
    option("--host", default="127.0.0.1", metavar="H", help="address to listen at (default: %(default)s)"),
    option("--public", action="store_true", help="allow addresses that others can reach; limits rate and size"),
    show=_show,
    fields={"address": TEXT},
)
def explore(args: Args, console: Console) -> Report:
    """Learn and try private training in the browser.

    Starts a web page on this machine that computes every number it shows, and
    prints its address. Needs the extra "explorer". The page makes no request to
    any other host and keeps nothing.

    Only this machine can reach it. With --host and --public others can as well:
    put a server that speaks TLS in front of it.

    examples:
      ferrodp explore
      ferrodp explore --port 8000 --no-browser
      ferrodp explore --host 0.0.0.0 --public
    """
    from ferrodp.explorer.app import server  # with all lessons, which no other command needs

    def say(line: str) -> None:
        print(one_line(line), file=sys.stderr if args.json else sys.stdout, flush=True)

    address = server.serve(host=args.host, port=args.port, public=args.public, browser=not args.no_browser, say=say)
    return {"command": "explore", "address": address}
