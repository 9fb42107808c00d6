"""Mistakes that people make, and what they are told: the parameter, the value, what is allowed, the way out.

Each entry is a name, the call, and words that its message must have. The first half is what newcomers ran into;
the second are others of the same kinds, in all rooms; the last are those of each kind of user.
"""

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ferrodp as fd
from ferrodp import accounting, audit, distributed, engine, plan, statistics, training
from ferrodp.accounting import reports
from ferrodp.events import GaussianEvent, LaplaceEvent, PoissonSampledEvent

EVENT = GaussianEvent(noise_multiplier=10.0)
COLUMN = np.arange(10.0)
FRAME = {"region": ["n", "s"], "age": [1.0, 2.0]}
GAUSSIAN = fd.GaussianMechanism(noise_multiplier=2.0, l2_sensitivity=1.0)
DISCRETE = fd.DiscreteGaussianMechanism(scale=2.0, l2_sensitivity=1.0)


def planned(**changes: Any) -> fd.PrivacyPlan:
    """Return a plan, with parts replaced by mistakes."""
    parts = {
        "sampling": plan.PoissonSampling(probability=0.01),
        "clipping": plan.FlatClipping(clip_norm=1.0),
        "noise": plan.ConstantNoise(noise_multiplier=1.0),
        "num_steps": 10,
    }
    return fd.PrivacyPlan(**{**parts, **changes})


Mistake = tuple[str, Callable[[Any], object], tuple[str, ...]]

