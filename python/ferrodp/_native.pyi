from typing import Any

import numpy.typing as npt

__all__ = [
    "__version__",
    "add_noise",
    "available_isas",
    "bit_generator_capsule",
    "derive_key",
    "isa",
    "random_bytes",
    "release_scalar",
]

__version__: str
isa: str
available_isas: list[str]

def add_noise(
    array: npt.NDArray[Any],
    law: str,
    scale: float,
    exponent: int | None,
    key: bytes | None,
    threads: int | None,
    overwrite: bool,
    /,
) -> None: ...
def release_scalar(value: float, law: str, scale: float, exponent: int | None, key: bytes | None, /) -> float: ...
def random_bytes(length: int, key: bytes | None, /) -> bytes: ...
def derive_key(seed: bytes, call: int, /) -> bytes: ...
def bit_generator_capsule() -> Any: ...
