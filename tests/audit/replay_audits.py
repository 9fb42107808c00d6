"""Audits by replay: the native samplers draw chosen words, and have to make of them what their laws say.

A law is a map from uniform digits to outputs. Draws show what it does often; `chosen_words` gives the samplers the
digits at which they would go wrong, were they to: next to thresholds up to hundreds of digits, far out in tails, equal
in some part to those of a neighbor. `tests/reference` says what is right, slowly and in high precision. Nothing here is
random, so an alarm is certain.
"""

from __future__ import annotations

from collections.abc import Callable

import replayed_choices
import replayed_integers
import replayed_noise
import replayed_rows
import replayed_sums

AUDITS: dict[str, Callable[[], bool]] = {
    **replayed_noise.AUDITS,
    **replayed_integers.AUDITS,
    **replayed_choices.AUDITS,
    **replayed_rows.AUDITS,
    **replayed_sums.AUDITS,
}
"""Each returns whether it raised an alarm."""
