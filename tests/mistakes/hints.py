"""What a refusal offers, and a call that does it: the mistake is made, then the way out is taken, which has to pass.

Each row stands for the places in the sources whose words its message has; `test_hints.py` sees that no place with a way
out is left over. Conversions of columns and arrays have tables of their own (`test_conversions.py`), and so have values
that are offered for single parameters (`test_every_parameter.py`). What the programs print is in
`hints_of_programs.py`.
"""

import datetime
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mistaken_objects import EVENT, FRAME, GAUSSIAN, planned

import ferrodp as fd
from ferrodp import accounting, budget, correlated, federated, plan, training
from ferrodp.accounting import curves
from ferrodp.events import (
    DiscreteLaplaceEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    NonPrivateEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from ferrodp.statistics import models
from support.hints import Hint

REMOVE, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL
DAY, NEXT_DAY = datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)
PUBLIC = {"epsilon": 1.0, "delta": 1e-6}


AGES, NARROW = {"age": np.ones(9)}, {"age": np.ones(9, np.float32)}


def counted_ages(frame: Any, **payment: Any) -> Any:
    """Return how many ages a table has."""
    return fd.private_count(frame["age"], epsilon=1.0, **payment)


def summed_ages(frame: Any, most: int, payment: Any) -> Any:
    """Return the sum of ages, each at most so large."""
    return fd.private_sum(frame["age"], bounds=(0, 1 + most), epsilon=1.0, **payment)


def fresh(name: str) -> Path:
    """Return a path in a new folder."""
    return Path(tempfile.mkdtemp(prefix="ferrodp-hints-")) / name


def composed(accountant: Any, *events: Any) -> Any:
    """Return an accountant after these events."""
    for event in events:
        accountant.compose(event)
    return accountant


def banded(bands: int, num_steps: int = 10, num_selected: int = 1) -> fd.PrivacyPlan:
    """Return a plan of random allocations and noise that cancels over so many steps."""
    return planned(
        sampling=plan.RandomAllocation(num_steps=num_steps, num_selected=num_selected),
        noise=plan.CorrelatedNoise(correlated.BandedToeplitz(num_steps=10, bands=bands), 1.0),
    )


def released_sum() -> fd.ClippedSum:
    """Return a sum that was released."""
    total = fd.ClippedSum((2,), clip_norm=1.0)
    total.add(np.zeros(2))
    total.release(noise_multiplier=1.0)
    return total


def described(**words: str) -> None:
    """Enter a block whose releases are described, and leave it."""
    with fd.tickets.describing(**words):
        pass


def in_block(call: Callable[[], object]) -> object:
    """Call within an open budget."""
    with fd.budget(epsilon=8.0, delta=1e-3):
        return call()


def written(content: bytes, name: str) -> Path:
    """Return a new file of these bytes."""
    path = fresh(name)
    path.write_bytes(content)
    return path


def correlated_plan(**changes: Any) -> fd.PrivacyPlan:
    """Return a plan whose noise is correlated, with parts replaced."""
    noise = plan.CorrelatedNoise(noise_multiplier=1.0, strategy=correlated.BufferedToeplitz(num_steps=10, buffers=2))
    return planned(**{"noise": noise, "sampling": plan.FullBatch(), **changes})


SAMPLED = PoissonSampledEvent(sampling_probability=0.1, event=EVENT)
COUNTER = fd.Counter(noise_multiplier=1e4, days=9)
STRATEGY = correlated.BufferedToeplitz(num_steps=9, buffers=2)
SETS = fd.mechanisms.SubsetResponse.calibrated(epsilon=1.0, num_categories=10)

DOORS = [
    Hint(
        "at least one of the words must be given",
        lambda c: described(),
        lambda c: described(column="age"),
    ),
    Hint(
        "such as GaussianMechanism(noise_multiplier=...)",
        lambda c: fd.GaussianMechanism(1.0, 1.0),
        lambda c: fd.GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=1.0),
    ),
    Hint(
        "write GaussianMechanism(..., l2_sensitivity=...)",
        lambda c: fd.GaussianMechanism(noise_multiplier=1.0),
        lambda c: fd.GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=1.0),
    ),
    Hint(
        "see dir(ferrodp) for its names",
        lambda c: fd.gausian,
        lambda c: [getattr(fd, name) for name in dir(fd)],
    ),
    Hint(
        "leave 'zzz' out",
        lambda c: fd.private_count([1.0], epsilon=1.0, zzz=3),
        lambda c: fd.private_count([1.0], epsilon=1.0),
    ),
    Hint(
        "did you mean 'epsilon'?",
        lambda c: fd.private_count([1.0], epsilom=1.0),
        lambda c: fd.private_count([1.0], epsilon=1.0),
    ),
    Hint(
        "did you mean 'pure'?",
        lambda c: c.ledger.create("x", epsilon=1.0, delta=0, measure="puer"),
        lambda c: c.ledger.create("hint-x", epsilon=1.0, delta=0, measure="pure"),
    ),
    Hint(
        "did you mean 'hospital/images'? It",
        lambda c: c.ledger.report("hospital/image"),
        lambda c: c.ledger.report("hospital/images"),
    ),
    Hint(
        "for 50 % write 0.5",
        lambda c: plan.PoissonSampling(50),
        lambda c: plan.PoissonSampling(0.5),
    ),
    Hint(
        "open it first: PrivacyLedger.open('budget.db')",
        lambda c: planned().start((3,), ledger="budget.db", scope="a"),
        lambda c: planned().start((3,), ledger=fd.PrivacyLedger.open(c.path), scope="hospital/images"),
    ),
    Hint(
        "for example ledger=PrivacyLedger.open('budget.db')",
        lambda c: planned().start((3,), ledger=3, scope="a"),
        lambda c: planned().start((3,), ledger=fd.PrivacyLedger.open(c.path), scope="hospital/images"),
    ),
    Hint(
        "name what is charged, as in scope='trainings'",
        lambda c: planned().start((3,), ledger=c.ledger),
        lambda c: planned().start((3,), ledger=c.ledger, scope="hospital/images"),
    ),
    Hint(
        "open one, as in ledger=PrivacyLedger.open('budget.db')",
        lambda c: planned().start((3,), scope="hospital/images"),
        lambda c: planned().start((3,), ledger=c.ledger, scope="hospital/images"),
    ),
    Hint(
        "must have 2 entries as in the template",
        lambda c: fd.ClippedSum(((2,), (3,)), clip_norm=1.0).add((np.zeros(2),)),
        lambda c: fd.ClippedSum(((2,), (3,)), clip_norm=1.0).add((np.zeros(2), np.zeros(3))),
    ),
    Hint(
        "must be a dict as in the template",
        lambda c: fd.ClippedSum({"a": (2,)}, clip_norm=1.0).add([np.zeros(2)]),
        lambda c: fd.ClippedSum({"a": (2,)}, clip_norm=1.0).add({"a": np.zeros(2)}),
    ),
    Hint(
        "must be a list as in the template",
        lambda c: fd.ClippedSum([(2,), (3,)], clip_norm=1.0).add(np.zeros(2)),
        lambda c: fd.ClippedSum([(2,), (3,)], clip_norm=1.0).add([np.zeros(2), np.zeros(3)]),
    ),
    Hint(
        "skip must be a collection of names such as",
        lambda c: rounds(template={"step": np.zeros(1)}, skip="step"),
        lambda c: rounds(template={"step": np.array(1), "w": np.zeros(1)}, skip=("step",)),
    ),
    Hint(
        "name the key of a counter in skip",
        lambda c: rounds(template={"step": np.array(1), "w": np.zeros(1)}),
        lambda c: rounds(template={"step": np.array(1), "w": np.zeros(1)}, skip=("step",)),
    ),
]
"""Of what is checked at each door: arguments, ledgers, trees of arrays."""