FOUND: list[Mistake] = [
    ("text released", lambda c: DISCRETE.release("12"), ("value must be", "number", "got str", "numpy.asarray")),
    ("nothing released", lambda c: GAUSSIAN.release(None), ("value must be", "got NoneType")),
    (
        "a path to an engine",
        lambda c: engine.DifferentialPrivacyEngine(engine.DPConfig(), ledger="fl.db", scope="a"),
        ("ledger must be an open PrivacyLedger", "got str", "PrivacyLedger.open('fl.db')"),
    ),
    (
        "a path to a plan",
        lambda c: planned().start({"w": (3,)}, ledger=c.path, scope="p"),
        ("ledger must be an open PrivacyLedger", "PrivacyLedger.open("),
    ),
    (
        "an address with a password",
        lambda c: planned().start({"w": (3,)}, ledger="postgresql://u:geheim@h/db", scope="p"),
        ("ledger must be an open PrivacyLedger", "the address"),
    ),
    (
        "a number of bins",
        lambda c: statistics.private_histogram(COLUMN, bins=10, epsilon=1.0),
        ("bins must be one-dimensional", "numpy.linspace(low, high, 10 + 1)"),
    ),
    (
        "a dimension not said",
        lambda c: DISCRETE.release(np.zeros(4, np.int64)),
        ("dimension=1", "got 4", "make the mechanism with dimension=4"),
    ),
    (
        "a misspelt scope",
        lambda c: c.ledger.spend("hospital/image", EVENT),
        ("scope 'hospital/image' does not exist", "did you mean 'hospital/images'", "'p'", "create"),
    ),
    (
        "another misspelt scope",
        lambda c: c.ledger.report("hospital/imges"),
        ("'hospital/imges' does not exist", "did you mean 'hospital/images'"),
    ),
    ("a scope of an empty ledger", lambda c: c.empty.report("a"), ("scope 'a' does not exist", "has none", "create")),
    (
        "a misspelt keyword",
        lambda c: fd.GaussianMechanism(noise_multiplyer=1.0, l2_sensitivity=1.0),
        ("'noise_multiplyer'", "did you mean 'noise_multiplier'", "l2_sensitivity"),
    ),
    (
        "another library's keyword",
        lambda c: fd.GaussianMechanism(sigma=1.0, l2_sensitivity=1.0),
        ("GaussianMechanism() got an unknown keyword argument 'sigma'", "did you mean 'noise_multiplier'"),
    ),
    (
        "the deviation for the multiplier",
        lambda c: fd.GaussianMechanism(standard_deviation=1.0, l2_sensitivity=1.0),
        ("'standard_deviation'", "did you mean 'noise_multiplier'"),
    ),
    (
        "a target for a mechanism",
        lambda c: fd.ExponentialMechanism(epsilon=1.0, sensitivity=1.0),
        ("ExponentialMechanism() got an unknown keyword argument 'epsilon'", "it takes scale, sensitivity"),
    ),
    (
        "a target for randomized response",
        lambda c: fd.RandomizedResponse(epsilon=1.0, num_categories=2),
        ("'epsilon'", "it takes noise_parameter, num_categories"),
    ),
    (
        "a misspelt relation",
        lambda c: accounting.RdpAccountant(neighboring_relation="replace-one"),
        ("neighboring_relation must be one of", "replace_one", "got 'replace-one'", "did you mean 'replace_one'"),
    ),
    (
        "a relation of another type",
        lambda c: accounting.RdpAccountant(neighboring_relation=1),
        ("neighboring_relation must be", "add_or_remove_one", "got int"),
    ),
    ("a seed that is a number", lambda c: fd.testing.seeded(1), ("seed must be 32 bytes, got int", "bytes(32)")),
    ("a short seed", lambda c: fd.testing.seeded(b"1"), ("seed must be 32 bytes, got 1", "bytes(32)")),
    (
        "a whole state",
        lambda c: accounting.from_opacus_history({"history": [(1.0, 0.01, 10)], "mechanism": "rdp"}),
        ("history must be a list of triples", "state_dict['history']"),
    ),
    (
        "numbers for triples",
        lambda c: accounting.from_opacus_history([1.0, 0.01, 10]),
        ("history must hold triples", "accountant.history", "got float"),
    ),
    ("a ledger in memory", lambda c: fd.PrivacyLedger.open(":memory:"), ("where must be a file", "':memory:'")),
    ("a ledger made by hand", lambda c: fd.PrivacyLedger(c.path), ("PrivacyLedger.open(where)",)),
    ("a folder", lambda c: fd.PrivacyLedger.open(Path(c.path).parent), ("is not a regular file",)),
    (
        "another database",
        lambda c: fd.PrivacyLedger.open("mysql://u:geheim@h/db"),
        ("where must be a file", "begins with postgresql://"),
    ),
    (
        "a file that is not there",
        lambda c: fd.PrivacyLedger.open(c.path + "x", create=False),
        ("does not exist", "create=True", "ferrodp ledger create"),
    ),
    (
        "an epsilon for an event",
        lambda c: c.ledger.spend("p", 0.1),
        ("event must be", "EpsilonDeltaEvent(epsilon=0.1)"),
    ),
    (
        "a dict for an event",
        lambda c: c.ledger.spend("p", EVENT.to_dict()),
        ("event must be a privacy event, got dict", "PrivacyEvent.from_dict"),
    ),
    (
        "a mechanism for an event",
        lambda c: accounting.RdpAccountant().compose(GAUSSIAN),
        ("event must be a privacy event, got GaussianMechanism", "GaussianMechanism.event"),
    ),
    ("noise by position", lambda c: GaussianEvent(1.0), ("GaussianEvent() takes noise_multiplier by keyword",)),
    (
        "a key for a ticket",
        lambda c: GAUSSIAN.release(1.0, ticket="k"),
        ("ticket must be", "got str", "ledger.reserve"),
    ),
    (
        "a ledger for a ticket",
        lambda c: GAUSSIAN.release(1.0, ticket=c.ledger),
        ("ticket must be a Ticket", "got PrivacyLedger", "ledger.reserve(scope, event)"),
    ),
    (
        "a seed for a source",
        lambda c: GAUSSIAN.release(1.0, source=42),
        ("source must be a NoiseSource", "got int", "ferrodp.testing.seeded"),
    ),
    (
        "a mechanism by a wrong name",
        lambda c: engine.DPConfig(mechanism="gausian"),
        ("mechanism must be", '"gaussian"', "'gausian'", "did you mean 'gaussian'"),
    ),
    (
        "the old name of a field",
        lambda c: engine.DPConfig(accounting_method="rdp"),
        ("'accounting_method'", "did you mean 'accounting'"),
    ),
    (
        "an accountant in capitals",
        lambda c: accounting.calibrate_noise_multiplier(target_epsilon=1.0, target_delta=1e-5, accountant="PLD"),
        ("accountant must be one of", "got 'PLD'", "did you mean 'pld'"),
    ),
    (
        "a measure in capitals",
        lambda c: c.ledger.create("x", epsilon=1.0, delta=1e-6, measure="RDP"),
        ("measure must be", "got 'RDP'", "did you mean 'rdp'"),
    ),
    ("a misspelt class", lambda c: fd.GausianMechanism, ("'GausianMechanism'", "did you mean 'GaussianMechanism'")),
    ("a class in capitals", lambda c: accounting.RDPAccountant, ("did you mean 'RdpAccountant'",)),
    (
        "a scope without its ledger",
        lambda c: planned().start({"w": (3,)}, scope="p"),
        ("ledger and scope must be given together", "ledger is missing"),
    ),
]

