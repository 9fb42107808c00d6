import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, final

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

__all__ = [
    "AllocationCouples",
    "AllocationLaw",
    "AllocationMoments",
    "AllocationRemoved",
    "BitGenerator",
    "CorrelatedStream",
    "GridSum",
    "NoisyThreshold",
    "Permit",
    "RdpCurve",
    "SampledCurve",
    "Shuffle",
    "SqliteConnection",
    "SqliteError",
    "SqliteResult",
    "Template",
    "WorstResponses",
    "__version__",
    "add_discrete_noise",
    "add_discrete_noise_in_fixed_time",
    "add_noise",
    "add_noise_to_integers",
    "add_residues",
    "allocated_members",
    "allocation_counted_lower",
    "allocation_two_bins",
    "available_isas",
    "binomial_at_most",
    "centered_residues",
    "central_limit_mu",
    "check_clip_norm",
    "choose_candidate",
    "choose_run_of_candidates",
    "clip_leaves",
    "clip_rows",
    "code_responses",
    "contour_bounds",
    "contour_many",
    "contour_sweep",
    "count_bits",
    "derive_key",
    "file_system",
    "fixed_size_members",
    "fork_generation",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_is_enough",
    "gaussian_largest_squared_mu",
    "gaussian_standard_deviation",
    "has_checksum",
    "isa",
    "pair_delta",
    "pair_epsilon",
    "pairs_of_units",
    "pld_bounds",
    "pld_composed_laws",
    "pld_laws",
    "pld_many",
    "pld_pure_epsilon",
    "poisson_members",
    "quantized_vector",
    "random_bytes",
    "randomize_responses",
    "rdp_convert",
    "rdp_convert_many",
    "rdp_convert_values",
    "rdp_exp_upper",
    "rdp_fixed_size",
    "rdp_fixed_size_gaussian_replace_one",
    "rdp_fixed_size_ternary",
    "rdp_poisson_gaussian",
    "rdp_poisson_gaussian_epsilon",
    "rdp_public_coin",
    "rdp_total",
    "rdp_truncated_poisson_gaussian",
    "release_scalar",
    "residues_of",
    "rotate_vector",
    "rows_of_units",
    "sqlite_version",
    "subset_responses",
    "sum_code_words",
    "toss_coins",
    "toss_each_coin",
    "truncated_delta",
    "truncated_sample",
    "unary_responses",
    "vector_responses",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]

_Direction: TypeAlias = Literal["remove", "add"]
_Spec: TypeAlias = tuple[Any, ...]
_Key: TypeAlias = bytes | Permit | None
_Floats: TypeAlias = npt.NDArray[np.float64]
_Laws: TypeAlias = tuple[float, _Floats, _Floats]
_Ends: TypeAlias = tuple[float, float]
_Decimals: TypeAlias = tuple[Decimal, Decimal]
_Sample: TypeAlias = tuple[int, float, int]

__version__: str
isa: str
available_isas: list[str]

