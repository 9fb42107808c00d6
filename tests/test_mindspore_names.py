"""What stands behind the MindSpore names and needs no MindSpore: mechanisms, factories, monitors, refusals."""

import dataclasses
import importlib.util
import inspect
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.accounting import GaussianEvent, PoissonSampledEvent, RdpAccountant, ZcdpAccountant
from ferrodp.correlated import BandedToeplitz
from ferrodp.events import AdaptiveClipEvent, ComposedEvent, SelfComposedEvent
from ferrodp.integrations.mindspore import (
    AdaClippingWithGaussianRandom,
    ClipMechanismsFactory,
    DPModel,
    DPOptimizerClassFactory,
    IndexedDataset,
    NoiseAdaGaussianRandom,
    NoiseCorrelatedGaussianRandom,
    NoiseGaussianRandom,
    NoiseLaplaceRandom,
    NoiseMechanismsFactory,
    PrivacyMonitorFactory,
    RDPMonitor,
    UnknownName,
    ZCDPMonitor,
    _plans,
)
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, GivenOrder, L1Clipping, PoissonSampling

AO, SPECIAL = fd.events.NeighboringRelation.ADD_OR_REMOVE_ONE, fd.events.NeighboringRelation.REPLACE_SPECIAL
GAUSSIAN, DECAYING = NoiseGaussianRandom(), NoiseAdaGaussianRandom()
PUBLIC_OPTIMIZER = SimpleNamespace(parameters=[], loss_scale=1.0)


def private_optimizer(mechanism=GAUSSIAN, micro_batches=2):
    return SimpleNamespace(parameters=[], loss_scale=1.0, noise_mech=mechanism, micro_batches=micro_batches)


# names and defaults


def test_the_framework_is_not_imported_by_its_names():
    assert "mindspore" not in sys.modules


@pytest.mark.parametrize(
    "make",
    [
        NoiseGaussianRandom,
        NoiseAdaGaussianRandom,
        lambda: NoiseCorrelatedGaussianRandom(BandedToeplitz(num_steps=8, bands=2)),
        AdaClippingWithGaussianRandom,
        DPOptimizerClassFactory,
        lambda: NoiseMechanismsFactory().create("Gaussian"),
        lambda: NoiseMechanismsFactory().create("AdaGaussian"),
        lambda: ClipMechanismsFactory().create("Gaussian"),
        lambda: PrivacyMonitorFactory().create("rdp", 1000, 100),
        lambda: PrivacyMonitorFactory.create("zcdp", num_samples=1000, batch_size=100),
        lambda: RDPMonitor(1000, 100),
        lambda: ZCDPMonitor(1000, 100),
    ],
)
def test_everything_is_made_with_its_defaults(make):
    assert make() is not None


def defaults(item):
    given = inspect.signature(item).parameters.values()
    return {each.name: each.default for each in given if each.default is not each.empty}


def test_the_defaults_are_those_of_the_earlier_toolkit():
    assert defaults(NoiseMechanismsFactory.create) == {
        "norm_bound": 1.0,
        "initial_noise_multiplier": 1.0,
        "seed": 0,
        "noise_decay_rate": 6e-6,
        "decay_policy": None,
    }
    assert defaults(ClipMechanismsFactory.create) == {
        "decay_policy": "Linear",
        "learning_rate": 0.001,
        "target_unclipped_quantile": 0.9,
        "fraction_stddev": 0.01,
        "seed": 0,
    }
    assert defaults(DPOptimizerClassFactory) == {"micro_batches": 2}
    found = defaults(RDPMonitor)
    assert list(found)[:10] == [
        "initial_noise_multiplier", "max_eps", "target_delta", "max_delta", "target_eps", "orders", "noise_decay_mode",
        "noise_decay_rate", "per_print_times", "dataset_sink_mode",
    ]  # fmt: skip
    assert list(found.values())[:10] == [1.5, 10.0, 1e-3, None, None, None, "Time", 6e-4, 50, False]
    assert defaults(DPModel)["micro_batches"] == 2
    assert defaults(DPModel)["norm_bound"] == 1.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: NoiseMechanismsFactory().create("laplace"),
        lambda: NoiseMechanismsFactory().create("gaussian"),
        lambda: NoiseMechanismsFactory().create("AdaGaussian", decay_policy="Cosine"),
        lambda: NoiseAdaGaussianRandom(decay_policy="time"),
        lambda: ClipMechanismsFactory().create("AdaGaussian"),
        lambda: ClipMechanismsFactory().create("Gaussian", decay_policy="Exp"),
        lambda: PrivacyMonitorFactory.create("pld", 1000, 100),
        lambda: PrivacyMonitorFactory.create("rdp", 1000, 100, noise_decay_mode="Linear"),
        lambda: PrivacyMonitorFactory.create("rdp", 1000, 100, sampling="shuffled"),
        lambda: DPOptimizerClassFactory().set_mechanisms("Exponential"),
        lambda: DPOptimizerClassFactory().create("AdaGrad"),
        lambda: DPOptimizerClassFactory().create(None),
    ],
)
def test_an_unknown_name_is_a_value_error_and_a_name_error(make):
    with pytest.raises(ValueError, match="must be one of '") as raised:
        make()

    assert isinstance(raised.value, NameError)
    assert isinstance(raised.value, UnknownName)
    assert isinstance(raised.value, fd.errors.FerroError)


