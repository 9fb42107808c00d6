"""`DPModel.train` on CPU: what is charged, what is drawn, what is refused, and that networks learn."""

import math

import mindspore
import mindspore.dataset as ds
import numpy as np
import pytest
from mindspore import nn
from mindspore.train import Callback, CheckpointConfig, LossMonitor, Model, ModelCheckpoint, TimeMonitor
from mindspore_networks import Linear, Normalized, SmallLeNet, cross_entropy, digits

import ferrodp as fd
from ferrodp.accounting import RdpAccountant, ZcdpAccountant
from ferrodp.events import (
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from ferrodp.integrations.mindspore import (
    AdaClippingWithGaussianRandom,
    ClipMechanismsFactory,
    DPModel,
    DPOptimizerClassFactory,
    IndexedDataset,
    NoiseMechanismsFactory,
    PrivacyMonitorFactory,
)
from ferrodp.plan import FullBatch, GivenOrder, PoissonSampling

IMAGES, LABELS = digits()
TRAIN, TEST = slice(0, 1437), slice(1437, None)
OPTIONS = {
    "SGD": {"learning_rate": 0.5},
    "Momentum": {"learning_rate": 0.1, "momentum": 0.9},
    "Adam": {"learning_rate": 0.01},
}


def indexed(batch_size=128, rows=TRAIN):
    return IndexedDataset(IMAGES[rows], LABELS[rows], batch_size=batch_size)


def loader(batch_size=128, rows=TRAIN, shuffle=True):
    read = ds.NumpySlicesDataset((IMAGES[rows], LABELS[rows]), ["image", "label"], shuffle=shuffle)
    return read.batch(batch_size, drop_remainder=True)


def model(
    network=None, *, optimizer="SGD", mechanism="Gaussian", private=False, micro_batches=None, options=None, **given
):
    """Return a model: noise and optimizer by name, both as the earlier toolkit's users write them."""
    network = network or Linear()
    noise = {"norm_bound": 1.0, "initial_noise_multiplier": 1.0} | given.pop("noise", {})
    if private:
        factory = DPOptimizerClassFactory(micro_batches=micro_batches)
        factory.set_mechanisms(mechanism, **noise)
        make, noise_mech = factory.create(optimizer), None
    else:
        make, noise_mech = getattr(nn, optimizer), NoiseMechanismsFactory().create(mechanism, **noise)
    return DPModel(
        micro_batches=micro_batches,
        norm_bound=noise["norm_bound"],
        noise_mech=noise_mech,
        optimizer=make(network.trainable_params(), **(options or OPTIONS[optimizer])),
        network=network,
        loss_fn=cross_entropy(),
        metrics={"Accuracy": nn.Accuracy()},
        **given,
    )


def accuracy(trained):
    test = ds.NumpySlicesDataset((IMAGES[TEST], LABELS[TEST]), ["image", "label"], shuffle=False).batch(60)
    return trained.eval(test)["Accuracy"]


# learning


@pytest.mark.parametrize(("optimizer", "private"), [("SGD", True), ("Momentum", False), ("Adam", True)])
def test_a_linear_model_learns_with_every_optimizer(optimizer, private):
    trained = model(optimizer=optimizer, private=private)

    trained.train(6, indexed())

    # Ten runs of each gave 0.75 or more, with a standard deviation of 0.02.
    assert accuracy(trained) > 0.6
    assert trained.last_run.stopped == "finished"
    assert trained.epsilon(1e-5) == trained.privacy_plan(6, indexed()).epsilon(1e-5)


@pytest.mark.parametrize("mode", [mindspore.PYNATIVE_MODE, mindspore.GRAPH_MODE])
def test_a_convolutional_network_learns_from_a_loader_with_both_monitors(mode, capsys):
    mindspore.set_context(mode=mode)
    try:
        trained = model(
            SmallLeNet(), optimizer="Momentum", private=True, noise={"initial_noise_multiplier": 0.2},
            options={"learning_rate": 0.3, "momentum": 0.9},
        )  # fmt: skip
        monitors = [
            PrivacyMonitorFactory.create(kind, num_samples=1437, batch_size=128, target_delta=1e-5, max_eps=None)
            for kind in ("rdp", "zcdp")
        ]
        trained.train(7, loader(), callbacks=monitors)
    finally:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)

    assert accuracy(trained) > 0.5
    # Each record is in one of the 11 batches of each of the 7 epochs.
    relation = NeighboringRelation.REPLACE_SPECIAL
    costs = []
    for accountant in (RdpAccountant, ZcdpAccountant):
        spent = accountant(neighboring_relation=relation)
        spent.compose(GaussianEvent(noise_multiplier=0.2), 7)
        costs.append(spent.epsilon(1e-5))
    lines = capsys.readouterr().out.splitlines()
    assert [line.rsplit(" ", 1)[0] for line in lines[-2:]] == 2 * ["epoch: 7 step: 11, delta is 1e-05, eps is"]
    assert [float(line.rsplit(" ", 1)[1]) for line in lines[-2:]] == pytest.approx(costs, rel=1e-9)


