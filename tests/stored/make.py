"""What earlier versions stored, made by them: events, accountants, filters, sums, settings, a ledger, its log.

Run as ``python tests/stored/make.py FOLDER`` with the release whose files are wanted; those here were made by the last
commit before the packages were split (5f54e17), `second_sums` when states of sums got version 2, `plans` with the first
plans. They are never made
anew: what was stored once has to open for ever. `tests/stored/test_stored.py` opens them. Answers are stored beside the
states.
"""

import base64
import dataclasses
import json
import socket
import sys
from pathlib import Path

import numpy as np

import ferrodp as fd
from ferrodp import accounting as ac
from ferrodp import plan as pl
from ferrodp.correlated import BandedToeplitz
from ferrodp.engine import DPConfig

RELATION = ac.NeighboringRelation
GAUSSIAN = ac.GaussianEvent(noise_multiplier=2.0)
LAPLACE = ac.LaplaceEvent(noise_multiplier=4.0)
SAMPLED = ac.PoissonSampledEvent(sampling_probability=0.1, event=GAUSSIAN)
EVENTS = [
    GAUSSIAN,
    LAPLACE,
    SAMPLED,
    ac.DiscreteGaussianEvent(scale=2.0),
    ac.DiscreteGaussianEvent(scale=4.0, l2_sensitivity=1.5, dimension=3),
    ac.DiscreteLaplaceEvent(scale=2.0, l1_sensitivity=2),
    ac.RandomizedResponseEvent(noise_parameter=0.5, num_buckets=3),
    ac.ExponentialMechanismEvent(epsilon=0.5),
    ac.EpsilonDeltaEvent(epsilon=0.5, delta=1e-9),
    ac.ZcdpEvent(rho=0.1),
    ac.AdaptiveClipEvent(sum_noise_multiplier=1.0, count_noise_multiplier=10.0),
    ac.TreeAggregationEvent(noise_multiplier=1.0, num_steps=8, max_participation=2, min_separation=3),
    ac.MatrixMechanismEvent(noise_multiplier=1.5, sensitivity=1.25),
    ac.MixtureOfGaussiansEvent(noise_multiplier=2.0, shifts=(0.0, 1.0), probabilities=(0.75, 0.25)),
    ac.NonPrivateEvent(),
    ac.ComposedEvent(events=(GAUSSIAN, LAPLACE)),
    ac.SelfComposedEvent(event=SAMPLED, count=9),
    ac.PoissonSampledEvent(sampling_probability=0.1, event=LAPLACE, null_distance=0.5),
    ac.FixedSizeSampledEvent(population_size=100, sample_size=10, event=GAUSSIAN),
    ac.TruncatedPoissonSampledEvent(
        population_size=100, sampling_probability=0.1, truncated_batch_size=20, event=GAUSSIAN
    ),
    ac.RandomAllocationEvent(num_steps=10, num_selected=1, event=GAUSSIAN),
    ac.RepeatAndSelectEvent(event=LAPLACE, mean=5.0, shape=1.0),
    ac.RepeatAndSelectEvent(event=LAPLACE, mean=5.0, shape=float("inf")),
]
"""One of every kind, and where a field has a special value one more."""


def events():
    """Each event as it is written, and its text for people."""
    return [{"event": event.to_dict(), "repr": repr(event)} for event in EVENTS]


def accountants():
    """Each accountant, in settings that are not the default ones, and what it answers."""
    told = {
        "gdp": (ac.GdpAccountant(neighboring_relation=RELATION.REPLACE_ONE), [(GAUSSIAN, 7)]),
        "moments": (ac.MomentsAccountant(max_moment=16), [(SAMPLED, 100)]),
        "pld": (ac.PldAccountant(value_discretization_interval=1e-3), [(SAMPLED, 100), (LAPLACE, 2)]),
        "pure": (ac.PureDpAccountant(neighboring_relation=RELATION.REPLACE_SPECIAL), [(LAPLACE, 3)]),
        "rdp": (ac.RdpAccountant([2.0, 4.5, 32.0]), [(SAMPLED, 100), (LAPLACE, 2), (EVENTS[8], 1)]),
        "rdp, all orders": (ac.RdpAccountant(), [(SAMPLED, 100)]),
        "zcdp": (ac.ZcdpAccountant(), [(GAUSSIAN, 7), (EVENTS[9], 1)]),
    }
    found = {}
    for name, (accountant, composed) in told.items():
        for event, count in composed:
            accountant.compose(event, count)
        found[name] = {
            "class": type(accountant).__name__,
            "state": accountant.state_dict(),
            "epsilon": accountant.epsilon(1e-5),
            "delta": accountant.delta(2.0),
        }
    return found


