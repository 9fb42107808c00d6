"""Flower's own SecAgg+, with real client apps: integers come through it as they are, and clients draw the noise."""

import copy
import logging
import math

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp

import ferrodp as fd
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.federated import SecureSum
from ferrodp.integrations.flower import SecureAggregation, secure_share_mod
from ferrodp.integrations.flower.secure import _to_floats, _to_residues
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan

CLIENTS, LEAST, WIDTH = 20, 12, 2000
DELTA = 1e-5
SETUP, SHARE, COLLECT, UNMASK = "setup", "share_keys", "collect_masked_vectors", "unmask"


def plan_of(steps=1, noise=2.0, clients=CLIENTS, **others):
    parts = {"unit": "client", "population_size": clients, "sampling": FullBatch(), "num_steps": steps,
             "clipping": FlatClipping(1.0), "noise": ConstantNoise(noise),
             "neighboring_relation": NeighboringRelation.REPLACE_SPECIAL}  # fmt: skip
    return PrivacyPlan(**(parts | others))


def app_of(change, dropped=False):
    """An app as without privacy: it moves the model by `change`, or fails."""
    app = ClientApp(mods=[secaggplus_mod, secure_share_mod])

    @app.train()
    def train(message, context):
        if dropped:
            raise RuntimeError("lost")
        arrays = message.content["arrays"]
        moved = {name: Array(np.asarray(array.numpy() + np.float32(change))) for name, array in arrays.items()}
        told = MetricRecord({"num-examples": 10**6, "loss": 0.123456})
        return Message(RecordDict({"arrays": ArrayRecord(moved), "metrics": told}), reply_to=message)

    return app


class Watched:
    """A grid that keeps what it carries, and loses what some nodes send at some stages."""

    def __init__(self, grid, lost=()):
        self.grid, self.lost = grid, dict(lost)
        self.carried = []

    def get_node_ids(self):
        return self.grid.get_node_ids()

    def send_and_receive(self, messages, timeout=None):
        messages = list(messages)
        stage = messages[0].content.config_records["secaggplus_configs"]["stage"] if messages else ""
        for message in messages:
            message.content = copy.deepcopy(message.content)  # each is a message of its own on a network
        replies = self.grid.send_and_receive(messages, timeout=timeout)
        out = []
        for reply in replies:
            if self.lost.get(reply.metadata.src_node_id) == stage:
                reply = Message(Error(0, "lost"), reply_to=reply)
            self.carried.append((stage, reply))
            out.append(reply)
        return out


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("flwr").setLevel(logging.CRITICAL)


def test_residues_come_through_floats_as_they_are():
    """All corners of the range, and the least favorable number of clients."""
    chance = np.random.default_rng(0)
    for clients in (1, 2, 3, 20, 101, 2**15 - 1, 2**15):
        corners = np.array([0, 1, 2**30 - 1, 2**30, 2**30 + 1, 2**31 - 2, 2**31 - 1], np.uint32)
        residues = np.concatenate([corners, chance.integers(0, 2**31, 500, dtype=np.uint32)])
        # As the server sees it: a sum modulo 2^32, less the middles, over the sum of the weights.
        sums = (residues.astype(object) * clients) % 2**32
        mean = (np.array(sums, float) + -(2.0**30) + -(clients - 1) * 2.0**30) * (2**31 / np.int64(clients))
        expected = [int(each) % 2**31 for each in sums]
        assert _to_residues(mean, clients).tolist() == expected
    floats = _to_floats(residues)
    assert ((floats * 2.0**-31) + 2.0**30).astype(np.int64).tolist() == residues.tolist()


