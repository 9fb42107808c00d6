"""A server that is killed goes on with model, round, accountant and ledger as one unit: no round lost, none twice."""

import dataclasses
import hashlib
import os
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.errors import FerroError, InvalidParameter, InvalidType, TicketError
from ferrodp.federated import FederatedRun, RoundCheckpoint, checkpoints
from ferrodp.plan import (
    AdaptiveClipping,
    ConstantNoise,
    CorrelatedNoise,
    FlatClipping,
    FullBatch,
    KeptSum,
    PerGroupClipping,
    PoissonSampling,
    PrivacyPlan,
    RandomAllocation,
    payments,
)
from ferrodp.plan import (
    _kept as kept,
)
from ferrodp.plan.correlated import StepNoise
from ferrodp.tickets import Ticket, TicketState

ROUNDS, WIDTH = 3, 4
DELTA = 1e-5


class Killed(BaseException):
    """What ends a process here, in place of a signal."""


def plan_of(clipping=None, sampling=None, steps=ROUNDS, population=2, **others):
    return PrivacyPlan(
        unit="client",
        population_size=population,
        sampling=sampling or FullBatch(),
        num_steps=steps,
        clipping=clipping or FlatClipping(1.0),
        noise=ConstantNoise(1.0),
        **others,
    )


def key_of(step):
    return hashlib.sha256(f"test {step}".encode()).digest()


