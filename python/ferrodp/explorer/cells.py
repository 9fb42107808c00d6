"""Code cells for readers to copy: the source of the function that computed the numbers on the page, and its call."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any, cast

from ferrodp.explorer.figures import Value

_SHOWN = "from ferrodp.explorer.figures import shown"


def cell_of(function: Callable[..., Mapping[str, Value]], parameters: Mapping[str, Any]) -> str:
    """Return Python source that calls `function`, which returns numbers by label, and prints them line by line.

    The source holds the function, what it uses of its module, and the imports of both: nothing else has to be at hand.
    """
    arguments = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
    call = f"for label, value in {cast(FunctionType, inspect.unwrap(function)).__name__}({arguments}).items():"
    return f'{_source_of(function)}\n\n\n{call}\n    print(f"{{label}}: {{shown(value)}}")\n'


@functools.cache
def _source_of(function: Callable[..., Any]) -> str:
    """Return the function, the definitions of its module that it needs, and their imports."""
    module = cast(ModuleType, inspect.getmodule(function))
    text = inspect.getsource(module)
    defined, imported = _top_level(ast.parse(text))
    name = cast(FunctionType, inspect.unwrap(function)).__name__
    wanted, found = {name}, dict[int, str]()
    done = set[str]()
    lines = [_SHOWN]
    while wanted:
        name = wanted.pop()
        done.add(name)
        if name in imported:
            lines.append(imported[name])
        elif name in defined:
            node = defined[name]
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            found[first] = "\n".join(text.splitlines()[first - 1 : node.end_lineno])
            wanted |= _names(node) - done
    return "\n".join([*_merged(lines), *(f"\n{source}" for _, source in _spaced(found))])


def _top_level(tree: ast.Module) -> tuple[dict[str, ast.stmt], dict[str, str]]:
    """Return what a module defines, and the import of each name that it imports."""
    defined, imported = dict[str, ast.stmt](), dict[str, str]()
    for node in tree.body:
        if isinstance(node, ast.Import):
            for each in node.names:
                written = f"import {each.name}" + (f" as {each.asname}" if each.asname else "")
                imported[each.asname or each.name.partition(".")[0]] = written
        elif isinstance(node, ast.ImportFrom):
            imported |= {each.asname or each.name: f"from {node.module} import {each.name}" for each in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined |= {name.id: node for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return defined, imported


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _merged(lines: list[str]) -> list[str]:
    """Return import lines in order, with one line for what is imported from the same module."""
    plain = sorted({line for line in lines if line.startswith("import ")})
    together = dict[str, set[str]]()
    for line in lines:
        if line.startswith("from "):
            place, _, name = line.removeprefix("from ").partition(" import ")
            together.setdefault(place, set()).add(name)
    return plain + [f"from {place} import {', '.join(sorted(names))}" for place, names in sorted(together.items())]


def _spaced(found: Mapping[int, str]) -> list[tuple[int, str]]:
    """Return definitions in their order, functions and classes with one more empty line before them."""
    return [
        (at, source if not source.startswith(("def ", "class ", "@")) else f"\n{source}")
        for at, source in sorted(found.items())
    ]
