"""Five attacks on real computations, each shown with the bound that holds for every attack of its kind."""

from __future__ import annotations

from ferrodp.explorer.figures import Lesson
from ferrodp.explorer.model.attacks import inversion, linkage, membership, properties, reconstruction

ATTACKS: tuple[Lesson, ...] = (
    membership.PAGE,
    reconstruction.PAGE,
    inversion.PAGE,
    properties.PAGE,
    linkage.PAGE,
)
