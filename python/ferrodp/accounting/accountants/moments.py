"""The moments accountant, as it was published."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ferrodp import _validate
from ferrodp.accounting.accountants.rdp import RdpAccountant
from ferrodp.events import NeighboringRelation


class MomentsAccountant(RdpAccountant):
    """Add up log moments at integer orders and convert by the tail bound of the original moments accountant.

    For comparison with published numbers: `RdpAccountant` is never worse.

    Parameters
    ----------
    max_moment : int
        The moments are λ = 1 … `max_moment`, that is α = λ + 1.
    neighboring_relation : NeighboringRelation
        Which datasets a guarantee tells apart. All sensitivities behind the events have to be stated for it.

    Notes
    -----
    Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang, "Deep learning with differential privacy", CCS 2016,
    Theorem 2: α_M(λ) = λ·ρ(λ + 1) adds up, and δ = min over λ of exp(α_M(λ) − λε), which is the conversion of Mironov,
    "Rényi differential privacy", CSF 2017, Proposition 3. The paper uses λ ≤ 32.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, PoissonSampledEvent
    >>> accountant = MomentsAccountant()
    >>> step = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=4.0))
    >>> accountant.compose(step, count=10000)
    >>> round(accountant.epsilon(1e-5), 4), accountant.optimal_order(1e-5)
    (1.2586, 20.0)
    """

    kind: ClassVar[str] = "moments"
    _is_classical: ClassVar[bool] = True

    def __init__(
        self,
        *,
        max_moment: int = 32,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> None:
        self._max_moment = _validate.count("max_moment", max_moment, maximum=10**6)
        super().__init__(np.arange(2.0, self._max_moment + 2.0), neighboring_relation=neighboring_relation)

    def _settings(self) -> dict[str, Any]:
        return {"max_moment": self._max_moment}
