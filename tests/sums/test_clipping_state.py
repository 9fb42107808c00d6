"""States of accumulators: they come back as they were, and nothing else is taken for one."""

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ferrodp as fd
from ferrodp.sums import _state as _sum_state

TEMPLATE = {"dense": {"w": (2, 3), 5: (3,)}, "more": [(), (0,), ((4,), (1, 1))]}


def updates(n, dtype, seed=1):
    rng = np.random.default_rng(seed)

    def leaf(*shape):
        return rng.normal(size=(n, *shape)).astype(dtype)

    return {"dense": {"w": leaf(2, 3), 5: leaf(3)}, "more": [leaf(), leaf(0), (leaf(4), leaf(1, 1))]}


def filled(dtype=np.float32, n=7, seed=1):
    acc = fd.ClippedSum(TEMPLATE, clip_norm=0.7, dtype=dtype)
    acc.add_many(updates(n, dtype, seed))
    return acc


def flat(acc):
    integers = acc.integers
    leaves = [integers["dense"]["w"], integers["dense"][5], *integers["more"][:2], *integers["more"][2]]
    return np.concatenate([leaf.ravel() for leaf in leaves]).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_restored_sum_is_the_sum(dtype):
    acc = filled(dtype)
    restored = fd.ClippedSum.from_state(acc.state())

    assert flat(restored) == flat(acc)
    assert (restored.count, restored.clip_norm, restored.dtype) == (7, 0.7, np.dtype(dtype))
    assert restored.granularity == acc.granularity
    assert restored.state() == acc.state()
    seed = bytes(range(32))
    ours, theirs = (a.release(noise_multiplier=1.0, source=fd.testing.seeded(seed)) for a in (acc, restored))
    assert (ours["dense"]["w"] == theirs["dense"]["w"]).all()
    assert isinstance(theirs["more"][2], tuple)


def test_parts_from_other_machines_merge_into_the_whole():
    whole = filled(n=5)
    whole.add_many(updates(4, np.float32, seed=2))
    part = filled(n=5)

    part.merge(fd.ClippedSum.from_state(filled(n=4, seed=2).state()))

    assert (flat(part), part.count) == (flat(whole), 9)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_any_bytes_will_do(wrap):
    acc = fd.ClippedSum((), clip_norm=1.0)

    assert fd.ClippedSum.from_state(wrap(acc.state())).integers.shape == ()


def test_every_altered_byte_is_noticed():
    state = filled().state()
    for i in range(len(state)):
        for flip in (1, 0x80, 0xFF):
            altered = bytearray(state)
            altered[i] ^= flip
            with pytest.raises(fd.errors.InvalidParameter, match="state must be what"):
                fd.ClippedSum.from_state(altered)


def test_every_cut_is_noticed():
    state = filled().state()
    for length in range(len(state)):
        with pytest.raises(fd.errors.InvalidParameter, match="state must be what"):
            fd.ClippedSum.from_state(state[:length])
    for tail in (b"\0", bytes(8), state):
        with pytest.raises(fd.errors.InvalidParameter, match="state must be what"):
            fd.ClippedSum.from_state(state + tail)


@given(st.binary(max_size=300))
def test_random_bytes_are_no_state(data):
    for forged in (data, _sum_state.MAGIC + data, signed(_sum_state.MAGIC + data)):
        with pytest.raises(fd.errors.InvalidParameter, match="state must be what"):
            fd.ClippedSum.from_state(forged)


@pytest.mark.parametrize("value", [None, "state", 5, [1, 2], np.zeros(100)])
def test_what_is_no_bytes_is_refused(value):
    with pytest.raises(fd.errors.InvalidType, match="state must be bytes"):
        fd.ClippedSum.from_state(value)


def signed(body):
    return body + hashlib.sha256(body).digest()


FIELDS = ["version", "dtype", "clip_norm", "stability", "count", "within_bound", "template"]
"""In the order in which they are written."""


def forged(payload=bytes(24), raw=None, **changes):
    """A state with a right checksum and these changes, which no accumulator wrote."""
    header = {"version": 1, "dtype": "float32", "clip_norm": (1.0).hex(), "count": 1, "template": [3]} | changes
    ordered = sorted(header.items(), key=lambda item: FIELDS.index(item[0]) if item[0] in FIELDS else -1)
    text = (
        json.dumps({k: v for k, v in ordered if v is not ...}, separators=(",", ":")).encode() if raw is None else raw
    )
    return signed(_sum_state.MAGIC + len(text).to_bytes(4, "little") + text + payload)


