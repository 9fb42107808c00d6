"""Property inference: what a model tells about its training data as a whole."""

from __future__ import annotations

import functools

import numpy as np

import ferrodp as fd
from ferrodp.accounting import PldAccountant
from ferrodp.accounting.reports import binomial_upper_bound
from ferrodp.explorer.cells import cell_of
from ferrodp.explorer.figures import Answer, Control, Figure, Lesson, Parameters, Plot, Series, Value, shown, upper
from ferrodp.explorer.model.attacks.controls import CLIP, NOISE, RATE
from ferrodp.explorer.model.datasets import gradients, initial, load, probabilities
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan

_RECORDS, _STEPS = 100, 10


@functools.lru_cache(16)
def beliefs(
    share: float, clip_norm: float, noise_multiplier: float, learning_rate: float, trainings: int, seed: int
) -> np.ndarray:
    """Return how probable models find digit 1 of test images: an array of (privacy, share, training)."""
    data, rng = load("digits"), np.random.default_rng(seed)
    members = [np.flatnonzero(data.labels == label) for label in (0, 1)]
    test = data.test_features[data.test_labels < 2]
    plan = PrivacyPlan(
        population_size=_RECORDS,
        sampling=FullBatch(),
        num_steps=_STEPS,
        clipping=FlatClipping(clip_norm),
        noise=ConstantNoise(noise_multiplier),
    )
    found = np.zeros((2, 2, trainings))
    for side, part in enumerate((0.5 - share / 2, 0.5 + share / 2)):
        ones = round(_RECORDS * part)
        for number in range(trainings):
            chosen = np.concatenate([rng.choice(members[1], ones), rng.choice(members[0], _RECORDS - ones)])
            x, y = data.features[chosen], data.labels[chosen]
            for private in (0, 1):
                model = initial("linear", data, 0)[: x.shape[1] * 2]
                source = fd.testing.seeded(f"{seed} {side} {number}".encode().ljust(32))
                for step in plan.start(model, source=source):
                    rows = gradients("linear", model, x, y, 2)
                    step.add(rows)
                    mean = step.release()
                    model = model - learning_rate * (mean if private else rows.mean(axis=0))
                found[private, side, number] = probabilities("linear", model, test, 2)[:, 1].mean()
    return found


def won(seen: np.ndarray) -> int:
    """Return how often the side of the middle threshold is right, among both kinds of training."""
    threshold = np.median(seen)
    return int((seen[0] <= threshold).sum() + (seen[1] > threshold).sum())


def properties(
    *, share: float, clip_norm: float, noise_multiplier: float, learning_rate: float, trainings: int, seed: int
) -> dict[str, Value]:
    """Tell from a model whether the digit 1 was rare or frequent in its training."""
    seen = beliefs(share, clip_norm, noise_multiplier, learning_rate, trainings, seed)
    accountant = PldAccountant()
    accountant.compose(
        PrivacyPlan(
            population_size=_RECORDS,
            sampling=FullBatch(),
            num_steps=_STEPS,
            clipping=FlatClipping(clip_norm),
            noise=ConstantNoise(noise_multiplier),
        ).event
    )
    numbers: dict[str, Value] = {"ε of one record at δ = 1e-05": upper(accountant.epsilon(1e-5))}
    for private, name in enumerate(("without privacy", "with privacy")):
        hits, total = won(seen[private]), 2 * trainings
        low = 1.0 - binomial_upper_bound(hits=total - hits, num_samples=total, confidence=0.975)
        high = binomial_upper_bound(hits=hits, num_samples=total, confidence=0.975)
        numbers[f"Told right, {name}"] = f"{hits / total:.3f} ({low:.3f} to {high:.3f})"
    numbers["Records in which the two kinds differ"] = round(_RECORDS * share)
    return numbers


def compute(parameters: Parameters) -> Answer:
    """Infer, and draw what the models believe."""
    numbers, seen = properties(**parameters), beliefs(**parameters)
    edges = np.linspace(seen.min() - 1e-9, seen.max() + 1e-9, 25)
    middle = ((edges[1:] + edges[:-1]) / 2).tolist()
    plots = []
    for private, name in enumerate(("without privacy", "with privacy")):
        kinds = ((0, "digit 1 is rare", "a"), (1, "digit 1 is frequent", "b"))
        series = tuple(
            Series(label, middle, np.histogram(seen[private, side], edges)[0].tolist(), "bars", role)  # type: ignore[arg-type]
            for side, label, role in kinds
        )
        plots.append(Plot(f"Models trained {name}", "mean probability of digit 1", "models", series))
    plain, private_told = numbers["Told right, without privacy"], numbers["Told right, with privacy"]
    sentence = (
        f"Whether {shown(50 - 50 * parameters['share'])} or {shown(50 + 50 * parameters['share'])} % of the training "
        f"images were ones is told right with rate {plain} without privacy, {private_told} with it."
    )
    return Answer(sentence, numbers, tuple(plots), cell_of(properties, parameters))


PAGE = Lesson(
    name="property",
    title="Property inference",
    idea="A model tells about its data as a whole. The guarantee is about each record, and allows that.",
    text="""<p>Models are trained on 100 images of the digits 0 and 1, in one half of the trainings with few ones,
in the other with many. The attacker looks at how probable a model finds ones among public images, and
says which kind it was. Noise makes it harder, but many records differ between the two kinds, and
learning about many is what training is for.</p>""",
    figure=Figure(
        "property",
        (
            Control(
                "share", "Difference of the shares", 0.4, 0.02, 0.9, low_label="2 records", high_label="90 records"
            ),
            CLIP,
            NOISE,
            RATE,
            Control(
                "trainings",
                "Trainings of each kind",
                60,
                40,
                200,
                "log",
                integer=True,
                low_label="wide",
                high_label="narrow",
            ),
        ),
        compute,
        seeded=True,
    ),
    why="""<p>Ateniese, Mancini, Spognardi, Villani, Vitali, Felici, IJSN 2015; Ganju, Wang, Yang, Gunter, Borisov,
CCS 2018. Datasets that differ in m records are told apart with odds up to e<sup>mε</sup> (group
privacy: Dwork, Roth 2014, Theorem 2.2), which for m = 40 excludes nothing. For m = 1, at even odds and
under pure ε, the chance to be right is at most e<sup>ε</sup>/(1 + e<sup>ε</sup>). To hide a property,
make the owner of the dataset the unit of privacy.</p>""",
    terms=(),
)