@pytest.mark.parametrize("make", [NoiseGaussianRandom, NoiseAdaGaussianRandom, AdaClippingWithGaussianRandom])
def test_a_seed_is_refused_unless_testing_made_it(make):
    for seed in (1, -1, 2**40):
        with pytest.raises(fd.errors.InvalidParameter, match=r"seed must be 0.*ferrodp\.testing\.seeded"):
            make(seed=seed)
    for seed in (True, 1.0, "0", None):
        with pytest.raises(fd.errors.InvalidType, match="seed must be 0"):
            make(seed=seed)

    seeded = fd.testing.seeded(bytes(32))
    assert make(seed=seeded).seed is seeded


@pytest.mark.parametrize(
    "make",
    [
        lambda: NoiseGaussianRandom(norm_bound=0.0),
        lambda: NoiseGaussianRandom(initial_noise_multiplier=-1.0),
        lambda: NoiseGaussianRandom(decay_policy="Exp"),
        lambda: NoiseMechanismsFactory().create("Gaussian", decay_policy="Time"),
        lambda: NoiseAdaGaussianRandom(noise_decay_rate=1.0),
        lambda: NoiseAdaGaussianRandom(noise_decay_rate=-0.1),
        lambda: AdaClippingWithGaussianRandom(target_unclipped_quantile=1.0),
        lambda: AdaClippingWithGaussianRandom(fraction_stddev=0.0),
        lambda: AdaClippingWithGaussianRandom(learning_rate=math.inf),
        lambda: RDPMonitor(100, 101),
        lambda: RDPMonitor(1000, 100, orders=[1.0, 2.0]),
        lambda: RDPMonitor(1000, 100, target_delta=None),
        lambda: RDPMonitor(1000, 100, target_eps=1.0),
        lambda: RDPMonitor(1000, 100, target_delta=1.0),
        lambda: RDPMonitor(1000, 100, max_eps=0.0),
        lambda: ZCDPMonitor(1000, 100, per_print_times=0),
        lambda: IndexedDataset(np.zeros(3), np.zeros(4), batch_size=1),
        lambda: IndexedDataset(np.zeros(3), batch_size=4),
        lambda: IndexedDataset(np.zeros(0), batch_size=1),
        lambda: IndexedDataset(np.zeros(3), batch_size=1, sampling=GivenOrder(1)),
    ],
)
def test_parameters_out_of_their_domain_are_refused(make):
    with pytest.raises(fd.errors.InvalidParameter):
        make()


def test_a_list_of_records_whose_dtype_one_of_them_decides_is_refused():
    with pytest.raises(fd.errors.InvalidType, match="columns must be arrays"):
        IndexedDataset(np.zeros(3), [1, 2, 0.5], batch_size=1)


# noise and its decay


