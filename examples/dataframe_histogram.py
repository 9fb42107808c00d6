"""Statistics of a pandas column: a histogram, a mean and a median, each with its own part of the budget.

Private unit: one person, added or removed; a person has one row.
Guarantee: ε = 2 with δ = 0 for the three results together, by adding up their ε.
"""

import numpy as np
import pandas as pd

import ferrodp as fd

rng = np.random.default_rng(0)
people = pd.DataFrame(
    {
        "age": rng.integers(18, 90, 5_000),
        "income": rng.lognormal(10.3, 0.5, 5_000),
        "city": rng.choice(["A", "B"], 5_000),
    }
)

# Bounds and bins are stated, not computed: a maximum of the data would depend on one person.
ages = fd.private_histogram(people["age"], bins=[18, 30, 45, 60, 75, 90], epsilon=0.5)
income = fd.private_mean(people["income"], bounds=(0.0, 200_000.0), epsilon=1.0)
median = fd.private_quantile(people["income"], 0.5, bounds=(0.0, 200_000.0), epsilon=0.5)

print(ages.to_frame())
low, high = income.interval(0.95)
print(f"mean income   {income:9.0f}, between {low:.0f} and {high:.0f}, true {people['income'].mean():9.0f}")
print(f"median income {median:9.0f}, true {people['income'].median():9.0f}")

accountant = fd.accounting.PureDpAccountant()
for result in (ages, income, median):
    accountant.compose(result.event)
print(f"ε = {accountant.epsilon(0.0)}")
