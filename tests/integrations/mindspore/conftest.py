"""Every test runs in an empty folder: MindSpore writes what it could not compile into the current one."""

import pytest


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
