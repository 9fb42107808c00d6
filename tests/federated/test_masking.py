"""The reference protocol of secure aggregation: exact sums whoever drops out, and a server that sees only noise."""

import numpy as np
import pytest

pytest.importorskip("cryptography")

from cryptography.exceptions import InvalidTag

import ferrodp as fd
from ferrodp.federated import masking
from ferrodp.federated._moduli import MODULI

INTEGERS = np.array([0, 1, -1, 5, -7, 2**30, -(2**30)], np.int64)


def vectors(modulus, count=5, size=100, seed=0):
    rng = np.random.default_rng(seed)
    integers = {number: rng.integers(-(2**20), 2**20, size) for number in range(count)}
    return integers, {number: MODULI[modulus].reduced(each) for number, each in integers.items()}


@pytest.mark.parametrize("modulus", MODULI)
@pytest.mark.parametrize(
    ("before_masking", "before_revealing"), [((), ()), ((2,), ()), ((), (0,)), ((4,), (1,)), ((0, 1), ())]
)
def test_the_sum_of_whoever_sent_a_vector_is_exact(modulus, before_masking, before_revealing):
    integers, messages = vectors(modulus)
    total, _ = masking.masked_sum(
        modulus, messages, threshold=3, lost_before_masking=before_masking, lost_before_revealing=before_revealing
    )

    expected = sum(each for number, each in integers.items() if number not in before_masking)
    assert MODULI[modulus].centered(total).tolist() == expected.tolist()


@pytest.mark.parametrize("modulus", MODULI)
def test_too_few_clients_reveal_nothing(modulus):
    _, messages = vectors(modulus)
    for lost in ({"lost_before_masking": (0, 1, 2)}, {"lost_before_revealing": (0, 1, 2)}):
        with pytest.raises(fd.errors.FerroError):
            masking.masked_sum(modulus, messages, threshold=3, **lost)


@pytest.mark.parametrize("modulus", MODULI)
def test_what_the_server_sees_of_a_client_is_uniform_and_independent_of_its_vector(modulus):
    """Top bytes of 40 000 elements against uniform: chi-squared with 255 degrees; below 400 except for 2e-8."""
    size, ring = 20_000, MODULI[modulus]
    zeros = ring.reduced(np.zeros(size, np.int64))
    ones = ring.reduced(np.full(size, 2**30 - 1, np.int64))
    for vector in (zeros, ones):
        _, seen = masking.masked_sum(modulus, {0: vector, 1: vector, 2: vector}, threshold=2)
        for number in (0, 1):
            top = np.frombuffer(ring.to_bytes(seen[number]), np.uint8).reshape(size, -1)[:, -1]
            counts = np.bincount(top, minlength=256)
            assert ((counts - size / 256) ** 2 / (size / 256)).sum() < 400
            assert not np.array_equal(seen[number], vector)
            # Neighboring elements differ: a mask is not one number repeated.
            assert np.unique(seen[number]).size > size / 2


def test_masks_of_two_rounds_differ():
    _, messages = vectors("uint64")
    views = [masking.masked_sum("uint64", messages, threshold=3)[1] for _ in range(2)]

    assert not any(np.any(views[0][number] == views[1][number]) for number in messages)


def test_a_client_masks_and_reveals_once_and_never_shows_both_secrets_of_another():
    session, ring = b"round", MODULI["uint32"]
    clients = [masking.MaskingClient(number, "uint32", 2, session) for number in range(3)]
    public = {client.number: client.advertise() for client in clients}
    shares = {client.number: client.share(public) for client in clients}
    vector = ring.reduced(INTEGERS)
    sent = {other: each[0] for other, each in shares.items()}
    clients[0].mask(vector, sent)
    with pytest.raises(fd.errors.FerroError, match="one vector a round"):
        clients[0].mask(vector, sent)
    with pytest.raises(fd.errors.FerroError, match="must have sent a vector"):
        clients[0].reveal([0])

    told = clients[0].reveal([0, 1])

    assert (told.keys.keys(), told.seeds.keys()) == ({2}, {0, 1})
    with pytest.raises(fd.errors.FerroError, match="once a round"):
        clients[0].reveal([0, 2])


def test_shares_that_were_altered_on_the_way_are_noticed():
    clients = [masking.MaskingClient(number, "uint32", 2, b"round") for number in range(3)]
    public = {client.number: client.advertise() for client in clients}
    sealed = bytearray(clients[1].share(public)[0])
    clients[0].share(public)
    sealed[20] ^= 1
    with pytest.raises(InvalidTag):
        clients[0].mask(np.zeros(3, np.uint32), {1: bytes(sealed)})


def test_a_threshold_of_half_the_clients_is_refused():
    _, messages = vectors("uint32", count=4)
    with pytest.raises(fd.errors.InvalidParameter, match="more than half"):
        masking.masked_sum("uint32", messages, threshold=2)


@pytest.mark.parametrize("modulus", MODULI)
def test_negated_residues_add_up_to_zero(modulus):
    ring = MODULI[modulus]
    for residues in (ring.reduced(INTEGERS), masking.expand(ring, b"\1" * 32, b"s", 1000 * ring.words)):
        total = residues.copy()
        ring.add(total, masking.negated(ring, residues))

        assert not total.any()


def test_elements_above_the_modulus_are_drawn_again(monkeypatch):
    ring, asked = MODULI["field64"], []

    def keystream(key, block, length, stream=0):
        asked.append((block, stream))
        good = np.arange(length // 8, dtype="<u8")
        if len(asked) < 3:
            good[0] = ring.value  # the first of them, and its first repetition, are no residues
        return good.tobytes()

    monkeypatch.setattr(masking, "_keystream", keystream)
    elements = masking.expand(ring, bytes(32), b"s", 10)

    assert elements.tolist() == list(range(10))
    assert [stream for _, stream in asked] == [0, 1, 1]
    assert asked[1] != asked[2]


def test_secrets_come_back_from_any_threshold_of_shares():
    secret = bytes(range(32))
    shares = masking._split(secret, 3, [1, 2, 3, 4, 5])
    for chosen in ([1, 2, 3], [5, 1, 4], [2, 3, 5, 1]):
        assert masking._joined({point: shares[point] for point in chosen}, 3) == int.from_bytes(secret, "big")
    assert masking._joined({1: shares[1], 2: shares[2]}, 2) != int.from_bytes(secret, "big")
