"""What users meet when they list, ask for help, or misspell: short listings, and the name that was meant."""

import importlib
import inspect
import pickle
import pydoc
import subprocess
import sys

import pytest

import ferrodp as fd
from test_docstrings import _is_told_by_its_summary, _owner, _parameters, _public_items

IMPORTED = subprocess.run(
    [sys.executable, "-c", "import ferrodp, sys; print(*sys.modules)"], check=True, capture_output=True, text=True
).stdout.split()
PUBLIC_MODULES = sorted(
    name
    for name in IMPORTED
    if name.split(".")[0] == "ferrodp" and "._" not in name and "__all__" in vars(importlib.import_module(name))
)


def _takes_keywords(item):
    """Whether a call can have an unknown keyword: not those of results, which only this package makes."""
    if isinstance(item, property) or _is_told_by_its_summary(_owner(item)) or inspect.isabstract(item):
        return False
    if isinstance(item, type) and (item is fd.tickets.Ticket or not inspect.isfunction(item.__init__)):
        return False
    kinds = [each.kind for each in inspect.signature(item).parameters.values()]
    return bool(_parameters(item)) and inspect.Parameter.VAR_KEYWORD not in kinds


CALLABLES = {
    f"{item.__module__}.{item.__qualname__}": item
    for item in _public_items().values()
    if _takes_keywords(item) and item.__module__ in IMPORTED
}


@pytest.mark.parametrize(
    ("call", "meant", "others"),
    [
        (lambda: fd.GaussianMechanism(noise_multipler=1.0), "noise_multiplier", ["l2_sensitivity"]),
        (lambda: fd.ClippedSum({"w": (3,)}, clipnorm=1.0), "clip_norm", ["template", "dtype"]),
        (lambda: fd.NoiseSource().add_gaussian_(None, std_deviation=1.0), "standard_deviation", ["granularity"]),
        (lambda: fd.private_count([1], epsilom=1.0), "epsilon", ["delta", "max_contributions"]),
        (lambda: fd.accounting.GaussianEvent(sigma=1.0), "noise_multiplier", []),
        (lambda: fd.accounting.PldAccountant().epsilon(dleta=1e-5), "delta", []),
        (lambda: fd.GaussianMechanism.calibrated(eps=1.0), "epsilon", ["method"]),
    ],
)
def test_an_unknown_keyword_is_answered_with_the_one_that_was_meant(call, meant, others):
    with pytest.raises(TypeError, match=f"did you mean '{meant}'") as raised:
        call()

    assert all(name in str(raised.value) for name in [meant, *others])


def test_the_release_of_every_mechanism_suggests_its_keywords():
    for name in fd.mechanisms.__all__:
        release = getattr(getattr(fd.mechanisms, name), "release", None)
        if release is not None:
            with pytest.raises(TypeError, match=r"tickt.*did you mean 'ticket'"):
                release(None, 1.0, tickt=None)


@pytest.mark.parametrize("name", CALLABLES)
def test_every_public_callable_names_the_keywords_that_it_takes(name):
    item = CALLABLES[name]
    takes = [each for each in inspect.signature(item).parameters if each not in ("self", "cls")]

    with pytest.raises(TypeError) as raised:
        item(no_such_keyword_at_all=1)

    assert "no_such_keyword_at_all" in str(raised.value)
    assert str(raised.value).endswith(f"it takes {', '.join(takes)}"), raised.value


def test_a_type_error_that_is_not_about_keywords_is_left_as_it_is():
    with pytest.raises(
        TypeError, match=r"^l2_sensitivity must be a real number .*, got str '1'; for example l2_sensitivity=1\.0$"
    ):
        fd.GaussianMechanism(noise_multiplier=1.0, l2_sensitivity="1")


def test_a_missing_argument_is_told_with_what_the_documentation_says_of_it():
    with pytest.raises(
        TypeError, match=r"^GaussianMechanism\(\) is missing 'l2_sensitivity'; l2_sensitivity is float: "
    ):
        fd.GaussianMechanism(noise_multiplier=1.0)
    with pytest.raises(TypeError, match=r"is missing 'epsilon' and 'delta'; epsilon is .*; delta is "):
        fd.PrivacyLedger.create(None, "a")


def test_a_name_of_another_module_is_answered_with_its_place():
    with pytest.raises(
        AttributeError, match=r"no attribute 'PldAccountant'; it is ferrodp\.accounting\.PldAccountant; see dir"
    ):
        _ = fd.PldAccountant


def test_a_misspelt_name_of_a_module_is_answered_with_the_one_that_was_meant():
    with pytest.raises(AttributeError, match=r"'ferrodp' has no attribute 'GausianMechanism'; did you mean 'Gaussian"):
        fd.GausianMechanism  # noqa: B018
    with pytest.raises(AttributeError, match=r"did you mean 'RdpAccountant'"):
        fd.accounting.RDPAcountant  # noqa: B018
    with pytest.raises(AttributeError, match=r"see dir\(ferrodp\.engine\)"):
        fd.engine.xyzzy  # noqa: B018


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_dir_of_a_public_module_is_its_public_names(name):
    module = importlib.import_module(name)

    assert sorted(module.__all__) == dir(module)
    assert all(hasattr(module, each) for each in module.__all__)


def test_functions_are_pickled_by_the_name_under_which_they_are_found():
    for name in fd.accounting.__all__:
        function = getattr(fd.accounting, name)
        if inspect.isfunction(function):
            assert pickle.loads(pickle.dumps(function)) is function


def test_a_star_import_brings_the_public_names():
    found = {}
    exec("from ferrodp.engine import *", found)

    assert set(fd.engine.__all__) == found.keys() - {"__builtins__"}


@pytest.mark.parametrize("module", [fd, fd.accounting, fd.budget, fd.engine, fd.mechanisms, fd.statistics, fd.sums])
def test_help_of_a_package_fits_two_screens(module):
    text = pydoc.render_doc(module, renderer=pydoc.plaintext)

    assert len(text.splitlines()) <= 120


@pytest.mark.parametrize("module", [fd, fd.engine, fd.mechanisms, fd.statistics])
def test_help_of_a_package_names_what_it_holds(module):
    text = pydoc.render_doc(module, renderer=pydoc.plaintext)

    assert [name for name in module.__all__ if name not in text] == []
