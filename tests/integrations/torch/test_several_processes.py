"""Trainings of several processes or devices: refused before anything is charged, since nothing would be exchanged."""

import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset

import ferrodp as fd
from ferrodp.integrations.torch import make_private, per_example_gradients, start

PLAN = fd.PrivacyPlan(
    population_size=20,
    sampling=fd.plan.PoissonSampling(0.5),
    num_steps=2,
    clipping=fd.plan.FlatClipping(1.0),
    noise=fd.plan.ConstantNoise(2.0),
)

OF_TWO = """
    import sys, torch
    import torch.distributed as distributed
    from torch import nn
    import ferrodp as fd
    from ferrodp.errors import InvalidParameter
    from torch.utils.data import DataLoader, TensorDataset
    from ferrodp.integrations.torch import make_private, per_example_gradients, start
    from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling

    rank, file, ledger = int(sys.argv[1]), sys.argv[2], fd.PrivacyLedger.open(sys.argv[3])
    plan = fd.PrivacyPlan(
        population_size=20,
        sampling=PoissonSampling(0.5),
        num_steps=2,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(2.0),
    )

    def loss(model, x):
        return model(x).sum()

    def refused(call):
        try:
            call()
        except InvalidParameter as error:
            return str(error)
        raise SystemExit("was not refused")

    early = start(plan, nn.Linear(3, 1), loss)
    distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    model = nn.Linear(3, 1)
    print(refused(lambda: start(plan, model, loss, ledger=ledger, scope="training", key="k")))
    print(refused(lambda: next(early)))
    print(per_example_gradients(model, loss, torch.ones(2, 3))["weight"].shape)
    wrapped = nn.parallel.DistributedDataParallel(nn.Linear(3, 1))
    print(refused(lambda: start(plan, wrapped, loss, ledger=ledger, scope="training", key="k")))
    print(refused(lambda: per_example_gradients(wrapped, loss, torch.ones(2, 3))))
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor import Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (2,))
    sharded = fully_shard(nn.Sequential(nn.Linear(4, 4)), mesh=mesh)
    print(refused(lambda: per_example_gradients(sharded, loss, torch.ones(2, 4))))
    mixed = fully_shard(nn.Linear(4, 4), mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    optimizer = torch.optim.SGD(mixed.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.ones(20, 4)))
    more = {"ledger": ledger, "scope": "training", "key": "k"} if rank == 0 else {}
    print(refused(lambda: make_private(mixed, optimizer, loader, plan=plan, **more)))
    older = FullyShardedDataParallel(nn.Linear(4, 4), device_id=torch.device("cpu"))
    print(refused(lambda: per_example_gradients(older, loss, torch.ones(2, 4))))
    parts = nn.Linear(4, 4)
    parts.weight = nn.Parameter(distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)]))
    print(refused(lambda: per_example_gradients(parts, loss, torch.ones(2, 4))))
    distributed.barrier()
    distributed.destroy_process_group()
    start(plan, model, loss).close()
    print(ledger.report("training").epsilon_charged)
"""


def test_each_of_two_processes_is_refused_before_a_charge(tmp_path):
    place = str(tmp_path / "budget.db")
    with fd.PrivacyLedger.open(place) as ledger:
        ledger.create("training", epsilon=8.0, delta=1e-5)
    command = [sys.executable, "-c", textwrap.dedent(OF_TWO)]
    running = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "meeting"), place], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        told = [each.communicate(timeout=600)[0].splitlines() for each in running]
    finally:
        for each in running:
            each.kill()

    assert [each.returncode for each in running] == [0, 0]
    for lines in told:
        world, later, shape, ddp, bare, fsdp2, mixed, fsdp1, dtensor, charged = lines
        for line in (world, later, ddp):
            assert line.startswith("torch.distributed must have a world size of 1, got 2: each process would release")
        assert shape == "torch.Size([2, 1, 3])"  # gradients without noise are what they are in every process
        assert "got a DistributedDataParallel" in bare
        assert "model.module" in bare
        assert "got a FSDPModule" in fsdp2
        assert "before fully_shard" in fsdp2
        assert "without a mixed precision policy" in mixed
        assert "got a FullyShardedDataParallel" in fsdp1
        assert "parameter 'weight'" in dtensor
        assert "got a DTensor" in dtensor
        assert charged == "0.0"


def test_a_module_spread_over_one_process_is_refused(tmp_path):
    """Its parts would be whole, and the training one of several processes that are not there."""
    model = nn.Sequential(nn.Linear(3, 1))
    meeting = f"file://{tmp_path / 'meeting'}"
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
    try:
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.ones(20, 3)))
        with pytest.raises(fd.errors.InvalidParameter, match="spread over all processes of the training, 1, by fully_"):
            make_private(model, optimizer, loader, plan=PLAN)
    finally:
        torch.distributed.destroy_process_group()


def test_a_module_of_several_devices_is_refused():
    model = nn.Sequential(nn.DataParallel(nn.Linear(3, 1)))

    with pytest.raises(fd.errors.InvalidParameter, match=r"module '0' .* got a DataParallel"):
        start(PLAN, model, lambda model, x: model(x).sum())
    with pytest.raises(fd.errors.InvalidParameter, match="got a DataParallel"):
        per_example_gradients(model, lambda model, x: model(x).sum(), torch.ones(2, 3))
