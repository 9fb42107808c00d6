"""Lesson 1: randomized response on 200 people, one of whom the reader tries to guess."""

from __future__ import annotations

import math

import numpy as np

import ferrodp as fd
from ferrodp.explorer.cells import cell_of
from ferrodp.explorer.figures import (
    Answer,
    Control,
    Figure,
    Guess,
    Lesson,
    Parameters,
    Plot,
    Prediction,
    Role,
    Series,
    Try,
    Value,
    brief,
    upper,
)

_PEOPLE, _COLUMNS = 200, 20


def _answers(epsilon: float, share: float, seed: int) -> tuple[fd.RandomizedResponse, np.ndarray, np.ndarray]:
    """Return the mechanism, the secret of each person, and what each of them answered."""
    mechanism = fd.RandomizedResponse.calibrated(epsilon=epsilon, num_categories=2)
    secrets = np.random.default_rng(0).permutation(_PEOPLE) < round(share * _PEOPLE)
    answers = mechanism.release(secrets, source=fd.testing.seeded(seed.to_bytes(32, "big")))
    return mechanism, secrets, answers


def randomized_response(epsilon: float, share: float, person: int, seed: int) -> dict[str, Value]:
    """Ask 200 people by a coin, estimate how many have the trait, and say what one answer tells of one person."""
    mechanism, secrets, answers = _answers(epsilon, share, seed)
    lied = mechanism.noise_parameter / 2
    spread = math.sqrt(_PEOPLE * lied * (1 - lied)) / (1 - 2 * lied)
    return {
        "People who cheated": int(secrets.sum()),
        "Estimate from the answers": float(mechanism.estimate_frequencies(answers)[1]),
        "Best guesses that are right, of 100": 100 * _best(mechanism.truth_probability, share),
        "ε of one answer": upper(mechanism.epsilon()),
        "Chance of the true answer": mechanism.truth_probability,
        "People who answered yes": int(answers.sum()),
        "Standard error of the estimate": spread,
        f"Answer of person {person}": "yes" if answers[person - 1] else "no",
        "Belief in this answer, if it was 50 % before": mechanism.truth_probability,
        "Belief in this answer, who knows the share": _belief(mechanism.truth_probability, share, answers[person - 1]),
    }


def _belief(truth: float, share: float, answered_yes: bool) -> float:
    """Return the chance that an answer is true, for somebody who knows the share of those who cheated."""
    prior = share if answered_yes else 1 - share
    return prior * truth / (prior * truth + (1 - prior) * (1 - truth)) if 0 < prior < 1 else prior


def _best(truth: float, share: float) -> float:
    """Return how often the best guesser is right, who knows the share and sees the answer: Bayes' rule for each."""
    return max(share * truth, (1 - share) * (1 - truth)) + max(share * (1 - truth), (1 - share) * truth)


def _compute(parameters: Parameters) -> Answer:
    numbers = randomized_response(**parameters)
    mechanism, secrets, answers = _answers(parameters["epsilon"], parameters["share"], parameters["seed"])
    place = np.arange(_PEOPLE)
    person = parameters["person"] - 1

    def marks(name: str, chosen: np.ndarray, role: Role) -> Series:
        x, y = chosen % _COLUMNS + 1, chosen // _COLUMNS + 1
        return Series(name, x=x, y=y, kind="people", role=role, ids=chosen + 1)

    said = "yes" if answers[person] else "no"
    people = Plot(
        "200 answers: press somebody",
        "Place in the row",
        "Row",
        (
            marks("answered yes", place[answers & (place != person)], "a"),
            marks("answered no", place[~answers & (place != person)], "b"),
            marks(f"person {person + 1}, who answered {said}", place[person : person + 1], "bound"),
        ),
        pick="person",
    )
    grid = np.linspace(0.05, 6.0, 60)
    belief = 1 / (1 + np.exp(-grid))
    curve = Plot(
        "How far one answer can move a belief of 50 %",
        "ε of one answer",
        "Belief after the answer",
        (
            Series("most it can become", x=grid, y=belief, role="bound"),
            Series("least it can become", x=grid, y=1 - belief, role="lower"),
        ),
        marks=((parameters["epsilon"], "your ε"),),
        drag="epsilon",
    )
    best = _best(mechanism.truth_probability, parameters["share"])
    sentence = (
        f"{numbers['People who cheated']} of {_PEOPLE} cheated; the answers alone say "
        f"{numbers['Estimate from the answers']:.0f} with a standard error of "
        f"{numbers['Standard error of the estimate']:.0f}. Whoever guesses "
        f"about one person, as well as can be, is right {100 * best:.0f} times in 100; "
        f"{100 * mechanism.truth_probability:.0f} in 100 answers are true, at ε = {brief(parameters['epsilon'])}."
    )
    guess = Guess(
        f"Person {person + 1} answered {said}. Did they cheat?",
        ("they cheated", "they did not"),
        0 if secrets[person] else 1,
        "person",
        best,
    )
    return Answer(sentence, numbers, (people, curve), cell_of(randomized_response, parameters), guess=guess)


