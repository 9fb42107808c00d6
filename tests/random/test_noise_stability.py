"""Value stability: a seed gives the same bits for ever, and on every instruction set.

A change of these values breaks every replay. It is allowed, and is announced as value-breaking in the changelog.
"""

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import ferrodp as fd
from ferrodp import _native

SEED = hashlib.sha256(b"value stability").digest()

PINS = {
    "gaussian float32": "ee16b864545ab08479bfd2befb78dae079dfb5bf925a87c4aae3c9ccd040391c",
    "gaussian float64": "47c7f4380546fef26b07a4ca21fc8d7bdfcb0358a99a34885feee5ab6983d0c1",
    "gaussian float64 on a coarse grid": "8bf906971fdbbcca2a87075ba6b42b55ed6e44281007cbc11d19f538bdefece5",
    "laplace float32": "65c8b389e96a026d1b58c2df56968012895d569779a4c6a09f78b1b6777b84d4",
    "laplace float64": "6593801f696244061cdb1e52ad56b63f6bf1f63184a8352571732b298c343db8",
    "laplace float64 on a coarse grid": "f0102e2e100b37e35a720372c9f50bc5fd1502ca9e32d68508f6e36322e42856",
    "sums float32": "f5c6433b89ffa0d07411d6a21995db4b6f0ea00a063cccc959fd93eee5696ab3",
    "sums float64": "0658bbd6e67fdb2dd4c8657bdca3e5b891acb933aa56628d70f12df3b519b29c",
    "bytes": "d5b8c514f9b9793521ab5c0b7844e8953951f27aa4a628a093eeead10af1e683",
}


def digests() -> dict[str, str]:
    """Return SHA-256 digests of a million outputs of every kind, added to values that are not all zero."""
    ramp = np.arange(1_000_000) % 1013 / 64  # exact in float32
    found = {}
    for law, name in (("gaussian", "standard_deviation"), ("laplace", "scale")):
        for dtype, granularity, suffix in (("<f4", None, ""), ("<f8", None, ""), ("<f8", 0.125, " on a coarse grid")):
            source = fd.testing.seeded(SEED)
            array = ramp.astype(dtype)
            getattr(source, f"add_{law}_")(array, **{name: 1.25}, granularity=granularity)
            found[f"{law} {np.dtype(dtype).name}{suffix}"] = hashlib.sha256(array.tobytes()).hexdigest()
    for dtype in (np.float32, np.float64):
        total = fd.clip_and_sum(np.tile(ramp.astype(dtype), (3, 1)), clip_norm=2.5)
        released = total.release(noise_multiplier=1.25, denominator=3, source=fd.testing.seeded(SEED))
        found[f"sums {np.dtype(dtype).name}"] = hashlib.sha256(released.tobytes()).hexdigest()
    found["bytes"] = hashlib.sha256(fd.testing.seeded(SEED).bytes(1_000_003)).hexdigest()
    return found


def test_a_seed_gives_the_bits_it_has_always_given():
    assert digests() == PINS


def test_a_seed_gives_the_numbers_it_has_always_given():
    """The same in readable form: the first samples of a seed of zeros."""
    source = fd.testing.seeded(bytes(32))

    assert [float(x) for x in source.gaussian(3, standard_deviation=1.0)] == [
        0.2295861579477787,
        1.2697509080171585,
        0.34276591520756483,
    ]
    assert [float(x) for x in source.gaussian(3, standard_deviation=1.0, dtype=np.float32)] == [
        -0.93505859375,
        -1.1123046875,
        -1.1005859375,
    ]
    assert [float(x) for x in source.laplace(3, scale=1.0)] == [
        -1.0359121011570096,
        1.3041116609238088,
        0.3847643411718309,
    ]
    assert source.bytes(8).hex() == "38ae7c5034c1ccd6"


@pytest.mark.parametrize("isa", _native.available_isas)
def test_every_instruction_set_gives_the_same_bits(isa):
    environment = os.environ | {"FERRODP_ISA": isa}
    script = (
        f"import json, sys; sys.path[:] = {sys.path!r}\nimport test_noise_stability as t; from ferrodp import _native\n"
    )
    script += "print(json.dumps([_native.isa, t.digests()]))"

    answer = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=os.path.dirname(__file__), capture_output=True, check=True
    )

    assert json.loads(answer.stdout) == [isa, PINS]


def test_an_instruction_set_that_is_not_there_is_refused_at_import():
    """Never a silent other path: whoever asks for one tests it."""
    environment = os.environ | {"FERRODP_ISA": "abacus"}
    script = f"import sys; sys.path[:] = {sys.path!r}; import ferrodp"

    answer = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=False)

    assert answer.returncode != 0
    assert b"FERRODP_ISA must be one of portable" in answer.stderr