def add_noise(
    array: npt.NDArray[Any],
    law: str,
    scale: float,
    exponent: int | None,
    key: _Key,
    threads: int | None,
    overwrite: bool,
    /,
) -> None: ...
def add_noise_to_integers(
    array: _Floats,
    integers: list[tuple[int, bool, bytes]],
    law: str,
    scale: float,
    exponent: int,
    key: _Key,
    threads: int | None,
    /,
) -> list[int]: ...
def release_scalar(value: float, law: str, scale: float, exponent: int | None, key: _Key, /) -> float: ...
def random_bytes(length: int, key: _Key, /) -> bytes: ...
def add_discrete_noise_in_fixed_time(
    array: npt.NDArray[Any],
    law: str,
    numerator: int,
    denominator: int,
    key: _Key,
    threads: int | None,
    /,
) -> None: ...
def toss_coins(
    coins: npt.NDArray[np.uint8], numerator: int, denominator: int, key: _Key, threads: int | None, /
) -> None: ...
def toss_each_coin(gammas: _Floats, key: _Key, threads: int | None, /) -> None: ...
def poisson_members(population: int, probability: float, key: _Key, /) -> npt.NDArray[np.int64]: ...
def fixed_size_members(population: int, size: int, key: _Key, /) -> npt.NDArray[np.int64]: ...
def allocated_members(
    population: int, steps: int, selected: int, key: _Key, /
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...
def derive_key(seed: bytes, call: int, /) -> bytes: ...
def contour_bounds(
    quantity: str,
    direction: str,
    noise_multipliers: _Floats,
    sampling_probabilities: _Floats,
    counts: npt.NDArray[np.uint64],
    points: _Floats,
    /,
) -> _Floats: ...
def contour_many(
    quantity: str,
    noise_multipliers: _Floats,
    sampling_probabilities: _Floats,
    counts: npt.NDArray[np.uint64],
    points: _Floats,
    /,
) -> _Floats: ...
def contour_sweep(
    quantity: str,
    noise_multipliers: _Floats,
    sampling_probabilities: _Floats,
    counts: npt.NDArray[np.uint64],
    points: _Floats,
    threads: int | None,
    /,
) -> _Floats: ...
def rdp_fixed_size_gaussian_replace_one(
    noise_multipliers: _Floats,
    sampling_probabilities: _Floats,
    orders: _Floats,
    threads: int | None,
    /,
) -> _Floats: ...
def rdp_fixed_size(
    divergences: list[float], epsilon: float, sampling_probability: float, orders: _Floats, /
) -> _Floats: ...
def rdp_fixed_size_ternary(noise_multiplier: float, sampling_probability: float, orders: _Floats, /) -> _Floats: ...
def rdp_truncated_poisson_gaussian(
    sample: _Sample, noise_multiplier: float, orders: _Floats, is_zeroed: bool, /
) -> _Floats: ...
def truncated_delta(sample: _Sample, epsilon: float, count: int, /) -> float: ...
def truncated_sample(number: int, q: float, most: int, /) -> tuple[_Ends, _Ends, float]: ...
def binomial_at_most(seen: int, number: int, probability: float, /) -> float: ...
def central_limit_mu(
    noise_multiplier: float, sampling_probability: float, count: int, is_poisson: bool, /
) -> float: ...
def gaussian_delta(epsilon: float, squared_mu: _Decimals | float, is_log: bool, /) -> _Ends: ...
def gaussian_epsilon(delta: float, squared_mu: _Decimals | float, /) -> _Ends: ...
def gaussian_is_enough(sigma: float, epsilon: float, delta: float, sensitivity: float, /) -> bool: ...
def gaussian_largest_squared_mu(epsilon: float, delta: float, /) -> float: ...
def gaussian_standard_deviation(epsilon: float, delta: float, sensitivity: float, /) -> float: ...
def zcdp_delta(rho: _Decimals, epsilon: float, /) -> float: ...
def zcdp_epsilon(rho: _Decimals, delta: float, /) -> float: ...
def zcdp_rho(epsilon: float, delta: float, /) -> float: ...
def allocation_counted_lower(
    step: tuple[object, ...], sizes: tuple[int, int, int], direction: _Direction, quantity: str, at: float, /
) -> float: ...
def allocation_two_bins(s: float, epsilon: float, direction: _Direction, /) -> tuple[float, float]: ...

@disjoint_base
class BitGenerator:
    def __new__(cls) -> Self: ...
    @property
    def capsule(self) -> Any: ...
    @property
    def lock(self) -> Any: ...

@final
class AllocationCouples:
    def __new__(cls, step: tuple[object, ...], steps: int, most: int, /) -> Self: ...
    @staticmethod
    def suits(step: tuple[object, ...], steps: int, /) -> bool: ...
    def law(self, spacing: float, most: int, /) -> AllocationLaw: ...

@final
class AllocationLaw:
    def __new__(cls, step: tuple[object, ...], steps: int, spacing: float, is_upper: bool, most: int, /) -> Self: ...
    def joined(self, other: AllocationLaw, most: int, /) -> AllocationLaw: ...
    def repeated(self, count: int, most: int, /) -> AllocationLaw: ...
    def masses(self, /) -> tuple[int, _Floats, float, float]: ...

@final
class Shuffle:
    def __new__(cls, epsilon: float, clone_probability: float, population_size: int, /) -> Self: ...
    def delta(self, epsilon: float, /) -> tuple[float, float]: ...
    def attained(self, t: float, epsilon: float, /) -> float: ...
    def epsilon(self, delta: float, /) -> tuple[float, float]: ...

@final
class AllocationMoments:
    def __new__(cls, s: float, steps: int, /) -> Self: ...
    def rates(self, orders: list[float], /) -> list[float]: ...

@final
class AllocationRemoved:
    def __new__(cls, noise_multiplier: float, steps: int, /) -> Self: ...
    def rate(self, order: float, /) -> float: ...

@final
class SampledCurve:
    def __new__(
        cls, base: Callable[[_Floats], _Floats], sampling_probability: float, is_symmetric: bool | None, /
    ) -> Self: ...
    def __call__(self, orders: _Floats, /) -> _Floats: ...

@final
class WorstResponses:
    def __new__(cls, groups: list[tuple[float, int]], /) -> Self: ...
    def delta(self, total: float, failure: _Decimals, /) -> tuple[float, float, bool]: ...
    def epsilon(self, target: _Decimals, /) -> _Ends: ...

@final
class Permit:
    def __new__(cls, arm: Callable[[], object], /) -> Self: ...

@final
class CorrelatedStream:
    def __new__(
        cls,
        kind: Literal["banded", "rows", "buffered", "inverse"],
        numbers: npt.NDArray[np.float64],
        further: npt.NDArray[np.float64],
        width: int,
        totals: bool,
        standard_deviation: float,
        exponent: int,
        length: int,
        key: _Key,
        widening: float = 0.0,
        /,
    ) -> Self: ...
    @property
    def is_own(self) -> bool: ...
    @property
    def step(self) -> int: ...
    def add(self, array: npt.NDArray[np.floating[Any]], threads: int | None, /) -> None: ...
    def add_to_integers(self, array: npt.NDArray[np.int64], shift: int, threads: int | None, /) -> None: ...
    def skip(self, threads: int | None, /) -> None: ...

@final
class NoisyThreshold:
    def __new__(cls, threshold: float, threshold_scale: float, query_scale: float, key: _Key, /) -> Self: ...
    @property
    def is_own(self) -> bool: ...
    def is_reached(self, value: float, key: _Key, integer: tuple[bool, bytes] | None = None, /) -> bool: ...

@final
class Template:
    def __new__(cls, structure: object, dtype: str, /) -> Self: ...
    def __reduce__(self) -> tuple[type[Template], tuple[object, str]]: ...

@final
class GridSum:
    def __new__(cls, width: int, value: float, dtype: str, normalizing: float | None = None, /) -> Self: ...
    @staticmethod
    def from_integers(
        integers: npt.NDArray[np.int64],
        value: float,
        dtype: str,
        normalizing: float | None,
        count: int,
        within: int | None,
        /,
    ) -> GridSum: ...
    def add(self, leaves: list[npt.NDArray[Any]], count: int, threads: int | None, /) -> None: ...
    def add_foreign(
        self, leaves: list[tuple[npt.NDArray[Any], str, bool]], count: int, threads: int | None, /
    ) -> None: ...
    def add_tree(self, template: Template, tree: object, stacked: bool, threads: int | None, /) -> bool: ...
    def add_difference(
        self, leaves: list[npt.NDArray[Any]], minus: list[npt.NDArray[Any]], threads: int | None, /
    ) -> None: ...
    def merge(self, other: GridSum, /) -> None: ...
    def merge_integers(self, integers: npt.NDArray[np.int64], count: int, within: int | None, /) -> None: ...
    def state(self, prefix: bytes, /) -> bytes: ...
    @property
    def count(self) -> int: ...
    @property
    def within(self) -> int | None: ...
    @property
    def granularity_exponent(self) -> int: ...
    @property
    def released(self) -> bool: ...
    def snapshot(self, /) -> tuple[int, npt.NDArray[np.int64], int | None]: ...
    def release(
        self,
        out: npt.NDArray[Any],
        noise_multiplier: float,
        denominator: float | None,
        key: _Key,
        threads: int | None,
        /,
    ) -> None: ...

def has_checksum(state: bytes, /) -> bool: ...
def check_clip_norm(value: float, dtype: str, normalizing: float | None = None, /) -> int: ...
def clip_leaves(leaves: list[npt.NDArray[Any]], value: float, out: list[npt.NDArray[Any]], /) -> float: ...
def clip_rows(
    matrix: npt.NDArray[Any] | None,
    count: int,
    value: float,
    order_name: str,
    out: npt.NDArray[Any],
    threads: int | None,
    /,
) -> _Floats: ...
def quantized_vector(
    leaves: list[npt.NDArray[Any]], value: float, shift: int, threads: int | None, /
) -> npt.NDArray[np.int64]: ...
def rotate_vector(vector: npt.NDArray[Any], seed: bytes, inverse: bool, /) -> None: ...
def residues_of(modulus: str, integers: npt.NDArray[np.int64], out: npt.NDArray[np.uint64], /) -> None: ...
def add_residues(modulus: str, total: npt.NDArray[np.uint64], message: npt.NDArray[np.uint64], /) -> None: ...
def centered_residues(modulus: str, residues: npt.NDArray[np.uint64], out: npt.NDArray[np.int64], /) -> None: ...
def pairs_of_units(
    units: npt.NDArray[np.signedinteger[Any]], keys: npt.NDArray[np.int64], /
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...
def rows_of_units(
    units: npt.NDArray[np.signedinteger[Any]], most: int, coins: npt.NDArray[np.uint32] | None, /
) -> npt.NDArray[np.bool_]: ...
def add_discrete_noise(
    array: npt.NDArray[Any],
    law: str,
    numerator: int,
    denominator: int,
    key: _Key,
    threads: int | None,
    /,
) -> None: ...
def choose_candidate(
    utilities: _Floats,
    noise: str,
    epsilon: float,
    sensitivity: float,
    factor: int,
    key: _Key,
    integers: list[tuple[int, bool, bytes]] = ...,
    /,
) -> int: ...
def choose_run_of_candidates(
    utilities: _Floats,
    counts: npt.NDArray[np.uint64],
    permuted: int,
    unit: int,
    epsilon: float,
    sensitivity: float,
    factor: int,
    key: _Key,
    /,
) -> tuple[int, int]: ...
def randomize_responses(
    array: npt.NDArray[Any],
    noise_parameter: float,
    categories: int,
    key: _Key,
    threads: int | None,
    /,
) -> None: ...
def code_responses(
    array: npt.NDArray[np.int64],
    weight: int,
    categories: int,
    field_size: int,
    key: _Key,
    threads: int | None,
    /,
) -> None: ...
def unary_responses(
    answers: npt.NDArray[np.int64],
    messages: npt.NDArray[np.uint64],
    numerator: int,
    digits: int,
    categories: int,
    key: _Key,
    threads: int | None,
    /,
) -> None: ...
def subset_responses(
    answers: npt.NDArray[np.int64],
    messages: npt.NDArray[np.uint64],
    weight: int,
    size: int,
    categories: int,
    key: _Key,
    threads: int | None,
    /,
) -> None: ...
def vector_responses(
    vectors: npt.NDArray[np.float64],
    messages: npt.NDArray[np.uint64],
    weight: int,
    directions: int,
    size: int,
    clip_norm: float,
    key: _Key,
    threads: int | None,
    /,
) -> None: ...
def sum_code_words(
    messages: npt.NDArray[np.uint64], sums: npt.NDArray[np.float64], directions: int, threads: int | None, /
) -> None: ...
def count_bits(rows: npt.NDArray[np.uint64], counts: npt.NDArray[np.int64], /) -> None: ...
def pair_delta(specs: list[_Spec], epsilon: float, /) -> tuple[float, float]: ...
def pair_epsilon(specs: list[_Spec], delta: float, /) -> tuple[float, float]: ...

@final
class RdpCurve:
    def __new__(cls, spec: _Spec, /) -> Self: ...
    def bounds(self, orders: _Floats, /) -> tuple[_Floats, _Floats]: ...
    def __call__(self, orders: _Floats, /) -> _Floats: ...

def rdp_convert(
    parts: list[tuple[Any, float]],
    value: float,
    is_delta: bool,
    orders: _Floats | None,
    is_classical: bool,
    /,
) -> tuple[float, float, float]: ...
def rdp_convert_many(
    parts: list[tuple[Any, float]],
    values: _Floats,
    is_delta: bool,
    orders: _Floats | None,
    is_classical: bool,
    /,
) -> _Floats: ...
def rdp_convert_values(
    orders: _Floats,
    rho: _Floats,
    value: float,
    is_delta: bool,
    is_classical: bool,
    /,
) -> tuple[float, float, float]: ...
def rdp_exp_upper(x: float, /) -> float: ...
def rdp_poisson_gaussian(
    noise_multipliers: _Floats,
    sampling_probabilities: _Floats,
    orders: _Floats,
    threads: int | None,
    /,
) -> tuple[_Floats, _Floats]: ...
def rdp_public_coin(rho: _Floats, chances: _Floats, orders: _Floats, /) -> _Floats: ...
def rdp_total(parts: list[tuple[Any, float]], orders: _Floats, /) -> _Floats: ...
def pld_bounds(
    directions: list[list[tuple[_Spec, int]]],
    quantity: str,
    at: float,
    tolerance: float,
    step: float | None,
    limits: tuple[int, float],
    /,
) -> tuple[float, float, int, float, int, float]: ...
def pld_many(
    directions: list[list[tuple[_Spec, int]]],
    quantity: str,
    points: _Floats,
    tolerance: float,
    limits: tuple[int, float],
    /,
) -> tuple[_Floats, _Floats]: ...
def pld_composed_laws(
    parts: list[tuple[_Spec, int]], step: float, tail: float, log2_max_nodes: int, /
) -> tuple[_Laws, tuple[float, float], float]: ...
def pld_laws(
    spec: _Spec, step: float, tail: float, range: tuple[float, float] | None, /
) -> tuple[_Laws, tuple[float, float]]: ...
def pld_pure_epsilon(directions: list[list[tuple[_Spec, int]]], /) -> tuple[float, float]: ...
def fork_generation() -> int: ...
def rdp_poisson_gaussian_epsilon(
    noise_multipliers: _Floats,
    sampling_probabilities: _Floats,
    counts: _Floats,
    deltas: _Floats,
    threads: int | None,
    /,
) -> _Floats: ...

sqlite_version: str

def file_system(path: str | os.PathLike[str], /) -> int | None: ...

class SqliteError(Exception): ...

@final
class SqliteResult:
    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[tuple[Any, ...]]: ...
    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...

@final
class SqliteConnection:
    def __new__(cls, path: str | os.PathLike[str], /, *, create: bool, writable: bool = True) -> Self: ...
    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str, parameters: Iterable[str | int | None], /) -> SqliteResult: ...
    def execute_many(self, sql: str, rows: Iterable[Iterable[str | int | None]], /) -> None: ...
    def execute_slowly(self, sql: str, /, *, seconds: float) -> SqliteResult: ...
    def begin(
        self, statements: Sequence[str], question: str, /, *, seconds: float
    ) -> tuple[int | None, tuple[str, Path] | None, bool, tuple[Any, ...] | None]: ...
    def commit(self, number: int | None, /, *, seconds: float) -> tuple[tuple[str, Path] | None, bool]: ...
    def guard(self, given: str | os.PathLike[str], path: str | os.PathLike[str], /) -> tuple[str, Path] | None: ...
    def fault(self, *, all: bool = False) -> tuple[str, Path] | None: ...
    def find_mark(self, before: bytes, /) -> bool: ...
    def close(self, *, fold: bool = True) -> None: ...
    def forget(self) -> None: ...
