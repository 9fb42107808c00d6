"""Inputs that the attacks share with the playground, under the same names, so that links keep them."""

from __future__ import annotations

import dataclasses

from ferrodp.explorer.model.training import CONTROLS

_OF_THE_PLAYGROUND = {each.name: each for each in CONTROLS}

DATASET, CLIP, BATCH, RATE, EPOCHS = (
    _OF_THE_PLAYGROUND[name] for name in ("dataset", "clip_norm", "batch_size", "learning_rate", "epochs")
)
NOISE = dataclasses.replace(
    _OF_THE_PLAYGROUND["noise_multiplier"], low=0.05, low_label="next to no noise", high_label="noise only"
)
