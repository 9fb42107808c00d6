"""What public modules and callables share: a listing of their names, and suggestions for misspelt ones.

`ferrodp/__init__.py` calls `install` once, when all public modules are imported. From then on `dir(module)` is the
module's `__all__`, and an unknown attribute or keyword argument raises an error that names the nearest known one.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_OTHER_NAMES = {
    "b": ("scale",),
    "clip": ("clip_norm",),
    "clipping_norm": ("clip_norm",),
    "eps": ("epsilon", "target_epsilon"),
    "l2_norm_clip": ("clip_norm",),
    "lr": ("learning_rate",),
    "noise": ("noise_multiplier", "scale"),
    "range": ("bounds",),
    "sigma": ("noise_multiplier", "standard_deviation", "scale"),
    "std": ("standard_deviation", "noise_multiplier", "scale"),
    "standard_deviation": ("noise_multiplier", "scale"),
    "stddev": ("standard_deviation", "noise_multiplier", "scale"),
    "sensitivity": ("l2_sensitivity", "l1_sensitivity"),
    "adjacency": ("neighboring_relation",),
    "alphas": ("orders",),
    "batch_size": ("sample_size", "sampling_probability"),
    "max_grad_norm": ("clip_norm",),
    "q": ("sampling_probability", "probability", "quantile", "quantiles"),
    "sample_rate": ("sampling_probability", "probability"),
    "sampling_rate": ("sampling_probability", "probability"),
    "seed": ("source",),
    "columns": ("sums",),
    "epochs": ("count", "num_steps"),
    "num_examples": ("population_size", "sampling_probability"),
    "z": ("noise_multiplier",),
    "steps": ("count", "num_steps", "num_rounds"),
}
"""Names that other libraries use, and what they may be called here."""


_MADE_HERE = {"Ticket"}
"""Classes whose objects only this package makes, a million times in a training."""


class PublicPackage(ModuleType):
    """A package whose `help` is its own text and a list of its modules.

    `pydoc` writes out every class that `__all__` names, which for a package that collects those of its modules is
    thousands of lines; for one without `__all__` it does not. So `pydoc`, and nobody else, is told that there is none.
    """

    @property
    def __all__(self) -> list[str]:
        if sys._getframe(1).f_globals.get("__name__") == "pydoc":
            raise AttributeError("__all__")
        names: list[str] = vars(self)["__all__"]
        return names

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """Return the package by its name: functions that use it are sent to workers by value, with what they use."""
        return importlib.import_module, (self.__name__,)


def suggesting(function: Callable[P, R], name: str | None = None) -> Callable[P, R]:
    """Return `function`, which names the nearest keyword it knows when it is called with an unknown one.

    `name` is what messages call it. Nothing is looked at unless the call raises `TypeError`.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            told = type(args[0]).__name__ if name and args else name or _called_name(function, args)
            _refuse_unknown(told, function, kwargs)
            _refuse_positional(told, function, len(args))
            _refuse_missing(told, function, args, kwargs)
            raise

    called.__suggests__ = True  # type: ignore[attr-defined]
    return called


