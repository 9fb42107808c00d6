"""Calibration: parameters that certainly meet a target (ε, δ), with the distance to the best possible ones.

============================================================  ====================================================
you look for                                                  function
============================================================  ====================================================
the noise of a mechanism, sampled or repeated                 `calibrate_noise_multiplier`
another parameter of an event                                 `calibrate_parameter`
how often something may be released                           `calibrate_count`
how many records may be sampled                               `calibrate_sampling_probability`
============================================================  ====================================================

They return a `CalibratedValue` or a `CalibratedCount`: a number that also states the ε and δ that it attains.
"""

from ferrodp.accounting.calibration.answer import CalibratedCount, CalibratedValue
from ferrodp.accounting.calibration.noise import calibrate_noise_multiplier, calibrate_parameter
from ferrodp.accounting.calibration.schedule import calibrate_count, calibrate_sampling_probability

__all__ = [
    "CalibratedCount",
    "CalibratedValue",
    "calibrate_count",
    "calibrate_noise_multiplier",
    "calibrate_parameter",
    "calibrate_sampling_probability",
]
