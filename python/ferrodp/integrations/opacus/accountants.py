"""Accountants for Opacus' privacy engine that answer with certified bounds."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, ClassVar

from ferrodp.accounting import PldAccountant, PrivacyAccountant, RdpAccountant
from ferrodp.errors import InvalidParameter
from ferrodp.events import GaussianEvent, NonPrivateEvent, PoissonSampledEvent, PrivacyEvent
from ferrodp.integrations._tensors import framework
from ferrodp.integrations.opacus.histories import History, from_opacus_history

__all__ = ["CertifiedAccountant", "CertifiedRdpAccountant", "register"]


class CertifiedAccountant:
    """An accountant for Opacus based on privacy loss distributions: the exact ε lies between two stated bounds.

    It has the methods that Opacus' privacy engine, its schedulers, checkpoints and ``get_noise_multiplier`` call, and
    counts as a subclass of ``IAccountant`` after `register`. Every step is a Poisson sample in the add-or-remove
    relation, as Opacus states it.

    Attributes
    ----------
    history : list of (float, float, int)
        Noise multiplier, sample rate and number of steps. Opacus reads and replaces it.

    Examples
    --------
    >>> from ferrodp.integrations.opacus import CertifiedAccountant
    >>> accountant = CertifiedAccountant()
    >>> for _ in range(40):
    ...     accountant.step(noise_multiplier=1.5, sample_rate=0.25)
    >>> accountant.history, len(accountant)
    ([(1.5, 0.25, 40)], 40)
    >>> round(accountant.get_epsilon(1e-5), 3), round(accountant.epsilon_after_next(1e-5), 3)
    (5.943, 6.018)
    >>> resumed = CertifiedAccountant()
    >>> resumed.load_state_dict(accountant.state_dict())
    >>> resumed.event == accountant.event, resumed.mechanism()
    (True, 'ferrodp')
    >>> hook = accountant.get_optimizer_hook_fn(sample_rate=0.25)  # for `DPOptimizer.attach_step_hook`
    """

    _NAME: ClassVar[str] = "ferrodp"

    def __init__(self) -> None:
        self.history: History = []

    @classmethod
    def mechanism(cls) -> str:
        """Return the name under which Opacus finds the accountant.

        Returns
        -------
        str
            "ferrodp" or "ferrodp-rdp".
        """
        return cls._NAME

    @property
    def event(self) -> PrivacyEvent:
        """What was released so far, for an accountant or a ledger of this package."""
        return from_opacus_history(self.history)

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one step. Called by Opacus' optimizer.

        Parameters
        ----------
        noise_multiplier : float
            Standard deviation of the noise divided by the clip norm; 0 for no noise.
        sample_rate : float
            Probability with which each record joined the batch.

        Raises
        ------
        InvalidParameter, InvalidType
            By a later call of `get_epsilon`, if a number is outside its domain.
        """
        count = 1
        if self.history and tuple(self.history[-1][:2]) == (noise_multiplier, sample_rate):
            count += self.history.pop()[2]
        self.history.append((noise_multiplier, sample_rate, count))

    def get_epsilon(self, delta: float, **options: Any) -> float:
        """Return an upper bound on ε for what was recorded.

        Parameters
        ----------
        delta : float
            In (0, 1).
        **options : object
            What other accountants of Opacus take; not used here.

        Returns
        -------
        float
            Rounded up.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` or a recorded number is outside its domain.
        """
        return self._epsilon(self.history, delta)

    def epsilon_after_next(self, delta: float) -> float:
        """Return an upper bound on ε after one more step like the last, to stop before a budget is exceeded.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        float
            Rounded up.

        Raises
        ------
        InvalidParameter, InvalidType
            If nothing was recorded, or `delta` or a recorded number is outside its domain.
        """
        if not self.history:
            raise InvalidParameter("history must hold a step that the next one is like")
        noise_multiplier, sample_rate, _ = self.history[-1]
        return self._epsilon([*self.history, (noise_multiplier, sample_rate, 1)], delta)

    def _epsilon(self, history: History, delta: float, **options: Any) -> float:
        """Return ε of a history; infinite if steps had no noise, which no accountant bounds."""
        event = from_opacus_history(history)
        accountant = self._accountant(**options)
        # mutant: step-without-noise-has-epsilon
        if any(noise_multiplier == 0 for noise_multiplier, _, _ in history):
            event = NonPrivateEvent()
        accountant.compose(event)
        return float(accountant.epsilon(delta))

    def _accountant(self, **_options: Any) -> PrivacyAccountant:
        return PldAccountant()

    def __len__(self) -> int:
        return sum(count for _, _, count in self.history)

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """Return the function that Opacus' optimizer calls after each release, which records the step.

        A step may have accumulated the gradients of k batches, each a sample of its own. A record is then in up to k of
        them, and each time it is clipped anew, so it moves the sum by up to k clip norms. The step is recorded as one
        sample with probability min(k·q, 1) under the noise multiplier z/k.

        Parameters
        ----------
        sample_rate : float
            Probability with which each record joins a batch.

        Returns
        -------
        function
            Takes the optimizer.

        Raises
        ------
        InvalidParameter, InvalidType
            If `sample_rate` is no probability.

        Notes
        -----
        Why that is an upper bound: let p ≤ k·q be the probability that the record is in some batch, P₁ the law of the
        output if it is, and Q the law without it. P₁ is a mixture of normal laws whose centers are at most k clip norms
        from Q's, and hockey-stick divergences are convex, so P₁ is no farther from Q than one law at that distance. The
        divergences between (1 - p)·Q + p·P₁ and Q are functions of those between P₁ and Q and grow with p ([BBG18],
        Theorem 2).

        References
        ----------
        [BBG18] Balle, Barthe, Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018.
        """
        PoissonSampledEvent(sampling_probability=sample_rate, event=GaussianEvent(noise_multiplier=1.0))

        def record(optimizer: Any) -> None:
            batches = optimizer.accumulated_iterations
            # mutant: record-in-two-batches-counted-once
            if batches == 1:
                self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=sample_rate)
                return
            self.step(
                noise_multiplier=math.nextafter(optimizer.noise_multiplier / batches, 0.0),
                sample_rate=min(math.nextafter(sample_rate * batches, 2.0), 1.0),
            )

        return record

    def state_dict(self, destination: MutableMapping[str, Any] | None = None) -> MutableMapping[str, Any]:
        """Return what `load_state_dict` takes, in the form that all accountants of Opacus use.

        Parameters
        ----------
        destination : mapping, optional
            Filled and returned; by default a new dict.

        Returns
        -------
        mapping
            With the keys ``history`` and ``mechanism``.

        Raises
        ------
        TypeError
            If `destination` does not take the keys.
        """
        destination = {} if destination is None else destination
        destination["history"] = copy.deepcopy(self.history)
        destination["mechanism"] = self.mechanism()
        return destination

    def load_state_dict(self, state_dict: MutableMapping[str, Any]) -> None:
        """Replace the history by that of a state, of any accountant of Opacus.

        Parameters
        ----------
        state_dict : mapping
            What ``state_dict()`` returned. The history of another accountant is taken over: it says what was released,
            not how that was bounded.

        Raises
        ------
        InvalidParameter, InvalidType
            If it has no history, or entries are outside their domains. Nothing was changed.
        """
        if not state_dict or not {"history", "mechanism"} <= state_dict.keys():
            raise InvalidParameter(
                f"state_dict must have the keys 'history' and 'mechanism', got {sorted(state_dict or ())}; "
                "accountant.state_dict() returns one"
            )
        from_opacus_history(state_dict)
        self.history = [tuple(entry) for entry in state_dict["history"]]


