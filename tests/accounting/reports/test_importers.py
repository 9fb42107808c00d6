"""Other libraries' events become the same events here, or are refused by name; they need not be installed."""

import collections
import math
import re
import sys
import types
from fractions import Fraction

import pytest
from hypothesis import given

from ferrodp import accounting as ac
from ferrodp import events as event_kinds
from ferrodp.accounting import GaussianEvent, LaplaceEvent, NonPrivateEvent, PoissonSampledEvent, SelfComposedEvent
from ferrodp.accounting.reports.importers import (
    from_dp_accounting,
    from_jax_privacy,
    from_opacus_history,
    to_dp_accounting,
)
from ferrodp.accounting.sampling.groups import grouped
from ferrodp.errors import InvalidParameter, InvalidType, MissingPackage, UnsupportedEventError
from support.events import events

FIELDS = {
    "NoOpDpEvent": "",
    "NonPrivateDpEvent": "",
    "UnsupportedDpEvent": "",
    "RandomizedResponseDpEvent": "noise_parameter num_buckets",
    "GaussianDpEvent": "noise_multiplier",
    "LaplaceDpEvent": "noise_multiplier",
    "DiscreteLaplaceDpEvent": "noise_parameter sensitivity",
    "SelfComposedDpEvent": "event count",
    "ComposedDpEvent": "events",
    "PoissonSampledDpEvent": "sampling_probability event",
    "SampledWithReplacementDpEvent": "source_dataset_size sample_size event",
    "SampledWithoutReplacementDpEvent": "source_dataset_size sample_size event",
    "SingleEpochTreeAggregationDpEvent": "noise_multiplier step_counts",
    "RepeatAndSelectDpEvent": "event mean shape",
    "MixtureOfGaussiansDpEvent": "standard_deviation sensitivities sampling_probs",
    "ZCDpEvent": "rho xi",
    "TruncatedSubsampledGaussianDpEvent": "dataset_size sampling_probability truncated_batch_size noise_multiplier",
}
"""The classes of dp_accounting 0.6.0 and their fields, in order."""

DEFAULTS = {"ZCDpEvent": (0.0,)}
dp = types.SimpleNamespace(
    **{name: collections.namedtuple(name, fields, defaults=DEFAULTS.get(name)) for name, fields in FIELDS.items()}
)
SCALE = r"(?<=DiscreteLaplaceEvent\(scale=)[^,]+"
GAUSSIAN = GaussianEvent(noise_multiplier=1.1)

PAIRS = [
    (dp.NonPrivateDpEvent(), NonPrivateEvent()),
    (dp.GaussianDpEvent(1.1), GAUSSIAN),
    (dp.LaplaceDpEvent(2.0), LaplaceEvent(noise_multiplier=2.0)),
    (dp.DiscreteLaplaceDpEvent(0.25, 3), ac.DiscreteLaplaceEvent(scale=4.0, l1_sensitivity=3)),
    (dp.RandomizedResponseDpEvent(0.25, 4), ac.RandomizedResponseEvent(noise_parameter=0.25, num_buckets=4)),
    (dp.SelfComposedDpEvent(dp.GaussianDpEvent(1.1), 7), SelfComposedEvent(event=GAUSSIAN, count=7)),
    (
        dp.ComposedDpEvent([dp.GaussianDpEvent(1.1), dp.NonPrivateDpEvent()]),
        ac.ComposedEvent(events=(GAUSSIAN, NonPrivateEvent())),
    ),
    (
        dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.1)),
        PoissonSampledEvent(sampling_probability=0.01, event=GAUSSIAN),
    ),
    (
        dp.SampledWithoutReplacementDpEvent(1000, 10, dp.GaussianDpEvent(1.1)),
        ac.FixedSizeSampledEvent(population_size=1000, sample_size=10, event=GAUSSIAN),
    ),
    (
        dp.TruncatedSubsampledGaussianDpEvent(1000, 0.01, 20, 1.1),
        ac.TruncatedPoissonSampledEvent(
            population_size=1000, sampling_probability=0.01, truncated_batch_size=20, event=GAUSSIAN
        ),
    ),
    (
        dp.SingleEpochTreeAggregationDpEvent(1.1, 1000),
        ac.TreeAggregationEvent(noise_multiplier=1.1, num_steps=1000),
    ),
    (
        dp.RepeatAndSelectDpEvent(dp.GaussianDpEvent(1.1), 10, math.inf),
        ac.RepeatAndSelectEvent(event=GAUSSIAN, mean=10.0, shape=math.inf),
    ),
    (
        dp.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.75, 0.25]),
        ac.MixtureOfGaussiansEvent(noise_multiplier=2.0, shifts=(0.0, 1.0), probabilities=(0.75, 0.25)),
    ),
    (dp.ZCDpEvent(0.5), ac.ZcdpEvent(rho=0.5)),
]


