"""The best of a random number of runs never loses more than its curve says."""

import math

import mpmath as mp
import numpy as np
import pytest

from ferrodp.accounting import GaussianEvent, LaplaceEvent, RdpAccountant, RepeatAndSelectEvent
from ferrodp.accounting.curves import zcdp_delta
from ferrodp.accounting.sampling import RepeatAndSelectCurve, repeat_and_select_epsilon
from ferrodp.accounting.sampling.repeat_and_select import log_one_over_gamma
from ferrodp.errors import InvalidParameter, InvalidType, UnsupportedEventError
from reference import repeat_and_select as reference
from support import vectors

VECTORS = vectors.accounting()
SELECTED = [vector for vector in VECTORS if vector["quantity"] == "epsilon_repeat_and_select"]


def curve_of(p, q):
    """Upper bounds on the divergences of two finite laws in the worse direction: in floats, and 10⁻⁹ above."""
    first, second = (np.log(np.array([float(each) for each in law])) for law in (p, q))

    def one_way(ln_p, ln_q, order):
        if order == math.inf:
            return (ln_p - ln_q).max()
        if order == 1.0:
            return (np.exp(ln_p) * (ln_p - ln_q)).sum()
        terms = order * ln_p + (1.0 - order) * ln_q
        return (terms.max() + np.log(np.exp(terms - terms.max()).sum())) / (order - 1.0)

    def curve(orders):
        both = [max(one_way(first, second, a), one_way(second, first, a), 0.0) for a in orders.tolist()]
        return np.array(both) + 1e-9

    return curve


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 4.0, math.inf])
@pytest.mark.parametrize("mean", [1.0, 2.5, 30.0])
def test_the_exact_loss_is_below_the_curve(mean, shape):
    """At random laws of two to four outcomes, the same every time."""
    orders, random = np.array([1.5, 3.0, 20.0, math.inf]), np.random.default_rng(7)
    for size in (2, 3, 4, 4):
        weights = random.uniform(0.05, 1.0, size=(2, size)).tolist()
        with mp.workdps(40):
            laws = [[mp.mpf(each) / mp.fsum(side) for each in side] for side in weights]
            bound = RepeatAndSelectCurve(curve_of(*laws), mean=mean, shape=shape)(orders)
            best = laws if mean == 1.0 and shape < math.inf else [reference.best_of(law, mean, shape) for law in laws]
            for order, value in zip(orders.tolist(), bound.tolist(), strict=True):
                assert reference.divergence(*best, mp.mpf(order)) <= mp.mpf(value)


@pytest.mark.parametrize("shape", [0.0, 0.3, 1.0, 7.5])
@pytest.mark.parametrize("mean", [1.0, 1.0 + 1e-3, 1.5, 10.0, 1e6, 1e300])
def test_gamma_gives_at_least_the_mean(mean, shape):
    """Between the least that is enough and 10⁻¹² more."""
    length = log_one_over_gamma(mean, shape)

    with mp.workdps(400):
        assert mean == 1.0 or reference.mean_of(mp.exp(-mp.mpf(length)), mp.mpf(shape)) >= mean
        less = mp.mpf(length) * (1 - mp.mpf(10) ** -12) - mp.mpf(10) ** -15
        assert less <= 0 or reference.mean_of(mp.exp(-less), mp.mpf(shape)) < mean


def test_gamma_for_means_next_to_one():
    for mean in (math.nextafter(1.0, 2.0), 1.0 + 1e-12):
        length = log_one_over_gamma(mean, 1.0)
        with mp.workdps(60):
            assert reference.mean_of(mp.exp(-mp.mpf(length)), mp.mpf(1)) >= mean
        assert length <= 1e-10


def test_one_run_costs_one_run():
    def base(orders):
        return orders / 200

    once = RepeatAndSelectCurve(base, mean=1.0, shape=1.0)
    assert once(np.array([3.0]))[0] == pytest.approx(3.0 / 200, rel=1e-9)


def test_a_formula_written_out():
    """Theorem 2 for ρ(α) = α/200, η = 1, E[K] = 10, so that γ = 1/10: the best α̂ is near √(200·ln 10) = 21.5."""
    curve = RepeatAndSelectCurve(lambda orders: orders / 200, mean=10.0, shape=1.0)

    best = math.sqrt(200 * math.log(10.0))
    extra = 2 * ((best - 1) / 200 + math.log(10.0) / best)
    assert curve(40.0)[0] >= 40 / 200 + extra + math.log(10.0) / 39
    assert curve(40.0)[0] == pytest.approx(40 / 200 + extra + math.log(10.0) / 39, rel=1e-4)
    # below order 1 + best, α/200 + ln(10)/(α − 1) rises as orders fall: the bound there is that of the best order
    assert curve(8.0)[0] == pytest.approx((1 + 2 * best) / 200 + extra, rel=1e-4)
    assert curve(8.0)[0] == curve(1.0)[0]


@pytest.mark.parametrize("vector", SELECTED, ids=lambda vector: vector["id"])
def test_given_values(vector):
    """At a huge order the conversion adds nothing, and the curve of ε-private runs reaches (2 + η)·ε."""
    inputs = vector["inputs"]
    curve = RepeatAndSelectCurve(
        lambda orders: np.full(orders.shape, float(inputs["epsilon"])), mean=inputs["mean"], shape=inputs["tnb_shape"]
    )
    order, delta = inputs["order"], inputs["delta"]
    epsilon = curve(order)[0] + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)

    assert epsilon == pytest.approx(vector["expected"], **{"rel": 0.0, **vector["tolerance"]})
    assert repeat_and_select_epsilon(epsilon=inputs["epsilon"], shape=inputs["tnb_shape"]) == vector["expected"]