def _called_name(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Return what a function is called where it was called: a method by the class of its object, not by a base."""
    owner = function.__qualname__.rpartition(".")[0]
    if not owner or not args or owner not in [base.__name__ for base in type(args[0]).__mro__]:
        return function.__qualname__
    return f"{type(args[0]).__name__}.{function.__name__}"


def install() -> None:
    """Give all public modules that are imported their listing, and all public callables their suggestions."""
    wrapped: dict[Any, Any] = {}
    seen: set[type] = set()
    for module_name, module in list(sys.modules.items()):
        names = vars(module).get("__all__") if _is_public(module_name) else None
        if names is None:
            continue
        module.__dict__.update(__dir__=functools.partial(sorted, names), __getattr__=functools.partial(_refuse, module))
        if hasattr(module, "__path__") and not isinstance(module, PublicPackage):
            module.__class__ = PublicPackage
        for name in names:
            value = vars(module)[name]
            if isinstance(value, type) and _is_ours(value):
                for cls in set(value.__mro__) - seen:
                    seen.add(cls)
                    _wrap_methods(cls)
            elif isinstance(value, FunctionType) and not hasattr(value, "__suggests__"):
                if value not in wrapped:
                    wrapped[value] = suggesting(value)
                    setattr(sys.modules[value.__module__], value.__name__, wrapped[value])  # for pickle
                setattr(module, name, wrapped[value])


def install_in(module_name: str) -> None:
    """Give the functions of a module, and the constructors of its classes, their suggestions.

    For what `ferrodp` does not import, such as `ferrodp.integrations`. Methods stay as they are: some frameworks read
    their source.
    """
    module = sys.modules[module_name]
    for name in vars(module)["__all__"]:
        value = vars(module).get(name)
        made = vars(value).get("__init__") if isinstance(value, type) and _is_ours(value) else value
        if not isinstance(made, FunctionType) or hasattr(made, "__suggests__"):
            continue
        if isinstance(value, type):
            setattr(value, "__init__", suggesting(made, value.__name__))  # noqa: B010  # mypy takes no method for a name
        else:
            wrapped = suggesting(made)
            setattr(sys.modules[made.__module__], made.__name__, wrapped)  # for pickle
            setattr(module, name, wrapped)


def _wrap_methods(cls: type) -> None:
    """Wrap the constructor and the public methods that a class defines, if it is one of this package's."""
    if not _is_ours(cls):
        return
    for key, member in list(vars(cls).items()):
        if key.startswith("_") and key != "__init__":
            continue
        kind = type(member) if isinstance(member, (classmethod, staticmethod)) else None
        function = member.__func__ if kind else member
        if not isinstance(function, FunctionType) or hasattr(function, "__suggests__"):
            continue
        code = inspect.unwrap(function).__code__
        if code.co_flags & inspect.CO_VARKEYWORDS:
            continue  # what it passes its keywords to knows which there are
        names = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
        if set(names) <= {"self", "cls"} or (cls.__name__ in _MADE_HERE and key == "__init__"):
            continue  # a wrapper would cost as much as the shortest of these calls
        if key == "__init__":
            setattr(cls, key, suggesting(function, cls.__name__))
        else:
            method = suggesting(function)
            setattr(cls, key, kind(method) if kind else method)


def _is_public(module_name: str) -> bool:
    first, *parts = module_name.split(".")
    return first == "ferrodp" and not any(part.startswith("_") for part in parts)


def _is_ours(cls: type) -> bool:
    return cls.__module__.startswith("ferrodp.") and not getattr(cls, "_is_protocol", False)


def _refuse(module: ModuleType, name: str) -> NoReturn:
    """Raise for an attribute that a module does not have."""
    hint = ""
    if not name.startswith("__"):
        hint = _elsewhere(module, name) or _suggestion(name, dir(module))
        hint += f"; see dir({module.__name__}) for its names"
    raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}{hint}")


def _elsewhere(module: ModuleType, name: str) -> str:
    """Return where a name is that another public module has: those in this one first, then the shortest."""
    found = [
        other
        for other, known in list(sys.modules.items())
        if _is_public(other) and known is not module and name in vars(known).get("__all__", ())
    ]
    found.sort(key=lambda other: (not other.startswith(f"{module.__name__}."), other.count("."), other))
    return f"; it is {found[0]}.{name}" if found else ""


def _refuse_unknown(name: str, function: Callable[..., Any], given: Iterable[str]) -> None:
    """Raise if one of the keywords given is none of the function's; Python does, before the function is entered."""
    accepted = _accepted(function)
    if any(each.kind is each.VAR_KEYWORD for each in inspect.signature(function).parameters.values()):
        return
    for keyword in given:
        if keyword not in accepted:
            hint = _suggestion(keyword, accepted) or _calibrated(function, keyword)
            hint = hint or f"; leave {keyword!r} out"
            takes = f"it takes {', '.join(accepted)}" if accepted else "it takes no keyword arguments"
            raise TypeError(f"{name}() got an unknown keyword argument {keyword!r}{hint}; {takes}") from None