ACCOUNTING = [
    Hint(
        "compose the events in one RdpAccountant instead",
        lambda c: accounting.RdpAccountant().merge(accounting.PldAccountant()),
        lambda c: composed(accounting.RdpAccountant(), EVENT, EVENT),
    ),
    Hint(
        "account for Poisson samples and add `truncation_delta` to δ",
        lambda c: accounting.rdp.truncated_poisson_gaussian(
            1.0, 50_000, 0.01, 700, [2], neighboring_relation="replace_one"
        ),
        lambda c: (
            accounting.sampling.truncation_delta(
                epsilon=1.0, population_size=50_000, sampling_probability=0.01, truncated_batch_size=700
            ),
            composed(accounting.PldAccountant(neighboring_relation=REPLACE), SAMPLED),
        ),
    ),
    Hint(
        'use method="analytic"',
        lambda c: fd.GaussianMechanism.calibrated(epsilon=2.0, delta=1e-6, l2_sensitivity=1.0, method="classical"),
        lambda c: fd.GaussianMechanism.calibrated(epsilon=2.0, delta=1e-6, l2_sensitivity=1.0, method="analytic"),
    ),
    Hint(
        "use an accountant for it",
        lambda c: curves.hockey_stick_delta(SelfComposedEvent(event=EVENT, count=2), 1.0),
        lambda c: composed(accounting.PldAccountant(), SelfComposedEvent(event=EVENT, count=2)).delta(1.0),
    ),
    Hint(
        "use NonPrivateEvent for 1",
        lambda c: EpsilonDeltaEvent(epsilon=1.0, delta=1.0),
        lambda c: NonPrivateEvent(),
    ),
    Hint(
        "for example [(1.1, 0.01, 500)]",
        lambda c: accounting.from_opacus_history(3),
        lambda c: accounting.from_opacus_history([(1.1, 0.01, 500)]),
    ),
    Hint(
        "as in accountant.history",
        lambda c: accounting.from_opacus_history([3]),
        lambda c: accounting.from_opacus_history([(1.1, 0.01, 500)]),
    ),
    Hint(
        "for example {'RDP': RdpAccountant()}",
        lambda c: accounting.reports.plot_privacy_profile(3),
        lambda c: accounting.reports.plot_privacy_profile({"RDP": composed(accounting.RdpAccountant(), EVENT)}),
    ),
    Hint(
        "register a rule with ferrodp.accounting.rdp.register",
        lambda c: type("Child", (GaussianEvent,), {}),
        lambda c: accounting.rdp.register,
    ),
    Hint(
        "such as GaussianEvent(noise_multiplier=1.0)",
        lambda c: accounting.RdpAccountant().compose([EVENT]),
        lambda c: accounting.RdpAccountant().compose(GaussianEvent(noise_multiplier=1.0)),
    ),
    Hint(
        "; use ",
        lambda c: accounting.ZcdpAccountant().compose(SAMPLED),
        lambda c: accounting.PldAccountant().compose(SAMPLED),
    ),
]
"""Of curves, accountants and events."""


def lost_stream(c: Any) -> object:
    """Go on with a stream of counters whose file is lost."""
    path = fresh("counters")
    fd.CounterStream(COUNTER, 1, file=path, ledger=c.ledger, scope="hospital/images", key=str(path)).close()
    path.unlink()
    return fd.CounterStream(COUNTER, 1, file=path, ledger=c.ledger, scope="hospital/images", key=str(path))


def spent_stream() -> Any:
    """Return a stream of one day after it."""
    stream = fd.CounterStream(fd.Counter(noise_multiplier=2.0, days=1), 1)
    stream.release([1])
    return stream


def closed_stream() -> Any:
    """Return a stream that was closed, and its file."""
    path = fresh("counters")
    stream = fd.CounterStream(COUNTER, 1, file=path, key="pages")
    stream.close()
    return stream, path


def made(path: Path, **caps: float) -> Path:
    """Return the path of a new ledger with a scope."""
    with fd.PrivacyLedger.open(path) as ledger:
        ledger.create("a", **(caps or PUBLIC))
    return path


def moved(to: Path) -> Path:
    """Return the path of a ledger that was moved there."""
    path = made(fresh("old.db"))
    budget.migrate_ledger(path, to, reason="a larger disk")
    return path


