"""Federated averaging in NVFlare's simulator, with two sites whose updates are private.

    python job.py WORKSPACE [ROUNDS]

Each site clips and noises its update before it is sent, within a budget of its own, and writes ε of every round to
``ferrodp-rounds.csv`` in the folder of the job.
"""

import sys
from pathlib import Path

import numpy as np
from nvflare.apis.dxo import DataKind
from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.recipe import SimEnv

from ferrodp.integrations.nvflare import GaussianUpdateFilter

HERE = Path(__file__).parent


def recipe(rounds):
    """Return the job: a recipe of NVFlare's, and a filter for what sites return."""
    job = NumpyFedAvgRecipe(
        name="private-digits",
        model=np.zeros((65, 10), np.float32),
        min_clients=2,
        num_rounds=rounds,
        train_script=str(HERE / "client.py"),
        aggregator_data_kind=DataKind.WEIGHTS,
    )
    private = GaussianUpdateFilter(clip_norm=1.0, target_epsilon=8.0, delta=1e-5, rounds=rounds)
    job.add_client_output_filter(private, tasks=["train"])
    return job


def main(workspace, rounds=3):
    """Run the job with two sites, processes on this machine."""
    run = recipe(rounds).execute(SimEnv(num_clients=2, workspace_root=workspace))
    print("status:", run.get_status())
    print("result:", run.get_result())


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