OTHERS: list[Mistake] = [
    (
        "a ledger without its scope",
        lambda c: planned().start({"w": (3,)}, ledger=c.ledger),
        ("ledger and scope must be given together", "scope is missing"),
    ),
    (
        "something else as a ledger",
        lambda c: planned().start({"w": (3,)}, ledger=42, scope="p"),
        ("ledger must be an open PrivacyLedger or None, got int",),
    ),
    ("a negative deviation", lambda c: fd.GaussianMechanism(noise_multiplier=-1, l2_sensitivity=1), ("> 0", "got -1")),
    ("a percentage", lambda c: PoissonSampledEvent(sampling_probability=1.5, event=EVENT), ("in [0, 1]", "got 1.5")),
    ("a number in an event", lambda c: PoissonSampledEvent(sampling_probability=0.5, event=2.0), ("event must be",)),
    ("a delta of 1", lambda c: accounting.RdpAccountant().epsilon(1), ("delta must be", "(0, 1)", "got 1")),
    ("epsilon and delta exchanged", lambda c: accounting.PldAccountant().epsilon(2.0), ("delta must be", "got 2.0")),
    ("a count of text", lambda c: accounting.RdpAccountant().compose(EVENT, "3"), ("count must be an int, got str",)),
    ("half a step", lambda c: accounting.RdpAccountant().compose(EVENT, 2.5), ("count must be an int, got float",)),
    (
        "a target of zero",
        lambda c: accounting.calibrate_noise_multiplier(target_epsilon=0, target_delta=1e-5),
        ("target_epsilon must be finite and > 0, got 0",),
    ),
    ("a misspelt witness", lambda c: fd.PrivacyLedger.open(c.path, witness="12"), ("witness must be", "got '12'")),
    (
        "a misspelt check",
        lambda c: fd.PrivacyLedger.open(c.path, verify="nwe"),
        ("verify must be", "did you mean 'new'"),
    ),
    ("no place", lambda c: fd.PrivacyLedger.open(None), ("must be a str or a path, got NoneType",)),
    (
        "a scope with two slashes",
        lambda c: c.ledger.create("a//b", epsilon=1, delta=1e-6),
        ("name must be a path", "a//b"),
    ),
    ("no delta", lambda c: c.ledger.create("a", epsilon=1, delta=0), ("delta must be", "(0, 1)", "got 0")),
    ("a sampling rate for sampling", lambda c: planned(sampling=0.01), ("sampling must be", "got float")),
    ("a norm for clipping", lambda c: planned(clipping=1.0), ("clipping must be", "got float")),
    ("a multiplier for noise", lambda c: planned(noise=1.0), ("noise must be", "got float")),
    ("half a step of a plan", lambda c: planned(num_steps=10.5), ("num_steps must be an int", "got float")),
    ("a plan's delta", lambda c: planned().epsilon(10), ("delta must be", "got 10")),
    ("text that is no plan", lambda c: fd.PrivacyPlan.from_json("x"), ("must be JSON",)),
    ("JSON that is no plan", lambda c: fd.PrivacyPlan.from_json("{}"), ("must be a plan", "got None")),
    ("a negative target", lambda c: planned().max_steps(epsilon=-1, delta=1e-5), ("epsilon must be", "got -1")),
    ("a negative rate", lambda c: training.SGD(learning_rate=-1), ("learning_rate must be", ">= 0", "got -1")),
    ("lr", lambda c: training.SGD(lr=0.1), ("'lr'", "did you mean 'learning_rate'")),
    (
        "a negative norm",
        lambda c: distributed.clipped_sum([[COLUMN]], COLUMN, clip_norm=-1),
        ("clip_norm must be", "-1"),
    ),
    (
        "the name of an executor",
        lambda c: distributed.clipped_sum([[COLUMN]], COLUMN, clip_norm=1, executor="threads"),
        ("executor must be a concurrent.futures.Executor, got str",),
    ),
    (
        "too few draws",
        lambda c: audit.audit_mechanism(GAUSSIAN, epsilon=1.0, delta=1e-5, draws=10),
        ("draws must be an int from 100", "got 10"),
    ),
    ("an update of another shape", lambda c: fd.ClippedSum((3,), clip_norm=1).add(np.zeros(4)), ("(3,)", "(4,)")),
    (
        "an update of other names",
        lambda c: fd.ClippedSum({"a": (3,)}, clip_norm=1).add({"b": np.zeros(3)}),
        ("keys of the template", "'a' is missing"),
    ),
    (
        "sums of integers",
        lambda c: fd.ClippedSum((3,), clip_norm=1, dtype=np.int32),
        ("dtype must be float32 or float64", "int32"),
    ),
    (
        "sigma of a sum",
        lambda c: fd.ClippedSum((3,), clip_norm=1).release(sigma=1),
        ("'sigma'", "did you mean 'noise_multiplier'"),
    ),
    ("a row for rows", lambda c: fd.clip_rows(np.zeros(3), clip_norm=1), ("2 dimensions, rows and columns, got 1",)),
    ("one bound", lambda c: fd.private_sum(COLUMN, bounds=5, epsilon=1), ("bounds must be a pair", "got 5")),
    ("bounds exchanged", lambda c: fd.private_sum(COLUMN, bounds=(5, 1), epsilon=1), ("ascending order", "(5, 1)")),
    ("a table for a column", lambda c: fd.private_count(np.zeros((2, 2)), epsilon=1), ("one-dimensional, got 2",)),
    (
        "a path to a statistic",
        lambda c: fd.private_count(COLUMN, epsilon=1, source="b.db"),
        ("source must be", "got str"),
    ),
    ("eps", lambda c: fd.private_count(COLUMN, eps=1), ("'eps'", "did you mean 'epsilon'")),
    ("floats for integers", lambda c: DISCRETE.release(1.5), ("int32 or int64", "float64", ".astype(int64)")),
    ("Laplace by position", lambda c: LaplaceEvent(1.0), ("LaplaceEvent() takes noise_multiplier by keyword",)),
]

