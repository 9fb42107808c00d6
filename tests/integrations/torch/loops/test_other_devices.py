"""Sums of clipped gradients on a device that is not the CPU: nothing mixes devices, as PyTorch's fake tensors find out.

Fake tensors have shapes, types and a device, and no numbers; an operation on two devices raises. What a device computes
is not tested by this, nor are passes of models and tables of words, which need the device itself.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ferrodp.integrations.torch import _ghost
from ferrodp.integrations.torch._bound import Bound
from ferrodp.integrations.torch._tape import Pairs, Rows

SIZE = 5
SHAPES = {
    "wide": torch.Size((30, 40)),
    "narrow": torch.Size((3, 2)),
    "bias": torch.Size((3,)),
    "unused": torch.Size((2,)),
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("stability", [None, 0.01])
@pytest.mark.parametrize("are_finite", [True, False])
@pytest.mark.parametrize("length", [1, 2, 50])  # one pair, products of pairs, products written out
def test_sums_of_gradients_stay_on_the_device_of_the_model(device, stability, are_finite, length, monkeypatch):
    monkeypatch.setattr(_ghost, "_are_all", lambda values: are_finite)
    with FakeTensorMode():
        total = _ghost.GhostSum(torch, SHAPES, Bound.of(SIZE), torch.device(device), stability)
        for _ in range(2):
            uses = {
                name: [
                    Pairs(
                        torch.zeros(SIZE, length, SHAPES[name][0], device=device),
                        torch.zeros(SIZE, length, SHAPES[name][1], device=device),
                    )
                ]
                for name in ("wide", "narrow")
            }
            uses["bias"] = [Rows(torch.zeros(SIZE, 3, device=device))]
            real = torch.arange(SIZE, device=device) < SIZE
            total.add(uses, [(list(SHAPES), 1.0)], 1.0, real, SIZE)
        found = total.finish()

    assert (found.device.type, found.dtype, total.count) == (device, torch.float64, 2 * SIZE)


def test_what_measures_a_gpu_runs_and_says_where_there_is_none():
    """And the same sums, on whatever device there is, are those of a slow loop of the CPU up to float32."""
    program = Path(__file__).parents[4] / "benches" / "training" / "gpu.py"

    ended = subprocess.run([sys.executable, program, "--small", "--steps", "4"], capture_output=True, text=True)

    assert not ended.returncode, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("no GPU: a dry run on the CPU") is not torch.cuda.is_available()
    apart = [float(line.split()[6]) for line in lines if "clip norms from the slow one" in line]
    assert len(apart) == 2
    assert all(0.0 <= each < 1e-5 for each in apart)
