"""Subjects of commits name an area and fit a line, and native code does not change without a reason."""

import pytest

from support.commits import problems


def test_a_subject_with_an_area_passes():
    assert (
        problems("clip: sum squares in a fixed order", "Because threads differ.\n", ["rust/ferrodp-core/src/clip.rs"])
        == []
    )
    assert problems("docs, tests: name the folder", "", ["docs/tour.md"]) == []


@pytest.mark.parametrize(
    ("subject", "body", "files", "problem"),
    [
        ("x", "", ["docs/tour.md"], "does not begin with"),
        ("texts: shorter", "", ["docs/tour.md"], "'texts' is no area"),
        ("docs: " + "a" * 67, "", ["docs/tour.md"], "73 characters"),
        ("clip: faster", "\n", ["rust/ferrodp-core/src/clip.rs"], "no body says why"),
    ],
)
def test_what_is_refused(subject, body, files, problem):
    assert [problem in found for found in problems(subject, body, files)] == [True]
