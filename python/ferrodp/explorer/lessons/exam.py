"""The exam: each question is a page like a lesson; its button checks the answer against the library."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ferrodp.explorer.cells import cell_of
from ferrodp.explorer.figures import Action, Answer, Figure, Lesson, Parameters, Value, brief
from ferrodp.explorer.lessons.questions import QUESTIONS, Question


def is_right(question: Question, given: Value, right: Value) -> bool:
    """Return whether an answer is the library's, within the tolerance of the question."""
    if isinstance(right, str) or isinstance(given, str):
        return given == right
    return abs(float(given) - float(right)) <= question.tolerance * abs(float(right))


def _drawn(question: Question, seed: int) -> dict[str, Any]:
    return question.draw(np.random.default_rng([seed, QUESTIONS.index(question)]))


def _ask(question: Question, parameters: Parameters) -> Answer:
    """Return the question in words, and nothing that gives the answer away."""
    return Answer(
        question.ask(_drawn(question, parameters["seed"])),
        {"Your answer": _worded(question, parameters["answer"])},
        (),
        "",
    )


def _check(question: Question, parameters: Parameters) -> Answer:
    """Return whether the answer is right, what the library computes, and the cell that computes it."""
    drawn = _drawn(question, parameters["seed"])
    found = question.solve(**drawn)
    right = is_right(question, parameters["answer"], found["Answer"])
    verdict = "Right" if right else "Not right"
    sentence = (
        f"{verdict}: you answered {_worded(question, parameters['answer'])}, and the library computes "
        f"{_worded(question, found['Answer'])}."
    )
    return Answer(sentence, found, (), cell_of(question.solve, drawn))


def _worded(question: Question, answer: Value) -> str:
    """Return an answer as the page words it."""
    labels = dict(question.control.choices)
    return f"“{labels[str(answer)]}”" if str(answer) in labels else brief(answer)


def _page(place: int, question: Question) -> Lesson:
    figure = Figure(
        question.name,
        (question.control,),
        functools.partial(_ask, question),
        seeded=True,
        action=Action("check", "Check the answer", functools.partial(_check, question)),
    )
    return Lesson(
        name=question.name.removeprefix("exam-"),
        title=question.title,
        idea=f"Question {place} of {len(QUESTIONS)}",
        text="<p>Enter an answer and check it; draw again for other numbers.</p>",
        figure=figure,
        why=f"<p>{question.because}</p>",
        terms=(),
    )


EXAM: tuple[Lesson, ...] = tuple(_page(place, question) for place, question in enumerate(QUESTIONS, 1))
