"""Trainings in one of several processes of MindSpore, or in a mode for several devices: refused before a charge."""

import os
import socket
import subprocess
import sys
import textwrap

import mindspore
import numpy as np
import pytest
from mindspore import nn

import ferrodp as fd
from ferrodp.errors import InvalidParameter
from ferrodp.integrations.mindspore import DPModel, IndexedDataset, NoiseMechanismsFactory

OF_TWO = """
    import sys
    import mindspore
    from mindspore import communication
    mindspore.set_context(device_target="CPU")
    communication.init()
    import os
    if os.environ["MS_ROLE"] == "MS_WORKER":
        import numpy as np
        from mindspore import nn
        import ferrodp as fd
        from ferrodp.errors import InvalidParameter
        from ferrodp.integrations.mindspore import DPModel, IndexedDataset, NoiseMechanismsFactory

        with fd.PrivacyLedger.open(sys.argv[1]) as ledger:
            network = nn.Dense(4, 3)
            model = DPModel(
                micro_batches=None,
                norm_bound=1.0,
                noise_mech=NoiseMechanismsFactory().create("Gaussian", initial_noise_multiplier=2.0),
                optimizer=nn.SGD(network.trainable_params(), learning_rate=0.1),
                network=network,
                loss_fn=nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
                ledger=ledger,
                scope="training",
            )
            data = IndexedDataset(np.ones((20, 4), np.float32), np.zeros(20, np.int32), batch_size=5)
            try:
                model.train(1, data)
            except InvalidParameter as error:
                print("REFUSED", error, flush=True)
            print("CHARGED", ledger.report("training").epsilon_charged, flush=True)
        os._exit(0)
"""


def test_each_of_two_processes_of_mindspore_is_refused_before_a_charge(tmp_path):
    place = str(tmp_path / "budget.db")
    with fd.PrivacyLedger.open(place) as ledger:
        ledger.create("training", epsilon=8.0, delta=1e-5)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    common = os.environ | {"MS_WORKER_NUM": "2", "MS_SCHED_HOST": "127.0.0.1", "MS_SCHED_PORT": str(port)}
    command = [sys.executable, "-c", textwrap.dedent(OF_TWO), place]
    scheduler = subprocess.Popen(command, env=common | {"MS_ROLE": "MS_SCHED"}, stdout=subprocess.DEVNULL)
    workers = [
        subprocess.Popen(
            command, env=common | {"MS_ROLE": "MS_WORKER", "MS_NODE_ID": str(node)}, stdout=subprocess.PIPE, text=True
        )
        for node in range(2)
    ]
    try:
        told = [each.communicate(timeout=180)[0].splitlines() for each in workers]
    finally:
        for each in (*workers, scheduler):
            each.kill()
            each.wait()

    for lines in told:
        assert next(line for line in lines if line.startswith("REFUSED")).startswith(
            "REFUSED mindspore.communication must have a group size of 1, got 2: each process would release"
        )
        assert "CHARGED 0.0" in lines


def test_a_mode_for_several_devices_is_refused():
    network = nn.Dense(4, 3)
    model = DPModel(
        micro_batches=None,
        norm_bound=1.0,
        noise_mech=NoiseMechanismsFactory().create("Gaussian", initial_noise_multiplier=2.0),
        optimizer=nn.SGD(network.trainable_params(), learning_rate=0.1),
        network=network,
        loss_fn=nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
    )
    data = IndexedDataset(np.ones((20, 4), np.float32), np.zeros(20, np.int32), batch_size=5)
    mindspore.set_auto_parallel_context(parallel_mode="data_parallel")
    try:
        with pytest.raises(InvalidParameter, match="parallel_mode must be 'stand_alone', got 'data_parallel'"):
            model.train(1, data)
    finally:
        mindspore.reset_auto_parallel_context()

    assert model.last_run is None
