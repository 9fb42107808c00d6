"""Privacy filters refuse what would exceed a budget; odometers report the loss so far. Both allow adaptive choices.

============================================================  ====================================================
you need                                                      class or function
============================================================  ====================================================
a filter for an (ε, δ) budget, chosen by its measure          `privacy_filter`
the filter of one measure                                     `PureDpFilter`, `ZcdpFilter`, `GdpFilter`, `RdpFilter`
ε of all releases so far, valid at all times                  `Odometer`
the type of all filters                                       `PrivacyFilter`
============================================================  ====================================================
"""

from ferrodp.accounting.filters.additive import GdpFilter, PureDpFilter, ZcdpFilter, privacy_filter
from ferrodp.accounting.filters.base import PrivacyFilter
from ferrodp.accounting.filters.odometers import Odometer
from ferrodp.accounting.filters.rdp import RdpFilter

__all__ = [
    "GdpFilter",
    "Odometer",
    "PrivacyFilter",
    "PureDpFilter",
    "RdpFilter",
    "ZcdpFilter",
    "privacy_filter",
]
