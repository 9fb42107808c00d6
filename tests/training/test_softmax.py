"""The trainer that needs no tuning: what it reaches on digits, what it costs, and what odd data make of it."""

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.errors import (
    BudgetExceeded,
    CalibrationError,
    InvalidArray,
    InvalidArrayType,
    InvalidParameter,
    InvalidType,
)
from ferrodp.events import NeighboringRelation, NonPrivateEvent
from ferrodp.plan import FullBatch, PoissonSampling
from ferrodp.testing import SeededNoiseSource, record, replay
from ferrodp.training import PrivacyMonitor, oriented_gradients, recipe, train

DELTA = 1e-5
EPSILONS = (1, 2, 4, 8)


def seeded(number=0):
    return SeededNoiseSource(number.to_bytes(32, "little"))


def clusters(n=600, d=5, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    centers = rng.normal(size=(classes, d))
    return centers[labels] + rng.normal(scale=0.2, size=(n, d)), labels


def accuracy(features, labels, epsilon, split, **options):
    order = np.random.default_rng(split).permutation(len(features))
    here, there = order[:1437], order[1437:]
    model = train(features[here], labels[here], epsilon=epsilon, delta=DELTA, classes=range(10), **options)
    return np.mean(model.predict(features[there]) == labels[there])


@pytest.mark.parametrize(
    ("kind", "least"), [("pixels", (91.0, 93.2, 94.8, 95.5)), ("gradients", (94.4, 96.4, 97.4, 98.0))]
)
def test_digits_with_defaults_only(kind, least):
    """Mean test accuracy over ten splits, from seeded noise, so that the test cannot fail by chance."""
    datasets = pytest.importorskip("sklearn.datasets")
    pixels, labels = datasets.load_digits(return_X_y=True)
    pixels = pixels / 16
    features = pixels if kind == "pixels" else oriented_gradients(pixels, shape=(8, 8))

    found = [
        100 * np.mean([accuracy(features, labels, epsilon, 1000 + s, source=seeded(s)) for s in range(10)])
        for epsilon in EPSILONS
    ]

    assert (np.array(found) >= least).all(), found


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_a_model_costs_what_was_asked_for_and_hardly_less(epsilon, relation):
    x, y = clusters(200)

    model = train(x, y, epsilon=epsilon, delta=DELTA, classes=range(3), neighboring_relation=relation)

    assert 0.999 * epsilon <= model.epsilon <= epsilon
    assert model.plan.epsilon(DELTA) == pytest.approx(model.epsilon, rel=1e-12)
    assert model.plan.num_steps == model.num_steps == 121


def test_a_recipe_depends_on_public_numbers_alone():
    x, y = clusters(300)
    expected = recipe(epsilon=2.0, delta=DELTA, num_records=300, num_features=5)

    for data, labels in ((x, y), (np.zeros_like(x), y), (1e9 * x, np.zeros_like(y))):
        assert expected.plan == train(data, labels, epsilon=2.0, delta=DELTA, classes=range(3)).plan


def test_many_records_are_sampled():
    assert recipe(epsilon=1.0, delta=DELTA, num_records=2**15, num_features=3).plan.sampling == FullBatch()
    assert recipe(epsilon=1.0, delta=DELTA, num_records=2**17, num_features=3).plan.sampling == PoissonSampling(0.25)


def test_training_with_samples_learns():
    x, y = clusters(2**16, d=3)

    model = train(x, y, epsilon=0.2, delta=1e-7, classes=range(3), source=seeded())

    assert np.mean(model.predict(x) == y) > 0.9
    assert model.plan.expected_batch_size == 2**15


@pytest.mark.parametrize(("n", "d", "classes"), [(3000, 2, 2), (3000, 300, 4), (20_000, 20, 30)])
def test_other_sizes_are_learned(n, d, classes):
    """Clusters that hardly overlap; seeded."""
    x, y = clusters(n, d, classes)

    model = train(x, y, epsilon=4.0, delta=DELTA, classes=range(classes), source=seeded())

    assert np.mean(model.predict(x) == y) > 0.95


def test_unequal_classes_are_learned():
    x, y = clusters(4000, d=4, classes=2)
    kept = np.flatnonzero((y == 0) | (np.arange(len(y)) % 10 == 0))

    model = train(x[kept], y[kept], epsilon=2.0, delta=DELTA, classes=[0, 1], source=seeded())

    assert np.mean(model.predict(x) == y) > 0.95


def test_few_records_give_a_model_all_the_same():
    for n in (1, 2, 7):
        model = train(np.ones((n, 3)), np.zeros(n), epsilon=1.0, delta=DELTA, classes=[0, 1])
        assert np.isfinite(model.coef).all()


def test_a_class_without_records_is_never_predicted_where_the_others_are_clear():
    x, y = clusters(3000)

    model = train(x, y, epsilon=4.0, delta=DELTA, classes=range(4), source=seeded())

    assert np.mean(model.predict(x) == y) > 0.95
    assert model.coef.shape == (4, 5)


@pytest.mark.parametrize("labels", [["no", "yes"], [b"no", b"yes"], [2.5, -1.0], [True, False]])
def test_labels_may_be_text_numbers_or_truth_values(labels):
    x, y = clusters(1500, classes=2)

    model = train(x, np.array(labels)[y], epsilon=4.0, delta=DELTA, classes=labels, source=seeded())

    assert np.array_equal(np.array(labels), model.classes)
    assert np.mean(model.predict(x) == np.array(labels)[y]) > 0.95


def test_probabilities_add_up_and_agree_with_predictions():
    x, y = clusters()
    model = train(x, y, epsilon=1.0, delta=DELTA, classes=range(3))

    chances = model.predict_proba(x)

    assert chances.sum(axis=1) == pytest.approx(np.ones(len(x)))
    assert np.array_equal(model.predict(x), chances.argmax(axis=1))
    assert np.array_equal(model.scores(x).argmax(axis=1), chances.argmax(axis=1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_records_that_are_not_finite_change_nothing(bad):
    """Like records of zeros, bit for bit, from the same noise: no value raises, and none reaches the model."""
    x, y = clusters(100)
    broken, zeroed = x.copy(), x.copy()
    broken[3, 1], zeroed[3] = bad, 0.0

    models = [train(data, y, epsilon=1.0, delta=DELTA, classes=range(3), source=seeded()) for data in (broken, zeroed)]

    assert np.array_equal(models[0].coef, models[1].coef)
    assert np.array_equal(models[0].predict(x), models[1].predict(x))
    assert np.isfinite(models[0].predict_proba(broken)).all()


def test_a_label_that_is_no_class_moves_no_gradient():
    """Two labels that are no class make the same model; the record's features are part of the mean alone."""
    x, y = clusters(100)
    other, another = y.copy(), y.copy()
    other[5], another[5] = 77, -1

    models = [train(x, data, epsilon=1.0, delta=DELTA, classes=range(3), source=seeded()) for data in (other, another)]

    assert np.array_equal(models[0].coef, models[1].coef)


def test_labels_that_are_no_class_have_gradients_of_zeros():
    x, _ = clusters(30)

    with record() as log:
        train(x, np.full(30, 77), epsilon=1.0, delta=DELTA, classes=range(3))

    assert log[0].value.any()
    assert not any(release.value.any() for release in log[1:])


@pytest.mark.parametrize("instead", [np.nan, 0.0])
def test_a_record_moves_nothing_but_what_each_release_declares(instead):
    """On the same released sums both trainings make the same model, and every sum is within its sensitivity."""
    x, y = clusters(40)
    without = x.copy()
    without[7] = instead

    with record() as log:
        first = train(x, y, epsilon=1.0, delta=DELTA, classes=range(3))
    with replay(log):
        second = train(without, y, epsilon=1.0, delta=DELTA, classes=range(3))

    assert len(log) == 121
    assert np.array_equal(first.coef, second.coef)
    assert np.array_equal(first.center, second.center)


def test_rows_are_scaled_so_that_lengths_do_not_matter():
    x, y = clusters(200)
    lengths = np.random.default_rng(0).choice([0.25, 1.0, 8.0], size=(200, 1))

    models = [train(data, y, epsilon=1.0, delta=DELTA, classes=range(3), source=seeded()) for data in (x, x * lengths)]

    assert models[0].coef == pytest.approx(models[1].coef, abs=1e-3 * np.abs(models[0].coef).max())


def test_a_seeded_training_states_no_cost():
    x, y = clusters(50)

    model = train(x, y, epsilon=1.0, delta=DELTA, classes=range(3), source=seeded())

    assert isinstance(model.event, NonPrivateEvent)
    assert model.epsilon == np.inf


def test_a_training_ends_where_its_ledger_does(tmp_path):
    x, y = clusters(50)
    with fd.PrivacyLedger.open(tmp_path / "ledger.db") as ledger:
        ledger.create("a", epsilon=0.5, delta=DELTA)
        with pytest.warns(UserWarning, match="of 121 steps fit into the budget"):
            model = train(x, y, epsilon=1.0, delta=DELTA, classes=range(3), ledger=ledger, scope="a")

        assert 0 < model.num_steps < 121
        assert "does not fit" in model.stop_reason
        assert ledger.epsilon_charged("a") <= 0.5
        assert model.epsilon < 0.5
        with pytest.warns(UserWarning, match="^0 of 121 steps fit"), pytest.raises(BudgetExceeded):
            train(x, y, epsilon=1.0, delta=DELTA, classes=range(3), ledger=ledger, scope="a")


def test_a_training_is_charged_what_it_was_called_with(tmp_path):
    x, y = clusters(50)
    options = {"delta": DELTA, "classes": range(3), "scope": "a", "plan_delta": DELTA}
    with fd.PrivacyLedger.open(tmp_path / "ledger.db") as ledger:
        ledger.create("a", epsilon=1.0, delta=DELTA, measure="pure")
        model = train(x, y, epsilon=1.0, ledger=ledger, **options)

        assert model.num_steps == model.plan.num_steps
        assert ledger.report("a").epsilon_charged == model.epsilon <= 1.0
        with pytest.raises(BudgetExceeded, match="the plan costs epsilon"):
            train(x, y, epsilon=0.5, ledger=ledger, **options)


def test_a_training_that_was_charged_is_not_repeated_under_its_key(tmp_path):
    x, y = clusters(50)
    options = {"epsilon": 1.0, "delta": DELTA, "classes": range(3), "scope": "a", "key": "t"}
    with fd.PrivacyLedger.open(tmp_path / "ledger.db") as ledger:
        ledger.create("a", epsilon=5.0, delta=DELTA)
        train(x, y, ledger=ledger, **options)
        charged = ledger.epsilon_charged("a")
        again = train(x, y, ledger=ledger, **options)

        assert charged == ledger.epsilon_charged("a")
        assert not again.coef.any()


def test_callbacks_see_every_step():
    x, y = clusters(50)
    monitor = PrivacyMonitor(DELTA, ("pld",), every=40, verbose=False)

    model = train(x, y, epsilon=1.0, delta=DELTA, classes=range(3), callbacks=[monitor])

    assert [line["step"] for line in monitor.history] == [40, 80, 120, 121]
    assert monitor.history[-1]["pld"] == pytest.approx(model.epsilon, rel=1e-12)


@pytest.mark.parametrize(
    ("features", "labels", "options", "error"),
    [
        (np.zeros((0, 3)), np.zeros(0), {}, InvalidArray),
        (np.zeros((3, 0)), np.zeros(3), {}, InvalidArray),
        (np.zeros(3), np.zeros(3), {}, InvalidArray),
        (np.zeros((3, 2)), np.zeros(4), {}, InvalidArray),
        (np.zeros((3, 2)), np.zeros((3, 1)), {}, InvalidArray),
        (np.zeros((3, 2)), np.array(["a", "b", "a"]), {}, InvalidArrayType),
        (np.zeros((3, 2), dtype=complex), np.zeros(3), {}, TypeError),
        (np.zeros((3, 2)), np.zeros(3), {"classes": [1]}, InvalidParameter),
        (np.zeros((3, 2)), np.zeros(3), {"classes": [1, 1]}, InvalidParameter),
        (np.zeros((3, 2)), np.zeros(3), {"classes": "ab"}, InvalidParameter),
        (np.zeros((3, 2)), np.zeros(3), {"epsilon": 0.0}, InvalidParameter),
        (np.zeros((3, 2)), np.zeros(3), {"epsilon": float("inf")}, InvalidParameter),
        (np.zeros((3, 2)), np.zeros(3), {"delta": 0.0}, InvalidParameter),
        (np.zeros((3, 2)), np.zeros(3), {"epsilon": 1e-6}, CalibrationError),
        (np.zeros((3, 2)), np.zeros(3), {"callbacks": [3]}, InvalidType),
        (np.zeros((3, 2)), np.zeros(3), {"scope": "a"}, InvalidParameter),
    ],
)
def test_what_is_not_accepted_is_refused(features, labels, options, error):
    settings = {"epsilon": 1.0, "delta": DELTA, "classes": [0, 1]} | options

    with pytest.raises(error):
        train(features, labels, **settings)


def test_a_number_of_classes_is_refused_with_what_to_write():
    x, y = clusters(300)

    with pytest.raises(InvalidType, match=r"classes must be a sequence of labels such as range\(10\), got int"):
        train(x, y, epsilon=1.0, delta=DELTA, classes=10)
