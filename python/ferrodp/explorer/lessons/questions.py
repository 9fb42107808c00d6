"""The ten questions of the exam: a seed decides their numbers, and the library computes the answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import ferrodp as fd
from ferrodp.accounting import GaussianEvent, GdpAccountant, gaussian_noise_multiplier, group_privacy
from ferrodp.explorer.figures import Control, Value
from ferrodp.plan import ConstantNoise, FlatClipping, GivenOrder, PoissonSampling, PrivacyPlan, Sampling

Drawn = Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """A question with numbers that a seed decides.

    `draw` returns the numbers for a generator, `ask` the question in words, `solve` the numbers that the library
    computes, the right answer under the label "Answer". An answer in numbers is right within `tolerance` of it, as a
    share.
    """

    name: str
    title: str
    control: Control
    draw: Callable[[np.random.Generator], dict[str, Any]]
    ask: Callable[[Drawn], str]
    solve: Callable[..., dict[str, Value]]
    because: str
    tolerance: float = 0.02


def _number(label: str, low: float, high: float, **options: Any) -> Control:
    middle = math.sqrt(low * high) if options.get("scale") == "log" else (low + high) / 2
    default = round(middle) if options.get("integer") else float(f"{middle:.2g}")
    return Control("answer", label, default, low, high, **options)


def _choice(*choices: tuple[str, str]) -> Control:
    return Control("answer", "Your answer", "none", choices=(("none", "choose …"), *choices))


def truth(epsilon: float) -> dict[str, Value]:
    """Return the chance that randomized response with two answers tells the truth."""
    return {"Answer": fd.RandomizedResponse.calibrated(epsilon=epsilon).truth_probability}


def belief(epsilon: float, before: float) -> dict[str, Value]:
    """Return the most that a belief can become, by Bayes' rule and pure ε."""
    odds = before / (1 - before) * math.exp(epsilon)
    return {"Answer": odds / (1 + odds)}


def laplace(bound: float, epsilon: float) -> dict[str, Value]:
    """Return the scale of the Laplace noise for a sum of numbers in [0, bound]."""
    return {"Answer": fd.LaplaceMechanism.calibrated(epsilon=epsilon, l1_sensitivity=bound).scale}


def multiplier(epsilon: float, delta: float) -> dict[str, Value]:
    """Return the least noise multiplier of one Gaussian release, and two that are said to be it."""
    least = gaussian_noise_multiplier(epsilon=epsilon, delta=delta)
    said = {"textbook": math.sqrt(2 * math.log(1.25 / delta)) / epsilon, "laplace": 1 / epsilon}
    as_said = [name for name, value in said.items() if abs(least / value - 1) < 0.01]
    return {
        "Answer": as_said[0] if as_said else "exact" if said["laplace"] < least < said["textbook"] else "none of these",
        "Least noise multiplier": least,
        "Textbook formula √(2 ln(1.25/δ))/ε": said["textbook"],
        "Laplace noise, 1/ε": said["laplace"],
    }


def basic(epsilon: float, queries: int) -> dict[str, Value]:
    """Return what queries of pure ε cost together by basic composition."""
    return {"Answer": fd.accounting.compose_basic([fd.accounting.Guarantee(epsilon, 0.0)], count=queries).epsilon}


def growth(noise_multiplier: float, factor: int) -> dict[str, Value]:
    """Return by how much ε grows if there are so many times as many releases, at much noise."""
    found = []
    for count in (100, 100 * factor):
        accountant = GdpAccountant()
        accountant.compose(GaussianEvent(noise_multiplier=noise_multiplier), count)
        found.append(accountant.epsilon(1e-6))
    ratio = found[1] / found[0]
    shapes = {"square root": math.sqrt(factor), "linear": float(factor), "square": float(factor**2)}
    return {"Answer": min(shapes, key=lambda name: abs(math.log(shapes[name] / ratio))), "ε grows by": ratio}


