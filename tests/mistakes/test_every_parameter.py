"""Every public number, truth value and choice refuses what it is not, names itself and the value, and offers another.

The table is made of the signatures: a call gets a usable value for each parameter that needs one, by its name, and a
wrong one for a single parameter. Then the value that the message offers is tried.
"""

import ast
import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import ferrodp as fd
from ferrodp import accounting, budget, correlated, federated, plan, statistics, training
from ferrodp.accounting import filters
from ferrodp.events import GaussianEvent
from test_public_names import CALLABLES

EVENT = GaussianEvent(noise_multiplier=2.0)
STRATEGY = correlated.BandedToeplitz(num_steps=3, bands=2)
PLAN = fd.PrivacyPlan(
    unit="client",
    population_size=100,
    sampling=plan.PoissonSampling(0.1),
    num_steps=3,
    clipping=plan.FlatClipping(1.0),
    noise=plan.ConstantNoise(1.0),
)
USABLE: dict[str, Any] = {
    **dict.fromkeys(["epsilon", "target_epsilon", "max_epsilon", "budget_epsilon"], 1.0),
    **dict.fromkeys(["delta", "target_delta"], 1e-6),
    **dict.fromkeys(["noise_multiplier", "scale", "standard_deviation", "initial", "final"], 2.0),
    **dict.fromkeys(["l1_sensitivity", "l2_sensitivity", "sensitivity", "clip_norm", "rate", "max_norm", "mu"], 1.0),
    **dict.fromkeys(["sampling_probability", "probability", "sampling_rate", "learning_rate", "momentum"], 0.1),
    **dict.fromkeys(["count", "num_steps", "size", "num_rounds", "num_compositions", "number", "n", "num_buckets"], 3),
    **dict.fromkeys(["population_size", "num_samples", "draws", "num_records", "max_clients", "canaries"], 100),
    **dict.fromkeys(["sample_size", "num_clients", "truncated_batch_size", "batch_size", "num_updates"], 10),
    **dict.fromkeys(["min_clients", "num_selected", "num_categories", "num_features", "dimension", "num_parts"], 2),
    **dict.fromkeys(["tau", "alpha", "value", "threshold", "shape", "sigma", "rho", "sum_noise_multiplier"], 2.0),
    **dict.fromkeys(["noise_parameter", "quantile", "mean", "factor", "gamma", "share_within", "effort"], 0.5),
    **dict.fromkeys(["full_probability", "replaced_probability", "false_positive_rate"], 0.5),
    "count_noise_multiplier": 10.0,
    "confidence": 0.95,
    "hits": 1,
    "share_scale": 10.0,
    "num_shares": 3,
    "variance": 100.0,
    "denominator": 3,
    "expected_batch_size": 10,
    "value_discretization_interval": 1e-3,
    "extra_delta": 1e-7,
    "lower": 0.0,
    "bounds": (0, 1),
    "orders": [2.0],
    "epsilons": [0.0, 1.0],
    "counts": [10],
    "noise_multipliers": [1.0],
    "probabilities": (0.5, 0.5),
    "shifts": (0.0, 1.0),
    "multipliers": (1.0, 2.0),
    "boundaries": (1,),
    "guarantees": [(1.0, 1e-6)],
    "quantiles": [0.5],
    "false_positive_rates": [0.5],
    "clip_norms": {"a": 1.0},
    "losses": [1.0],
    "p": [0.5, 0.5],
    "q": [0.5, 0.5],
    "values": [True, False],
    "keys": [1],
    "by": "a",
    "frame": {"a": [1, 2]},
    "answers": [0, 1],
    "utilities": [1.0],
    "array": np.zeros(3),
    "matrix": np.zeros((2, 2)),
    "rows": np.zeros((2, 2)),
    "features": np.zeros((4, 2)),
    "labels": [0, 1, 0, 1],
    "classes": [0, 1],
    "template": (3,),
    "update": np.zeros(3),
    "updates": np.zeros((2, 3)),
    "event": EVENT,
    "events": [EVENT],
    "neighboring_relation": "add_or_remove_one",
    "accountants": accounting.PldAccountant(),
    "day": 0,
    "mechanism": fd.GaussianMechanism(noise_multiplier=2.0, l2_sensitivity=1.0),
    "sampling": plan.PoissonSampling(0.1),
    "clipping": plan.FlatClipping(1.0),
    "noise": plan.ConstantNoise(1.0),
    "plan": PLAN,
    "placement": federated.LocalPlacement(),
    "curve": lambda orders: orders,
    "base_rdp": lambda orders: orders,
    "profile": lambda epsilon: 0.0,
    "make_event": lambda parameter: EVENT,
    "scopes": "a",
    "scope": "a",
    "name": "b",
    "reason": "r",
    "counters": 2,
    "counter": fd.Counter(noise_multiplier=2.0, days=9),
    "first": 1,
    "last": 3,
    "totals": [5],
    "earlier": [5],
    "later": [7],
    "days": (1, 3),
}
"""A value for each parameter that has to be given, by its name, so that only the wrong one is refused."""
OTHERWISE: dict[str, dict[str, Any]] = {
    "calibrate_parameter": {"bounds": (1.0, 1000.0)},
    "NoiseSource.add_discrete_gaussian_": {"array": np.zeros(3, np.int64)},
    "NoiseSource.add_discrete_laplace_": {"array": np.zeros(3, np.int64)},
    "single_step_noise": {"mechanism": lambda multiplier: EVENT},
    "Spending": {"epsilon": 1.0},
    "private_quantile": {"bounds": (0, 1)},
    "private_quantiles": {"bounds": (0, 1)},
    "private_median": {"bounds": (0, 1)},
    "private_min": {"bounds": (0, 1)},
    "private_max": {"bounds": (0, 1)},
    "RepeatAndSelectCurve": {"mean": 2.0, "shape": 1.0},
    "NoiseStream.release": {"value": np.zeros(3)},
    "PrivacyAccountant.of_events": {"events": [(EVENT, 1)]},
    "CounterStream.release": {"counts": [1, 2]},
    "CounterStream.release_units": {"units": ["a"], "counters": [0]},
    "Counter": {"days": 9},
    "Counter.calibrated": {"days": 9},
}
"""Values that single callables need instead, or besides."""
RESULTS = {
    "Reading": "a result: only a ledger makes it",
    "Recipe": "a result of `recipe`",
    "SoftmaxModel": "a result of `train`",
    "TruncatedSample": "a result of `truncated_sample`",
}
"""Classes whose objects this package returns: nobody else fills them."""
UNMADE = {
    "Forecast": "made by a plan",
    "PlacedRound": "made by a run",
    "PlacedRun": "needs a plan for its placement: tests/federated",
    "FederatedRound": "made by a run",
    "PlanStep": "made by a run",
    "Progress": "made by `fit`",
    "Records": "abstract; a run of rounds is one",
    "ReleasedTable": "a result of `release`",
    "RoundRecord": "made by a run",
    "Selection": "a result of `select`",
    "GridSum": "made by `clip_and_sum`",
    "ShuffledReports": "needs a seed that its parties share: tests/federated",
}
"""Classes whose methods are not called here."""
EXCEPT = {
    ("PrivacyPlan.to_json", "indent"): "goes to json.dumps as it is",
    ("Forecast.to_json", "indent"): "goes to json.dumps as it is",
    ("PlanRun.audit", "confidence"): "needs a step that was released: tests/plan",
    ("PlanRun.audit", "delta"): "needs a step that was released: tests/plan",
    **dict.fromkeys(
        [("Sampling.event", name) for name in ("population_size", "neighboring_relation", "null_distance")],
        "a plan has looked at it",
    ),
    ("SparseVector.query", "value"): "data: never refused for its value, and not shown",
}
"""Parameters that are not looked at, and why."""
WRONG = {
    "Real": ["x", float("nan"), None, [1.0]],
    "float": ["x", float("nan"), None, [1.0]],
    "int": ["x", -1, 2.5, None, [1]],
    "bool": ["yes", 2, None],
    "NeighboringRelation": ["no-such", 7, None],
    "AccountantChoice": ["no-such"],
    "Missing": ["no-such", 7],
    "Direction": ["no-such"],
    "Conversion": ["no-such"],
    "ConversionMethod": ["no-such"],
    "CalibrationMethod": ["no-such"],
    "AdvancedMethod": ["no-such"],
    "NonFinite": ["no-such"],
}
"""Wrong values of each annotation."""


