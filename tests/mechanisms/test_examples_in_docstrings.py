"""The examples in the docstrings of accounting and mechanisms are true."""

import doctest
import importlib
import pkgutil

import pytest

import ferrodp.accounting
import ferrodp.mechanisms

MODULES = [
    f"{package.__name__}.{module.name}"
    for package in (ferrodp.accounting, ferrodp.mechanisms)
    for module in pkgutil.iter_modules(package.__path__)
]
WITH_EXAMPLES = 12


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    tests = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]

    assert len(tests) == WITH_EXAMPLES