BUDGETS = [
    Hint(
        "a reset is a new scope under another name, such as 'p-2'",
        lambda c: c.ledger.create("p", **PUBLIC),
        lambda c: c.ledger.create("p-2", **PUBLIC),
    ),
    Hint(
        "create it first: ledger.create('x', epsilon=..., delta=...)",
        lambda c: c.empty.report("x"),
        lambda c: fd.PrivacyLedger.open(fresh("x.db")).create("x", **PUBLIC),
    ),
    Hint(
        "or begin with scopes under a new name, the outer one first",
        lambda c: (
            c.ledger.create("outer/inner", epsilon=1.0, delta=0, measure="pure"),
            c.ledger.spend("outer/inner", LaplaceEvent(noise_multiplier=9.0)),
            c.ledger.create("outer", epsilon=1.0, delta=1e-6, measure="zcdp"),
        ),
        lambda c: (
            c.ledger.create("other", epsilon=1.0, delta=1e-6, measure="zcdp"),
            c.ledger.create("other/inner", epsilon=1.0, delta=0, measure="pure"),
            c.ledger.spend("other/inner", LaplaceEvent(noise_multiplier=9.0)),
        ),
    ),
    Hint(
        "leave them out where no more is ever to be granted",
        lambda c: c.ledger.create("most", epsilon=2.0, delta=1e-6, highest_epsilon=1.0),
        lambda c: c.ledger.create("most-2", epsilon=2.0, delta=1e-6),
    ),
    Hint(
        "give this one a key of its own",
        lambda c: (
            c.ledger.spend("hospital/images", EVENT, key="hint"),
            c.ledger.spend("hospital/images", GaussianEvent(noise_multiplier=12.0), key="hint"),
        ),
        lambda c: c.ledger.spend("hospital/images", GaussianEvent(noise_multiplier=12.0), key="hint-2"),
    ),
    Hint(
        "such as one within it: 'hospital/images/1'",
        lambda c: block(dict, epsilon=9.0, ledger=c.ledger, scope="hospital/images"),
        lambda c: block(dict, epsilon=2.0, delta=1e-7, ledger=c.ledger, scope="hospital/images/1", measure="rdp"),
    ),
    Hint(
        "leave parts and weights out, and give each release an epsilon of its own",
        lambda c: block(dict, epsilon=1.0, delta=1e-6, parts=3, measure="rdp"),
        lambda c: block(lambda: fd.private_count([1.0], epsilon=0.5), epsilon=1.0),
    ),
    Hint(
        "for example epsilon=1.0",
        lambda c: fd.budget(),
        lambda c: fd.budget(epsilon=1.0),
    ),
    Hint(
        "only the parts of an open fd.budget(...) have one of their own; for example epsilon=1.0",
        lambda c: fd.private_count([1.0]),
        lambda c: fd.private_count([1.0], epsilon=1.0),
    ),
    Hint(
        "leave epsilon out of a statistic, or calibrate the mechanism to spending.next_share",
        lambda c: block(lambda: fd.LaplaceMechanism(scale=1.0, l1_sensitivity=1.0).release(0.0), epsilon=1.0, parts=3),
        lambda c: block(lambda: fd.private_count([1.0]), epsilon=1.0, parts=3),
    ),
    Hint(
        "take another one",
        lambda c: closed_lease(c).draw(),
        lambda c: c.ledger.lease("hospital/images", GaussianEvent(noise_multiplier=100.0), count=2).draw(),
    ),
    Hint(
        "take a lease in each process",
        lambda c: pickle.dumps(c.ledger.lease("hospital/images", GaussianEvent(noise_multiplier=100.0), count=1)),
        lambda c: c.ledger.lease("hospital/images", GaussianEvent(noise_multiplier=100.0), count=1),
    ),
    Hint(
        "for example PrivacyLedger.open('budget.db')",
        lambda c: fd.PrivacyLedger("budget.db"),
        lambda c: fd.PrivacyLedger.open(fresh("budget.db")),
    ),
    Hint(
        "for example where='budget.db' or where='postgresql://server/budgets'",
        lambda c: fd.PrivacyLedger.open("mysql://server/budgets"),
        lambda c: fd.PrivacyLedger.open(fresh("budget.db")),
    ),
    Hint(
        "for example where='budget.db'",
        lambda c: fd.PrivacyLedger.open(":memory:"),
        lambda c: fd.PrivacyLedger.open(fresh("budget.db")),
    ),
    Hint(
        "remove it to begin a new ledger",
        lambda c: fd.PrivacyLedger.open(written(b"", "budget.db")),
        lambda c: fd.PrivacyLedger.open(without(written(b"", "budget.db"))),
    ),
    Hint(
        "make it first",
        lambda c: fd.PrivacyLedger.open(fresh("x") / "budget.db"),
        lambda c: fd.PrivacyLedger.open(directory() / "budget.db"),
    ),
    Hint(
        "name a file in it, such as",
        lambda c: fd.PrivacyLedger.open(directory()),
        lambda c: fd.PrivacyLedger.open(directory() / "budget.db"),
    ),
    Hint(
        "put both back, or remove both to begin a new one",
        lambda c: fd.PrivacyLedger.open(half_deleted()),
        lambda c: fd.PrivacyLedger.open(without(wal(half_deleted()))),
    ),
    Hint(
        "remove them, SQLite cannot cope",
        lambda c: fd.PrivacyLedger.open(linked()[0]),
        lambda c: fd.PrivacyLedger.open(unlinked()),
    ),
    Hint(
        "open it again",
        lambda c: closed_ledger().report("a"),
        lambda c: fd.PrivacyLedger.open(made(fresh("budget.db"))).report("a"),
    ),
    Hint(
        "move it by migrate_ledger",
        lambda c: budget.import_ledger(old_ledger(), fresh("new.db"), reason="r"),
        lambda c: budget.migrate_ledger(old_ledger(), fresh("new.db"), reason="r"),
    ),
    Hint(
        "choose another place, or remove it if it is empty",
        lambda c: budget.migrate_ledger(made(fresh("old.db")), made(fresh("new.db")), reason="r"),
        lambda c: budget.migrate_ledger(made(fresh("old.db")), fresh("new.db"), reason="r"),
    ),
    Hint(
        "it takes no record any more; use the new one",
        lambda c: spend_on(moved(fresh("new.db"))),
        lambda c: spend_on(new_of_move()),
    ),
    Hint(
        "and the move is complete: use the ledger there",
        lambda c: twice_moved(),
        lambda c: spend_on(new_of_move()),
    ),
    Hint(
        "if it was moved or renamed since, use it where it is, or put it back".replace("if", "If"),
        lambda c: lost_destination(),
        lambda c: spend_on(renamed_destination()),
    ),
    Hint(
        "begin a ledger by import_ledger from an export of this one",
        lambda c: lost_destination(),
        lambda c: imported_again(),
    ),
    Hint(
        "write scope=...",
        lambda c: fd.statement(c.ledger),
        lambda c: fd.statement(c.ledger, scope="hospital/images"),
    ),
    Hint(
        "write statement(ledger, scope=...)",
        lambda c: fd.statement(GAUSSIAN, scope="hospital/images"),
        lambda c: fd.statement(c.ledger, scope="hospital/images"),
    ),
    Hint(
        "for example delta=1e-6",
        lambda c: fd.statement(GAUSSIAN),
        lambda c: fd.statement(GAUSSIAN, delta=1e-6),
    ),
    Hint(
        "PrivacyLedger.open(where)",
        lambda c: budget.plot_ledger("x"),
        lambda c: budget.plot_ledger(c.ledger),
    ),
]
"""Of ledgers, their scopes and their files."""


def block(call: Callable[[], object], **caps: Any) -> object:
    """Call within an open budget of these caps."""
    with fd.budget(**caps):
        return call()


def closed_lease(c: Any) -> Any:
    """Return a lease that was given back."""
    lease = c.ledger.lease("hospital/images", GaussianEvent(noise_multiplier=100.0), count=1)
    lease.close()
    return lease


def directory() -> Path:
    """Return a new directory."""
    path = fresh("folder")
    path.mkdir()
    return path


def without(path: Path) -> Path:
    """Return a path after what was there is removed."""
    path.unlink(missing_ok=True)
    return path


def half_deleted() -> Path:
    """Return the path of a ledger of which only the log is left."""
    path = made(fresh("budget.db"))
    Path(f"{path}-wal").write_bytes(b"x" * 64)
    path.unlink()
    return path


def wal(path: Path) -> Path:
    """Return the path of a ledger after its log is removed, too."""
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    return path


def linked() -> tuple[Path, Path]:
    """Return two names of one ledger."""
    path = made(fresh("budget.db"))
    path.with_name("other.db").hardlink_to(path)
    return path, path.with_name("other.db")


def unlinked() -> Path:
    """Return a ledger whose second name was removed."""
    path, other = linked()
    other.unlink()
    return path


def closed_ledger() -> fd.PrivacyLedger:
    """Return a ledger after it was closed."""
    with fd.PrivacyLedger.open(made(fresh("budget.db"))) as ledger:
        return ledger


def old_ledger() -> Path:
    """Return a copy of a ledger that version 0.1.0 wrote."""
    return written(Path(__file__).parents[1].joinpath("stored", "format-2.db").read_bytes(), "old.db")


def spend_on(path: Path) -> object:
    """Charge something to a ledger."""
    with fd.PrivacyLedger.open(path) as ledger:
        return ledger.spend("a", GaussianEvent(noise_multiplier=100.0))


def new_of_move() -> Path:
    """Return the place that a ledger was moved to."""
    to = fresh("new.db")
    moved(to)
    return to


def twice_moved() -> object:
    """Move a ledger that was moved there already."""
    to = fresh("new.db")
    return budget.migrate_ledger(moved(to), to, reason="r")


def lost_destination() -> object:
    """Move a ledger to where it was moved before, and from where it was renamed."""
    to = fresh("new.db")
    old = moved(to)
    to.rename(to.with_name("renamed.db"))
    return budget.migrate_ledger(old, to, reason="r")