@pytest.fixture
def library(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", types.SimpleNamespace(dp_event=dp))


@pytest.mark.parametrize(("theirs", "ours"), PAIRS, ids=lambda pair: type(pair).__name__)
def test_events_with_a_counterpart_go_there_and_back(theirs, ours, library):
    assert ours == from_dp_accounting(theirs)
    assert theirs == to_dp_accounting(ours)


NEWER = {
    "EpsilonDeltaDpEvent": "epsilon delta",
    "DiscreteGaussianDpEvent": "sigma sensitivity dimension",
    "ExponentialMechanismDpEvent": "epsilon",
    "PermuteAndFlipDpEvent": "epsilon",
}
"""Classes of its main branch of August 2026 that 0.6.0 has not."""
new = types.SimpleNamespace(
    **vars(dp), **{name: collections.namedtuple(name, fields) for name, fields in NEWER.items()}
)


@pytest.mark.parametrize(
    ("theirs", "ours", "is_both_ways"),
    [
        (new.EpsilonDeltaDpEvent(0.5, 1e-6), ac.EpsilonDeltaEvent(epsilon=0.5, delta=1e-6), True),
        (new.EpsilonDeltaDpEvent(0.5, 1.0), NonPrivateEvent(), False),
        (new.EpsilonDeltaDpEvent(math.inf, 0.0), NonPrivateEvent(), False),
        (new.DiscreteGaussianDpEvent(2.0, 3.0, 1), ac.DiscreteGaussianEvent(scale=2.0, l2_sensitivity=3.0), True),
        (new.DiscreteGaussianDpEvent(2.0, 3.9, 1), ac.DiscreteGaussianEvent(scale=2.0, l2_sensitivity=3.0), False),
        (new.DiscreteGaussianDpEvent(2.0, 0.9, 1), ac.ComposedEvent(events=()), False),
        (
            new.DiscreteGaussianDpEvent(2.0, 3.5, 7),
            ac.DiscreteGaussianEvent(scale=2.0, l2_sensitivity=3.5, dimension=7),
            True,
        ),
        (
            new.DiscreteGaussianDpEvent(2.0, 1.0, None),
            ac.DiscreteGaussianEvent(scale=2.0, l2_sensitivity=1.0, dimension=2),
            False,
        ),
        (new.DiscreteGaussianDpEvent(0.0, 1.0, None), NonPrivateEvent(), False),
        (new.ExponentialMechanismDpEvent(0.5), ac.ExponentialMechanismEvent(epsilon=0.5), True),
        (new.PermuteAndFlipDpEvent(0.5), ac.EpsilonDeltaEvent(epsilon=0.5), False),
        (new.PermuteAndFlipDpEvent(math.inf), NonPrivateEvent(), False),
    ],
)
def test_newer_events(theirs, ours, is_both_ways, monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", types.SimpleNamespace(dp_event=new))

    assert ours == from_dp_accounting(theirs)
    if is_both_ways:
        assert theirs == to_dp_accounting(ours)


def test_the_bound_in_any_dimension_holds_in_one():
    [one, unknown] = (from_dp_accounting(new.DiscreteGaussianDpEvent(1.3, 2.0, d)) for d in (1, None))
    accountants = [ac.RdpAccountant(), ac.RdpAccountant()]
    for accountant, event in zip(accountants, (one, unknown), strict=True):
        accountant.compose(event, 5)

    at = [1.5, 2.0, 7.3, 100.0]
    assert (accountants[0].rdp(at) <= accountants[1].rdp(at) * (1 + 1e-12)).all()


def test_every_class_has_a_counterpart_or_is_refused():
    seen = {type(theirs).__name__ for theirs, _ in PAIRS} | {"NoOpDpEvent"}

    assert FIELDS.keys() - seen == {"SampledWithReplacementDpEvent", "UnsupportedDpEvent"}


@pytest.mark.parametrize(
    ("theirs", "text"),
    [
        (dp.SampledWithReplacementDpEvent(10, 5, dp.GaussianDpEvent(1.0)), "'SampledWithReplacementDpEvent' has no"),
        (dp.UnsupportedDpEvent(), "'UnsupportedDpEvent' has no counterpart; known are ComposedDpEvent, Discr"),
        (dp.ZCDpEvent(0.5, 0.1), "ZCDpEvent has no counterpart for xi = 0.1"),
        (dp.ComposedDpEvent([dp.GaussianDpEvent(1.0), dp.UnsupportedDpEvent()]), "'UnsupportedDpEvent' has no"),
        (3.5, "'float' has no counterpart"),
        (None, "'NoneType' has no counterpart"),
    ],
)
def test_what_has_none_is_refused_by_name(theirs, text):
    with pytest.raises(UnsupportedEventError, match=text):
        from_dp_accounting(theirs)


@pytest.mark.parametrize(
    "theirs",
    [
        dp.GaussianDpEvent(0.0),
        dp.LaplaceDpEvent(0),
        dp.SingleEpochTreeAggregationDpEvent(0.0, 8),
        dp.MixtureOfGaussiansDpEvent(0.0, [0.0, 1.0], [0.5, 0.5]),
    ],
)
def test_no_noise_is_no_protection(theirs):
    assert from_dp_accounting(theirs) == NonPrivateEvent()


@pytest.mark.parametrize("theirs", [([0], [1.0]), ([0.0, 3.0], [1.0, 0.0])])
def test_a_mixture_that_moves_nothing_tells_nothing_even_without_noise(theirs):
    """The result is one number, whichever of the neighbors it is about."""
    event = from_dp_accounting(dp.MixtureOfGaussiansDpEvent(0, *theirs))

    assert event == ac.ComposedEvent(events=())


def test_other_ways_to_say_nothing():
    for theirs in (dp.NoOpDpEvent(), dp.SingleEpochTreeAggregationDpEvent(1.0, []), dp.RandomizedResponseDpEvent(0, 1)):
        assert from_dp_accounting(theirs) == ac.ComposedEvent(events=())


def test_a_record_is_in_one_of_several_trees():
    theirs = dp.SingleEpochTreeAggregationDpEvent(1.1, [5, 1000, 7])

    assert from_dp_accounting(theirs) == ac.TreeAggregationEvent(noise_multiplier=1.1, num_steps=1000)


def test_scales_are_rounded_down_and_back_up(library):
    [scale] = [from_dp_accounting(dp.DiscreteLaplaceDpEvent(0.1, 1)).scale]

    assert Fraction(scale) <= 1 / Fraction(0.1) < Fraction(math.nextafter(scale, math.inf))
    back = to_dp_accounting(ac.DiscreteLaplaceEvent(scale=0.3)).noise_parameter
    assert Fraction(math.nextafter(back, 0.0)) < 1 / Fraction(0.3) <= Fraction(back)


def test_their_named_tuples_are_read_too():
    wrapper = collections.namedtuple("_GaussianDpEventNamedTupleWrapper", "module_name class_name noise_multiplier")

    assert from_dp_accounting(wrapper("dp_accounting.dp_event", "GaussianDpEvent", 1.1)) == GAUSSIAN


@pytest.mark.parametrize(
    ("theirs", "error", "text"),
    [
        (dp.GaussianDpEvent(-1.0), InvalidParameter, "noise_multiplier must be finite and >= 0, got -1.0"),
        (dp.GaussianDpEvent(math.nan), InvalidParameter, "noise_multiplier must be finite"),
        (dp.GaussianDpEvent("1"), InvalidType, "noise_multiplier must be a real number"),
        (dp.PoissonSampledDpEvent(1.5, dp.GaussianDpEvent(1.0)), InvalidParameter, "sampling_probability must be"),
        (dp.SelfComposedDpEvent(dp.GaussianDpEvent(1.0), 1.5), InvalidType, "count must be an int"),
        (dp.ComposedDpEvent(dp.GaussianDpEvent(1.0)._asdict()), InvalidType, "events must be a list, got dict"),
        (dp.DiscreteLaplaceDpEvent(0.0, 1), InvalidParameter, "noise_parameter must be finite and > 0, got 0"),
        (dp.SingleEpochTreeAggregationDpEvent(1.0, [-1]), InvalidParameter, "step_counts must be an int >= 0"),
    ],
)
def test_parameters_are_checked(theirs, error, text):
    with pytest.raises(error, match=text):
        from_dp_accounting(theirs)


def test_a_missing_field_is_told():
    with pytest.raises(InvalidParameter, match="a GaussianDpEvent must have the field noise_multiplier"):
        from_dp_accounting(type("GaussianDpEvent", (), {})())


def test_events_without_end_are_refused():
    theirs = dp.GaussianDpEvent(1.0)
    for _ in range(1000):
        theirs = dp.SelfComposedDpEvent(theirs, 1)

    with pytest.raises(InvalidParameter, match="events must be nested at most 100 deep"):
        from_dp_accounting(theirs)


@pytest.mark.parametrize(
    "ours",
    [
        ac.DiscreteGaussianEvent(scale=1.0),
        ac.ExponentialMechanismEvent(epsilon=1.0),
        ac.EpsilonDeltaEvent(epsilon=1.0),
        ac.RandomAllocationEvent(num_steps=10, num_selected=1, event=GAUSSIAN),
        ac.TruncatedPoissonSampledEvent(
            population_size=9,
            sampling_probability=0.5,
            truncated_batch_size=3,
            event=LaplaceEvent(noise_multiplier=1.0),
        ),
    ],
    ids=lambda event: event.kind,
)
def test_what_they_do_not_have_is_refused(ours, library):
    with pytest.raises(UnsupportedEventError, match=f"dp_accounting has no counterpart of {type(ours).__name__}"):
        to_dp_accounting(ours)


def taken_apart(event):
    """Return the simple events as text, also of what is repeated, and apart from it the scales that may be rounded."""
    lines, scales = [], []
    for part, times in event_kinds.decompose(event):
        if isinstance(part, ac.RepeatAndSelectEvent):
            line, more = taken_apart(part.event)
            lines.append((line, part.mean, part.shape, times))
            scales.extend(more)
        else:
            line = re.sub(r"null_distance=[^,)]*", "", re.sub(SCALE, "", repr(part)))  # they have no such field
            lines.append((line, times))
            scales.extend(map(float, re.findall(SCALE, repr(part))))
    return lines, scales


@given(events)
def test_what_comes_back_is_the_same_or_has_less_noise(event):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "dp_accounting", types.SimpleNamespace(dp_event=dp))
        try:
            parts, scales = taken_apart(event)
            again = from_dp_accounting(to_dp_accounting(event))
        except UnsupportedEventError:
            return
    parts_again, scales_again = taken_apart(again)

    assert parts == parts_again
    for scale, back in zip(scales, scales_again, strict=True):
        assert scale * (1 - 1e-15) <= back <= scale or scale < 1e-300


def test_writing_needs_their_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)

    with pytest.raises(MissingPackage, match="to_dp_accounting needs dp_accounting, which is not installed"):
        to_dp_accounting(GAUSSIAN)
    with pytest.raises(InvalidType, match="event must be a privacy event, got float"):
        to_dp_accounting(1.0)


