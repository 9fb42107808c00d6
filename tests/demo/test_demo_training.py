"""The demo's training: real images, every one dealt once, and a budget that is never exceeded."""

from typing import Any

import numpy as np
import pytest

from ferrodp import demo
from ferrodp.accounting import GaussianEvent, GdpAccountant, gaussian_epsilon
from ferrodp.demo import picture
from ferrodp.errors import BudgetExceeded


@pytest.fixture(scope="module")
def data() -> demo.Digits:
    return demo.load_digits()


def test_every_image_is_dealt_once(data: demo.Digits) -> None:
    from sklearn import datasets

    images = datasets.load_digits().data
    dealt = np.concatenate([client.images for client in (*data.clients, data.test)])

    assert (len(data.clients), len(data.test.images)) == (100, 360)
    assert min(len(client.images) for client in data.clients) >= 14
    np.testing.assert_array_equal(
        np.sort(np.round((dealt + 0.3) * 16).astype(int), axis=0), np.sort(images.astype(int), axis=0)
    )
    for client in (*data.clients, data.test):
        assert client.labels.shape == (len(client.images), 10)
        assert np.all(client.labels.sum(axis=1) == 1)


def test_clients_differ_in_what_they_hold(data: demo.Digits) -> None:
    shares = np.array([client.labels.mean(axis=0).max() for client in data.clients])

    assert np.median(shares) > 0.4  # of 14 images dealt at random, the most frequent digit has 3 or 4


def test_the_seed_of_the_data_deals_the_images_and_nothing_else() -> None:
    same, again, other = (demo.load_digits(seed) for seed in (1, 1, 2))

    np.testing.assert_array_equal(same.test.images, again.test.images)
    assert not np.array_equal(same.test.images, other.test.images)
    settings = demo.Settings(rounds=1)
    first, second = demo.train(same, settings), demo.train(again, settings)
    # In float32 two of 640 noised values may agree by chance, 7 do not.
    assert np.sum(first.model["weights"] == second.model["weights"]) < 7
    assert demo.train_without_privacy(same, 2) == demo.train_without_privacy(again, 2)


def test_training_stops_before_the_budget_is_exceeded(data: demo.Digits) -> None:
    settings = demo.Settings(epsilon=2.0, noise_multiplier=3.3)
    training = demo.train(data, settings)
    spent = [each.epsilon for each in training.rounds]

    for rounds, epsilon in enumerate(spent, start=1):
        accountant = GdpAccountant()
        accountant.compose(GaussianEvent(noise_multiplier=3.3), count=rounds)
        assert epsilon == accountant.epsilon(1e-5)
    assert spent[-1] <= 2.0 < training.next_epsilon
    assert len(spent) == demo.allowed_rounds(settings) == 2
    assert training.next_epsilon == demo.train(data, demo.Settings(epsilon=9.0, rounds=3)).rounds[-1].epsilon


def test_a_budget_for_no_round_is_refused_before_anything_is_drawn(
    data: demo.Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ferrodp.demo._training.ClippedSum", None)
    one_round = gaussian_epsilon(delta=1e-5, noise_multiplier=3.3)

    with pytest.raises(BudgetExceeded, match=r"one round costs epsilon 1\.144 at delta 1e-05, the budget is 1"):
        demo.train(data, demo.Settings(epsilon=1.0))
    assert demo.allowed_rounds(demo.Settings(epsilon=one_round)) == 1


def test_every_client_is_clipped_and_the_sum_is_noised_once_a_round(
    data: demo.Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ferrodp.demo import _training

    calls: list[Any] = []

    class Observed(_training.ClippedSum):  # type: ignore[misc, valid-type]
        def __init__(self, template: Any, *, clip_norm: float) -> None:
            calls.append(("new", clip_norm))
            super().__init__(template, clip_norm=clip_norm)

        def add(self, update: Any) -> None:
            calls.append("add")
            super().add(update)

        def release(self, *, noise_multiplier: float) -> Any:
            calls.append(("release", noise_multiplier))
            return super().release(noise_multiplier=noise_multiplier)

    monkeypatch.setattr(_training, "ClippedSum", Observed)
    demo.train(data, demo.Settings(rounds=2))

    assert calls == 2 * [("new", 0.5), *100 * ["add"], ("release", 3.3)]


def test_the_picture_rounds_a_bound_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the printed report does: 8.1231 is no bound on 8.1232."""
    axes = pytest.importorskip("matplotlib.axes")
    written: list[str] = []
    monkeypatch.setattr(axes.Axes, "annotate", lambda self, text, *args, **kwargs: written.append(text))
    training = demo.Training({}, (demo.Round(0.5, 7.0),), 8.1231)

    picture.draw(training, [0.9], demo.Settings())

    assert "round 2 would reach ε = 8.124: refused" in written