@pytest.mark.parametrize("mechanism", [NoiseGaussianRandom(2.0, 1.5), NoiseAdaGaussianRandom(2.0, 1.5)])
def test_a_mechanism_called_returns_noise_of_its_standard_deviation(mechanism):
    noise = mechanism(np.zeros((100, 100), dtype=np.float32))

    assert noise.shape == (100, 100)
    assert noise.dtype == np.float32
    # The sample deviation of 10^4 Gaussians is off by 5 of its own deviations, 1/sqrt(2 * 10^4), once in 1.7 million.
    assert float(noise.std()) == pytest.approx(3.0, rel=5 / math.sqrt(2e4))


def test_noise_follows_a_seed_of_testing():
    one, other = (NoiseGaussianRandom(seed=fd.testing.seeded(bytes(32)))(np.zeros(5)) for _ in range(2))

    assert (one == other).all()


RULES = {
    "Time": lambda z, r, t: z / (1 + r * t),
    "Step": lambda z, r, t: z * (1 - r) ** t,
    "Exp": lambda z, r, t: z * math.exp(-r * t),
}


@pytest.mark.parametrize("policy", RULES)
@pytest.mark.parametrize("done", [0, 1, 17])
def test_the_decay_rules_are_those_of_the_plan_and_go_on_where_an_earlier_training_ended(policy, done):
    mechanism = NoiseMechanismsFactory().create(
        "AdaGaussian", initial_noise_multiplier=2.0, noise_decay_rate=0.01, decay_policy=policy
    )

    schedule = mechanism.schedule(done)

    for t in range(50):  # each side takes a handful of operations, each within 2^-53, and a power of at most 67
        assert schedule.at(t, 50) == pytest.approx(RULES[policy](2.0, 0.01, done + t), rel=200 * 2**-53)


@pytest.mark.parametrize("policy", RULES)
def test_noise_that_decays_for_long_stays_what_can_be_drawn_and_accounted_for(policy):
    mechanism = NoiseAdaGaussianRandom(noise_decay_rate=0.8, decay_policy=policy)

    assert mechanism.schedule().at(10**6, 10**6 + 1) == 2.0**-14
    assert mechanism.schedule(10**6).at(0, 10) == 2.0**-14
    plan = _plans.plan_of(
        batches(PoissonSampling(0.1)),
        20,
        schedule=mechanism.schedule(),
        norm_bound=1.0,
        clip_mech=None,
        micro_batches=2,
    )
    assert math.isfinite(plan.epsilon(1e-5, accountant="rdp"))


def test_adaptive_gaussian_noise_works_with_its_own_defaults():
    mechanism = NoiseMechanismsFactory().create("AdaGaussian")

    assert mechanism.decay_policy == "Exp"
    assert mechanism.schedule().at(0, 10) == 1.0
    assert mechanism.schedule().at(9, 10) < 1.0
    assert NoiseGaussianRandom().schedule() == ConstantNoise(1.0)


# adaptive clipping


@pytest.mark.parametrize("policy", ["Linear", "Geometric"])
def test_the_clip_norm_moves_toward_the_quantile(policy):
    mechanism = ClipMechanismsFactory().create(
        "Gaussian", decay_policy=policy, learning_rate=0.1, target_unclipped_quantile=0.5, fraction_stddev=1e-6
    )

    assert mechanism(0.9, 1.0) < 1.0  # nearly all within it
    assert mechanism(0.1, 1.0) > 1.0
    # The fraction's noise moves the norm by 1e-7 a standard deviation; 10 of them happen once in 10^23.
    move = {"Linear": 1 - 0.1 * 0.4, "Geometric": math.exp(-0.1 * 0.4)}[policy]
    assert mechanism(0.9, 1.0) == pytest.approx(move, abs=1e-6)


def test_a_linear_rule_never_makes_a_norm_negative():
    mechanism = AdaClippingWithGaussianRandom("Linear", learning_rate=100.0, target_unclipped_quantile=0.1)

    assert mechanism(1.0, 1.0) > 0.0


def batches(sampling, **changes):
    known = {"sampling": sampling, "population_size": 1000, "batch_size": 100, "steps_per_epoch": 10}
    return _plans.Batches(**known | changes)


def plan_of(given, epochs=1, *, multiplier=1.0, clip_mech=None, micro_batches=None):
    return _plans.plan_of(
        given,
        epochs,
        schedule=ConstantNoise(multiplier),
        norm_bound=1.0,
        clip_mech=clip_mech,
        micro_batches=micro_batches,
    )


