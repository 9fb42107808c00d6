"""Reconstruction of a record from a gradient: division, where the gradient is that of a linear layer."""

from __future__ import annotations

import numpy as np

import ferrodp as fd
from ferrodp.accounting import GaussianEvent, PldAccountant
from ferrodp.accounting.reports import membership_advantage
from ferrodp.explorer.cells import cell_of
from ferrodp.explorer.figures import Answer, Control, Figure, Lesson, Parameters, Plot, Series, Value, brief, upper
from ferrodp.explorer.model.attacks.controls import CLIP, NOISE
from ferrodp.explorer.model.datasets import gradients, initial, load

_PIXELS = 64


def pictures(record: int, batch: int, clip_norm: float, noise_multiplier: float, seed: int) -> dict[str, np.ndarray]:
    """Return the image, what the sum of plain gradients gives away, and what the private release does."""
    data = load("digits")
    chosen = np.arange(record, record + batch) % len(data.features)
    model = initial("linear", data, 0)
    rows = gradients("linear", model, data.features[chosen], data.labels[chosen], data.num_classes)
    total = fd.ClippedSum(rows.shape[1:], clip_norm=clip_norm)
    for row in rows:
        total.add(row)
    released = total.release(noise_multiplier=noise_multiplier, source=fd.testing.seeded(f"{seed}".encode().ljust(32)))
    found = {"the record": data.features[chosen[0], :_PIXELS]}
    label = data.labels[chosen[0]]
    for name, gradient in (("from the plain gradient", rows.sum(axis=0)), ("from the private release", released)):
        of_class = np.asarray(gradient).reshape(-1, data.num_classes)[:, label]
        # a row of the gradient is error × (pixels, 0.5): the last entry gives the error away, and division the pixels
        found[name] = of_class[:_PIXELS] / of_class[-1] * 0.5
    return {name: np.clip((values * _PIXELS**0.5 + 1) / 2, 0, 1) for name, values in found.items()}


def reconstruction(
    *, record: int, batch: int, clip_norm: float, noise_multiplier: float, seed: int
) -> dict[str, Value]:
    """Reconstruct a digit from one step, without and with privacy."""
    found = pictures(record, batch, clip_norm, noise_multiplier, seed)
    accountant = PldAccountant()
    accountant.compose(GaussianEvent(noise_multiplier=noise_multiplier))
    numbers: dict[str, Value] = {"ε of this step at δ = 10⁻⁵": upper(accountant.epsilon(1e-5))}
    for name in ("from the plain gradient", "from the private release"):
        error = float(np.abs(found[name] - found["the record"]).mean())
        numbers[f"Mean error of a pixel, {name}"] = round(error, 6)
    mean = float(np.abs(found["the record"] - found["the record"].mean()).mean())
    numbers["Mean error of one gray for all pixels"] = round(mean, 6)
    numbers["Most bets won on which of two records it is"] = upper(0.5 + membership_advantage(accountant) / 2)
    return numbers


def compute(parameters: Parameters) -> Answer:
    """Reconstruct, and show the images."""
    numbers, found = reconstruction(**parameters), pictures(**parameters)
    images = tuple(Series(name, [8], values.tolist(), "image") for name, values in found.items())
    plot = Plot("One digit, as it is and as it is read from a gradient", "column", "row", images)
    plain, private = (
        numbers[f"Mean error of a pixel, from the {name}"] for name in ("plain gradient", "private release")
    )
    told = "alone in its batch" if parameters["batch"] == 1 else f"in a batch of {parameters['batch']}"
    sentence = (
        f"A record {told}: read from the plain gradient a pixel is off by {brief(plain)} on average, from the "
        f"clipped and noised sum by {brief(private)}. Black is 0, white 1."
    )
    return Answer(sentence, numbers, (plot,), cell_of(reconstruction, parameters))


PAGE = Lesson(
    name="reconstruction",
    title="Reconstruction from a gradient",
    idea="A gradient of one record is the record, scaled. Noise is what makes it something else.",
    text="""<p>The gradient of a linear layer is the error times the input. The entry that belongs to the constant
feature is the error itself, so a division gives the input back: no search, no model of images. In a
batch the records of one class are mixed; others hardly disturb it. The same division is applied to what
the private step releases.</p>""",
    figure=Figure(
        "reconstruction",
        (
            Control("record", "Record", 7, 0, 1437, integer=True, low_label="first", high_label="last"),
            Control(
                "batch", "Records in the batch", 1, 1, 64, "log", integer=True, low_label="alone", high_label="many"
            ),
            CLIP,
            NOISE,
        ),
        compute,
        seeded=True,
    ),
    why="""<p>For a layer with scores Wx + b the gradients are e·xᵀ and e, with the same error e (Phong, Aono,
Hayashi, Wang, Moriai, IEEE TIFS 2018). Deeper networks need optimization instead (Zhu, Liu, Han,
NeurIPS 2019; Geiping, Bauermeister, Dröge, Moeller, NeurIPS 2020). Against an attacker who knows that
the record is one of two, at even odds, every reconstruction is right with chance at most (1 + δ(0))/2,
and under pure ε at most e<sup>ε</sup>/(1 + e<sup>ε</sup>): 0.731 at ε = 1, 0.881 at ε = 2. Bounds for
more candidates: Balle, Cherubin, Hayes, S&amp;P 2022.</p>""",
    terms=(),
)
