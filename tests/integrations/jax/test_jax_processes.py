"""Runs in one of several processes of JAX: refused before anything is charged."""

import socket
import subprocess
import sys
import textwrap

import ferrodp as fd

OF_TWO = """
    import sys
    import jax
    rank, port, ledger = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=rank)
    import numpy as np
    import ferrodp as fd
    from ferrodp.errors import InvalidParameter
    from ferrodp.integrations.jax import JaxRun
    from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling

    plan = fd.PrivacyPlan(
        population_size=20,
        sampling=PoissonSampling(0.5),
        num_steps=2,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(2.0),
    )
    params = {"w": np.zeros(3, np.float32)}
    state = plan.start({"w": (3,)}).state()

    def refused(call):
        try:
            call()
        except InvalidParameter as error:
            return str(error)
        raise SystemExit("was not refused")

    with fd.PrivacyLedger.open(ledger) as opened:
        print(refused(lambda: JaxRun(plan, params, ledger=opened, scope="training", key="k")))
        print(refused(lambda: JaxRun.from_state(state, params)))
        print(opened.report("training").epsilon_charged)
"""


def test_each_of_two_processes_of_jax_is_refused_before_a_charge(tmp_path):
    place = str(tmp_path / "budget.db")
    with fd.PrivacyLedger.open(place) as ledger:
        ledger.create("training", epsilon=8.0, delta=1e-5)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    command = [sys.executable, "-c", textwrap.dedent(OF_TWO)]
    running = [
        subprocess.Popen([*command, str(rank), str(port), place], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        told = [each.communicate(timeout=180)[0].splitlines() for each in running]
    finally:
        for each in running:
            each.kill()
            each.wait()

    assert [each.returncode for each in running] == [0, 0]
    for started, restored, charged in told:
        assert started == restored
        assert started.startswith("jax.process_count() must be 1, got 2: each process would release")
        assert charged == "0.0"
