"""A survey without a trusted collector: every answer is randomized before it is sent, and frequencies are estimated.

Private unit: one respondent, whose answer is replaced by any other.
Guarantee: ε = 1 with δ = 0 for each respondent, against everybody, the collector included (local differential privacy).
"""

import numpy as np

import ferrodp as fd

OPTIONS = ["never", "sometimes", "often"]

rng = np.random.default_rng(0)
answers = rng.choice(len(OPTIONS), size=20_000, p=[0.6, 0.3, 0.1])

mechanism = fd.RandomizedResponse.calibrated(epsilon=1.0, num_categories=len(OPTIONS))
sent = mechanism.release(answers)  # on each device in a real survey; here all at once

raw = np.bincount(sent, minlength=len(OPTIONS)) / len(sent)
estimated = mechanism.estimate_frequencies(sent) / len(sent)  # unbiased, so it can be below 0
print(f"an answer is true with probability {mechanism.truth_probability:.3f}")
for option, true, biased, corrected in zip(OPTIONS, (0.6, 0.3, 0.1), raw, estimated, strict=True):
    print(f"{option:10} true {true:.2f}   as sent {biased:.3f}   estimated {corrected:.3f}")