def renamed_destination() -> Path:
    """Return the new name of a ledger that was renamed after a move."""
    to = fresh("new.db")
    moved(to)
    return to.rename(to.with_name("renamed.db"))


def imported_again() -> None:
    """Begin a ledger from an export of one that was moved, and lower its budget."""
    to, log = fresh("new.db"), fresh("log.jsonl.gz")
    with fd.PrivacyLedger.open(moved(to), read_only=True) as old:
        old.backup(log)
    place = fresh("restored.db")
    budget.import_ledger(log, place, reason="the other one is lost")
    with fd.PrivacyLedger.open(place) as ledger:
        ledger.lower_cap("a", epsilon=0.5, delta=1e-6, reason="spent since")


def spent_noise() -> Any:
    """Return a stream of correlated noise after its last step."""
    stream = correlated.NoiseStream(
        correlated.BufferedToeplitz(num_steps=1, buffers=1), shape=2, noise_multiplier=1.0, l2_sensitivity=1.0
    )
    stream.release(np.zeros(2))
    return stream


def step_of(run: Any) -> Any:
    """Return the next step of a run."""
    return next(iter(run))


STREAMS = [
    Hint(
        "for example BufferedToeplitz(num_steps=1000, buffers=3)",
        lambda c: correlated.NoiseStream(3, shape=2, noise_multiplier=1.0, l2_sensitivity=1.0),
        lambda c: correlated.NoiseStream(
            correlated.BufferedToeplitz(num_steps=1000, buffers=3), shape=2, noise_multiplier=1.0, l2_sensitivity=1.0
        ),
    ),
    Hint(
        "for example dtype=numpy.float32",
        lambda c: correlated.NoiseStream(STRATEGY, shape=2, noise_multiplier=1.0, l2_sensitivity=1.0, dtype="float16"),
        lambda c: correlated.NoiseStream(STRATEGY, shape=2, noise_multiplier=1.0, l2_sensitivity=1.0, dtype=np.float32),
    ),
    Hint(
        "begin another one, which costs as much again",
        lambda c: spent_noise().release(np.zeros(2)),
        lambda c: spent_noise(),
    ),
    Hint(
        "such as np.linalg.cholesky(X)",
        lambda c: correlated.BandedMatrix(np.array([[1.0, 1.0], [1.0, 1.0]])),
        lambda c: correlated.BandedMatrix(np.linalg.cholesky(np.array([[1.0, 0.5], [0.5, 1.0]]))),
    ),
    Hint(
        "for example units.astype(str)",
        lambda c: fd.CounterStream(COUNTER, 1).release_units(np.array([1.5]), [0]),
        lambda c: fd.CounterStream(COUNTER, 1).release_units(np.array([1.5]).astype(str), [0]),
    ),
    Hint(
        "for example BufferedToeplitz(num_steps=365, buffers=3)",
        lambda c: fd.Counter(noise_multiplier=2.0, days=9, strategy=3),
        lambda c: fd.Counter(
            noise_multiplier=2.0, days=9, strategy=correlated.BufferedToeplitz(num_steps=365, buffers=3)
        ),
    ),
    Hint(
        "for example BufferedToeplitz(num_steps=9, buffers=3)",
        lambda c: fd.Counter(noise_multiplier=2.0, days=9, strategy=correlated.Tree(num_steps=9)),
        lambda c: fd.Counter(
            noise_multiplier=2.0, days=9, strategy=correlated.BufferedToeplitz(num_steps=9, buffers=3)
        ),
    ),
    Hint(
        "give days=9",
        lambda c: fd.Counter(noise_multiplier=2.0, days=10, strategy=STRATEGY),
        lambda c: fd.Counter(noise_multiplier=2.0, days=9, strategy=STRATEGY),
    ),
    Hint(
        "give fewer or larger counts",
        lambda c: fd.Counter(noise_multiplier=2.0, days=9, l2_sensitivity=0.01),
        lambda c: fd.Counter(noise_multiplier=2.0, days=9, l2_sensitivity=1.0),
    ),
    Hint(
        "as in days=(0, 30)",
        lambda c: fd.Counter(noise_multiplier=2.0, days=40).change_interval([5], [7], days=3),
        lambda c: fd.Counter(noise_multiplier=2.0, days=40).change_interval([5], [7], days=(0, 30)),
    ),
    Hint(
        "for example Counter.calibrated(epsilon=1.0, delta=1e-6, days=365)",
        lambda c: fd.CounterStream(3, 1),
        lambda c: fd.CounterStream(fd.Counter.calibrated(epsilon=1.0, delta=1e-6, days=365), 1),
    ),
    Hint(
        "for example counters=['home']",
        lambda c: fd.CounterStream(COUNTER, 1.5),
        lambda c: fd.CounterStream(COUNTER, ["home"]),
    ),
    Hint(
        "for example key='pages'",
        lambda c: fd.CounterStream(COUNTER, 1, key="pages"),
        lambda c: fd.CounterStream(COUNTER, 1, file=fresh("counters"), key="pages"),
    ),
    Hint(
        "start it with ledger= and scope=",
        lambda c: in_block(lambda: fd.CounterStream(COUNTER, 1, file=fresh("counters"), key="pages")),
        lambda c: fd.CounterStream(
            COUNTER, 1, file=fresh("counters"), key="hint", ledger=c.ledger, scope="hospital/images"
        ),
    ),
    Hint(
        "begin another stream under another key, which costs as much again",
        lost_stream,
        lambda c: fd.CounterStream(
            COUNTER, 1, file=fresh("counters"), key="another", ledger=c.ledger, scope="hospital/images"
        ),
    ),
    Hint(
        "start another one, which costs as much again",
        lambda c: spent_stream().release([1]),
        lambda c: fd.CounterStream(COUNTER, 1),
    ),
    Hint(
        "open its file again",
        lambda c: closed_stream()[0].release([1]),
        lambda c: fd.CounterStream.open(closed_stream()[1]),
    ),
    Hint(
        "name a new file",
        lambda c: fd.CounterStream.open(written(b"x" * 99, "counters")),
        lambda c: fd.CounterStream(COUNTER, 1, file=fresh("counters"), key="pages"),
    ),
]
"""Of correlated noise and counters."""

