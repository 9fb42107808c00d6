"""Mistakes in releases with several numbers are found at the default number of draws, and sound releases pass."""

import planted
import pytest
from planted import CASES
from scipy.stats import binom

from ferrodp.audit import audit_callable

SURE = 1.0 - 1e-9


def audited(name, release, **options):
    """Audit with draws that depend on the name alone."""
    case = CASES[name]
    planted.reseed(list(CASES).index(name))
    return audit_callable(
        None, neighbors=case.neighbors, epsilon=case.epsilon, delta=0.0, release_many=release, **options
    )


@pytest.mark.parametrize("name", CASES)
def test_a_planted_mistake_is_found_at_default_draws(name):
    report = audited(name, CASES[name].mistake)

    assert report.violation
    assert report.draws == 200_000


@pytest.mark.parametrize("name", CASES)
def test_the_same_release_done_right_is_not_accused(name):
    """Each is accused with probability 1e-9 at most."""
    assert not audited(name, CASES[name].twin, draws=40_000, confidence=SURE).violation


def test_events_are_named_in_words():
    """Those that need several numbers at once."""
    for name, words in {
        "one noise for all numbers": "the largest minus the smallest number",
        "noise of lane i again in lane i + 8": "output[3] - output[11], rounded to",
        "correlated noise": "·output[0]",
        "ten steps composed as one": "output[0",
        "noise from a pool that is used again": "that were seen before",
    }.items():
        assert words in audited(name, CASES[name].mistake, draws=40_000).region


def test_bounds_from_learned_events_are_above_epsilon_as_rarely_as_stated():
    """Of 150 runs at confidence 95 % of a release with ε = 2, 23 or more are wrong with probability below 1e-6."""
    planted.reseed(5)
    wrong = strict = 0
    for _ in range(150):
        report = audit_callable(
            None,
            neighbors=((0.0, 0.0), (1.0, 1.0)),
            epsilon=2.0,
            delta=0.0,
            draws=1600,
            release_many=planted.plain(1.0),
        )
        wrong += report.epsilon_lower_bound > 2.0
        strict += report.violation

    assert binom.sf(23, 150, 0.05) < 1e-6
    assert wrong <= 23
    assert strict <= 5
    assert binom.sf(5, 150, 1e-3) < 1e-6
