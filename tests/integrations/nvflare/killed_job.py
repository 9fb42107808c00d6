"""The example job with a private server, for tests that kill it. Keys of noise follow from the round: not private.

    python killed_job.py WORKSPACE FOLDER ROUNDS [MOMENT COUNT]

With a moment, the process of the server ends itself by SIGKILL when that is reached for the COUNT-th time.
"""

import os
import signal
import sys
from pathlib import Path

from nvflare.private.fed.app.simulator.simulator_runner import SimulatorRunner

from ferrodp.federated import FederatedRound, FederatedRun
from ferrodp.integrations.nvflare import PrivateFedAvg
from ferrodp.plan import _kept as kept
from ferrodp.tickets import Ticket

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "nvflare_job"))
import private_server

PLACES = {
    "asked": (PrivateFedAvg, "_collect"),
    "charged": (Ticket, "arm"),
    "drawn": (FederatedRound, "release"),
    "saved": (FederatedRun, "save"),
    "kept": (PrivateFedAvg, "_keep"),
}


def killed(call, number):
    count = [0]

    def called(*args, **options):
        result = call(*args, **options)
        count[0] += 1
        if count[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return called


if __name__ == "__main__":
    kept._fresh_key = lambda step: bytes([step]) * 32
    workspace, folder, rounds, *moment = sys.argv[1:]
    if moment:
        owner, name = PLACES[moment[0]]
        setattr(owner, name, killed(getattr(owner, name), int(moment[1])))
    jobs = Path(folder) / "jobs"
    private_server.job_of(Path(folder), int(rounds)).export_job(str(jobs))
    sites = private_server.SITES
    # Not `simulator_run`, which starts another interpreter: the server is to be a fork of this process.
    status = SimulatorRunner(str(jobs / "private-digits"), workspace, n_clients=sites, threads=sites).run()
    sys.exit(0 if status == 0 else 1)
