"""Calls of every function of the native binding that takes an array, a count or a size, each of `k` elements."""

import gc
import inspect
import os
import random
import re
import signal
from collections import Counter

from support import memory_limits

BEFORE = """
import numpy as np
from decimal import Decimal
import functools
import ferrodp._native as native
from ferrodp._base._arrays import add_rows
from ferrodp.sums.layout import from_template

def f(k, value=0.5): return np.full(k, value)
def i(k): return np.arange(k, dtype=np.int64)
def u(k): return np.ones(k, np.uint64)
def s(k): return np.ones(k, np.float32)
def orders(k): return np.linspace(1.5, 64.0, k)
def leaves(k): return [np.ones(3, np.float32) for _ in range(k)]
def tree(k): return [np.ones(3) for _ in range(k)]
def template(a): return native.Template(from_template(a, None).structure, 'float64')
gaussian, laplace = ("gaussian", 1.0), ("laplace", 1.0)
half = (Decimal("0.5"), Decimal("0.5"))
"""

CALLS = {  # name: (largest k, source)
    "add_noise": (10**6, "native.add_noise(f(k), 'gaussian', 1.0, -20, None, None, False)"),
    "add_noise, singles": (10**6, "native.add_noise(s(k), 'laplace', 1.0, None, None, 2, True)"),
    "add_noise_to_integers": (
        10**4,
        "native.add_noise_to_integers("
        "f(k), [(j, j % 2 == 0, b'1234') for j in range(k)], 'gaussian', 2.0**60, 40, None, 1)",
    ),
    "random_bytes": (10**7, "native.random_bytes(k, None)"),
    "random_bytes, huge": (2**62, "native.random_bytes(k, None)"),
    "add_discrete_noise": (10**6, "native.add_discrete_noise(i(k), 'gaussian', 7, 2, None, None)"),
    "add_discrete_noise, large": (10**5, "native.add_discrete_noise(i(k), 'laplace', 10**14, 3, None, 2)"),
    "add_discrete_noise_in_fixed_time": (
        10**5, "native.add_discrete_noise_in_fixed_time(i(k), 'gaussian', 7, 2, None, None)"
    ),
    "toss_coins": (10**6, "native.toss_coins(np.zeros(k, np.uint8), 1, 3, None, None)"),
    "toss_each_coin": (10**5, "native.toss_each_coin(f(k), None, None)"),
    "poisson_members": (10**6, "native.poisson_members(k, 0.9, None)"),
    "poisson_members, rare": (2**50, "native.poisson_members(k, 2.0**-32, None)"),
    "poisson_members, huge": (2**62, "native.poisson_members(k, 1.0, None)"),
    "fixed_size_members": (10**6, "native.fixed_size_members(3 * k, k, None)"),
    "fixed_size_members, huge": (2**62, "native.fixed_size_members(k, k // 2, None)"),
    "allocated_members": (10**5, "native.allocated_members(k, 30, 2, None)"),
    "allocated_members, steps": (10**4, "native.allocated_members(9, k, k // 2, None)"),
    "allocated_members, huge": (2**40, "native.allocated_members(k, k, 1, None)"),
    "randomize_responses": (10**6, "native.randomize_responses(i(k) % 5, 1.0, 5, None, None)"),
    "code_responses": (10**6, "native.code_responses(i(k) % 5, 2**61, 5, 4, None, None)"),
    "unary_responses": (10**6, "native.unary_responses(i(k) % 5, np.zeros((k, 1), np.uint64), 3, 4, 5, None, None)"),
    "subset_responses": (10**5, "native.subset_responses(i(k) % 5, np.zeros((k, 1), np.uint64), 9, 2, 5, None, None)"),
    "vector_responses": (
        10**5, "native.vector_responses(f(k).reshape(-1, 10), u(k // 5).reshape(-1, 2), 9, 3, 2, 1.0, None, None)"
    ),
    "sum_code_words": (10**5, "native.sum_code_words(np.zeros((9, 2), np.uint64), f(k), 3, None)"),
    "count_bits": (10**6, "native.count_bits(u(k).reshape(-1, 1), np.zeros(64, np.int64))"),
    "choose_candidate": (10**6, "native.choose_candidate(f(k), 'gumbel', 1.0, 1.0, 2, None)"),
    "choose_candidate, exponential": (10**5, "native.choose_candidate(f(k), 'exponential', 1.0, 1.0, 2, None)"),
    "choose_run_of_candidates": (10**5, "native.choose_run_of_candidates(f(k), u(k), k // 2, 9, 1.0, 1.0, 2, None)"),
    "CorrelatedStream, rows": (
        300,
        "one = native.CorrelatedStream('rows', np.tril(np.ones((k, k))).ravel(), f(0), k, False, 1.0, -20, 9, None); "
        "one.add(f(9), None)",
    ),
    "CorrelatedStream, banded": (
        10**5,
        "one = native.CorrelatedStream('banded', np.array([1.0, 0.5, 0.1]), f(0), 0, False, 1.0, -20, k, None); "
        "one.add(f(k), None); one.skip(None)",
    ),
    "CorrelatedStream, totals": (
        10**5,
        "one = native.CorrelatedStream('banded', np.array([1.0, 0.5]), f(0), 0, True, 1.0, -20, k, None); "
        "one.add_to_integers(i(k), 0, None); one.add_to_integers(i(k), 0, 2)",
    ),
    "CorrelatedStream, bands": (
        2000, "native.CorrelatedStream('banded', 0.5 ** i(k), f(0), 0, False, 1.0, -20, 50, None).add(f(50), None)"
    ),
    "CorrelatedStream, huge": (
        2**62, "native.CorrelatedStream('banded', np.array([1.0, 0.5]), f(0), 0, False, 1.0, -20, k, None)"
    ),
    "GridSum": (10**6, "native.GridSum(k, 1.0, 'float32').add([s(k)], 1, None)"),
    "GridSum, many rows": (10**5, "native.GridSum(7, 1.0, 'float64').add([np.ones((k, 7))], k, None)"),
    "GridSum, many arrays": (3000, "native.GridSum(3 * k, 1.0, 'float32').add(leaves(k), 1, None)"),
    "GridSum, huge": (2**62, "native.GridSum(k, 1.0, 'float32')"),
    "GridSum.add_foreign": (
        3000, "add_rows(native.GridSum(3 * k, 1.0, 'float32'), [np.ones(3, np.float16) for _ in range(k)], 1, None)"
    ),
    "GridSum.add_difference": (
        3000, "native.GridSum(3 * k, 1.0, 'float32').add_difference(leaves(k), leaves(k), None)"
    ),
    "GridSum.add_tree": (
        3000,
        "native.GridSum(3 * k, 1.0, 'float64').add_tree(template(tree(k)), tree(k), False, None)",
    ),
    "GridSum.from_integers": (10**6, "native.GridSum.from_integers(i(k), 1.0, 'float64', None, k, k)"),
    "GridSum.merge": (
        10**5,
        "one, two = native.GridSum(k, 1.0, 'float64'), native.GridSum(k, 1.0, 'float64'); one.merge(two); "
        "one.merge_integers(i(k) * 0, 0, 0)",
    ),
    "GridSum.state": (
        10**6,
        "one = native.GridSum(k, 1.0, 'float64'); one.state(bytes(112 + 128 * (k // 128))); one.snapshot()",
    ),
    "GridSum.release": (10**6, "native.GridSum(k, 1.0, 'float64').release(f(k), 1.0, None, None, None)"),
    "Template": (10**4, "template(tree(k))"),
    "Template, deep": (90, "template(functools.reduce(lambda inner, _: [inner], range(k), np.ones(3)))"),
    "has_checksum": (10**7, "native.has_checksum(bytes(k))"),
    "clip_leaves": (3000, "native.clip_leaves(leaves(k), 1.0, leaves(k))"),
    "clip_leaves, long": (10**6, "native.clip_leaves([s(k)], 1.0, [s(k)])"),
    "clip_rows": (10**5, "native.clip_rows(np.ones((k, 7)), 1, 1.0, '2', np.ones((k, 7)), None)"),
    "quantized_vector": (3000, "native.quantized_vector(leaves(k), 1.0, 0, None)"),
    "rotate_vector": (10**6, "native.rotate_vector(f(1 << k.bit_length()), bytes(32), False)"),
    "residues_of": (10**6, "native.residues_of('field64', i(k), u(k))"),
    "add_residues": (10**6, "native.add_residues('uint64', u(k), u(k))"),
    "centered_residues": (10**6, "native.centered_residues('field64', u(k), i(k))"),
    "pairs_of_units": (10**6, "native.pairs_of_units(i(k), i(k) % 7)"),
    "pairs_of_units, in any order": (10**6, "native.pairs_of_units(i(k) % 1000, i(k) % 7)"),
    "rows_of_units": (10**6, "native.rows_of_units(i(k) % 1000, 3, np.zeros(k, np.uint32))"),
    "rows_of_units, without coins": (10**6, "native.rows_of_units(i(k), 3, None)"),
    "contour_bounds": (30, "native.contour_bounds('delta', 'remove', f(3, 1.0), f(3, 0.01), u(3), f(k))"),
    "contour_many": (30, "native.contour_many('delta', f(k, 2.0), f(k, 0.01), u(k), f(2))"),
    "contour_many, with a removal cut off": (
        2, "native.contour_many('delta', f(k, 2.0), f(k, 0.01), u(k), f(2))"
    ),
    "contour_sweep": (30, "native.contour_sweep('delta', f(k, 2.0), f(k, 0.01), u(k), f(k), None)"),
    "rdp_fixed_size_gaussian_replace_one": (
        50, "native.rdp_fixed_size_gaussian_replace_one(f(k, 2.0), f(k, 0.01), orders(k), None)"
    ),
    "rdp_fixed_size": (300, "native.rdp_fixed_size([1.0] * max(k, 64), 1.0, 0.01, orders(3))"),
    "rdp_fixed_size_ternary": (50, "native.rdp_fixed_size_ternary(2.0, 0.01, orders(k))"),
    "rdp_truncated_poisson_gaussian": (
        50, "native.rdp_truncated_poisson_gaussian((900, 0.01, 20), 1.0, orders(k), True)"
    ),
    "truncated_delta": (10**7, "native.truncated_delta((max(k, 1), 0.01, k // 50), 1.0, 9)"),
    "truncated_sample": (10**7, "native.truncated_sample(max(k, 1), 0.01, k // 50)"),
    "binomial_at_most": (2**40, "native.binomial_at_most(k // 3, k, 0.3)"),
    "central_limit_mu": (2**50, "native.central_limit_mu(1.0, 0.01, k, True)"),
    "AllocationCouples": (
        1000, "native.AllocationCouples(gaussian, max(k, 2), 1 << 20).law(0.01, 1 << 20).masses()"
    ),
    "AllocationLaw": (
        1000, "native.AllocationLaw(gaussian, max(k, 2), 0.01, True, 1 << 20).repeated(3, 1 << 20).masses()"
    ),
    "AllocationLaw, joined": (
        300,
        "native.AllocationLaw(gaussian, max(k, 2), 0.01, True, 1 << 18).joined("
        "native.AllocationLaw(gaussian, 5, 0.01, True, 1 << 18), 1 << 18)",
    ),
    "AllocationLaw, huge": (2**60, "native.AllocationLaw(gaussian, max(k, 2), 2.0**-40, True, 2**60)"),
    "allocation_counted_lower": (
        2**40, "native.allocation_counted_lower(gaussian, (max(k, 4), 3, 2), 'add', 'epsilon', 1e-6)"
    ),
    "AllocationMoments": (3000, "native.AllocationMoments(1.0, max(k, 2)).rates([2.0, 5.0])"),
    "AllocationMoments, orders": (300, "native.AllocationMoments(1.0, 9).rates([2.0] * k)"),
    "AllocationRemoved": (2**40, "native.AllocationRemoved(1.0, max(k, 2)).rate(3.0)"),
    "Shuffle": (2**40, "native.Shuffle(2.0, 0.2, max(k, 2)).delta(0.5)"),
    "SampledCurve": (300, "native.SampledCurve(lambda at: at * 0.1, 0.01, True)(orders(k))"),
    "WorstResponses": (60, "native.WorstResponses([(0.1 + j / 1000, 2) for j in range(k)]).delta(0.5, half)"),
    "WorstResponses, counts": (2**40, "native.WorstResponses([(0.1, k), (0.2, k)]).delta(0.5, half)"),
    "pair_delta": (10**4, "native.pair_delta([gaussian] * k, 1.0)"),
    "pair_delta, masses": (10**5, "native.pair_delta([('masses', (1.0,) * k, (2.0,) * k)], 1.0)"),
    "pair_epsilon": (10**4, "native.pair_epsilon([laplace] * k, 1e-6)"),
    "RdpCurve": (10**4, "native.RdpCurve(gaussian)(orders(k))"),
    "RdpCurve.bounds": (300, "native.RdpCurve(laplace).bounds(orders(k))"),
    "rdp_convert": (300, "native.rdp_convert([(native.RdpCurve(gaussian), 1.0)] * k, 1e-6, True, None, False)"),
    "rdp_convert_many": (
        100, "native.rdp_convert_many([(native.RdpCurve(gaussian), 1.0)], f(k, 1e-6), True, orders(9), False)"
    ),
    "rdp_convert_values": (10**5, "native.rdp_convert_values(orders(k), f(k), 1e-6, True, False)"),
    "rdp_poisson_gaussian": (30, "native.rdp_poisson_gaussian(f(k, 2.0), f(k, 0.01), orders(k), None)"),
    "rdp_poisson_gaussian_epsilon": (
        20, "native.rdp_poisson_gaussian_epsilon(f(k, 2.0), f(k, 0.01), f(k, 9.0), f(k, 1e-6), None)"
    ),
    "rdp_public_coin": (10**5, "native.rdp_public_coin(f(k), f(k), orders(k))"),
    "rdp_total": (10**4, "native.rdp_total([(native.RdpCurve(gaussian), 1.0)] * 2, orders(k))"),
    "pld_bounds": (10**4, "native.pld_bounds([[(laplace, k)]], 'delta', 1.0, 1e-2, None, (21, 2e6))"),
    "pld_bounds, many": (50, "native.pld_bounds([[(laplace, 2)] * k], 'delta', 1.0, 1e-2, None, (21, 2e6))"),
    "pld_bounds, huge": (2**50, "native.pld_bounds([[(laplace, k)]], 'delta', 1.0, 1e-2, 2.0**-40, (21, 2e6))"),
    "pld_many": (20, "native.pld_many([[(laplace, 9)]], 'delta', np.linspace(0.0, 3.0, k), 1e-2, (21, 2e6))"),
    "pld_composed_laws": (500, "native.pld_composed_laws([(laplace, k)], 1e-2, 1e-9, 21)"),
    "pld_laws": (10**5, "native.pld_laws(laplace, 2.0 / max(k, 1), 1e-9, None)"),
    "pld_laws, huge": (2**60, "native.pld_laws(laplace, 2.0 / max(k, 1), 1e-9, None)"),
    "pld_pure_epsilon": (10**4, "native.pld_pure_epsilon([[(laplace, 2)] * k])"),
}  # fmt: skip

