"""What rounds cost and need: the part of the engine that answers questions."""

from __future__ import annotations

from fractions import Fraction

from ferrodp import _validate
from ferrodp._numerics.rounding import product_up
from ferrodp._validate import Real
from ferrodp.engine import _accounts
from ferrodp.engine._step import Step, step_of
from ferrodp.engine.records import DPConfig, PrivacyBudget, PrivacyReport, config_of
from ferrodp.engine.sampling import Sampling
from ferrodp.errors import InvalidType


class SpendingMethods:
    """What an engine says about any configuration under its own kind of sampling."""

    __slots__ = ()

    _config: DPConfig
    _sampling: Sampling
    _population_size: int | None

    def compute_privacy_spent(self, config: DPConfig, num_steps: int) -> PrivacyReport:
        """Return what so many rounds of a configuration cost, under the sampling of this engine.

        Parameters
        ----------
        config : DPConfig
            What is accounted, and how.
        num_steps : int
            Number of rounds, from 0.

        Returns
        -------
        PrivacyReport
            ε at the target δ as an upper bound, and how many more rounds stay within the target.

        Raises
        ------
        UnsupportedEventError
            If the configured accounting has no bound for such rounds; the message says which methods do.

        Notes
        -----
        ==========  ==============================================================================================
        moments     `MomentsAccountant`: Abadi et al., "Deep learning with differential privacy", CCS 2016, Theorem 2
        renyi       `RdpAccountant` at exactly `renyi_orders`: Mironov, "Rényi differential privacy", CSF 2017;
                    conversion of Balle et al. 2020, Theorem 21
        basic       each round has the ε that its own curve gives for δ/n: Dwork et al., EUROCRYPT 2006, Theorem 1
        advanced    a part of δ is divided among the rounds, the rest is the δ′ of Kairouz, Oh, Viswanath, ICML 2015,
                    Theorem 3.5
        optimal     likewise, composed by their Theorem 3.3; by Theorem 3.5 beyond 10⁹ rounds
        pld         `PldAccountant`: the privacy loss itself, on a certified grid or contour
        zcdp        `ZcdpAccountant`: ρ adds up (Bun, Steinke, TCC 2016); without sampling only
        ==========  ==============================================================================================

        Examples
        --------
        >>> from ferrodp.engine import DifferentialPrivacyEngine
        >>> engine = DifferentialPrivacyEngine()
        >>> report = engine.compute_privacy_spent(DPConfig(), 1000)
        >>> round(report.epsilon_spent, 4), report.estimated_rounds_left
        (1.7256, 15895)
        """
        checked = config_of(config)
        steps = _validate.count("num_steps", num_steps, minimum=0)
        step = self._step_of(checked)
        spent = _accounts.epsilon(step, steps)
        return PrivacyReport(
            epsilon_spent=spent,
            delta_spent=checked.target_delta if steps else 0.0,
            noise_scale=product_up(checked.noise_multiplier, checked.max_grad_norm),
            num_compositions=steps,
            budget_remaining=_left(checked.target_epsilon, spent),
            estimated_rounds_left=max(_accounts.largest_count(step) - steps, 0),
            accounting_method=checked.accounting,
        )

    def get_noise_multiplier(
        self, target_epsilon: Real, target_delta: Real, sampling_rate: Real, num_steps: int
    ) -> float:
        """Return the least noise multiplier for which so many rounds keep the target, rounded up.

        It is proven to be enough by the accounting of this engine: an engine with that multiplier and these targets
        allows `num_steps` rounds. With `AccountingMethod.PLD` it is the least that can be proven by any of them.

        Parameters
        ----------
        target_epsilon : float
            Finite, > 0.
        target_delta : float
            In (0, 1).
        sampling_rate : float
            In (0, 1].
        num_steps : int
            Number of rounds, from 1.

        Raises
        ------
        CalibrationError
            If no multiplier up to 10⁶ is proven to be enough, as may be where few Rényi orders are used.

        Examples
        --------
        >>> from ferrodp.engine import DifferentialPrivacyEngine
        >>> engine = DifferentialPrivacyEngine(DPConfig(accounting="pld"))
        >>> round(engine.get_noise_multiplier(8, 1e-5, 0.01, 1000), 4)
        0.5863
        """
        config = DPConfig(
            mechanism=self._config.mechanism,
            accounting=self._config.accounting,
            target_epsilon=target_epsilon,  # type: ignore[arg-type]  # a Real, made a float there
            target_delta=target_delta,  # type: ignore[arg-type]
            sampling_rate=sampling_rate,  # type: ignore[arg-type]
            renyi_orders=self._config.renyi_orders,
        )
        steps = _validate.count("num_steps", num_steps)
        return _accounts.noise_multiplier(self._step_of(config), steps)

    def check_budget(self, budget: PrivacyBudget) -> bool:
        """Return whether what was consumed is within the budget: neither ε nor δ is larger than allowed."""
        if not isinstance(budget, PrivacyBudget):
            raise InvalidType(f"budget must be a PrivacyBudget, got {type(budget).__name__}")
        # mutant: budget-may-exceeded-in-delta
        return budget.consumed_epsilon <= budget.epsilon and budget.consumed_delta <= budget.delta

    def renyi_divergence(self, alpha: Real, sigma: Real) -> float:
        """Return α/2σ², the Rényi divergence of order α of Gaussian noise of σ sensitivities, rounded up.

        `alpha` is finite and ≥ 1, `sigma` finite and > 0. Mironov, "Rényi differential privacy", CSF 2017,
        Proposition 7.

        Examples
        --------
        >>> from ferrodp.engine import DifferentialPrivacyEngine
        >>> DifferentialPrivacyEngine().renyi_divergence(2, 1)
        1.0
        """
        order, deviation = _validate.exact("alpha", alpha), _validate.exact("sigma", sigma)
        if order < 1:
            raise _validate.out_of_domain("alpha", "finite and >= 1", alpha)
        if deviation <= 0:
            raise _validate.out_of_domain("sigma", "finite and > 0", sigma)
        return _validate.rounded(order / (2 * deviation**2), "up")

    def _step_of(self, config: DPConfig) -> Step:
        return step_of(config, self._sampling, self._population_size)


def _left(target: float, spent: float) -> float:
    """Return target − spent, rounded down, or 0."""
    # mutant: budget-left-rounded-up
    return _validate.rounded(Fraction(target) - Fraction(spent), "down") if spent < target else 0.0
