"""Each event refuses what it cannot mean, and rounds to the side that promises less."""

import json
import math
from decimal import Decimal
from fractions import Fraction

import pytest

from ferrodp import accounting as ac
from ferrodp.accounting import GaussianEvent
from ferrodp.errors import InvalidParameter, InvalidType

GAUSSIAN = GaussianEvent(noise_multiplier=1.0)
TENTH = Fraction(1, 10)
BELOW, ABOVE = math.nextafter(0.1, 0.0), 0.1  # the floats around one tenth

GOOD = {
    ac.GaussianEvent: {"noise_multiplier": 1.0},
    ac.LaplaceEvent: {"noise_multiplier": 1.0},
    ac.DiscreteGaussianEvent: {"scale": 1.0, "l2_sensitivity": 1.0, "dimension": 2},
    ac.DistributedDiscreteGaussianEvent: {
        "share_scale": 0.5,
        "num_shares": 10,
        "l2_sensitivity": 3.0,
        "granularity": 0.0625,
        "dimension": 2,
    },
    ac.SkellamEvent: {"variance": 1.0, "l2_sensitivity": 3.0, "granularity": 0.0625, "dimension": 2},
    ac.DiscreteLaplaceEvent: {"scale": 1.0, "l1_sensitivity": 1},
    ac.RandomizedResponseEvent: {"noise_parameter": 0.5, "num_buckets": 2},
    ac.ExponentialMechanismEvent: {"epsilon": 1.0},
    ac.EpsilonDeltaEvent: {"epsilon": 1.0, "delta": 0.5},
    ac.ZcdpEvent: {"rho": 1.0},
    ac.PoissonSampledEvent: {"sampling_probability": 0.5, "event": GAUSSIAN, "null_distance": 0.5},
    ac.FixedSizeSampledEvent: {"population_size": 10, "sample_size": 5, "event": GAUSSIAN},
    ac.TruncatedPoissonSampledEvent: {
        "population_size": 10,
        "sampling_probability": 0.5,
        "truncated_batch_size": 5,
        "event": GAUSSIAN,
    },
    ac.RandomAllocationEvent: {"num_steps": 10, "num_selected": 5, "event": GAUSSIAN},
    ac.AdaptiveClipEvent: {"sum_noise_multiplier": 1.0, "count_noise_multiplier": 1.0},
    ac.MixtureOfGaussiansEvent: {"noise_multiplier": 1.0, "shifts": (0.0, 1.0), "probabilities": (0.5, 0.5)},
    ac.RepeatAndSelectEvent: {"event": GAUSSIAN, "mean": 2.0, "shape": 1.0},
    ac.TreeAggregationEvent: {"noise_multiplier": 1.0, "num_steps": 8, "max_participation": 2, "min_separation": 1},
    ac.MatrixMechanismEvent: {"noise_multiplier": 1.0, "sensitivity": 1.0},
    ac.ParallelEvent: {"events": (GAUSSIAN,)},
    ac.ShuffledEvent: {"randomizer": GAUSSIAN, "population_size": 10},
    ac.ComposedEvent: {"events": (GAUSSIAN,)},
    ac.SelfComposedEvent: {"event": GAUSSIAN, "count": 1},
}
ROUNDED = {
    "noise_multiplier": BELOW,
    "sum_noise_multiplier": BELOW,
    "count_noise_multiplier": BELOW,
    "scale": BELOW,
    "noise_parameter": BELOW,
    "l2_sensitivity": ABOVE,
    "sensitivity": ABOVE,
    "epsilon": ABOVE,
    "delta": ABOVE,
    "rho": ABOVE,
    "share_scale": None,
    "variance": BELOW,
    "granularity": None,
    "sampling_probability": ABOVE,
}
COUNTS = {
    "num_shares": 1,
    "dimension": 1,
    "l1_sensitivity": 1,
    "num_buckets": 2,
    "population_size": 1,
    "sample_size": 0,
    "truncated_batch_size": 0,
    "num_steps": 1,
    "num_selected": 0,
    "max_participation": 1,
    "min_separation": 0,
    "count": 0,
}
FIELDS = [(event_class, name) for event_class, fields in GOOD.items() for name in fields]
NUMBERS = [(event_class, name) for event_class, name in FIELDS if name in ROUNDED or name in ("mean", "shape")]
WHOLE = [(event_class, name) for event_class, name in FIELDS if name in COUNTS]


