"""NVFlare with a plan: rounds that the server makes private, and a filter that a site has for itself.

`PrivateFedAvg`
    A workflow of the server: each round is a step of a `PrivacyPlan`, and what is released is one noised mean. A server
    that was killed goes on with its model, round, accountant and ledger.
`GaussianUpdateFilter`
    For ``task_result_filters`` of a client's configuration: the update of a site is clipped and noised before it leaves
    it.

Both go into a job under their names here, ``ferrodp.integrations.nvflare.PrivateFedAvg`` and
``ferrodp.integrations.nvflare.GaussianUpdateFilter``. Needs ``pip install "ferrodp[nvflare]"``, imported when one of
them is made.
"""

from ferrodp._base import _public
from ferrodp.integrations.nvflare.filters import GaussianUpdateFilter
from ferrodp.integrations.nvflare.server import PrivateFedAvg

__all__ = ["GaussianUpdateFilter", "PrivateFedAvg"]

_public.install_in(__name__)
