"""Certified accountants inside Opacus: its engine, calibration and checkpoints; and its own numbers beside ours."""

import math

import pytest
import torch
from opacus import GradSampleModule, PrivacyEngine
from opacus.accountants import PRVAccountant, RDPAccountant, create_accountant
from opacus.accountants.accountant import IAccountant
from opacus.accountants.utils import get_noise_multiplier
from opacus.optimizers import DPOptimizer

import ferrodp as fd
from ferrodp.integrations import opacus as exact

exact.register()

HISTORIES = [
    [(1.1, 0.01, 1000)],
    [(0.7, 0.004, 3000)],
    [(1.3, 0.25, 60)],
    [(2.0, 1.0, 20)],
    [(1.1, 0.01, 500), (1.3, 0.02, 250)],
]
DELTA = 1e-5


def answered(accountant, history, **options):
    accountant.history = list(history)
    return accountant.get_epsilon(DELTA, **options)


@pytest.mark.parametrize("history", HISTORIES)
def test_epsilon_at_the_orders_of_opacus_is_that_of_opacus(history):
    orders = RDPAccountant.DEFAULT_ALPHAS

    theirs = answered(RDPAccountant(), history)

    # Both convert the same Rényi divergences by the same formula; ours is rounded up.
    assert answered(create_accountant("ferrodp-rdp"), history, alphas=orders) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("history", HISTORIES)
def test_no_epsilon_is_above_the_one_of_opacus(history):
    rdp, prv = answered(RDPAccountant(), history), answered(PRVAccountant(), history)

    assert answered(create_accountant("ferrodp-rdp"), history) <= rdp * (1 + 1e-12)
    assert answered(create_accountant("ferrodp"), history) <= min(rdp, prv)


def test_opacus_finds_the_accountants_and_takes_them_for_its_own():
    assert isinstance(create_accountant("ferrodp"), IAccountant)
    assert isinstance(PrivacyEngine(accountant="ferrodp-rdp").accountant, exact.CertifiedRdpAccountant)


def test_the_noise_that_opacus_calibrates_keeps_to_the_target():
    z = get_noise_multiplier(
        target_epsilon=3.0,
        target_delta=DELTA,
        sample_rate=0.05,
        steps=200,
        accountant="ferrodp",
        epsilon_tolerance=0.01,
    )

    step = fd.accounting.PoissonSampledEvent(
        sampling_probability=0.05, event=fd.accounting.GaussianEvent(noise_multiplier=z)
    )
    accountant = fd.accounting.PldAccountant()
    accountant.compose(step, count=200)
    assert 2.99 <= accountant.epsilon(DELTA) <= 3.0


def test_steps_are_recorded_as_opacus_records_them():
    ours, theirs = exact.CertifiedAccountant(), RDPAccountant()
    for z in (1.0, 1.0, 2.0, 1.0):
        for each in (ours, theirs):
            each.step(noise_multiplier=z, sample_rate=0.1)

    assert ours.history == theirs.history
    assert len(ours) == 4


@pytest.mark.parametrize(("rate", "batches", "noise_multiplier"), [(0.25, 2, 1.0), (0.05, 4, 2.0), (0.5, 3, 3.0)])
def test_a_record_in_several_accumulated_batches_counts_several_times(rate, batches, noise_multiplier):
    """The truth: a record is in Bin(k, q) batches, and moves the sum by one clip norm for each."""
    accountant = exact.CertifiedAccountant()
    model = GradSampleModule(torch.nn.Linear(2, 1))
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        noise_multiplier=noise_multiplier,
        max_grad_norm=1.0,
        expected_batch_size=3,
    )
    optimizer.attach_step_hook(accountant.get_optimizer_hook_fn(sample_rate=rate))
    for _ in range(batches):
        model(torch.ones(3, 2)).mean().backward()
    optimizer.step()

    truth = fd.accounting.PldAccountant()
    shares = [math.comb(batches, j) * rate**j * (1 - rate) ** (batches - j) for j in range(batches + 1)]
    truth.compose(
        fd.accounting.MixtureOfGaussiansEvent(
            noise_multiplier=noise_multiplier, shifts=tuple(range(batches + 1)), probabilities=tuple(shares)
        )
    )
    assert len(accountant) == 1
    for delta in (1e-2, 1e-5, 1e-10):
        assert accountant.get_epsilon(delta) >= truth.epsilon_bounds(delta)[1]
    one_sample = exact.CertifiedAccountant()
    one_sample.step(noise_multiplier=noise_multiplier, sample_rate=min(rate * batches, 1.0))
    assert one_sample.get_epsilon(1e-10) < truth.epsilon_bounds(1e-10)[0]


def test_epsilon_after_the_next_step_is_what_the_next_step_makes_it():
    accountant = exact.CertifiedRdpAccountant()
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)

    foretold = accountant.epsilon_after_next(DELTA)
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)

    assert foretold == accountant.get_epsilon(DELTA)


def test_states_pass_between_accountants_of_opacus_and_ours():
    theirs, ours = RDPAccountant(), exact.CertifiedAccountant()
    theirs.history = [(1.5, 0.25, 3)]

    ours.load_state_dict(theirs.state_dict())
    back = PRVAccountant()
    back.load_state_dict(ours.state_dict() | {"mechanism": "prv"})

    assert back.history == [(1.5, 0.25, 3)]
    assert exact.to_opacus_history(exact.from_opacus_history(theirs.state_dict())) == theirs.history
    assert ours.state_dict()["history"] is not ours.history


@pytest.mark.parametrize("state", [{}, {"history": []}, {"history": [(1.0, 2.0, 3)], "mechanism": "rdp"}])
def test_a_state_that_is_none_is_refused_and_changes_nothing(state):
    accountant = exact.CertifiedAccountant()
    accountant.history = [(1.5, 0.25, 3)]

    with pytest.raises(ValueError, match=r"state_dict|sampling_probability"):
        accountant.load_state_dict(state)

    assert accountant.history == [(1.5, 0.25, 3)]


def test_histories_hold_nothing_but_sampled_gaussians():
    event = fd.accounting.LaplaceEvent(noise_multiplier=1.0)

    with pytest.raises(fd.errors.UnsupportedEventError, match="LaplaceEvent"):
        exact.to_opacus_history(event)


def test_a_release_without_noise_has_no_finite_epsilon():
    assert answered(create_accountant("ferrodp"), [(0.0, 0.1, 1)]) == float("inf")
