"""Histories of Opacus' accountants."""

import pytest
from opacus.accountants import RDPAccountant

import ferrodp as fd


def test_a_history_is_read_as_opacus_writes_it():
    theirs = RDPAccountant()
    for _ in range(3):
        theirs.step(noise_multiplier=1.5, sample_rate=0.25)

    event = fd.accounting.from_opacus_history(theirs.state_dict()["history"])

    assert [(part.count, part.event.sampling_probability) for part in event.events] == [(3, 0.25)]
    ours = fd.accounting.RdpAccountant()
    ours.compose(event)
    assert ours.epsilon(1e-5) <= theirs.get_epsilon(1e-5) * (1 + 1e-9)
    assert ours.epsilon(1e-5) == pytest.approx(theirs.get_epsilon(1e-5), rel=0.05)
