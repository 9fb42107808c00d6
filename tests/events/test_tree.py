"""What a unit of privacy can change in a tree of partial sums is counted exactly, or from above."""

import pytest

from ferrodp.accounting import GdpAccountant, TreeAggregationEvent
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import tree, tree_sensitivity_squared
from reference import tree as reference
from support import vectors

VECTORS = vectors.accounting()
GIVEN = [vector for vector in VECTORS if vector["quantity"] == "tree_sensitivity_sq_sum"]

CASES = [
    (steps, most, separation)
    for steps in (0, 1, 2, 3, 5, 7, 8, 11, 13, 15, 16)
    for most in (1, 2, 3, 5, 8)
    for separation in (0, 1, 2, 3, 4, 5, 6)
]


@pytest.mark.parametrize("separation", range(7))
def test_all_patterns_of_small_trees_agree(separation):
    for steps, most, gap in CASES:
        if gap == separation:
            expected = reference.sensitivity_squared(steps, most, separation)
            actual = tree_sensitivity_squared(num_steps=steps, max_participation=most, min_separation=separation)

            assert (expected, steps, most) == (actual, steps, most)


def test_the_search_agrees_where_the_closed_form_answers_and_the_bound_lies_above():
    for steps, most, separation in CASES:
        if steps > separation + 1:
            exact = reference.sensitivity_squared(steps, most, separation)

            assert exact == tree._Search(separation + 1, most).run(steps)
            assert exact <= tree._level_bound(steps, most, separation + 1)


def test_larger_trees_than_can_be_enumerated_take_the_bound_only_when_told_to(monkeypatch):
    arguments = {"num_steps": 24, "max_participation": 8, "min_separation": 2}
    tree._largest.cache_clear()
    monkeypatch.setattr(tree, "MAX_COMPARED_PAIRS", 10)

    assert tree_sensitivity_squared(**arguments) == 90  # level by level: 8 + 8 + 16 + 22 + 36

    tree._largest.cache_clear()
    monkeypatch.undo()
    assert tree_sensitivity_squared(**arguments) == 88


@pytest.mark.parametrize("vector", GIVEN, ids=lambda vector: vector["id"])
def test_given_values(vector):
    inputs = vector["inputs"]
    actual = tree_sensitivity_squared(
        num_steps=inputs["steps"],
        max_participation=inputs["max_participation"],
        min_separation=inputs["min_separation"],
    )

    assert vector["expected"] == actual


def test_the_given_values_are_there():
    assert len(GIVEN) == 9


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 1023, 1024, 2**63 - 1])
def test_one_participation_is_the_number_of_levels(steps):
    assert steps.bit_length() == tree_sensitivity_squared(num_steps=steps)
    assert steps.bit_length() == tree_sensitivity_squared(
        num_steps=steps, max_participation=9, min_separation=2**63 - 1
    )


def test_the_given_epsilon_of_one_epoch():
    """The given value is an upper bound found with Rényi divergences; the exact curve of the Gaussian is below."""
    [vector] = [vector for vector in VECTORS if vector["quantity"] == "epsilon_tree_aggregation_single_epoch"]
    inputs = vector["inputs"]
    accountant = GdpAccountant()
    accountant.compose(TreeAggregationEvent(noise_multiplier=inputs["noise_multiplier"], num_steps=inputs["steps"]))

    assert 0.8 * vector["expected"] < accountant.epsilon(inputs["delta"]) < vector["expected"]


def test_every_step_is_every_node_full():
    """A tree of 2^h steps has 2^(h − i) nodes of 2^i steps: Σ 2^(h − i)·4^i = 2^h·(2^(h + 1) − 1)."""
    most = 2**63 - 1

    assert tree_sensitivity_squared(num_steps=2**62, max_participation=most) == 2**62 * (2**63 - 1)


def test_more_of_anything_is_no_less():
    def at(steps, most, separation):
        return tree_sensitivity_squared(num_steps=steps, max_participation=most, min_separation=separation)

    for steps in (10, 37, 100):
        for most in (2, 5, 9):
            for separation in (2, 4, 9):
                assert at(steps, most, separation) <= at(steps + 1, most, separation)
                assert at(steps, most, separation) <= at(steps, most + 1, separation)
                assert at(steps, most, separation) <= at(steps, most, separation - 1)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"num_steps": -1}, InvalidParameter),
        ({"num_steps": 2**63}, InvalidParameter),
        ({"num_steps": 1.0}, InvalidType),
        ({"num_steps": 1, "max_participation": 0}, InvalidParameter),
        ({"num_steps": 1, "min_separation": -1}, InvalidParameter),
        ({"num_steps": 1, "min_separation": True}, InvalidType),
    ],
)
def test_counts_are_checked_by_name(arguments, error):
    with pytest.raises(error, match=f"{list(arguments)[-1]} must be an int"):
        tree_sensitivity_squared(**arguments)
