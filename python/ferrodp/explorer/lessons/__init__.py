"""The lessons of the explorer, in their order."""

from __future__ import annotations

from ferrodp.explorer.figures import Lesson
from ferrodp.explorer.lessons.costs import composition, sampling, spending
from ferrodp.explorer.lessons.ideas import coin, leak, sensitivity, worlds
from ferrodp.explorer.lessons.practice import choose, parties
from ferrodp.explorer.lessons.training import attack, by_hand, knobs

LESSONS: tuple[Lesson, ...] = tuple(
    module.LESSON
    for module in (
        coin, worlds, sensitivity, leak, spending, composition, sampling, by_hand, knobs, attack, parties, choose,
    )
)  # fmt: skip