def test_a_history_is_one_event_an_entry():
    event = from_opacus_history([(1.1, 0.01, 500), (1.1, 0.02, 3), [0.0, 0.02, 1]])

    sampled = PoissonSampledEvent(sampling_probability=0.01, event=GAUSSIAN)
    assert event.events[0] == SelfComposedEvent(event=sampled, count=500)
    assert [
        (part.event.event.noise_multiplier, part.event.sampling_probability, part.count) for part in event.events[1:2]
    ] == [(1.1, 0.02, 3)]
    assert event.events[2].event.event == NonPrivateEvent()
    assert from_opacus_history([]) == ac.ComposedEvent(events=())


@pytest.mark.parametrize(
    ("history", "error", "text"),
    [
        (None, InvalidType, "history must be a list of triples, got NoneType"),
        ("history", InvalidType, "history must be a list of triples, got str"),
        ([1.1], InvalidParameter, "history must hold triples"),
        ([(1.1, 0.01)], InvalidParameter, "history must hold triples"),
        ([(1.1, 1.01, 1)], InvalidParameter, "sampling_probability must be"),
        ([(-1.1, 0.01, 1)], InvalidParameter, "noise_multiplier must be"),
        ([(1.1, 0.01, 1.5)], InvalidType, "count must be an int"),
        ([(1.1, 0.01, -1)], InvalidParameter, "count must be an int >= 0"),
    ],
)
def test_histories_are_checked(history, error, text):
    with pytest.raises(error, match=text):
        from_opacus_history(history)


