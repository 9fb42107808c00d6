"""Every public mechanism has a label, and SECURITY.md has a row for it that says the same."""

import inspect
import re
from pathlib import Path

import pytest

import ferrodp
from ferrodp import mechanisms

ROOT = Path(__file__).parents[2]
LABELS = {"certified", "exact", "experimental"}
COSTS = {"event", "epsilon", "delta"}
MAKE = {
    "HadamardResponse": {"weight": 2**60, "num_categories": 5},
    "DiscreteGaussianMechanism": {"scale": 3.0},
    "DiscreteLaplaceMechanism": {"scale": 3.0},
    "ExponentialMechanism": {"scale": 3.0, "sensitivity": 1.0},
    "GaussianMechanism": {"noise_multiplier": 3.0, "l2_sensitivity": 1.0},
    "LaplaceMechanism": {"scale": 3.0, "l1_sensitivity": 1.0},
    "PermuteAndFlip": {"scale": 3.0, "sensitivity": 1.0},
    "RandomizedResponse": {"noise_parameter": 0.5},
    "ReportNoisyMax": {"scale": 3.0, "sensitivity": 1.0},
    "SubsetResponse": {"weight": 2**60, "num_categories": 5, "size": 2},
    "UnaryResponse": {"weight": 3, "digits": 4, "num_categories": 5},
    "VectorResponse": {"weight": 2**60, "dimension": 3, "num_directions": 4, "size": 2, "l2_clip_norm": 1.0},
    "SparseVector": {"threshold": 10.0, "sensitivity": 1.0, "epsilon": 1.0},
}
RUNS = {"SparseVector"}
"""Not values but runs, which end: asked instead of released from, and of one ε."""

every_mechanism = pytest.mark.parametrize(
    "kind", [getattr(mechanisms, name) for name in mechanisms.__all__], ids=mechanisms.__all__
)


def rows(document, heading):
    """Return the cells of the table below a heading."""
    section = (ROOT / document).read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in table[2:]]


@every_mechanism
def test_the_mechanism_has_a_label_and_a_row_in_the_security_policy(kind):
    name = f"`{kind.__name__}`"
    (security,) = [row for row in rows("SECURITY.md", "Guarantees by mechanism") if name in row[0]]

    assert kind.guarantee in LABELS
    assert security[1] == kind.guarantee
    paths = re.findall(r"`([^`]+\.(?:rs|py))`", security[2])
    assert paths or security[2].startswith("the same")
    assert all((ROOT / path).is_file() for path in paths)


@every_mechanism
def test_the_mechanism_says_what_it_costs_and_is_a_frozen_value_or_a_run(kind):
    run = kind.__name__ in RUNS
    assert run or kind.__dataclass_params__.frozen
    assert all(hasattr(kind, name) for name in (("event", "query") if run else (*COSTS, "release", "calibrated")))
    assert all(p.kind is p.KEYWORD_ONLY for p in inspect.signature(kind).parameters.values())
    assert not hasattr(kind(**MAKE[kind.__name__]), "__dict__")
    assert getattr(ferrodp, kind.__name__) is kind


@every_mechanism
def test_the_docstring_is_complete(kind):
    text = inspect.getdoc(kind)

    assert "\nNotes\n-----\n" in text
    assert re.search(r"[A-Z][a-z]+, \"|\d{4}", text.split("Notes\n-----")[1]), "a source"
    assert "\nExamples\n--------\n>>> " in text
    assert "\nRaises\n------\n" in text or "errors are those of" in text
    assert f'{kind.guarantee}": the law' in text or "attributes and errors are those of" in text
    release = inspect.getdoc(kind.query if kind.__name__ in RUNS else kind.release)
    assert "=====" in release or "edge cases are" in release, "a table of edge cases"
