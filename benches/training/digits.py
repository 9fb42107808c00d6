"""CPU seconds and accuracy of the trainer without knobs on digits: ten splits of four budgets, for pixels and features.

OMP_NUM_THREADS=1 python benches/training/digits.py
"""

import time

import numpy as np
from sklearn.datasets import load_digits

from ferrodp.training import oriented_gradients, train

pixels, labels = load_digits(return_X_y=True)
pixels = pixels / 16
for name, features in (("pixels", pixels), ("oriented gradients", oriented_gradients(pixels, shape=(8, 8)))):
    began, shares = time.process_time(), []
    for epsilon in (1.0, 2.0, 4.0, 8.0):
        right = []
        for split in range(1000, 1010):
            order = np.random.default_rng(split).permutation(len(features))
            here, there = order[:1437], order[1437:]
            model = train(features[here], labels[here], epsilon=epsilon, delta=1e-5, classes=range(10))
            right.append(np.mean(model.predict(features[there]) == labels[there]))
        shares.append(f"{100 * np.mean(right):.1f}")
    print(f"{name}: {' / '.join(shares)} % at epsilon 1 / 2 / 4 / 8, {time.process_time() - began:.1f} s of CPU time")