LESSON = Lesson(
    name="coin",
    title="A coin and a secret",
    idea="Did you ever cheat in an exam? Two hundred people answered, and each had flipped a coin first.",
    person="A student who once cheated would lose her degree if her answer gave her away. She answers all the "
    "same: whatever she says, the coin may have said it for her.",
    question=Prediction(
        "If everybody lies now and then, can you still say how many of the two hundred cheated?",
        ("No", "About", "Exactly"),
        1,
        "The chance of a lie is public, so its effect on the count can be taken off. What stays is the chance of the "
        "draw: it grows with the square root of the crowd.",
    ),
    tries=(
        Try("ε = 0.2: guesses become coin flips", {"epsilon": "0.2"}),
        Try("ε = 4: answers become true", {"epsilon": "4"}),
    ),
    text="""
<p>Press somebody and guess. Each person flipped a coin in private: with some chance the true answer is given, otherwise
the opposite. Nobody, not even the one who asks, learns which it was. This is <em>randomized response</em> (Warner
1965), and what it leaves to each person is <em>plausible deniability</em>: whatever was answered, the other secret
could have led to it. ε says how much one answer gives away, and the crowd pays for it.</p>
<p>Why the crowd can be counted: because the chance of a lie is public, its effect
on the <em>count</em> can be taken off again. The error of the estimate grows with the square root of the number of
people, so its share of the total shrinks as the crowd grows.</p>
<h3>Why not simply remove the names?</h3>
<p>Because the rest of a record is a name too. Sweeney (2002) found the governor of Massachusetts in "anonymous"
hospital records with a voter list, by ZIP code, birth date and sex. Narayanan and Shmatikov (2008) found people in a
published table of film ratings with a few ratings known from elsewhere. And Dinur and Nissim (2003) showed that too
many answers that are too accurate give away almost the whole table, whatever was removed from it before.
<em>Anonymization</em> makes an assumption about what an attacker knows; a coin does not.</p>
<p>The coin works without anybody who is trusted: this is the <em>local</em> model. The lessons that follow have a
trusted curator, who sees the data and adds noise to what is published. This costs far less accuracy.</p>
""",
    figure=Figure(
        "coin",
        (
            Control(
                "epsilon",
                "ε of one answer",
                1.0,
                0.05,
                6.0,
                "log",
                low_label="almost a fair coin",
                high_label="almost the truth",
            ),
            Control(
                "share",
                "Share that cheated",
                0.3,
                0.0,
                1.0,
                step=0.05,
                low_label="nobody",
                high_label="everybody",
            ),
            Control("person", "Person to guess", 42, 1, _PEOPLE, integer=True, low_label="first", high_label="last"),
        ),
        _compute,
        seeded=True,
        main=("epsilon",),
    ),
    why="""
<p><strong>Theorem.</strong> If the true answer is given with probability p and the other one with probability 1 − p,
where p ≥ ½, one answer is ε-differentially private with ε = ln(p / (1 − p)), and no smaller ε holds. So p =
e<sup>ε</sup> / (1 + e<sup>ε</sup>).</p>
<p><em>Proof.</em> Of two people with different secrets, one gives a certain answer with probability p and the other
with 1 − p. The ratio of the two is e<sup>ε</sup> or e<sup>−ε</sup>. By Bayes' rule the odds of a guess are multiplied
by this ratio: from even odds to a belief of at most p. ∎</p>
<p>Sources: Warner, JASA 1965; Dwork and Roth 2014, section 3.2. That removing names does not help: Sweeney 2002
(k-anonymity); Narayanan and Shmatikov, S&amp;P 2008; Dinur and Nissim, PODS 2003.</p>
""",
    terms=("anonymization", "plausible deniability", "randomized response", "local model"),
)