class CertifiedRdpAccountant(CertifiedAccountant):
    """An accountant for Opacus based on Rényi divergences, at the best real order or at given orders.

    At the orders that Opacus' own RDP accountant uses it gives the same ε; without given orders an ε that is never
    larger, as the best order is searched for.

    Attributes
    ----------
    history : list of (float, float, int)
        As in `CertifiedAccountant`.

    Examples
    --------
    >>> from ferrodp.integrations.opacus import CertifiedRdpAccountant
    >>> accountant = CertifiedRdpAccountant()
    >>> accountant.history = [(1.5, 0.25, 40)]
    >>> round(accountant.get_epsilon(1e-5), 3), round(accountant.get_epsilon(1e-5, alphas=[2, 4, 8]), 3)
    (6.573, 6.599)
    """

    _NAME: ClassVar[str] = "ferrodp-rdp"

    def get_epsilon(self, delta: float, alphas: Sequence[float] | None = None, **options: Any) -> float:
        """Return an upper bound on ε for what was recorded.

        Parameters
        ----------
        delta : float
            In (0, 1).
        alphas : sequence of float, optional
            Use these orders only: > 1, increasing. By default all real orders.
        **options : object
            What other accountants of Opacus take; not used here.

        Returns
        -------
        float
            Rounded up.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta`, an order or a recorded number is outside its domain.
        """
        return self._epsilon(self.history, delta, orders=None if alphas is None else list(alphas))

    def _accountant(self, orders: list[float] | None = None, **_options: Any) -> PrivacyAccountant:
        return RdpAccountant(orders)


def register() -> None:
    """Make ``PrivacyEngine(accountant="ferrodp")`` and ``"ferrodp-rdp"`` work in this process.

    Raises
    ------
    MissingPackage
        If Opacus is not installed.

    Examples
    --------
    >>> from opacus.accountants import create_accountant
    >>> from ferrodp.integrations import opacus as exact
    >>> exact.register()
    >>> create_accountant("ferrodp").mechanism()
    'ferrodp'
    """
    library = framework("opacus.accountants.accountant", extra="opacus")
    registry = framework("opacus.accountants.registry", extra="opacus")
    library.IAccountant.register(CertifiedAccountant)
    for accountant in (CertifiedAccountant, CertifiedRdpAccountant):
        registry.register_accountant(accountant.mechanism(), accountant, force=True)
