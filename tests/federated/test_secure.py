"""Sums under secure aggregation: bounded integers, enough noise from whoever finishes, exact decoding, no wrapping."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ferrodp as fd
from ferrodp.federated import SecureSum
from ferrodp.federated._moduli import MODULI

TEMPLATE = {"w": (3, 2), "b": [(5,), ()]}
SEED = bytes(range(32))


def secure(template=TEMPLATE, **changes):
    options = {"clip_norm": 0.7, "noise_multiplier": 1.0, "min_clients": 3, "max_clients": 12, "dtype": np.float32}
    return SecureSum(template, **(options | changes))


def update(scale, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        return {
            "w": (scale * rng.normal(size=(3, 2))).astype(dtype),
            "b": [(scale * rng.normal(size=5)).astype(dtype), np.asarray(scale * rng.normal(), dtype)],
        }


def flat(tree):
    return np.concatenate([tree["w"].ravel(), tree["b"][0], tree["b"][1].ravel()]).astype(np.float64)


def integers_of(config, value, seed=b"s" * 32):
    """What an update becomes: the message without its noise, which a seeded source draws twice."""
    zero = {"w": np.zeros((3, 2), np.float32), "b": [np.zeros(5, np.float32), np.zeros((), np.float32)]}
    ring = MODULI[config.modulus]
    bare = ring.centered(config.encode(zero, source=fd.testing.seeded(seed)))
    return ring.centered(config.encode(value, source=fd.testing.seeded(seed))) - bare


@given(
    scale=st.sampled_from([0.0, 1e-30, 0.01, 0.2, 0.3, 1.0, 1e5, 1e30, 1e38]),
    seed=st.integers(0, 1000),
    modulus=st.sampled_from(list(MODULI)),
    rotated=st.booleans(),
)
def test_no_update_is_longer_than_the_clip_norm_in_integers(scale, seed, modulus, rotated):
    config = secure(modulus=modulus, rotation_seed=SEED if rotated else None)
    integers = integers_of(config, update(scale, seed))

    squares = sum(int(k) ** 2 for k in integers)
    assert squares <= (Fraction(config.clip_norm) / Fraction(config.granularity)) ** 2
    if scale in (1.0, 1e5):  # of a longer update the whole norm is used, but for 12 to 16 truncations
        assert math.sqrt(squares) > config.clip_norm / config.granularity - 16


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rotated", [False, True])
def test_an_update_that_is_not_finite_counts_as_zeros_and_brings_its_noise(bad, rotated):
    config = secure(rotation_seed=SEED if rotated else None)
    value = update(0.1)
    value["b"][0][2] = bad

    assert not integers_of(config, value).any()
    assert config.encode(value).any()


@pytest.mark.parametrize("modulus", MODULI)
@pytest.mark.parametrize("rotated", [False, True])
def test_sums_decode_exactly_but_for_noise_and_grid(modulus, rotated):
    config = secure(modulus=modulus, rotation_seed=SEED if rotated else None, noise_multiplier=1e-3)
    updates = [update(0.1, seed) for seed in range(7)]
    total = config.zero()
    for each in updates:
        config.add(total, config.encode(each))
    result = config.decode(total, num_clients=7)

    clipped = [fd.clip_by_global_norm(each, clip_norm=0.7)[0] for each in updates]
    expected = sum(flat(each) for each in clipped)
    # 9 standard deviations of noise: 2.3e-19 a value; truncations of 7 updates; roundings to float32, in the rotation.
    allowed = 9 * result.standard_deviation + 7 * 16 * config.granularity + 1e-5
    assert np.abs(flat(result.value) - expected).max() < allowed
    assert (result.num_clients, result.value["w"].dtype, result.value["b"][1].shape) == (7, np.float32, ())


def test_a_denominator_divides():
    config = secure((2,), noise_multiplier=1e-3)
    total = config.zero()
    for _ in range(4):
        config.add(total, config.encode(np.full(2, 0.4, np.float32)))
    whole, mean = config.decode(total, num_clients=4), config.decode(total, num_clients=4, denominator=4)

    assert np.allclose(whole.value / 4, mean.value, rtol=1e-6)


# ------------------------------------------------------------------------------------------------------ noise


def test_every_message_has_its_share_of_noise():
    """The sum of squares of 20 000 values, against 7 standard deviations of it: 3e-12 for each of two moduli."""
    for modulus in ("uint32", "field128"):
        config = secure((20_000,), modulus=modulus)
        noise = MODULI[modulus].centered(config.encode(np.zeros(20_000, np.float32))).astype(float)
        ratio = np.sum(np.square(noise)) / (20_000 * config.share_scale**2)

        assert abs(ratio - 1) < 7 * math.sqrt(2 / 20_000)
        least = config.noise_multiplier * config.clip_norm / config.granularity
        assert config.share_scale * math.sqrt(config.min_clients) >= least * (1 - 1e-15)


@given(
    noise_multiplier=st.floats(0.01, 100),
    min_clients=st.integers(1, 10**6),
    clip_norm=st.floats(1e-6, 1e6),
)
def test_the_least_number_of_shares_is_never_less_than_the_stated_noise(noise_multiplier, min_clients, clip_norm):
    config = secure(
        (10,), clip_norm=clip_norm, noise_multiplier=noise_multiplier, min_clients=min_clients, max_clients=2 * 10**6,
        modulus="uint64",
    )  # fmt: skip
    steps = Fraction(clip_norm) / Fraction(config.granularity)

    assert Fraction(config.share_scale) ** 2 * min_clients >= (Fraction(noise_multiplier) * steps) ** 2


def test_of_ten_thousand_patterns_of_dropouts_none_is_released_with_too_little_noise():
    """Each pattern: who finishes, and who of them is dishonest and adds nothing.

    Zeros are summed: all that is seen is noise, whose squares over all patterns of one number of honest clients are
    compared with their variance.
    """
    config = secure((4,), min_clients=5, num_dishonest=2, max_clients=12)
    rng = np.random.default_rng(7)
    zero = np.zeros(4, np.float32)
    messages = np.stack([config.encode(zero) for _ in range(2000)])
    bare = np.zeros(config.length, np.uint32)
    least = config.noise_multiplier * config.clip_norm
    seen, refused = {}, 0
    for _ in range(10_000):
        finished = rng.random(12) < rng.uniform(0.2, 1.0)
        dishonest = np.zeros(12, bool)
        dishonest[rng.choice(12, size=rng.integers(0, 3), replace=False)] = True
        total = config.zero()
        for honest in (finished & ~dishonest)[finished]:
            config.add(total, messages[rng.integers(2000)] if honest else bare)
        count, honest = int(finished.sum()), int((finished & ~dishonest).sum())
        if count < 7:
            refused += 1
            with pytest.raises(fd.errors.FerroError, match="noise may be too small"):
                config.decode(total, num_clients=count)
            continue
        result = config.decode(total, num_clients=count)
        assert honest >= 5
        assert (config.share_scale * config.granularity) ** 2 * honest >= least**2 * (1 - 1e-12)
        assert result.surplus_variance == pytest.approx((count / 5 - 1) * least**2, rel=1e-9)
        seen.setdefault(honest, []).append(result.value)

    assert 500 < refused < 9500
    for honest, values in seen.items():
        if len(values) < 100:
            continue
        squares = np.square(np.array(values, dtype=float)).sum(axis=1)
        ratio = squares.mean() / (4 * (config.share_scale * config.granularity) ** 2 * honest)
        # The 2000 messages that all sums are made of limit this: 8000 squares, 7 standard deviations and their mixing.
        assert ratio > 1 - 7 * math.sqrt(2 / 8000) - 7 * math.sqrt(2 / (4 * len(values)))


def test_more_clients_than_were_planned_for_are_refused():
    config = secure((4,))
    with pytest.raises(fd.errors.FerroError, match="at most 12 clients"):
        config.decode(config.zero(), num_clients=13)


# ------------------------------------------------------------------------------------------------------ the range


@given(
    max_clients=st.integers(1, 10**7),
    noise_multiplier=st.floats(0.01, 50),
    clip_norm=st.floats(1e-3, 1e3),
    modulus=st.sampled_from(list(MODULI)),
)
def test_what_is_accepted_cannot_wrap_and_no_finer_grid_could_be_had(max_clients, noise_multiplier, clip_norm, modulus):
    def beyond(granularity, share_scale):
        steps = math.floor(Fraction(clip_norm) / Fraction(granularity))
        tail = share_scale * math.sqrt(2 * max_clients * math.log(2 * 1000 / 2.0**-40))
        return steps * max_clients + tail

    half = min((MODULI[modulus].value - 1) // 2, 2**62)
    try:
        config = secure(
            (1000,), clip_norm=clip_norm, noise_multiplier=noise_multiplier, max_clients=max_clients, min_clients=1,
            modulus=modulus,
        )  # fmt: skip
    except fd.errors.InvalidParameter:
        steps = 16.0  # on the coarsest grid that is tried
        assert beyond(clip_norm / steps, noise_multiplier * steps) > half / 2.1
        return
    assert beyond(config.granularity, config.share_scale) <= half
    finest = clip_norm / config.granularity >= 2**29
    assert finest or beyond(config.granularity / 2, config.share_scale * 2) > half * (1 - 1e-6)


def test_a_sum_at_the_edge_of_its_range_comes_back():
    config = secure((1,), clip_norm=1.0, noise_multiplier=0.01, min_clients=100, max_clients=100)
    for sign in (1, -1):
        total = config.zero()
        for _ in range(100):
            config.add(total, config.encode(np.full(1, sign, np.float32)))

        assert abs(config.decode(total, num_clients=100).value[0] - sign * 100) < 0.2  # 9 standard deviations are 0.09


def test_sums_that_could_wrap_are_refused():
    for changes in ({"max_clients": 2**31}, {"noise_multiplier": 1e7}):
        with pytest.raises(fd.errors.InvalidParameter, match="modulus must be larger"):
            secure(**changes)
        assert secure(modulus="field128", **changes).length == 24


# ------------------------------------------------------------------------------------------------------ cost


def test_the_event_counts_only_the_least_number_of_honest_shares():
    config = secure(num_dishonest=4, rotation_seed=SEED)
    event = config.event

    assert (event.num_shares, event.share_scale, event.dimension) == (3, config.share_scale, 16)
    assert event.l2_sensitivity == config.clip_norm / config.granularity
    replaced = secure(neighboring_relation=fd.events.NeighboringRelation.REPLACE_ONE)
    assert replaced.event.l2_sensitivity == 2 * event.l2_sensitivity


def test_epsilon_is_that_of_the_event_with_the_chance_of_wrapping_taken_off_delta():
    config = secure(wrap_probability=1e-7)
    accountant = fd.accounting.PldAccountant(neighboring_relation=config.neighboring_relation)
    accountant.compose(config.event, 3)

    assert accountant.epsilon(7e-7) <= config.epsilon(1e-6, count=3) <= accountant.epsilon(7e-7 - 1e-15)
    assert config.epsilon(1e-6) >= 0.999 * fd.accounting.gaussian_epsilon(noise_multiplier=1.0, delta=1e-6)
    with pytest.raises(fd.errors.InvalidParameter, match="above 10 times wrap_probability"):
        config.epsilon(1e-6, count=10)


# ------------------------------------------------------------------------------------------------------ on the wire


@pytest.mark.parametrize(
    ("modulus", "value", "encoded"),
    [
        ("uint32", -2, "feffffff"),
        ("uint64", -2, "feffffffffffffff"),
        ("field64", 1, "0100000000000000"),
        ("field64", -1, "00000000ffffffff"),
        ("field64", -(2**32), "0100000 0feffffff".replace(" ", "")),
        ("field128", 1, "01000000000000000000000000000000"),
        ("field128", -1, "0000000000000000e4ffffffffffffff"),
        ("field128", -2, "ffffffffffffffffe3ffffffffffffff"),
    ],
)
def test_elements_are_encoded_as_prio3_does(modulus, value, encoded):
    """Little-endian bytes of value mod m, by arithmetic in Python."""
    ring = MODULI[modulus]
    residues = ring.reduced(np.array([value], np.int64))
    width = len(encoded) // 2

    assert ring.to_bytes(residues).hex() == encoded == (value % ring.value).to_bytes(width, "little").hex()


@pytest.mark.parametrize("modulus", MODULI)
@pytest.mark.parametrize("size", [0, 1, 1 << 14, (1 << 14) + 1, 50_000])
def test_residues_in_the_memory_of_integers_are_the_same(modulus, size):
    integers = np.random.default_rng(size).integers(-(2**30), 2**30, size)
    expected = MODULI[modulus].reduced(integers)

    assert np.array_equal(MODULI[modulus].reduced(integers, reuse=True), expected)


@pytest.mark.parametrize("modulus", MODULI)
def test_messages_survive_the_wire_byte_by_byte(modulus):
    config = secure(modulus=modulus, rotation_seed=SEED)
    message = config.encode(update(1.0))
    data = config.to_bytes(message)

    assert np.array_equal(config.from_bytes(data), message)
    assert len(data) == 16 * {"uint32": 4, "uint64": 8, "field64": 8, "field128": 16}[modulus]
    ring, width = MODULI[modulus], len(data) // 16
    numbers = [int.from_bytes(data[i : i + width], "little") for i in range(0, len(data), width)]
    centered = [n - ring.value if n > ring.value // 2 else n for n in numbers]
    assert centered == ring.centered(message).tolist()
    for wrong in (data[:-1], data + bytes(width), b""):
        with pytest.raises((fd.errors.InvalidParameter, fd.errors.InvalidArray)):
            config.from_bytes(wrong)


def test_sums_of_int64_as_one_shot_servers_take_them_are_those_of_uint64():
    config = secure(modulus="uint64")
    messages = [config.encode(update(0.2, seed)) for seed in range(5)]
    by_server = sum(message.view(np.int64) for message in messages)
    total = config.zero()
    for message in messages:
        config.add(total, message)

    assert np.array_equal(by_server.view(np.uint64), total)


@pytest.mark.parametrize("modulus", ["field64", "field128"])
def test_elements_that_are_no_residues_are_refused_and_nothing_is_added(modulus):
    config = secure(modulus=modulus)
    bad = np.full(config.length, 2**64 - 1, np.uint64)
    total = config.zero()
    with pytest.raises(fd.errors.InvalidParameter, match="not below the modulus"):
        config.add(total, bad)
    with pytest.raises(fd.errors.InvalidParameter, match="not below the modulus"):
        config.decode(bad, num_clients=5)

    assert not total.any()


@pytest.mark.parametrize(
    "message", [None, [0] * 12, np.zeros(12), np.zeros(11, np.uint32), np.zeros((12, 1), np.uint32)]
)
def test_what_is_no_message_is_refused(message):
    config = secure()
    with pytest.raises(fd.errors.InvalidArray, match="message must"):
        config.add(config.zero(), message)
    with pytest.raises(fd.errors.InvalidArray, match="message must"):
        config.decode(message, num_clients=5)


@given(
    modulus=st.sampled_from(list(MODULI)),
    rotated=st.booleans(),
    relation=st.sampled_from(["replace_special", "replace_one"]),
    clip_norm=st.floats(1e-3, 1e3),
)
def test_clients_have_the_server_s_configuration(modulus, rotated, relation, clip_norm):
    config = secure(
        modulus=modulus,
        rotation_seed=SEED if rotated else None,
        clip_norm=clip_norm,
        neighboring_relation=fd.events.NeighboringRelation(relation),
    )
    client = SecureSum.from_json(config.to_json())

    assert client.to_json() == config.to_json()
    assert (client.event, client.granularity, client.length) == (config.event, config.granularity, config.length)
    source = b"k" * 32
    messages = [each.encode(update(1.0), source=fd.testing.seeded(source)) for each in (config, client)]
    assert np.array_equal(*messages)


@pytest.mark.parametrize("change", [{"version": 2}, {"format": "x"}, {"clip_norm": 1}, {"modulus": None}, {"more": 1}])
def test_other_texts_are_refused(change):
    plain = json.loads(secure().to_json()) | change
    with pytest.raises((fd.errors.InvalidParameter, fd.errors.InvalidType)):
        SecureSum.from_json(json.dumps(plain))
    for text in ("", "[]", "{}", "nothing"):
        with pytest.raises(fd.errors.InvalidParameter, match="to_json"):
            SecureSum.from_json(text)


@pytest.mark.parametrize(
    "changes",
    [
        {"clip_norm": 0.0},
        {"noise_multiplier": -1.0},
        {"min_clients": 0},
        {"min_clients": 13},
        {"num_dishonest": 10},
        {"num_dishonest": -1},
        {"modulus": "uint16"},
        {"modulus": 2**32},
        {"rotation_seed": b"short"},
        {"rotation_seed": 5},
        {"wrap_probability": 0.0},
        {"wrap_probability": 0.1},
        {"neighboring_relation": fd.events.NeighboringRelation.ADD_OR_REMOVE_ONE},
        {"template": (0,)},
    ],
)
def test_configurations_that_are_not_accepted_are_refused(changes):
    with pytest.raises((fd.errors.InvalidParameter, fd.errors.InvalidType)):
        secure(**changes)


def test_a_rotation_spreads_a_single_coordinate():
    config = secure((1024,), rotation_seed=SEED, clip_norm=1.0, noise_multiplier=1e-3)
    one = np.zeros(1024, np.float32)
    one[3] = 1.0
    ring = MODULI["uint32"]
    zero = ring.centered(config.encode(one * 0, source=fd.testing.seeded(SEED)))
    integers = ring.centered(config.encode(one, source=fd.testing.seeded(SEED))) - zero

    assert np.abs(np.abs(integers) * config.granularity - 1 / 32).max() < 1e-6
