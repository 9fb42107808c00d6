"""The Gaussian mechanism for a whole named model."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from ferrodp import _trees, _validate
from ferrodp._validate import Real
from ferrodp.accounting import GdpAccountant, Guarantee
from ferrodp.clipping import clip_by_global_norm
from ferrodp.engine.protocol import RoundLedger
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation
from ferrodp.mechanisms import GaussianMechanism

__all__ = ["GaussianDifferentialPrivacy"]


class GaussianDifferentialPrivacy:
    r"""Clip a named model jointly, add the least Gaussian noise that makes it (ε, δ)-private, and keep count.

    What is protected is one model, or one update of it, as a whole: all its arrays together are one vector, clipped to
    L2 norm C. By default the guarantee tells it apart from a model of zeros, which is what a server sees of a client
    that takes no part: the distance is C. With `REPLACE_ONE` it tells any two models apart: the distance is 2C, and
    so is the noise. For sums over clients use `DifferentialPrivacyEngine.round`.

    Parameters
    ----------
    clip_norm : float
        C, in the units of the model; finite, > 0. Rounded down if it is no float.
    neighboring_relation : NeighboringRelation
        What the model is told apart from; see above. `ADD_OR_REMOVE_ONE` and `REPLACE_SPECIAL` mean the same here.
    ledger : PrivacyLedger, optional
        Reserve each release there, before its first random bit; it refuses what its budget does not allow.
    scope : str, optional
        Where in the ledger.

    Attributes
    ----------
    name : str
        "gaussian".
    clip_norm : float
        C.

    Raises
    ------
    InvalidParameter, InvalidType

    Notes
    -----
    The noise is that of Balle, Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, Theorem 8,
    which is less than the classical Δ·√(2 ln(1.25/δ))/ε, and holds for ε > 1 too.

    Examples
    --------
    >>> privacy = GaussianDifferentialPrivacy(clip_norm=1.0)
    >>> model = {"weights": np.ones((2, 2), np.float32), "bias": np.zeros(2, np.float32)}
    >>> noised = privacy.apply_privacy(model, epsilon=1.0, delta=1e-6)
    >>> noised["weights"].shape, privacy.privacy_budget_consumed.epsilon <= 1.0
    ((2, 2), True)
    """

    name = "gaussian"

    def __init__(
        self,
        clip_norm: Real = 1.0,
        *,
        neighboring_relation: NeighboringRelation = NeighboringRelation.REPLACE_SPECIAL,
        ledger: RoundLedger | None = None,
        scope: str | None = None,
    ) -> None:
        self._clip_norm = _validate.positive("clip_norm", clip_norm, toward="down")
        if not isinstance(neighboring_relation, NeighboringRelation):
            found = type(neighboring_relation).__name__
            raise InvalidType(f"neighboring_relation must be a NeighboringRelation, got {found}")
        self._relation = neighboring_relation
        # mutant: model-told-apart-from-opposite-at-price
        distance = 2.0 if neighboring_relation is NeighboringRelation.REPLACE_ONE else 1.0
        self._sensitivity = _validate.positive("clip_norm", distance * self._clip_norm)
        if (ledger is None) != (scope is None):
            raise InvalidParameter("ledger and scope must be given together")
        self._ledger, self._scope = ledger, scope
        self._lock = threading.Lock()
        self.reset()

    @property
    def clip_norm(self) -> float:
        """The L2 norm that models are clipped to."""
        return self._clip_norm

    @property
    def privacy_budget_consumed(self) -> Guarantee:
        """An (ε, δ) that all releases since the last `reset` together keep, as if all were about the same data.

        What is counted is what this object released, in this process. δ is the sum of theirs. ε is the exact one of a
        composition of Gaussian releases at that δ (Dong, Roth, Su, "Gaussian differential privacy", 2022, Corollary
        3.3), rounded up: less than the sum of all ε.
        """
        with self._lock:
            accountant, delta = self._accountant.copy(), self._delta
        at = _validate.rounded(delta, "up")
        if not at:
            return Guarantee(0.0, 0.0)
        return Guarantee(0.0, 1.0) if at >= 1.0 else Guarantee(accountant.epsilon(at), at)

    def apply_privacy(self, model: Mapping[str, Any], epsilon: Real, delta: Real) -> dict[str, Any]:
        """Return the model, clipped to `clip_norm` and with noise: the one thing here that may be published.

        The cost is charged before the first random bit, and stays charged whatever happens.

        Parameters
        ----------
        model : dict of ndarrays
            All float32 or all float64, nested as you like. Never written to.
        epsilon : float
            Finite, > 0. Rounded down if it is no float.
        delta : float
            In (0, 1). Rounded down if it is no float.

        Returns
        -------
        dict of ndarrays
            Like the model. A model with NaN or infinity anywhere counts as zeros.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            Before anything is drawn or charged.
        BudgetExceeded
            If the ledger does not allow it.

        Warns
        -----
        WeakPrivacyWarning
            If ε > 20.
        """
        if not isinstance(model, Mapping):
            raise InvalidType(f"model must be a mapping of arrays, got {type(model).__name__}")
        allowed = _validate.delta(delta)
        mechanism = GaussianMechanism.calibrated(epsilon=epsilon, delta=allowed, l2_sensitivity=self._sensitivity)
        # mutant: model-noised-before-it-clipped
        clipped, _ = clip_by_global_norm(model, clip_norm=self._clip_norm)
        leaves, structure = _trees.float_leaves(clipped, "model")
        values = np.concatenate([leaf.reshape(-1) for leaf in leaves])
        if self._ledger is None:
            # mutant: cost-of-model-charged-after-noise
            self._charge(mechanism, allowed)
            mechanism.release(values, out=values)
        else:
            with self._ledger.reserve(self._scope, mechanism.event) as ticket:
                replaced = NeighboringRelation.REPLACE_ONE
                if (ticket.neighboring_relation is replaced) != (self._relation is replaced):
                    here, there = self._relation.name, ticket.neighboring_relation.name
                    raise InvalidParameter(f"scope must have the neighboring_relation {here}, got {there}")
                self._charge(mechanism, allowed)
                mechanism.release(values, out=values, ticket=ticket)
        noised: dict[str, Any] = _trees.split(values, structure)
        return noised

    def reset(self) -> None:
        """Begin to count anew, for other data.

        Privacy that was spent on data stays spent: about the same data, what was consumed before still adds to what
        comes after. A ledger keeps what it recorded.
        """
        with self._lock:
            self._accountant = GdpAccountant(neighboring_relation=self._relation)
            self._delta = Fraction(0)

    def _charge(self, mechanism: GaussianMechanism, delta: float) -> None:
        with self._lock:
            self._accountant.compose(mechanism.event)
            # mutant: failures-of-models-do-not-add-up
            self._delta += Fraction(delta)

    def __repr__(self) -> str:
        return f"GaussianDifferentialPrivacy(clip_norm={self._clip_norm!r}, {self._relation.name})"
