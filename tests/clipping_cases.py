"""Rows that have broken clippers, for the tests of clipping."""

import math

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

DTYPES = [np.float32, np.float64]
RANGES = {np.float32: (2.0**-120, math.nextafter(2.0**128, 0)), np.float64: (2.0**-500, math.nextafter(2.0**500, 0))}

# Lengths around the vectors, chunks and blocks of the kernels.
LENGTHS = [0, 1, 15, 16, 17, 31, 32, 33, 63, 100, 1023, 1024, 1025, 4095, 4096, 4097, 5000]


def clip_norms(dtype):
    low, high = RANGES[dtype]
    return st.one_of(st.floats(0.01, 100), st.floats(low, high), st.sampled_from([1.0, low, high]))


@st.composite
def rows_and_bounds(draw):
    """A row of any bits, or one whose norm is the bound up to a few units in the last place; and the bound."""
    dtype = draw(st.sampled_from(DTYPES))
    bound = draw(clip_norms(dtype))
    row = draw(hnp.arrays(dtype, st.integers(0, 40), elements={"allow_subnormal": True}))
    if draw(st.booleans()):
        with np.errstate(all="ignore"):
            row = np.nan_to_num(row / np.abs(row).max(initial=1e-300), nan=0.5).astype(dtype)
            norm = math.sqrt(float(np.dot(row.astype(np.float64), row.astype(np.float64))))
            row = (row.astype(np.float64) * (bound / norm if norm else 1.0)).astype(dtype)
            for _ in range(draw(st.integers(0, 2))):
                row = np.nextafter(row, row * dtype(2))
    return row, bound
