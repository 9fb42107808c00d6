"""Discrete noise about a Poisson sample: its moments, from the definition, are those that are accounted, or less."""

import dataclasses
import itertools

import mpmath as mp
import pytest

from ferrodp.engine import DifferentialPrivacyEngine, DPConfig
from ferrodp.errors import UnsupportedEventError
from reference import rdp_reference


@pytest.mark.parametrize("shift", [(1,), (3,), (1, 1), (2, 1)])
@pytest.mark.parametrize(("sigma", "rate"), [(0.4, 0.1), (1.0, 0.01), (2.0, 0.5)])
def test_discrete_noise_about_a_sample_costs_no_more_than_the_stand_in(shift, sigma, rate):
    """Both directions at whole orders, by sums over the lattice: Theorem 5 of MTZ19 and Theorem 4 of CKS20 at work."""
    with mp.workdps(40):
        scale = sigma * mp.sqrt(sum(s * s for s in shift))  # so that σ is the noise multiplier
        reach = int(14 * scale) + 40  # terms peak at order·Δ ≤ 30; what is cut off is below e⁻⁹⁸ of the sum
        for order in (2, 5, 10):
            bound = rdp_reference.poisson_gaussian_integer(rate, sigma, order)

            removed, added = sampled_divergences(shift, scale, mp.mpf(rate), order, reach)

            assert added <= removed * (1 + mp.mpf(10) ** -30)
            assert removed <= bound * (1 + mp.mpf(10) ** -30)


def sampled_divergences(shift, scale, rate, order, reach):
    """D(mixture‖plain) and D(plain‖mixture). The loss depends on the shifted direction alone, ⟨x, Δ⟩."""
    squared = sum(s * s for s in shift)
    weights = {}
    line = [mp.exp(-(mp.mpf(x) ** 2) / (2 * scale**2)) for x in range(-reach, reach + 1)]
    if len(shift) == 1:
        for x, weight in enumerate(line, -reach):
            weights[x * shift[0]] = weights.get(x * shift[0], 0) + weight
    else:
        for (x, a), (y, b) in itertools.product(list(enumerate(line, -reach)), repeat=2):
            product = x * shift[0] + y * shift[1]
            weights[product] = weights.get(product, 0) + a * b
    total = mp.fsum(weights.values())
    mixed = {p: 1 - rate + rate * mp.exp((2 * p - squared) / (2 * scale**2)) for p in weights}
    removed = mp.fsum(w * mixed[p] ** order for p, w in weights.items()) / total
    added = mp.fsum(w * mixed[p] ** (1 - order) for p, w in weights.items()) / total
    return mp.log(removed) / (order - 1), mp.log(added) / (order - 1)


def test_discrete_noise_about_a_sample_needs_whole_orders():
    config = DPConfig("discrete_gaussian", renyi_orders=(2, 2.5))

    with pytest.raises(UnsupportedEventError, match=r"whole orders.*AccountingMethod\.MOMENTS"):
        DifferentialPrivacyEngine(config)
    assert DifferentialPrivacyEngine(dataclasses.replace(config, renyi_orders=(2.0, 3))).remaining_rounds > 0
    assert DifferentialPrivacyEngine(dataclasses.replace(config, sampling_rate=1, noise_multiplier=9)).remaining_rounds
