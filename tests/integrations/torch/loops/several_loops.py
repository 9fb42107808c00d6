"""Private trainings in several processes, one after the other: `python several_loops.py RUNS`.

The file has a list of [folder, number of processes, options, options of single ranks]. Processes are forks of this one,
which has imported what they need; each writes what it found to RANK.json in the folder of its run.
"""

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch._dynamo  # which the first optimizer imports, in each process if not here
import torch.distributed.algorithms.join
import torch.utils._pytree
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import ferrodp as fd
from ferrodp.integrations.torch import make_private
from ferrodp.plan import AdaptiveClipping, ConstantNoise, FlatClipping, PerGroupClipping, PoissonSampling, PrivacyPlan
from ferrodp.testing import seeded

SIZE, STEPS = 60, 4


def network():
    return nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 3, 2), nn.GroupNorm(1, 3), nn.Flatten(), nn.Linear(9, 3))


class Last(nn.Module):
    """The last output of a recurrent layer."""

    def forward(self, found):
        return found[0][:, -1]


def plan_of(name, model, probability):
    clipping = {
        "flat": FlatClipping(0.5),
        "adaptive": AdaptiveClipping(initial=5.0, target_quantile=0.5, learning_rate=0.5, count_noise_multiplier=5.0),
        "groups": PerGroupClipping({each: 0.3 for each, _ in model.named_parameters()}),
    }[name]
    return PrivacyPlan(
        population_size=SIZE,
        sampling=PoissonSampling(probability),
        num_steps=STEPS,
        clipping=clipping,
        noise=ConstantNoise(1.0),
    )


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def digest(model):
    state = b"".join(whole(each.detach()).numpy().tobytes() for each in model.state_dict().values())
    return hashlib.sha256(state).hexdigest()


def train(rank, size, options):
    torch.manual_seed(0)
    x, y = torch.randn(SIZE, 4), torch.randint(3, (SIZE,))
    torch.manual_seed(0 if "fsdp" in options else rank)  # models differ until they begin, but for parts of one
    if size == 1:
        torch.manual_seed(0)
    model = network()
    if options.get("recurrent"):
        model = nn.Sequential(nn.Unflatten(1, (2, 2)), nn.RNN(2, 3, batch_first=True), Last())
    if options.get("dropout"):
        model.insert(0, nn.Dropout(0.5))
    plan = plan_of(options.get("clipping", "flat"), model, options.get("probability", 0.4))
    trained = nn.parallel.DistributedDataParallel(model) if options.get("ddp") else model
    if "fsdp" in options and size > 1:
        mesh = init_device_mesh("cpu", (size,))
        for layer in model:
            if options["fsdp"] == "layers" and list(layer.parameters()):
                fully_shard(layer, mesh=mesh)
        trained = fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.05)
    more = {"source": seeded(bytes(32))}
    if "ledger" in options:
        more = {}
        if rank == 0:
            ledger = fd.PrivacyLedger.open(options["ledger"])
            more = {"ledger": ledger, "scope": "training", "key": "k"}
    trained, optimizer, loader = make_private(
        trained,
        optimizer,
        DataLoader(TensorDataset(x, y), batch_size=8),
        plan=plan,
        shares=options.get("shares"),
        part_size=options.get("part_size"),
        **more,
    )
    training = optimizer.private
    if "resume" in options:
        saved = torch.load(options["resume"].format(rank=rank), weights_only="fsdp" not in options)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    steps = []
    while training.stopped is None:
        for images, labels in loader:
            optimizer.zero_grad()
            if [rank, training.step_number] == options.get("dies_early"):
                os.kill(os.getpid(), signal.SIGKILL)
            loss = functional.cross_entropy(trained(images), labels)
            if "columns" in options:
                loss = trained(images)[:, : options["columns"]].square().mean()
            loss.backward()
            if [rank, training.step_number] == options.get("dies"):
                os.kill(os.getpid(), signal.SIGKILL)
            number = training.step_number
            optimizer.step()
            if training.step_number != number:
                steps.append(digest(model))
                if "save" in options and (rank == 0 or "fsdp" in options):
                    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                    torch.save(state, options["save"].format(rank=rank))
    return {
        "steps": steps,
        "number": training.step_number,
        "stopped": training.stopped,
        "epsilon": training.epsilon(1e-5),
        "state": training.state().decode(),
        "way": training.way,
    }


def work(rank, size, folder, options):
    """Be one of the processes of a run."""
    torch.set_num_threads(1)
    if size > 1:
        distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=size)
    try:
        found = train(rank, size, options)
    except fd.errors.FerroError as error:
        found = {"error": str(error), "kind": type(error).__name__}
    Path(folder, f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")


def run(folder, size, options, of_ranks):
    """Fork the processes of a run, and wait for them."""
    Path(folder).mkdir()
    children = []
    for rank in range(size):
        child = os.fork()
        if not child:
            try:
                work(rank, size, folder, {**options, **of_ranks.get(str(rank), {})})
            except BaseException as error:
                Path(folder, f"{rank}.json").write_text(json.dumps({"failed": repr(error)}), encoding="utf-8")
            os._exit(0)
        children.append(child)
    deadline = time.monotonic() + 300.0
    while children and time.monotonic() < deadline:
        children = [each for each in children if os.waitpid(each, os.WNOHANG) == (0, 0)]
        time.sleep(0.05)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        run(*each)
