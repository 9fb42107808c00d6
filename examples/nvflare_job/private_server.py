"""Federated averaging in NVFlare's simulator, private for each site against everybody but the server.

    python private_server.py WORKSPACE FOLDER [ROUNDS]

The server clips what sites send, adds it exactly, and releases one noised mean a round. What has to outlive it is in
FOLDER: the ledger that pays, and a checkpoint of the model, the round and the accountant. Killed and started again, it
goes on. (The simulator empties WORKSPACE when it starts.)
"""

import sys
from pathlib import Path

import numpy as np
from nvflare.app_common.np.np_model_persistor import NPModelPersistor
from nvflare.client.config import ExchangeFormat
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import FrameworkType, ScriptRunner

import ferrodp as fd
from ferrodp.integrations.nvflare import PrivateFedAvg

HERE = Path(__file__).parent
SITES, EPSILON, DELTA = 2, 8.0, 1e-5


def job_of(folder, rounds):
    """Return the job: a private workflow at the server, and the same script as without privacy at the sites."""
    with fd.PrivacyLedger.open(folder / "budget.db") as ledger:
        if "digits" not in ledger.scopes:
            ledger.create("digits", epsilon=1.1 * EPSILON, delta=DELTA, measure="gdp")
    job = FedJob(name="private-digits", min_clients=SITES)
    workflow = PrivateFedAvg(
        num_clients=SITES,
        clip_norm=1.0,
        target_epsilon=EPSILON,
        delta=DELTA,
        rounds=rounds,
        ledger=str(folder / "budget.db"),
        scope="digits",
        key="training-1",
        checkpoint=str(folder / "training.round"),
        csv=str(folder / "rounds.csv"),
    )
    job.to_server(workflow)
    job.to_server(NPModelPersistor(model=np.zeros((65, 10)).tolist()), id="persistor")
    numpy = {"framework": FrameworkType.NUMPY, "server_expected_format": ExchangeFormat.NUMPY}
    job.to_clients(ScriptRunner(script=str(HERE / "client.py"), **numpy))
    return job


def main(workspace, folder, rounds=3):
    """Run the job with its sites, processes on this machine."""
    job_of(Path(folder).absolute(), rounds).simulator_run(workspace, n_clients=SITES)


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:]))