@pytest.mark.parametrize(
    ("given", "micro_batches", "deviation", "sensitivity"),
    [
        # deviation: of the count, 0.05 times the number of vectors; sensitivity: of a count of ±1/2
        (batches(PoissonSampling(0.1)), None, 5.0, 0.5),
        (batches(GivenOrder(100)), None, 5.0, 1.0),  # a null record counts as within the norm
        (batches(PoissonSampling(0.1)), 20, 1.0, 0.5),
        (batches(GivenOrder(100)), 20, 1.0, 0.5),
    ],
)
def test_the_query_of_the_quantile_is_charged_on_top_of_the_sum(given, micro_batches, deviation, sensitivity):
    clip_mech = AdaClippingWithGaussianRandom(fraction_stddev=0.05)

    plain = plan_of(given, micro_batches=micro_batches)
    adaptive = plan_of(given, clip_mech=clip_mech, micro_batches=micro_batches)

    count = deviation / sensitivity
    assert adaptive.clipping.count_noise_multiplier == pytest.approx(count, rel=1e-15)
    parts = adaptive.clipping.split(adaptive.noise_multipliers[0])
    assert parts.sum_noise_multiplier == pytest.approx(1.0, rel=1e-12)  # what the mechanism states
    assert adaptive.epsilon(1e-5) > plain.epsilon(1e-5)
    distance = 1 if micro_batches is None else 2
    event = AdaptiveClipEvent(sum_noise_multiplier=1.0 / distance, count_noise_multiplier=count / distance)
    expected = RdpAccountant(neighboring_relation=SPECIAL)
    if isinstance(given.sampling, GivenOrder):
        expected.compose(event, 10)
        assert adaptive.epsilon(1e-5, accountant="rdp") == pytest.approx(expected.epsilon(1e-5), rel=1e-9)


def test_with_the_default_two_groups_the_default_fraction_costs_nearly_everything_and_says_so():
    given = batches(PoissonSampling(0.1))

    # A count of two groups noised with 0.02 is hardly hidden.
    assert (
        plan_of(given, clip_mech=ClipMechanismsFactory().create("Gaussian"), micro_batches=2).epsilon(
            1e-5, accountant="rdp"
        )
        > 100
    )


# plans


def test_groups_are_charged_as_half_the_noise():
    given = batches(GivenOrder(100))

    assert plan_of(given, micro_batches=2).event == SelfComposedEvent(
        event=GaussianEvent(noise_multiplier=0.5), count=10
    )
    assert plan_of(given, micro_batches=100).event == plan_of(given, micro_batches=None).event
    assert plan_of(given).event == SelfComposedEvent(event=GaussianEvent(noise_multiplier=1.0), count=10)
    with pytest.raises(fd.errors.InvalidParameter, match="micro_batches must divide the batch size 100, got 3"):
        plan_of(given, micro_batches=3)
    with pytest.raises(fd.errors.InvalidParameter, match="micro_batches must divide"):
        plan_of(given, micro_batches=200)


def test_batches_in_a_given_order_amplify_nothing():
    loader = batches(GivenOrder(100), once_an_epoch=True)

    in_order, anywhere = plan_of(loader, 3), plan_of(dataclasses.replace(loader, once_an_epoch=False), 3)
    sampled = plan_of(batches(PoissonSampling(0.1)), 3)

    assert in_order.event == SelfComposedEvent(event=GaussianEvent(noise_multiplier=1.0), count=3)
    assert anywhere.event == SelfComposedEvent(event=GaussianEvent(noise_multiplier=1.0), count=30)
    assert (in_order.neighboring_relation, sampled.neighboring_relation) == (SPECIAL, AO)
    assert sampled.epsilon(1e-5) < in_order.epsilon(1e-5) < anywhere.epsilon(1e-5)


def test_a_full_batch_is_possible():
    monitor = RDPMonitor(100, 100, initial_noise_multiplier=20.0, noise_decay_mode=None, micro_batches=None)
    dataset = IndexedDataset(np.zeros(100), batch_size=100)

    assert monitor.max_epoch_suggest() > 0
    assert dataset.sampling == FullBatch()
    assert dataset.get_dataset_size() == 1
    assert RDPMonitor(100, 100, sampling="poisson").plan(2).sampling == FullBatch()


