"""Back-quoted names of modules in comments and docstrings lead to something that exists."""

import ast
import importlib
import io
import re
import tokenize

import pytest

from test_house import MODULES

POINTER = re.compile(r"(?<![`\w])`([a-z_][a-z0-9_]*(?:\.\w+)+)`(?!`)")
"""Two names or more, with dots between them, between single back quotes."""
LAST_NAMES = {name.rpartition(".")[2] for name in MODULES} | {"ferrodp", "_native"}


def texts(source):
    """Yield the comments and docstrings of a module, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def is_ours(pointer, module):
    """Whether a pointer begins with a module of this package; in integrations a framework may have the same name."""
    first = pointer.split(".")[0]
    return first in LAST_NAMES and (".integrations." not in module or first.startswith(("_", "ferrodp")))


def leads_somewhere(pointer, module):
    """Whether a pointer is one seen from the folders that a module lies in, or from one of its own names."""
    parts, own = pointer.split("."), module.split(".")
    folders = [own[:depth] for depth in range(len(own), 0, -1)] if parts[0] != "ferrodp" else [[]]
    for folder in folders:
        whole = [*folder, *parts]
        found = [depth for depth in range(len(folder) + 1, len(whole) + 1) if ".".join(whole[:depth]) in MODULES]
        if found:
            return has(".".join(whole[: found[-1]]), whole[found[-1] :])
    return has(module, parts) or (parts[0] == "_native" and has("ferrodp", parts))


def has(module, names):
    """Whether a module defines these names, one within the other; of integrations, only whether it mentions them."""
    if ".integrations." in module or not names:
        source = MODULES[module].read_text(encoding="utf-8")
        return all(re.search(rf"\b{re.escape(name)}\b", source) for name in names)
    item = importlib.import_module(module)
    for name in names:
        fields = getattr(item, "__annotations__", {})
        if not hasattr(item, name) and name not in fields:
            return False
        item = getattr(item, name, None)
    return True


@pytest.mark.parametrize("package", sorted({name.split(".")[1] for name in MODULES if "." in name}))
def test_pointers_to_modules_lead_somewhere(package):
    stale = [
        f"{name}:{line}: {found[1]}"
        for name, path in MODULES.items()
        if f"{name}.".startswith(f"ferrodp.{package}.")
        for line, text in texts(path.read_text(encoding="utf-8"))
        for found in POINTER.finditer(text)
        if is_ours(found[1], name) and not leads_somewhere(found[1], name)
    ]

    assert stale == []


def test_a_stale_pointer_is_found():
    module = "ferrodp.accounting._laws.costs"
    assert leads_somewhere("dominating_pairs.pairs_of", module)
    assert leads_somewhere("_laws.dominating_pairs", module)
    assert leads_somewhere("ferrodp.accounting.PldAccountant.compose", module)
    assert not leads_somewhere("dominating_pairs.no_such_name", module)
    assert not leads_somewhere("ferrodp.accounting._solve.dominating_pairs", module)
