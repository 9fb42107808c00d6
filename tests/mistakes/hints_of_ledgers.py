"""What refusals of ledgers, blocks and streams of counters offer, and calls that do it; see `hints.py`."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from hinted_objects import STRATEGY, block, fresh, in_block, written
from mistaken_objects import EVENT, GAUSSIAN

import ferrodp as fd
from ferrodp import budget, correlated
from ferrodp.events import GaussianEvent, LaplaceEvent
from support.hints import Hint

PUBLIC = {"epsilon": 1.0, "delta": 1e-6}
COUNTER = fd.Counter(noise_multiplier=1e4, days=9)


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


HINTS = [
    *BUDGETS,
    *STREAMS,
    Hint(
        "PrivacyLedger.open(where, create=True), or 'ferrodp ledger create', begins one",
        lambda c: fd.PrivacyLedger.open(fresh("budget.db"), create=False),
        lambda c: fd.PrivacyLedger.open(fresh("budget.db"), create=True),
    ),
    Hint(
        "draw a second picture",
        lambda c: budget.plot_ledger(c.ledger, scopes=["hospital/images"] * 99),
        lambda c: budget.plot_ledger(c.ledger, scopes=["hospital/images"]),
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
]