# what is charged


def test_a_loader_is_charged_without_amplification_and_samples_with_it():
    trained = model()

    in_order, sampled = trained.privacy_plan(3, loader()), trained.privacy_plan(3, indexed())

    assert in_order.sampling == GivenOrder(128, max_participations=3)
    assert in_order.event == SelfComposedEvent(event=GaussianEvent(noise_multiplier=1.0), count=3)
    assert sampled.sampling == PoissonSampling(128 / 1437)
    assert (in_order.num_steps, sampled.num_steps) == (33, 33)
    assert sampled.epsilon(1e-5) < 0.5 * in_order.epsilon(1e-5)


def generator():
    for _ in range(4):
        yield IMAGES[:32], LABELS[:32]


@pytest.mark.parametrize(
    "dataset",
    [
        lambda: loader(32, slice(0, 128)).repeat(1),
        lambda: ds.GeneratorDataset(generator, ["image", "label"]),
        lambda: ds.NumpySlicesDataset(
            (IMAGES[:128], LABELS[:128]), ["image", "label"], sampler=ds.RandomSampler(replacement=True)
        ).batch(32),
        lambda: loader(32, slice(0, 64)) + loader(32, slice(0, 64)),
    ],
    ids=["repeat", "generator", "replacement", "concatenation"],
)
def test_a_loader_that_may_repeat_records_is_charged_for_every_step(dataset):
    plan = model().privacy_plan(2, dataset())

    assert plan.sampling == GivenOrder(32)
    assert plan.event == SelfComposedEvent(event=GaussianEvent(noise_multiplier=1.0), count=8)


@pytest.mark.parametrize(
    "dataset",
    [
        lambda: loader(32, slice(0, 128)),
        lambda: loader(32, slice(0, 128), shuffle=False),
        lambda: ds.NumpySlicesDataset((IMAGES[:128], LABELS[:128]), ["image", "label"]).shuffle(50).batch(32),
    ],
)
def test_a_loader_that_goes_once_through_its_records_is_charged_once_an_epoch(dataset):
    trained = model()

    assert trained.privacy_plan(2, dataset()).sampling == GivenOrder(32, max_participations=2)
    assert trained.privacy_plan(2, dataset(), once_an_epoch=False).sampling == GivenOrder(32)


def test_a_generator_of_batches_is_trained_on():
    trained = model()

    trained.train(2, ds.GeneratorDataset(generator, ["image", "label"], shuffle=False), once_an_epoch=True)

    assert trained.last_run.step_number == 8
    assert trained.event.events[0].events == (GaussianEvent(noise_multiplier=1.0),) * 2


def test_trainings_add_up_and_the_decay_goes_on():
    noise = {"noise_decay_rate": 0.1, "decay_policy": "Step", "initial_noise_multiplier": 3.0}
    trained = model(mechanism="AdaGaussian", noise=noise)

    trained.train(1, indexed(400))
    first = trained.epsilon(1e-5)
    trained.train(1, indexed(400))

    multipliers = trained.last_run.plan.noise_multipliers
    assert multipliers == pytest.approx([3.0 * 0.9**step for step in (3, 4, 5)], rel=1e-12)
    whole = model(mechanism="AdaGaussian", noise=noise).privacy_plan(2, indexed(400))
    assert trained.epsilon(1e-5) == pytest.approx(whole.epsilon(1e-5), rel=1e-4)  # a grid of privacy losses, twice
    assert trained.epsilon(1e-5) > first