def test_the_poisson_law_and_its_ends():
    none = RepeatAndSelectCurve(lambda orders: np.zeros(orders.shape), mean=1.0, shape=math.inf)
    assert none(math.inf)[0] < 1e-9
    base = RepeatAndSelectCurve(lambda orders: orders / 200, mean=10.0, shape=math.inf)
    values = base(np.array([1.0, 2.0, 40.0, math.inf]))
    assert values[0] == values[1] < values[2]
    failure = zcdp_delta(rho=1 / 200, epsilon=math.log(40 / 39))
    assert values[2] >= 40 / 200 + 10 * failure + math.log(10.0) / 39
    assert values[2] == pytest.approx(40 / 200 + 10 * failure + math.log(10.0) / 39, rel=2e-3)  # orders are 8 % apart
    assert values[3] == math.inf


@pytest.mark.parametrize("shape", [0.0, 1.0, math.inf])
@pytest.mark.parametrize("mean", [1.5, 10.0, 1e5])
def test_the_curve_never_falls_as_the_order_rises(mean, shape):
    """It is a bound on something that does not; the formula alone is without limit next to order 1."""
    for sigma in (0.3, 20.0):
        curve = RepeatAndSelectCurve(lambda orders, s=sigma: orders / (2 * s * s), mean=mean, shape=shape)
        orders = np.concatenate([[1.0], 1.0 + np.geomspace(1e-6, 1e10, 3000), [math.inf]])
        values = curve(orders)

        finite = values[np.isfinite(values)]
        assert (np.diff(finite) >= -1e-3 * finite[1:]).all()  # between orders of the envelope, 8 % apart
        assert values[0] < math.inf


def test_pure_runs_are_bounded_at_every_order_by_the_loss_of_their_best():
    """(2 + η)·ε bounds the loss, and so the divergence of every order: at 1.1, too (Papernot, Steinke, Corollary 3)."""
    curve = RepeatAndSelectCurve(lambda orders: np.full(orders.shape, 20.0), mean=1e5, shape=1e-3)

    assert curve(np.array([1.0, 1.0 + 1e-6, 1.1, 2.0])).max() <= 20.0 * 2.001 * (1 + 1e-9)


def test_a_release_beside_it_does_not_spoil_the_search_of_the_order():
    """Two thousand Gaussians are converted next to order 1, where the formula alone rises: to 1315.9.

    The divergence of the search is at most 2.2 at every order up to 8, so that ε is at most so much more.
    """
    accountant, alone = RdpAccountant(), RdpAccountant()
    run = GaussianEvent(noise_multiplier=20.0)
    accountant.compose(RepeatAndSelectEvent(event=run, mean=1e5, shape=1.0))
    assert accountant.rdp(1.1) <= accountant.rdp(8.0) <= 2.2
    for each in (accountant, alone):
        each.compose(GaussianEvent(noise_multiplier=1.0), count=2000)

    assert accountant.epsilon(1e-6) <= alone.epsilon(1e-6) + 2.2


def test_infinite_divergences_are_allowed():
    curve = RepeatAndSelectCurve(lambda orders: np.where(orders < 5, orders / 2, np.inf), mean=3.0, shape=1.0)

    assert np.isfinite(curve(4.0)).all()
    assert curve(6.0)[0] == math.inf


def test_parameters_are_checked():
    def base(orders):
        return orders

    for keywords in ({"mean": 0.5, "shape": 1.0}, {"mean": 2.0, "shape": -0.5}, {"mean": math.inf, "shape": 1.0}):
        with pytest.raises(InvalidParameter):
            RepeatAndSelectCurve(base, **keywords)
    with pytest.raises(InvalidType, match="curve"):
        RepeatAndSelectCurve(3.0, mean=2.0, shape=1.0)
    with pytest.raises(InvalidParameter, match="curve must return"):
        RepeatAndSelectCurve(lambda orders: -orders, mean=2.0, shape=1.0)
    with pytest.raises(InvalidParameter, match="orders"):
        RepeatAndSelectCurve(base, mean=2.0, shape=1.0)(0.5)
    with pytest.raises(InvalidParameter, match="shape"):
        repeat_and_select_epsilon(epsilon=1.0, shape=-1.0)
    assert repeat_and_select_epsilon(epsilon=1e308, shape=5.0) == math.inf


@pytest.mark.parametrize("vector", SELECTED, ids=lambda vector: vector["id"])
def test_the_rdp_accountant_takes_the_event(vector):
    inputs, accountant = vector["inputs"], RdpAccountant()
    run = LaplaceEvent(noise_multiplier=1.0 / inputs["epsilon"])
    accountant.compose(RepeatAndSelectEvent(event=run, mean=inputs["mean"], shape=inputs["tnb_shape"]))

    assert accountant.epsilon(inputs["delta"]) == pytest.approx(vector["expected"], abs=1e-7)


def test_less_than_one_run_on_average_is_refused():
    run = LaplaceEvent(noise_multiplier=1.0)

    with pytest.raises(UnsupportedEventError, match="less than one run"):
        RdpAccountant().compose(RepeatAndSelectEvent(event=run, mean=0.5, shape=math.inf))