def nested(depth, leaf):
    for _ in range(depth):
        leaf = {"kind": "list", "children": [leaf]}
    return leaf


SECOND = {"version": 2, "stability": None, "within_bound": 1}
"""What version 2 has besides."""

FORGERIES = {
    "newer": forged(version=3),
    "fields of version 2 in version 1": forged(stability=None, within_bound=1),
    "version 2 without a field": forged(version=2, stability=None),
    "stability a number": forged(**SECOND | {"stability": 0.5}),
    "stability no number": forged(**SECOND | {"stability": "half"}),
    "within_bound negative": forged(**SECOND | {"within_bound": -1}),
    "within_bound above the count": forged(**SECOND | {"within_bound": 2}),
    "within_bound a bool": forged(**SECOND | {"within_bound": True}),
    "within_bound a float": forged(**SECOND | {"within_bound": 1.0}),
    "version a list": forged(version=[1]),
    "version a float": forged(**SECOND | {"version": 2.0}),
    "version a bool": forged(version=True),
    "clip_norm written otherwise": forged(clip_norm="1e400"),
    "clip_norm with fewer digits": forged(clip_norm="0x1p0"),
    "clip_norm in capitals": forged(clip_norm=(1.0).hex().upper()),
    "stability written otherwise": forged(**SECOND | {"stability": "0x1p-7"}),
    "fields in another order": forged(
        raw=b'{"dtype":"float32","version":1,"clip_norm":"0x1.0000000000000p+0","count":1,"template":[3]}'
    ),
    "spaces between fields": forged(
        raw=b'{"version": 1,"dtype":"float32","clip_norm":"0x1.0000000000000p+0","count":1,"template":[3]}'
    ),
    "a field twice": forged(
        raw=b'{"version":1,"dtype":"float32","clip_norm":"0x1p9","clip_norm":"0x1.0000000000000p+0","count":1,'
        b'"template":[3]}'
    ),
    "an escaped letter": forged(
        raw=b'{"version":1,"dtype":"float32","clip_norm":"0x1.0000000000000p+0","count":1,"template":[3]}'.replace(
            b"count", b"c\\u006funt"
        )
    ),
    "no version": forged(version=...),
    "another field": forged(extra=1),
    "no count": forged(count=...),
    "other dtype": forged(dtype="int64"),
    "dtype of another type": forged(dtype=["float32"]),
    "count negative": forged(count=-1),
    "count no int": forged(count=1.0),
    "count a bool": forged(count=True),
    "count huge": forged(count=2**70),
    "clip_norm a number": forged(clip_norm=1.0),
    "clip_norm no number": forged(clip_norm="one"),
    "clip_norm overflows": forged(clip_norm="0x1p99999"),
    "shape too large": forged(template=[2**62, 2**62]),
    "shape beyond memory": forged(template=[10**12]),
    "shape negative": forged(template=[-3]),
    "shape of bools": forged(template=[True, 3]),
    "shape of floats": forged(template=[3.0]),
    "shape of 65 dimensions": forged(template=[1] * 64 + [3]),
    "no leaves": forged(b"", template={"kind": "list", "children": []}),
    "template a number": forged(template=3),
    "template null": forged(template=None),
    "unknown kind": forged(template={"kind": "set", "children": [[3]]}),
    "kind of another type": forged(template={"kind": [], "children": [[3]]}),
    "children no list": forged(template={"kind": "list", "children": {"0": [3]}}),
    "keys of a list": forged(template={"kind": "list", "children": [[3]], "keys": [0]}),
    "keys missing": forged(template={"kind": "dict", "children": [[3]]}),
    "too many keys": forged(template={"kind": "dict", "children": [[3]], "keys": ["a", "b"]}),
    "equal keys": forged(template={"kind": "dict", "children": [[1], [2]], "keys": ["a", "a"]}),
    "keys that are lists": forged(template={"kind": "dict", "children": [[3]], "keys": [[]]}),
    "keys that are floats": forged(template={"kind": "dict", "children": [[3]], "keys": [1.5]}),
    "shape that numpy has not, of no elements": forged(b"", template=[2**62, 0, 2**62]),
    "nested too deeply": forged(template=nested(65, [3])),
    "payload too short": forged(bytes(16)),
    "payload too long": forged(bytes(32)),
    "payload no integers": forged(bytes(23)),
    "header no JSON": forged(raw=b"{"),
    "header no object": forged(raw=b"[]"),
    "header no text": forged(raw=b"\xff\xfe"),
    "header of brackets": forged(raw=b"[" * 100_000),
    "header with huge number": forged(raw=b'{"version":' + b"1" * 5000 + b"}"),
}