def filters():
    """Each filter, and the odometer, after some charges."""
    made = [
        ac.PureDpFilter(epsilon=2.0, delta=1e-6),
        ac.ZcdpFilter(rho=1.0, delta=1e-6),
        ac.GdpFilter(mu=1.5, neighboring_relation=RELATION.REPLACE_ONE),
        ac.RdpFilter.for_budget(epsilon=4.0, delta=1e-6),
        ac.RdpFilter(orders=[2.0, 8.0], budgets=[1.0, 4.0]),
    ]
    found = []
    for each in made:
        event = LAPLACE if isinstance(each, ac.PureDpFilter) else GAUSSIAN
        each.charge(event, 2)
        found.append(
            {
                "class": type(each).__name__,
                "state": each.state_dict(),
                "event": event.to_dict(),
                "spent": each.spent,
                "remaining": each.remaining_count(event),
            }
        )
    odometer = ac.Odometer(delta=1e-5, expected_rho=0.25)
    odometer.charge(GAUSSIAN, 3)
    reading = {"class": "Odometer", "state": odometer.state_dict(), "epsilon": odometer.epsilon, "rho": odometer.rho}
    return [*found, reading]


def sums():
    """Sums of one array, and of a tree, in both dtypes; with what a seeded release gives."""
    found = []
    for dtype, template in (
        ("float32", (3,)),
        ("float64", {"w": np.zeros((2, 2)), "b": [np.zeros(1), np.zeros((0, 4))]}),
        ("float32", {"w": np.zeros(2, np.float32)}),
    ):
        total = fd.ClippedSum(template, clip_norm=1.5, **({"dtype": dtype} if isinstance(template, tuple) else {}))
        for number in range(3):
            total.add(_filled(template, dtype, number))
        state = total.state()
        released = total.release(noise_multiplier=0.5, source=fd.testing.seeded(bytes(range(32))))
        found.append(
            {
                "state": base64.b64encode(state).decode(),
                "count": total.count,
                "clip_norm": total.clip_norm,
                "released": [leaf.ravel().tolist() for leaf in _leaves(released)],
            }
        )
    return found


def plans():
    """Plans with each kind of part, what they cost, and the state of a run after two steps."""
    relation = RELATION.REPLACE_SPECIAL
    found = []
    for sampling, clipping, noise, others in (
        (pl.PoissonSampling(0.5), pl.FlatClipping(0.1), pl.ConstantNoise(3.0), {}),
        (pl.PoissonSampling(0.5), pl.AutomaticClipping(0.02, 2.0), pl.InverseTimeDecay(4.0, 0.1, 2.0), {}),
        (pl.PoissonSampling(0.5), pl.AdaptiveClipping(0.1), pl.StepDecay(4.0, 0.9, 2, 2.0), {"records_per_group": 2}),
        (pl.FixedSizeSampling(20), pl.FlatClipping(0.1), pl.ExponentialDecay(4.0, 0.1, 2.0), {}),
        (pl.RandomAllocation(3, 2), pl.FlatClipping(0.1), pl.PiecewiseNoise((4.0, 3.0), (3,), 2.0), {}),
        (pl.CyclicPoisson(0.5, 3), pl.PerGroupClipping({"w": 1.0, "b": 0.5}), pl.CosineDecay(4.0, 3.0, 2.0), {}),
        (pl.FullBatch(), pl.FlatClipping(0.1), pl.ConstantNoise(3.0), {"unit": "client"}),
        (pl.GivenOrder(50, 3), pl.FlatClipping(0.1), pl.ConstantNoise(3.0), {}),
        (pl.FullBatch(), pl.FlatClipping(0.1), pl.CorrelatedNoise(BandedToeplitz(num_steps=6, bands=2), 3.0), {}),
        (pl.FullBatch(), pl.L1Clipping(0.1), pl.ConstantNoise(3.0), {}),
    ):
        plan = fd.PrivacyPlan(
            population_size=50,
            sampling=sampling,
            num_steps=6,
            clipping=clipping,
            noise=noise,
            neighboring_relation=relation,
            **others,
        )
        run = plan.start({"w": np.zeros((2, 1), np.float32), "b": np.zeros(3, np.float32)})
        for step in run:
            rows = plan.num_groups or (50 if step.indices is None else len(step.indices))
            step.add({"w": np.zeros((rows, 2, 1), np.float32), "b": np.zeros((rows, 3), np.float32)})
            step.release()
            if step.number == 1:
                break
        state = run.state().decode()
        found.append(
            {"plan": plan.to_json(), "epsilon": plan.epsilon(1e-5), "state": state, "spent": run.epsilon(1e-5)}
        )
    return found