def test_a_training_with_another_kind_of_dataset_is_refused():
    trained = model()
    trained.train(1, indexed(700))

    with pytest.raises(fd.errors.InvalidParameter, match="different neighbors"):
        trained.train(1, loader(700))


def test_a_monitor_that_contradicts_the_training_stops_it_before_the_first_step():
    trained = model()
    before = [parameter.asnumpy().copy() for parameter in trained._network.trainable_params()]
    monitor = PrivacyMonitorFactory.create("rdp", num_samples=1437, batch_size=128, initial_noise_multiplier=1.5)

    with pytest.raises(fd.errors.InvalidParameter, match=r"initial_noise_multiplier of the monitor is 1\.5, but 1\.0"):
        trained.train(1, indexed(), callbacks=monitor)

    assert trained.epsilon(1e-5) == 0.0
    after = [parameter.asnumpy() for parameter in trained._network.trainable_params()]
    assert all((one == other).all() for one, other in zip(before, after, strict=True))


def test_the_last_safe_epoch_of_a_model_keeps_to_the_budget_when_it_is_trained():
    trained = model(noise={"initial_noise_multiplier": 4.0}, micro_batches=2)
    monitor = PrivacyMonitorFactory.create("rdp", num_samples=1437, batch_size=700, max_eps=4.0, target_delta=1e-5)

    epochs = monitor.max_epoch_suggest(trained, loader(700))

    costs = [monitor.cost(plan.event, plan.neighboring_relation)[0]
             for plan in (trained.privacy_plan(count, loader(700)) for count in (epochs, epochs + 1))]  # fmt: skip
    assert costs[0] <= 4.0 < costs[1]
    trained.train(epochs, loader(700), callbacks=monitor)
    assert monitor.cost(trained.event, NeighboringRelation.REPLACE_SPECIAL)[0] <= 4.0


def test_a_ledger_pays_for_every_step_and_its_budget_ends_the_training(tmp_path):
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("digits", epsilon=1.5, delta=1e-5, measure="rdp")
        trained = model(ledger=ledger, scope="digits", noise={"initial_noise_multiplier": 2.0})

        trained.train(6, indexed())

        assert trained.last_run.stopped == "budget"
        assert 0 < trained.last_run.step_number < 66
        assert ledger.epsilon_charged("digits") <= 1.5


class Stop(Callback):
    """Ends a training after so many steps, as if it were killed between two."""

    def __init__(self, steps):
        super().__init__()
        self.left = steps

    def on_train_step_end(self, run_context):
        self.left -= 1
        if not self.left:
            run_context.request_stop()


def test_a_training_with_a_key_goes_on_where_it_was_killed(tmp_path):
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("digits", epsilon=50.0, delta=1e-5)
        options = {"ledger": ledger, "scope": "digits", "key": "linear", "noise": {"initial_noise_multiplier": 2.0}}
        model(**options).train(1, indexed(), callbacks=Stop(4))
        charged = ledger.epsilon_charged("digits")

        again = model(**options)
        left_out = Stop(99)
        again.train(1, indexed(), callbacks=left_out)
        assert 99 - left_out.left == again.last_run.step_number - 4 == 11 - 4
        assert again.epsilon(1e-5) == again.privacy_plan(1, indexed()).epsilon(1e-5)
        once = ledger.epsilon_charged("digits")
        assert charged < once

        again.train(1, indexed(), callbacks=Stop(2))  # the second training, which is none of the first's steps
        assert once < ledger.epsilon_charged("digits")
        finished = model(**options)
        whole = ledger.epsilon_charged("digits")
        finished.train(1, indexed())
        assert finished.last_run.stopped == "finished"
        assert ledger.epsilon_charged("digits") == whole
        finished.train(1, indexed())
        assert 0 < whole < ledger.epsilon_charged("digits")


def test_a_key_needs_a_ledger_and_samples_that_the_plan_draws(tmp_path):
    with pytest.raises(fd.errors.InvalidParameter, match="without a ledger"):
        model(key="linear")
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("digits", epsilon=50.0, delta=1e-5, neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)
        with pytest.raises(fd.errors.InvalidType, match="key must be a str"):
            model(key="", ledger=ledger, scope="digits")
        trained = model(key="linear", ledger=ledger, scope="digits")
        with pytest.raises(fd.errors.InvalidParameter, match="with a loader"):
            trained.train(1, loader(700))

        assert ledger.epsilon_charged("digits") == 0.0