def _refuse_positional(name: str, function: Callable[..., Any], given: int) -> None:
    """Raise if more arguments are given by position than there can be."""
    parameters = inspect.signature(function).parameters.values()
    positional = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    by_name = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    if given > len(positional) and by_name and not any(each.kind is each.VAR_POSITIONAL for each in parameters):
        raise TypeError(
            f"{name}() takes {', '.join(by_name)} by keyword only, such as {name}({by_name[0]}=...); one argument "
            "too many was given without"
        ) from None


def _refuse_missing(name: str, function: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any]) -> None:
    """Raise if an argument is missing that has no default, with what the documentation says of it."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind_partial(*args, **given).arguments
    except TypeError:
        return
    several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    needed = [
        key
        for key, each in signature.parameters.items()
        if each.default is each.empty and each.kind not in several and key not in bound
    ]
    if needed:
        told = "".join(f"; {key} is {text}" for key in needed if (text := _told_of(name, function, key)))
        missing = " and ".join(f"{key!r}" for key in needed)
        written = ", ".join(f"{key}=..." for key in needed)
        others = "..., " if bound.keys() - {"self", "cls"} else ""
        raise TypeError(f"{name}() is missing {missing}{told}; write {name}({others}{written})") from None


def _told_of(name: str, function: Callable[..., Any], parameter: str, references: int = 3) -> str:
    """Return what the documentation says of a parameter: its type, and the first sentence about it.

    "As for `another`" is looked up there, at most `references` times.
    """
    owner = getattr(sys.modules.get(function.__module__), name, None) if function.__name__ == "__init__" else function
    lines = (inspect.getdoc(owner) or "").splitlines()
    for place, line in enumerate(lines):
        names, _, kind = line.partition(" : ")
        if line and not line.startswith(" ") and parameter in names.split(", "):
            text = " ".join(itertools.takewhile(lambda each: each.startswith("    "), lines[place + 1 :])).split()
            first = re.split(r"(?<=[.;])\s", " ".join(text), maxsplit=1)[0].rstrip(".;")
            if references and (match := re.match(r"As for `([\w.]+)`$", first)):
                other = _named(match[1], function)
                found = other and _told_of(match[1], other, parameter, references - 1)
                if found:
                    return found
            return ": ".join(each for each in (kind, first) if each)
    return ""


def _named(name: str, function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return what the documentation of a function calls `name`: another of its class, its module, or a room."""
    room, _, last = name.rpartition(".")
    if room in sys.modules:
        return getattr(sys.modules[room], last, None)
    module = sys.modules.get(function.__module__)
    owner = getattr(module, function.__qualname__.rpartition(".")[0], None)
    rooms = function.__module__.split(".")
    for place in (owner, module, *(sys.modules.get(".".join(rooms[:end])) for end in range(len(rooms) - 1, 0, -1))):
        first, _, rest = name.partition(".")
        found = vars(place).get(first) if isinstance(place, (type, ModuleType)) else None
        found = getattr(found, rest, None) if rest else getattr(found, "__func__", found)
        if isinstance(found, FunctionType):
            return found
    return None


def _accepted(function: Callable[..., Any]) -> list[str]:
    """Return the names that a call can give as keywords."""
    parameters = inspect.signature(function).parameters.values()
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    return [name for name in named if name not in ("self", "cls")]


def _calibrated(function: Callable[..., Any], keyword: str) -> str:
    """Return which classmethod takes a privacy target, where a constructor takes noise."""
    owner = function.__qualname__.rpartition(".")[0]
    module = sys.modules.get(function.__module__)
    known = function.__name__ == "__init__" and hasattr(getattr(module, owner, None), "calibrated")
    return f"; .calibrated({keyword}=...) finds the noise" if known and keyword in ("epsilon", "delta") else ""


def _suggestion(name: str, known: Iterable[str]) -> str:
    """Return a question for the known name that is nearest to an unknown one, or nothing."""
    known = list(known)
    folded = {each.lower().replace("_", ""): each for each in known}
    near = [folded[each] for each in difflib.get_close_matches(name.lower().replace("_", ""), folded, n=1, cutoff=0.6)]
    other = [each for each in _OTHER_NAMES.get(name, ()) if each in known]
    return f"; did you mean {(other or near)[0]!r}?" if other or near else ""
