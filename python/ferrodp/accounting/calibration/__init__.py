"""Calibration: parameters that are proven to keep a target (ε, δ), with the distance to the best possible ones."""

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
