"""One training in several processes: one process' bits, one charge, a clean end where a process is killed."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from private_loops import loader_of, plan_of

import ferrodp as fd
from ferrodp.integrations.torch import _several, make_private
from ferrodp.integrations.torch._bound import Bound

WORKER = Path(__file__).with_name("several_loops.py")


BITS = {
    "flat": {"shares": 4},
    "in DistributedDataParallel": {"shares": 4, "ddp": True, "part_size": 3},
    "adaptive": {"shares": 5, "clipping": "adaptive"},
    "dropout": {"shares": 4, "dropout": True, "part_size": 3},
    "in fully_shard": {"shares": 4, "fsdp": "root"},
    "layers in fully_shard": {"shares": 4, "fsdp": "layers", "part_size": 3, "dropout": True},
    "in fully_shard, of few examples": {"shares": 4, "fsdp": "layers", "part_size": 1, "probability": 0.05},
    "groups, of few examples": {"shares": 4, "clipping": "groups", "probability": 0.05},  # shares without examples
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each process of each run has to say, by the name of the run; None for one that was killed."""
    folder = tmp_path_factory.mktemp("several")
    for place, scope in (
        ("budget.db", "training"),
        ("alone.db", "training"),
        ("other.db", "another"),
        ("parts.db", "training"),
    ):
        with fd.PrivacyLedger.open(folder / place) as ledger:
            ledger.create(scope, epsilon=50.0, delta=1e-5, measure="rdp")
    runs = {}
    for name, options in BITS.items():
        for size in (1, 2, 4):
            runs[f"{name}, {size}"] = (size, {**options, "ddp": options.get("ddp", False) and size > 1}, {})
    saved = str(folder / "checkpoint")
    own = {"ledger": str(folder / "budget.db"), "shares": 2, "save": saved}
    runs["rank 1 is killed"] = (2, {**own, "dies": [1, 2]}, {})
    runs["rank 0 is killed"] = (2, {**own, "resume": saved, "dies": [0, 2]}, {})
    runs["resumed"] = (2, {**own, "resume": saved}, {})
    own = {"ledger": str(folder / "parts.db"), "shares": 2, "save": str(folder / "part{rank}"), "fsdp": "layers"}
    resumed = {**own, "resume": own["save"]}
    runs["rank 1 of fully_shard is killed"] = (2, {**own, "dies_early": [1, 2]}, {})
    runs["rank 0 of fully_shard is killed"] = (2, {**resumed, "dies": [0, 2]}, {})
    runs["resumed of fully_shard"] = (2, resumed, {})
    runs["a recurrent layer in fully_shard"] = (2, {"fsdp": "root", "recurrent": True}, {})
    runs["alone"] = (1, {"ledger": str(folder / "alone.db"), "shares": 2}, {})
    runs["refused"] = (2, {"ledger": str(folder / "other.db")}, {})
    runs["different lengths"] = (2, {"columns": 2}, {"1": {"columns": 1}})
    runs["different plans"] = (2, {}, {"1": {"probability": 0.3}})
    listed = [(str(folder / name), *run) for name, run in runs.items()]
    (folder / "runs.json").write_text(json.dumps(listed))
    ended = subprocess.run([sys.executable, WORKER, folder / "runs.json"], stderr=subprocess.PIPE, text=True)
    assert not ended.returncode, ended.stderr
    outs = {name: [folder / name / f"{rank}.json" for rank in range(size)] for name, (size, _, _) in runs.items()}
    said = {
        name: [json.loads(out.read_text()) if out.exists() else None for out in all_] for name, all_ in outs.items()
    }
    return said | {"folder": folder}


@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize("size", [2, 4])
def test_several_processes_end_with_the_bits_of_one(name, size, found):
    (alone,) = found[f"{name}, 1"]

    for each in found[f"{name}, {size}"]:
        assert each["steps"] == alone["steps"]
        assert (each["number"], each["stopped"]) == (4, "finished")
        assert each["epsilon"] == alone["epsilon"] == math.inf  # seeded
        assert each["way"] == "together"
    assert len(set(alone["steps"])) == len(alone["steps"]) == 4


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("of", ["", "of fully_shard "])
def test_where_a_process_is_killed_the_other_says_so(rank, of, found):
    said = found[f"rank {rank} {of}is killed"]

    assert said[rank] is None
    assert said[1 - rank]["kind"] == "FerroError"
    assert "another process of the training has ended" in said[1 - rank]["error"]


@pytest.mark.parametrize(("of", "ledger"), [("", "budget.db"), (" of fully_shard", "parts.db")])
def test_a_training_goes_on_from_a_checkpoint_and_is_charged_as_one(of, ledger, found):
    ended = found[f"resumed{of}"]

    assert ended[0]["steps"] == ended[1]["steps"]
    assert len(ended[0]["steps"]) == 2  # of four: the last two
    assert [each["number"] for each in ended] == [4, 4]
    assert ended[0]["epsilon"] == ended[1]["epsilon"] == found["alone"][0]["epsilon"] < math.inf
    assert ended[0]["state"] == ended[1]["state"]
    charged = []
    for place in (ledger, "alone.db"):
        with fd.PrivacyLedger.open(found["folder"] / place) as ledger:
            charged.append(ledger.report("training").epsilon_charged)
    assert charged[0] == charged[1] > 0.0


