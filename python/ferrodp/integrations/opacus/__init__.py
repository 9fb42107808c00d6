"""Opacus trainings with certified accounting, exact clipping and exact noise.

Certified accounting                        `register`, `CertifiedAccountant`, `CertifiedRdpAccountant`
Exact clipping and noise                    `make_exact`
Histories of accountants, as events         `from_opacus_history`, `to_opacus_history`

Opacus is imported by the first call that needs it.
"""

from ferrodp._base import _public
from ferrodp.integrations.opacus.accountants import CertifiedAccountant, CertifiedRdpAccountant, register
from ferrodp.integrations.opacus.histories import from_opacus_history, to_opacus_history
from ferrodp.integrations.opacus.optimizer import make_exact

__all__ = [
    "CertifiedAccountant",
    "CertifiedRdpAccountant",
    "from_opacus_history",
    "make_exact",
    "register",
    "to_opacus_history",
]

_public.install_in(__name__)