def made(event_class, **changed):
    return event_class(**{**GOOD[event_class], **changed})


def test_every_event_is_looked_at():
    classes = {getattr(ac, name) for name in ac.__all__ if name.endswith("Event")}

    assert classes == {*GOOD, ac.NonPrivateEvent, ac.PrivacyEvent}


@pytest.mark.parametrize("event_class", GOOD)
def test_fields_are_kept_as_they_are_given(event_class):
    event = made(event_class)

    assert GOOD[event_class] == {name: getattr(event, name) for name in GOOD[event_class]}
    assert event == made(event_class)
    assert event != ac.NonPrivateEvent()


@pytest.mark.parametrize(("event_class", "name"), NUMBERS)
@pytest.mark.parametrize("bad", [math.nan, -math.inf, -1.0, Decimal("NaN"), -Fraction(1, 3)])
def test_numbers_out_of_their_domain_are_refused_by_name(event_class, name, bad):
    with pytest.raises(InvalidParameter, match=f"{name} must be "):
        made(event_class, **{name: bad})


@pytest.mark.parametrize(("event_class", "name"), [(c, n) for c, n in NUMBERS if n != "shape"])
def test_no_number_is_infinite(event_class, name):
    with pytest.raises(InvalidParameter, match=f"{name} must be finite"):
        made(event_class, **{name: math.inf})


@pytest.mark.parametrize(("event_class", "name"), NUMBERS)
@pytest.mark.parametrize("bad", ["1", True, None, 1j, [1.0]])
def test_other_types_are_refused_by_name(event_class, name, bad):
    with pytest.raises(InvalidType, match=f"{name} must be a real number"):
        made(event_class, **{name: bad})


@pytest.mark.parametrize(("event_class", "name"), WHOLE)
def test_counts_are_integers_in_their_range(event_class, name):
    for bad, error in ((COUNTS[name] - 1, InvalidParameter), (2**63, InvalidParameter), (1.0, InvalidType)):
        if (event_class, name, bad) != (ac.TreeAggregationEvent, "num_steps", 0):
            with pytest.raises(error, match=f"{name} must be an int"):
                made(event_class, **{name: bad})


@pytest.mark.parametrize(("event_class", "name"), [(c, n) for c, n in FIELDS if n in ROUNDED])
def test_one_tenth_is_rounded_to_the_side_that_promises_less(event_class, name):
    if (event_class, name) == (ac.TruncatedPoissonSampledEvent, "sampling_probability"):
        with pytest.raises(InvalidParameter, match=r"sampling_probability must be .* exactly a float"):
            made(event_class, **{name: TENTH})
    elif event_class is ac.EpsilonDeltaEvent:
        assert getattr(made(event_class, **{name: TENTH}), name) == TENTH
    elif ROUNDED[name] is None:
        with pytest.raises(InvalidParameter, match=rf"{name} must be .* exactly a float"):
            made(event_class, **{name: TENTH})
    else:
        assert ROUNDED[name] == getattr(made(event_class, **{name: TENTH}), name)
        assert type(getattr(made(event_class, **{name: Fraction(1, 2)}), name)) is float


@pytest.mark.parametrize(("event_class", "name"), [(c, n) for c, n in FIELDS if n == "event"])
@pytest.mark.parametrize("bad", [None, "gaussian", 1.0, GaussianEvent])
def test_only_events_are_events(event_class, name, bad):
    with pytest.raises(InvalidType, match="event must be a privacy event, got"):
        made(event_class, **{name: bad})


def test_negative_zeros_do_not_tell_events_apart():
    for event_class, name in FIELDS:
        if name in ("epsilon", "delta", "rho", "sampling_probability", "noise_parameter", "shape"):
            value = getattr(made(event_class, **{name: -0.0}), name)

            assert math.copysign(1.0, value) == 1.0, (event_class, name)


