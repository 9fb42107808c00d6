"""Tensors in the memory of a CPU are numpy arrays without a copy."""

import numpy as np
import torch

import ferrodp as fd


def test_noise_reaches_the_tensor_whose_array_was_noised():
    tensor = torch.zeros(1000)

    fd.NoiseSource().add_gaussian_(tensor.numpy(), standard_deviation=1.0)

    assert torch.count_nonzero(tensor) > 900


def test_a_clipped_sum_takes_the_arrays_of_tensors():
    total = fd.ClippedSum({"w": (2, 3)}, clip_norm=1.0, dtype=np.float32)

    total.add_many({"w": torch.zeros(5, 2, 3).numpy()})

    assert total.count == 5
