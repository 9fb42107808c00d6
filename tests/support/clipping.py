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


@st.composite
def far_rows_and_bounds(draw):
    """A row of about one magnitude, anywhere in the range of its dtype, and a bound from the whole range of bounds."""
    dtype = draw(st.sampled_from(DTYPES))
    low, high = (math.frexp(end)[1] for end in RANGES[dtype])
    smallest, largest = (-149, 127) if dtype is np.float32 else (-1074, 1023)
    at = draw(st.integers(low, high))
    # anywhere, or as far above the bound as brings their ratio to where float64 ends
    size = draw(
        st.one_of(st.integers(smallest, largest), st.integers(1020, 1076).map(lambda far: min(at + far, largest)))
    )
    factors = draw(hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(-1.999, 1.999)))
    factors[0] = draw(st.floats(1, 1.999))
    bound = math.ldexp(draw(st.floats(0.5, 1, exclude_max=True)), at)
    return (factors * math.ldexp(1.0, size)).astype(dtype), bound