def test_a_sum_of_31_bits_is_that_of_integers():
    chance = np.random.default_rng(1)
    secure = SecureSum((50,), clip_norm=1.0, noise_multiplier=1.0, min_clients=8, max_clients=10, modulus="uint31")
    wide = SecureSum((50,), clip_norm=1.0, noise_multiplier=1.0, min_clients=8, max_clients=10)
    assert secure.granularity >= wide.granularity
    assert secure.event.num_shares == 8
    integers = chance.integers(-(2**25), 2**25, (10, 50))
    total = secure.zero()
    for each in integers:
        message = secure._modulus.reduced(each)
        assert message.max() < 2**31
        secure.add(total, message)
    assert secure._modulus.centered(total).tolist() == integers.sum(axis=0).tolist()
    again = SecureSum.from_json(secure.to_json())
    assert again.modulus == "uint31"
    assert again.granularity == secure.granularity


def test_twenty_clients_of_which_six_are_lost_release_the_noised_sum_of_the_others(grid, model):
    """Lost in each of the protocol's stages. False alarm 1e-6: 5 standard errors."""
    apps = {node: app_of(1.0, dropped=node in (1, 2)) for node in range(1, CLIENTS + 1)}
    lost = {3: SETUP, 4: SHARE, 5: COLLECT, 6: COLLECT, 7: UNMASK}
    rounds = SecureAggregation(plan_of(), min_clients=LEAST)
    watched = Watched(grid(apps), lost)
    result = rounds.start(watched, model(w=np.full(WIDTH, 3.0, np.float32), b=np.float32(1.0)))

    moved = (result.arrays["w"].numpy().astype(float) - 3.0) * CLIENTS
    finished = 14
    deviation = 2.0 * math.sqrt(finished / LEAST)  # of the shares of those who finished
    assert abs(moved.mean() - finished / math.sqrt(WIDTH + 1)) < 5 * deviation / math.sqrt(WIDTH)
    assert abs(moved.std() / deviation - 1) < 5 / math.sqrt(2 * WIDTH)
    assert result.arrays["b"].numpy().dtype == np.float32
    event = rounds._run.event.events[0]
    assert event.num_shares == LEAST  # what finished beyond it is not counted
    counted = fd.accounting.PldAccountant(neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)
    counted.compose(event)
    assert rounds.epsilon == counted.epsilon(DELTA)
    assert result.train_metrics_clientapp[1]["epsilon"] == rounds.epsilon


def test_without_noise_the_protocol_shows_the_sum_of_the_clipped_integers_exactly(grid, model, monkeypatch):
    """Shares of zeros in place of noise: what is left is the arithmetic of the whole protocol, Flower's included."""
    encode = SecureSum.encode
    messages = []

    def noted(secure, update, *, source=None):
        messages.append(encode(secure, update, source=source))
        return messages[-1]

    monkeypatch.setattr(SecureSum, "encode", noted)
    apps = {node: app_of(0.001 * node) for node in range(1, 8)}
    rounds = SecureAggregation(plan_of(clients=7), min_clients=5)
    result = rounds.start(Watched(grid(apps), {2: UNMASK}), model(w=np.zeros(WIDTH)))

    secure = rounds._placement._mechanism(plan_of(clients=7), 0, {"w": np.zeros(WIDTH)}, bytes(32))
    total = secure.zero()
    for message in messages:
        secure.add(total, message)
    assert len(messages) == 7
    expected = secure.decode(total, num_clients=7, denominator=7).value["w"]
    assert result.arrays["w"].numpy().tolist() == expected.tolist()


def test_what_the_server_sees_of_a_client_is_masked_and_has_none_of_its_metrics(grid, model):
    apps = {node: app_of(0.0) for node in range(1, 9)}
    watched = Watched(grid(apps))
    SecureAggregation(plan_of(clients=8), min_clients=6).start(watched, model(w=np.zeros(4000)))

    vectors = [reply for stage, reply in watched.carried if stage == COLLECT]
    assert len(vectors) == 8
    for reply in vectors:
        assert "0.123456" not in repr(reply.content)
        assert all(not record for record in reply.content.array_records.values())
        assert reply.content.metric_records["fitres.num_examples"]["num_examples"] == 1


