"""A search for hyperparameters whose cost is accounted: the best of a random number of trainings."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting.accountants.registry import AccountantChoice, accountant_maker
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation, PrivacyEvent, RepeatAndSelectEvent
from ferrodp.plan import PrivacyPlan
from ferrodp.plan.payments import Words
from ferrodp.tickets.statistic import found_statistic
from ferrodp.training._repeats import num_runs

if TYPE_CHECKING:
    from ferrodp.budget import PrivacyLedger

__all__ = ["Selection", "select"]

Candidate = TypeVar("Candidate")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection(Generic[Candidate, Result]):
    """The best run of a search: the only one that may be published.

    Attributes
    ----------
    candidate : object
        What it was run with; None if there was no run, which a Poisson number of runs can be.
    result : object
        What it returned.
    score : float
        By which it is the best.
    event : RepeatAndSelectEvent
        What the whole search costs.
    neighboring_relation : NeighboringRelation
        Which datasets the cost tells apart.

    Examples
    --------
    >>> from ferrodp.events import GaussianEvent
    >>> from ferrodp.training import select
    >>> run = GaussianEvent(noise_multiplier=5.0)
    >>> found = select(lambda rate: (f"model of {rate}", rate), [0.1, 1.0], one_run=run, mean=10)
    >>> round(found.epsilon(1e-5), 2)
    1.72
    """

    candidate: Candidate | None
    result: Result | None
    score: float
    event: RepeatAndSelectEvent
    neighboring_relation: NeighboringRelation

    def epsilon(self, delta: Real, *, accountant: AccountantChoice = "rdp") -> float:
        """Return an upper bound on the ε of the whole search.

        Parameters
        ----------
        delta : float
            In (0, 1). Rounded down if not exactly representable.
        accountant : str or callable
            As for `PrivacyPlan.epsilon`.

        Returns
        -------
        float
            ε ≥ 0.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` is out of its domain.
        UnsupportedEventError
            If the accountant has no bound for the search.
        """
        counted = accountant_maker(accountant, self.neighboring_relation)()
        counted.compose(self.event)
        return counted.epsilon(delta)


def select(
    train_one: Callable[[Candidate], tuple[Result, float]],
    candidates: Sequence[Candidate],
    *,
    one_run: PrivacyPlan | PrivacyEvent,
    mean: float,
    shape: float = 1.0,
    ledger: PrivacyLedger | None = None,
    scope: str | Sequence[str] | None = None,
    key: str | None = None,
) -> Selection[Candidate, Result]:
    r"""Run a training with candidates drawn at random, a random number of times, and return the best run alone.

    Trying k settings and publishing the best costs up to k times a training. Drawing the number of runs from a law, and
    keeping it and all other runs secret, costs two or three times one, however many candidates there are ([PS22]).

    Parameters
    ----------
    train_one : callable
        From a candidate to a result and its score, the larger the better; a score that is NaN counts as −∞. It must
        cost no more than `one_run` whatever the candidate, must not publish anything, and the score must either come
        from data that need no protection or be noised, and be part of `one_run`.
    candidates : sequence
        Settings to choose from, a public list. Each run draws one of them uniformly.
    one_run : PrivacyPlan or PrivacyEvent
        What a run costs: the plan of the training, or an event that holds all that a run releases.
    mean : float
        Mean number of runs; finite, ≥ 1, or > 0 if `shape` is infinite.
    shape : float
        η of the truncated negative binomial law: 1 is geometric, 0 logarithmic; infinite for the Poisson law, which
        may be no run at all.
    ledger, scope, key : optional
        Pay for the whole search before the first run; runs must not be charged again.

    Returns
    -------
    Selection

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain. Nothing was run or charged.
    BudgetExceeded, UnsupportedEventError, LedgerError
        As `PrivacyLedger.reserve`. Nothing was run.

    Notes
    -----
    [PS22] Theorems 2 and 6. The number of runs is drawn exactly, from cryptographic bits. It is secret, and so is all
    that tells of it: do not publish how long the search took, and print nothing in `train_one`.

    References
    ----------
    [PS22] Papernot, Steinke, "Hyperparameter tuning with Rényi differential privacy", ICLR 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
    >>> from ferrodp.training import SGD, fit, select
    >>> points, public = np.ones((100, 2)), np.ones(2)
    >>> plan = PrivacyPlan(
    ...     population_size=100,
    ...     sampling=FullBatch(),
    ...     num_steps=10,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(20.0),
    ... )
    >>> def train_one(rate):
    ...     run = plan.start(np.zeros(2))
    ...     done = fit(run, np.zeros(2), lambda w, step: w - points, optimizer=SGD(rate))
    ...     return done.parameters, -float(np.sum((done.parameters - public) ** 2))
    >>> best = select(train_one, [0.01, 0.1, 1.0], one_run=plan, mean=5)
    >>> best.candidate in (0.01, 0.1, 1.0), plan.epsilon(1e-5) < best.epsilon(1e-5) < 3 * plan.epsilon(1e-5)
    (True, True)
    """
    options = list(candidates)
    if not options:
        raise InvalidParameter("candidates must hold at least one")
    if not callable(train_one):
        raise InvalidType(f"train_one must be a function, got {type(train_one).__name__}")
    if isinstance(one_run, PrivacyPlan):
        cost, relation = one_run.event, one_run.neighboring_relation
    else:
        cost, relation = one_run, NeighboringRelation.ADD_OR_REMOVE_ONE
    event = RepeatAndSelectEvent(event=cost, mean=mean, shape=shape)
    _validate.ledger_and_scope(ledger, scope)
    if ledger is not None and scope is not None:
        about = Words.of(one_run) if isinstance(one_run, PrivacyPlan) else None
        words = found_statistic(
            "the best of a random number of trainings",
            None,
            None if about is None else about.bounds,
            None if about is None else about.unit,
        )
        # mutant: search-paid-for-as-one-run
        with ledger.reserve(scope, event, key=key) as ticket:
            if isinstance(one_run, PrivacyPlan) and ticket.neighboring_relation is not relation:
                raise InvalidParameter(f"scope must have the neighboring_relation {relation.name} of the plan")
            relation = ticket.neighboring_relation
            ticket.arm(statistic=words)
    best: tuple[float, int, Candidate, Result] | None = None
    for _ in range(num_runs(event)):
        candidate = options[secrets.randbelow(len(options))]
        result, score = train_one(candidate)
        rank = -math.inf if math.isnan(score) else float(score)
        tie = secrets.randbits(64)  # makes the order of runs total
        if best is None or (rank, tie) > best[:2]:
            best = rank, tie, candidate, result
    return Selection(
        candidate=None if best is None else best[2],
        result=None if best is None else best[3],
        score=-math.inf if best is None else best[0],
        event=event,
        neighboring_relation=relation,
    )
