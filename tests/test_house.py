"""The layout of the package: how many names a room has, and that every public module can be imported first."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import ferrodp as fd

MODULES = [found.name for found in pkgutil.walk_packages(fd.__path__, "ferrodp.") if "._" not in found.name]
PUBLIC = [name for name in MODULES if hasattr(importlib.import_module(name), "__all__")]


def test_accounting_names_at_most_seventy_things():
    assert len(fd.accounting.__all__) <= 70


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_module_can_be_imported_first(name):
    subprocess.run([sys.executable, "-c", f"import {name}"], check=True)
