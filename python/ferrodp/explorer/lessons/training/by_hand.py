"""Lesson 8: one step of DP-SGD on real digits, with two weights, so that arrows show whole gradients."""

from __future__ import annotations

import numpy as np

import ferrodp as fd
from ferrodp.explorer.cells import cell_of
from ferrodp.explorer.figures import (
    Answer,
    Control,
    Figure,
    Lesson,
    Parameters,
    Plot,
    Prediction,
    Role,
    Series,
    Try,
    Value,
    upper,
)
from ferrodp.explorer.lessons.training.data import digits
from ferrodp.plan import ConstantNoise, FlatClipping, PlanStep, PoissonSampling, PrivacyPlan

_DELTA = 1e-5
_STEPS = 40
_RATE = 2.0


def _zeros_and_ones() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two features of each image of a zero or a one, whether it is a one, and the image.

    The features are the ink in the two middle columns and the ink of the rest, both less a constant that is public.
    """
    images, shown = digits()
    chosen = images[shown < 2]
    middle = chosen.reshape(-1, 8, 8)[:, :, 3:5].sum(axis=(1, 2))
    return np.stack([middle - 8.0, chosen.sum(axis=1) - middle - 10.0], axis=1) / 4.0, shown[shown < 2] == 1, chosen


def _gradients(weights: np.ndarray, features: np.ndarray, is_one: np.ndarray) -> np.ndarray:
    """Return the gradient of the logistic loss of each record, one row each."""
    return np.asarray((1 / (1 + np.exp(-features @ weights)) - is_one)[:, None] * features)


def _train(
    clip_norm: float, noise_multiplier: float, batch: int, step: int, seed: int
) -> tuple[PrivacyPlan, PlanStep[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """Train up to a step; return the plan, the step, its gradients, the release, and the weights before it."""
    features, is_one, _ = _zeros_and_ones()
    plan = PrivacyPlan(
        population_size=len(features),
        sampling=PoissonSampling(batch / len(features)),
        num_steps=_STEPS,
        clipping=FlatClipping(clip_norm),
        noise=ConstantNoise(noise_multiplier),
    )
    weights = np.zeros(2)
    run = plan.start(weights, source=fd.testing.seeded(seed.to_bytes(32, "big")))
    for current in run:
        gradients = _gradients(weights, features[current.indices], is_one[current.indices])
        current.add(gradients)
        released = current.release()
        if current.number + 1 == step:
            break
        weights = weights - _RATE * released
    return plan, current, gradients, released, weights


def one_step(clip_norm: float, noise_multiplier: float, batch: int, step: int, seed: int) -> dict[str, Value]:
    """Follow a training of two weights on real zeros and ones, and look at one of its steps."""
    plan, _, gradients, released, weights = _train(clip_norm, noise_multiplier, batch, step, seed)
    clipped, norms = fd.clip_rows(gradients, clip_norm=clip_norm)
    features, is_one, _ = _zeros_and_ones()
    after = weights - _RATE * released
    return {
        "Clipped, of 100 gradients": float(100 * (norms > clip_norm).mean()) if len(norms) else 0.0,
        "Records in this batch": len(gradients),
        "Largest gradient norm": float(norms.max(initial=0.0)),
        "Norm of the sum of clipped gradients": float(np.linalg.norm(clipped.sum(axis=0))),
        "Standard deviation of the noise in each coordinate": noise_multiplier * clip_norm,
        "Weights after the step": f"({after[0]:.4f}, {after[1]:.4f})",
        "Right answers after the step, of 100": float(100 * ((features @ after > 0) == is_one).mean()),
        "ε after this step, at δ = 10⁻⁵": upper(plan.epsilon_after(step, _DELTA))
        if noise_multiplier
        else "no guarantee",
    }


def _arrows(name: str, rows: np.ndarray, role: Role) -> Series:
    none = np.zeros(len(rows))
    return Series(name, x=none, y=none, x2=rows[:, 0], y2=rows[:, 1], kind="arrows", role=role)


def _compute(parameters: Parameters) -> Answer:
    numbers = one_step(**parameters)
    clip_norm = parameters["clip_norm"]
    _, step, gradients, released, _ = _train(**parameters)
    clipped, norms = fd.clip_rows(gradients, clip_norm=clip_norm)
    angle = np.linspace(0, 2 * np.pi, 73)
    circle = Series("norm C", x=clip_norm * np.cos(angle), y=clip_norm * np.sin(angle), role="bound")
    axes = "Gradient of the weight of the middle", "Gradient of the weight of the rest"
    single = Plot(
        "Gradient of each record in the batch",
        *axes,
        (_arrows("as computed", gradients, "non-private"), _arrows("clipped to C", clipped, "private"), circle),
        equal=True,
    )
    size = parameters["batch"]
    mean, noised = clipped.sum(axis=0) / size, released
    spread = parameters["noise_multiplier"] * clip_norm / size
    step_plot = Plot(
        "What the step sees: their sum over the expected batch size",
        *axes,
        (
            _arrows("sum of the clipped", mean[None], "non-private"),
            _arrows("released, with noise", noised[None], "private"),
            Series(
                "two standard deviations of the noise",
                x=mean[0] + 2 * spread * np.cos(angle),
                y=mean[1] + 2 * spread * np.sin(angle),
                role="bound",
            ),
        ),
        equal=True,
    )
    images = _zeros_and_ones()[2]
    shown = [] if step.indices is None else list(step.indices[:8])
    pictures = Plot(
        "The first records of the batch",
        "",
        "",
        tuple(
            Series(f"norm {norms[at]:.2f}", x=[8], y=images[record], kind="image") for at, record in enumerate(shown)
        ),
    )
    sentence = (
        f"In step {parameters['step']}, {numbers['Records in this batch']} records were drawn. With C = {clip_norm:g}, "
        f"{numbers['Clipped, of 100 gradients']:.0f} in 100 of their gradients are longer than C and are scaled down "
        f"to it. Noise with standard deviation "
        f"σC = {parameters['noise_multiplier'] * clip_norm:.3g} is added to the sum."
    )
    return Answer(sentence, numbers, (single, step_plot, pictures), cell_of(one_step, parameters))


LESSON = Lesson(
    name="by-hand",
    title="SGD and DP-SGD by hand",
    idea="Which arrow is yours, and can anybody see it in the step?",
    person="Somebody's handwriting is in the batch: one arrow of twenty-four. A forger would like to know which.",
    question=Prediction(
        "One arrow is five times as long as all others. What does clipping do to it?",
        ("It is left out", "It keeps its direction and gets length C", "All arrows get shorter"),
        1,
        "An arrow longer than C is scaled to the circle; shorter ones stay as they are. Then no record moves the sum "
        "by more "
        "than C, and noise in proportion to C hides any one of them.",
    ),
    tries=(Try("Clip nearly all", {"clip_norm": "0.05"}), Try("Clip none", {"clip_norm": "5"})),
    text="""
