"""Users who check their types strictly see arrays, trees and numbers, never `Any`."""

import re
from pathlib import Path

from mypy import api

USER_CODE = Path(__file__).with_name("user_code.py")


def test_user_code_passes_a_strict_check_that_states_all_types(tmp_path):
    """`assert_type` fails for `Any`, unless it is what was expected, which the next test refuses."""
    found, errors, status = api.run(["--strict", "--cache-dir", str(tmp_path), "--config-file", "", str(USER_CODE)])

    assert (found.splitlines()[-1][:7], errors, status) == ("Success", "", 0), found


def test_no_type_that_user_code_expects_is_any():
    text = USER_CODE.read_text(encoding="utf-8")

    assert re.search(r"\bAny\b", text) is None
    assert text.count("assert_type(") >= 70
