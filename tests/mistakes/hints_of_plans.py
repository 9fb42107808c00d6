"""What refusals of plans, trainings, rounds and correlated noise offer, and calls that do it; see `hints.py`."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from hinted_objects import REPLACE, SPECIAL, STRATEGY, fresh, in_block, rounds, written
from mistaken_objects import planned

import ferrodp as fd
from ferrodp import correlated, federated, plan, training
from ferrodp.events import GaussianEvent
from support.hints import Hint

MANY = {"age": np.ones(400)}
AGES, NARROW = {"age": np.ones(9)}, {"age": np.ones(9, np.float32)}


def counted_ages(frame: Any, **payment: Any) -> Any:
    """Return how many ages a table has."""
    return fd.private_count(frame["age"], epsilon=1.0, **payment)


def summed_ages(frame: Any, most: int, payment: Any) -> Any:
    """Return the sum of ages, each at most so large."""
    return fd.private_sum(frame["age"], bounds=(0, 1 + most), epsilon=1.0, **payment)


def found_ages() -> Any:
    """Return the frequent ages of partitions, whose rows are elsewhere."""
    keys = fd.KeyThreshold(epsilon=1.0, delta=1e-6)
    return fd.distributed.private_statistic(
        [MANY], lambda frame, **pay: fd.private_group_by(frame, "age", keys=keys, **pay)
    )


def ages_by(keys: Any, frame: Any, payment: Any) -> Any:
    """Return how often ages are there."""
    return fd.private_group_by(frame, "age", keys=keys).count(epsilon=1.0, **payment)


def banded(bands: int, num_steps: int = 10, num_selected: int = 1) -> fd.PrivacyPlan:
    """Return a plan of random allocations and noise that cancels over so many steps."""
    return planned(
        sampling=plan.RandomAllocation(num_steps=num_steps, num_selected=num_selected),
        noise=plan.CorrelatedNoise(correlated.BandedToeplitz(num_steps=10, bands=bands), 1.0),
    )


def correlated_plan(**changes: Any) -> fd.PrivacyPlan:
    """Return a plan whose noise is correlated, with parts replaced."""
    noise = plan.CorrelatedNoise(noise_multiplier=1.0, strategy=correlated.BufferedToeplitz(num_steps=10, buffers=2))
    return planned(**{"noise": noise, "sampling": plan.FullBatch(), **changes})


PLANS = [
    Hint(
        "make rounds of 5 steps",
        lambda c: banded(bands=2, num_selected=2),
        lambda c: banded(bands=2, num_steps=5),
    ),
    Hint(
        "take a BandedToeplitz of at most 5 bands",
        lambda c: banded(bands=6),
        lambda c: banded(bands=5),
    ),
    Hint(
        "such as PoissonSampling(0.01)",
        lambda c: planned(sampling=0.01),
        lambda c: planned(sampling=plan.PoissonSampling(0.01)),
    ),
    Hint(
        "such as ferrodp.correlated.BufferedToeplitz(num_steps=100, buffers=3)",
        lambda c: plan.CorrelatedNoise(3, 1.0),
        lambda c: plan.CorrelatedNoise(fd.correlated.BufferedToeplitz(num_steps=100, buffers=3), 1.0),
    ),
    Hint(
        "make the strategy with num_steps=11",
        lambda c: correlated_plan(num_steps=11),
        lambda c: planned(
            num_steps=11,
            sampling=plan.FullBatch(),
            noise=plan.CorrelatedNoise(
                noise_multiplier=1.0, strategy=correlated.BufferedToeplitz(num_steps=11, buffers=2)
            ),
        ),
    ),
    Hint(
        "use CyclicPoisson(1.0, num_parts=...) for epochs in a fixed order",
        lambda c: correlated_plan(sampling=plan.PoissonSampling(0.1)),
        lambda c: (
            correlated_plan(
                sampling=plan.CyclicPoisson(1.0, num_parts=5), neighboring_relation=SPECIAL, population_size=50
            ),
            correlated_plan(),
        ),
    ),
    Hint(
        "take a BandedToeplitz of fewer bands, or probability 1.0",
        lambda c: planned(
            sampling=plan.CyclicPoisson(0.5, num_parts=2),
            neighboring_relation=SPECIAL,
            population_size=50,
            noise=plan.CorrelatedNoise(noise_multiplier=1.0, strategy=correlated.BandedToeplitz(num_steps=10, bands=3)),
        ),
        lambda c: planned(
            sampling=plan.CyclicPoisson(0.5, num_parts=2),
            neighboring_relation=SPECIAL,
            population_size=50,
            noise=plan.CorrelatedNoise(noise_multiplier=1.0, strategy=correlated.BandedToeplitz(num_steps=10, bands=2)),
        ),
    ),
    Hint(
        "start it with ledger= and scope=, which charge all its steps together",
        lambda c: in_block(lambda: correlated_plan().start((3,))),
        lambda c: correlated_plan(noise=strong()).start((3,), ledger=c.ledger, scope="hospital/images"),
    ),
    Hint(
        "for example key='training', noise_file='training.noise'",
        lambda c: correlated_plan(noise=strong()).start((3,), ledger=c.ledger, scope="hospital/images", key="training"),
        lambda c: correlated_plan(noise=strong()).start(
            (3,), ledger=c.ledger, scope="hospital/images", key="training", noise_file=fresh("training.noise")
        ),
    ),
    Hint(
        "go on from a saved state instead",
        lambda c: planned().start((3,), key="training"),
        lambda c: plan.PlanRun.from_state(planned().start((3,)).state()),
    ),
    Hint(
        "call its release(), for an empty or unwanted batch too",
        lambda c: (run := planned().start((3,)), next(run), next(run)),
        lambda c: (run := planned().start((3,)), next(run).release(denominator=1), next(run)),
    ),
    Hint(
        "see PlanRun.state",
        lambda c: pickle.dumps(planned().start((3,))),
        lambda c: planned().start((3,)).state(),
    ),
    Hint(
        "add each of them exactly once",
        lambda c: (step := next(planned(population_size=9, sampling=plan.FullBatch()).start((3,))), step.release()),
        lambda c: (
            step := next(planned(population_size=9, sampling=plan.FullBatch()).start((3,))),
            step.add(np.zeros((9, 3))),
            step.release(),
        ),
    ),
    Hint(
        "plan.to_json() writes it, and a file is read with Path(name).read_text()",
        lambda c: fd.PrivacyPlan.from_json("plan.json"),
        lambda c: fd.PrivacyPlan.from_json(written(planned().to_json().encode(), "plan.json").read_text()),
    ),
    Hint(
        "add the vectors to the step, or plan with FlatClipping",
        lambda c: next(planned(clipping=plan.L1Clipping(1.0)).start((3,))).release_sum(np.zeros(3), denominator=1),
        lambda c: (
            laplace_release(),
            next(planned().start((3,))).release_sum(np.zeros(3), denominator=1),
        ),
    ),
    Hint(
        "audit_canaries=1000 at the start, and a step that was released",
        lambda c: planned().start((3,)).audit(1e-5),
        lambda c: audited(),
    ),
    Hint(
        "such as LocalPlacement()",
        lambda c: federated.PlacedRun(placed(), {"w": np.zeros(3)}, 3),
        lambda c: federated.PlacedRun(placed(), {"w": np.zeros(3)}, federated.LocalPlacement()),
    ),
    Hint(
        "start it with checkpoint=RoundCheckpoint(path)",
        lambda c: rounds().save({"w": np.zeros(3)}),
        lambda c: rounds(checkpoint=federated.RoundCheckpoint(fresh("training.round"))).save({"w": np.zeros(3)}),
    ),
    Hint(
        "call save(arrays)",
        lambda c: next(rounds(checkpoint=federated.RoundCheckpoint(fresh("training.round")))),
        lambda c: (
            run := rounds(checkpoint=federated.RoundCheckpoint(fresh("training.round"))),
            run.save({"w": np.zeros(3)}),
            next(run),
        ),
    ),
    Hint(
        "for example key='training-1'",
        lambda c: rounds(
            checkpoint=federated.RoundCheckpoint(fresh("training.round")), ledger=c.ledger, scope="hospital/images"
        ),
        lambda c: rounds(
            checkpoint=federated.RoundCheckpoint(fresh("training.round")),
            ledger=c.ledger,
            scope="hospital/images",
            key="training-1",
        ),
    ),
    Hint(
        "for example 'training.round'",
        lambda c: federated.RoundCheckpoint(3),
        lambda c: federated.RoundCheckpoint("training.round"),
    ),
    Hint(
        "name another file",
        lambda c: federated.RoundCheckpoint(written(b"x", "training.round")),
        lambda c: federated.RoundCheckpoint(fresh("other.round")),
    ),
    Hint(
        "for example max_clients=20",
        lambda c: federated.SecureSum((3,), clip_norm=1.0, noise_multiplier=1.0, min_clients=20, max_clients=10),
        lambda c: federated.SecureSum((3,), clip_norm=1.0, noise_multiplier=1.0, min_clients=20, max_clients=20),
    ),
    Hint(
        "such as ('pld', 'rdp')",
        lambda c: training.PrivacyMonitor(1e-5, measures="pld"),
        lambda c: training.PrivacyMonitor(1e-5, measures=("pld", "rdp")),
    ),
    Hint(
        "an Optimizer such as SGD(0.1)",
        lambda c: fitted(optimizer=3),
        lambda c: fitted(optimizer=training.SGD(0.1)),
    ),
    Hint(
        "a sequence of labels such as range(10)",
        lambda c: training.train(np.zeros((4, 2)), [0, 1, 0, 1], classes=3, epsilon=1.0, delta=1e-5),
        lambda c: training.train(np.zeros((4, 2)), [0, 1, 0, 1], classes=range(10), epsilon=1.0, delta=1e-5),
    ),
    Hint(
        "as stated, and hold another number",
        lambda c: fd.distributed.clipped_sum([np.zeros((2, 3))], (3,), clip_norm=1.0, stacked=True, expected_count=3),
        lambda c: fd.distributed.clipped_sum([np.zeros((2, 3))], (3,), clip_norm=1.0, stacked=True, expected_count=2),
    ),
    Hint(
        "convert them in load",
        lambda c: fd.distributed.private_statistic([AGES, NARROW], counted_ages),
        lambda c: fd.distributed.private_statistic(
            [AGES, NARROW], counted_ages, load=lambda part: {"age": part["age"].astype(float)}
        ),
    ),
    Hint(
        "write them into the function",
        lambda c: fd.distributed.private_statistic(
            [AGES], lambda frame, **pay: summed_ages(frame, len(frame["age"]), pay)
        ),
        lambda c: fd.distributed.private_statistic([AGES], lambda frame, **pay: summed_ages(frame, 120, pay)),
    ),
    Hint(
        "private_group_by(frame, ..., keys=groups.keys) in private_statistic",
        lambda c: found_ages().count(epsilon=1.0),
        lambda c: fd.distributed.private_statistic([MANY], lambda frame, **pay: ages_by(found_ages().keys, frame, pay)),
    ),
    Hint(
        "use a ledger",
        lambda c: pickle.dumps(fd.engine.DifferentialPrivacyEngine(fd.engine.DPConfig())),
        lambda c: c.ledger.spend("hospital/images", GaussianEvent(noise_multiplier=100.0)),
    ),
]
"""Of plans, trainings, rounds and engines."""


def strong() -> plan.CorrelatedNoise:
    """Return correlated noise that fits into the ledger."""
    return plan.CorrelatedNoise(noise_multiplier=5e3, strategy=correlated.BufferedToeplitz(num_steps=10, buffers=2))


def laplace_release() -> object:
    """Add a vector to a step with Laplace noise."""
    step = next(planned(clipping=plan.L1Clipping(1.0), sampling=plan.FullBatch(), population_size=1).start((3,)))
    step.add(np.ones((1, 3)))
    return step.release()


def audited() -> object:
    """Audit a run of one step."""
    run = planned().start((3,), audit_canaries=1000)
    next(run).release(denominator=1)
    return run.audit(1e-5)


def placed() -> fd.PrivacyPlan:
    """Return a plan whose noise clients can draw."""
    return planned(unit="client", population_size=100, sampling=plan.FullBatch(), neighboring_relation=REPLACE)


def fitted(optimizer: Any) -> object:
    """Fit nothing in one step."""
    run = planned(num_steps=1, population_size=100).start((3,))
    return training.fit(run, np.zeros(3), lambda weights, step: np.zeros((len(step.indices), 3)), optimizer=optimizer)


def stored_noise(c: Any) -> tuple[dict[str, Any], Path]:
    """Return how a training whose noise is in a file is started, and that file, after one step."""
    path = fresh("training.noise")
    started = {"ledger": c.ledger, "scope": "hospital/images", "key": str(path), "noise_file": path}
    with correlated_plan(noise=strong()).start((3,), **started) as run:
        next(run).release(denominator=1)
    return started, path


def lost_noise(c: Any) -> object:
    """Go on with a training whose noise is lost."""
    started, path = stored_noise(c)
    path.unlink()
    return correlated_plan(noise=strong()).start((3,), **started)


DISCRETE_STEP = {"mechanism": fd.engine.NoiseMechanism.DISCRETE_GAUSSIAN, "sampling_rate": 0.1}


def kept(run: Any) -> object:
    """Release a step of a run that keeps its sums."""
    run.keep_sums(lambda found: None)
    return next(run).release(denominator=1)


HINTS = [
    *PLANS,
    Hint(
        "must be a str of JSON, got dict; strategy.to_json() writes it",
        lambda c: correlated.Strategy.from_json({}),
        lambda c: correlated.Strategy.from_json(STRATEGY.to_json()),
    ),
    Hint(
        "; strategy.to_json() writes it",
        lambda c: correlated.Strategy.from_json("strategy.json"),
        lambda c: correlated.Strategy.from_json(STRATEGY.to_json()),
    ),
    Hint(
        "text must be a strategy: format",
        lambda c: correlated.Strategy.from_json("{}"),
        lambda c: correlated.Strategy.from_json(STRATEGY.to_json()),
    ),
    Hint(
        "must be a str of JSON, got dict; plan.to_json() writes it",
        lambda c: fd.PrivacyPlan.from_json({}),
        lambda c: fd.PrivacyPlan.from_json(planned().to_json()),
    ),
    Hint(
        "text must be a plan: format",
        lambda c: fd.PrivacyPlan.from_json("{}"),
        lambda c: fd.PrivacyPlan.from_json(planned().to_json()),
    ),
    Hint(
        "for example ledger=ledger, scope='app', key='training', noise_file='training.noise'",
        lambda c: federated.FederatedRun(
            correlated_plan(unit="client", population_size=100, noise=strong()),
            {"w": np.zeros(3)},
            checkpoint=federated.RoundCheckpoint(fresh("training.round")),
        ),
        lambda c: (
            rounds(checkpoint=federated.RoundCheckpoint(fresh("training.round"))),
            federated.FederatedRun(
                correlated_plan(unit="client", population_size=100, noise=strong()),
                {"w": np.zeros(3)},
                ledger=c.ledger,
                scope="hospital/images",
                key="rounds",
                checkpoint=federated.RoundCheckpoint(fresh("training.round")),
                noise_file=fresh("training.noise"),
            ),
        ),
    ),
    Hint(
        "which pays for a release with fresh noise; start it with ledger= and scope=",
        lambda c: in_block(lambda: kept(planned(num_steps=1, noise=plan.ConstantNoise(100.0)).start((3,)))),
        lambda c: kept(
            planned(num_steps=1, noise=plan.ConstantNoise(100.0)).start((3,), ledger=c.ledger, scope="hospital/images")
        ),
    ),
    Hint(
        "call it before",
        lambda c: (run := planned().start((3,)), next(run), run.keep_sums(print)),
        lambda c: (run := planned().start((3,)), run.keep_sums(print), next(run)),
    ),
    Hint(
        "begin another training, under another key",
        lost_noise,
        stored_noise,
    ),
    Hint(
        "name a new file",
        lambda c: correlated_plan(noise=strong()).start(
            (3,), ledger=c.ledger, scope="hospital/images", key="t", noise_file=written(b"x", "training.noise")
        ),
        lambda c: correlated_plan(noise=strong()).start(
            (3,), ledger=c.ledger, scope="hospital/images", key="t", noise_file=fresh("training.noise")
        ),
    ),
    Hint(
        "such as ConstantNoise, got CorrelatedNoise",
        lambda c: federated.PlacedRun(
            planned(
                unit="client",
                population_size=100,
                sampling=plan.FullBatch(),
                neighboring_relation=REPLACE,
                noise=strong(),
            ),
            {"w": np.zeros(3)},
            federated.LocalPlacement(),
        ),
        lambda c: federated.PlacedRun(placed(), {"w": np.zeros(3)}, federated.LocalPlacement()),
    ),
    Hint(
        "has no bound for",
        lambda c: fd.engine.DifferentialPrivacyEngine(
            fd.engine.DPConfig(accounting=fd.engine.AccountingMethod.ZCDP, **DISCRETE_STEP)
        ).compute_privacy_spent(fd.engine.DPConfig(accounting=fd.engine.AccountingMethod.ZCDP, **DISCRETE_STEP), 3),
        lambda c: fd.engine.DifferentialPrivacyEngine(
            fd.engine.DPConfig(accounting=fd.engine.AccountingMethod.RENYI, **DISCRETE_STEP)
        ).compute_privacy_spent(fd.engine.DPConfig(accounting=fd.engine.AccountingMethod.RENYI, **DISCRETE_STEP), 3),
    ),
]