def second_sums():
    """Sums that know how many rows were within the bound, and normalized ones: states of version 2."""
    found = []
    for dtype in ("float32", "float64"):
        for stability in (None, 0.25):
            total = fd.ClippedSum({"w": (2, 2), "b": [(1,)]}, clip_norm=4.5, stability=stability, dtype=dtype)
            for number in range(3):
                total.add(_filled({"w": np.zeros((2, 2)), "b": [np.zeros(1)]}, dtype, number))
            case = {"state": base64.b64encode(total.state()).decode(), "count": total.count, "clip_norm": 4.5}
            case |= {"stability": stability, "within_bound": total.within_bound}
            released = total.release(noise_multiplier=0.5, source=fd.testing.seeded(bytes(range(32))))
            found.append(case | {"released": [leaf.ravel().tolist() for leaf in _leaves(released)]})
    return found


def _filled(template, dtype, number):
    if isinstance(template, tuple):
        return np.arange(number, number + int(np.prod(template)), dtype=dtype).reshape(template)
    if isinstance(template, dict):
        return {name: _filled(each, dtype, number) for name, each in template.items()}
    if isinstance(template, list):
        return [_filled(each, dtype, number) for each in template]
    return np.arange(number, number + template.size, dtype=dtype).reshape(template.shape)


def _leaves(tree):
    if isinstance(tree, dict):
        return [leaf for name in sorted(tree) for leaf in _leaves(tree[name])]
    return [leaf for each in tree for leaf in _leaves(each)] if isinstance(tree, list) else [tree]


def settings():
    """What the engine is configured with."""
    return [
        dataclasses.asdict(DPConfig()),
        dataclasses.asdict(DPConfig("laplace", accounting="basic", sampling_rate=1.0, target_epsilon=3.0)),
        dataclasses.asdict(DPConfig(noise_multiplier=1.5, accounting="pld", renyi_orders=(2, 8.5))),
    ]


def fill(ledger):
    """Do a bit of everything in each measure."""
    ledger.create("hospital/images", epsilon=2.0, delta=1e-6, measure="rdp")
    ledger.create("survey", epsilon=1.0, delta=0.0, measure="pure", highest_epsilon=4.0)
    ledger.create("clinic", epsilon=3.0, delta=1e-6, measure="gdp")
    ledger.create("study", epsilon=3.0, delta=1e-6, measure="zcdp", neighboring_relation=RELATION.REPLACE_ONE)
    eighth = ac.EpsilonDeltaEvent(epsilon=0.125)
    ledger.reserve("survey", eighth, key="held")
    ledger.spend("survey", eighth, key="week-1")
    ledger.reserve("survey", eighth, key="cancelled").cancel()
    ledger.reserve("survey", eighth, key="armed").arm()
    ledger.spend("hospital/images", ac.SelfComposedEvent(event=SAMPLED, count=10))
    lease = ledger.lease("clinic", ac.GaussianEvent(noise_multiplier=20.0), count=4, key="lease")
    lease.draw().arm()
    lease.close()
    ledger.spend("study", ac.ZcdpEvent(rho=0.01))
    ledger.create("hospital", epsilon=4.0, delta=1e-6, measure="rdp")
    ledger.spend(["hospital", "clinic"], ac.GaussianEvent(noise_multiplier=20.0))
    ledger.raise_cap("survey", epsilon=2.0, reason="second wave")
    ledger.lower_cap("study", epsilon=2.5, reason="less is enough")
    ledger.freeze("clinic", reason="incident")
    ledger.freeze("study", reason="incident")
    ledger.thaw("study", reason="resolved")


def told(ledger):
    """Return all that a ledger says."""
    reports = {}
    for name in ledger.scopes:
        report = ledger.report(name)
        reports[name] = {field.name: _plain(getattr(report, field.name)) for field in dataclasses.fields(report)} | {
            "odometer": ledger.odometer(name).epsilon
        }
    tickets = [[each.id, each.key, each.state.value, each.count] for each in ledger.tickets()]
    return {"head": str(ledger.head), "reports": reports, "tickets": tickets, "history": len(ledger.history())}


def _plain(value):
    value = getattr(value, "value", value)  # of an enumeration
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    socket.gethostname = lambda: "host"
    for make in (events, accountants, filters, sums, second_sums, plans, settings):
        (folder / f"{make.__name__}.json").write_text(json.dumps(make(), indent=1) + "\n")
    with fd.PrivacyLedger.open(folder / "ledger.db", program="make.py") as ledger:
        fill(ledger)
        (folder / "ledger.json").write_text(json.dumps(told(ledger), indent=1) + "\n")
        (folder / "ledger.jsonl").write_text("".join(f"{line}\n" for line in ledger.export()))


if __name__ == "__main__":
    main()
