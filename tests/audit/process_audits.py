"""Audits of two processes: whether a child, however it was made, draws what its parent draws, or uses what it has."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import ferrodp as fd
from ferrodp.random import BitGenerator
from support.forked import MAKERS, answer

RUNS = 4
"""Children of each kind; any two fresh draws of 16 bytes are equal with probability 2⁻¹²⁸."""


def repeated(draw: Callable[[], str]) -> bool:
    """Whether something is drawn twice by a process, its children and theirs."""
    for make in MAKERS.values():
        draw()
        drawn = [answer(make, draw) for _ in range(RUNS)]
        drawn += [draw(), answer(make, lambda make=make: answer(make, draw)), draw()]  # type: ignore[misc]
        if len(set(drawn)) < len(drawn):
            return True
    return False


def bytes_of_calls() -> str:
    return fd.NoiseSource().bytes(16).hex()


def noise_of_calls() -> str:
    return str(fd.NoiseSource().gaussian(4, standard_deviation=1.0).tolist())


def words_of_a_generator() -> bool:
    """Whether a generator of bits goes on in a child where it goes on in its parent."""
    generator = np.random.Generator(BitGenerator())
    return repeated(lambda: generator.bytes(16).hex())


def released_in_a_child() -> bool:
    """Whether a child releases a sum, or goes on with a run of queries, that its parent does as well."""
    for make in MAKERS.values():
        total = fd.ClippedSum((3,), clip_norm=1.0)
        total.add(np.ones(3))
        run = fd.SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0, max_answers=100)
        run.query(0.0)
        for use in (lambda total=total: total.release(noise_multiplier=1.0), lambda run=run: run.query(0.0)):
            if not answer(make, use).startswith("FerroError: "):
                return True
    return False


AUDITS: dict[str, Callable[[], bool]] = {
    "keys of two processes": lambda: repeated(bytes_of_calls) or repeated(noise_of_calls),
    "generators of two processes": words_of_a_generator,
    "a sum and a run of two processes": released_in_a_child,
}
"""Whether an audit raises an alarm: by chance in one run of 2¹²⁰."""
