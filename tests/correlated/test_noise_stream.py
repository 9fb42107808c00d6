"""`NoiseStream`: what is released, what it costs, and what is refused."""

import copy
import pickle

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.correlated import BandedMatrix, BandedToeplitz, BufferedToeplitz, NoiseStream, SquareRoot, Tree
from ferrodp.errors import FerroError, InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
from ferrodp.testing import seeded
from support import forked

BUFFERED = BufferedToeplitz(num_steps=6, buffers=2, decays=(0.75, 0.25), weights=(0.25, 0.25))
STRATEGIES = [
    BUFFERED,
    BandedToeplitz(num_steps=6, bands=3, coefficients=(1.0, 0.5, 0.25)),
    SquareRoot(num_steps=6),
    BandedMatrix(np.tril(np.arange(1.0, 37.0).reshape(6, 6)) / 8 + np.eye(6)),
]


def matrix_of(strategy):
    """Return C as numbers."""
    steps = strategy.num_steps
    c = np.zeros((steps, steps))
    if isinstance(strategy, BandedMatrix):
        for apart, values in enumerate(strategy.diagonals()):
            c += np.diag(values[: steps - apart], -apart)
        return c
    for apart, value in enumerate(strategy.coefficients()):
        c += np.diag(np.full(steps - apart, value), -apart)
    return c


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda each: each.kind)
def test_the_noise_times_the_matrix_is_that_of_a_stream_of_independent_noise(strategy):
    options = {"shape": 400, "noise_multiplier": 1.5, "l2_sensitivity": 2.0}
    stream = NoiseStream(strategy, **options, source=seeded(bytes([5] * 32)))
    white = NoiseStream(
        BandedToeplitz(num_steps=6, bands=1, coefficients=(1.0,)), **options, source=seeded(bytes([5] * 32))
    )

    noise = np.array([stream.release(np.zeros(400)) for _ in range(6)])
    independent = np.array([white.release(np.zeros(400)) for _ in range(6)])

    assert np.allclose(matrix_of(strategy) @ noise, independent, atol=1e-7)
    assert stream.standard_deviation == 3.0
    assert abs(independent.std() - 3.0) < 0.3


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda each: each.kind)
def test_the_event_is_that_of_the_strategy_with_the_noise_that_is_drawn(strategy):
    stream = NoiseStream(
        strategy, shape=1, noise_multiplier=2.0, l2_sensitivity=3.0, num_participations=2, min_separation=3
    )

    assert stream.event == strategy.event(noise_multiplier=2.0, num_participations=2, min_separation=3)
    assert stream.standard_deviation == 6.0


def test_integers_and_floats_of_one_grid_get_the_same_noise():
    options = {"shape": (3, 5), "noise_multiplier": 40.0, "l2_sensitivity": 1.0}
    integers = NoiseStream(BUFFERED, **options, dtype=np.int64, source=seeded(bytes([1] * 32)))
    floats = NoiseStream(BUFFERED, **options, dtype=np.float32, granularity=1.0, source=seeded(bytes([1] * 32)))
    for step in range(6):
        values = np.arange(15).reshape(3, 5) * step

        assert (integers.release(values) == floats.release(values.astype(np.float32))).all()


def test_a_result_goes_where_it_is_told_and_the_value_stays():
    values = np.ones(4)
    stream = NoiseStream(BUFFERED, shape=4, noise_multiplier=1.0, l2_sensitivity=1.0)
    out = np.empty(4)

    assert stream.release(values, out=out) is out
    assert (values == 1.0).all()
    assert stream.release(values, out=values) is values
    assert not (values == 1.0).any()


def test_data_that_is_not_finite_counts_as_zero():
    streams = [
        NoiseStream(BUFFERED, shape=3, noise_multiplier=1.0, l2_sensitivity=1.0, source=seeded(bytes([2] * 32)))
        for _ in "ab"
    ]

    assert (streams[0].release(np.array([np.nan, np.inf, -np.inf])) == streams[1].release(np.zeros(3))).all()


def test_what_does_not_fit_is_refused_and_draws_nothing():
    stream = NoiseStream(BUFFERED, shape=3, noise_multiplier=1.0, l2_sensitivity=1.0)
    for value, error in [
        (np.zeros(4), InvalidArray),
        (np.zeros(3, dtype=np.float32), InvalidArrayType),
        (np.zeros((1, 3)), InvalidArray),
        ("abc", InvalidArrayType),
    ]:
        with pytest.raises(error):
            stream.release(value)
    assert stream.step == 0
    for _ in range(6):
        stream.release(np.zeros(3))
    with pytest.raises(FerroError, match="over"):
        stream.release(np.zeros(3))
    good = {"shape": 1, "noise_multiplier": 1.0, "l2_sensitivity": 1.0}
    for wrong in [{"noise_multiplier": 0.0}, {"l2_sensitivity": -1.0}, {"granularity": 3.0}, {"granularity": 1e-30}]:
        with pytest.raises(InvalidParameter):
            NoiseStream(BUFFERED, **(good | wrong))
    with pytest.raises(InvalidArrayType):
        NoiseStream(BUFFERED, **good, dtype=np.int8)
    with pytest.raises(InvalidParameter, match="Tree"):
        NoiseStream(Tree(num_steps=4), **good)
    with pytest.raises(InvalidType, match="strategy"):
        NoiseStream("tree", **good)


def test_a_stream_cannot_be_copied():
    stream = NoiseStream(BUFFERED, shape=1, noise_multiplier=1.0, l2_sensitivity=1.0)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copied"):
            copied(stream)


@pytest.mark.parametrize("make", forked.MAKERS)
def test_a_stream_is_refused_in_a_child_that_inherits_it(make):
    begin = (
        "import numpy as np\n"
        "from ferrodp.correlated import BufferedToeplitz, NoiseStream\n"
        "strategy = BufferedToeplitz(num_steps=9, buffers=2)\n"
        "stream = NoiseStream(strategy, shape=3, noise_multiplier=1.0, l2_sensitivity=1.0)"
    )

    assert forked.answer_alone(make, begin, "stream.release(np.zeros(3))").startswith("FerroError")


def test_one_ticket_pays_for_a_whole_stream(tmp_path):
    options = {"shape": 3, "noise_multiplier": 8.0, "l2_sensitivity": 1.0}
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("days", epsilon=2.0, delta=1e-6)
        event = NoiseStream(BUFFERED, **options).event
        ticket = ledger.reserve("days", event)
        stream = NoiseStream(BUFFERED, **options, ticket=ticket)
        for _ in range(6):
            stream.release(np.zeros(3))
        with pytest.raises(TicketError):
            NoiseStream(BUFFERED, **options, ticket=ticket)
        cheaper = ledger.reserve("days", BUFFERED.event(noise_multiplier=80.0))
        with pytest.raises(InvalidParameter):
            NoiseStream(BUFFERED, **options, ticket=cheaper)