def test_a_discrete_gaussian_in_one_dimension_is_taken_exactly():
    event = ac.DiscreteGaussianEvent(scale=Fraction(1, 4), l2_sensitivity=Decimal(3))

    assert (event.scale, event.l2_sensitivity, event.dimension) == (0.25, 3.0, 1)
    with pytest.raises(InvalidParameter, match="scale must be finite and > 0, and exactly a float, got Fraction"):
        ac.DiscreteGaussianEvent(scale=TENTH)
    for bad in (1.5, 2**53 + 1):
        with pytest.raises(InvalidParameter, match="l2_sensitivity must be a whole number in one dimension"):
            ac.DiscreteGaussianEvent(scale=1.0, l2_sensitivity=bad)


def test_a_delta_of_1_is_no_guarantee():
    with pytest.raises(InvalidParameter, match=r"delta must be .* use NonPrivateEvent for 1, got 1"):
        ac.EpsilonDeltaEvent(epsilon=1.0, delta=1)
    with pytest.raises(InvalidParameter, match="use NonPrivateEvent"):
        ac.EpsilonDeltaEvent(epsilon=1.0, delta=1 - Fraction(1, 10**30))


def test_stated_ratios_are_kept_as_they_are():
    event = ac.EpsilonDeltaEvent(epsilon=Decimal("0.1"), delta=Decimal("1e-7"))

    assert (event.epsilon, event.delta) == (TENTH, Fraction(1, 10**7))
    plain = event.to_dict()
    assert (plain["epsilon"], plain["delta"]) == ("1/10", "1/10000000")
    assert ac.PrivacyEvent.from_dict(json.loads(json.dumps(plain))) == event
    assert event == ac.EpsilonDeltaEvent(epsilon=TENTH, delta=Fraction(1, 10**7))
    assert event != ac.EpsilonDeltaEvent(epsilon=0.1, delta=1e-7)


@pytest.mark.parametrize("value", [Fraction(1, 2), Decimal("0.50"), Fraction(1), 1, 0.5])
def test_a_stated_ratio_that_is_a_float_is_one(value):
    assert type(ac.EpsilonDeltaEvent(epsilon=value).epsilon) is float


@pytest.mark.parametrize("value", [Fraction(1, 3) + Fraction(1, 2**64), Decimal("0." + 200 * "3"), Decimal("1e-300")])
def test_a_long_ratio_is_rounded_up(value):
    epsilon = ac.EpsilonDeltaEvent(epsilon=value).epsilon

    assert type(epsilon) is float
    assert math.nextafter(epsilon, 0.0) < value < epsilon


@pytest.mark.parametrize(
    "text", ["2/20", "1/2", "0/1", "1/0", "-1/10", " 1/10", "1/10\n", "01/10", "0.1", "1_0/3", "x"]
)
def test_only_the_one_text_of_a_ratio_is_read(text):
    with pytest.raises(InvalidParameter, match="epsilon must be"):
        ac.PrivacyEvent.from_dict({"version": 1, "type": "epsilon_delta", "epsilon": text, "delta": 0.0})
    with pytest.raises(InvalidType):
        ac.PrivacyEvent.from_dict({"version": 1, "type": "zcdp", "rho": "1/10"})


def test_accountants_that_add_up_take_ratios_exactly_and_others_their_upper_float():
    tenth, above = ac.EpsilonDeltaEvent(epsilon=TENTH, delta=TENTH**7), ac.EpsilonDeltaEvent(epsilon=0.1, delta=1e-7)

    exact = ac.filters.PureDpFilter(epsilon=1.0, delta=math.nextafter(1e-6, 1.0))
    assert exact.remaining_count(tenth) == 10
    assert exact.remaining_count(above) == 9  # the float is above 1/10
    for accountant_class in (ac.PldAccountant, ac.RdpAccountant):
        bounds = []
        for event in (tenth, above):
            accountant = accountant_class()
            accountant.compose(event, 5)
            bounds.append(accountant.epsilon(1e-5))
        assert bounds[0] == bounds[1]


