"""The moments accountant as published: integer orders and the classical conversion."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ferrodp._base import _validate
from ferrodp.accounting.accountants.rdp import RdpAccountant
from ferrodp.events import NeighboringRelation


class MomentsAccountant(RdpAccountant):
    """Accountant based on log moments at integer orders, with the tail bound of the original moments accountant.

    Use it to reproduce published numbers: `RdpAccountant` is never worse.

    Parameters
    ----------
    max_moment : int
        The moments are λ = 1 … `max_moment`, that is α = λ + 1; from 1 to 10⁶.
    neighboring_relation : NeighboringRelation
        Which datasets a guarantee tells apart. All sensitivities behind the events have to be stated for it.

    Raises
    ------
    InvalidParameter, InvalidType
        If `max_moment` is outside its domain, or a parameter is of another type.

    Notes
    -----
    α_M(λ) = λ·ρ(λ + 1) adds up, and δ = min over λ of exp(α_M(λ) − λε) ([ACGMMTZ16], Theorem 2), which is the
    conversion of [Mir17], Proposition 3. The paper uses λ ≤ 32.

    References
    ----------
    [ACGMMTZ16] Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang, "Deep learning with differential privacy", CCS
    2016. [Mir17] Mironov, "Rényi differential privacy", CSF 2017.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, MomentsAccountant, PoissonSampledEvent
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
