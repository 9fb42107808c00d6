"""The demo paid from a ledger: killed at any moment it goes on, and never costs more than the budget."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ferrodp import PrivacyLedger, demo
from ferrodp.accounting import GaussianEvent, NeighboringRelation
from ferrodp.budget import _crash_points
from ferrodp.demo.checkpoint import Checkpoint
from ferrodp.demo.paid import CHECKPOINT, PaidTraining
from ferrodp.errors import BudgetExceeded, InvalidParameter, TicketError
from ferrodp.files import FileRefused

SETTINGS = demo.Settings(epsilon=3.0)
ALLOWED = 5
"""So many rounds of noise 3.3 fit into ε = 3 at δ = 1e-5: `demo.allowed_rounds` says so, tested beside it."""
OWN_POINTS = ("after the release", "before saving", "after saving")


def little_data() -> demo.Digits:
    """Return three clients with a few random images each: training is fast, and its result does not matter here."""
    rng = np.random.default_rng(3)
    labels = np.eye(10, dtype=np.float32)
    of = [demo.Client(rng.standard_normal((4, 64), np.float32), labels[rng.integers(10, size=4)]) for _ in range(4)]
    return demo.Digits(tuple(of[:3]), of[3])


def train(folder: Path, *, scope: str = "demo", **changed: Any) -> tuple[PaidTraining, demo.Training]:
    """Do what the command does: open, make the scope if need be, train from the checkpoint."""
    checkpoint = Checkpoint.load(folder / CHECKPOINT)
    with PrivacyLedger.open(folder / "budget.db", witness=None if checkpoint is None else checkpoint.head) as ledger:
        if scope not in ledger.scopes:
            ledger.create(scope, epsilon=3.0, delta=1e-5, measure="gdp")
        settings = demo.Settings(**{"epsilon": 3.0, **changed})
        paid = PaidTraining(ledger, scope, settings, data_seed=0, folder=folder, checkpoint=checkpoint)
        return paid, paid.train(little_data())


def train_until(folder: Path, point: str, times: int) -> None:
    """Train, and die by SIGKILL when a point is reached for the given time. Runs in a forked child."""
    import signal

    from ferrodp.demo import paid as _paid

    seen = 0

    def reached(name: str) -> None:
        nonlocal seen
        seen += name == point
        if name == point and seen == times:
            os.kill(os.getpid(), signal.SIGKILL)

    _crash_points.observer = reached
    save, clipped_sum = Checkpoint.save, _paid.clipped_sum

    def saving(self: Checkpoint, path: Path, before: Checkpoint | None) -> None:
        reached("before saving")
        save(self, path, before)
        reached("after saving")

    class Watched:
        def __init__(self, *args: Any) -> None:
            self._sum = clipped_sum(*args)

        def release(self, **options: Any) -> Any:
            noised = self._sum.release(**options)
            log = os.open(folder / "releases", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
            os.write(log, b"r")
            os.close(log)
            reached("after the release")
            return noised

    Checkpoint.save, _paid.clipped_sum = saving, Watched  # type: ignore[method-assign, assignment]
    train(folder)


def killed_everywhere(root: str) -> None:
    """Kill a training at every point, the first to the last time it is reached, and let another process end it.

    The main program of a process of its own, which imports everything once and forks.
    """
    (Path(root) / "warm").mkdir()
    train(Path(root) / "warm")  # prices are computed once, not in each child
    results = []
    for point in (*_crash_points.POINTS, *OWN_POINTS):
        for times in (1, 2, 5):
            folder = Path(root) / f"{point}-{times}".replace(" ", "-")
            folder.mkdir()
            codes, before = [], None
            for attempt in (point, "never"):
                child = os.fork()
                if not child:
                    train_until(folder, attempt, times)
                    os._exit(0)
                codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                before = before if codes[1:] else Checkpoint.load(folder / CHECKPOINT)
            last, _ = train(folder)  # does nothing but tell
            after, lost = Checkpoint.load(folder / CHECKPOINT), last.lost
            assert after is not None
            with PrivacyLedger.open(folder / "budget.db", witness=after.head) as ledger:
                report = ledger.report("demo")
                room = ledger.remaining_count("demo", GaussianEvent(noise_multiplier=3.3))
            kept = before is None or after.rounds[: len(before.rounds)] == before.rounds
            releases = (folder / "releases").stat().st_size
            results.append(
                {
                    "point": point,
                    "codes": codes,
                    "rounds": len(after.rounds),
                    "charges": report.held + report.armed + report.spent,
                    "lost": lost,
                    "epsilon": report.epsilon_charged,
                    "room": room,
                    "kept": kept,
                    "releases": releases,
                }
            )
    print(json.dumps(results))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_killed_at_any_point_it_goes_on_and_never_exceeds_the_budget(tmp_path: Path) -> None:
    root, here = os.path.dirname(os.path.dirname(demo.__file__)), os.path.dirname(__file__)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.path.dirname(root), here]), "OMP_NUM_THREADS": "1"}
    code = f"import test_demo_ledger; test_demo_ledger.killed_everywhere({str(tmp_path)!r})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    assert found.returncode == 0, found.stderr

    results = json.loads(found.stdout)
    assert len(results) == 3 * (len(_crash_points.POINTS) + len(OWN_POINTS))
    for result in results:
        killed = result["codes"][0] == -9
        assert result["codes"] == [-9 if killed else 0, 0], result
        assert (result["charges"], result["room"]) == (ALLOWED, 0), result  # used up, and not by one charge too many
        assert result["epsilon"] <= 3.0
        assert result["releases"] <= result["charges"]
        assert result["kept"], result
        assert result["rounds"] == ALLOWED - result["lost"], result
        always = {"after arming": 1, "after the release": 1, "before arming": 0, "after saving": 0}
        assert result["lost"] in ((0, 1) if result["point"] not in always else (always[result["point"]] * killed,))
    fatal = {result["point"] for result in results if result["codes"][0] == -9}
    assert fatal >= {"before the commit", "after the commit", "before arming", "after arming", *OWN_POINTS}
    assert any(result["lost"] for result in results)


def test_a_training_that_ended_is_told_again_and_charges_nothing(tmp_path: Path) -> None:
    first, done = train(tmp_path)
    again, same = train(tmp_path)

    assert (len(done.rounds), first.resumed, again.resumed) == (ALLOWED, 0, ALLOWED)
    assert same.rounds == done.rounds
    for name, array in done.model.items():
        np.testing.assert_array_equal(same.model[name], array)
    assert done.next_epsilon > 3.0 >= done.rounds[-1].epsilon
    assert "does not fit into scope 'demo'" in str(same.refusal)
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        assert ledger.epsilon_charged("demo") == done.rounds[-1].epsilon
        assert ledger.report("demo").spent == ALLOWED


def test_more_rounds_continue_the_same_training(tmp_path: Path) -> None:
    _, some = train(tmp_path, rounds=2)
    _, more = train(tmp_path, rounds=4)

    assert (len(some.rounds), len(more.rounds), more.refusal) == (2, 4, None)
    assert more.rounds[:2] == some.rounds


def test_what_others_charged_counts(tmp_path: Path) -> None:
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("demo", epsilon=3.0, delta=1e-5, measure="gdp")
        for _ in range(3):
            ledger.spend("demo", GaussianEvent(noise_multiplier=3.3))
    _, training = train(tmp_path)

    assert len(training.rounds) == ALLOWED - 3


def test_a_budget_that_is_used_up_draws_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("demo", epsilon=3.0, delta=1e-5, measure="gdp")
        ledger.spend("demo", GaussianEvent(noise_multiplier=1.5))
        head = ledger.head
    monkeypatch.setattr("ferrodp.demo.paid.clipped_sum", None)

    with pytest.raises(BudgetExceeded, match=r"no room for a round: epsilon 2\.\d+ of 3 .* a round would make it 3\.0"):
        train(tmp_path)
    assert not (tmp_path / CHECKPOINT).exists()
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        assert ledger.head == head
        ledger.freeze("demo", reason="incident")
    with pytest.raises(BudgetExceeded, match="it is frozen"):
        train(tmp_path)


def test_replaced_clients_cost_as_if_the_noise_were_half(tmp_path: Path) -> None:
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        relation = NeighboringRelation.REPLACE_ONE
        ledger.create("demo", epsilon=6.0, delta=1e-5, measure="gdp", neighboring_relation=relation)
        expected = ledger.remaining_count("demo", GaussianEvent(noise_multiplier=3.3 / 2))
    _, training = train(tmp_path)

    assert len(training.rounds) == expected < demo.allowed_rounds(demo.Settings(epsilon=6.0))


def test_another_training_is_not_continued(tmp_path: Path) -> None:
    train(tmp_path, rounds=1)

    for changed in ({"noise_multiplier": 4.0}, {"clip_norm": 1.0}):
        with pytest.raises(InvalidParameter, match="holds a training with --"):
            train(tmp_path, **changed)
    with pytest.raises(InvalidParameter, match="in scope 'demo', not 'other'"):
        train(tmp_path, scope="other")


@pytest.mark.parametrize(
    ("point", "error", "rule"),
    [
        ("before arming", TicketError, r"is (armed|spent); its cost is spent"),
        ("after arming", FileRefused, "was changed by another process, which continues this training"),
    ],
)
def test_of_two_processes_that_continue_one_training_one_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, error: type[Exception], rule: str
) -> None:
    train(tmp_path, rounds=1)

    def other_first(name: str) -> None:
        if name == point:
            monkeypatch.setattr(_crash_points, "observer", lambda _: None)
            train(tmp_path, rounds=3)

    monkeypatch.setattr(_crash_points, "observer", other_first)
    with pytest.raises(error, match=rule):
        train(tmp_path, rounds=3)
    after, done = train(tmp_path, rounds=3)
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        assert ledger.report("demo").epsilon_charged <= 3.0
        assert ledger.remaining_count("demo", GaussianEvent(noise_multiplier=3.3)) == ALLOWED - 3 - after.lost
    assert (len(done.rounds), after.lost) == (3, int(point == "after arming"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda plain: {},
        lambda plain: [],
        lambda plain: plain | {"version": 2},
        lambda plain: plain | {"charges": 0},
        lambda plain: plain | {"charges": True},
        lambda plain: plain | {"run": ""},
        lambda plain: plain | {"rounds": [[1.0]]},
        lambda plain: plain | {"model": {"weights": plain["model"]["weights"]}},
        lambda plain: plain | {"model": plain["model"] | {"bias": [0.0]}},
        lambda plain: plain | {"velocity": plain["velocity"] | {"bias": ["x"] * 10}},
        lambda plain: plain | {"velocity": plain["velocity"] | {"bias": [1e400] * 10}},
    ],
)
def test_a_checkpoint_that_is_none_is_refused(tmp_path: Path, damage: Any) -> None:
    train(tmp_path, rounds=1)
    path = tmp_path / CHECKPOINT
    path.write_text(json.dumps(damage(json.loads(path.read_text()))))

    with pytest.raises(FileRefused, match="is not a checkpoint of this version"):
        train(tmp_path)
    for text in ("", "{", "\x00", "[" * 100_000):
        path.write_text(text)
        with pytest.raises(FileRefused, match="is not a checkpoint of this version"):
            Checkpoint.load(path)


def test_a_checkpoint_keeps_every_bit(tmp_path: Path) -> None:
    train(tmp_path, rounds=2)
    first = Checkpoint.load(tmp_path / CHECKPOINT)
    assert first is not None
    first.save(tmp_path / "again", None)
    second = Checkpoint.load(tmp_path / "again")

    assert second is not None
    assert (tmp_path / "again").read_bytes() == (tmp_path / CHECKPOINT).read_bytes()
    for name in ("model", "velocity"):
        for part, array in getattr(first, name).items():
            assert array.dtype == np.float32
            np.testing.assert_array_equal(getattr(second, name)[part], array)