@pytest.mark.parametrize("state", FORGERIES.values(), ids=FORGERIES)
def test_forgeries_are_refused_though_their_checksum_is_right(state):
    with pytest.raises(fd.errors.InvalidParameter, match="state must be what"):
        fd.ClippedSum.from_state(state)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (forged(clip_norm="nan"), "clip_norm must be"),
        (forged(clip_norm=(-1.0).hex()), "clip_norm must be"),
        (forged(clip_norm=(2.0**200).hex()), "clip_norm must be"),
        (forged(**SECOND | {"stability": "nan"}), "stability must be"),
        (forged(**SECOND | {"stability": (0.0).hex()}), "stability must be"),
        (forged(**SECOND | {"stability": (2.0**128).hex()}), "stability must be at least"),
        (forged(count=2**32 + 1), "too many rows"),
        (forged((2**30).to_bytes(8, "little") + bytes(16)), "too large for so many rows"),
        (forged((-(2**63)).to_bytes(8, "little", signed=True) + bytes(16)), "too large for so many rows"),
        (forged((1).to_bytes(8, "little") + bytes(16), count=0), "too large for so many rows"),
    ],
)
def test_impossible_sums_are_refused(state, message):
    with pytest.raises(fd.errors.InvalidParameter, match=message):
        fd.ClippedSum.from_state(state)


def test_a_plain_forgery_is_well_formed():
    """What the forgeries above start from is a state, so each is refused for its own change."""
    assert fd.ClippedSum.from_state(forged()).integers.tolist() == [0, 0, 0]
    assert fd.ClippedSum.from_state(forged(**SECOND)).within_bound == 1
    assert fd.ClippedSum.from_state(forged(**SECOND | {"stability": (2.0**-7).hex()})).stability == 2.0**-7
    assert fd.ClippedSum.from_state(forged(template=nested(64, [3]))).count == 1


def test_the_largest_count_is_full():
    acc = fd.ClippedSum.from_state(forged(count=2**32))
    with pytest.raises(fd.errors.InvalidParameter, match="at most 4294967296 rows"):
        acc.add(np.zeros(3, np.float32))
    with pytest.raises(fd.errors.InvalidParameter, match="at most 4294967296 rows"):
        acc.merge(fd.ClippedSum.from_state(forged(count=1)))
    almost = fd.ClippedSum.from_state(forged(count=2**32 - 2))
    almost.add_many(np.zeros((2, 3), np.float32))

    assert almost.count == 2**32
    with pytest.raises(fd.errors.InvalidParameter, match="rows without risk of overflow"):
        almost.add_many(np.zeros((2, 3), np.float32))


@pytest.mark.parametrize(("stability", "written"), [(None, b"null"), (0.25, b'"0x1.0000000000000p-2"')])
def test_the_layout_of_states_is_pinned(stability, written):
    """Changing it is allowed with a new version number; states of all versions are read."""
    acc = fd.ClippedSum({"a": (2,)}, clip_norm=0.5, stability=stability, dtype=np.float32)
    acc.add({"a": np.array([0.25, -0.125], np.float32)})

    header = (
        b'{"version":2,"dtype":"float32","clip_norm":"0x1.0000000000000p-1","stability":' + written + b',"count":1,'
        b'"within_bound":1,"template":{"kind":"dict","children":[[2]],"keys":["a"]}}'
    )
    row = [2**28, -(2**27)] if stability is None else acc.integers["a"].tolist()
    integers = np.array(row, "<i8").tobytes()
    assert acc.state() == signed(b"ferrodp-sum\x00" + len(header).to_bytes(4, "little") + header + integers)
