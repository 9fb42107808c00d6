"""The noise source: what it accepts, and that it refuses the rest before anything is drawn or written."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import ferrodp as fd
from ferrodp import _native
from ferrodp.errors import FerroError, InvalidArray, InvalidArrayType, InvalidParameter, InvalidType

LAWS = {"gaussian": "standard_deviation", "laplace": "scale"}


def seeded():
    return fd.testing.seeded(bytes(32))


def assert_nothing_drawn(source):
    """The call counter of a seeded source has not moved: its next bytes are those of its first call."""
    assert source.bytes(16) == seeded().bytes(16)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("bad", [0, 0.0, -0.0, -1, -1e-300, math.nan, math.inf, -math.inf, Decimal("NaN"), 10**400])
def test_a_scale_that_is_not_finite_and_positive_is_refused(law, bad):
    source, array = seeded(), np.ones(3)

    with pytest.raises(InvalidParameter, match=f"^{LAWS[law]} must be finite"):
        getattr(source, law)(3, **{LAWS[law]: bad})
    with pytest.raises(ValueError, match=f"^{LAWS[law]} must be finite"):
        getattr(source, f"add_{law}_")(array, **{LAWS[law]: bad})

    assert (array == 1).all()
    assert_nothing_drawn(source)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("bad", [True, np.True_, "1", b"1", 1j, None, [1.0], np.array(1.0), np.array([1.0])])
def test_a_scale_that_is_no_number_is_refused(law, bad):
    source = seeded()

    with pytest.raises(InvalidType, match=f"^{LAWS[law]} must be a real number"):
        getattr(source, law)(3, **{LAWS[law]: bad})

    assert issubclass(InvalidType, TypeError)
    assert_nothing_drawn(source)


@pytest.mark.parametrize("law", LAWS)
def test_exact_numbers_are_scales(law):
    """All of them denote 1.5."""
    expected = getattr(seeded(), law)(5, **{LAWS[law]: 1.5})
    for number in (Decimal("1.5"), Fraction(3, 2), np.float32(1.5), np.float16(1.5), np.longdouble(1.5)):
        assert np.array_equal(expected, getattr(seeded(), law)(5, **{LAWS[law]: number}))


def test_a_scale_that_no_float_denotes_is_rounded_up():
    """More noise, never less."""
    tenth = seeded().gaussian(5, standard_deviation=Fraction(1, 10))  # float 0.1 is above 1/10
    third = seeded().gaussian(5, standard_deviation=Fraction(1, 3))  # float 1/3 is below

    assert np.array_equal(tenth, seeded().gaussian(5, standard_deviation=0.1))
    assert np.array_equal(third, seeded().gaussian(5, standard_deviation=math.nextafter(1 / 3, 1)))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-290, 1e300, 1.7e308])
def test_a_scale_whose_grid_would_leave_the_range_is_refused(law, scale):
    with pytest.raises(InvalidParameter, match=r"must be .*2\^|times the granularity"):
        getattr(seeded(), law)(3, **{LAWS[law]: scale})


@pytest.mark.parametrize("bad", [0.3, 3.0, 0.0, -1.0, -0.5, math.nan, math.inf, 5e-324, 2.0**-901, 2.0**901, 10**400])
def test_a_granularity_that_is_no_power_of_two_in_range_is_refused(bad):
    source = seeded()

    with pytest.raises(InvalidParameter, match=r"^granularity must be a power of two"):
        source.gaussian(3, standard_deviation=1.0, granularity=bad)

    assert_nothing_drawn(source)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("granularity", [2.0**-44, 2.0**4, 2.0**900, 2.0**-900])
def test_a_scale_too_far_from_the_grid_is_refused(law, granularity):
    """A ratio outside 2^-3 … 2^44: noise would be rounded away, or leave the integers that 64 bits hold."""
    with pytest.raises(InvalidParameter, match=rf"^{LAWS[law]} must be between 2\^-3 and 2\^44 times the granularity"):
        getattr(seeded(), law)(3, **{LAWS[law]: 1.0}, granularity=granularity)


@pytest.mark.parametrize("bad", [-1, (2, -1), (1,) * 65])
def test_a_size_that_is_no_shape_is_refused(bad):
    with pytest.raises(InvalidParameter, match=r"^size must"):
        seeded().gaussian(bad, standard_deviation=1.0)


@pytest.mark.parametrize("bad", [1.0, "3", None, (2.0,), True, ((1,),)])
def test_a_size_that_is_no_integer_is_refused(bad):
    with pytest.raises(InvalidType, match=r"^size must be"):
        seeded().gaussian(bad, standard_deviation=1.0)


@pytest.mark.parametrize("huge", [2**62, (2**40, 2**40), 2**45])
def test_a_size_beyond_the_memory_is_refused_at_once(huge):
    with pytest.raises((InvalidParameter, MemoryError), match=r"^size stands|^size must"):
        seeded().gaussian(huge, standard_deviation=1.0)
    with pytest.raises((InvalidParameter, InvalidType, MemoryError), match=r"^n "):
        seeded().bytes(2**62)


@pytest.mark.parametrize("bad", [np.float16, np.longdouble, np.int64, complex, object, "S8", bool, "no such type", 3])
def test_a_dtype_other_than_the_two_is_refused(bad):
    source = seeded()

    with pytest.raises(InvalidArrayType, match=r"^dtype must be float32 or float64"):
        source.laplace(3, scale=1.0, dtype=bad)

    assert_nothing_drawn(source)


@pytest.mark.parametrize(("bad", "error"), [(0, ValueError), (-1, ValueError), (10**9, ValueError), (1.0, TypeError)])
def test_a_number_of_threads_that_makes_no_sense_is_refused(bad, error):
    with pytest.raises(error, match=r"^threads must be an int"):
        seeded().gaussian(3, standard_deviation=1.0, threads=bad)


def test_positional_scales_and_misspelled_keywords_are_refused():
    with pytest.raises(TypeError):
        seeded().gaussian(3, 1.0)
    with pytest.raises(TypeError):
        seeded().gaussian(3, sigma=1.0)
    with pytest.raises(TypeError):
        seeded().laplace(3, standard_deviation=1.0)


def read_only():
    array = np.ones(4)
    array.flags.writeable = False
    return array


def unaligned():
    return np.frombuffer(bytearray(8 * 4 + 1), np.uint8)[1:].view(np.float64)


REFUSED_IN_PLACE = {
    "read-only": (read_only, InvalidArray),
    "strided": (lambda: np.ones(8)[::2], InvalidArray),
    "reversed": (lambda: np.ones(8)[::-1], InvalidArray),
    "transposed": (lambda: np.ones((2, 3)).T, InvalidArray),
    "broadcast": (lambda: np.broadcast_to(np.ones(1), (4,)), InvalidArray),
    "unaligned": (unaligned, InvalidArray),
    "byte-swapped": (lambda: np.ones(4, np.dtype(np.float64).newbyteorder()), InvalidArray),
    "half": (lambda: np.ones(4, np.float16), InvalidArrayType),
    "long double": (lambda: np.ones(4, np.longdouble), InvalidArrayType),
    "integers": (lambda: np.ones(4, np.int64), InvalidArrayType),
    "complex": (lambda: np.ones(4, complex), InvalidArrayType),
    "objects": (lambda: np.array([1.0, None]), InvalidArrayType),
    "strings": (lambda: np.array(["1"]), InvalidArrayType),
    "dates": (lambda: np.zeros(2, "M8[s]"), InvalidArrayType),
    "records": (lambda: np.zeros(2, [("a", "f8")]), InvalidArrayType),
    "masked": (lambda: np.ma.masked_array([1.0, 2.0], [True, False]), InvalidArrayType),
    "matrix": (lambda: np.ones((2, 2)).view(np.matrix), InvalidArrayType),
    "list": (lambda: [1.0, 2.0], InvalidArrayType),
    "number": (lambda: 1.0, InvalidArrayType),
    "None": (lambda: None, InvalidArrayType),
    "mapping": (lambda: {"a": np.ones(2)}, InvalidArrayType),
}


@pytest.mark.parametrize("case", REFUSED_IN_PLACE)
@pytest.mark.parametrize("law", LAWS)
def test_an_array_that_cannot_be_noised_in_place_is_refused(law, case):
    make, error = REFUSED_IN_PLACE[case]
    source, array = seeded(), make()

    with pytest.raises(error, match=r"^array must") as caught:
        getattr(source, f"add_{law}_")(array, **{LAWS[law]: 1.0})

    assert isinstance(caught.value, FerroError)
    assert_nothing_drawn(source)


ACCEPTED_IN_PLACE = {
    "float32": lambda: np.ones(4, np.float32),
    "float64": lambda: np.ones(4),
    "a matrix": lambda: np.ones((2, 3)),
    "no axis": lambda: np.ones(()),
    "empty": lambda: np.ones(0),
    "a view": lambda: np.ones(9)[2:5],
}
OPTIONS = [
    *(
        {"scale": scale}
        for scale in (2.0, 2, 0.0, -0.0, -1.0, math.nan, math.inf, 1e-300, 1e-200, 1e-150, 1e200, 1e300)
    ),
    *(
        {"scale": scale}
        for scale in (True, None, "1", Decimal("0.1"), Fraction(1, 3), np.float32(2), np.float64(2), [2.0])
    ),
    *({"scale": 2.0, "threads": threads} for threads in (None, 1, 256, 257, 0, -1, True, 1.0, "1", np.int64(2))),
    *({"scale": 2.0, "granularity": granularity} for granularity in (None, 0.25, 2.0**-20, 0.3, 8.0)),
    {"scale": 2.0, "granularity": 0.25, "threads": 1},
    {"scale": 2.0, "sigma": 1.0},
    {"scale": 2.0, "threads": 1, "sigma": 1.0},
    {"threads": 1},
    {},
]


@pytest.mark.parametrize("case", [*ACCEPTED_IN_PLACE, *REFUSED_IN_PLACE])
@pytest.mark.parametrize("law", LAWS)
def test_the_short_way_of_usual_calls_does_what_the_careful_one_does(law, case, monkeypatch):
    """The same native call, or the same error: a subclass of the same name goes the careful way."""
    careful = type("NoiseSource", (fd.NoiseSource,), {"__slots__": ()})()
    array = ACCEPTED_IN_PLACE[case]() if case in ACCEPTED_IN_PLACE else REFUSED_IN_PLACE[case][0]()
    calls = []
    monkeypatch.setattr(_native, "add_noise", lambda *arguments: calls.append(arguments))

    def outcome(source, *arguments, **options):
        options = {LAWS[law] if name == "scale" else name: value for name, value in options.items()}
        try:
            assert getattr(source, f"add_{law}_")(*arguments, **options) is None
        except (TypeError, ValueError) as error:
            return type(error), str(error)
        target, *others = calls.pop()
        return target is array, [(type(other), other) for other in others]

    for options in OPTIONS:
        for arguments in ((array,), (), (array, 2.0)):
            assert outcome(careful, *arguments, **options) == outcome(fd.NoiseSource(), *arguments, **options)
        assert outcome(careful, array=array, **options) == outcome(fd.NoiseSource(), array=array, **options)


def test_noise_is_added_in_place_and_nothing_is_returned():
    array = np.zeros((3, 4), np.float32)

    assert seeded().add_gaussian_(array, standard_deviation=1.0) is None
    assert (array != 0).all()  # P[N = 0] is below 2^-20 a value


def test_views_that_are_contiguous_are_noised_and_their_surroundings_are_not():
    """Rows of a matrix, at every alignment of a vector."""
    for start in range(9):
        array = np.zeros(64, np.float32)
        expected = seeded().gaussian(37, standard_deviation=1.0, dtype=np.float32)

        seeded().add_gaussian_(array[start : start + 37], standard_deviation=1.0)

        assert np.array_equal(expected, array[start : start + 37])
        assert not array[:start].any()
        assert not array[start + 37 :].any()


def test_a_fresh_source_is_private_and_a_seeded_one_says_that_it_is_not():
    assert fd.NoiseSource().is_private is True
    assert seeded().is_private is False
    assert "NOT PRIVATE" in repr(seeded())
    assert "NOT PRIVATE" in fd.testing.__doc__


def test_nothing_shows_a_seed():
    seed = b"a seed that must not be printed."
    source = fd.testing.seeded(seed)

    assert "must not be printed" not in repr(source) + str(source)


@pytest.mark.parametrize(
    ("bad", "error"), [(b"", ValueError), (bytes(31), ValueError), ("x" * 32, TypeError), (7, TypeError)]
)
def test_a_seed_has_32_bytes(bad, error):
    with pytest.raises(error, match=r"^seed must be 32 bytes"):
        fd.testing.seeded(bad)


def test_no_public_source_of_noise_takes_a_seed():
    with pytest.raises(TypeError):
        fd.NoiseSource(bytes(32))
    with pytest.raises(TypeError):
        fd.NoiseSource(seed=bytes(32))


def test_calls_of_a_seeded_source_differ_from_each_other():
    source = seeded()

    assert len({source.bytes(16) for _ in range(100)}) == 100


@pytest.mark.parametrize(("bad", "error"), [(-1, ValueError), (1.0, TypeError), (None, TypeError), ("1", TypeError)])
def test_a_number_of_bytes_that_makes_no_sense_is_refused(bad, error):
    with pytest.raises(error, match=r"^n must be an int"):
        seeded().bytes(bad)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 4097, 100_003])
def test_fresh_bytes_have_the_length_that_was_asked_for(n):
    assert len(fd.NoiseSource().bytes(n)) == n