def test_an_indexed_dataset_gives_rows_by_their_index():
    dataset = IndexedDataset(np.arange(10), np.arange(10) * 2, batch_size=4)

    first, second = dataset.rows(np.array([7, 1]))

    assert (first.tolist(), second.tolist()) == ([7, 1], [14, 2])
    assert (len(dataset), dataset.population_size, dataset.get_dataset_size()) == (10, 10, 2)


# monitors


@pytest.mark.parametrize("kind", ["rdp", "zcdp"])
@pytest.mark.parametrize("mode", [None, "Time", "Step", "Exp"])
@pytest.mark.parametrize("sampling", ["given_order", "poisson"])
def test_the_last_safe_epoch_is_suggested_and_suggesting_spends_nothing(kind, mode, sampling):
    monitor = PrivacyMonitorFactory.create(
        kind, 1000, 250, initial_noise_multiplier=8.0, noise_decay_mode=mode, noise_decay_rate=0.01, sampling=sampling
    )

    epochs = monitor.max_epoch_suggest()

    assert epochs >= 1
    costs = [monitor.cost(plan.event, plan.neighboring_relation)[0] for plan in map(monitor.plan, (epochs, epochs + 1))]
    assert costs[0] <= 10.0 < costs[1]
    assert monitor.max_epoch_suggest() == epochs


def test_no_epoch_is_suggested_where_the_first_one_is_too_much():
    assert RDPMonitor(1000, 100, initial_noise_multiplier=0.1).max_epoch_suggest() == 0


def test_the_suggestion_has_the_limit_of_the_earlier_toolkit():
    monitor = ZCDPMonitor(10, 5, initial_noise_multiplier=4000.0, noise_decay_mode=None)

    assert monitor.max_epoch_suggest() == 10_000


@pytest.mark.parametrize("batch_size", [1, 5])
def test_a_suggestion_for_odd_batches_doubles_the_cost_where_a_group_has_several_records(batch_size):
    monitor = RDPMonitor(1000, batch_size, initial_noise_multiplier=2.0, noise_decay_mode=None)

    distance = 1 if batch_size == 1 else 2
    assert monitor.plan(1).event == GaussianEvent(noise_multiplier=2.0 / distance)


def test_delta_is_kept_to_where_epsilon_is_the_target():
    monitor = RDPMonitor(
        1000,
        100,
        initial_noise_multiplier=8.0,
        target_delta=None,
        target_eps=20.0,
        max_delta=1e-5,
        noise_decay_mode=None,
    )

    epochs = monitor.max_epoch_suggest()

    deltas = [
        monitor.cost(plan.event, plan.neighboring_relation)[1] for plan in map(monitor.plan, (epochs, epochs + 1))
    ]
    assert deltas[0] <= 1e-5 < deltas[1]


@pytest.mark.parametrize(
    "options",
    [{"max_eps": None}, {"target_delta": None, "target_eps": 1.0}],
)
def test_a_suggestion_needs_a_limit(options):
    with pytest.raises(fd.errors.InvalidParameter, match=r"max_(eps|delta) must be given"):
        RDPMonitor(1000, 100, **options).max_epoch_suggest()


def test_integer_orders_may_be_floats_in_any_sequence():
    event = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.0))
    expected = RdpAccountant([1.5, 2.0, 32.0])
    expected.compose(event, 100)

    for orders in ([2.0, 32.0, 1.5], [1.5, 2, 32], (32, 2.0, 1.5, 2)):
        monitor = RDPMonitor(1000, 100, orders=orders)
        assert monitor.cost(SelfComposedEvent(event=event, count=100), AO) == (expected.epsilon(1e-3), 1e-3)


def test_zcdp_charges_samples_as_if_nothing_were_sampled():
    step = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=2.0))
    event = ComposedEvent(events=(step, SelfComposedEvent(event=step, count=4)))
    expected = ZcdpAccountant()
    expected.compose(GaussianEvent(noise_multiplier=2.0), 5)

    assert ZCDPMonitor(1000, 100).cost(event, AO)[0] == pytest.approx(expected.epsilon(1e-3), rel=1e-12)
    assert RDPMonitor(1000, 100).cost(event, AO)[0] < expected.epsilon(1e-3)


