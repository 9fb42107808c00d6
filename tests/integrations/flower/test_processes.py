"""Apps on a real SuperLink and SuperNodes, processes on loopback, started by `flwr run`."""

import csv
import math
import os
import re

import numpy as np
import pytest
from federation import Federation, copied

import ferrodp as fd

NODES = int(os.environ.get("FERRODP_SUPERNODES", "4"))
LOST = {4: {0: "train"}, 20: dict.fromkeys(range(4), "train") | dict.fromkeys((4, 5), "killed")}
WIDTH = 2000
# A client moves each coordinate by one. Some fail in the round that is summed; some lose their SuperNode in it.
CLIENT = """
import os, signal
import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from pathlib import Path
from ferrodp.integrations.flower import secure_share_mod

app = ClientApp(mods=[secaggplus_mod, secure_share_mod])

@app.train()
def train(message: Message, context: Context) -> Message:
    what = {lost!r}.get(int(context.node_config["partition-id"]))
    if what == "train":
        raise RuntimeError("lost")
    if what == "killed":
        node = Path({folder!r}) / f"node{{context.node_config['partition-id']}}.pid"
        os.kill(int(node.read_text()), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    moved = {{name: Array(array.numpy() + np.float32(1.0)) for name, array in message.content["arrays"].items()}}
    told = MetricRecord({{"num-examples": 1}})
    return Message(RecordDict({{"arrays": ArrayRecord(moved), "metrics": told}}), reply_to=message)
"""
SERVER = """
import time
import numpy as np
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.flower import SecureAggregation
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan

app = ServerApp()

@app.main()
def main(grid: Grid, context: Context) -> None:
    plan = PrivacyPlan(
        unit="client", population_size={nodes}, sampling=FullBatch(), num_steps=1, clipping=FlatClipping(1.0),
        noise=ConstantNoise(2.0), neighboring_relation=NeighboringRelation.REPLACE_SPECIAL,
    )
    rounds = SecureAggregation(plan, min_clients={least}, timeout={timeout})
    begun = time.monotonic()
    result = rounds.start(grid, ArrayRecord({{"w": Array(np.zeros({width}, np.float32))}}))
    np.save({folder!r} + "/model.npy", result.arrays["w"].numpy())
    print(f"{{len(rounds.records)}} rounds, shares {{rounds._run.event.events[0].num_shares}}, "
          f"epsilon {{rounds.epsilon:.4f}}, seconds {{time.monotonic() - begun:.1f}}", flush=True)
"""


@pytest.fixture
def federation(tmp_path):
    made = Federation(tmp_path)
    yield made
    made.close()


def test_three_private_rounds_run_under_flwr_run(federation, tmp_path):
    ledger, log = tmp_path / "budget.db", tmp_path / "rounds.csv"

    code, told = federation.run(copied(tmp_path), f'ledger="{ledger}"', f'log="{log}"')

    assert code == 0
    assert told.count("at delta 1e-05") >= 3, told[-4000:]
    with log.open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["round"] for row in rows] == ["0", "1", "2"]
    assert 0 < float(rows[0]["epsilon"]) < float(rows[2]["epsilon"]) <= 8.0
    with fd.PrivacyLedger.open(ledger) as opened:
        assert [ticket.state.value for ticket in opened.tickets("digits")] == ["spent"] * 3
    assert federation.statuses() == ["finished:completed"]
    assert list(federation.codes().values()) == [0]


def test_the_end_of_a_budget_is_said_once_and_where_failing_was_wanted_the_run_fails(federation, tmp_path):
    """As documented: the code of Flower is in the log, a status in the list; processes end with 1 and 0."""
    app = copied(tmp_path)
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("digits", epsilon=6.5, delta=1e-5, measure="gdp")

    code, told = federation.run(app, f'ledger="{tmp_path}/budget.db"', 'on-exhausted="fail"')

    assert told.count("ask no client and leave the model as it is: the ledger's budget is spent") == 1
    assert "PrivacyBudgetExhausted: the ledger's budget is spent; epsilon is 6.27644 at delta 1e-05" in told
    assert "Exit Code: 200" in told
    assert federation.statuses() == ["finished:failed"]
    assert list(federation.codes().values()) == [1]
    assert code == 0
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        states = [ticket.state.value for ticket in ledger.tickets("digits")]
    assert [state for state in states if state != "cancelled"] == ["spent"] * 2


def test_secure_sums_come_through_supernodes_of_which_some_are_lost(tmp_path):
    """`FERRODP_SUPERNODES=20`: twenty, of which four fail and two are killed. False alarm 1e-6: 5 standard errors."""
    lost = LOST[NODES]
    finished, least = NODES - len(lost), max(3, 3 * NODES // 5)
    app = copied(tmp_path)
    values = {
        "folder": str(tmp_path),
        "lost": lost,
        "nodes": NODES,
        "least": least,
        "width": WIDTH,
        "timeout": 20 * NODES,
    }
    (app / "digitsapp" / "client.py").write_text(CLIENT.format(**values))
    (app / "digitsapp" / "server.py").write_text(SERVER.format(**values))
    made = Federation(tmp_path, nodes=NODES)
    try:
        _, told = made.run(app, seconds=75 * NODES)
        assert made.statuses() == ["finished:completed"], told[-4000:]
    finally:
        made.close()
    found = re.search(r"1 rounds, shares (\d+), epsilon ([\d.]+), seconds ([\d.]+)", told)
    assert found, told[-4000:]
    print(found.group())
    assert int(found.group(1)) == least
    moved = np.load(tmp_path / "model.npy").astype(float) * NODES
    deviation = 2.0 * math.sqrt(finished / least)  # of the shares of those who finished
    assert abs(moved.mean() - finished / math.sqrt(WIDTH)) < 5 * deviation / math.sqrt(WIDTH)
    assert abs(moved.std() / deviation - 1) < 5 / math.sqrt(2 * WIDTH)
