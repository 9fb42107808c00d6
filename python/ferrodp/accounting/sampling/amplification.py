"""Privacy amplification: a release about a secret random sample has a smaller ε and δ."""

from __future__ import annotations

from fractions import Fraction

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting._laws.amplification import amplified
from ferrodp.accounting.composition.guarantees import Guarantee


def amplify_by_sampling(*, epsilon: Real, delta: Real = 0.0, sampling_probability: Real) -> Guarantee:
    """Return the (ε, δ) of a mechanism that is run on a secret random sample, rounded up.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee of the mechanism for its own input; ε ≥ 0 finite, δ in [0, 1]. Rounded up if not exactly
        representable.
    sampling_probability : float
        The chance of each record to be in the sample; in [0, 1]. Rounded up if not exactly representable.

    Returns
    -------
    Guarantee
        The best that holds for every mechanism with the given ε; for a known mechanism such as Gaussian noise an
        accountant gives a far smaller loss.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    ε′ = ln(1 + q·(e^ε − 1)) and δ′ = q·δ ([BBG18]):

    ===============================  ============================================================
    Poisson sampling                 both guarantees for adding or removing one record (Theorem 8)
    q·n of n, without replacement    both guarantees for replacing one record (Theorem 9)
    ===============================  ============================================================

    Examples
    --------
    >>> amplify_by_sampling(epsilon=0.1, sampling_probability=0.5)
    Guarantee(epsilon=0.051249479513625594, delta=0.0)
    """
    each = Fraction(_validate.non_negative("epsilon", epsilon))
    failure = Fraction(_validate.probability("delta", delta))
    chance = Fraction(_validate.probability("sampling_probability", sampling_probability))
    return Guarantee(_validate.rounded(amplified(each, chance), "up"), _validate.rounded(chance * failure, "up"))
