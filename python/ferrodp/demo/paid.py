"""The same training, paid from a ledger: it outlives its process, and no crash makes it exceed the budget.

Before a round its cost is charged under a key of its own, ``demo/RUN/charge-N``. The ticket is armed right before the
noise is drawn, and the model is saved right after. A process that dies leaves behind one of these:

==============================  =======================================================================================
before the ticket was armed     the key leads to the same ticket, still held: the round is done with it
armed, the model not saved      the charge is spent, its result lost: the round is repeated under the next key
the model saved                 nothing is lost
==============================  =======================================================================================
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from pathlib import Path

from ferrodp.budget import PrivacyLedger
from ferrodp.demo._data import Digits
from ferrodp.demo._training import Round, Server, Settings, Training, accuracy, clipped_sum
from ferrodp.demo.checkpoint import Checkpoint
from ferrodp.errors import BudgetExceeded, InvalidParameter
from ferrodp.events import GaussianEvent, NeighboringRelation, PrivacyEvent
from ferrodp.tickets import Ticket, TicketState

CHECKPOINT = "checkpoint.json"


class PaidTraining:
    """A training that is paid from a scope of a ledger, from where the checkpoint in a folder stands.

    Nothing is charged or written before `train`.

    Parameters
    ----------
    ledger : PrivacyLedger
        Opened with the checkpoint's head as witness, where there is a checkpoint.
    scope : str
        Its budget is that of the training; what else was charged to it counts.
    settings : Settings
        Of which ε and δ are replaced by those of the scope.
    data_seed : int
        How the images were dealt.
    folder : Path
        Where the checkpoint is.

    Raises
    ------
    InvalidParameter
        If the folder holds a training with other settings, or in another scope.
    BudgetExceeded
        If the scope does not allow a single round, and none was done before.
    """

    def __init__(
        self,
        ledger: PrivacyLedger,
        scope: str,
        settings: Settings,
        *,
        data_seed: int,
        folder: Path,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.ledger, self.settings = ledger, settings
        self._path = folder / CHECKPOINT
        names = "noise_multiplier", "clip_norm"
        fixed = {name: getattr(settings, name) for name in names} | {"data_seed": data_seed}
        report = ledger.report(scope)
        self.scope, self.relation = report.scope, report.neighboring_relation
        replaced = self.relation is NeighboringRelation.REPLACE_ONE  # an update that becomes another moves it by 2C
        self.event: PrivacyEvent = GaussianEvent(noise_multiplier=settings.noise_multiplier / (2 if replaced else 1))
        if checkpoint is not None:
            _check_same(checkpoint, fixed, self.scope, folder)
        self._checkpoint, self._fixed = checkpoint, fixed
        self.resumed = self._done = 0 if checkpoint is None else len(checkpoint.rounds)
        self._charges = 0 if checkpoint is None else checkpoint.charges
        left = ledger.remaining_count(self.scope, self.event)
        if not left and not self.resumed:
            raise BudgetExceeded(self._full())
        self.planned = max(self.resumed, min(settings.rounds, self.resumed + left))

    @property
    def lost(self) -> int:
        """How many charges were paid and their results lost, in processes that died."""
        return self._charges - self._done

    def _full(self) -> str:
        """Return which scope has no room for a round: this one, or the first of those around it."""
        around = [name for name in self.ledger.scopes if f"{self.scope}/".startswith(f"{name}/")]
        full = next(name for name in sorted(around, key=len) if not self.ledger.remaining_count(name, self.event))
        report = self.ledger.report(full)
        then = self.ledger.epsilon_charged(full, after=self.event)
        return (
            f"scope {full!r} has no room for a round: epsilon {_up(report.epsilon_charged)} of "
            f"{float(report.epsilon):g} at delta {float(report.delta):g} is charged"
            + (", and it is frozen" if report.frozen else f", a round would make it {_up(then)}")
        )

    def next_epsilon(self) -> float:
        """Return the ε of a training planned with one more round, and of all else that was charged to the scope."""
        return self.ledger.epsilon_charged(self.scope, after=self.event)

    def train(self, data: Digits, advance: Callable[[], None] = lambda: None) -> Training:
        """Train until the ledger refuses a round, or all rounds are done; save a checkpoint after each.

        Raises
        ------
        TicketError
            If another process armed the ticket of a round: it continues the same training.
        LedgerError, FileRefused
            If a charge or a checkpoint cannot be written, or another process wrote one. The same training can be
            continued later.
        """
        now = self._checkpoint or self._begin()
        server, refusal = Server(now.model, now.velocity), None
        for _ in range(len(now.rounds)):
            advance()
        while len(now.rounds) < self.settings.rounds:
            try:
                with self._ticket(now.run) as ticket:
                    total = clipped_sum(server.model, data, self.settings)
                    noised = total.release(noise_multiplier=self.settings.noise_multiplier, ticket=ticket)
            except BudgetExceeded as error:
                refusal = str(error)
                break
            server.step(noised, len(data.clients))
            self._charges += 1
            done = Round(accuracy(server.model, data.test), self.ledger.epsilon_charged(self.scope))
            now = self._save(now.run, (*now.rounds, done), server)
            advance()
        return Training(server.model, now.rounds, self.next_epsilon(), refusal)

    def _begin(self) -> Checkpoint:
        """Save the beginning, so that a process that dies in the first round is followed by one with the same keys."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self._save(secrets.token_hex(8), (), Server())

    def _save(self, run: str, rounds: tuple[Round, ...], server: Server) -> Checkpoint:
        now = Checkpoint(
            run=run,
            scope=self.scope,
            head=str(self.ledger.head),
            settings=dict(self._fixed),
            charges=self._charges,
            rounds=rounds,
            model=server.model,
            velocity=server.velocity,
        )
        now.save(self._path, self._checkpoint)
        self._checkpoint, self._done = now, len(rounds)
        return now

    def _ticket(self, run: str) -> Ticket:
        """Return a ticket that nobody armed; note each that was, for its result is lost."""
        while True:
            key = f"demo/{run}/charge-{self._charges}"
            ticket = self.ledger.reserve(self.scope, self.event, key=key, again_ok=True)
            if ticket.state is TicketState.HELD:
                return ticket
            self._charges += 1


def _up(epsilon: float) -> str:
    return f"{math.ceil(1000.0 * epsilon) / 1000.0:.10g}"


def _check_same(checkpoint: Checkpoint, fixed: dict[str, float], scope: str, folder: Path) -> None:
    """Refuse to go on with something else than what was begun."""
    for name, value in fixed.items():
        if checkpoint.settings.get(name) != value:
            option = f"--{name.replace('_', '-')}"
            raise InvalidParameter(
                f"{folder} holds a training with {option} {checkpoint.settings.get(name)}, not {value}: continue it "
                "with that, or begin another with another --output"
            )
    if checkpoint.scope != scope:
        raise InvalidParameter(
            f"{folder} holds a training in scope {checkpoint.scope!r}, not {scope!r}: continue it there, or begin "
            "another with another --output"
        )