MORE: list[Mistake] = [
    # those of statisticians
    ("no bounds", lambda c: fd.private_mean(COLUMN, epsilon=1), ("private_mean() is missing 'bounds'", "bounds is ")),
    (
        "bounds left to the library",
        lambda c: fd.private_mean(COLUMN, bounds=None, epsilon=1),
        ("bounds must be a pair (lower, upper)", "got None"),
    ),
    (
        "a quantile in percent",
        lambda c: fd.private_quantile(COLUMN, quantile=95, bounds=(0, 9), epsilon=1),
        ("quantile must be", "[0, 1]", "got 95", "for 95 % write 0.95"),
    ),
    (
        "a level in percent",
        lambda c: fd.private_count(COLUMN > 1, epsilon=1).interval(95),
        ("level must be", "[0, 1]", "got 95", "write 0.95"),
    ),
    (
        "q for a quantile",
        lambda c: fd.private_quantile(COLUMN, q=0.5, bounds=(0, 9), epsilon=1),
        ("'q'", "did you mean 'quantile'"),
    ),
    (
        "one quantile for several",
        lambda c: fd.private_quantiles(COLUMN, quantiles=0.5, bounds=(0, 9), epsilon=1),
        ("quantiles must be a sequence", "between 0 and 1", "got float", "[0.25, 0.5, 0.75]"),
    ),
    (
        "a misspelt column",
        lambda c: fd.private_group_by(FRAME, "regoin", keys=["n"]),
        ("frame must have a column 'regoin'", "it has region, age", "did you mean 'region'"),
    ),
    (
        "a misspelt column of sums",
        lambda c: fd.release(FRAME, sums={"agee": (0, 1)}, epsilon=1),
        ("column 'agee'", "it has region, age", "did you mean 'age'"),
    ),
    (
        "keys left to the library",
        lambda c: fd.private_group_by(FRAME, "region", keys="auto"),
        ("keys must be a list of public keys", "got str 'auto'", "KeyThreshold(epsilon=..., delta=...)"),
    ),
    ("no keys", lambda c: fd.private_group_by(FRAME, "region"), ("is missing 'keys'", "KeyThreshold")),
    (
        "a list for sums",
        lambda c: fd.release(FRAME, sums=["age"], epsilon=1),
        ("sums must be a dict", "got list", '{"age": (0, 120)}'),
    ),
    (
        "neither bins nor categories",
        lambda c: fd.private_histogram(COLUMN, epsilon=1),
        ("exactly one of bins and categories", "numpy.linspace", "categories=[...]"),
    ),
    (
        "a set for a column",
        lambda c: fd.private_sum({1, 2}, bounds=(0, 1), epsilon=1),
        ("values must be", "got set", "sorted(...)"),
    ),
    (
        "text for numbers",
        lambda c: fd.private_mean(["n", "s"], bounds=(0, 1), epsilon=1),
        ("values must be numbers", "got strings"),
    ),
    (
        "an estimate and an estimate",
        lambda c: fd.private_count([True], epsilon=1) + fd.private_count([True], epsilon=1),
        ("two estimates are combined by their values", "a.value + b.value"),
    ),
    (
        "an estimate as a condition",
        lambda c: bool(fd.private_count([True], epsilon=1)),
        ("neither true nor false", "estimate.value > 0"),
    ),
    ("no epsilon", lambda c: fd.private_count(COLUMN), ("epsilon must be given",)),
    ("epsilon as text", lambda c: fd.private_count(COLUMN, epsilon="1"), ("epsilon must be a real number", "got str")),
    # those of learners
    (
        "delta for Laplace noise",
        lambda c: fd.LaplaceMechanism.calibrated(epsilon=1, delta=1e-5, l1_sensitivity=1),
        ("LaplaceMechanism.calibrated()", "'delta'", "it takes epsilon, l1_sensitivity"),
    ),
    (
        "no delta for Gaussian noise",
        lambda c: fd.GaussianMechanism.calibrated(epsilon=1, l2_sensitivity=1),
        ("is missing 'delta'", "In (0, 1)"),
    ),
    ("epsilon of a mechanism alone", lambda c: GAUSSIAN.epsilon(), ("is missing 'delta'", "In (0, 1)")),
    (
        "a name of another room",
        lambda c: accounting.plot_privacy_profile,
        ("'plot_privacy_profile'", "it is ferrodp.accounting.reports.plot_privacy_profile"),
    ),
    ("a name of a room", lambda c: fd.PldAccountant, ("'PldAccountant'", "it is ferrodp.accounting.PldAccountant")),
    ("a short name", lambda c: fd.Laplace, ("'Laplace'", "did you mean 'LaplaceMechanism'")),
    (
        "a dict of utilities",
        lambda c: fd.ExponentialMechanism(scale=1, sensitivity=1).release({"a": 1}),
        ("utilities must be", "got dict", "list(....values())"),
    ),
    ("a complex number", lambda c: GAUSSIAN.release(1j), ("value must be", "got complex", "real and imaginary")),
    (
        "a list of accountants",
        lambda c: reports.plot_privacy_profile([accounting.PldAccountant()]),
        ("accountants must be accountants", "got list", "{name: accountant}"),
    ),
    # those of engineers of federated learning
    (
        "too few clients at most",
        lambda c: secure(min_clients=10, max_clients=5),
        ("max_clients must be at least min_clients + num_dishonest = 10", "got 5"),
    ),
    (
        "no number of clients",
        lambda c: fd.federated.SecureSum((3,), clip_norm=1, noise_multiplier=1, min_clients=2),
        ("SecureSum() is missing 'max_clients'", "Messages in a sum, at most"),
    ),
    ("a length for a shape", lambda c: fd.ClippedSum(3, clip_norm=1), ("template must be", "got int", "(length,)")),
    (
        "nothing for a shape",
        lambda c: fd.ClippedSum(None, clip_norm=1),
        ("template must be", "got NoneType", "(length,)"),
    ),
    (
        "a weight for an update",
        lambda c: fd.ClippedSum((3,), clip_norm=1).add(np.zeros(3), weight=2),
        ("'weight'", "it takes update, threads"),
    ),
    (
        "a list for a model",
        lambda c: fd.ClippedSum({"a": (3,)}, clip_norm=1).add([1, 2, 3]),
        ("update must be a dict as in the template", "got list"),
    ),
    (
        "a rate above 1",
        lambda c: engine.DPConfig(sampling_rate=10),
        ("sampling_rate must be", "[0, 1]", "got 10", "for 10 % write 0.1"),
    ),
    # those of users of DP-SGD
    (
        "a batch size",
        lambda c: reports.dp_sgd_epsilon(noise_multiplier=1, batch_size=256, count=9, delta=1e-5),
        ("'batch_size'", "did you mean 'sampling_probability'"),
    ),
    (
        "a target without its name",
        lambda c: accounting.calibrate_noise_multiplier(epsilon=1, delta=1e-5),
        ("'epsilon'", "did you mean 'target_epsilon'"),
    ),
    (
        "a target out of reach",
        lambda c: accounting.calibrate_noise_multiplier(target_epsilon=1e-9, target_delta=1e-12, count=10**9),
        ("no noise_multiplier from", "allow more epsilon or delta, or fewer releases"),
    ),
    (
        "an optimizer by name",
        lambda c: training.fit(planned(population_size=9).start((3,)), np.zeros(3), lambda w, s: w, optimizer="sgd"),
        ("optimizer must be an Optimizer", "SGD(0.1)", "got str"),
    ),
    ("a unit of another name", lambda c: planned(unit="user"), ("unit must be", '"client"', "got 'user'")),
    (
        "two kinds of accountants",
        lambda c: accounting.PldAccountant().merge(accounting.RdpAccountant()),
        ("other must be a PldAccountant", "got RdpAccountant"),
    ),
    (
        "an accountant that cannot",
        lambda c: accounting.GdpAccountant().compose(PoissonSampledEvent(sampling_probability=0.1, event=EVENT)),
        ("GdpAccountant cannot bound PoissonSampledEvent", "use PldAccountant"),
    ),
    # those of operators
    ("a charge without a scope", lambda c: c.ledger.spend(event=EVENT), ("is missing 'scopes'",)),
    (
        "a larger budget that is smaller",
        lambda c: c.ledger.raise_cap("hospital/images", epsilon=1, reason="x"),
        ("epsilon and delta must be at least what they are, 4.0", "got 1.0", "lower_cap"),
    ),
    (
        "a smaller budget that is larger",
        lambda c: c.ledger.lower_cap("hospital/images", epsilon=9, reason="x"),
        ("must be at most what they are, 4.0", "got 9.0", "raise_cap"),
    ),
    (
        "a change without a reason",
        lambda c: c.ledger.raise_cap("hospital/images", epsilon=9),
        ("is missing 'reason'", "Goes into the log"),
    ),
    (
        "an unknown ticket",
        lambda c: c.ledger.cancel_ticket("abc", reason="x"),
        ("ticket abc is not in this ledger", "tickets() lists"),
    ),
    (
        "a state that is none",
        lambda c: c.ledger.tickets(states=["open"]),
        ("states must be one of 'held'", "got 'open'"),
    ),
    (
        "a folder that is not there",
        lambda c: fd.PrivacyLedger.open(c.path + "/../none/b.db"),
        ("there is no directory", "make it first"),
    ),
    ("a pickled ledger", lambda c: pickle.dumps(c.ledger), ("cannot be copied or pickled", "open it again")),
    ("a statement without delta", lambda c: fd.statement(GAUSSIAN), ("delta must be given", "such as 1e-6")),
    ("a statement of a ledger", lambda c: fd.statement(c.ledger), ("scope must be given", "'hospital/images'")),
    (
        "a scope that exists",
        lambda c: c.ledger.create("p", epsilon=1, delta=1e-6),
        ("scope 'p' exists already", "a new scope under another name"),
    ),
]