class Server:
    """A training that can be killed at any point of interest, and looks at what is drawn."""

    def __init__(self, folder, plan, monkeypatch, *, ledger=True, plan_delta=None, fresh_keys=False):
        self.folder, self.plan, self.plan_delta = Path(folder), plan, plan_delta
        self.drawn = []  # for each release: round, and a digest of the sum and the key
        self.left = None
        self.asked = []
        self.ledger = None
        if ledger:
            self.ledger = fd.PrivacyLedger.open(self.folder / "budget.db")
            measure = "pure" if plan_delta else "rdp"
            if "app" not in self.ledger.scopes:
                self.ledger.create("app", epsilon=1000, delta=0.1, measure=measure)
        self.is_correlated = isinstance(plan.noise, CorrelatedNoise)
        self.keys = set()  # that noise was drawn with; with correlated noise, key and step
        if not fresh_keys:
            monkeypatch.setattr(kept, "_fresh_key", key_of)
        for owner, name in (
            (checkpoints.os, "fsync"),
            (checkpoints.os, "replace"),
            (checkpoints.os, "unlink"),
            (Ticket, "arm"),
            (Ticket, "close"),
        ):
            monkeypatch.setattr(owner, name, self.watched(getattr(owner, name)))
        monkeypatch.setattr(kept._KeptSource, "_key", self.watched(self.noted(kept._KeptSource._key)))
        monkeypatch.setattr(StepNoise, "noised", self.watched(self.noted_step(StepNoise.noised)))

    def point(self):
        """A point at which the process may end."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise Killed

    def noted(self, call):
        def called(source):
            self.keys.add(source._kept)
            return call(source)

        return called

    def noted_step(self, call):
        def called(noise, *args):
            self.keys.add((noise.key, noise.step))
            return call(noise, *args)

        return called

    def watched(self, call):
        def called(*args, **options):
            self.point()
            result = call(*args, **options)
            self.point()
            return result

        return called

    def serve(self, until_point=None):
        """Run to the end, or until the process is killed; return the model, or None."""
        self.left = until_point
        payment = {"ledger": self.ledger, "scope": "app", "key": "t"} if self.ledger else {}
        if self.is_correlated:
            payment["noise_file"] = self.folder / "noise"
        checkpoint = None
        try:
            checkpoint = RoundCheckpoint(self.folder / "training")
            model = checkpoint.arrays or {"w": np.zeros(WIDTH), "b": np.zeros(2)}
            run = FederatedRun(self.plan, model, checkpoint=checkpoint, plan_delta=self.plan_delta, **payment)
            if checkpoint.arrays is None:
                run.save(model)
            for round_ in run:
                if not round_.is_kept:
                    self.asked.append(round_.number)
                    for client in round_.clients:
                        round_.add(self.update(model, client))
                change = round_.release()
                self.drawn.append((round_.number, tuple(change["w"])))
                model = {name: model[name] + change[name] for name in model}
                self.point()
                run.save(model, notes={"round": round_.number})
                self.point()
            return model, run
        except Killed:
            return None
        finally:
            self.left = None
            payments._released.clear()  # a process knows what it released itself
            if checkpoint is not None and checkpoint._handle is not None:
                os.close(checkpoint._handle)  # as the end of the process does
                checkpoint._handle = None

    def update(self, model, client):
        return {"w": np.full(WIDTH, 0.1 * (client + 1)) - 0.2 * model["w"], "b": np.full(2, 0.05)}


CORRELATED = dataclasses.replace(plan_of(), noise=CorrelatedNoise(fd.correlated.SquareRoot(num_steps=ROUNDS), 1.0))
SETTINGS = {
    "a ledger": {},
    "no ledger": {"ledger": False},
    "a plan charged as one": {"plan_delta": 1e-6},
    "keys of the system": {"fresh_keys": True},
    "correlated noise": {"plan": CORRELATED},
    "correlated noise of the system's key": {"plan": CORRELATED, "fresh_keys": True},
    "adaptive clipping": {
        "plan": plan_of(AdaptiveClipping(1.0, target_quantile=0.5, learning_rate=0.3, count_noise_multiplier=4.0))
    },
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_killed_at_every_point_it_ends_with_the_same_bits_and_each_round_charged_once(tmp_path, monkeypatch, setting):
    options = dict(SETTINGS[setting])
    plan = options.pop("plan", None) or plan_of()
    whole = tmp_path / "whole"
    whole.mkdir()
    with monkeypatch.context() as patched:
        server = Server(whole, plan, patched, **options)
        expected, run = server.serve(10**6)
        points = 10**6
        assert run.epsilon(DELTA) == plan.epsilon(DELTA)
    number = 0
    while True:
        folder = tmp_path / f"killed{number}"
        folder.mkdir()
        with monkeypatch.context() as patched:
            server = Server(folder, plan, patched, **options)
            if server.is_correlated and "fresh_keys" not in options:
                shutil.copy(whole / "noise", folder / "noise")
            first = server.serve(number)
            model, run = first if first is not None else server.serve()
        assert len(server.keys) == ROUNDS
        for name in expected if "fresh_keys" not in options else ():
            assert np.array_equal(model[name], expected[name]), (number, name)
        # One release for each round, whatever was repeated; and none left out.
        assert len(set(server.drawn)) == ROUNDS == len({step for step, _ in server.drawn})
        assert run.epsilon(DELTA) == plan.epsilon(DELTA)
        assert [record.round for record in run.records] == list(range(ROUNDS))
        if server.ledger is not None:
            states = [
                ticket.state for ticket in server.ledger.tickets("app") if ticket.state is not TicketState.CANCELLED
            ]
            assert len(states) == ROUNDS + (server.plan_delta is not None)
            assert all(state in (TicketState.SPENT, TicketState.ARMED) for state in states)
            server.ledger.close()
        assert not (folder / "training.sum").exists()
        if first is not None:
            break
        number += 1
    assert 40 < number < points


def test_killed_again_and_again_it_still_ends_with_the_same_bits(tmp_path, monkeypatch):
    """Each process gets a few points further than the one before, or is killed while it goes on."""
    expected, _ = Server(tmp_path, plan_of(), monkeypatch, ledger=False).serve()
    (tmp_path / "again").mkdir()
    server = Server(tmp_path / "again", plan_of(), monkeypatch)
    ended, count = None, 0
    while ended is None:
        ended = server.serve(12 + count % 9)
        count += 1
        assert count < 100
    assert count > 4
    assert np.array_equal(ended[0]["w"], expected["w"])
    assert len(set(server.drawn)) == ROUNDS


def killed_after_the_charge(tmp_path, monkeypatch, **options):
    """Return a server that was killed in its first round, right after its ticket was armed."""
    server = Server(tmp_path, options.pop("plan", None) or plan_of(), monkeypatch, **options)
    arm = Ticket.arm

    def killed(ticket):
        arm(ticket)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Ticket, "arm", killed)
        assert server.serve() is None
    return server


def test_a_sum_that_was_kept_is_released_with_no_client_asked_again(tmp_path, monkeypatch):
    server = killed_after_the_charge(tmp_path, monkeypatch)
    assert (tmp_path / "training.sum").exists()
    _, run = server.serve()

    assert server.asked == [0, 1, 2]
    assert len(server.ledger.tickets("app")) == ROUNDS
    assert run.epsilon(DELTA) == plan_of().epsilon(DELTA)


def test_a_kept_sum_takes_no_more_updates(tmp_path, monkeypatch):
    monkeypatch.setattr(payments, "_released", {})
    with RoundCheckpoint(tmp_path / "training") as checkpoint:
        run = FederatedRun(plan_of(), {"w": np.zeros(3)}, checkpoint=checkpoint)
        run.save({"w": np.zeros(3)})
        round_ = next(run)
        with monkeypatch.context() as patched:
            patched.setattr(kept._KeptSource, "_key", lambda source: 1 / 0)
            round_.add_missing(2)
            with pytest.raises(ZeroDivisionError):
                round_.release()
    payments._released.clear()
    with RoundCheckpoint(tmp_path / "training") as checkpoint:
        run = FederatedRun(plan_of(), {"w": np.zeros(3)}, checkpoint=checkpoint)
        round_ = next(run)
        assert round_.is_kept
        for add in (lambda: round_.add({"w": np.ones(3)}), lambda: round_.add_missing(1)):
            with pytest.raises(FerroError, match="is complete and was kept"):
                add()
        round_.release()


def test_a_sum_of_another_process_is_not_released_under_its_charge(tmp_path, monkeypatch):
    """Two copies of one checkpoint: the charge is of the process that reserved it, and so is what it kept."""
    plan, model = plan_of(), {"w": np.zeros(WIDTH), "b": np.zeros(2)}
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("app", epsilon=1000, delta=0.1, measure="rdp")
        payment = {"ledger": ledger, "scope": "app", "key": "t"}
        opened = RoundCheckpoint(tmp_path / "one")
        first = FederatedRun(plan, model, checkpoint=opened, **payment)
        first.save(model)
        round_ = next(first)
        (tmp_path / "two").write_bytes((tmp_path / "one").read_bytes())

        other = FederatedRun(plan, model, checkpoint=RoundCheckpoint(tmp_path / "two"), **payment)
        again = next(other)  # takes the reservation over
        again.add_missing(2)
        released = again.release()
        round_.add_missing(2)
        with pytest.raises(fd.errors.TicketError):
            round_.release()
        assert (tmp_path / "one.sum").exists()  # and is worth nothing
        opened.close()

        third = FederatedRun(plan, model, checkpoint=RoundCheckpoint(tmp_path / "one"), **payment)
        assert next(third).number == 1
        assert released is not None
        assert len([each for each in ledger.tickets("app") if each.state is not TicketState.CANCELLED]) == 2


def test_an_old_checkpoint_leaves_out_what_was_charged_after_it_and_says_so(tmp_path, monkeypatch):
    server = Server(tmp_path, plan_of(), monkeypatch)
    copies = []
    save = RoundCheckpoint.save

    def copied(checkpoint, *args):
        save(checkpoint, *args)
        copies.append((tmp_path / "training").read_bytes())

    monkeypatch.setattr(RoundCheckpoint, "save", copied)
    server.serve()
    (tmp_path / "training").write_bytes(copies[1])
    drawn = list(server.drawn)
    with pytest.warns(UserWarning, match="2 rounds are paid for and not in the checkpoint"):
        server.serve()
    assert server.drawn == drawn
    assert len(server.ledger.tickets("app")) == ROUNDS


def test_a_kept_sum_beside_an_older_checkpoint_is_refused(tmp_path, monkeypatch):
    server = Server(tmp_path, plan_of(), monkeypatch, ledger=False)
    sums = []
    keep = RoundCheckpoint.keep

    def copied(checkpoint, each):
        keep(checkpoint, each)
        sums.append(((tmp_path / "training").read_bytes(), (tmp_path / "training.sum").read_bytes()))

    monkeypatch.setattr(RoundCheckpoint, "keep", copied)
    server.serve()
    (tmp_path / "training").write_bytes(sums[0][0])
    (tmp_path / "training.sum").write_bytes(sums[1][1])
    with pytest.raises(InvalidParameter, match="put both files of one moment back"):
        RoundCheckpoint(tmp_path / "training")


def test_one_server_at_a_time_and_for_its_owner_alone(tmp_path):
    with RoundCheckpoint(tmp_path / "training") as checkpoint:
        run = FederatedRun(plan_of(), {"w": np.zeros(3)}, checkpoint=checkpoint)
        run.save({"w": np.zeros(3)})
        round_ = next(run)
        round_.add_missing(2)
        round_.release()
        with pytest.raises(FerroError, match="one server at a time"):
            RoundCheckpoint(tmp_path / "training")
        for name in ("training", "training.sum", "training.lock"):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    RoundCheckpoint(tmp_path / "training").close()
    with pytest.raises(FerroError, match="was closed"):
        run.save({"w": np.zeros(3)})


def test_what_is_written_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace", "unlink"):
        plain = getattr(os, name)
        monkeypatch.setattr(checkpoints.os, name, lambda *args, n=name, p=plain: (calls.append(n), p(*args))[1])
    with RoundCheckpoint(tmp_path / "training") as checkpoint:
        calls.clear()
        FederatedRun(plan_of(), {"w": np.zeros(3)}, checkpoint=checkpoint).save({"w": np.zeros(3)})
    assert calls == ["fsync", "replace", "fsync", "unlink"]


def test_rounds_and_saves_alternate(tmp_path, monkeypatch):
    with RoundCheckpoint(tmp_path / "training") as checkpoint:
        run = FederatedRun(plan_of(), {"w": np.zeros(3)}, checkpoint=checkpoint)
        with pytest.raises(FerroError, match="save the model before the next round"):
            next(run)
        run.save({"w": np.zeros(3)})
        round_ = next(run)
        with pytest.raises(FerroError, match="must be released before the model after it"):
            run.save({"w": np.zeros(3)})
        round_.add_missing(2)
        round_.release()
        with pytest.raises(FerroError, match="save the model before the next round"):
            next(run)
        run.save({"w": np.zeros(3)})
        round_ = next(run)
        round_.add_missing(2)
        monkeypatch.setattr(kept._KeptSource, "_key", lambda source: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            round_.release()
        with pytest.raises(FerroError, match="start again, the checkpoint has it"):
            run.save({"w": np.zeros(3)})
        with pytest.raises(FerroError, match="save the model"):
            next(run)
    with pytest.raises(FerroError, match="has no checkpoint"):
        FederatedRun(plan_of(), {"w": np.zeros(3)}).save({"w": np.zeros(3)})


def test_a_disk_that_is_full_costs_nothing(tmp_path, monkeypatch):
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("app", epsilon=1000, delta=0.1, measure="rdp")
        run = FederatedRun(
            plan_of(),
            {"w": np.zeros(3)},
            checkpoint=RoundCheckpoint(tmp_path / "t"),
            ledger=ledger,
            scope="app",
            key="t",
        )
        run.save({"w": np.zeros(3)})
        round_ = next(run)
        round_.add_missing(2)

        def full(*_):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(checkpoints, "_write", full)
            with pytest.raises(OSError, match="No space"):
                round_.release()
        assert [ticket.state for ticket in ledger.tickets("app")] == [TicketState.HELD]
        round_.release()
        run.save({"w": np.zeros(3)})
        assert [ticket.state for ticket in ledger.tickets("app")] == [TicketState.SPENT]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data[:-1], "cut or altered"),
        (lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:], "cut or altered"),
        (lambda data: b"something else", "does not begin like one"),
        (lambda data: b"", "does not begin like one"),
    ],
)
def test_a_file_that_was_not_written_here_is_refused(tmp_path, change, said):
    path = tmp_path / "training"
    with RoundCheckpoint(path) as checkpoint:
        FederatedRun(plan_of(), {"w": np.zeros(3)}, checkpoint=checkpoint).save({"w": np.zeros(3)})
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InvalidParameter, match=said):
        RoundCheckpoint(path)


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    path = tmp_path / "training"
    model = {"w": np.zeros(3)}
    with RoundCheckpoint(path) as checkpoint:
        FederatedRun(plan_of(), model, checkpoint=checkpoint).save(model)
    with RoundCheckpoint(path) as checkpoint, pytest.raises(InvalidParameter, match="is of another plan"):
        FederatedRun(plan_of(steps=ROUNDS + 1), model, checkpoint=checkpoint)
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("app", epsilon=10, delta=0.1, measure="rdp")
        with RoundCheckpoint(path) as checkpoint, pytest.raises(InvalidParameter, match="is of another key"):
            FederatedRun(plan_of(), model, checkpoint=checkpoint, ledger=ledger, scope="app", key="t")
        with RoundCheckpoint(path) as checkpoint, pytest.raises(InvalidParameter, match="key must be given"):
            FederatedRun(plan_of(), model, checkpoint=checkpoint, ledger=ledger, scope="app")
    with pytest.raises(InvalidType, match="checkpoint must be a path"):
        RoundCheckpoint(7)


def test_sums_of_correlated_noise_are_kept_where_a_ledger_lets_one_of_a_step_be_drawn(tmp_path):
    model = {"w": np.zeros(3)}
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("app", epsilon=1000, delta=0.1, measure="gdp")
        whole = {"ledger": ledger, "scope": "app", "key": "t", "noise_file": tmp_path / "noise"}
        for left_out in (("ledger", "scope", "key"), ("key",), ("noise_file",), tuple(whole)):
            options = {name: value for name, value in whole.items() if name not in left_out}
            with (
                RoundCheckpoint(tmp_path / "a") as checkpoint,
                pytest.raises(InvalidParameter, match="needs a ledger, a key and a noise_file with CorrelatedNoise"),
            ):
                FederatedRun(CORRELATED, model, checkpoint=checkpoint, **options)
        assert list(ledger.tickets("app")) == []
        assert not (tmp_path / "noise").exists()
        run = CORRELATED.start(model, **whole)
        with pytest.raises(InvalidParameter, match="its noise is another"):
            run.keep_sums(print, KeptSum(0, None, bytes(32), {"": b""}))
    with pytest.raises(InvalidParameter, match="without CorrelatedNoise unless a ledger pays"):
        CORRELATED.start(model).keep_sums(print)


def test_of_two_copies_of_a_checkpoint_one_draws_the_noise_of_a_step(tmp_path, monkeypatch):
    """The second forms another sum of the first round, under the same noise: the ledger lets one of them be drawn."""
    model = {"w": np.zeros(WIDTH), "b": np.zeros(2)}
    server = Server(tmp_path, CORRELATED, monkeypatch)
    for name in ("one", "two"):
        with RoundCheckpoint(tmp_path / name) as checkpoint:
            options = {"ledger": server.ledger, "scope": "app", "key": "t", "noise_file": tmp_path / "noise"}
            FederatedRun(CORRELATED, model, checkpoint=checkpoint, **options).save(model)
    with RoundCheckpoint(tmp_path / "one") as one, RoundCheckpoint(tmp_path / "two") as two:
        runs = [FederatedRun(CORRELATED, model, checkpoint=each, **options) for each in (one, two)]
        rounds = [next(run) for run in runs]
        for round_, value in zip(rounds, (0.1, -0.1), strict=True):
            for _ in range(2):
                round_.add({"w": np.full(WIDTH, value), "b": np.zeros(2)})
        with pytest.raises(TicketError):
            rounds[0].release()
        assert server.keys == set()
        rounds[1].release()
        assert len(server.keys) == 1


def test_what_no_kept_sum_can_repeat_is_refused(tmp_path):
    seeded = fd.testing.seeded(bytes(32))
    with RoundCheckpoint(tmp_path / "b") as checkpoint, pytest.raises(InvalidParameter, match="seeded source"):
        FederatedRun(plan_of(), {"w": np.zeros(3)}, checkpoint=checkpoint, source=seeded)
    run = plan_of().start(np.zeros(3))
    for wrong in (
        KeptSum(99, None, bytes(32), {"": b""}),
        KeptSum(0, None, bytes(31), {"": b""}),
        KeptSum(0, None, bytes(32), {"other": b""}),
    ):
        with pytest.raises(InvalidParameter, match="kept must be"):
            run.keep_sums(print, wrong)
    step = next(run)
    with pytest.raises(InvalidParameter, match="from the first step on"):
        run.keep_sums(print)
    step.add_missing(2)


def test_a_block_that_pays_for_releases_is_refused_before_anything_is_kept(tmp_path):
    stored = []
    run = plan_of().start(np.zeros(3))
    run.keep_sums(stored.append)
    step = next(run)
    step.add_missing(2)
    with pytest.raises(InvalidParameter, match="must not be in a"), fd.budget(epsilon=10, delta=0.1):
        step.release()
    assert stored == []


def test_groups_and_their_keys_are_kept_each(tmp_path, monkeypatch):
    plan = plan_of(PerGroupClipping({"w": 1.0, "b": 1.0}))
    monkeypatch.setattr(kept, "_fresh_key", key_of)
    results = []
    for _number in range(2):
        stored = []
        run = plan.start({"w": np.zeros(50), "b": np.zeros(50)})
        run.keep_sums(stored.append)
        step = next(run)
        step.add({"w": np.full((2, 50), 0.01), "b": np.full((2, 50), 0.01)})
        results.append(step.release())
        assert set(stored[0].parts) == {"w", "b"}
    other = plan.start({"w": np.zeros(50), "b": np.zeros(50)})
    other.keep_sums(stored.append, stored[0])
    step = next(other)
    assert step.is_kept
    assert step.indices is None
    results.append(step.release())
    for again in results[1:]:
        assert all(np.array_equal(results[0][name], again[name]) for name in again)
    # The groups have equal sums and equal noise multipliers: what differs is their keys.
    assert not np.array_equal(results[0]["w"], results[0]["b"])


def test_of_a_charge_for_several_steps_the_kept_one_is_released_and_the_others_left_out(tmp_path, monkeypatch):
    plan = plan_of(sampling=RandomAllocation(3), steps=6, population=4)
    server = killed_after_the_charge(tmp_path, monkeypatch, plan=plan)
    with pytest.warns(UserWarning, match="2 rounds are paid for and not in the checkpoint"):
        _, run = server.serve()

    assert [step for step, _ in server.drawn] == [0, 3, 4, 5]
    assert len(server.ledger.tickets("app")) == 2
    assert run.epsilon(DELTA) == plan.epsilon(DELTA)


def test_poisson_samples_are_drawn_once_a_round(tmp_path, monkeypatch):
    plan = plan_of(sampling=PoissonSampling(0.5), population=20)
    server = killed_after_the_charge(tmp_path, monkeypatch, plan=plan)
    server.serve()
    assert server.asked == [0, 1, 2]
    assert [step for step, _ in server.drawn] == [0, 1, 2]
