"""What a ledger says of the loss so far holds at every moment, whoever chooses it; caps are promised as declared."""

import json
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from ferrodp.accounting import EpsilonDeltaEvent, GaussianEvent, LaplaceEvent, Odometer
from ferrodp.budget import Head, PrivacyLedger, _measures, _odometer
from ferrodp.budget import records as _records
from ferrodp.budget.log.replay import Replay
from ferrodp.errors import InvalidParameter, LedgerError

TENTH = LaplaceEvent(noise_multiplier=10.0)


@pytest.fixture
def ledger(tmp_path):
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        yield ledger
        ledger.verify()


def losses(stages, runs, rng):
    """The loss of Gaussian releases after each stage: a Brownian motion at times μ² with drift 1/2, exactly."""
    steps = np.diff(np.asarray(stages), prepend=0.0)
    return np.cumsum(steps / 2 + np.sqrt(steps) * rng.standard_normal((runs, len(stages))), axis=1)


@pytest.mark.parametrize("measure", ["gdp", "zcdp", "rdp"])
def test_the_loss_seldom_exceeds_a_reading_at_any_moment(ledger, measure):
    """Nine stages, δ = 0.02, whoever looks at each of them; 20 000 runs, false alarms below 1e-9.

    The ε of a budget that is just used up is exceeded at some stage in a third of all runs: it is no odometer.
    """
    delta, runs = 0.02, 20_000
    ledger.create("study", epsilon=500.0, delta=delta, measure=measure)
    totals, readings, charged = [], [], []
    for stage in range(9):
        more = 1e-3 * 4.0**stage - sum(totals[-1:])
        ledger.spend("study", GaussianEvent(noise_multiplier=more**-0.5))
        totals.append(1e-3 * 4.0**stage)
        reading = ledger.odometer("study")
        assert reading.delta == delta
        readings.append(reading.epsilon)
        charged.append(ledger.epsilon_charged("study"))
    seen = losses(totals, runs, np.random.default_rng(7))

    exceeded = (seen > np.array(readings)).any(axis=1).sum()
    # P(Binomial(20 000, 0.02) > 530) < 1e-9
    assert exceeded <= 530
    assert readings == sorted(readings)
    if measure == "gdp":
        assert (seen > np.array(charged)).any(axis=1).mean() > 0.3
    assert all(reading > epsilon for reading, epsilon in zip(readings, charged, strict=True))


def test_a_single_reading_is_no_less_than_the_exact_quantile_of_the_loss(ledger):
    """P(L > ε) ≤ δ for the loss of a Gaussian, N(μ²/2, μ²), however small μ is, where (ε, δ) of a filter is (0, δ)."""
    delta = 1e-3
    for measure in ("gdp", "zcdp", "rdp"):
        for number, multiplier in enumerate((4000.0, 400.0, 40.0, 4.0, 1.0)):
            name = f"{measure}-{number}"
            ledger.create(name, epsilon=20.0, delta=delta, measure=measure)
            ledger.spend(name, GaussianEvent(noise_multiplier=multiplier))
            with mp.workdps(30):
                mean = 1 / mp.mpf(multiplier)
                tail = mp.ncdf(-(mp.mpf(ledger.odometer(name).epsilon) - mean**2 / 2) / mean)
            assert tail <= delta
    assert ledger.epsilon_charged("gdp-0") < 1e-9  # where the loss is positive half of the time


def test_in_zcdp_a_reading_is_that_of_the_odometer(ledger):
    ledger.create("study", epsilon=4.0, delta=1e-6, measure="zcdp")
    with ledger._access.reading() as transaction:
        cap = Fraction(transaction.scope("study").caps[0], _measures.UNITS["zcdp"])
    odometer = Odometer(delta=1e-6, expected_rho=float(cap))
    for multiplier in (10.0, 30.0, 5.0):
        ledger.spend("study", GaussianEvent(noise_multiplier=multiplier))
        odometer.charge(GaussianEvent(noise_multiplier=multiplier))
        assert ledger.odometer("study").epsilon == odometer.epsilon
        after = ledger.odometer("study", after=GaussianEvent(noise_multiplier=2.0)).epsilon
        assert after > odometer.epsilon


def test_in_rdp_a_reading_is_the_best_of_all_orders_rounded_up(ledger):
    ledger.create("study", epsilon=8.0, delta=1e-5, measure="rdp", orders=(2.0, 3.5, 17.0, 64.0))
    orders = (3.5, 17.0, 64.0)  # at 2, δ leaves no budget for ε
    for count in (1, 20):
        ledger.lease("study", GaussianEvent(noise_multiplier=10.0), count=count)
    with mp.workdps(40):
        exact = min(21 * order / 200 + mp.log(len(orders) / mp.mpf(1e-5)) / (mp.mpf(order) - 1) for order in orders)
        assert exact <= ledger.odometer("study").epsilon <= exact * (1 + mp.mpf(2) ** -48)


def test_in_pure_a_reading_is_the_sum_and_infinite_beyond_delta(ledger):
    ledger.create("survey", epsilon=1.0, delta=1e-6, measure="pure")
    ledger.spend("survey", TENTH)
    assert (ledger.odometer("survey").epsilon, ledger.odometer("survey").delta) == (0.1, 0.0)
    ledger.spend("survey", EpsilonDeltaEvent(epsilon=0.1, delta=5e-7))
    assert (ledger.odometer("survey").epsilon, ledger.odometer("survey").delta) == (0.2, 1e-6)
    beyond = ledger.odometer("survey", after=EpsilonDeltaEvent(epsilon=0.1, delta=6e-7))
    assert (beyond.epsilon, beyond.delta) == (math.inf, 1e-6)


