"""Privacy filters whose costs add up: pure ε, ρ of zCDP, μ² of Gaussian differential privacy.

Under *full adaptivity* each mechanism, and how much it costs, may be chosen after seeing all results before.
Composition theorems for costs fixed in advance do not cover that: the sum has to bound the loss at a random time. It
does for the measures here:

======  ===============================  =============================================================================
pure    Σεᵢ ≤ ε and Σδᵢ ≤ δ              [RRUV16], Theorem 3.6
zCDP    Σρᵢ ≤ ρ                          [FZ21], section 4, at every order; with δᵢ: [WRRW23], Theorem 1
RDP     Σρᵢ(α) ≤ B(α), α fixed before    the same; [Lec21]
GDP     Σμᵢ² ≤ μ²                        [ST22]
======  ===============================  =============================================================================

It does not for privacy loss distributions and general trade-off functions (arXiv 2602.06756), so no such filter is
offered. For plans fixed in advance, an accountant's `would_exceed` is correct.

References
----------
[RRUV16] Rogers, Roth, Ullman, Vadhan, "Privacy odometers and filters", NeurIPS 2016. [FZ21] Feldman, Zrnic, "Individual
privacy accounting via a Rényi filter", NeurIPS 2021. [WRRW23] Whitehouse, Ramdas, Rogers, Wu, "Fully-adaptive
composition in differential privacy", ICML 2023. [Lec21] Lécuyer, "Practical privacy filters and odometers with Rényi
differential privacy", 2021. [ST22] Smith, Thakurta, "Fully adaptive composition for Gaussian differential privacy",
2022.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting._laws import costs
from ferrodp.accounting.curves.gaussian import gaussian_noise_multiplier
from ferrodp.accounting.curves.zcdp import zcdp_rho
from ferrodp.accounting.filters.base import PrivacyFilter
from ferrodp.accounting.filters.rdp import RdpFilter
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation

Measure = Literal["pure", "zcdp", "rdp", "gdp"]


class PureDpFilter(PrivacyFilter):
    """Privacy filter for pure differential privacy: refuses to let Σε exceed `epsilon`, or Σδ exceed `delta`.

    All charges together are (`epsilon`, `delta`)-differentially private.

    Parameters
    ----------
    epsilon : float
        Finite, ≥ 0. A Decimal or Fraction is kept exactly, or rounded down if it is a long one.
    delta : float
        For events that have a δ; in [0, 1). Kept or rounded likewise.
    neighboring_relation : NeighboringRelation
        The relation in which the sensitivities behind the events were stated.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Examples
    --------
    >>> from ferrodp.accounting import LaplaceEvent
    >>> from ferrodp.accounting.filters import PureDpFilter
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
    """Privacy filter for zero-concentrated differential privacy: refuses to let Σρ exceed `rho`.

    All charges together are `rho`-zCDP, but for a failure of probability at most `delta`.

    Parameters
    ----------
    rho : float
        Finite, ≥ 0. Rounded down if not exactly representable. `for_budget` derives it from ε and δ.
    delta : float
        For events that have a δ of their own; in [0, 1). Rounded down if not exactly representable.
    neighboring_relation : NeighboringRelation
        The relation in which the sensitivities behind the events were stated.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Notes
    -----
    An ε-private event costs ρ = ε²/2 at most: the rate of advanced composition with a smaller constant.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent
    >>> from ferrodp.accounting.filters import ZcdpFilter
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
        """Return the filter with the largest ρ that implies (`epsilon`, `delta`)-differential privacy.

        Parameters
        ----------
        epsilon : float
            Finite, ≥ 0. Rounded down if not exactly representable.
        delta : float
            In (0, 1). Rounded down if not exactly representable.
        neighboring_relation : NeighboringRelation
            The relation in which the sensitivities behind the events were stated.

        Returns
        -------
        ZcdpFilter
            Its ρ is `zcdp_rho`; it refuses events with a δ of their own.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is outside its domain or of another type.
        """
        return cls(rho=zcdp_rho(epsilon=epsilon, delta=delta), neighboring_relation=neighboring_relation)


class GdpFilter(PrivacyFilter):
    """Privacy filter for Gaussian noise: refuses to let √Σμ² exceed `mu`.

    All charges together are `mu`-GDP, which is exact for Gaussian noise. `spent` and `budget` are in units of μ².

    Parameters
    ----------
    mu : float
        Finite, ≥ 0. Rounded down if not exactly representable. `for_budget` derives it from ε and δ.
    neighboring_relation : NeighboringRelation
        The relation in which the sensitivities behind the events were stated.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent
    >>> from ferrodp.accounting.filters import GdpFilter
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
        """Return the filter whose budget is that of one Gaussian release that is (`epsilon`, `delta`)-private.

        Parameters
        ----------
        epsilon : float
            Finite, ≥ 0. Rounded down if not exactly representable.
        delta : float
            In (0, 1). Rounded down if not exactly representable.
        neighboring_relation : NeighboringRelation
            The relation in which the sensitivities behind the events were stated.

        Returns
        -------
        GdpFilter
            Its μ is that of the least noise for (`epsilon`, `delta`).

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is outside its domain or of another type.
        """
        target = _validate.non_negative("epsilon", epsilon, toward="down")
        multiplier = gaussian_noise_multiplier(epsilon=target, delta=delta)
        return cls._of_caps([1 / Fraction(multiplier) ** 2], neighboring_relation)


def privacy_filter(measure: Measure, *, epsilon: Real, delta: Real, **settings: Any) -> PrivacyFilter:
    """Return a privacy filter for an (`epsilon`, `delta`) budget under full adaptivity.

    Parameters
    ----------
    measure : {"pure", "zcdp", "rdp", "gdp"}
        The measure in which costs are added up.
    epsilon, delta : float
        The budget; δ in (0, 1), or 0 for "pure".
    **settings
        For the filter: `orders` for "rdp", `neighboring_relation` for all.

    Returns
    -------
    PrivacyFilter
        A `PureDpFilter`, `ZcdpFilter`, `RdpFilter` or `GdpFilter`.

    Raises
    ------
    InvalidParameter, InvalidType
        For other measures, and for parameters outside their domain. "pld" and "fdp" are refused by design: under full
        adaptivity their composition is no bound (arXiv 2602.06756).

    Examples
    --------
    >>> from ferrodp.accounting import privacy_filter
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
