"""Curves of private trainings: two coordinates beside a gradient, within the clip norm, under the noise of its step."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from private_loops import loader_of, plan_of
from scipy import stats
from torch import nn

from ferrodp.correlated import BufferedToeplitz
from ferrodp.errors import FerroError
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.torch import TrainingCurves, make_private
from ferrodp.integrations.torch.private import training as training_module
from ferrodp.integrations.torch.private.curves import split
from ferrodp.plan import ConstantNoise, CorrelatedNoise, CyclicPoisson, PerGroupClipping, PoissonSampling

BOUND = 4.0
CURVES = TrainingCurves(loss_bound=BOUND, share=0.25)
INF, NAN = math.inf, math.nan


def begun(plan, *data, curves=CURVES, **options):
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    return make_private(model, optimizer, loader_of(*data), plan=plan, curves=curves, **options)


def trained(model, optimizer, loader):
    for slopes, losses in loader:
        optimizer.private.watch(losses)
        (model(slopes) * 1.0).sum(1).mean().backward()
        optimizer.step()
    return optimizer.private


@given(st.floats(1e-100, 1e100), st.floats(1e-6, 0.5))
def test_gradient_and_numbers_of_an_example_are_within_the_clip_norm_exactly(clip_norm, share):
    found = split(clip_norm, share)

    square = Fraction(found.gradient_norm) ** 2 + 2 * (found.most * Fraction(found.unit)) ** 2
    assert square <= Fraction(clip_norm) ** 2
    assert square >= Fraction(clip_norm) ** 2 * Fraction(1 - 1e-5)
    assert 2**19 <= found.most < 2**22
    assert math.frexp(found.unit)[0] == 0.5  # a power of two


SLOPES = [0.0, 1e-3, 0.5, -40.0, 1e30, INF, NAN]
LOSSES = [0.0, BOUND, 1.0, -7.0, 1e30, -INF, INF, NAN]


def test_sums_of_all_small_databases_and_their_neighbors_are_within_the_clip_norm(monkeypatch):
    """Sums as they are handed to the noise, in exact arithmetic: one record, of 56, is added to each of 57 others."""
    seen = []

    def spied(step, values, **counts):
        seen.append(values.copy())
        return plain(step, values, **counts)

    plain = training_module.release_bounded
    monkeypatch.setattr(training_module, "release_bounded", spied)

    def sum_of(records):
        slopes = torch.tensor([[slope] for slope, _ in records])
        plan = plan_of(len(records), 1.0, num_steps=1)
        private = trained(*begun(plan, slopes, torch.tensor([loss for _, loss in records])))
        private.close()
        return [Fraction(float(each)) for each in seen.pop()]

    records = list(itertools.product(SLOPES, LOSSES))
    alone = {place: sum_of([record]) for place, record in enumerate(records)}
    assert all(sum(each * each for each in vector) <= 1 for vector in alone.values())
    others = list(range(0, len(records), 5))
    largest = Fraction(0)
    for one, other in itertools.product(range(len(records)), others):
        both = sum_of([records[one], records[other]])
        square = sum((a - b) ** 2 for a, b in zip(both, alone[other], strict=True))
        largest = max(largest, square)
        assert square <= 1
    assert largest > 1 - Fraction(1, 1000)


@pytest.mark.parametrize("part_size", [None, 3])
def test_curves_are_the_mean_of_clamped_losses_and_the_share_of_clipped_gradients(part_size):
    """With a noise of 2⁻²⁵ clip norms: the tolerance is that of the grid, 2⁻²⁰ of the bound, and of the noise."""
    slopes = torch.tensor([[0.1], [5.0], [-9.0], [0.2], [INF], [0.3], [0.8], [0.9]])
    losses = torch.tensor([1.0, 2.0, 3.0, 9.0, -1.0, NAN, 0.5, INF])
    private = trained(*begun(plan_of(8, 1.0), slopes, losses, part_size=part_size))

    point = private.curves[0]

    assert point.step == 0
    assert point.loss == pytest.approx((1 + 2 + 3 + 4 + 0 + 4 + 0.5 + 4) / 8, abs=1e-5)
    assert point.clipped_share == pytest.approx(4 / 8, abs=1e-5)  # beyond √¾: three, and one that is not finite


def test_a_step_without_examples_has_curves_of_noise_alone():
    plan = plan_of(20, 1.0, sampling=PoissonSampling(1e-12), noise=ConstantNoise(2.0**-20))
    model, optimizer, loader = begun(plan, torch.ones(20, 1), torch.full((20,), BOUND))
    batches = iter(loader)
    slopes, losses = next(batches)
    optimizer.private.watch(losses)
    (model(slopes) * 1.0).sum(1).mean().backward()
    values = optimizer.private._curves.sums(optimizer.private._sum.count, int(optimizer.private._sum.within))

    assert values == (0.0, 0.0)


def test_noise_of_curves_is_that_of_the_step():
    """1000 numbers a curve; false alarms below 1e-6."""
    steps, multiplier = 1000, 3.0
    plan = plan_of(10, 2.0, num_steps=steps, noise=ConstantNoise(multiplier))
    model, optimizer, loader = begun(plan, torch.zeros(10, 1), torch.full((10,), 3.0))
    while optimizer.private.stopped is None:
        trained(model, optimizer, loader)
    points = optimizer.private.curves

    assert len(points) == steps
    assert optimizer.private.epsilon(1e-5) == plan.epsilon(1e-5)
    found = split(2.0, CURVES.share)
    deviation = multiplier * 2.0 / (found.most * found.unit * 10)
    losses = (np.array([each.loss for each in points]) - 3.0) / (deviation * BOUND / 2)
    shares = np.array([each.clipped_share for each in points]) / (deviation / 2)
    for sample in (losses, shares):
        assert stats.kstest(sample, "norm").pvalue > 5e-7


def test_curves_are_part_of_what_correlated_noise_covers():
    steps = 6
    plan = plan_of(
        12,
        1.0,
        num_steps=steps,
        sampling=CyclicPoisson(1.0, num_parts=3),
        noise=CorrelatedNoise(BufferedToeplitz(num_steps=steps, buffers=2), 3.0),
        neighboring_relation=NeighboringRelation.REPLACE_SPECIAL,
    )
    model, optimizer, loader = begun(plan, torch.zeros(12, 1), torch.full((12,), 3.0))
    while optimizer.private.stopped is None:
        trained(model, optimizer, loader)

    points = optimizer.private.curves
    assert len(points) == steps
    assert len({point.loss for point in points}) == steps  # noised


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"curves": 5.0}, ["curves must be TrainingCurves", "loss_bound"]),
        ({"plan": plan_of(4, clipping=PerGroupClipping({"weight": 1.0}))}, ["PerGroupClipping", "FlatClipping"]),
        ({"shares": 2}, ["several processes"]),
    ],
)
def test_what_has_no_curves_is_refused(change, words):
    with pytest.raises(FerroError) as caught:
        begun(change.pop("plan", plan_of(4)), torch.ones(4, 1), torch.ones(4), **change)

    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(("field", "value"), [("loss_bound", 0.0), ("loss_bound", INF), ("share", 0.0), ("share", 0.6)])
def test_settings_out_of_their_domain_are_refused(field, value):
    with pytest.raises(FerroError, match=field):
        TrainingCurves(**{"loss_bound": 1.0, field: value})


def test_losses_are_given_once_for_every_batch_before_anything_is_charged():
    model, optimizer, loader = begun(plan_of(4), torch.ones(4, 1), torch.ones(4))
    slopes, losses = next(iter(loader))
    private = optimizer.private
    model(slopes).mean().backward()

    with pytest.raises(FerroError, match=r"watch\(losses\) has to be called"):
        optimizer.step()
    with pytest.raises(FerroError, match="one number for each example"):
        private.watch(losses.mean())
    with pytest.raises(FerroError, match="floating-point"):
        private.watch([1.0] * 4)
    private.watch(losses)
    with pytest.raises(FerroError, match="already"):
        private.watch(losses)
    assert private.step_number == 0
    optimizer.step()
    assert private.step_number == len(private.curves) == 1
    with pytest.raises(FerroError, match="without a batch"):
        private.watch(losses)


def test_a_training_without_curves_says_how_to_get_them():
    _, optimizer, _ = begun(plan_of(4), torch.ones(4, 1), torch.ones(4), curves=None)

    assert optimizer.private.curves == ()
    with pytest.raises(FerroError, match="TrainingCurves"):
        optimizer.private.watch(torch.ones(4))
