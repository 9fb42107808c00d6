"""Optimizers take the steps of their definitions, on any tree."""

import numpy as np
import pytest

from ferrodp.errors import InvalidArray, InvalidParameter, InvalidType
from ferrodp.training import SGD, Adam, Momentum

GRADIENTS = np.random.default_rng(0).normal(size=(6, 3))
START = np.array([1.0, -2.0, 0.5])


def path(optimizer, gradients=GRADIENTS, start=START):
    found = [start]
    for gradient in gradients:
        found.append(optimizer.step(found[-1], gradient))
    return np.array(found[1:])


def test_descent_is_that_of_its_formula():
    expected, w = [], START
    for gradient in GRADIENTS:
        w = (1 - 0.1 * 0.3) * w - 0.1 * gradient
        expected.append(w)

    assert path(SGD(0.1, weight_decay=0.3)) == pytest.approx(np.array(expected), rel=1e-12)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("dampening", [0.0, 0.9])
def test_momentum_is_that_of_its_formula(dampening, nesterov):
    expected, w, v = [], START, np.zeros(3)
    for gradient in GRADIENTS:
        v = 0.9 * v + (1 - dampening) * gradient
        w = w - 0.1 * (0.9 * v + (1 - dampening) * gradient if nesterov else v)
        expected.append(w)

    found = path(Momentum(0.1, 0.9, dampening=dampening, nesterov=nesterov))
    assert found == pytest.approx(np.array(expected), rel=1e-12)


def test_adam_is_that_of_its_paper():
    expected, w, m, v = [], START, np.zeros(3), np.zeros(3)
    for t, gradient in enumerate(GRADIENTS, start=1):
        m, v = 0.8 * m + 0.2 * gradient, 0.95 * v + 0.05 * gradient**2
        w = w * (1 - 0.1 * 0.01) - 0.1 * (m / (1 - 0.8**t)) / (np.sqrt(v / (1 - 0.95**t)) + 1e-6)
        expected.append(w)

    found = path(Adam(0.1, betas=(0.8, 0.95), stability=1e-6, weight_decay=0.01))
    assert found == pytest.approx(np.array(expected), rel=1e-12)


@pytest.mark.parametrize("make", [lambda: SGD(0.1), lambda: Momentum(0.1), lambda: Adam(0.1)])
def test_trees_move_like_their_arrays_and_keep_type_and_dtype(make):
    tree = {"w": START.astype(np.float32), "b": (np.zeros((2, 2), np.float32),)}
    gradient = {"w": GRADIENTS[0].astype(np.float32), "b": (np.ones((2, 2), np.float32),)}

    moved = make().step(tree, gradient)

    assert np.array_equal(make().step(tree["w"], gradient["w"]), moved["w"])
    assert isinstance(moved["b"], tuple)
    assert moved["b"][0].dtype == np.float32
    assert np.array_equal(tree["b"][0], np.zeros((2, 2)))


@pytest.mark.parametrize("make", [lambda: SGD(0.1), lambda: Momentum(0.1), lambda: Adam(0.1)])
def test_a_loaded_state_goes_on_as_the_optimizer_would_have(make):
    whole, first, second = make(), make(), make()
    expected = path(whole)
    halfway = path(first, GRADIENTS[:3])

    second.load_state(first.state())

    assert np.array_equal(expected[3:], path(second, GRADIENTS[3:], halfway[-1]))
    assert second.num_steps == 6


def test_a_rate_may_change_with_the_step():
    assert path(SGD(lambda t: 1.0 / (t + 1)), np.ones((3, 1)), np.zeros(1)).ravel() == pytest.approx(
        [-1.0, -1.5, -11 / 6]
    )


def test_what_does_not_fit_is_refused():
    with pytest.raises(InvalidArray):
        SGD(0.1).step(np.zeros(2), np.zeros(3))
    with pytest.raises(InvalidArray):
        SGD(0.1).step({"a": np.zeros(2)}, {"b": np.zeros(2)})
    adam = Adam(0.1)
    adam.step(np.zeros(2), np.zeros(2))
    with pytest.raises(InvalidArray):
        adam.step(np.zeros(3), np.zeros(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: SGD(-0.1),
        lambda: SGD(float("nan")),
        lambda: Momentum(0.1, 1.0),
        lambda: Adam(0.1, betas=(0.9,)),
        lambda: Adam(0.1, stability=0.0),
        lambda: Adam(0.1).load_state({"num_steps": 1, "slots": []}),
        lambda: Adam(0.1).load_state(3),
        lambda: SGD(lambda t: -1.0).step(np.zeros(1), np.zeros(1)),
    ],
)
def test_parameters_out_of_their_domain_are_refused(make):
    with pytest.raises((InvalidParameter, InvalidType)):
        make()
