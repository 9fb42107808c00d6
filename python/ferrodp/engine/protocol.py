"""The interface of an engine."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from ferrodp.engine.records import DPConfig, PrivacyBudget, PrivacyReport

__all__ = ["DifferentialPrivacyProtocol"]


@runtime_checkable
class DifferentialPrivacyProtocol(Protocol):
    """Clip, add noise, and account. Implemented by `DifferentialPrivacyEngine`; tests may use something else."""

    def add_noise(self, gradients: dict[str, Any], config: DPConfig) -> dict[str, Any]:
        """Return the gradients with noise of standard deviation (or scale) z·C in every coordinate."""

    def clip_gradients(self, gradients: dict[str, Any], max_norm: float) -> tuple[dict[str, Any], float]:
        """Return the gradients, as one vector scaled to an L2 norm of at most `max_norm`, and the norm they had."""

    def compute_privacy_spent(self, config: DPConfig, num_steps: int) -> PrivacyReport:
        """Return what so many steps cost."""

    def get_noise_multiplier(
        self, target_epsilon: float, target_delta: float, sampling_rate: float, num_steps: int
    ) -> float:
        """Return a noise multiplier for which so many steps keep the target."""

    def check_budget(self, budget: PrivacyBudget) -> bool:
        """Return whether what was consumed is within the budget."""

    def renyi_divergence(self, alpha: float, sigma: float) -> float:
        """Return the Rényi divergence of order α of Gaussian noise of σ sensitivities."""
