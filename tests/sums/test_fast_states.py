"""States with the fast checksum: the same sums, read and merged at memory speed, and nothing else taken for one."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ferrodp as fd
from ferrodp import _native
from ferrodp.sums import _state as _sum_state

TEMPLATE = {"dense": {"w": (2, 3), 5: (3,)}, "more": [(), (0,), ((4,), (1, 1))]}
K, WORD = 0x9E3779B97F4A7C15, (1 << 64) - 1


def step(h, word):
    mixed = ((h ^ word) * K) & WORD
    return mixed ^ (mixed >> 32)


def checksum(message):
    """The checksum, from its description."""
    lanes = [K * (i + 1) & WORD for i in range(16)]
    padded = message + bytes(-len(message) % 128)
    for i in range(0, len(padded), 8):
        lanes[i // 8 % 16] = step(lanes[i // 8 % 16], int.from_bytes(padded[i : i + 8], "little"))
    h = step(K, len(message))
    for lane in lanes:
        h = step(h, lane)
    return h


def sealed(message):
    return message + checksum(message).to_bytes(8, "little")


def filled(n=7, seed=1, template=TEMPLATE, clip_norm=0.7):
    acc = fd.ClippedSum(template, clip_norm=clip_norm, dtype=np.float32)
    rng = np.random.default_rng(seed)

    def like(shape):
        if isinstance(shape, dict):
            return {key: like(child) for key, child in shape.items()}
        if isinstance(shape, list) or any(isinstance(child, tuple) for child in shape):
            return [like(child) for child in shape]
        return rng.normal(size=shape).astype(np.float32)

    for _ in range(n):
        acc.add(like(template))
    return acc


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_both_kinds_of_state_hold_the_same_sum(wrap):
    acc = filled()

    restored = fd.ClippedSum.from_state(wrap(acc.state(checksum="fast")))

    assert restored.state() == acc.state()
    assert restored.state(checksum="fast") == acc.state(checksum="fast")


@given(parts=st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["sha256", "fast"])), min_size=1, max_size=5))
def test_states_merge_into_the_whole_in_any_order(parts):
    whole = filled(n=0)
    for seed, (n, _) in enumerate(parts):
        whole.merge(filled(n, seed))

    joined = filled(n=0)
    for seed, (n, kind) in reversed(list(enumerate(parts))):
        joined.merge_state(filled(n, seed).state(checksum=kind))

    assert joined.state() == whole.state()
    assert joined.count == sum(n for n, _ in parts)


def test_every_altered_byte_and_every_cut_is_noticed():
    state = filled().state(checksum="fast")
    acc = filled(n=2)
    before = acc.state()
    for i in range(len(state)):
        for flip in (1, 0x80, 0xFF):
            altered = bytearray(state)
            altered[i] ^= flip
            with pytest.raises(fd.errors.InvalidParameter, match="state must be what"):
                acc.merge_state(altered)
        with pytest.raises(fd.errors.InvalidParameter, match="state must be what"):
            acc.merge_state(state[:i])
    for tail in (b"\0", bytes(8), state):
        with pytest.raises(fd.errors.InvalidParameter, match="state must be what"):
            acc.merge_state(state + tail)

    assert acc.state() == before


def test_flipped_high_bits_of_two_words_are_noticed():
    """What a plain sum of words modulo 2⁶⁴, even with weights, would miss."""
    state = bytearray(filled(template=(64,)).state(checksum="fast"))
    for distance in (8, 16, 128, 256):
        altered = bytearray(state)
        altered[135] ^= 0x80
        altered[135 + distance] ^= 0x80
        with pytest.raises(fd.errors.InvalidParameter, match="checksum"):
            fd.ClippedSum.from_state(altered)


def test_the_layout_of_fast_states_is_pinned():
    acc = fd.ClippedSum({"a": (2,)}, clip_norm=0.5, dtype=np.float32)
    acc.add({"a": np.array([0.25, -0.125], np.float32)})

    header = (
        b'{"version":2,"dtype":"float32","clip_norm":"0x1.0000000000000p-1","stability":null,'
        b'"template":{"kind":"dict","children":[[2]],"keys":["a"]}}'
    ).ljust(256 - 12 - 4 - 16)
    numbers = np.array([1, 1, 2**28, -(2**27)], "<i8").tobytes()
    assert acc.state(checksum="fast") == sealed(
        b"ferrodp-sum\x02" + len(header).to_bytes(4, "little") + header + numbers
    )


def forged(payload=bytes(24), count=1, within=1, raw=None, padded=True, **changes):
    header = {"version": 2, "dtype": "float32", "clip_norm": (1.0).hex(), "stability": None, "template": [3]} | changes
    text = json.dumps({k: v for k, v in header.items() if v is not ...}, separators=(",", ":")).encode()
    text = (text if raw is None else raw).ljust(256 - 12 - 4 - 16 if padded else 0)
    numbers = b"".join(n.to_bytes(8, "little", signed=n < 0) for n in (count, within)) + payload
    return sealed(_sum_state.FAST_MAGIC + len(text).to_bytes(4, "little") + text + numbers)


@pytest.mark.parametrize(
    "state",
    [
        forged(version=1),
        forged(version=3),
        forged(version=...),
        forged(extra=1),
        forged(stability=...),
        forged(stability=0.5),
        forged(version=2.0),
        forged(clip_norm="1e400"),
        forged(padded=False),
        forged(count=1, within=2),
        forged(count=0, within=-2),
        *(
            forged(
                raw=b'{"version":2,"dtype":"float32","clip_norm":"0x1p0","stability":null,"%s":1,"template":[3]}' % name
            )
            for name in (b"count", b"within_bound")
        ),
        forged(count=-1),
        forged(dtype="int64"),
        forged(clip_norm="one"),
        forged(template=[2**62, 2**62]),
        forged(bytes(16)),
        forged(bytes(25)),
        forged(raw=b"{"),
        forged(raw=b"[]"),
        sealed(_sum_state.FAST_MAGIC),
        sealed(_sum_state.FAST_MAGIC + (100).to_bytes(4, "little") + bytes(50)),
        sealed(_sum_state.FAST_MAGIC + (2**32 - 1).to_bytes(4, "little") + bytes(50)),
    ],
)
def test_forgeries_are_refused_though_their_checksum_is_right(state):
    assert _native.has_checksum(state)
    with pytest.raises(fd.errors.InvalidParameter, match="state must be what"):
        fd.ClippedSum.from_state(state)


def test_a_plain_forgery_is_well_formed():
    """What the forgeries above start from is a state, so each is refused for its own change."""
    assert fd.ClippedSum.from_state(forged()).count == 1
    assert fd.ClippedSum.from_state(forged(count=5)).count == 5
    assert fd.ClippedSum.from_state(forged(count=5, within=3)).within_bound == 3
    assert fd.ClippedSum.from_state(forged(stability=(2.0**-7).hex())).stability == 2.0**-7


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (forged(count=2**32 + 1), "too many rows"),
        (forged((2**30).to_bytes(8, "little") + bytes(16)), "too large for so many rows"),
        (forged((-(2**63)).to_bytes(8, "little", signed=True) + bytes(16)), "too large for so many rows"),
    ],
)
def test_impossible_sums_are_neither_opened_nor_merged(state, message):
    acc = fd.ClippedSum((3,), clip_norm=1.0, dtype=np.float32)
    with pytest.raises(fd.errors.InvalidParameter, match=message):
        fd.ClippedSum.from_state(state)
    with pytest.raises(fd.errors.InvalidParameter, match=message):
        acc.merge_state(state)

    assert (acc.count, acc.integers.tolist()) == (0, [0, 0, 0])


@pytest.mark.parametrize("kind", ["sha256", "fast"])
def test_states_of_other_sums_are_refused(kind):
    acc = filled(n=1)
    for other in (
        fd.ClippedSum(TEMPLATE, clip_norm=0.70001, dtype=np.float32),
        fd.ClippedSum(TEMPLATE, clip_norm=0.7, dtype=np.float64),
        fd.ClippedSum((15,), clip_norm=0.7, dtype=np.float32),
        fd.ClippedSum(TEMPLATE, clip_norm=0.7, stability=0.5, dtype=np.float32),
    ):
        with pytest.raises(fd.errors.InvalidParameter, match="state must be of a sum with the template"):
            acc.merge_state(other.state(checksum=kind))

    assert acc.count == 1


def test_no_more_rows_are_merged_than_a_sum_holds():
    full = fd.ClippedSum.from_state(forged(count=2**32))
    with pytest.raises(fd.errors.InvalidParameter, match="at most 4294967296 rows"):
        full.merge_state(forged())
    assert full.count == 2**32


def test_a_released_sum_has_no_state_and_takes_none():
    acc = filled()
    state = acc.state(checksum="fast")
    acc.release(noise_multiplier=1.0)

    for use in (lambda: acc.state(checksum="fast"), lambda: acc.merge_state(state)):
        with pytest.raises(fd.errors.FerroError, match="has been released"):
            use()


@pytest.mark.parametrize("checksum", ["md5", "", None, 1, []])
def test_other_checksums_are_refused(checksum):
    with pytest.raises(fd.errors.InvalidParameter, match="'sha256' or 'fast'"):
        filled().state(checksum=checksum)