def test_samples_fit_into_what_they_are_drawn_from():
    with pytest.raises(InvalidParameter, match="sample_size must be at most population_size = 10, got 11"):
        made(ac.FixedSizeSampledEvent, sample_size=11)
    with pytest.raises(InvalidParameter, match="num_selected must be at most num_steps = 10, got 11"):
        made(ac.RandomAllocationEvent, num_selected=11)
    with pytest.raises(InvalidParameter, match="a sample of the sample must have population_size = 6, got 10"):
        made(ac.FixedSizeSampledEvent, sample_size=6, event=made(ac.FixedSizeSampledEvent))


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"shifts": ()}, InvalidParameter, "must be of one length, at least 1, got 0 and 2"),
        ({"shifts": (1.0,)}, InvalidParameter, "must be of one length, at least 1, got 1 and 2"),
        ({"shifts": 1.0}, InvalidType, "shifts must be a tuple or list of numbers, got float"),
        ({"shifts": (0.0, -1.0)}, InvalidParameter, "shifts must be finite and >= 0, got -1.0"),
        ({"shifts": (0.0, math.inf)}, InvalidParameter, "shifts must be finite and >= 0, got inf"),
        ({"shifts": (0.0, "1")}, InvalidType, "shifts must be a real number"),
        ({"probabilities": (0.5, 0.25)}, InvalidParameter, "probabilities must add up to 1, got 0.75"),
        ({"probabilities": (0.5, 1.5)}, InvalidParameter, "probabilities must be finite and in"),
        ({"probabilities": (TENTH, 1 - TENTH)}, InvalidParameter, "probabilities must be .* exactly a float"),
        ({"probabilities": (math.nan, 1.0)}, InvalidParameter, "probabilities must be finite"),
    ],
)
def test_mixtures_are_laws(fields, error, text):
    with pytest.raises(error, match=text):
        made(ac.MixtureOfGaussiansEvent, **fields)


def test_mixtures_take_lists_and_rounded_probabilities():
    event = made(ac.MixtureOfGaussiansEvent, shifts=[0, 1, TENTH], probabilities=[0.1, 0.2, 0.7])

    assert event.shifts == (0.0, 1.0, ABOVE)
    assert hash(event) == hash(made(ac.MixtureOfGaussiansEvent, shifts=(0, 1, 0.1), probabilities=(0.1, 0.2, 0.7)))


def test_repetitions_have_a_law():
    assert made(ac.RepeatAndSelectEvent, mean=TENTH, shape=math.inf).mean == ABOVE
    assert made(ac.RepeatAndSelectEvent, shape=0).shape == 0.0
    with pytest.raises(InvalidParameter, match="mean must be >= 1 where shape is finite"):
        made(ac.RepeatAndSelectEvent, mean=0.5)
    with pytest.raises(InvalidParameter, match=r"shape must be finite and >= 0, or math\.inf, and exactly a float"):
        made(ac.RepeatAndSelectEvent, shape=TENTH)


@pytest.mark.parametrize("event_class", [c for c, name in FIELDS if name == "event" and c is not ac.SelfComposedEvent])
def test_samples_are_not_nested_without_end(event_class):
    event = GAUSSIAN
    for _ in range(99):
        event = ac.RepeatAndSelectEvent(event=event, mean=2.0, shape=1.0)
    made(event_class, event=event)
    with pytest.raises(InvalidParameter, match="event must be nested at most 100 deep"):
        made(event_class, event=ac.SelfComposedEvent(event=event, count=1))


def test_a_split_clip_costs_no_more_than_the_whole():
    for z in (0.3, 1.0, 1.1, 7.0):
        for count in (1.001 * z, 10.0 * z, 1e5 * z):
            event = ac.AdaptiveClipEvent.split(noise_multiplier=z, count_noise_multiplier=count)
            spent = 1 / Fraction(event.sum_noise_multiplier) ** 2 + 1 / Fraction(event.count_noise_multiplier) ** 2
            less = math.nextafter(event.sum_noise_multiplier, 0.0)

            assert spent <= 1 / Fraction(z) ** 2
            assert 1 / Fraction(less) ** 2 + 1 / Fraction(count) ** 2 > 1 / Fraction(z) ** 2


def test_a_split_needs_something_to_split():
    with pytest.raises(InvalidParameter, match="count_noise_multiplier must be > noise_multiplier = 1"):
        ac.AdaptiveClipEvent.split(noise_multiplier=1.0, count_noise_multiplier=1.0)
    tenths = {"noise_multiplier": TENTH, "count_noise_multiplier": 1}
    assert ac.AdaptiveClipEvent.split(**tenths) == ac.AdaptiveClipEvent.split(
        noise_multiplier=ABOVE, count_noise_multiplier=1.0
    )
