"""Plot what an adversary can tell: true positives against false positives of the best membership test.

Private unit: one record, added or removed.
Guarantee: nothing is released here. The curves are upper bounds on every test, for two trainings by DP-SGD.
"""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from ferrodp.accounting import GaussianEvent, PldAccountant, PoissonSampledEvent, trade_off_curve
from ferrodp.accounting.reports import membership_advantage

rates = np.linspace(0.0, 1.0, 26) ** 2  # denser where the curve bends
figure, axes = plt.subplots(figsize=(5, 5))
for noise_multiplier, style in ((0.8, "-"), (1.5, "--")):
    accountant = PldAccountant()
    step = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=noise_multiplier))
    accountant.compose(step, count=1_000)
    false_negatives = trade_off_curve(accountant.delta, rates)
    axes.plot(rates, 1 - false_negatives, style, color="black", label=f"noise multiplier {noise_multiplier}")
    advantage = membership_advantage(accountant.delta)
    print(f"noise multiplier {noise_multiplier}: ε ≤ {accountant.epsilon(1e-5):.3f}, advantage ≤ {advantage:.3f}")
axes.plot(rates, rates, ":", color="gray", label="guessing")
axes.set(xlabel="false positive rate", ylabel="true positive rate", title="1 000 steps, sampling probability 0.01")
axes.legend(loc="lower right")
figure.savefig("trade_off.png", dpi=150)
