"""A cryptographic bit generator for numpy's generators."""

from __future__ import annotations

from typing import NoReturn

from ferrodp import _native
from ferrodp.random.noise import refuse_copy

__all__ = ["BitGenerator"]


class BitGenerator(_native.BitGenerator):
    """A cryptographic bit generator for numpy: ``numpy.random.Generator(BitGenerator())``.

    Shuffles, samples batches or drives any library that takes a numpy generator, with bits nobody can predict. For
    noise that is released use `NoiseSource`: numpy's distributions are not exact, and this object has state, which
    that one has not.

    Attributes
    ----------
    capsule : PyCapsule
        numpy's `bitgen_t` interface; read-only, and the same one for life.
    lock : threading.Lock
        Held by numpy while it draws; read-only.

    Raises
    ------
    EntropyError
        If the operating system gives no key.

    Notes
    -----
    AES-256 in counter mode. Every 4 KB have a key of their own, which the operating system gives and which is wiped
    before the first number is handed out, and numbers are wiped as they are. So the memory of the process, a core
    dump, or what a child inherits tells no number already drawn, and of those to come only the rest of one buffer.
    The buffer is left out of core dumps, and the kernel wipes it in a child: a forked or cloned child draws from a
    key of its own. (Where the system cannot do that, each number is asked of the operating system.) A virtual machine
    that is revived twice from one snapshot repeats at most the rest of a buffer.
    Copies and pickles would repeat the stream and are refused.

    The first buffer is drawn when the object is made, which raises if the operating system gives no key. If it gives
    none later, numpy's protocol has no way to report that: the next buffer's key is then 32 bytes of the buffer before,
    which are kept for this and overwritten by what they make. Numbers stay unpredictable, and those already drawn stay
    gone; only whoever read the memory would know the coming ones, until the operating system gives a key again. A
    forked child has inherited no such key. If its first key is refused, or any where memory cannot be wiped, the
    process ends (SIGABRT), as the alternative would be numbers that its parent draws, too.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> rng = np.random.Generator(fd.random.BitGenerator())
    >>> sorted(rng.permutation(3).tolist())
    [0, 1, 2]
    """

    __slots__ = ()

    def __init_subclass__(cls, **_: object) -> NoReturn:
        # numpy keeps the object, not its capsule: a subclass could let go of the capsule while numpy draws from it.
        raise TypeError("BitGenerator cannot be subclassed; hold one instead")

    def __repr__(self) -> str:
        return "<ferrodp.random.BitGenerator>"

    def __reduce__(self) -> NoReturn:
        refuse_copy("a bit generator")
