"""Privacy filters and odometers: they stop before the budget, or say what was lost so far, whatever is asked next."""

from ferrodp.accounting.filters.additive import (
    GdpFilter,
    PrivacyFilter,
    PureDpFilter,
    RdpFilter,
    ZcdpFilter,
    privacy_filter,
)
from ferrodp.accounting.filters.odometers import Odometer

__all__ = ["GdpFilter", "Odometer", "PrivacyFilter", "PureDpFilter", "RdpFilter", "ZcdpFilter", "privacy_filter"]