def _object(name: str) -> Any:
    """Return an object with the public methods of a class."""
    module, _, cls = name.rpartition(".")
    return _objects()[cls] if cls in _objects() else _called(getattr(sys.modules[module], cls))


@cache
def _objects() -> dict[str, Any]:
    ledger = budget.PrivacyLedger.open(_PLACE[0])
    ledger.create("a", epsilon=4.0, delta=1e-6)
    return {
        "PrivacyLedger": ledger,
        "LedgerReader": ledger,
        "PrivacyAccountant": accounting.PldAccountant(),
        "AccountantReader": accounting.PldAccountant(),
        "PrivacyFilter": filters.GdpFilter.for_budget(epsilon=1.0, delta=1e-6),
        "NoiseSchedule": plan.ConstantNoise(1.0),
        "Sampling": plan.PoissonSampling(0.1),
        "Estimate": statistics.private_count([True], epsilon=1.0),
        "PrivateGroups": statistics.private_group_by({"a": [1, 2]}, "a", keys=[1]),
        "PlanRun": PLAN.start((3,), audit_canaries=20),
        "Optimizer": training.SGD(0.1),
        "Strategy": STRATEGY,
        "CounterStream": fd.Counter(noise_multiplier=2.0, days=9).start(2),
        "NoiseStream": correlated.NoiseStream(STRATEGY, shape=3, noise_multiplier=2.0, l2_sensitivity=1.0),
        "HadamardResponse": fd.HadamardResponse.calibrated(epsilon=1.0, num_categories=8),
        "SubsetResponse": fd.SubsetResponse.calibrated(epsilon=1.0, num_categories=8),
        "UnaryResponse": fd.UnaryResponse.calibrated(epsilon=1.0, num_categories=8),
        "VectorResponse": fd.VectorResponse.calibrated(epsilon=1.0, dimension=3, l2_clip_norm=1.0),
        "PrivateMarginals": statistics.private_marginals(
            {"a": [0, 1]}, [("a",)], categories={"a": [0, 1]}, epsilon=1.0, delta=1e-6
        ),
    }


