"""Calibrate the noise of a training, then compare what several accountants say of it.

Private unit: one record, added or removed.
Guarantee: nothing is released here. Every ε printed is an upper bound; the certified one is closest to the exact value.
"""

from ferrodp.accounting import (
    GaussianEvent,
    MomentsAccountant,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    calibrate_count,
    calibrate_noise_multiplier,
)

DELTA, SAMPLING_PROBABILITY, STEPS = 1e-6, 0.01, 2_000

noise_multiplier = calibrate_noise_multiplier(
    target_epsilon=2.0, target_delta=DELTA, sampling_probability=SAMPLING_PROBABILITY, count=STEPS
)
print(f"noise multiplier for ε = 2, δ = {DELTA}: {noise_multiplier:.6f}")

step = PoissonSampledEvent(
    sampling_probability=SAMPLING_PROBABILITY, event=GaussianEvent(noise_multiplier=noise_multiplier)
)
for accountant in (PldAccountant(), RdpAccountant(), MomentsAccountant()):
    accountant.compose(step, count=STEPS)
    epsilon = accountant.epsilon(DELTA)
    count = calibrate_count(step, target_epsilon=2.0, target_delta=DELTA, accountant=type(accountant))
    print(f"{type(accountant).__name__:18} ε ≤ {epsilon:.4f}, and ε = 2 allows {count} steps")

pld = PldAccountant()
pld.compose(step, count=STEPS)
lower, upper = pld.epsilon_bounds(DELTA)
print(f"the exact ε lies between {lower:.9f} and {upper:.9f}")