PLANS = [
    Hint(
        "make rounds of 5 steps",
        lambda c: banded(bands=2, num_selected=2),
        lambda c: banded(bands=2, num_steps=5),
    ),
    Hint(
        "take a BandedToeplitz of at most 5 bands",
        lambda c: banded(bands=6),
        lambda c: banded(bands=5),
    ),
    Hint(
        "such as PoissonSampling(0.01)",
        lambda c: planned(sampling=0.01),
        lambda c: planned(sampling=plan.PoissonSampling(0.01)),
    ),
    Hint(
        "such as ferrodp.correlated.BufferedToeplitz(num_steps=100, buffers=3)",
        lambda c: plan.CorrelatedNoise(3, 1.0),
        lambda c: plan.CorrelatedNoise(fd.correlated.BufferedToeplitz(num_steps=100, buffers=3), 1.0),
    ),
    Hint(
        "make the strategy with num_steps=11",
        lambda c: correlated_plan(num_steps=11),
        lambda c: planned(
            num_steps=11,
            sampling=plan.FullBatch(),
            noise=plan.CorrelatedNoise(
                noise_multiplier=1.0, strategy=correlated.BufferedToeplitz(num_steps=11, buffers=2)
            ),
        ),
    ),
    Hint(
        "use CyclicPoisson(1.0, num_parts=...) for epochs in a fixed order",
        lambda c: correlated_plan(sampling=plan.PoissonSampling(0.1)),
        lambda c: (
            correlated_plan(
                sampling=plan.CyclicPoisson(1.0, num_parts=5), neighboring_relation=SPECIAL, population_size=50
            ),
            correlated_plan(),
        ),
    ),
    Hint(
        "take a BandedToeplitz of fewer bands, or probability 1.0",
        lambda c: planned(
            sampling=plan.CyclicPoisson(0.5, num_parts=2),
            neighboring_relation=SPECIAL,
            population_size=50,
            noise=plan.CorrelatedNoise(noise_multiplier=1.0, strategy=correlated.BandedToeplitz(num_steps=10, bands=3)),
        ),
        lambda c: planned(
            sampling=plan.CyclicPoisson(0.5, num_parts=2),
            neighboring_relation=SPECIAL,
            population_size=50,
            noise=plan.CorrelatedNoise(noise_multiplier=1.0, strategy=correlated.BandedToeplitz(num_steps=10, bands=2)),
        ),
    ),
    Hint(
        "start it with ledger= and scope=, which charge all its steps together",
        lambda c: in_block(lambda: correlated_plan().start((3,))),
        lambda c: correlated_plan(noise=strong()).start((3,), ledger=c.ledger, scope="hospital/images"),
    ),
    Hint(
        "for example key='training', noise_file='training.noise'",
        lambda c: correlated_plan(noise=strong()).start((3,), ledger=c.ledger, scope="hospital/images", key="training"),
        lambda c: correlated_plan(noise=strong()).start(
            (3,), ledger=c.ledger, scope="hospital/images", key="training", noise_file=fresh("training.noise")
        ),
    ),
    Hint(
        "go on from a saved state instead",
        lambda c: planned().start((3,), key="training"),
        lambda c: plan.PlanRun.from_state(planned().start((3,)).state()),
    ),
    Hint(
        "call its release(), for an empty or unwanted batch too",
        lambda c: (run := planned().start((3,)), next(run), next(run)),
        lambda c: (run := planned().start((3,)), next(run).release(denominator=1), next(run)),
    ),
    Hint(
        "see PlanRun.state",
        lambda c: pickle.dumps(planned().start((3,))),
        lambda c: planned().start((3,)).state(),
    ),
    Hint(
        "add each of them exactly once",
        lambda c: (step := next(planned(population_size=9, sampling=plan.FullBatch()).start((3,))), step.release()),
        lambda c: (
            step := next(planned(population_size=9, sampling=plan.FullBatch()).start((3,))),
            step.add(np.zeros((9, 3))),
            step.release(),
        ),
    ),
    Hint(
        "plan.to_json() writes it, and a file is read with Path(name).read_text()",
        lambda c: fd.PrivacyPlan.from_json("plan.json"),
        lambda c: fd.PrivacyPlan.from_json(written(planned().to_json().encode(), "plan.json").read_text()),
    ),
    Hint(
        "add the vectors to the step, or plan with FlatClipping",
        lambda c: next(planned(clipping=plan.L1Clipping(1.0)).start((3,))).release_sum(np.zeros(3), denominator=1),
        lambda c: (
            laplace_release(),
            next(planned().start((3,))).release_sum(np.zeros(3), denominator=1),
        ),
    ),
    Hint(
        "audit_canaries=1000 at the start, and a step that was released",
        lambda c: planned().start((3,)).audit(1e-5),
        lambda c: audited(),
    ),
    Hint(
        "such as LocalPlacement()",
        lambda c: federated.PlacedRun(placed(), {"w": np.zeros(3)}, 3),
        lambda c: federated.PlacedRun(placed(), {"w": np.zeros(3)}, federated.LocalPlacement()),
    ),
    Hint(
        "start it with checkpoint=RoundCheckpoint(path)",
        lambda c: rounds().save({"w": np.zeros(3)}),
        lambda c: rounds(checkpoint=federated.RoundCheckpoint(fresh("training.round"))).save({"w": np.zeros(3)}),
    ),
    Hint(
        "call save(arrays)",
        lambda c: next(rounds(checkpoint=federated.RoundCheckpoint(fresh("training.round")))),
        lambda c: (
            run := rounds(checkpoint=federated.RoundCheckpoint(fresh("training.round"))),
            run.save({"w": np.zeros(3)}),
            next(run),
        ),
    ),
    Hint(
        "for example key='training-1'",
        lambda c: rounds(
            checkpoint=federated.RoundCheckpoint(fresh("training.round")), ledger=c.ledger, scope="hospital/images"
        ),
        lambda c: rounds(
            checkpoint=federated.RoundCheckpoint(fresh("training.round")),
            ledger=c.ledger,
            scope="hospital/images",
            key="training-1",
        ),
    ),
    Hint(
        "for example 'training.round'",
        lambda c: federated.RoundCheckpoint(3),
        lambda c: federated.RoundCheckpoint("training.round"),
    ),
    Hint(
        "name another file",
        lambda c: federated.RoundCheckpoint(written(b"x", "training.round")),
        lambda c: federated.RoundCheckpoint(fresh("other.round")),
    ),
    Hint(
        "for example max_clients=20",
        lambda c: federated.SecureSum((3,), clip_norm=1.0, noise_multiplier=1.0, min_clients=20, max_clients=10),
        lambda c: federated.SecureSum((3,), clip_norm=1.0, noise_multiplier=1.0, min_clients=20, max_clients=20),
    ),
    Hint(
        "such as ('pld', 'rdp')",
        lambda c: training.PrivacyMonitor(1e-5, measures="pld"),
        lambda c: training.PrivacyMonitor(1e-5, measures=("pld", "rdp")),
    ),
    Hint(
        "an Optimizer such as SGD(0.1)",
        lambda c: fitted(optimizer=3),
        lambda c: fitted(optimizer=training.SGD(0.1)),
    ),
    Hint(
        "a sequence of labels such as range(10)",
        lambda c: training.train(np.zeros((4, 2)), [0, 1, 0, 1], classes=3, epsilon=1.0, delta=1e-5),
        lambda c: training.train(np.zeros((4, 2)), [0, 1, 0, 1], classes=range(10), epsilon=1.0, delta=1e-5),
    ),
    Hint(
        "as stated, and hold another number",
        lambda c: fd.distributed.clipped_sum([np.zeros((2, 3))], (3,), clip_norm=1.0, stacked=True, expected_count=3),
        lambda c: fd.distributed.clipped_sum([np.zeros((2, 3))], (3,), clip_norm=1.0, stacked=True, expected_count=2),
    ),
    Hint(
        "convert them in load",
        lambda c: fd.distributed.private_statistic([AGES, NARROW], counted_ages),
        lambda c: fd.distributed.private_statistic(
            [AGES, NARROW], counted_ages, load=lambda part: {"age": part["age"].astype(float)}
        ),
    ),
    Hint(
        "write them into the function",
        lambda c: fd.distributed.private_statistic(
            [AGES], lambda frame, **pay: summed_ages(frame, len(frame["age"]), pay)
        ),
        lambda c: fd.distributed.private_statistic([AGES], lambda frame, **pay: summed_ages(frame, 120, pay)),
    ),
    Hint(
        "use a ledger",
        lambda c: pickle.dumps(fd.engine.DifferentialPrivacyEngine(fd.engine.DPConfig())),
        lambda c: c.ledger.spend("hospital/images", GaussianEvent(noise_multiplier=100.0)),
    ),
]
"""Of plans, trainings, rounds and engines."""


