"""Linkage: a table without names, and a list with names, share a few columns."""

from __future__ import annotations

import math

import numpy as np

import ferrodp as fd
from ferrodp.explorer.cells import cell_of
from ferrodp.explorer.figures import Answer, Control, Figure, Lesson, Parameters, Plot, Series, Value, brief, upper
from ferrodp.explorer.rates import interval


def people(number: int, age_band: int, districts: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the group of each person, by what both tables say of them, and whether they have the diagnosis."""
    rng = np.random.default_rng(seed)
    ages, places, sexes = rng.integers(18, 90, number), rng.integers(0, districts, number), rng.integers(0, 2, number)
    keys = (ages // age_band * districts + places) * 2 + sexes
    return np.asarray(np.unique(keys, return_inverse=True)[1]), rng.integers(0, 2, number)


def guesses(groups: np.ndarray, ill: np.ndarray, epsilon: float, seed: int) -> np.ndarray:
    """Return a guess for each person from noised counts of ill and well people in each group."""
    counts = np.stack([np.bincount(groups[ill == each], minlength=groups.max() + 1) for each in (0, 1)])
    # another diagnosis of one person moves two counts by one each
    mechanism = fd.DiscreteLaplaceMechanism(scale=2 / epsilon, l1_sensitivity=2)
    source = fd.testing.seeded(f"{seed}".encode().ljust(32))
    noised = mechanism.release(counts.astype(np.int64).ravel(), source=source).reshape(2, -1)
    return np.asarray((noised[1] > noised[0])[groups], dtype=np.int64)


def linkage(*, number: int, age_band: int, districts: int, epsilon: float, seed: int) -> dict[str, Value]:
    """Link a released table to a list of names, and guess from private counts instead."""
    groups, ill = people(number, age_band, districts, seed)
    alone = np.bincount(groups)[groups] == 1
    right = guesses(groups, ill, epsilon, seed) == ill
    return {
        "People": number,
        "Alone with their age, district and sex": int(alone.sum()),
        "Share whose diagnosis the table tells": round(float(alone.mean()), 6),
        "Right about these from private counts": round(float(right[alone].mean()), 6) if alone.any() else "nobody",
        "Right about anyone at most, e^ε / (1 + e^ε)": upper(1 / (1 + math.exp(-epsilon))),
    }


def compute(parameters: Parameters) -> Answer:
    """Link, and draw how many people share a group, and how often guesses are right."""
    numbers = linkage(**parameters)
    groups, ill = people(parameters["number"], parameters["age_band"], parameters["districts"], parameters["seed"])
    sizes = np.bincount(np.minimum(np.bincount(groups)[groups], 20), minlength=21)[1:]
    crowd = Plot(
        "With how many others people share age, district and sex (20: 20 or more)",
        "people in the group",
        "people",
        (Series("people", list(range(1, 21)), sizes.tolist(), "bars", "non-private"),),
    )
    alone = np.bincount(groups)[groups] == 1
    grid = [0.05 * 1.5**i for i in range(14)]
    rates = [
        float((guesses(groups, ill, e, parameters["seed"]) == ill)[alone].mean()) if alone.any() else 0.5 for e in grid
    ]
    found = [round(rate * int(alone.sum())) for rate in rates]
    ends = interval(found, int(alone.sum())) if alone.any() else (np.zeros(len(grid)), np.ones(len(grid)))
    low, high = ends[0].tolist(), ends[1].tolist()
    curve = Plot(
        "Guesses about people who are alone in their group",
        "ε of the counts",
        "share right",
        (
            Series("no attack exceeds this, on average", grid, [1 / (1 + math.exp(-e)) for e in grid], "line", "bound"),
            Series("their 95 % intervals", grid, low, "ranges", "private", y2=high),
            Series("guessed from private counts", grid, rates, "points", "private"),
            Series("read from the table without names", grid, [1.0] * len(grid), "line", "non-private"),
        ),
        x_scale="log",
        marks=((parameters["epsilon"], f"ε = {brief(parameters['epsilon'])}"),),
    )
    known, right = numbers["Alone with their age, district and sex"], numbers["Right about these from private counts"]
    sentence = (
        f"{known} of {parameters['number']} people are alone with their age, district and sex: whoever has a list of "
        f"names knows their diagnosis. From counts with ε = {brief(parameters['epsilon'])} a guess about them is right "
        f"with rate {brief(right)}; even odds are 0.5."
    )
    return Answer(sentence, numbers, (crowd, curve), cell_of(linkage, parameters))


PAGE = Lesson(
    name="linkage",
    title="Linkage of released tables",
    idea="A table without names still has the names in it, for whoever has another table.",
    text="""<p>The people are made up from the seed; no dataset of real people is shipped. Ages are those of a
uniform law, districts and sexes too, and the diagnosis is a fair coin, so that nothing but the table
tells it. Coarser columns make groups larger, and still leave people alone; counts with noise hold for
everyone, whatever other tables exist.</p>""",
    figure=Figure(
        "linkage",
        (
            Control(
                "number", "People", 2000, 200, 20_000, "log", integer=True, low_label="a village", high_label="a town"
            ),
            Control(
                "age_band",
                "Years in an age band",
                1,
                1,
                36,
                "log",
                integer=True,
                low_label="exact age",
                high_label="two bands",
            ),
            Control("districts", "Districts", 12, 1, 200, "log", integer=True, low_label="one", high_label="many"),
            Control(
                "epsilon",
                "ε of private counts",
                1.0,
                0.05,
                10.0,
                "log",
                low_label="like a coin",
                high_label="nearly exact",
            ),
        ),
        compute,
        seeded=True,
    ),
    why="""<p>Sweeney, 2000: 87 % of the population of the United States were estimated to be unique by five-digit
ZIP code, date of birth and sex; Narayanan, Shmatikov, S&amp;P 2008, linked films rated to names. Groups
of at least k do not help where all of a group share the diagnosis (Machanavajjhala, Kifer, Gehrke,
Venkitasubramaniam, ACM TKDD 2007). Under ε-differential privacy for the replacement of a record,
whatever else is known, two diagnoses at even odds are told right with chance at most e<sup>ε</sup>/(1 +
e<sup>ε</sup>): 0.731 at ε = 1, 0.881 at ε = 2. Points scatter about their mean by the number of people
who are alone.</p>""",
    terms=(),
)
