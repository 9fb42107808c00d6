"""Release a table of counts: how many patients have each diagnosis, by age group.

Private unit: one patient, added or removed; a patient is in one cell of the table.
Guarantee: ε = 1 with δ = 0, for the whole table. Exact two-sided geometric noise on integers.
"""

from itertools import pairwise

import numpy as np

import ferrodp as fd

DIAGNOSES = ("asthma", "diabetes", "migraine")
AGES = (0, 18, 40, 65, 120)  # the cells are fixed before the data are looked at

rng = np.random.default_rng(0)
diagnosis = rng.choice(len(DIAGNOSES), size=2_000, p=[0.5, 0.3, 0.2])
age = rng.integers(0, 100, size=2_000)

table, _, _ = np.histogram2d(diagnosis, age, bins=[np.arange(len(DIAGNOSES) + 1), AGES])
table = table.astype(np.int64)

# One patient changes one count by one, so the L1 sensitivity of the whole table is 1, however many cells it has.
mechanism = fd.DiscreteLaplaceMechanism.calibrated(epsilon=1.0, l1_sensitivity=1)
released = mechanism.release(table)

header = "".join(f"{f'{low} to {high - 1}':>12}" for low, high in pairwise(AGES))
print(f"{'':10}{header}")
for name, row in zip(DIAGNOSES, released, strict=True):
    print(f"{name:10}{''.join(f'{count:12}' for count in row)}")
print(f"standard deviation of each count: {mechanism.standard_deviation:.2f}")
print(f"guarantee: ε = {mechanism.epsilon()}")