WITHOUT = {
    "BitGenerator",
    "NoisyThreshold",
    "Permit",
    "SqliteConnection",
    "SqliteError",
    "SqliteResult",
    "allocation_two_bins",
    "available_isas",
    "check_clip_norm",
    "derive_key",
    "file_system",
    "fork_generation",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_is_enough",
    "gaussian_largest_squared_mu",
    "gaussian_standard_deviation",
    "isa",
    "rdp_exp_upper",
    "release_scalar",
    "sqlite_version",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
}
"""What takes no array, count or size, or is SQLite's, which reports on its memory."""


def missing():
    """Return the names of the binding that have neither a call nor a place among those without."""
    from ferrodp import _native

    tried = " ".join([BEFORE, "native.GridSum", *(call for _, call in CALLS.values())])
    named = [name for name in dir(_native) if not name.startswith("_") and not inspect.ismodule(getattr(_native, name))]
    return [name for name in named if name not in WITHOUT and not re.search(rf"native\.{name}\b", tried)]


def fuzz(seed: int, times: int) -> dict[str, Counter]:
    """Return how often each call ended how, over sizes and limits that follow from a seed."""
    memory_limits.keep_no_holes()
    draw = random.Random(seed)
    names: dict = {}
    exec(BEFORE, names)
    memory_limits.pass_over_what_is_there()
    found = {}
    for name, (largest, call) in CALLS.items():
        found[name] = Counter()
        for turn in range(times):
            size = (0, 1, largest)[turn] if turn < 3 else int(largest ** draw.random()) + draw.randrange(-1, 2)
            spare = 0 if turn == 3 else int(2 ** draw.uniform(8.0, 25.0))
            gc.collect()
            found[name][memory_limits.outcome(call, names | {"k": max(size, 0)}, spare, any_error=True)] += 1
    return found