# what is drawn


def constant(rows=64):
    """Return records of black images, whose gradient by the weights is zero, and by the biases is not."""
    return IndexedDataset(np.zeros((rows, 1, 8, 8), np.float32), np.zeros(rows, np.int32), batch_size=rows)


def test_the_noise_in_the_network_is_that_of_the_plan():
    network = Linear()
    trained = model(network, noise={"norm_bound": 2.0, "initial_noise_multiplier": 3.0}, options={"learning_rate": 1.0})

    trained.train(1, constant())

    weights = network.out.weight.asnumpy()
    # z C / n; the sample deviation of 640 Gaussians is off by 6 of its own deviations, 1/sqrt(1280), once in 5e8.
    assert weights.std() == pytest.approx(3.0 * 2.0 / 64, rel=6 / math.sqrt(1280))
    assert abs(weights.mean()) < 6 * 3.0 * 2.0 / 64 / math.sqrt(640)


@pytest.mark.parametrize(("micro_batches", "groups"), [(None, 8), (8, 8), (2, 2)])
@pytest.mark.parametrize("in_order", [True, False])
def test_the_step_is_the_sum_of_clipped_vectors_by_their_public_number(micro_batches, groups, in_order):
    network = Linear()
    trained = model(
        network,
        noise={"norm_bound": 0.5, "initial_noise_multiplier": 1e-7},
        options={"learning_rate": 1.0},
        micro_batches=micro_batches,
    )
    rows = slice(0, 8)
    if in_order or groups == 8:  # else the plan draws the groups
        # Softmax regression from zero: the gradient of each record in closed form.
        errors = 0.1 - np.eye(10)[LABELS[rows]]
        features = np.concatenate([IMAGES[rows].reshape(8, 64), np.ones((8, 1))], axis=1)
        vectors = (errors[:, :, None] * features[:, None, :]).reshape(groups, 8 // groups, 650).mean(axis=1)
        clipped = vectors * np.minimum(1.0, 0.5 / np.linalg.norm(vectors, axis=1))[:, None]
        expected = -clipped.sum(axis=0).reshape(10, 65) / groups

        trained.train(1, loader(8, rows, shuffle=False) if in_order else indexed(8, rows))

        # float32, a grid of 2^-29 of the norm for each of the vectors, and noise of 1e-7 of it
        np.testing.assert_allclose(network.out.weight.asnumpy(), expected[:, :64], atol=3e-7)
        np.testing.assert_allclose(network.out.bias.asnumpy(), expected[:, 64], atol=3e-7)
    else:
        trained.train(3, IndexedDataset(IMAGES[:16], LABELS[:16], batch_size=8))
        assert trained.last_run.plan.records_per_group == 4
        assert trained.last_run.step_number == 6


def test_the_laplace_mechanism_clips_in_l1_norm_and_adds_its_noise():
    network, rows = Linear(), slice(0, 8)
    options = {"mechanism": "Laplace", "options": {"learning_rate": 1.0}}
    trained = model(network, noise={"norm_bound": 0.5, "initial_noise_multiplier": 1e-7}, **options)
    errors = 0.1 - np.eye(10)[LABELS[rows]]
    features = np.concatenate([IMAGES[rows].reshape(8, 64), np.ones((8, 1))], axis=1)
    vectors = (errors[:, :, None] * features[:, None, :]).reshape(8, 650)
    clipped = vectors * np.minimum(1.0, 0.5 / np.abs(vectors).sum(axis=1))[:, None]
    expected = -clipped.sum(axis=0).reshape(10, 65) / 8

    trained.train(1, indexed(8, rows))

    np.testing.assert_allclose(network.out.weight.asnumpy(), expected[:, :64], atol=1e-6)  # noise of 5e-8, tails
    network = Linear()
    trained = model(network, noise={"norm_bound": 2.0, "initial_noise_multiplier": 3.0}, **options)
    trained.train(1, constant())
    weights = network.out.weight.asnumpy()
    # The mean of |x| of Laplace noise is its scale, and its standard deviation too: six standard errors.
    assert np.abs(weights).mean() == pytest.approx(3.0 * 2.0 / 64, rel=6 / math.sqrt(640))


def test_the_laplace_mechanism_is_accounted_by_its_own_law(capsys):
    noise = {"norm_bound": 1.0, "initial_noise_multiplier": 20.0}
    trained = model(mechanism="Laplace", noise=noise, private=True)
    monitor = PrivacyMonitorFactory.create("rdp", num_samples=1437, batch_size=128, target_delta=1e-5)

    trained.train(2, indexed(), callbacks=[monitor])

    plan = trained.privacy_plan(2, indexed())
    chance = plan.sampling.probability
    event = PoissonSampledEvent(sampling_probability=chance, event=LaplaceEvent(noise_multiplier=20.0))
    assert plan.event == SelfComposedEvent(event=event, count=22)
    assert trained.epsilon(1e-5) == plan.epsilon(1e-5) < 22 / 20.0
    assert "eps is" in capsys.readouterr().out
    full = model(mechanism="Laplace", noise=noise)
    full.train(1, constant())
    assert full.epsilon(1e-9) == pytest.approx(1 / 20.0, rel=1e-6)  # pure ε


def test_an_empty_batch_is_noised_and_charged_like_any_other():
    network = Linear()
    trained = model(network, options={"learning_rate": 1.0})
    dataset = IndexedDataset(IMAGES[:2], LABELS[:2], batch_size=1)
    moved = []

    class Watch(Callback):
        def __init__(self):
            super().__init__()
            self.last = network.out.weight.asnumpy().copy()

        def on_train_step_end(self, run_context):
            weights = network.out.weight.asnumpy().copy()
            moved.append(float(np.abs(weights - self.last).max()))
            self.last = weights
            assert np.isfinite(run_context.original_args().net_outputs.asnumpy())

    trained.train(20, dataset, callbacks=[Watch(), LossMonitor()])  # of 40 batches, one in four is empty

    assert len(moved) == 40
    assert min(moved) > 0.1
    assert trained.last_run.event == fd.events.ComposedEvent(
        events=(trained.privacy_plan(20, dataset).event.event,) * 40
    )


def test_a_record_that_is_not_finite_counts_as_zeros():
    images = IMAGES[:64].copy()
    images[5] = np.nan
    network = Linear()

    model(network).train(2, IndexedDataset(images, LABELS[:64], batch_size=64))

    assert np.isfinite(network.out.weight.asnumpy()).all()


def test_a_full_batch_is_possible():
    trained = model()

    trained.train(2, indexed(64, slice(0, 64)))

    assert trained.last_run.plan.sampling == FullBatch()
    assert trained.last_run.step_number == 2


@pytest.mark.parametrize("policy", ["Linear", "Geometric"])
def test_the_clip_norm_goes_to_the_quantile_of_the_norms(policy):
    # At zero the gradients of black images have the norm of the error alone, sqrt(0.9^2 + 9 * 0.01), and stay near it.
    norm = math.sqrt(0.9)
    clip_mech = ClipMechanismsFactory().create(
        "Gaussian", decay_policy=policy, learning_rate=0.2, target_unclipped_quantile=0.5, fraction_stddev=0.02
    )
    ends = []
    for initial in (0.1, 10.0):
        trained = model(
            noise={"norm_bound": initial, "initial_noise_multiplier": 0.01},
            options={"learning_rate": 1e-6},
            clip_mech=clip_mech,
        )
        trained.train(40, constant())
        ends.append(trained.last_run.clip_norm)
        assert trained.epsilon(1e-5) > model(noise={"initial_noise_multiplier": 0.01}).privacy_plan(
            40, constant()
        ).epsilon(1e-5)

    # 40 steps of at most 0.1 (a factor of e^0.1): the norm is passed from below, and at least approached from above.
    assert 0.7 * norm < ends[0] < 1.3 * norm
    assert ends[1] < (6.5 if policy == "Linear" else 1.3)


# what is refused


@pytest.mark.parametrize("mode", [mindspore.PYNATIVE_MODE, mindspore.GRAPH_MODE])
def test_a_private_optimizer_steps_in_a_private_model_alone(mode):
    mindspore.set_context(mode=mode)
    try:
        network = Linear()
        factory = DPOptimizerClassFactory(micro_batches=2)
        factory.set_mechanisms("Gaussian", norm_bound=1.5, initial_noise_multiplier=5.0)
        optimizer = factory.create("SGD")(params=network.trainable_params(), learning_rate=0.1, momentum=0.9)

        with pytest.raises((fd.errors.FerroError, ValueError, RuntimeError), match=r"steps only in DPModel\.train"):
            Model(network, cross_entropy(), optimizer).train(1, loader())
        with pytest.raises(fd.errors.FerroError, match=r"steps only in DPModel\.train"):
            optimizer(tuple(mindspore.ops.zeros_like(each) for each in network.trainable_params()))
        assert not network.out.weight.asnumpy().any()
        assert isinstance(optimizer, nn.SGD)
    finally:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)