@pytest.mark.parametrize("call", ["on_train_begin", "on_train_end"])
def test_a_monitor_reports_on_private_trainings_alone(call):
    context = SimpleNamespace(original_args=lambda: {"cur_step_num": 7, "cur_epoch_num": 1, "batch_num": 9})

    with pytest.raises(fd.errors.InvalidParameter, match=r"reports on DPModel\.train alone"):
        getattr(RDPMonitor(1000, 100), call)(context)


def train(monitors, plan, *, mechanism=GAUSSIAN, earlier=(), per_epoch=10):
    """Run a plan as `DPModel.train` does, without a network, and return what was charged."""
    run = plan.start({"w": (3,)})
    given = batches(plan.sampling, steps_per_epoch=per_epoch)
    training = _plans.Training(
        batches=given, mechanism=mechanism, micro_batches=None, plan=plan, run=run, earlier=earlier
    )
    seen = {"private_training": training, "batch_num": per_epoch, "cur_step_num": 0, "cur_epoch_num": 0}
    context = SimpleNamespace(original_args=lambda: seen)
    for monitor in monitors:
        monitor.on_train_begin(context)
    for step in run:
        rows = 100 if step.indices is None else len(step.indices)
        step.add({"w": np.ones((rows, 3))})
        step.release()
        seen |= {"cur_step_num": step.number + 1, "cur_epoch_num": step.number // per_epoch + 1}
        for monitor in monitors:
            monitor.on_train_step_end(context)
    for monitor in monitors:
        monitor.on_train_end(context)
    return training.event


@pytest.mark.parametrize("sampling", [PoissonSampling(0.1), GivenOrder(100, max_participations=3)])
def test_a_monitor_reports_what_was_charged_for_every_step_the_last_window_and_earlier_trainings(sampling, capsys):
    plan = plan_of(batches(sampling), 3)
    before = GaussianEvent(noise_multiplier=5.0)
    charged = []

    for kind, accountant in (("rdp", RdpAccountant), ("zcdp", ZcdpAccountant)):
        event = train(
            [PrivacyMonitorFactory.create(kind, 1000, 100, max_eps=None, per_print_times=7)], plan, earlier=(before,)
        )
        expected = accountant(neighboring_relation=plan.neighboring_relation)
        expected.compose(_plans.unsampled(event) if kind == "zcdp" else event)
        whole = accountant(neighboring_relation=plan.neighboring_relation)
        whole.compose(_plans.unsampled(plan.event) if kind == "zcdp" else plan.event)
        whole.compose(before)
        assert expected.epsilon(1e-3) == pytest.approx(whole.epsilon(1e-3), rel=1e-9)  # other order of a sum
        charged.append(expected.epsilon(1e-3))

    lines = capsys.readouterr().out.splitlines()
    places = ["epoch: 1 step: 7,", "epoch: 2 step: 4,", "epoch: 3 step: 1,", "epoch: 3 step: 8,", "epoch: 3 step: 10,"]
    assert [line[: len(place)] for line, place in zip(lines, 2 * places, strict=True)] == 2 * places
    for last, epsilon in zip((lines[4], lines[9]), charged, strict=True):
        assert last == f"epoch: 3 step: 10, delta is 0.001, eps is {epsilon}"


@pytest.mark.parametrize(
    "stated",
    [
        {"initial_noise_multiplier": 1.5},
        {"noise_decay_mode": "Time"},
        {"noise_decay_mode": None},
        {"noise_decay_rate": 6e-4},
        {"batch_size": 50},
        {"num_samples": 999},
    ],
)
def test_what_a_monitor_states_must_be_so_in_the_training(stated):
    mechanism = NoiseAdaGaussianRandom(noise_decay_rate=0.01)
    plan = _plans.plan_of(
        batches(PoissonSampling(0.1)),
        1,
        schedule=mechanism.schedule(),
        norm_bound=1.0,
        clip_mech=None,
        micro_batches=None,
    )
    given = {"num_samples": 1000, "batch_size": 100}

    train([RDPMonitor(**given)], plan, mechanism=mechanism)  # its own defaults are another mechanism's
    name = next(iter(stated))
    with pytest.raises(fd.errors.InvalidParameter, match=f"{name} of the monitor is .* in the training"):
        train([RDPMonitor(**given | stated)], plan, mechanism=mechanism)


def test_a_monitor_says_where_its_limit_is_exceeded(capsys):
    train([RDPMonitor(1000, 100, max_eps=1.0, per_print_times=10)], plan_of(batches(GivenOrder(100)), 1))

    assert capsys.readouterr().out.rstrip().endswith("over max_eps 1.0")


# the refusals of the model, none of which needs the framework


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "optimizer must be given"),
        ({"noise_mech": GAUSSIAN}, "optimizer must be given"),
        ({"optimizer": PUBLIC_OPTIMIZER}, "noise_mech must be given.*nothing adds noise"),
        ({"optimizer": private_optimizer(), "noise_mech": GAUSSIAN}, "noise_mech must be None"),
        (
            {"optimizer": PUBLIC_OPTIMIZER, "noise_mech": DECAYING, "clip_mech": AdaClippingWithGaussianRandom()},
            "clip_mech",
        ),
        (
            {"optimizer": private_optimizer(DECAYING), "clip_mech": AdaClippingWithGaussianRandom()},
            "clip_mech must be None",
        ),
        ({"optimizer": PUBLIC_OPTIMIZER, "noise_mech": GAUSSIAN, "norm_bound": 0.5}, "norm_bound is 0.5, but 1.0"),
        ({"optimizer": private_optimizer(), "micro_batches": 4}, "micro_batches is 4, but 2"),
        ({"optimizer": PUBLIC_OPTIMIZER, "noise_mech": GAUSSIAN, "amp_level": "O2"}, "float32"),
        (
            {"optimizer": SimpleNamespace(loss_scale=1024.0), "noise_mech": GAUSSIAN},
            "loss_scale must be 1",
        ),
    ],
)
def test_a_model_refuses_what_has_no_guarantee(options, message):
    with pytest.raises(fd.errors.InvalidParameter, match=message):
        DPModel(**options)