def strong() -> plan.CorrelatedNoise:
    """Return correlated noise that fits into the ledger."""
    return plan.CorrelatedNoise(noise_multiplier=5e3, strategy=correlated.BufferedToeplitz(num_steps=10, buffers=2))


def laplace_release() -> object:
    """Add a vector to a step with Laplace noise."""
    step = next(planned(clipping=plan.L1Clipping(1.0), sampling=plan.FullBatch(), population_size=1).start((3,)))
    step.add(np.ones((1, 3)))
    return step.release()


def audited() -> object:
    """Audit a run of one step."""
    run = planned().start((3,), audit_canaries=1000)
    next(run).release(denominator=1)
    return run.audit(1e-5)


def rounds(template: Any = None, **changes: Any) -> federated.FederatedRun:
    """Return federated rounds."""
    chosen = planned(unit="client", population_size=100, noise=plan.ConstantNoise(100.0))
    return federated.FederatedRun(chosen, {"w": np.zeros(3)} if template is None else template, **changes)


def placed() -> fd.PrivacyPlan:
    """Return a plan whose noise clients can draw."""
    return planned(unit="client", population_size=100, sampling=plan.FullBatch(), neighboring_relation=REPLACE)


def special(missing: Any) -> object:
    """Add a column up under REPLACE_SPECIAL."""
    with fd.budget(epsilon=1.0, delta=0, neighboring_relation=SPECIAL):
        return fd.private_mean([1.0], bounds=(0, 1), epsilon=1.0, missing=missing, neighboring_relation=SPECIAL)


def fitted(optimizer: Any) -> object:
    """Fit nothing in one step."""
    run = planned(num_steps=1, population_size=100).start((3,))
    return training.fit(run, np.zeros(3), lambda weights, step: np.zeros((len(step.indices), 3)), optimizer=optimizer)


MATRIX = {"epsilon": 1.0, "delta": 1e-6}
TABLE = {"sex": ["f", "m"], "age": [1.0, 2.0], "region": ["n", "s"]}
COLUMNS = {"sex": ["f", "m"], "region": ["n", "s"]}

STATISTICS = [
    Hint(
        "write zeros into the column",
        lambda c: fd.private_sum([1.0, None], bounds=(0, 1), epsilon=1.0, unit=["a", "b"], missing="zero"),
        lambda c: fd.private_sum([1.0, 0.0], bounds=(0, 1), epsilon=1.0, unit=["a", "b"]),
    ),
    Hint(
        "bounds must be in ascending order",
        lambda c: fd.private_mean([DAY], bounds=(NEXT_DAY, DAY), epsilon=1.0),
        lambda c: fd.private_mean([DAY], bounds=(DAY, NEXT_DAY), epsilon=1.0),
    ),
    Hint(
        "to count missing rows as zeros use REPLACE_ONE",
        lambda c: special(missing="zero"),
        lambda c: block(
            lambda: fd.private_sum([1.0], bounds=(0, 1), epsilon=1.0, missing="zero", neighboring_relation=REPLACE),
            epsilon=1.0,
            neighboring_relation=REPLACE,
        ),
    ),
    Hint(
        "one of its columns is values[:, 0]",
        lambda c: fd.private_sum(np.zeros((3, 2)), bounds=(0, 1), epsilon=1.0),
        lambda c: fd.private_sum(np.zeros((3, 2))[:, 0], bounds=(0, 1), epsilon=1.0),
    ),
    Hint(
        "4 equal bins are numpy.linspace(low, high, 4 + 1)",
        lambda c: fd.private_histogram([1.0], bins=np.array(4), epsilon=1.0),
        lambda c: fd.private_histogram([1.0], bins=np.linspace(0, 1, 4 + 1), epsilon=1.0),
    ),
    Hint(
        "leave None and NaN out",
        lambda c: fd.private_histogram(["a"], categories=["a", None], epsilon=1.0),
        lambda c: fd.private_histogram(["a"], categories=["a"], epsilon=1.0),
    ),
    Hint(
        "for example 'age'",
        lambda c: fd.private_group_by(FRAME, 3, keys=["n"]),
        lambda c: fd.private_group_by(FRAME, "age", keys=[1.0]),
    ),
    Hint(
        "for example {'age': [31, 64]}",
        lambda c: fd.private_group_by(3, "age", keys=[1]),
        lambda c: fd.private_group_by({"age": [31, 64]}, "age", keys=[31]),
    ),
    Hint(
        "for example groups_per_unit=1, rows_per_group=2",
        lambda c: fd.private_group_by(FRAME, "region", keys=["n"], unit="age", rows_per_group=2),
        lambda c: fd.private_group_by(FRAME, "region", keys=["n"], unit="age", groups_per_unit=1, rows_per_group=2),
    ),
    Hint(
        "For δ = 0 take private_histogram",
        lambda c: fd.private_marginals(TABLE, 1, categories=COLUMNS, epsilon=1.0, delta=0),
        lambda c: fd.private_histogram(TABLE["sex"], categories=["f", "m"], epsilon=1.0),
    ),
    Hint(
        "for example delta=1e-6. For",
        lambda c: fd.private_marginals(TABLE, 1, categories=COLUMNS, epsilon=1.0, delta=0),
        lambda c: fd.private_marginals(TABLE, 1, categories=COLUMNS, epsilon=1.0, delta=1e-6),
    ),
    Hint(
        "as in 2 or [(",
        lambda c: fd.private_marginals(TABLE, "sex", categories=COLUMNS, **MATRIX),
        lambda c: (
            fd.private_marginals(TABLE, 2, categories=COLUMNS, **MATRIX),
            fd.private_marginals(TABLE, [("sex", "region"), ("region",)], categories=COLUMNS, **MATRIX),
        ),
    ),
    Hint(
        'as in ("sex", "age")',
        lambda c: fd.private_marginals(TABLE, [["sex"]], categories=COLUMNS, **MATRIX),
        lambda c: fd.private_marginals(
            TABLE, [("sex", "age")], categories=COLUMNS, bins={"age": [0.0, 1.5, 3.0]}, **MATRIX
        ),
    ),
    Hint(
        'as in categories={"sex": ["f", "m"]}',
        lambda c: fd.private_marginals(TABLE, 1, **MATRIX),
        lambda c: fd.private_marginals(TABLE, 1, categories={"sex": ["f", "m"]}, **MATRIX),
    ),
    Hint(
        "must be a dict from column names to public",
        lambda c: fd.private_marginals(TABLE, 1, categories=["sex"], **MATRIX),
        lambda c: fd.private_marginals(TABLE, 1, categories={"sex": ["f", "m"]}, **MATRIX),
    ),
    Hint(
        "leave out a column with only one public value",
        lambda c: fd.private_marginals(TABLE, 1, categories={"sex": ["f"], "region": ["n", "s"]}, **MATRIX),
        lambda c: fd.private_marginals(TABLE, 1, categories={"region": ["n", "s"]}, **MATRIX),
    ),
    Hint(
        "write [0.25, 0.5, 0.75]",
        lambda c: fd.private_quantiles([1.0], 3, bounds=(0, 1), epsilon=1.0),
        lambda c: fd.private_quantiles([1.0], [0.25, 0.5, 0.75], bounds=(0, 1), epsilon=1.0),
    ),
    Hint(
        "compare its value, as in estimate.value > 0",
        lambda c: bool(fd.private_count([1.0], epsilon=1.0)),
        lambda c: fd.private_count([1.0], epsilon=1.0).value > 0,
    ),
    Hint(
        "use float(estimate)",
        lambda c: fd.private_mean([1.0], bounds=(0, 1), epsilon=1.0)[0],
        lambda c: float(fd.private_mean([1.0], bounds=(0, 1), epsilon=1.0)),
    ),
    Hint(
        "add their values, as in a.value + b.value",
        lambda c: fd.private_count([1.0], epsilon=1.0) + fd.private_count([1.0], epsilon=1.0),
        lambda c: fd.private_count([1.0], epsilon=1.0).value + fd.private_count([1.0], epsilon=1.0).value,
    ),
    Hint(
        'as in {"age": (0, 120)}',
        lambda c: fd.statistics.release(TABLE, sums=["age"], epsilon=1.0),
        lambda c: fd.statistics.release(TABLE, sums={"age": (0, 120)}, epsilon=1.0),
    ),
    Hint(
        "write count=True",
        lambda c: fd.statistics.release(TABLE, count=False, sums={}, epsilon=1.0),
        lambda c: fd.statistics.release(TABLE, count=True, sums={}, epsilon=1.0),
    ),
]
"""Of columns, groups and tables."""

