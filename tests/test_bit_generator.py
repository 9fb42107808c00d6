"""The numpy bit generator: numpy draws from it, threads share it, and nothing can copy or seed it."""

import copy
import pickle
import threading

import numpy as np
import pytest
from scipy import stats

import ferrodp as fd

# Keys are fresh: a test below raises a false alarm once in 10^12 runs.
ALPHA = 1e-12


def generator():
    return np.random.Generator(fd.random.BitGenerator())


def test_numpy_draws_every_kind_of_number_from_it():
    rng = generator()

    assert rng.random(5).shape == (5,)
    assert rng.standard_normal(5, dtype=np.float32).dtype == np.float32
    assert sorted(rng.permutation(100).tolist()) == list(range(100))
    assert set(rng.integers(0, 3, 1000).tolist()) == {0, 1, 2}  # one is missing with probability 1e-175
    assert rng.multinomial(10, [0.5, 0.5]).sum() == 10
    assert len(rng.bytes(7)) == 7


def test_other_consumers_of_the_capsule_draw_from_it():
    from scipy.stats import norm

    assert norm.rvs(size=3, random_state=generator()).shape == (3,)
    assert np.random.RandomState(fd.random.BitGenerator()).uniform(size=3).shape == (3,)


def test_uniform_numbers_are_in_the_half_open_interval_and_on_the_grid_of_53_bits():
    values = generator().random(100_000)

    assert (values >= 0).all()
    assert (values < 1).all()
    assert (values * 2.0**53 % 1 == 0).all()


def test_numbers_of_all_widths_are_uniform():
    """Bytes of 64-bit words, both halves of 32-bit words, and doubles, over hundreds of buffers."""
    rng = generator()
    words = rng.integers(0, 2**64, 1 << 17, dtype=np.uint64, endpoint=False)
    halves = rng.integers(0, 2**32, 1 << 18, dtype=np.uint32, endpoint=False)

    for data in (words.view(np.uint8), halves.view(np.uint8)):
        for place in range(8):
            assert stats.chisquare(np.bincount(data[place::8], minlength=256)).pvalue > ALPHA
    assert stats.kstest(rng.random(1 << 17), "uniform").pvalue > ALPHA


def test_numbers_never_repeat_across_buffers_and_generators():
    drawn = np.concatenate([generator().integers(0, 2**63, 2000) for _ in range(20)])

    assert len(set(drawn.tolist())) == drawn.size  # two agree with probability 1e-10


def test_threads_that_share_a_generator_draw_different_numbers():
    rng, drawn = generator(), []

    def work():
        drawn.extend(rng.integers(0, 2**63, 3000).tolist())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(drawn)) == 24_000  # two agree with probability 1e-10


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("make", [fd.random.BitGenerator, generator])
def test_neither_it_nor_a_generator_on_it_can_be_copied(make, copier):
    with pytest.raises((TypeError, ValueError)) as caught:  # numpy's own ValueError for a copied Generator
        copier(make())

    assert "copied or pickled" in str(caught.value) or "is not a known BitGenerator" in str(caught.value)


def test_it_takes_no_seed_and_shows_no_state():
    with pytest.raises(TypeError):
        fd.random.BitGenerator(42)

    assert repr(fd.random.BitGenerator()) == "<ferrodp.random.BitGenerator>"
    assert not hasattr(fd.random.BitGenerator(), "state")
    assert not hasattr(fd.random.BitGenerator(), "__dict__")
    with pytest.raises((AttributeError, TypeError, NotImplementedError)):
        generator().spawn(2)


def test_a_generator_outlives_the_name_of_its_bit_generator():
    """The capsule, not the Python object, owns the state."""
    rng = generator()
    capsule = rng.bit_generator.capsule
    del rng

    assert np.random.Generator(Borrowed(capsule)).random() < 1


class Borrowed:
    """A bit generator on somebody else's capsule."""

    def __init__(self, capsule):
        self.capsule = capsule
        self.lock = threading.Lock()
