"""Test of one training by canaries: units that a coin put into it, and how well its outputs tell which ones."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting.curves import gaussian_epsilon_bounds, gaussian_noise_multiplier
from ferrodp.audit import _canary_bounds
from ferrodp.audit.power import confidence_of
from ferrodp.audit.report import plain
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter

CanaryMethod: TypeAlias = Literal["guesses", "f_dp", "gaussian"]
"""What a bound assumes: nothing, a Gaussian trade-off curve, or scores with normal laws."""

LEAST_CANARIES = 20
_POWER = 0.9
_ASSUMPTIONS = {
    "guesses": "nothing",
    "f_dp": "the trade-off curve of the training is that of a Gaussian",
    "gaussian": "scores of both kinds are normal, with one standard deviation",
}
_PLACES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryReport:
    """What canaries showed of one training.

    Attributes
    ----------
    claim : str
        What was tested.
    epsilon, delta : float
        The claim: the certified guarantee.
    canaries, included : int
        How many there were, and how many of them took part.
    guesses, correct : int
        How many were guessed, a number fixed in advance, and how many of these rightly.
    method : {"guesses", "f_dp", "gaussian"}
        Which of the three bounds is `epsilon_lower_bound`.
    assumes : str
        What that bound takes for granted besides the coins.
    confidence : float
        With which each bound is right.
    epsilon_lower_bound : float
        ε is at least this, if δ is as claimed.
    violation : bool
        Whether that contradicts the claim.
    bounds : dict
        The bounds of all three methods, each with this confidence by itself.
    power : float
        About the least true ε that would have been a violation with probability 90 %; see `smallest_canary_violation`.
    e_value : float
        Evidence against the claim that assumes nothing: those of separate trainings multiply.
    log_e_value : float
        Its natural logarithm.
    roc : tuple of tuple of float
        Pairs (share of the others, share of the included) with scores above thresholds.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.audit import audit_canaries
    >>> rng = np.random.default_rng(1)
    >>> included = rng.random(1000) < 0.5
    >>> report = audit_canaries(included + rng.normal(size=1000), included, epsilon=4.4, delta=1e-5)
    >>> report.violation, report.bounds["gaussian"] > report.bounds["guesses"] > 0.5
    (False, True)
    >>> report.e_value < 1.0, report.to_dict()["canaries"], report.to_json()[:9]
    (True, 1000, '{"claim":')
    """

    claim: str
    epsilon: float
    delta: float
    canaries: int
    included: int
    guesses: int
    correct: int
    method: str
    assumes: str
    confidence: float
    epsilon_lower_bound: float
    violation: bool
    bounds: dict[str, float]
    power: float
    log_e_value: float
    roc: tuple[tuple[float, float], ...]

    @property
    def e_value(self) -> float:
        """Evidence against the claim; infinite where it is beyond the range of floats."""
        return math.exp(self.log_e_value) if self.log_e_value < 709.0 else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data; infinite numbers are the text "inf"."""
        found = dataclasses.asdict(self) | {"e_value": self.e_value}
        return {name: plain(value) for name, value in found.items()}

    def to_json(self) -> str:
        """Return the data as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def __str__(self) -> str:
        verdict = "VIOLATED" if self.violation else "not contradicted"
        others = ", ".join(f"{name} {bound:.4g}" for name, bound in self.bounds.items())
        return "\n".join(
            [
                f"claim            {self.claim}: ({self.epsilon:.6g}, {self.delta:g})",
                f"verdict          {verdict} at confidence {100 * self.confidence:g} %",
                f"canaries         {self.canaries}, of which {self.included} took part",
                f"guesses          {self.correct} right of {self.guesses}",
                f"epsilon          certified {self.epsilon:.4g}, shown {self.epsilon_lower_bound:.4g} ({self.method})",
                f"assumes          {self.assumes}",
                f"all bounds       {others}",
                f"power            {self.power:.4g} would have been seen with probability 90 %",
                f"e-value          {self.e_value:.4g} (logarithm {self.log_e_value:.4g})",
            ]
        )


def audit_canaries(
    scores: npt.ArrayLike,
    included: npt.ArrayLike,
    *,
    epsilon: Real,
    delta: Real,
    method: CanaryMethod = "guesses",
    confidence: Real = 0.999,
    guesses: int | None = None,
    claim: str = "training",
) -> CanaryReport:
    """Test whether one training contradicts its (ε, δ), by how well scores tell which canaries took part.

    Canaries are units of no person. Before the training a fair coin for each decides whether it takes part, and
    nothing else depends on the coins. `PrivacyPlan.start` and `ferrodp.training.train` do so with ``audit_canaries=``;
    for a training elsewhere the scores are the caller's, such as minus the loss on each canary.

    Parameters
    ----------
    scores : (m,) array of numbers
        From what the training put out, higher for canaries that seem included; finite. At least 20.
    included : (m,) array of bool
        What the coins said.
    epsilon, delta : float
        The claim: ε finite, ≥ 0, and δ in (0, 1).
    method : {"guesses", "f_dp", "gaussian"}
        Which bound decides. "guesses" assumes nothing, "f_dp" a trade-off curve like that of a Gaussian, which noise
        of many steps has about, "gaussian" the law of the scores as well. Each shows more than the one before.
    confidence : float
        In [0.5, 1).
    guesses : int, optional
        How many canaries to guess, an even number: half of them those with the highest scores, as included, and half
        those with the lowest. By default, of the numbers that can refute the claim, that which shows most where it is
        just true.
    claim : str
        What reports call the training.

    Returns
    -------
    CanaryReport

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain.
    InvalidArray, InvalidArrayType
        If the arrays do not fit, a score is not finite, or no canary or all of them were included.

    Notes
    -----
    ===========  ==========================================================================================
    guesses      [SNJ23] Theorem 5.2
    f_dp         [MMC24], with a proof in the documentation of audits; a bound on μ, as the ε of μ-GDP at δ
    gaussian     lower confidence bound on the distance of the means of normal scores, by Student's t; likewise
    ===========  ==========================================================================================

    The e-value compares the right guesses with the number that the least visible violation would give.

    References
    ----------
    [SNJ23] Steinke, Nasr, Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023. [MMC24] Mahloujifar,
    Melis, Chaudhuri, "Auditing f-differential privacy in one run", 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.audit import audit_canaries
    >>> included = np.arange(1000) % 2 == 0  # in earnest: coins
    >>> shown = included + 0.0  # nothing hides them
    >>> report = audit_canaries(shown, included, epsilon=3.0, delta=1e-5, guesses=1000)
    >>> report.violation, report.correct == report.guesses
    (True, True)
    """
    claimed, failure = _validate.non_negative("epsilon", epsilon), _validate.delta(delta)
    miss = 1.0 - confidence_of(confidence)
    chosen = _method(method)
    numbers, coins = _arrays(scores, included)
    count = numbers.size
    number = _number(guesses, claimed, failure, miss, count)
    ranks = np.argsort(numbers, kind="stable")
    half = number // 2
    correct = int(np.count_nonzero(~coins[ranks[:half]])) + int(np.count_nonzero(coins[ranks[-half:]]))
    made = {"canaries": count, "guesses": number, "correct": correct}
    bounds = {
        "guesses": _canary_bounds.epsilon_lower(failure, miss, **made),
        "f_dp": _epsilon_of(_canary_bounds.mu_lower(miss, **made), failure),
        "gaussian": _epsilon_of(_canary_bounds.mu_of_scores(numbers[coins], numbers[~coins], miss), failure),
    }
    visible = _smallest(count, number, claimed, failure, "guesses", miss)
    hoped = round(number * _canary_bounds.accuracy(_mu_of(min(visible, 50.0), failure), number / count))
    return CanaryReport(
        claim=claim,
        epsilon=claimed,
        delta=failure,
        **made,
        included=int(coins.sum()),
        method=chosen,
        assumes=_ASSUMPTIONS[chosen],
        confidence=1.0 - miss,
        epsilon_lower_bound=bounds[chosen],
        # mutant: violation-of-canaries-never-called
        violation=bounds[chosen] > claimed,
        bounds=bounds,
        power=_smallest(count, number, claimed, failure, chosen, miss),
        log_e_value=_canary_bounds.evidence(claimed, failure, **made, hoped=hoped),
        roc=_roc(numbers, coins),
    )


def smallest_canary_violation(
    *,
    canaries: int,
    epsilon: Real,
    delta: Real,
    method: CanaryMethod = "guesses",
    confidence: Real = 0.999,
    guesses: int | None = None,
) -> float:
    """Return about the least true ε, at the same δ, that canaries show to be too large, with power 90 %.

    It is that of a training with a Gaussian trade-off curve whose scores are the best there are, such as those of the
    canaries of a plan. To be asked before a training.

    Parameters
    ----------
    canaries : int
        At least 20.
    epsilon, delta, method, confidence, guesses
        As for `audit_canaries`.

    Returns
    -------
    float
        Above `epsilon`; infinite where no training is noticed.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain.

    Notes
    -----
    Numbers of right guesses and distances of means are taken for normal here; the test itself has exact bounds.

    Examples
    --------
    >>> from ferrodp.audit import smallest_canary_violation
    >>> claim = {"epsilon": 4.0, "delta": 1e-5}
    >>> [round(smallest_canary_violation(canaries=n, method="gaussian", **claim), 1) for n in (1000, 10_000, 100_000)]
    [5.5, 4.5, 4.1]
    """
    claimed, failure = _validate.non_negative("epsilon", epsilon), _validate.delta(delta)
    miss = 1.0 - confidence_of(confidence)
    count = _validate.count("canaries", canaries, minimum=LEAST_CANARIES)
    return _smallest(count, _number(guesses, claimed, failure, miss, count), claimed, failure, _method(method), miss)


def _smallest(canaries: int, guesses: int, epsilon: float, delta: float, method: str, miss: float) -> float:
    """Return the ε of the least μ whose tests succeed with probability 90 %."""
    normal = _canary_bounds.NORMAL
    beta = normal.inv_cdf(_POWER)
    limit = _mu_of(epsilon, delta)
    if method == "gaussian":
        sure = beta + normal.inv_cdf(1.0 - miss)
        return _epsilon_of(limit + sure * math.sqrt(4.0 / canaries + limit * limit / (2.0 * canaries)), delta)

    def is_violation(correct: int) -> bool:
        made = {"canaries": canaries, "guesses": guesses, "correct": correct}
        if method == "f_dp":
            return _canary_bounds.is_refuted_at(limit, miss, **made)
        return _canary_bounds.chance(epsilon, delta, **made) < miss

    low, high = 0, guesses
    if not is_violation(high):
        return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_violation(middle) else (middle, high)

    def is_seen(mu: float) -> bool:
        right = _canary_bounds.accuracy(mu, guesses / canaries)
        return guesses * right - beta * math.sqrt(guesses * right * (1.0 - right)) >= high

    least, most = limit, _canary_bounds.LARGEST_MU
    for _ in range(50):
        middle_mu = 0.5 * (least + most)
        least, most = (least, middle_mu) if is_seen(middle_mu) else (middle_mu, most)
    return _epsilon_of(most, delta)


def _epsilon_of(mu: float, delta: float) -> float:
    """Return the ε that μ-GDP has at δ, rounded down."""
    if mu <= 0.0:
        return 0.0
    return gaussian_epsilon_bounds(delta=delta, noise_multiplier=1.0 / mu).lower if mu < 1e100 else math.inf


def _mu_of(epsilon: float, delta: float) -> float:
    """Return the μ for which μ-GDP has this ε at δ."""
    return 1.0 / gaussian_noise_multiplier(epsilon=max(epsilon, 1e-6), delta=delta)


def _number(guesses: int | None, epsilon: float, delta: float, miss: float, canaries: int) -> int:
    if guesses is None:
        return _canary_bounds.best_guesses(min(epsilon, 50.0), _mu_of(min(epsilon, 50.0), delta), delta, miss, canaries)
    number = _validate.count("guesses", guesses, minimum=2)
    if number % 2 or number > canaries:
        raise _validate.out_of_domain("guesses", f"an even number up to {canaries}, that of canaries", guesses)
    return number


def _method(method: str) -> CanaryMethod:
    for known in get_args(CanaryMethod):
        if method == known:
            found: CanaryMethod = known
            return found
    raise _validate.out_of_domain("method", '"guesses", "f_dp" or "gaussian"', method)


def _arrays(scores: npt.ArrayLike, included: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    numbers, coins = np.asarray(scores), np.asarray(included)
    if numbers.dtype.kind not in "fiu":
        raise InvalidArrayType(f"scores must be an array of numbers, got {numbers.dtype}")
    if coins.dtype.kind != "b":
        raise InvalidArrayType(f"included must be an array of bool, got {coins.dtype}")
    if numbers.ndim != 1 or coins.shape != numbers.shape:
        raise InvalidArray(f"scores and included must be vectors of one length, got {numbers.shape} and {coins.shape}")
    if numbers.size < LEAST_CANARIES:
        raise InvalidParameter(f"scores must be those of at least {LEAST_CANARIES} canaries, got {numbers.size}")
    floats = numbers.astype(np.float64)
    if not np.isfinite(floats).all():
        raise InvalidArray("scores must be finite")
    if coins.all() or not coins.any():
        raise InvalidArray("included must hold canaries that took part and canaries that did not")
    return floats, coins


def _roc(scores: npt.NDArray[np.float64], included: npt.NDArray[np.bool_]) -> tuple[tuple[float, float], ...]:
    """Return rates of false and true alarms of tests by a threshold."""
    places = np.unique(np.quantile(scores, np.linspace(0.0, 1.0, _PLACES)))
    found = [(float(np.mean(scores[~included] >= at)), float(np.mean(scores[included] >= at))) for at in places]
    return (*sorted([*found, (0.0, 0.0)]),)