SUMS = [
    Hint(
        "see ClippedSum.state",
        lambda c: pickle.dumps(fd.ClippedSum((2,), clip_norm=1.0)),
        lambda c: fd.ClippedSum((2,), clip_norm=1.0).state(),
    ),
    Hint(
        "start a new one",
        lambda c: released_sum().add(np.zeros(2)),
        lambda c: fd.ClippedSum((2,), clip_norm=1.0).add(np.zeros(2)),
    ),
    Hint(
        "or write shapes, such as (3,)",
        lambda c: fd.ClippedSum(np.zeros(3), clip_norm=1.0, dtype="float32"),
        lambda c: fd.ClippedSum((3,), clip_norm=1.0, dtype="float32"),
    ),
    Hint(
        "give it that shape, or the template another",
        lambda c: fd.ClippedSum((3,), clip_norm=1.0).add(np.zeros(2)),
        lambda c: fd.ClippedSum((3,), clip_norm=1.0).add(np.zeros(3)),
    ),
    Hint(
        "convert it with .astype(float32)",
        lambda c: fd.ClippedSum((3,), clip_norm=1.0, dtype="float32").add(np.zeros(3)),
        lambda c: fd.ClippedSum((3,), clip_norm=1.0, dtype="float32").add(np.zeros(3).astype("float32")),
    ),
    Hint(
        "make the mechanism with dimension=2",
        lambda c: fd.DiscreteGaussianMechanism(scale=2.0, l2_sensitivity=1).release(np.zeros(2, int)),
        lambda c: fd.DiscreteGaussianMechanism(scale=2.0, l2_sensitivity=1, dimension=2).release(np.zeros(2, int)),
    ),
    Hint(
        "for example numpy.array([5, 1], numpy.uint64)",
        lambda c: fd.ExponentialMechanism(scale=1.0, sensitivity=1.0).release_from_runs(
            [3.0, 1.0], np.array([5, 1]), max
        ),
        lambda c: fd.ExponentialMechanism(scale=1.0, sensitivity=1.0).release_from_runs(
            [3.0, 1.0], np.array([5, 1], np.uint64), max
        ),
    ),
    Hint(
        "for example [3.0, 1.0], one utility a candidate",
        lambda c: fd.PermuteAndFlip(scale=1.0, sensitivity=1.0).release([]),
        lambda c: fd.PermuteAndFlip(scale=1.0, sensitivity=1.0).release([3.0, 1.0]),
    ),
    Hint(
        "hold one instead",
        lambda c: type("Child", (fd.random.BitGenerator,), {}),
        lambda c: np.random.Generator(fd.random.BitGenerator()),
    ),
    Hint(
        "for example dtype=numpy.float64",
        lambda c: fd.NoiseSource().gaussian(3, standard_deviation=1.0, dtype="float16"),
        lambda c: fd.NoiseSource().gaussian(3, standard_deviation=1.0, dtype=np.float64),
    ),
]
"""Of sums, mechanisms and noise."""


def stored_noise(c: Any) -> tuple[dict[str, Any], Path]:
    """Return how a training whose noise is in a file is started, and that file, after one step."""
    path = fresh("training.noise")
    started = {"ledger": c.ledger, "scope": "hospital/images", "key": str(path), "noise_file": path}
    with correlated_plan(noise=strong()).start((3,), **started) as run:
        next(run).release(denominator=1)
    return started, path


def lost_noise(c: Any) -> object:
    """Go on with a training whose noise is lost."""
    started, path = stored_noise(c)
    path.unlink()
    return correlated_plan(noise=strong()).start((3,), **started)


def counting(file: Path, c: Any, key: str = "pages") -> fd.CounterStream:
    """Start a stream of counters in a file, charged to a ledger."""
    return fd.CounterStream(COUNTER, 1, file=file, ledger=c.ledger, scope="hospital/images", key=key)


def copied_stream(c: Any) -> object:
    """Go on with a copy of a stream whose original went on."""
    file = fresh("counters")
    with counting(file, c) as stream:
        stream.release([1])
    copy = written(file.read_bytes(), "copy")
    with fd.CounterStream.open(file, ledger=c.ledger, scope="hospital/images") as stream:
        stream.release([1])
    return fd.CounterStream.open(copy, ledger=c.ledger, scope="hospital/images").release([2])


def cut_stream(c: Any) -> object:
    """Open a stream whose file was cut."""
    file = fresh("counters")
    with counting(file, c) as stream:
        stream.release([1])
    file.write_bytes(file.read_bytes()[:-8])
    return fd.CounterStream.open(file, ledger=c.ledger, scope="hospital/images")


def answered() -> Any:
    """Return a sparse vector that has given its answers."""
    run = fd.SparseVector(threshold=0.0, sensitivity=1.0, epsilon=19.0)
    while run.remaining:
        run.query(1e6)
    return run


