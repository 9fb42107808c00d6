"""The exam: ten questions whose answers the library computes."""

import contextlib
import io
import math

import numpy as np
import pytest

from ferrodp.explorer.figures import shown
from ferrodp.explorer.lessons.exam import EXAM, is_right
from ferrodp.explorer.lessons.questions import QUESTIONS

BY_NAME = {question.name: question for question in QUESTIONS}
SEEDS = range(1, 13)


def drawn(question, seed):
    return question.draw(np.random.default_rng([seed, QUESTIONS.index(question)]))


def test_there_are_ten_questions():
    assert len(EXAM) == len(BY_NAME) == 10


@pytest.mark.parametrize("name", BY_NAME)
def test_the_right_answer_can_be_entered_for_every_seed_and_counts_as_right(name):
    question, page = BY_NAME[name], EXAM[[*BY_NAME].index(name)]
    for seed in SEEDS:
        right = question.solve(**drawn(question, seed))["Answer"]
        given = right if isinstance(right, str) else f"{right:.4g}"  # four digits are within the tolerance
        parameters = page.figure.read({"answer": given, "seed": str(seed)})

        assert page.figure.action.run(parameters).sentence.startswith("Right")


@pytest.mark.parametrize("name", BY_NAME)
def test_a_wrong_answer_is_not_right(name):
    question = BY_NAME[name]
    right = question.solve(**drawn(question, 1))["Answer"]
    wrong = (
        [value for value, _ in question.control.choices if value != right]
        if isinstance(right, str)
        else [1.1 * right, right / 1.1]
    )

    assert wrong
    assert not any(is_right(question, each, right) for each in wrong)


@pytest.mark.parametrize("name", BY_NAME)
def test_the_question_does_not_give_its_answer_away(name):
    question, page = BY_NAME[name], EXAM[[*BY_NAME].index(name)]
    asked = page.figure.answer({"seed": "3"})

    assert asked.cell == ""
    assert not any("Answer" in label or "library" in label for label in asked.numbers)
    assert asked.sentence.endswith("?")
    assert len({question.ask(drawn(question, seed)) for seed in SEEDS}) > 1


@pytest.mark.parametrize("page", EXAM, ids=lambda page: page.name)
def test_the_cell_of_a_checked_answer_prints_what_the_library_computes(page):
    checked = page.figure.action.run(page.figure.read({}))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(checked.cell, "cell", "exec"), {"__name__": "cell"})

    assert printed.getvalue() == "".join(f"{label}: {shown(value)}\n" for label, value in checked.numbers.items())


def test_answers_are_those_of_short_formulas():
    solve = {name: question.solve for name, question in BY_NAME.items()}

    assert solve["exam-truth"](epsilon=1.0)["Answer"] == pytest.approx(math.e / (1 + math.e))
    assert solve["exam-belief"](epsilon=2.0, before=0.5)["Answer"] == pytest.approx(0.8807970779778823)
    assert solve["exam-laplace"](bound=50.0, epsilon=0.25)["Answer"] == 200
    assert solve["exam-basic"](epsilon=0.5, queries=12)["Answer"] == 6
    assert solve["exam-clip"](norms=(0.5, 3.0), clip_norm=2.0)["Answer"] == pytest.approx(2.5, rel=1e-6)
    assert solve["exam-person"](epsilon=0.5, records=8)["Answer"] == 4
    # A share is rounded up to the grid of scales, by far less than the tolerance of the question.
    assert solve["exam-share"](clients=20, lost=4, noise_multiplier=1.0)["Answer"] == pytest.approx(0.25, rel=0.03)