def test_a_model_of_fully_shard_that_runs_one_by_one_is_refused(found):
    for each in found["a recurrent layer in fully_shard"]:
        assert each["kind"] == "InvalidParameter"
        assert "must run all examples together, as processes gather its parameters in turn" in each["error"]


def test_what_rank_0_refuses_ends_all(found):
    said = found["refused"]

    assert "training" in said[0]["error"]
    assert said[1]["error"] == f"rank 0 of the training could not go on: {said[0]['error']}"


def test_a_mean_over_other_numbers_in_another_process_is_refused(found):
    for each in found["different lengths"]:
        assert each["kind"] == "InvalidParameter"
        assert "must have the same numbers of the loss an example" in each["error"]
        assert "pad all texts" in each["error"]


def test_processes_with_different_plans_are_refused(found):
    for each in found["different plans"]:
        assert each["kind"] == "InvalidParameter"
        assert "every process must have the same plan, parameters, shares" in each["error"]


@pytest.mark.parametrize(("population", "shares", "size"), [(60, 4, 2), (61, 7, 3), (5, 5, 4), (1000, 3, 3)])
def test_each_example_is_summed_once_and_by_its_own_share_alone(population, shares, size):
    rng = np.random.default_rng(0)
    for _ in range(50):
        drawn = np.flatnonzero(rng.random(population) < 0.2).tolist()
        most = [None, 1, 4][int(rng.integers(3))]
        seen = []
        for rank in range(size):
            parts, ends = _several.cut(drawn, population, shares, most, rank, size)
            assert ends[-1]
            of_share = []
            for part, end in zip(parts, ends, strict=True):
                assert most is None or len(part) <= most
                of_share += part
                if end:
                    assert len({_several.share_of(i, population, shares) for i in of_share}) == bool(of_share)
                    of_share = []
                seen += part
        assert sorted(seen) == drawn
    assert {_several.share_of(i, population, shares) for i in range(population)} == set(range(shares))


@pytest.mark.parametrize("clip_norm", [1.0, 0.3, 1e-8, 7e12])
def test_what_rounding_moves_is_within_what_is_taken_off(clip_norm):
    """The worst case: neighbors that differ in one share, each coordinate rounded apart."""
    size, most = 64, 1000
    step = _several.granularity(clip_norm)
    assert clip_norm * 2.0**-37 < step <= clip_norm * 2.0**-36
    base = torch.full((size,), 0.5 * step, dtype=torch.float64)
    up, down = _several.IntegerSum(torch, size), _several.IntegerSum(torch, size)
    for total, change in ((up, 2.0**-40), (down, -(2.0**-40))):
        total.restart(clip_norm)
        total.add(base * (1.0 + change) + step, 1, 1)  # one rounds up, the other down
        total.add(torch.full((size,), 3.0 * clip_norm, dtype=torch.float64), 1, 1)

    moved = torch.linalg.vector_norm(up.values() - down.values()).item()

    apart = torch.linalg.vector_norm(2.0 * base * 2.0**-40).item()
    assert 0.99 * math.sqrt(size) * step < moved
    assert moved <= apart + _several.rounding_residue(most, size) * clip_norm
    assert up.counts.tolist() == [2, 2]
    wider = Bound.of(most, _several.rounding_residue(most, size))
    assert wider.residue - Bound.of(most).residue >= math.sqrt(size) * step / clip_norm


@pytest.mark.parametrize("shares", [None, 3])
def test_the_rounding_of_shares_is_taken_off_the_clip_norm(shares):
    model = torch.nn.Linear(5, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    make_private(model, optimizer, loader_of(torch.ones(8, 5)), plan=plan_of(8), shares=shares)

    residue = optimizer.private._sum._bound.residue

    more = 0.0 if shares is None else _several.rounding_residue(8, 12)
    assert residue == Bound.of(8).residue + more
    optimizer.private.close()


@pytest.mark.parametrize("shares", [0, 9, 2.5])
def test_shares_are_a_number_of_ranges_of_the_population(shares):
    model = torch.nn.Linear(5, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    with pytest.raises((fd.errors.InvalidParameter, fd.errors.InvalidType), match="shares must be"):
        make_private(model, optimizer, loader_of(torch.ones(8, 5)), plan=plan_of(8), shares=shares)


def test_the_sum_of_integers_has_no_order():
    torch.manual_seed(1)
    shares = [1e3 * torch.randn(50, dtype=torch.float64) for _ in range(20)]
    one, other = _several.IntegerSum(torch, 50), _several.IntegerSum(torch, 50)
    for total in (one, other):
        total.restart(1.0)
    for share in shares:
        one.add(share, 3, 1)
    for share in reversed(shares):
        other.add(share, 3, 1)

    assert torch.equal(one.total, other.total)
    assert torch.equal(one.values(), other.values())