DISCRETE_STEP = {"mechanism": fd.engine.NoiseMechanism.DISCRETE_GAUSSIAN, "sampling_rate": 0.1}
FURTHER = [
    Hint(
        "PrivacyLedger.open(where, create=True), or 'ferrodp ledger create', begins one",
        lambda c: fd.PrivacyLedger.open(fresh("budget.db"), create=False),
        lambda c: fd.PrivacyLedger.open(fresh("budget.db"), create=True),
    ),
    Hint(
        "must be a str of JSON, got dict; strategy.to_json() writes it",
        lambda c: correlated.Strategy.from_json({}),
        lambda c: correlated.Strategy.from_json(STRATEGY.to_json()),
    ),
    Hint(
        "; strategy.to_json() writes it",
        lambda c: correlated.Strategy.from_json("strategy.json"),
        lambda c: correlated.Strategy.from_json(STRATEGY.to_json()),
    ),
    Hint(
        "text must be a strategy: format",
        lambda c: correlated.Strategy.from_json("{}"),
        lambda c: correlated.Strategy.from_json(STRATEGY.to_json()),
    ),
    Hint(
        "must be a str of JSON, got dict; plan.to_json() writes it",
        lambda c: fd.PrivacyPlan.from_json({}),
        lambda c: fd.PrivacyPlan.from_json(planned().to_json()),
    ),
    Hint(
        "text must be a plan: format",
        lambda c: fd.PrivacyPlan.from_json("{}"),
        lambda c: fd.PrivacyPlan.from_json(planned().to_json()),
    ),
    Hint(
        "for example ledger=ledger, scope='app', key='training', noise_file='training.noise'",
        lambda c: federated.FederatedRun(
            correlated_plan(unit="client", population_size=100, noise=strong()),
            {"w": np.zeros(3)},
            checkpoint=federated.RoundCheckpoint(fresh("training.round")),
        ),
        lambda c: (
            rounds(checkpoint=federated.RoundCheckpoint(fresh("training.round"))),
            federated.FederatedRun(
                correlated_plan(unit="client", population_size=100, noise=strong()),
                {"w": np.zeros(3)},
                ledger=c.ledger,
                scope="hospital/images",
                key="rounds",
                checkpoint=federated.RoundCheckpoint(fresh("training.round")),
                noise_file=fresh("training.noise"),
            ),
        ),
    ),
    Hint(
        "draw a second picture",
        lambda c: budget.plot_ledger(c.ledger, scopes=["hospital/images"] * 99),
        lambda c: budget.plot_ledger(c.ledger, scopes=["hospital/images"]),
    ),
    Hint(
        "use fewer bins or columns",
        lambda c: fd.private_marginals(TABLE, 2, bins={"age": np.arange(6e6)}, categories=COLUMNS, **MATRIX),
        lambda c: fd.private_marginals(TABLE, 1, bins={"age": np.arange(5.0)}, **MATRIX),
    ),
    Hint(
        "leave constant columns out",
        lambda c: models.private_moments(np.zeros((3, 2)), bounds=([0, 0], [1, 0]), **MATRIX),
        lambda c: models.private_moments(np.zeros((3, 2))[:, :1], bounds=([0], [1]), **MATRIX),
    ),
    Hint(
        "the noise of these sums is Gaussian; for example delta=1e-6",
        lambda c: models.private_moments(np.zeros((3, 2)), bounds=(0, 1), epsilon=1.0, delta=0),
        lambda c: models.private_moments(np.zeros((3, 2)), bounds=(0, 1), epsilon=1.0, delta=1e-6),
    ),
    Hint(
        "begin a new run, which costs as much again",
        lambda c: answered().query(1.0),
        lambda c: fd.SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0).query(1.0),
    ),
    Hint(
        "no answer stands for one; use REPLACE_ONE",
        lambda c: block(
            lambda: fd.RandomizedResponse(noise_parameter=0.5).release([0]), epsilon=9.0, neighboring_relation=SPECIAL
        ),
        lambda c: block(
            lambda: fd.RandomizedResponse(noise_parameter=0.5).release([0]), epsilon=9.0, neighboring_relation=REPLACE
        ),
    ),
    Hint(
        "which pays for a release with fresh noise; start it with ledger= and scope=",
        lambda c: in_block(lambda: kept(planned(num_steps=1, noise=plan.ConstantNoise(100.0)).start((3,)))),
        lambda c: kept(
            planned(num_steps=1, noise=plan.ConstantNoise(100.0)).start((3,), ledger=c.ledger, scope="hospital/images")
        ),
    ),
    Hint(
        "call it before",
        lambda c: (run := planned().start((3,)), next(run), run.keep_sums(print)),
        lambda c: (run := planned().start((3,)), run.keep_sums(print), next(run)),
    ),
    Hint(
        "begin another training, under another key",
        lost_noise,
        stored_noise,
    ),
    Hint(
        "name a new file",
        lambda c: correlated_plan(noise=strong()).start(
            (3,), ledger=c.ledger, scope="hospital/images", key="t", noise_file=written(b"x", "training.noise")
        ),
        lambda c: correlated_plan(noise=strong()).start(
            (3,), ledger=c.ledger, scope="hospital/images", key="t", noise_file=fresh("training.noise")
        ),
    ),
    Hint(
        "such as ConstantNoise, got CorrelatedNoise",
        lambda c: federated.PlacedRun(
            planned(
                unit="client",
                population_size=100,
                sampling=plan.FullBatch(),
                neighboring_relation=REPLACE,
                noise=strong(),
            ),
            {"w": np.zeros(3)},
            federated.LocalPlacement(),
        ),
        lambda c: federated.PlacedRun(placed(), {"w": np.zeros(3)}, federated.LocalPlacement()),
    ),
    Hint(
        "has no bound for",
        lambda c: fd.engine.DifferentialPrivacyEngine(
            fd.engine.DPConfig(accounting=fd.engine.AccountingMethod.ZCDP, **DISCRETE_STEP)
        ).compute_privacy_spent(fd.engine.DPConfig(accounting=fd.engine.AccountingMethod.ZCDP, **DISCRETE_STEP), 3),
        lambda c: fd.engine.DifferentialPrivacyEngine(
            fd.engine.DPConfig(accounting=fd.engine.AccountingMethod.RENYI, **DISCRETE_STEP)
        ).compute_privacy_spent(fd.engine.DPConfig(accounting=fd.engine.AccountingMethod.RENYI, **DISCRETE_STEP), 3),
    ),
    Hint(
        "one process at a time goes on with it; close that first",
        lambda c: (
            stream := counting(fresh("counters"), c),
            fd.CounterStream.open(stream._file._path, ledger=c.ledger, scope="hospital/images"),
        ),
        lambda c: (
            stream := counting(fresh("counters"), c, key="again"),
            stream.close(),
            fd.CounterStream.open(stream._file._path, ledger=c.ledger, scope="hospital/images"),
        ),
    ),
    Hint(
        "go on with the other file, or begin another stream under another key",
        copied_stream,
        lambda c: counting(fresh("counters"), c, key="another").release([2]),
    ),
    Hint(
        "restore it, or begin anew",
        cut_stream,
        lambda c: counting(fresh("counters"), c, key="another").release([2]),
    ),
    Hint(
        "null rows are rows; use ADD_OR_REMOVE_ONE",
        lambda c: ticketed(c, SPECIAL),
        lambda c: ticketed(c, REMOVE),
    ),
    Hint(
        "messages must be uint64, got int64: give what `release` returned",
        lambda c: SETS.estimate_frequencies(np.ones((3, 1), np.int64)),
        lambda c: SETS.estimate_frequencies(SETS.release([3, 7])),
    ),
]
"""Of several rooms."""


def kept(run: Any) -> object:
    """Release a step of a run that keeps its sums."""
    run.keep_sums(lambda found: None)
    return next(run).release(denominator=1)


def ticketed(c: Any, relation: NeighboringRelation) -> object:
    """Count what a ticket for a Poisson sample pays for."""
    name = f"t-{relation.value}"
    c.ledger.create(name, epsilon=9.0, delta=0, measure="pure", neighboring_relation=relation)
    inner = DiscreteLaplaceEvent(scale=1.0, l1_sensitivity=1)
    ticket = c.ledger.reserve(name, PoissonSampledEvent(sampling_probability=0.1, event=inner))
    return fd.private_count([1.0], epsilon=1.0, neighboring_relation=relation, ticket=ticket)


HINTS = [*DOORS, *ACCOUNTING, *BUDGETS, *STREAMS, *PLANS, *STATISTICS, *SUMS, *FURTHER]