@pytest.mark.parametrize("lost", [dict.fromkeys(range(1, 10), COLLECT), dict.fromkeys(range(1, 16), COLLECT)])
def test_a_round_with_too_few_clients_releases_nothing_and_stays_charged(grid, model, tmp_path, lost):
    apps = {node: app_of(1.0) for node in range(1, CLIENTS + 1)}
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("app", epsilon=100, delta=1e-3, measure="rdp", neighboring_relation="replace_special")
        rounds = SecureAggregation(
            plan_of(), min_clients=LEAST, reconstruction_threshold=0.3, ledger=ledger, scope="app", key="t"
        )
        result = rounds.start(Watched(grid(apps), lost), model(w=np.zeros(5)))
        assert [ticket.state.value for ticket in ledger.tickets("app")] == ["spent"]
    assert not result.arrays["w"].numpy().any()
    assert rounds.records == ()
    assert rounds.epsilon > 0


def test_the_round_is_paid_for_before_a_client_is_asked(grid, model, tmp_path):
    states = []
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("app", epsilon=100, delta=1e-3, measure="rdp", neighboring_relation="replace_special")
        watched = Watched(grid({node: app_of(1.0) for node in range(1, 5)}))
        send = watched.send_and_receive

        def noted(messages, timeout=None):
            states.append([ticket.state.value for ticket in ledger.tickets("app")])
            return send(messages, timeout)

        watched.send_and_receive = noted
        SecureAggregation(plan_of(clients=4), min_clients=3, ledger=ledger, scope="app").start(
            watched, model(w=np.zeros(5))
        )
    assert states == [["held"], ["held"], ["armed"], ["armed"]]  # keys are shared before, and say nothing of data


def test_where_too_few_share_keys_the_run_ends_and_nothing_is_charged(grid, model, tmp_path):
    apps = {node: app_of(1.0) for node in range(1, CLIENTS + 1)}
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("app", epsilon=100, delta=1e-3, measure="rdp", neighboring_relation="replace_special")
        rounds = SecureAggregation(plan_of(3), min_clients=LEAST, ledger=ledger, scope="app", key="t")
        rounds.start(Watched(grid(apps), dict.fromkeys(range(1, 15), SHARE)), model(w=np.zeros(5)))
        assert [ticket.state.value for ticket in ledger.tickets("app")] == ["cancelled"]
    assert rounds.epsilon == 0.0


def test_rounds_go_on_from_the_model_and_are_logged(grid, model, tmp_path):
    seen = []
    rounds = SecureAggregation(plan_of(3, clients=5, noise=1e-3), min_clients=4, log=tmp_path / "rounds.csv")
    apps = {node: app_of(0.01) for node in range(1, 6)}
    rounds.start(
        Watched(grid(apps)), model(w=np.zeros(5)), lambda number, arrays: seen.append((number, arrays["w"].numpy()[0]))
    )
    assert [number for number, _ in seen] == [0, 1, 2, 3]
    assert np.allclose([value for _, value in seen], [0.0, 0.01, 0.02, 0.03], atol=2e-3)
    assert len((tmp_path / "rounds.csv").read_text().splitlines()) == 4
    assert rounds.epsilon == rounds.records[-1].epsilon


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: SecureAggregation(plan_of(clients=2**15 + 1), min_clients=3), "population_size of at most 32768"),
        (
            lambda: SecureAggregation(plan_of(), min_clients=3, num_shares="all"),
            "num_shares and reconstruction_threshold",
        ),
        (lambda: SecureAggregation(plan_of(), min_clients=0), "min_clients"),
    ],
)
def test_what_does_not_fit_is_refused(call, said):
    with pytest.raises(InvalidParameter, match=said):
        call()


def test_more_clients_than_the_plan_knows_are_refused_before_anything_is_charged(grid, model):
    rounds = SecureAggregation(plan_of(clients=4), min_clients=3)
    with pytest.raises(InvalidParameter, match="population_size of at least 6"):
        rounds.start(grid({node: app_of(1.0) for node in range(1, 7)}), model(w=np.zeros(5)))
    assert rounds.epsilon == 0.0