<p><em>Stochastic gradient descent</em> fits weights by small steps. In each step it takes a batch of records,
computes the gradient of the loss for them, averages, and moves the weights against it, times a learning rate. The
weights end up being a function of every record, and large models remember single ones.</p>
<p>DP-SGD (Abadi et al. 2016) changes two lines. Here is a whole step, on real handwritten zeros and ones. The model
has only two weights, for the ink in the middle of the image and for the ink elsewhere, so that an arrow in the plane
is the whole gradient.</p>
<ol>
<li><em>Per-sample gradients</em>: one for each record, not only their mean. Some records pull harder than
others.</li>
<li><em>Clip</em>: an arrow longer than C is scaled to the circle. Now no record moves the sum by more than C.</li>
<li><em>Sum</em>, and add <em>noise</em> with standard deviation σC in each coordinate.</li>
<li>Divide by the <em>expected</em> batch size, which is public (the true one is not), and take the step.</li>
</ol>
<p>Go through the steps: as the model learns, gradients get shorter and fewer are clipped. Make C small: all arrows
have the same length, and only their directions count. Make C large: nothing is clipped, and the noise grows with C
all the same.</p>
""",
    figure=Figure(
        "by-hand",
        (
            Control(
                "clip_norm", "Clip norm C", 0.6, 0.02, 5.0, "log", low_label="all clipped", high_label="none clipped"
            ),
            Control(
                "noise_multiplier",
                "Noise multiplier σ",
                1.0,
                0.3,
                20.0,
                "log",
                low_label="little noise",
                high_label="much noise",
            ),
            Control(
                "batch",
                "Expected batch size",
                24,
                4,
                300,
                integer=True,
                low_label="few records",
                high_label="nearly all",
            ),
            Control("step", "Step", 1, 1, _STEPS, integer=True, low_label="first", high_label="last"),
        ),
        _compute,
        main=("clip_norm", "step"),
        seeded=True,
    ),
    why="""
<p><strong>Theorem</strong> (Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang 2016, with today's accounting).
If every record's vector has norm at most C, adding or removing one moves the sum by at most C. So Gaussian noise with
standard deviation σC is the Gaussian mechanism with noise multiplier σ, on a Poisson sample; a step's cost depends on
σ and q, not on C, the model or its dimension. The training is the adaptive composition of its steps, and everything
computed from the released sums is post-processing.</p>
<p>The clip norm is a scale, min(1, C/‖g‖) g: the direction is kept. The sum of clipped gradients is not the gradient
of the sum: clipping has a bias that does not vanish with more steps (Chen, Wu, Hong, NeurIPS 2020).</p>
<p>FerroDP adds clipped rows as integers on a grid, so the bound C on what a record can change holds in exact
arithmetic.</p>
""",
    terms=("SGD", "per-sample gradients", "gradient clipping", "noise", "DP-SGD"),
)
