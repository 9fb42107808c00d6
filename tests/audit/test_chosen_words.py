"""A replay draws the words that it chose, in native code and in the reference, and nothing else does."""

import chosen_words
import numpy as np

import ferrodp as fd
from ferrodp import _native
from reference import keystream

WORDS = {0: 0, 1: 2**64 - 1, 5: 1 << 63}


def test_a_call_draws_the_chosen_words_and_its_own_beside_them():
    call = chosen_words.Call("words")
    before = np.frombuffer(_native.random_bytes(80, call.key), dtype="<u8").tolist()
    chosen_words.lay(WORDS, 64, call.key, call.blocks)

    with call.drawn() as source:
        found = np.frombuffer(_native.random_bytes(80, source._key()), dtype="<u8").tolist()
        expected = [keystream.first_word(call.key, i, 64) for i in range(10)]

    assert found == expected == [WORDS.get(i, word) for i, word in enumerate(before)]


def test_other_keys_and_later_calls_draw_their_own_words():
    call = chosen_words.Call("words")
    other = bytes(range(32))
    before = [_native.random_bytes(80, key) for key in (other, call.key)]
    chosen_words.lay(WORDS, 64, call.key, call.blocks)

    with call.drawn() as source:
        assert _native.random_bytes(80, other) == before[0]
        source.bytes(1)
        assert source.bytes(80) != _native.random_bytes(80, call.key)
    assert _native.random_bytes(80, call.key) == before[1]
    assert keystream.CHOSEN == {}


def test_a_panic_is_an_outcome_of_a_replay_and_other_errors_are_not_hidden():
    class PanicException(BaseException):
        pass

    def panicking() -> None:
        raise PanicException

    assert chosen_words.drawn(panicking) == chosen_words.PANIC
    assert chosen_words.drawn(lambda: 3) == 3


def test_chosen_words_decide_what_a_public_call_draws():
    call = chosen_words.Call("tails")
    chosen_words.lay({0: 1, 1: 1 | 1 << 63}, 64, call.key, call.blocks)

    with call.drawn() as source:
        far = source.laplace(2, scale=1.0)

    assert far[0] > 43.0
    assert far[1] < -43.0
    assert abs(fd.testing.seeded(call.key).laplace(2, scale=1.0)).max() < 43.0
