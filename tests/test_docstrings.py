"""Every example in a docstring runs, and every public item says what it takes, returns and refuses, and shows a use.

What an item has to say follows from its signature; the rules are in `_gaps`.
"""

import ast
import dataclasses
import doctest
import enum
import functools
import importlib
import inspect
import os
import pkgutil
import re
import textwrap
import types
import typing

import pytest

import ferrodp

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(ferrodp.__path__, "ferrodp.")
    if not module.name.endswith(("_native", "__main__"))
)
PROGRAMS = ["cli"], ["demo"]
"""What the command line is made of: nobody imports it, and `--help` documents it."""
SECTIONS = [
    "Parameters",
    "Attributes",
    "Returns",
    "Yields",
    "Raises",
    "Warns",
    "See Also",
    "Notes",
    "References",
    "Examples",
]


FRAMEWORK = os.environ.get("FERRODP_FRAMEWORK")
"""The framework whose environment this is (`./check frameworks`); only there its integration's examples can run."""


def framework_of(name):
    """Return the framework that a module integrates, or None."""
    _, _, rest = name.partition("ferrodp.integrations.")
    return rest.split(".")[0] or None


WITH_EXAMPLES = [name for name in ["ferrodp", *MODULES] if framework_of(name) == FRAMEWORK]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_run_as_shown(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)

    assert result.failed == 0


def test_there_are_examples():
    found = [test for name in WITH_EXAMPLES for test in doctest.DocTestFinder().find(importlib.import_module(name))]

    assert sum(len(test.examples) for test in found) >= 40


def test_every_public_item_says_what_it_takes_returns_and_refuses_and_shows_a_use():
    assert _all_gaps() == {}


def _all_gaps():
    return {key: gaps for key, item in _public_items().items() if (gaps := _gaps(key[1], item))}


@functools.cache
def _public_items():
    """Return what users can name, by room and qualified name: names in `__all__`, and members of public classes."""
    found = {}
    for module_name in ["ferrodp", *MODULES]:
        if any(part.startswith("_") for part in module_name.split(".")):
            continue
        if module_name.split(".")[1:2] in PROGRAMS:
            continue
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", ()):
            item = getattr(module, name)
            if not isinstance(item, (type, types.FunctionType)) or not item.__module__.startswith("ferrodp"):
                continue
            found[_room(item), item.__qualname__] = item
            if isinstance(item, type):
                found |= {(_room(item), f"{item.__qualname__}.{key}"): member for key, member in _members(item)}
    return found


def _room(item):
    return item.__module__.split(".")[1]


def _members(cls):
    """Yield public methods and properties with the docstring that `help` shows, once each; enumerations have none."""
    seen = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("ferrodp") or issubclass(cls, (enum.Enum, BaseException)):
            continue
        for key, member in list(vars(base).items()):
            if key.startswith("_") or key in seen:
                continue
            seen.add(key)
            is_part = base.__name__.startswith("_") or (base in cls.__bases__ and base.__module__.endswith("._reader"))
            if base is not cls and not is_part:
                continue  # documented where it is defined
            if isinstance(member, (classmethod, staticmethod)):
                member = member.__func__
            if isinstance(member, (types.FunctionType, property)):
                yield key, member


