"""The Gaussian mechanism for a whole named model."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from fractions import Fraction
from typing import TypeVar

import numpy as np

from ferrodp._base import _trees, _validate
from ferrodp._base._validate import Real
from ferrodp.accounting import GdpAccountant, Guarantee
from ferrodp.clipping import clip_by_global_norm
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation
from ferrodp.events.base import check_relation
from ferrodp.mechanisms import GaussianMechanism
from ferrodp.tickets import TicketLedger
from ferrodp.tickets.statistic import changed, found_statistic

__all__ = ["GaussianDifferentialPrivacy"]

Arrays = TypeVar("Arrays")


class GaussianDifferentialPrivacy:
    r"""Clip a named model jointly, add the least Gaussian noise that makes it (ε, δ)-private, and keep count.

    The unit of privacy is one model, or one update of it, as a whole: all its arrays together are one vector, clipped
    to L2 norm C. By default its neighbor is a model of zeros, which is what a server sees of a client that does not
    take part: the distance is C. With `REPLACE_ONE` any two models are neighbors: distance and noise are twice as
    large. For sums over clients use `DifferentialPrivacyEngine.round`.

    Parameters
    ----------
    clip_norm : float
        C, in the units of the model; finite, > 0. Rounded down if not exactly representable.
    neighboring_relation : NeighboringRelation
        Which models are neighbors; see above. `ADD_OR_REMOVE_ONE` and `REPLACE_SPECIAL` mean the same here.
    ledger : PrivacyLedger, optional
        Reserve each release there, before its first random bit; it refuses what its budget does not allow.
    scope : str, optional
        The scope of the ledger that releases are charged to.

    Attributes
    ----------
    name : str
        "gaussian".
    clip_norm : float
        C.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is not accepted, or only one of `ledger` and `scope` is given.

    Notes
    -----
    The noise is that of [BW18] Theorem 8, which is less than the classical Δ·√(2 ln(1.25/δ))/ε and holds for ε > 1 too.

    References
    ----------
    [BW18] Balle, Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, Theorem 8.

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
        ledger: TicketLedger | None = None,
        scope: str | None = None,
    ) -> None:
        self._clip_norm = _validate.positive("clip_norm", clip_norm, toward="down")
        neighboring_relation = check_relation(neighboring_relation)
        self._relation = neighboring_relation
        # mutant: model-told-apart-from-opposite-at-price
        distance = 2.0 if neighboring_relation is NeighboringRelation.REPLACE_ONE else 1.0
        self._sensitivity = _validate.positive("clip_norm", distance * self._clip_norm)
        _validate.ledger_and_scope(ledger, scope)
        self._ledger, self._scope = ledger, scope
        self._lock = threading.Lock()
        self.reset()

    @property
    def clip_norm(self) -> float:
        """The L2 norm that models are clipped to."""
        return self._clip_norm

    @property
    def privacy_budget_consumed(self) -> Guarantee:
        """An (ε, δ) that all releases since the last `reset` together satisfy, as if all were about the same data.

        Only what this object released in this process is counted. δ is the sum of theirs. ε is the exact one of a
        composition of Gaussian releases at that δ ([DRS22] Corollary 3.3), rounded up: less than the sum of all ε.
        """
        with self._lock:
            accountant, delta = self._accountant.copy(), self._delta
        at = _validate.rounded(delta, "up")
        if not at:
            return Guarantee(0.0, 0.0)
        return Guarantee(0.0, 1.0) if at >= 1.0 else Guarantee(accountant.epsilon(at), at)

    def apply_privacy(self, model: Mapping[str, Arrays], epsilon: Real, delta: Real) -> dict[str, Arrays]:
        """Return the model, clipped to `clip_norm` and with noise, for publication.

        The cost is charged before the first random bit, and stays charged even if the call fails.

        Parameters
        ----------
        model : dict of ndarrays
            All float32 or all float64, arbitrarily nested. Never written to.
        epsilon : float
            Finite, > 0. Rounded down if not exactly representable.
        delta : float
            In (0, 1). Rounded down if not exactly representable.

        Returns
        -------
        dict of ndarrays
            Like the model. A model with NaN or infinity anywhere counts as zeros.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            If an argument is not accepted. Nothing was drawn or charged.
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
        if self._ledger is None or self._scope is None:
            # mutant: cost-of-model-charged-after-noise
            self._charge(mechanism, allowed)
            mechanism.release(values, out=values)
        else:
            words = found_statistic(
                "a whole model",
                None,
                f"L2 norm at most {self._clip_norm:g}",
                f"one unit, {changed(self._relation, 'unit')}",
            )
            with self._ledger.reserve(self._scope, mechanism.event, statistics=words) as ticket:
                replaced = NeighboringRelation.REPLACE_ONE
                if (ticket.neighboring_relation is replaced) != (self._relation is replaced):
                    here, there = self._relation.name, ticket.neighboring_relation.name
                    raise InvalidParameter(f"scope must have the neighboring_relation {here}, got {there}")
                self._charge(mechanism, allowed)
                mechanism.release(values, out=values, ticket=ticket)
        noised: dict[str, Arrays] = _trees.split(values, structure)
        return noised

    def reset(self) -> None:
        """Start counting from zero, for other data.

        Privacy that was spent stays spent: for the same data, the loss of earlier releases adds to that of later ones.
        A ledger keeps what it recorded.

        Examples
        --------
        >>> privacy = GaussianDifferentialPrivacy()
        >>> _ = privacy.apply_privacy({"w": np.zeros(3)}, epsilon=1.0, delta=1e-6)
        >>> privacy.reset()
        >>> privacy.privacy_budget_consumed
        Guarantee(epsilon=0.0, delta=0.0)
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
