"""Integrations without their frameworks: importing one imports no framework, and using one says what to install."""

import importlib.util
import subprocess
import sys

import pytest

import ferrodp as fd

FRAMEWORKS = {
    "dask": "distributed",
    "flower": "flwr",
    "jax": "jax",
    "mbi": "mbi",
    "mindspore": "mindspore",
    "nvflare": "nvflare",
    "opacus": "opacus",
    "ray": "ray",
    "sklearn": "sklearn",
    "spark": "pyspark",
    "torch": "torch",
}


def test_commands_do_not_import_the_pages_of_the_explorer():
    """They take as long as all other commands together."""
    code = "import sys, ferrodp.cli; print('ferrodp.explorer.app.application' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert told == "False\n"


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_importing_an_integration_imports_no_framework(name):
    code = f"import sys, ferrodp.integrations.{name}; print({FRAMEWORKS[name]!r} in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert told == "False\n"


def test_importing_the_package_imports_nothing_of_scipy():
    """It takes as long as all of the package, and more: what needs it imports it in its functions."""
    code = "import sys, ferrodp.cli; print(sorted(name for name in sys.modules if name.split('.')[0] == 'scipy'))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert told == "[]\n"


@pytest.mark.skipif(importlib.util.find_spec("nvflare") is not None, reason="NVFlare is installed")
def test_a_filter_without_nvflare_says_what_to_install():
    from ferrodp.integrations.nvflare import GaussianUpdateFilter

    with pytest.raises(fd.errors.MissingPackage, match=r'pip install "ferrodp\[nvflare\]"'):
        GaussianUpdateFilter(clip_norm=1.0, delta=1e-5, rounds=3, noise_multiplier=1.0)


@pytest.mark.skipif(importlib.util.find_spec("mbi") is not None, reason="mbi is installed")
def test_synthetic_rows_without_mbi_say_what_to_install():
    from ferrodp.integrations.mbi import synthetic_rows

    tables = fd.private_marginals({"x": [0, 1]}, 1, categories={"x": [0, 1]}, epsilon=1.0, delta=1e-6)
    with pytest.raises(fd.errors.MissingPackage, match=r'pip install "ferrodp\[synthetic\]"'):
        synthetic_rows(tables)