def dp_params(**changes):
    """Return what a ``DpParams`` of jax_privacy 2.0 has, with its defaults where they are not changed."""
    fields = {
        "noise_multipliers": 1.1,
        "num_samples": 1000,
        "delta": 1e-5,
        "batch_size": 10,
        "batch_sizes": 10,
        "is_finite_guarantee": True,
        "examples_per_user": None,
        "cycle_length": None,
        "sampling_method": types.SimpleNamespace(name="POISSON"),
        "truncated_batch_size": None,
    }
    return types.SimpleNamespace(**fields | changes)


FIXED = types.SimpleNamespace(name="FIXED_BATCH_SIZE")
ONE_PERCENT = PoissonSampledEvent(sampling_probability=0.01, event=GAUSSIAN)


@pytest.mark.parametrize(
    ("changes", "steps", "parts"),
    [
        ({}, 7, [(ONE_PERCENT, 7)]),
        ({"examples_per_user": 1, "cycle_length": 1}, 7, [(ONE_PERCENT, 7)]),
        (
            {"num_samples": 4009, "cycle_length": 4},
            9,
            [
                (
                    PoissonSampledEvent(
                        sampling_probability=math.nextafter(10 / 1002, 1.0)
                        if Fraction(10 / 1002) < Fraction(10, 1002)
                        else 10 / 1002,
                        event=GAUSSIAN,
                    ),
                    3,
                )
            ],
        ),
        (
            {"sampling_method": FIXED},
            7,
            [
                (
                    ac.FixedSizeSampledEvent(
                        population_size=1000, sample_size=10, event=GaussianEvent(noise_multiplier=0.55)
                    ),
                    7,
                )
            ],
        ),
        (
            {"truncated_batch_size": 20},
            7,
            [
                (
                    ac.TruncatedPoissonSampledEvent(
                        population_size=1000, sampling_probability=0.01, truncated_batch_size=20, event=GAUSSIAN
                    ),
                    7,
                )
            ],
        ),
        ({"is_finite_guarantee": False}, 0, []),
        ({"noise_multipliers": 0.0}, 1, [(PoissonSampledEvent(sampling_probability=0.01, event=NonPrivateEvent()), 1)]),
    ],
)
def test_the_parameters_of_a_jax_training_are_one_event_a_stretch(changes, steps, parts):
    event = from_jax_privacy(dp_params(**changes), steps)

    assert [(part.event, part.count) for part in event.events] == parts


