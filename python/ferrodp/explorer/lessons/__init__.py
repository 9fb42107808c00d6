"""The lessons of the explorer, in their order."""

from __future__ import annotations

from ferrodp.explorer.figures import Lesson

LESSONS: tuple[Lesson, ...] = ()
