"""NVFlare itself, imported by the first call that needs it, and classes that are also its own."""

from __future__ import annotations

import functools
import importlib
import types
from typing import Any

from ferrodp.errors import MissingPackage


def module(name: str) -> Any:
    """Return a module of NVFlare, or say what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        rule = 'ferrodp.integrations.nvflare needs NVFlare (nvflare >= 2.9): pip install "ferrodp[nvflare]"'
        raise MissingPackage(rule) from error


@functools.cache
def as_component(cls: Any, where: str, name: str) -> Any:
    """Return a class that is also one of NVFlare's, `name` of the module `where`: its `isinstance` accepts it."""
    base = getattr(module(where), name)
    if issubclass(cls, base):
        return cls
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    return types.new_class(cls.__name__, (cls, base), exec_body=lambda space: space.update(names))
