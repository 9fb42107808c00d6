"""The numpy bit generator: numpy draws from it, threads share it, and nothing can copy or seed it."""

import copy
import pickle
import subprocess
import sys
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


ATTACKS = {
    "delete the capsule": "del bits.capsule",
    "replace the capsule": "bits.capsule = None",
    "replace it by another's": "bits.capsule = fd.random.BitGenerator().capsule",
    "go around the class": "object.__setattr__(bits, 'capsule', None)",
    "delete the lock": "del bits.lock",
    "initialize again": "bits.__init__()",
    "construct without initializing": "bits = type(bits).__new__(type(bits)); rng = np.random.Generator(bits)",
    "let go of everything but the generator": "del bits",
    "initialize the generator again": "bits = fd.random.BitGenerator(); rng.__init__(bits)",
    "share it between two kinds": "other = np.random.RandomState(bits); del bits; other.random_sample(1000)",
    "change the class": "bits.__class__ = type('Other', (fd._native.BitGenerator,), {'__slots__': ()})",
    "derive a class": "class Other(fd.random.BitGenerator):\n    capsule = property(lambda self: None)",
    "draw while the interpreter ends": (
        "import atexit, threading\n"
        "def forever():\n"
        "    while True:\n"
        "        rng.random(1000)\n"
        "for _ in range(4):\n"
        "    threading.Thread(target=forever, daemon=True).start()\n"
        "atexit.register(rng.random)"
    ),
    "draw in a forked child": (
        "import os, warnings\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    rng.random(1000)\n"
        "    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0"
    ),
}

SURVIVE = """
import gc
import numpy as np
import ferrodp as fd

bits = fd.random.BitGenerator()
rng = np.random.Generator(bits)
rng.random(10)
try:
{attack}
except (AttributeError, TypeError):
    pass
gc.collect()
rubbish = [bytearray(b"\\xaa") * 100 for _ in range(20_000)]  # lands where something was freed
values = rng.random(100_000)
assert len(set(values.tolist())) == values.size
assert ((0 <= values) & (values < 1)).all()
print("survived")
"""


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_that_python_can_do_to_it_harms_the_process(attack):
    """numpy keeps a pointer into the capsule and a reference to the object: while that lives, the state has to."""
    code = SURVIVE.format(attack="\n".join("    " + line for line in ATTACKS[attack].splitlines()))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)

    assert (run.returncode, run.stdout) == (0, "survived\n"), run.stderr


def test_its_attributes_are_read_only_and_stay_the_same():
    bits = fd.random.BitGenerator()
    capsule, lock = bits.capsule, bits.lock

    bits.__init__()
    for name in ("capsule", "lock"):
        with pytest.raises(AttributeError):
            setattr(bits, name, None)
        with pytest.raises(AttributeError):
            delattr(bits, name)

    assert bits.capsule is capsule
    assert bits.lock is lock


def test_a_subclass_is_refused_since_it_could_let_go_of_the_state():
    with pytest.raises(TypeError, match="cannot be subclassed; hold one instead"):
        type("Other", (fd.random.BitGenerator,), {})