def order(noise_multiplier: float, batches: int) -> dict[str, Value]:
    """Return which of two trainings costs less: Poisson samples, or a loader that shuffles."""
    costs = {}
    kinds: dict[str, Sampling] = {
        "poisson": PoissonSampling(1 / batches),
        "shuffled": GivenOrder(-(-1000 // batches), max_participations=5),
    }
    for name, sampling in kinds.items():
        plan = PrivacyPlan(
            population_size=1000,
            sampling=sampling,
            num_steps=5 * batches,
            clipping=FlatClipping(1.0),
            noise=ConstantNoise(noise_multiplier),
            neighboring_relation=fd.events.NeighboringRelation.REPLACE_SPECIAL,
        )
        costs[name] = plan.epsilon(1e-5)
    return {
        "Answer": min(costs, key=costs.__getitem__),
        "ε, Poisson": costs["poisson"],
        "ε, shuffled": costs["shuffled"],
    }


def clipped(norms: tuple[float, ...], clip_norm: float) -> dict[str, Value]:
    """Return the norm of the sum of gradients that point the same way, after clipping each."""
    rows, _ = fd.clip_rows(np.array(norms)[:, None], clip_norm=clip_norm)
    return {"Answer": float(np.linalg.norm(rows.sum(axis=0)))}


def person(epsilon: float, records: int) -> dict[str, Value]:
    """Return the ε of a person with so many records, if ε is that of a record."""
    return {"Answer": group_privacy(epsilon=epsilon, size=records).epsilon}


def share(clients: int, lost: int, noise_multiplier: float) -> dict[str, Value]:
    """Return the noise of one client, in units of the clip norm, if so many may drop out."""
    secure = fd.federated.SecureSum(
        (8,), clip_norm=1.0, noise_multiplier=noise_multiplier, min_clients=clients - lost, max_clients=clients
    )
    return {"Answer": float(secure.share_scale * secure.granularity)}


QUESTIONS = (
    Question(
        "exam-truth",
        "The coin",
        _number("Chance of the truth", 0.5, 1.0),
        lambda g: {"epsilon": float(g.choice([0.5, 1.0, 1.5, 2.0, 3.0]))},
        lambda d: (
            f"A question with two answers is asked by randomized response with ε = {d['epsilon']:g}. With which "
            "chance is an answer true?"
        ),
        truth,
        "p = e<sup>ε</sup> / (1 + e<sup>ε</sup>): lesson 1.",
    ),
    Question(
        "exam-belief",
        "The bet",
        _number("Largest belief afterwards", 0.0, 1.0),
        lambda g: {"epsilon": float(g.choice([0.5, 1.0, 2.0])), "before": float(g.choice([0.1, 0.2, 0.5]))},
        lambda d: (
            f"Somebody believes with probability {d['before']:g} that you are in the data, and then sees a release "
            f"with pure "
            f"ε = {d['epsilon']:g}. How large can the belief be afterwards, at most?"
        ),
        belief,
        "Odds grow by at most e<sup>ε</sup>: lessons 1, 2 and 10.",
    ),
    Question(
        "exam-laplace",
        "Sensitivity",
        _number("Scale of the noise", 1.0, 10_000.0, scale="log"),
        lambda g: {"bound": float(g.choice([10, 20, 50, 100])), "epsilon": float(g.choice([0.1, 0.25, 0.5, 2.0]))},
        lambda d: (
            f"Numbers from 0 to {d['bound']:g} are added up, and records may be added or removed. Which scale of "
            f"Laplace noise "
            f"gives ε = {d['epsilon']:g}?"
        ),
        laplace,
        "Scale = sensitivity / ε, and one record moves the sum by at most the bound: lesson 3.",
    ),
    Question(
        "exam-gaussian",
        "Gaussian noise",
        _choice(
            ("textbook", "as the textbook formula says"),
            ("exact", "less than that formula says"),
            ("laplace", "1/ε, as for Laplace noise"),
        ),
        lambda g: {"epsilon": float(g.choice([0.2, 0.5, 0.8])), "delta": float(g.choice([1e-5, 1e-6, 1e-8]))},
        lambda d: (
            f"One release with Gaussian noise is to be ({d['epsilon']:g}, {d['delta']:g})-differentially private. "
            f"What is the "
            "least noise multiplier?"
        ),
        multiplier,
        "The exact condition of Balle and Wang needs less than the sufficient one of the textbook: lesson 2.",
    ),
    Question(
        "exam-basic",
        "A dashboard",
        _number("ε together", 0.1, 100.0, scale="log"),
        lambda g: {"epsilon": float(g.choice([0.1, 0.2, 0.5])), "queries": int(g.choice([7, 12, 30]))},
        lambda d: (
            f"A dashboard shows {d['queries']} counts of the same people, each with pure ε = {d['epsilon']:g}. Which "
            f"pure ε does it have?"
        ),
        basic,
        "Pure ε adds up: lesson 6.",
    ),
    Question(
        "exam-growth",
        "Longer",
        _choice(
            ("linear", "by the same factor"),
            ("square root", "about by its square root"),
            ("square", "about by its square"),
        ),
        lambda g: {"noise_multiplier": float(g.choice([200, 300, 500])), "factor": int(g.choice([4, 9, 16]))},
        lambda d: (
            f"Releases with Gaussian noise of multiplier {d['noise_multiplier']:g} go on {d['factor']} times as long. "
            f"By how much does ε grow, at a fixed δ?"
        ),
        growth,
        "Losses mostly cancel, so ε grows like the square root while it is small: lesson 6.",
    ),
    Question(
        "exam-order",
        "The data loader",
        _choice(
            ("same", "the same for both"),
            ("shuffled", "less with the shuffle"),
            ("poisson", "less with Poisson samples"),
        ),
        lambda g: {"noise_multiplier": float(g.choice([0.8, 1.0, 1.5])), "batches": int(g.choice([10, 20, 50]))},
        lambda d: (
            f"A training of 5 epochs with {d['batches']} batches each and σ = {d['noise_multiplier']:g} is accounted "
            f"twice: with Poisson samples, and with "
            "a loader that shuffles once an epoch. Which ε can be proven?"
        ),
        order,
        "No amplification is proven for the shuffle, which costs one plain release an epoch: lesson 7.",
    ),
    Question(
        "exam-clip",
        "Clipping",
        _number("Norm of the sum", 0.0, 20.0),
        lambda g: {
            "norms": tuple(float(x) for x in g.choice([0.5, 1.5, 2.0, 3.0, 6.0], 4)),
            "clip_norm": float(g.choice([1.0, 2.0])),
        },
        lambda d: (
            f"Four gradients point the same way and have norms {', '.join(f'{x:g}' for x in d['norms'])}. Each is "
            f"clipped to C = {d['clip_norm']:g}. "
            "What is the norm of their sum?"
        ),
        clipped,
        "Each counts with min(norm, C): lesson 8.",
    ),
    Question(
        "exam-person",
        "Whose ε?",
        _number("ε of the person", 0.1, 100.0, scale="log"),
        lambda g: {"epsilon": float(g.choice([0.1, 0.5, 1.0])), "records": int(g.choice([3, 8, 20]))},
        lambda d: (
            f"A release has pure ε = {d['epsilon']:g} for one record. Somebody has {d['records']} records. Which ε "
            f"protects the person?"
        ),
        person,
        "k records are k steps from one world to the other: lessons 11 and 12.",
    ),
    Question(
        "exam-share",
        "Shares of noise",
        _number("Noise of a client, in clip norms", 0.02, 2.0, scale="log"),
        lambda g: {
            "clients": int(g.choice([20, 50, 80])),
            "lost": int(g.choice([4, 14])),
            "noise_multiplier": float(g.choice([1.0, 2.0])),
        },
        lambda d: (
            f"{d['clients']} clients add shares of noise, and up to {d['lost']} may drop out. The sum needs the noise "
            f"multiplier "
            f"{d['noise_multiplier']:g}. What is the standard deviation of a client's share, in clip norms?"
        ),
        share,
        "Variances add up, and the clients that stay have to reach σ²: σ / √(clients that stay): lesson 11.",
        0.03,
    ),
)