def test_a_server_without_shares_gets_no_update(grid, model):
    """Flower's own workflow alone: the modifier refuses, so nothing leaves without noise."""
    made = grid({node: app_of(1.0) for node in range(1, 5)})
    rounds = SecureAggregation(plan_of(clients=4), min_clients=3)
    from ferrodp.integrations.flower import secure

    plain = secure._Protocol(rounds._workflow, Watched(made), {"w": np.zeros(5)}, "", 1)
    plain._config = {}
    assert plain.agree([1, 2, 3, 4], 3)
    assert plain.sum() is None
    assert any("needs a server that runs SecureAggregation" in str(error.__cause__ or error) for error in made.failures)


class Killed(BaseException):
    pass


def checkpointed(folder, ledger, **options):
    return SecureAggregation(
        plan_of(3, clients=5, noise=1e-3), min_clients=4, ledger=ledger, scope="app", key="t",
        checkpoint=folder / "training", **options,
    )  # fmt: skip


# Where the server ends in its second round, how many rounds the model then has in all, and how many are charged.
KILLS = {"keys are agreed": ("agree", 3), "asked": ("sum", 2), "released": ("_save", 2), "saved": ("_report", 3)}


@pytest.mark.parametrize("moment", KILLS)
def test_a_server_that_is_killed_goes_on_with_its_model_and_no_round_is_charged_twice(
    grid, model, tmp_path, monkeypatch, moment
):
    """A round that was begun and not saved is lost, and stays charged: what its clients sent is gone."""
    from ferrodp.integrations.flower import secure

    name, rounds_in_model = KILLS[moment]
    owner = secure._Protocol if hasattr(secure._Protocol, name) else SecureAggregation
    call, count = getattr(owner, name), [0]

    def killed(*args, **options):
        count[0] += 1
        if count[0] == 2 and moment != "keys are agreed":
            raise Killed
        result = call(*args, **options)
        if count[0] == 2:
            raise Killed
        return result

    apps = {node: app_of(0.01) for node in range(1, 6)}
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("app", epsilon=1e9, delta=1e-3, measure="rdp", neighboring_relation="replace_special")
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, killed)
            with pytest.raises(Killed):
                checkpointed(tmp_path, ledger).start(Watched(grid(apps)), model(w=np.zeros(5)))
        again = checkpointed(tmp_path, ledger)
        seen = []
        result = again.start(Watched(grid(apps)), model(w=np.ones(5)), lambda number, arrays: seen.append(number))
        assert seen == ([1, 2, 3] if moment == "keys are agreed" else [2, 3] if moment == "saved" else [1, 3])
        states = [ticket.state.value for ticket in ledger.tickets("app")]
    assert np.allclose(result.arrays["w"].numpy(), 0.01 * rounds_in_model, atol=3e-3)
    assert [state for state in states if state != "cancelled"] == ["spent"] * 3
    counted = fd.accounting.PldAccountant(neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)
    counted.compose(again._run.event.events[0], count=3)
    assert again.epsilon == counted.epsilon(DELTA)  # also of rounds before the kill


def test_a_checkpoint_of_secure_sums_needs_a_ledger_and_its_own_training(grid, model, tmp_path):
    with pytest.raises(InvalidParameter, match="ledger and key must be given with a checkpoint"):
        SecureAggregation(plan_of(clients=5), min_clients=4, checkpoint=tmp_path / "training")
    apps = {node: app_of(0.01) for node in range(1, 6)}
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("app", epsilon=1e9, delta=1e-3, measure="rdp", neighboring_relation="replace_special")
        checkpointed(tmp_path, ledger).start(Watched(grid(apps)), model(w=np.zeros(5)))
        other = SecureAggregation(
            plan_of(2, clients=5), min_clients=4, ledger=ledger, scope="app", key="t", checkpoint=tmp_path / "training"
        )
        with pytest.raises(InvalidParameter, match="of another plan"):
            other.start(Watched(grid(apps)), model(w=np.zeros(5)))