def test_a_monitor_is_refused_by_a_model_without_privacy():
    network = Linear()
    optimizer = nn.SGD(network.trainable_params(), learning_rate=0.1)
    monitor = PrivacyMonitorFactory.create("rdp", num_samples=60000, batch_size=128, initial_noise_multiplier=0.4)

    with pytest.raises(TypeError, match="Callback"):
        Model(network, cross_entropy(), optimizer).train(1, loader(), callbacks=[monitor])


def test_layers_that_mix_examples_are_refused_before_anything_is_charged():
    trained = model(Normalized())

    with pytest.raises(fd.errors.InvalidParameter, match="BatchNorm1d"):
        trained.train(1, indexed())

    assert trained.epsilon(1e-5) == 0.0


def test_a_batch_larger_than_the_plan_says_is_refused_and_not_charged():
    trained = model()

    with pytest.raises(fd.errors.FerroError, match="more than batch_size = 100 records"):
        trained.train(1, loader(128), batch_size=100)

    assert trained.epsilon(1e-5) == 0.0


@pytest.mark.parametrize("micro_batches", [3, 256])
def test_groups_must_divide_the_batch(micro_batches):
    with pytest.raises(fd.errors.InvalidParameter, match="micro_batches must divide"):
        model(micro_batches=micro_batches).train(1, loader())