LARGE = 1 << 16
"""Bytes of a request that the reserve for small memory has no piece for."""
LARGEST_SIZE, HUGE_SIZES = 10**7, (10**5, 3 * 10**6)
"""Where a call takes any number, some at which it makes lists and ends within seconds."""
CHECKED_BEFORE = {
    "GridSum, many arrays": "tables of borrowed arrays",
    "GridSum.add_foreign": "tables of borrowed arrays",
    "GridSum.add_difference": "tables of borrowed arrays",
    "clip_leaves": "tables of borrowed arrays",
    "quantized_vector": "tables of borrowed arrays",
    "pair_delta, masses": "a stable sort",
}
"""What needs memory that cannot be refused: as much is had and given back before. Limits of the process try these."""


def refused(most: int) -> dict[str, dict[int, Counter]]:
    """Return how each call ended at each size where its n-th large request for memory and all later ones were refused.

    n takes up to `most` values, all of them where there are so few requests. Unlike limits of the process this does not
    depend on what else is in memory.
    """
    names: dict = {}
    exec(BEFORE, names)
    found: dict[str, dict[int, Counter]] = {}
    for name, (largest, call) in CALLS.items():
        if name in CHECKED_BEFORE:
            continue
        found[name] = {}
        for size in (1, largest // 3, largest) if largest <= LARGEST_SIZE else (1, *HUGE_SIZES):
            scope = names | {"k": size}
            number = _requests(call, dict(scope))
            points = {n * number // most for n in range(most)} if number > most else set(range(number))
            found[name][size] = Counter(_with_refusal(call, dict(scope), n) for n in sorted(points))
    return found


def _requests(call: str, scope: dict) -> int:
    """Return how many large requests a call makes, in a child: nothing that it remembers is here later."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            scope["native"]._testing.refuse_memory(2**64 - 1, LARGE)
            exec(call, scope)
        finally:
            os.write(writing, str(scope["native"]._testing.refuse_no_memory()).encode())
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as text:
        return int(text.read())


def _with_refusal(call: str, scope: dict, first_refused: int) -> int:
    child = os.fork()
    if child == 0:
        end = memory_limits.UNTYPED
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(memory_limits.SECONDS)
        try:
            scope["native"]._testing.refuse_memory(first_refused, LARGE)
            try:
                exec(call, scope)
            finally:
                scope["native"]._testing.refuse_no_memory()
            end = memory_limits.ANSWERED
        except MemoryError:
            end = memory_limits.OUT_OF_MEMORY
        except Exception:
            end = memory_limits.REFUSED
        finally:
            os._exit(end)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
