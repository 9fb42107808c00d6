"""Privacy filters: they stop before the budget, whatever is asked next.

In *full adaptivity* each mechanism, and how much privacy it costs, may be chosen after seeing all answers before. Then
a composition theorem for costs fixed in advance proves nothing by itself: the sum must be shown to bound the loss at a
random time. It does for the measures here:

======  ===============================  ===============================================================================
pure    Σεᵢ ≤ ε and Σδᵢ ≤ δ              Rogers, Roth, Ullman, Vadhan, "Privacy odometers and filters", NeurIPS 2016,
                                         Theorem 3.6
zCDP    Σρᵢ ≤ ρ                          Feldman, Zrnic, "Individual privacy accounting via a Rényi filter", NeurIPS
                                         2021, section 4, at every order; with δᵢ: Whitehouse, Ramdas, Rogers, Wu,
                                         "Fully-adaptive composition in differential privacy", ICML 2023, Theorem 1
RDP     Σρᵢ(α) ≤ B(α), α fixed before    the same; Lécuyer, "Practical privacy filters and odometers with Rényi
                                         differential privacy", 2021
GDP     Σμᵢ² ≤ μ²                        Smith, Thakurta, "Fully adaptive composition for Gaussian differential
                                         privacy", 2022
======  ===============================  ===============================================================================

It does not for privacy loss distributions and general trade-off functions (arXiv 2602.06756), so there is no filter for
them here, and there will be none. An accountant's `would_exceed` is right for plans that were fixed in advance.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

from ferrodp import _validate
from ferrodp._validate import Real
from ferrodp.accounting._solve import costs
from ferrodp.accounting.curves.gaussian import gaussian_noise_multiplier
from ferrodp.accounting.curves.zcdp import zcdp_rho
from ferrodp.accounting.filters.base import PrivacyFilter
from ferrodp.accounting.filters.rdp import RdpFilter
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation

Measure = Literal["pure", "zcdp", "rdp", "gdp"]


class PureDpFilter(PrivacyFilter):
    """Stop before Σε exceeds `epsilon`, or Σδ exceeds `delta`.

    Everything charged is (`epsilon`, `delta`)-differentially private together.

    Parameters
    ----------
    epsilon : float
        Finite, ≥ 0. A Decimal or Fraction that is no float is kept as it is, or rounded down if it is a long one.
    delta : float
        For events that have a δ; in [0, 1). Kept or rounded likewise.
    neighboring_relation : NeighboringRelation
        The relation in which the sensitivities behind the events were stated.

    Examples
    --------
    >>> from ferrodp.accounting import LaplaceEvent
    >>> budget = PureDpFilter(epsilon=1.0)
    >>> query = LaplaceEvent(noise_multiplier=3.0)
    >>> budget.charge(query)
    >>> budget.remaining_count(query), budget.would_exceed(query, count=3)
    (2, True)
    """

    measure = "pure"
    _cost = staticmethod(costs.pure)

    def __init__(
        self,
        *,
        epsilon: Real,
        delta: Real = 0.0,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> None:
        budget = _validate.non_negative("epsilon", epsilon, toward="down"), _validate.delta(delta, zero=True)
        caps = [_validate.short_ratio(each, bound) for each, bound in zip((epsilon, delta), budget, strict=True)]
        super().__init__([Fraction(cap) for cap in caps], neighboring_relation)


class ZcdpFilter(PrivacyFilter):
    """Stop before Σρ exceeds `rho`.

    Everything charged is `rho`-zCDP together, but for a probability of `delta` that a stated δ strikes.

    Parameters
    ----------
    rho : float
        Finite, ≥ 0. Rounded down if it is no float. `for_budget` derives it from ε and δ.
    delta : float
        For events that have a δ of their own; in [0, 1). Rounded down if it is no float.
    neighboring_relation : NeighboringRelation
        The relation in which the sensitivities behind the events were stated.

    Notes
    -----
    For pure ε, ρ = ε²/2: the rate of advanced composition, without its constant.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent
    >>> budget = ZcdpFilter.for_budget(epsilon=8.0, delta=1e-5)
    >>> budget.remaining_count(GaussianEvent(noise_multiplier=10.0))
    245
    """

    measure = "zcdp"
    _cost = staticmethod(costs.zcdp)

    def __init__(
        self,
        *,
        rho: Real,
        delta: Real = 0.0,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> None:
        budget = _validate.non_negative("rho", rho, toward="down"), _validate.delta(delta, zero=True)
        super().__init__([Fraction(each) for each in budget], neighboring_relation)

    @classmethod
    def for_budget(
        cls,
        *,
        epsilon: Real,
        delta: Real,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> ZcdpFilter:
        """Return the filter with the ρ that implies (`epsilon`, `delta`): `zcdp_rho`. It takes no stated δ."""
        return cls(rho=zcdp_rho(epsilon=epsilon, delta=delta), neighboring_relation=neighboring_relation)


class GdpFilter(PrivacyFilter):
    """Stop before √Σμ² exceeds `mu`: for Gaussian noise alone, without any loss.

    Everything charged is `mu`-GDP together. `spent` and `budget` are in units of μ².

    Parameters
    ----------
    mu : float
        Finite, ≥ 0. Rounded down if it is no float. `for_budget` derives it from ε and δ.
    neighboring_relation : NeighboringRelation
        The relation in which the sensitivities behind the events were stated.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent
    >>> budget = GdpFilter.for_budget(epsilon=8.0, delta=1e-5)
    >>> budget.remaining_count(GaussianEvent(noise_multiplier=10.0))
    277
    """

    measure = "gdp"
    _cost = staticmethod(costs.squared_mu)
    _num_sums = 1

    def __init__(
        self, *, mu: Real, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    ) -> None:
        super().__init__([Fraction(_validate.non_negative("mu", mu, toward="down")) ** 2], neighboring_relation)

    @classmethod
    def for_budget(
        cls,
        *,
        epsilon: Real,
        delta: Real,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> GdpFilter:
        """Return the filter whose budget is one Gaussian release that is exactly (`epsilon`, `delta`)-private."""
        target = _validate.non_negative("epsilon", epsilon, toward="down")
        multiplier = gaussian_noise_multiplier(epsilon=target, delta=delta)
        return cls._of_caps([1 / Fraction(multiplier) ** 2], neighboring_relation)


def privacy_filter(measure: Measure, *, epsilon: Real, delta: Real, **settings: Any) -> PrivacyFilter:
    """Return a filter that keeps (`epsilon`, `delta`) under full adaptivity.

    Parameters
    ----------
    measure : {"pure", "zcdp", "rdp", "gdp"}
        In what costs are added up.
    epsilon, delta : float
        The budget; δ in (0, 1), or 0 for "pure".
    **settings
        For the filter: `orders` for "rdp", `neighboring_relation` for all.

    Raises
    ------
    InvalidParameter
        For other measures. "pld" and "fdp" are refused by design: under full adaptivity their composition is no bound
        (arXiv 2602.06756), so a filter of that kind would promise what is false.

    Examples
    --------
    >>> privacy_filter("gdp", epsilon=1.0, delta=1e-5)
    <GdpFilter: 0.0 of 0.0718514... spent>
    """
    if not isinstance(measure, str) or measure not in ("pure", "zcdp", "rdp", "gdp"):
        message = str(_validate.out_of_domain("measure", '"pure", "zcdp", "rdp" or "gdp"', measure))
        if measure in ("pld", "fdp", "prv"):
            message += (
                ": privacy loss distributions and trade-off functions do not compose under full adaptivity "
                "(arXiv 2602.06756); ask an accountant's would_exceed about plans that are fixed in advance"
            )
        raise InvalidParameter(message)
    if measure == "pure":
        return PureDpFilter(epsilon=epsilon, delta=delta, **settings)
    kinds: dict[str, Any] = {"zcdp": ZcdpFilter, "rdp": RdpFilter, "gdp": GdpFilter}
    result: PrivacyFilter = kinds[measure].for_budget(epsilon=epsilon, delta=delta, **settings)
    return result
