"""The accountants by name: what a configuration, a command line or a calibration chooses from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ferrodp._base import _validate
from ferrodp.accounting.accountants.base import PrivacyAccountant
from ferrodp.accounting.accountants.gdp import GdpAccountant
from ferrodp.accounting.accountants.moments import MomentsAccountant
from ferrodp.accounting.accountants.pld import PldAccountant
from ferrodp.accounting.accountants.pure import PureDpAccountant
from ferrodp.accounting.accountants.rdp import RdpAccountant
from ferrodp.accounting.accountants.zcdp import ZcdpAccountant
from ferrodp.errors import InvalidType
from ferrodp.events import NeighboringRelation

AccountantChoice: TypeAlias = "str | Callable[[], PrivacyAccountant]"

ACCOUNTANTS: dict[str, Callable[..., PrivacyAccountant]] = {
    "pld": PldAccountant,
    "rdp": RdpAccountant,
    "moments": MomentsAccountant,
    "zcdp": ZcdpAccountant,
    "gdp": GdpAccountant,
    "pure": PureDpAccountant,
}


def accountant_maker(
    choice: AccountantChoice, neighboring_relation: NeighboringRelation
) -> Callable[[], PrivacyAccountant]:
    """Return a function that makes fresh accountants of a choice: a name, or such a function itself."""
    if isinstance(choice, str):
        if choice not in ACCOUNTANTS:
            raise _validate.out_of_domain("accountant", "one of " + ", ".join(ACCOUNTANTS), choice)
        return lambda: ACCOUNTANTS[choice](neighboring_relation=neighboring_relation)
    if not callable(choice):
        raise InvalidType(f"accountant must be a name or a function without arguments, got {type(choice).__name__}")
    return choice
