"""`ferrodp completion`: scripts by which bash, zsh and fish complete commands, actions, options and their values."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report
from ferrodp.cli.printing import shapes

SHELLS = ("bash", "zsh", "fish")


class _Words(NamedTuple):
    """What may follow the words of a command: "" for ferrodp itself, "ledger", "ledger status"."""

    path: str
    words: dict[str, str]
    """Commands or actions, with their summaries, and fixed values of arguments."""
    options: dict[str, str]
    """Options, with their help."""
    values: dict[str, tuple[str, ...]]
    """What an option takes, where that is fixed."""
    takes: tuple[str, ...]
    """The options that take a value."""


def _all_words(parser: argparse.ArgumentParser, path: str = "") -> Iterator[_Words]:
    words: dict[str, str] = {}
    options: dict[str, str] = {}
    values: dict[str, tuple[str, ...]] = {}
    takes: list[str] = []
    below: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help or "" for each in action._choices_actions}
            words |= {name: helps.get(name, "") for name in action.choices}
            below += [(f"{path} {name}".strip(), each) for name, each in action.choices.items()]
        elif action.option_strings:
            options |= dict.fromkeys(action.option_strings, _brief(action.help or ""))
            if action.nargs != 0:
                takes += action.option_strings
                if action.choices is not None:
                    values |= dict.fromkeys(action.option_strings, tuple(map(str, action.choices)))
        elif action.choices is not None:
            words |= dict.fromkeys(map(str, action.choices), "")
    yield _Words(path, words, options, values, tuple(takes))
    for name, each in below:
        yield from _all_words(each, name)


def _brief(text: str) -> str:
    return text.partition(" (")[0].partition(";")[0].replace("%(default)s", "").strip()


_BASH = """\
# Completion of ferrodp for bash: eval "$(ferrodp completion bash)"
_ferrodp() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} path="" each
    for each in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "${{path:+$path }}$each" in
            {paths}) path="${{path:+$path }}$each" ;;
        esac
    done
    case "$path:$before" in
{values}
    esac
    case "$path" in
{words}
    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$word"))
    else
        COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _ferrodp ferrodp
"""


def _bash(found: list[_Words]) -> str:
    paths = "|".join(f'"{each.path}"' for each in found if each.path)
    lines, values = [], []
    for each in found:
        lines.append(
            f'        "{each.path}") local words="{" ".join(each.words)}" options="{" ".join(each.options)}" ;;'
        )
        for name in each.takes:
            listed = " ".join(each.values.get(name, ()))
            reply = f'$(compgen -W "{listed}" -- "$word")' if listed else '$(compgen -f -- "$word")'
            values.append(f'        "{each.path}:{name}") COMPREPLY=({reply}); return ;;')
    return _BASH.format(paths=paths, words="\n".join(lines), values="\n".join(values))


def _zsh(found: list[_Words]) -> str:
    return (
        '# Completion of ferrodp for zsh: eval "$(ferrodp completion zsh)"\n'
        "autoload -U +X bashcompinit && bashcompinit\n" + _bash(found).partition("\n")[2]
    )


def _fish(found: list[_Words]) -> str:
    lines = ["# Completion of ferrodp for fish: ferrodp completion fish | source"]
    below = {each.path: [other.path for other in found if other.path.rpartition(" ")[0] == each.path] for each in found}
    for each in found:
        parts = [f"__fish_seen_subcommand_from {word}" for word in each.path.split()]
        inner = " ".join(path.rpartition(" ")[2] for path in below[each.path] if path)
        outside = [f"not __fish_seen_subcommand_from {inner}"] if inner else []
        condition = shlex.quote("; and ".join([*parts, *outside]) or "true")
        for word, summary in each.words.items():
            lines.append(f"complete -c ferrodp -n {condition} -a {word} -d {shlex.quote(summary)}")
        for name, summary in each.options.items():
            kind = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            value = "" if name not in each.takes else " -r"
            if name in each.values:
                value += f" -f -a {shlex.quote(' '.join(each.values[name]))}"
            lines.append(f"complete -c ferrodp -n {condition} {kind}{value} -d {shlex.quote(summary)}")
    return "\n".join(lines) + "\n"


def _show(report: Report, console: Console) -> None:
    """Print the script."""
    print(report["script"], end="")


@command(
    option("shell", choices=SHELLS, help="whose script"),
    show=_show,
    fields={"shell": shapes.one_of(*SHELLS), "script": shapes.TEXT},
)
def completion(args: Args, _: Console) -> Report:
    r"""Print a script that completes words in a shell.

    Commands, actions, options and their fixed values are completed, and names of
    files. Put the line of your shell into its startup file.

    examples:
      eval "$(ferrodp completion bash)"         # ~/.bashrc
      eval "$(ferrodp completion zsh)"          # ~/.zshrc
      ferrodp completion fish | source          # ~/.config/fish/config.fish
    """
    write = {"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell]
    return {"command": "completion", "shell": args.shell, "script": write(list(_all_words(args.parser)))}
