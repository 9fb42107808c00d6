"""The native functions that only tests call; their source is `rust/ferrodp-py/src/testing.rs`.

A wheel for users is built without them. Run against one, tests that need them are skipped; where `CI` is set they fail,
so that a run without them is not mistaken for a whole one.
"""

import os
from typing import Any

import pytest

from ferrodp import _native

MISSING = (
    "the native module was built without its functions for tests; build it with "
    "pip install . --config-settings build-args='--features testing'"
)


class Testing:
    """`_native._testing`, asked for when it is used."""

    def __getattr__(self, name: str) -> Any:
        functions = getattr(_native, "_testing", None)
        if functions is not None:
            return getattr(functions, name)
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        return pytest.skip(MISSING)


testing = Testing()
