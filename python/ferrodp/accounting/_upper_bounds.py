"""Functions that return the upper end of the bounds that another function returns."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec

from ferrodp._numerics.intervals import Bounds

P = ParamSpec("P")


def upper_end_of(bounds: Callable[P, Bounds]) -> Callable[[Callable[[], None]], Callable[P, float]]:
    """Return a decorator that gives a name and its docstring the parameters of `bounds` and the upper end it returns.

    The decorated function has no body of its own.
    """

    def named(documented: Callable[[], None]) -> Callable[P, float]:
        @functools.wraps(documented)
        def upper(*args: P.args, **kwargs: P.kwargs) -> float:
            return bounds(*args, **kwargs).upper

        del upper.__wrapped__  # the parameters are those of `bounds`
        upper.__annotations__ = {**bounds.__annotations__, "return": "float"}
        upper.__signature__ = inspect.signature(bounds).replace(return_annotation="float")  # type: ignore[attr-defined]
        return upper

    return named
