"""Ways to form batches side by side."""

import pytest

from ferrodp.accounting import (
    GaussianEvent,
    GdpAccountant,
    NeighboringRelation,
    PldAccountant,
    PoissonSampledEvent,
)
from ferrodp.accounting.reports import compare_sampling_schemes
from ferrodp.errors import InvalidParameter


def rows(**changed):
    setting = {"noise_multiplier": 1.5, "sampling_probability": 0.05, "count": 60, "delta": 1e-5, **changed}
    found = compare_sampling_schemes(**setting)
    return {(row.scheme, row.neighboring_relation): row for row in found}


ADDED, REPLACED = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE


def test_each_row_is_what_its_accountant_says():
    found = rows()
    poisson, epochs = PldAccountant(), GdpAccountant()
    poisson.compose(PoissonSampledEvent(sampling_probability=0.05, event=GaussianEvent(noise_multiplier=1.5)), 60)
    epochs.compose(GaussianEvent(noise_multiplier=1.5), 4)  # 0.05 is a float above 1/20: 19 steps an epoch

    assert found["Poisson", ADDED].epsilon == poisson.epsilon(1e-5)
    assert found["known order", ADDED].epsilon == pytest.approx(epochs.epsilon(1e-5), rel=1e-12)
    assert "19 steps" in found["known order", ADDED].remark


def test_sampling_helps_and_replacing_costs_more():
    found = rows()

    assert found["Poisson", ADDED].epsilon < found["fixed size", ADDED].epsilon < found["all records", ADDED].epsilon
    assert found["fixed size", ADDED].epsilon < found["fixed size", REPLACED].epsilon
    assert (
        found["balls in bins", ADDED].epsilon
        < found["known order", ADDED].epsilon
        < found["all records", ADDED].epsilon
    )
    for row in found.values():
        assert 0.0 <= row.lower <= row.epsilon
        assert row.is_bound
        assert "bound" in str(row)


def test_whole_batches_are_no_samples():
    found = rows(sampling_probability=1.0, count=3)

    assert found["Poisson", ADDED].epsilon == pytest.approx(found["all records", ADDED].epsilon, rel=1e-4)
    assert found["balls in bins", ADDED].epsilon == pytest.approx(found["known order", ADDED].epsilon, rel=1e-12)


@pytest.mark.parametrize(
    "changed", [{"sampling_probability": 0.0}, {"count": 0}, {"delta": 1.0}, {"noise_multiplier": -1}]
)
def test_bad_parameters_are_refused(changed):
    with pytest.raises(InvalidParameter):
        rows(**changed)