ALL = (*FOUND, *OTHERS, *MORE)


def secure(**changes: int) -> object:
    """Return a secure sum, with numbers of clients."""
    return fd.federated.SecureSum((3,), clip_norm=1.0, noise_multiplier=1.0, **changes)


@pytest.fixture
def context(tmp_path: Path) -> Any:
    """A ledger of two scopes, one without any, and the path of the first."""
    path = str(tmp_path / "budget.db")
    with fd.PrivacyLedger.open(path) as ledger, fd.PrivacyLedger.open(tmp_path / "empty.db") as empty:
        ledger.create("hospital/images", epsilon=4.0, delta=1e-6)
        ledger.create("p", epsilon=4.0, delta=0, measure="pure")
        yield SimpleNamespace(ledger=ledger, empty=empty, path=path)


def test_there_are_a_hundred_and_thirty_mistakes() -> None:
    assert (len(FOUND), len(OTHERS)) == (40, 40)
    assert len(MORE) >= 50
    assert len({name for name, _, _ in ALL}) == len(ALL)


@pytest.mark.parametrize(("mistake", "words"), [each[1:] for each in ALL], ids=[each[0] for each in ALL])
def test_a_mistake_is_told_with_what_is_allowed_and_the_way_out(
    context: Any, mistake: Callable[[Any], object], words: tuple[str, ...]
) -> None:
    with pytest.raises((fd.errors.FerroError, TypeError, AttributeError)) as caught:
        mistake(context)

    message = str(caught.value)
    assert not [word for word in words if word not in message], message
    assert "geheim" not in message
    assert not re.search(r"has no attribute '(reserve|remaining_count)'", message)


def test_a_relation_may_be_given_by_its_value(context: Any) -> None:
    relation = fd.events.NeighboringRelation.REPLACE_ONE
    context.ledger.create("x", epsilon=1.0, delta=1e-6, neighboring_relation="replace_one")

    assert accounting.RdpAccountant(neighboring_relation="replace_one").neighboring_relation is relation
    assert context.ledger.report("x").neighboring_relation is relation
    assert planned(neighboring_relation="replace_one").neighboring_relation is relation
