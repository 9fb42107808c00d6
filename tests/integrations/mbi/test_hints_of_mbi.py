"""Each way out that a message of `integrations.mbi` names is taken, and no place with one is without a row."""

import itertools

import pytest

import ferrodp as fd
from ferrodp.integrations.mbi import fitted_model
from support.hints import Hint, assert_all_lead_out, identifiers, lead_out

COLUMNS = [f"c{number}" for number in range(8)]


def fitted(workload):
    """Fit a model to tables of eight columns with eight labels each."""
    frame = {name: [0] for name in COLUMNS}
    public = dict.fromkeys(frame, range(8))
    fitted_model(fd.private_marginals(frame, workload, categories=public, epsilon=1.0, delta=1e-6), iterations=3)


HINTS = [
    Hint(
        "measure fewer tables that overlap, such as those of one column with each other",
        lambda c: fitted([*itertools.combinations(COLUMNS, 2)]),
        lambda c: fitted([(COLUMNS[0], name) for name in COLUMNS[1:]]),
    ),
]


@pytest.mark.parametrize("hint", HINTS, ids=identifiers(HINTS))
def test_a_way_out_of_mbi_leads_out(hint):
    lead_out(hint)


def test_no_way_out_of_mbi_is_without_a_test():
    assert_all_lead_out("mbi", HINTS)