def _gaps(name, item):
    """Return what the docstring of an item lacks.

    - Sections have the names and the order of numpydoc.
    - Every item has a summary, and a function, method or class all its parameters, and no others. Records that only
      this package makes may call them Attributes.
    - What returns something says what, unless the summary of a parameterless method begins with "Return".
    - What takes parameters, or raises in its own body, says what it raises; so do classes with a constructor.
    - Every function, class and method is used in an example: its own or, of a method, that of its class.
    - Enumerations, exceptions, protocols and properties need a summary alone; what implements a protocol says the rest.
    """
    doc = inspect.getdoc(item) if not isinstance(item, type) else inspect.cleandoc(item.__doc__ or "")
    if not doc or (isinstance(item, type) and dataclasses.is_dataclass(item) and doc.startswith(f"{item.__name__}(")):
        return ["summary"]
    if isinstance(item, property) or _is_told_by_its_summary(_owner(item)):
        return []
    sections = _sections(doc)
    headings = [heading for heading in sections if heading]
    gaps = [] if headings == [each for each in SECTIONS if each in headings] else ["order or name of sections"]
    parameters = _parameters(item)
    described = _names(sections.get("Parameters", ""))
    is_record = isinstance(item, type) and "Parameters" not in sections and "Attributes" in sections
    if is_record:
        fields = [each.name for each in dataclasses.fields(item)] if dataclasses.is_dataclass(item) else []
        attributes = _names(sections["Attributes"])
        gaps += [f"attribute {each}" for each in fields if each not in attributes and not each.startswith("_")]
    else:
        gaps += [f"parameter {each}" for each in parameters if each not in described]
        gaps += [f"no parameter {each}" for each in described if each not in parameters]
    function = _constructor(item) if isinstance(item, type) else inspect.unwrap(item)
    tells_result = {"Returns", "Yields"} & sections.keys() or (not parameters and doc.startswith("Return"))
    if not isinstance(item, type) and _returns(function) and not tells_result:
        gaps.append("Returns")
    if ((parameters and not is_record) or (function and _raises(function))) and "Raises" not in sections:
        gaps.append("Raises")
    if not is_record and ">>>" not in sections.get("Examples", "") and not _is_shown_by_its_class(name, item):
        gaps.append("Examples")
    return gaps


def _owner(item):
    """Return a class, or that of a method; None for a function."""
    if isinstance(item, type):
        return item
    owner = item.__qualname__.rpartition(".")[0]
    return getattr(importlib.import_module(item.__module__), owner, None) if owner else None


def _is_told_by_its_summary(cls):
    return cls is not None and (issubclass(cls, (enum.Enum, BaseException)) or getattr(cls, "_is_protocol", False))


def _sections(doc):
    """Return the text under each heading that is underlined as numpydoc does; that before the first under ""."""
    parts = re.split(r"^(\w[\w ]*)\n(-{3,})$", doc, flags=re.MULTILINE)
    headings = dict(zip(parts[1::3], parts[3::3], strict=True))
    assert all(len(heading) == len(line) for heading, line in zip(parts[1::3], parts[2::3], strict=True)), parts[1::3]
    return {"": parts[0], **headings}


def _names(section):
    """Return the names that the lines of a Parameters section begin with."""
    lines = [line for line in section.splitlines() if line and not line.startswith(" ")]
    return [name.strip().lstrip("*") for line in lines for name in line.partition(" : ")[0].split(",")]


def _parameters(item):
    if isinstance(item, type):
        constructor = _constructor(item)
        if constructor is None:
            return []
        item = constructor
    names = [name for name in inspect.signature(item).parameters if not name.startswith("_")]
    return [name for name in names if name not in ("self", "cls")]


def _constructor(cls):
    """Return the function that makes instances, or None where it is Python's own."""
    for name in ("__init__", "__new__"):
        found = getattr(cls, name)
        if isinstance(found, types.FunctionType):
            return found
    return None


def _returns(function):
    annotation = function.__annotations__.get("return", None)
    return annotation not in (None, "None", "NoReturn", type(None), typing.NoReturn)


def _raises(function):
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError):  # written by dataclasses
        return False
    return any(isinstance(node, ast.Raise) for node in ast.walk(tree))


def _is_shown_by_its_class(name, item):
    """Whether the example of the class that `name` names, which may inherit the method, calls it."""
    if isinstance(item, type) or "." not in name:
        return False
    room, (owner, _, method) = _room(item), name.rpartition(".")
    cls = _public_items()[room, owner]
    return f".{method}(" in _sections(inspect.cleandoc(cls.__doc__ or "")).get("Examples", "")
