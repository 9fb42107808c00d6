"""Property inference: what a model tells about its training data as a whole."""

from __future__ import annotations

import functools

import numpy as np

import ferrodp as fd
from ferrodp.accounting import GaussianEvent, PldAccountant
from ferrodp.accounting.reports import membership_advantage
from ferrodp.explorer.cells import cell_of
from ferrodp.explorer.figures import (
    PENDING,
    Answer,
    Control,
    Figure,
    Lesson,
    Parameters,
    Plot,
    Series,
    Value,
    shown,
    upper,
)
from ferrodp.explorer.model.attacks.controls import CLIP, NOISE, RATE
from ferrodp.explorer.model.datasets import load, softmax
from ferrodp.explorer.rates import told

_RECORDS, _STEPS = 100, 10


@functools.lru_cache(16)
def beliefs(
    share: float, clip_norm: float, noise_multiplier: float, learning_rate: float, trainings: int, seed: int
) -> np.ndarray:
    """Return how probable models find digit 1 of test images: an array of (privacy, share, training)."""
    data, rng = load("digits"), np.random.default_rng(seed)
    members = [np.flatnonzero(data.labels == label) for label in (0, 1)]
    test = data.test_features[data.test_labels < 2]
    noise = fd.GaussianMechanism(noise_multiplier=noise_multiplier, l2_sensitivity=clip_norm)
    source = fd.testing.seeded(f"{seed}".encode().ljust(32))
    found = np.zeros((2, 2, trainings))
    for side, part in enumerate((0.5 - share / 2, 0.5 + share / 2)):
        ones = round(_RECORDS * part)
        chosen = np.concatenate(
            [rng.choice(members[1], (trainings, ones)), rng.choice(members[0], (trainings, _RECORDS - ones))], axis=1
        )
        x, right = data.features[chosen], np.eye(2)[data.labels[chosen]]
        lengths = np.linalg.norm(x, axis=2, keepdims=True)
        for private in (0, 1):
            models = np.zeros((trainings, x.shape[2], 2))  # all trainings side by side
            for _ in range(_STEPS):
                errors = softmax(x @ models) - right
                if private:
                    norms = np.linalg.norm(errors, axis=2, keepdims=True) * lengths
                    errors *= np.minimum(1.0, clip_norm / np.maximum(norms, 1e-300))
                total = x.transpose(0, 2, 1) @ errors
                total = noise.release(total, source=source) if private else total
                models -= learning_rate / _RECORDS * total
            found[private, side] = softmax(test @ models)[..., 1].mean(axis=1)
    return found


def won(seen: np.ndarray) -> int:
    """Return how often the side of the middle threshold is right, among both kinds of training."""
    threshold = np.median(seen)
    return int((seen[0] <= threshold).sum() + (seen[1] > threshold).sum())


def _known(share: float, noise_multiplier: float) -> dict[str, Value]:
    """Return the ε of all steps, each of which adds noise to a sum over all records, and what it says of attacks."""
    accountant = PldAccountant()
    accountant.compose(GaussianEvent(noise_multiplier=noise_multiplier), count=_STEPS)
    return {
        "ε of one record at δ = 10⁻⁵": upper(accountant.epsilon(1e-5)),
        "Won bets about one record, at even odds, at most": upper(0.5 + membership_advantage(accountant) / 2),
        "Told right, without privacy": PENDING,
        "Told right, with privacy": PENDING,
        "Records in which the two kinds differ": round(_RECORDS * share),
    }


def properties(
    *, share: float, clip_norm: float, noise_multiplier: float, learning_rate: float, trainings: int, seed: int
) -> dict[str, Value]:
    """Tell from a model whether the digit 1 was rare or frequent in its training."""
    seen = beliefs(share, clip_norm, noise_multiplier, learning_rate, trainings, seed)
    numbers = _known(share, noise_multiplier)
    for private, name in enumerate(("without privacy", "with privacy")):
        numbers[f"Told right, {name}"] = told(won(seen[private]), 2 * trainings)
    return numbers


def first(parameters: Parameters) -> Answer:
    """Return ε, before a model is trained."""
    numbers = _known(parameters["share"], parameters["noise_multiplier"])
    sentence = f"{4 * parameters['trainings']} trainings are running, {parameters['trainings']} of each kind."
    return Answer(sentence, numbers, (), cell_of(properties, parameters))


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
        first=first,
    ),
    why="""<p>Ateniese, Mancini, Spognardi, Villani, Vitali, Felici, IJSN 2015; Ganju, Wang, Yang, Gunter, Borisov,
CCS 2018. Datasets that differ in m records are told apart with odds up to e<sup>mε</sup> (group
privacy: Dwork, Roth 2014, Theorem 2.2), which for m = 40 excludes nothing. For m = 1, at even odds and
under pure ε, the chance to be right is at most e<sup>ε</sup>/(1 + e<sup>ε</sup>). To hide a property,
make the owner of the dataset the unit of privacy.</p>""",
    terms=(),
)
