"""The example job raises no alarm in an audit of what leaves a site, and does where the filter is wrong."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "audit"))

import framework_example_audits

from ferrodp.integrations.nvflare import GaussianUpdateFilter

AUDIT = framework_example_audits.AUDITS["nvflare_job"]


def test_what_leaves_a_site_raises_no_alarm():
    assert not AUDIT()


def clipped(dxo):
    own = dxo.data["numpy_key"].astype(float)
    return own / max(np.linalg.norm(own), 1.0)


def half_of_the_noise(monkeypatch):
    """As if two updates were one clip norm apart."""
    process = GaussianUpdateFilter.process_dxo

    def halving(self, dxo, shareable, fl_ctx):
        own = clipped(dxo)
        result = process(self, dxo, shareable, fl_ctx)
        noised = result.data["numpy_key"]
        noised[...] = own + (noised - own) / 2
        return result

    monkeypatch.setattr(GaussianUpdateFilter, "process_dxo", halving)


def number_of_images(monkeypatch):
    """A count of the update's own, beside it."""
    process = GaussianUpdateFilter.process_dxo

    def leaking(self, dxo, shareable, fl_ctx):
        result = process(self, dxo, shareable, fl_ctx)
        result.set_meta_prop("norm", float(np.linalg.norm(dxo.data["numpy_key"])))
        return result

    monkeypatch.setattr(GaussianUpdateFilter, "process_dxo", leaking)


def repeated_noise(monkeypatch):
    """Every second coordinate has the noise of the one before."""
    process = GaussianUpdateFilter.process_dxo

    def copying(self, dxo, shareable, fl_ctx):
        own = clipped(dxo).ravel()
        result = process(self, dxo, shareable, fl_ctx)
        noised = result.data["numpy_key"]
        noised[...] = (np.repeat((noised.ravel() - own)[:325], 2) + own).reshape(noised.shape)
        return result

    monkeypatch.setattr(GaussianUpdateFilter, "process_dxo", copying)


@pytest.mark.parametrize("mistake", [half_of_the_noise, number_of_images, repeated_noise])
def test_a_mistake_raises_an_alarm(mistake, monkeypatch):
    mistake(monkeypatch)
    assert AUDIT()


@pytest.mark.parametrize("mistake", [half_of_the_noise, repeated_noise])
def test_the_law_of_what_leaves_shows_it_by_itself(mistake, monkeypatch):
    mistake(monkeypatch)
    monkeypatch.setattr(framework_example_audits, "audit_code", lambda *_, **__: SimpleNamespace(violation=False))
    assert AUDIT()