def test_an_optimizer_class_needs_a_mechanism():
    with pytest.raises(fd.errors.InvalidParameter, match="set_mechanisms"):
        DPOptimizerClassFactory().create("SGD")


@pytest.mark.skipif(importlib.util.find_spec("mindspore") is not None, reason="the framework is installed")
def test_the_missing_framework_is_named():
    factory = DPOptimizerClassFactory()
    factory.set_mechanisms("Gaussian")

    with pytest.raises(fd.errors.MissingPackage, match=r"needs MindSpore: pip install"):
        factory.create("sgd")


def test_laplace_noise_has_a_plan_that_clips_in_l1_norm():
    mechanism = NoiseMechanismsFactory.create("Laplace", norm_bound=0.5, initial_noise_multiplier=4.0)

    assert isinstance(mechanism, NoiseLaplaceRandom)
    assert mechanism.clipping() == L1Clipping(0.5)
    assert mechanism.schedule(7) == ConstantNoise(4.0)
    assert NoiseMechanismsFactory.create("Gaussian", norm_bound=0.5).clipping() == FlatClipping(0.5)
    noise = mechanism(np.zeros(100_000))
    # The mean of |x| is the scale: six standard errors, once in 5e8.
    assert np.abs(noise).mean() == pytest.approx(2.0, rel=6 / math.sqrt(100_000))
    with pytest.raises(fd.errors.InvalidParameter, match="decay_policy must be None"):
        NoiseMechanismsFactory.create("Laplace", decay_policy="Exp")


def test_laplace_noise_and_a_norm_that_adapts_are_refused_together():
    with pytest.raises(fd.errors.InvalidParameter, match="clip_mech must be None with Laplace noise"):
        DPModel(
            noise_mech=NoiseMechanismsFactory.create("Laplace"),
            clip_mech=AdaClippingWithGaussianRandom(),
            optimizer=PUBLIC_OPTIMIZER,
        )
