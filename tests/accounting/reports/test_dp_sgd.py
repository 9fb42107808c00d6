"""Grids of ε are what an accountant answers, one by one."""

import math

import numpy as np
import pytest

from ferrodp.accounting import GaussianEvent, PoissonSampledEvent, RdpAccountant, dp_sgd_epsilon
from ferrodp.errors import InvalidParameter, InvalidType


def asked(noise_multiplier, sampling_probability, count, delta):
    accountant = RdpAccountant()
    release = GaussianEvent(noise_multiplier=noise_multiplier)
    accountant.compose(PoissonSampledEvent(sampling_probability=sampling_probability, event=release), count)
    return accountant.epsilon(delta)


def test_a_grid_holds_what_an_accountant_answers():
    noise, counts = np.array([[0.7], [1.0], [5.0]]), np.array([0, 1, 1000, 10**9])

    table = dp_sgd_epsilon(noise, 0.01, counts, delta=1e-6)

    expected = [[asked(float(s), 0.01, int(count), 1e-6) for count in counts] for s in noise[:, 0]]
    assert table.tolist() == expected


def test_threads_do_not_show():
    noise, counts = np.linspace(0.5, 4, 40), np.arange(1, 400, 40)[:, None]

    one = dp_sgd_epsilon(noise, 0.02, counts, delta=1e-5, threads=1)

    assert one.tolist() == dp_sgd_epsilon(noise, 0.02, counts, delta=1e-5, threads=5).tolist()


def test_edges():
    assert dp_sgd_epsilon(1.0, 0.0, 10, delta=1e-5) == 0.0
    assert dp_sgd_epsilon(1.0, 0.5, 0, delta=1e-5) == 0.0
    assert dp_sgd_epsilon(1.0, 1.0, 1, delta=1e-5) == pytest.approx(4.73, abs=0.01)  # a Gaussian; exactly 4.377
    assert dp_sgd_epsilon(1.0, 0.5, 2**63 - 1, delta=1e-5) < math.inf
    assert dp_sgd_epsilon([], 0.5, 1, delta=1e-5).shape == (0,)
    assert np.isfinite(dp_sgd_epsilon(1.0, 0.5, np.array([2**62 + 1], dtype=np.uint64), delta=1e-5)).all()


def test_wrong_parameters_are_named():
    with pytest.raises(InvalidParameter, match="count"):
        dp_sgd_epsilon(1.0, 0.1, [1, -1], delta=1e-5)
    with pytest.raises(InvalidParameter, match="count"):
        dp_sgd_epsilon(1.0, 0.1, [1.5], delta=1e-5)
    with pytest.raises(InvalidType, match="count"):
        dp_sgd_epsilon(1.0, 0.1, 1.5, delta=1e-5)
    with pytest.raises(InvalidParameter, match="delta"):
        dp_sgd_epsilon(1.0, 0.1, 1, delta=0.0)
