"""Every example in a docstring runs, and every public name is documented."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import ferrodp

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(ferrodp.__path__, "ferrodp.")
    if not module.name.endswith(("_native", "__main__"))
)


@pytest.mark.parametrize("name", ["ferrodp", *MODULES])
def test_examples_run_as_shown(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)

    assert result.failed == 0


def test_there_are_examples():
    attempted = sum(doctest.testmod(importlib.import_module(name)).attempted for name in MODULES)

    assert attempted >= 40


def test_every_public_name_says_what_it_is():
    for name in ferrodp.__all__:
        public = getattr(ferrodp, name)
        if inspect.isclass(public):
            methods = [member for key, member in vars(public).items() if not key.startswith("_") and callable(member)]
            assert all(inspect.getdoc(method) for method in methods), name
        assert isinstance(public, str) or inspect.getdoc(public), name