def test_a_stated_delta_that_a_measure_has_no_room_for_is_not_left_out(ledger):
    ledger.create("study", epsilon=4.0, delta=1e-6, measure="zcdp")
    ledger.spend("study", GaussianEvent(noise_multiplier=8.0))
    event = EpsilonDeltaEvent(epsilon=0.1, delta=1e-9)

    assert ledger.would_exceed("study", event)
    assert ledger.odometer("study", after=event).epsilon == ledger.epsilon_charged("study", after=event) == math.inf


def test_a_reading_keeps_the_constants_with_which_the_scope_was_made(ledger):
    """Else δ and γ could be chosen in view of results."""
    for measure in ("gdp", "zcdp", "rdp"):
        ledger.create(measure, epsilon=4.0, delta=1e-6, measure=measure)
        ledger.spend(measure, GaussianEvent(noise_multiplier=8.0))
        before = ledger.odometer(measure)
        ledger.raise_cap(measure, epsilon=8.0, delta=1e-3, reason="asked for")
        ledger.lower_cap(measure, epsilon=2.0, delta=1e-9, reason="asked for")
        assert ledger.odometer(measure) == before
        assert before.delta == 1e-6


def test_only_the_highest_cap_that_was_declared_is_promised(ledger):
    ledger.create("study", epsilon=2.0, delta=1e-6, highest_epsilon=6.0)
    assert promised(ledger) == (6.0, 1e-6)
    ledger.raise_cap("study", epsilon=6.0, reason="second wave")
    head = ledger.head
    for more in ({"epsilon": 6.5}, {"epsilon": 6.0, "delta": 2e-6}):
        with pytest.raises(InvalidParameter, match=r"at most 6\.0 and 1e-06, the highest that was declared"):
            ledger.raise_cap("study", **more, reason="third wave")
    assert ledger.head == head
    ledger.lower_cap("study", epsilon=1.0, reason="enough")
    ledger.raise_cap("study", epsilon=3.0, reason="more")
    assert promised(ledger) == (6.0, 1e-6)


def test_a_cap_raised_beyond_what_was_said_voids_the_promise(ledger):
    ledger.create("study", epsilon=2.0, delta=1e-6)
    ledger.lower_cap("study", epsilon=1.0, reason="enough")
    ledger.raise_cap("study", epsilon=2.0, reason="more")
    assert promised(ledger) == (2.0, 1e-6)
    ledger.raise_cap("study", epsilon=2.5, reason="more")
    assert promised(ledger) == (None, None)
    ledger.lower_cap("study", epsilon=1.0, reason="enough")
    assert promised(ledger) == (None, None)
    assert ledger.report("study").epsilon == 1.0


def promised(ledger):
    report = ledger.report("study")
    return report.promised_epsilon, report.promised_delta


@pytest.mark.parametrize(
    "highest",
    [{"highest_epsilon": 1.9}, {"highest_delta": 1e-7}, {"highest_epsilon": math.inf}, {"highest_delta": 1.0}],
)
def test_a_highest_cap_below_the_first_is_refused(ledger, highest):
    with pytest.raises(InvalidParameter):
        ledger.create("study", epsilon=2.0, delta=1e-6, **highest)
    assert ledger.scopes == ()


def test_terms_go_to_text_and_back(ledger):
    ledger.create("survey", epsilon=Fraction(1, 3), delta=0, measure="pure", highest_epsilon=Fraction(2, 3))
    ledger.raise_cap("survey", epsilon=Fraction(1, 2), reason="more")
    with ledger._access.reading() as transaction:
        terms = transaction.scope("survey").terms
    assert _measures.Terms.from_dict(json.loads(terms.text)) == terms
    assert (terms.original, terms.highest) == ((Fraction(1, 3), 0.0), (Fraction(2, 3), 0.0))
    assert terms.first.text == ledger.history("survey")[0]["terms"] or terms.first.original is None
    assert _odometer.reading(terms, (0, 0)) == (0.0, 0.0)


def test_a_log_that_forgets_what_was_promised_is_refused(ledger):
    ledger.create("study", epsilon=2.0, delta=1e-6, measure="zcdp", highest_epsilon=3.0)
    ledger.raise_cap("study", epsilon=3.0, reason="more")
    bodies = list(ledger.history())

    def replayed():
        replay, digest = Replay(Head(0, "1" * 64)), "1" * 64
        for body in bodies:
            text = json.dumps(body, sort_keys=True, separators=(",", ":"))
            digest = _records.chained(digest, text)
            replay.read([(body["sequence"], text, digest)])

    replayed()
    kept = dict(bodies[1]["terms"])
    for name in ("original", "highest"):
        bodies[1]["terms"] = {key: value for key, value in kept.items() if key != name}
        with pytest.raises(LedgerError, match="forgets what was promised"):
            replayed()
    bodies[1]["terms"] = kept | {"epsilon": 4.0, "raised": True}
    with pytest.raises(LedgerError, match="highest that was declared"):
        replayed()