_PLACE: list[Any] = []


def _needed(function: Any) -> dict[str, inspect.Parameter]:
    several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    parameters = inspect.signature(function).parameters
    return {name: each for name, each in parameters.items() if each.kind not in several and name not in ("self", "cls")}


def _arguments(function: Any) -> dict[str, Any]:
    """Return usable arguments for all parameters that need one; raise KeyError if one has none."""
    given = dict(OTHERWISE.get(function.__qualname__, {}))
    for name, each in _needed(function).items():
        if name == "epsilon" and each.default is None:
            given.setdefault(name, USABLE[name])
        elif each.default is each.empty and name not in given:
            given[name] = USABLE[name]
    return given


def _called(function: Any, **wrong: Any) -> Any:
    given = {**_arguments(function), **wrong}
    positional = [name for name, each in _needed(function).items() if each.kind is each.POSITIONAL_ONLY]
    made = function(*(given.pop(name) for name in positional if name in given), **given)
    return list(made) if inspect.isgenerator(made) else made


def _cases() -> Iterator[tuple[str, str, str]]:
    """Yield callables and their parameters with the annotation that tells what is wrong for them."""
    for name, item in sorted(CALLABLES.items()):
        if item.__qualname__.split(".")[0] in {**RESULTS, **UNMADE}:
            continue
        try:
            _arguments(item)
        except KeyError:
            continue
        for parameter, each in _needed(item).items():
            annotation = str(each.annotation)
            kind = annotation.replace(" | None", "")
            if kind in WRONG and (item.__qualname__, parameter) not in EXCEPT:
                yield name, parameter, annotation


CASES = list(_cases())


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make room for the ledger whose methods are called."""
    _PLACE[:] = [tmp_path_factory.mktemp("every") / "budget.db"]
    yield
    _objects()["PrivacyLedger"].close()
    _objects.cache_clear()


def _bound(name: str) -> Any:
    """Return what is called: a function, a class, or a method of an object or a class."""
    item = CALLABLES[name]
    if isinstance(item, type) or "." not in item.__qualname__:
        return item
    owner, _, method = name.rpartition(".")
    cls = getattr(sys.modules[item.__module__], owner.rpartition(".")[2])
    cls = accounting.PldAccountant if cls is accounting.PrivacyAccountant else cls
    of_class = isinstance(inspect.getattr_static(cls, method), (classmethod, staticmethod))
    return getattr(cls if of_class else _object(owner), method)


def _refusal(function: Any, parameter: str, value: Any) -> str:
    """Return what a call with this value is told, or nothing if it is not refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _called(function, **{parameter: value})
    except (fd.errors.FerroError, TypeError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("name", "parameter", "annotation"), CASES, ids=["-".join(case[:2]) for case in CASES])
def test_a_wrong_value_is_named_and_another_offered(name: str, parameter: str, annotation: str) -> None:
    function = _bound(name)
    default = _needed(function)[parameter].default
    for wrong in WRONG[annotation.replace(" | None", "")]:
        if wrong is None and (default is None or annotation.endswith(" | None")):
            continue
        message = _refusal(function, parameter, wrong)
        told = re.match(rf"(?:.*\b)?{parameter}\b.* must (.+), got (.+?)(?:; | such as |: )(.+)", message)
        assert told, message
        assert (type(wrong).__name__ in told[2]) or (repr(wrong) in told[2]), message
        for _ in range(3):  # an int of the right range may have to fit to another parameter, and to a third
            offered = re.search(rf"for example {parameter}=(.+)", message)
            if not offered or (value := _literal(offered[1])) is None:
                break
            message = _refusal(function, parameter, value)
        assert not re.match(rf"{parameter} must .*for example", message), message


def _literal(text: str) -> Any:
    """Return the value that a message offers; None for expressions of names, such as those that open a ledger."""
    try:
        return ast.literal_eval(text)
    except ValueError:
        return None


def test_most_parameters_are_looked_at() -> None:
    """Hundreds of them; all exceptions are there, and are parameters."""
    assert len(CASES) >= 600
    names = {item.__qualname__: item for item in CALLABLES.values()}
    assert [key for key in EXCEPT if key[0] not in names or key[1] not in _needed(names[key[0]])] == []
    assert [name for name in RESULTS if name not in names] == []
    assert [name for name in OTHERWISE if name not in names] == []