def test_no_groups_does_not_mean_no_privacy():
    trained = model(micro_batches=None)

    trained.train(1, indexed())

    assert 0.0 < trained.epsilon(1e-5) < math.inf


def test_a_seeded_training_promises_nothing():
    ends = []
    for _ in range(2):
        network = Linear()
        trained = model(network, noise={"seed": fd.testing.seeded(bytes(32))})
        trained.train(1, indexed(700))
        ends.append(network.out.weight.asnumpy())

    assert (ends[0] == ends[1]).all()
    assert trained.epsilon(1e-5) == math.inf


def test_the_framework_runs_on_a_processor():
    assert mindspore.get_context("device_target") == "CPU"


# callbacks


def test_callbacks_of_the_framework_are_told_what_they_expect(tmp_path, capsys):
    network = Linear()
    trained = model(network, optimizer="Momentum")
    saved = ModelCheckpoint("linear", str(tmp_path), CheckpointConfig(save_checkpoint_steps=2, keep_checkpoint_max=9))

    trained.train(2, indexed(400), callbacks=[saved, LossMonitor(), TimeMonitor()])

    printed = capsys.readouterr().out
    assert "epoch: 2 step: 3, loss is" in printed
    assert "Train epoch time" in printed
    assert {path.name for path in tmp_path.glob("*.ckpt")} >= {"linear-1_2.ckpt", "linear-2_3.ckpt"}
    other = Linear()
    mindspore.load_param_into_net(other, mindspore.load_checkpoint(str(tmp_path / "linear-2_3.ckpt")))
    assert (other.out.weight.asnumpy() == network.out.weight.asnumpy()).all()


def test_a_callback_may_end_the_training():
    class Stop(Callback):
        def on_train_step_end(self, run_context):
            run_context.request_stop()

    trained = model()

    trained.train(5, indexed(), callbacks=Stop())

    assert trained.last_run.step_number == 1
    assert trained.epsilon(1e-5) < trained.privacy_plan(5, indexed()).epsilon(1e-5)


def test_an_adaptive_mechanism_is_refused_with_decaying_noise():
    for private in (False, True):
        with pytest.raises(fd.errors.InvalidParameter, match="only one of them may adapt"):
            model(mechanism="AdaGaussian", private=private, clip_mech=AdaClippingWithGaussianRandom())