def test_schedules_of_noise_and_batches_of_a_jax_training_are_interleaved():
    params = dp_params(noise_multipliers=[(4, 3.0), (0, 2.0), (99, 9.0)], batch_sizes=[(0, 10), (6, 40.0)])

    parts = from_jax_privacy(params, 10).events

    assert [(part.event.event.noise_multiplier, part.event.sampling_probability, part.count) for part in parts] == [
        (2.0, 0.01, 4),
        (3.0, 0.01, 2),
        (3.0, 0.04, 4),
    ]


def test_the_examples_of_a_user_of_a_jax_training_are_a_group():
    [part] = from_jax_privacy(dp_params(examples_per_user=3), 5).events

    assert part == SelfComposedEvent(event=grouped(ONE_PERCENT, 3), count=5)


def test_a_jax_training_without_clipping_is_not_private():
    assert from_jax_privacy(dp_params(is_finite_guarantee=False), 1).events == (NonPrivateEvent(),)


@pytest.mark.parametrize(
    ("params", "steps", "error", "text"),
    [
        (dp_params(), -1, InvalidParameter, "num_updates must be an int >= 0"),
        (dp_params(), 1.5, InvalidType, "num_updates must be an int"),
        (types.SimpleNamespace(), 1, InvalidParameter, "dp_params must have the field is_finite_guarantee"),
        (dp_params(noise_multipliers=None), 1, InvalidType, "noise_multiplier must be a real number"),
        (dp_params(noise_multipliers=[1.0]), 1, InvalidParameter, "noise_multipliers must be a number, or a list of"),
        (dp_params(batch_sizes=[(5, 10)]), 10, InvalidParameter, "batch_sizes must say what holds from step 0"),
        (
            dp_params(batch_sizes=1001),
            1,
            InvalidParameter,
            "batch_size must be at most num_samples // cycle_length = 1",
        ),
        (dp_params(batch_sizes=0.5), 1, InvalidType, "batch_size must be an int"),
        (dp_params(sampling_method=None), 1, UnsupportedEventError, "sampling_method None has no counterpart"),
        (dp_params(sampling_method=FIXED, truncated_batch_size=5), 1, UnsupportedEventError, "no counterpart"),
        (dp_params(sampling_method=FIXED, examples_per_user=2), 1, UnsupportedEventError, "examples_per_user > 1 has"),
        (dp_params(cycle_length=2, examples_per_user=2), 1, UnsupportedEventError, "examples_per_user > 1 has"),
        (dp_params(truncated_batch_size=20, examples_per_user=2), 1, UnsupportedEventError, "examples_per_user > 1"),
    ],
)
def test_the_parameters_of_a_jax_training_are_checked(params, steps, error, text):
    with pytest.raises(error, match=text):
        from_jax_privacy(params, steps)
