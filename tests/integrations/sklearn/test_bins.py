"""Bins of equal shares: what they cost, where the edges are, and what is refused."""

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.accounting import PureDpAccountant
from ferrodp.errors import InvalidArray, InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.sklearn import PrivateKBinsDiscretizer

X = np.random.default_rng(0).normal(size=(20_000, 3)) * [1.0, 2.0, 0.5] + [0.0, 1.0, -1.0]


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("bins", [2, 7])
def test_all_edges_together_cost_what_was_asked_for(bins, relation):
    made = PrivateKBinsDiscretizer(bins, epsilon=0.7, bounds=(-20, 20), neighboring_relation=relation).fit(X)
    accountant = PureDpAccountant(neighboring_relation=relation)
    accountant.compose(made.event_)

    assert 0.69 < accountant.epsilon(0.0) <= 0.7
    assert made.epsilon_ == 0.7
    assert len(made.event_.events) == 3 * (bins - 1)


def test_one_ticket_pays_for_all_columns():
    """A budget that is split into parts gives the bins one of them, and what is left is that of the others."""
    with fd.budget(epsilon=2.0, parts=2):
        made = PrivateKBinsDiscretizer(4, epsilon=None, bounds=(-20, 20))
        with pytest.raises(InvalidParameter, match="epsilon must be given"):
            made.fit(X)
        made.set_params(epsilon=1.0).fit(X)
        fd.private_count(X[:, 0], epsilon=1.0)
    assert made.bin_edges_.shape == (3, 5)


def test_edges_are_near_those_of_numpy():
    """By the bound of permute-and-flip for 21 choices at ε = 8/21 and 10⁵ candidates: within 300 ranks of 20 000."""
    made = PrivateKBinsDiscretizer(8, epsilon=8.0, bounds=([-20, -20, -20], [20, 20, 20])).fit(X)
    exact = np.quantile(X, np.arange(1, 8) / 8, axis=0).T
    plain = np.column_stack([np.searchsorted(exact[i], X[:, i], side="right") for i in range(3)])

    assert made.bin_edges_.shape == (3, 9)
    assert (np.diff(made.bin_edges_, axis=1) >= 0.0).all()
    for column in range(3):
        ranks = np.searchsorted(np.sort(X[:, column]), made.bin_edges_[column, 1:-1])
        assert np.abs(ranks - np.arange(1, 8) * 2_500).max() < 300
    assert np.abs(made.transform(X) - plain).max() <= 1
    assert np.mean(made.transform(X) == plain) > 0.85


def test_values_raise_nothing_and_have_a_bin():
    rows = X.copy()
    rows[:4] = [[np.nan] * 3, [np.inf] * 3, [-np.inf] * 3, [1e308] * 3]
    found = PrivateKBinsDiscretizer(4, epsilon=3.0, bounds=(-20, 20)).fit(rows).transform(rows)

    assert set(np.unique(found)) == {0.0, 1.0, 2.0, 3.0}
    assert found[1:4].tolist() == [[3.0] * 3, [0.0] * 3, [3.0] * 3]


def test_a_unit_with_most_rows_does_not_move_the_edges():
    """One unit has 15 000 rows at 15, of which one counts; 5000 others have a row each."""
    rows = np.concatenate([np.full(15_000, 15.0), X[:5_000, 0]])[:, None]
    unit = np.concatenate([np.zeros(15_000), np.arange(1, 5_001)])
    options = {"epsilon": 4.0, "bounds": (-20, 20)}

    assert PrivateKBinsDiscretizer(2, **options).fit(rows, unit=unit).bin_edges_[0, 1] == pytest.approx(0.0, abs=0.2)
    assert PrivateKBinsDiscretizer(2, **options).fit(rows).bin_edges_[0, 1] == pytest.approx(15.0, abs=0.2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilon": None}, "epsilon must be given, got None: the guarantee that the bins are to keep"),
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"bounds": None}, "bounds must be given, got None"),
        ({"bounds": (1, 0)}, "bounds must be in ascending order"),
        ({"bounds": 3}, "bounds must be a pair"),
        ({"bounds": ([0, 0], [1, 1])}, "bounds must be two numbers, or two sequences of 3, got 2"),
        ({"bounds": (0, np.inf)}, "bounds must be finite"),
        ({"n_bins": 1}, "n_bins must be"),
        ({"n_bins": 1001}, "n_bins must be"),
        ({"keep": "last"}, 'keep must be "random" or "first"'),
    ],
)
def test_parameters_are_refused_by_fit(changed, message):
    with pytest.raises((InvalidParameter, InvalidType, InvalidArray), match=message):
        PrivateKBinsDiscretizer(**({"epsilon": 1.0, "bounds": (0, 1)} | changed)).fit(X)
