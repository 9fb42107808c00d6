"""Audits of the programs in `examples`: each is a function that returns whether it raised an alarm.

A program's own code runs, on inputs of the audit: `ran` changes what top-level names are bound to, and numbers.
`python example_audits.py [TEXT] [--runs N]` runs them. Those that need a framework run in an environment that has it.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import importlib.util
import io
import os
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from alarms import function

from ferrodp.accounting import calibrate_noise_multiplier
from ferrodp.audit import audit_code
from ferrodp.events import ComposedEvent, EpsilonDeltaEvent, GaussianEvent, NeighboringRelation

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
REPLACE = NeighboringRelation.REPLACE_ONE


class _Changed(ast.NodeTransformer):
    """Puts other values in the place of names that are bound at the top level, and of numbers."""

    def __init__(self, names: set[str], numbers: Mapping[str, float]) -> None:
        self.names, self.numbers, self.found = names, numbers, set()  # type: ignore[var-annotated]

    def visit_Module(self, node: ast.Module) -> ast.Module:
        body: list[ast.stmt] = []
        for statement in node.body:
            body.append(self.visit(statement))
            if isinstance(statement, ast.Assign):
                bound = {each.id for target in statement.targets for each in ast.walk(target) if _is_bound(each)}
            elif isinstance(statement, (ast.Import, ast.ImportFrom, ast.Try)):
                imports = [each for each in ast.walk(statement) if isinstance(each, (ast.Import, ast.ImportFrom))]
                bound = {each.asname or each.name for line in imports for each in line.names}
            else:
                continue
            for name in sorted(bound & self.names):
                body.append(ast.parse(f"{name} = _given[{name!r}]").body[0])
                self.found.add(name)
        return ast.Module(body, node.type_ignores)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        number = repr(node.value)
        if number not in self.numbers:
            return node
        self.found.add(number)
        return ast.Constant(self.numbers[number])


def _is_bound(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def ran(
    path: str, *, numbers: Mapping[str, float] | None = None, name: str = "__main__", **given: Any
) -> dict[str, Any]:
    """Run a program in the current folder, with other numbers and some names bound to what is given; return its names.

    Fails if it has no such name or number any more.
    """
    file = EXAMPLES / path
    change = _Changed(set(given), numbers or {})
    tree = ast.fix_missing_locations(change.visit(ast.parse(file.read_text(encoding="utf-8"))))
    missing = (set(given) | set(numbers or {})) - change.found
    assert not missing, f"{path} has no {missing}"
    module = types.ModuleType(name)
    module.__dict__.update(__file__=str(file), _given=given)
    if name != "__main__":
        sys.modules[name] = module  # where classes look for it
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(tree, str(file), "exec"), module.__dict__)
    return module.__dict__


@contextlib.contextmanager
def fresh_folder() -> Iterator[Path]:
    """Go to a new empty folder for a while."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def in_fresh_folder(code: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(data: Any) -> Any:
        with fresh_folder():
            return code(data)

    return run


# ------------------------------------------------------------------------------------------------------ tables, columns


def table() -> bool:
    """Counts by diagnosis and age: replayed without each patient, and one cell that a patient makes 1."""

    def released(patients: np.ndarray) -> np.ndarray:
        return ran("release_a_table.py", diagnosis=patients[:, 0], age=patients[:, 1])["released"]  # type: ignore[no-any-return]

    patients = np.array([[0, 3], [0, 50], [1, 17], [2, 99], [2, 99], [1, 119]])
    cell = np.tile([1, 20], (3, 1))
    return audit_code(released, patients, accounted=EpsilonDeltaEvent(epsilon=1.0)).violation or function(
        lambda rows, n: np.array([released(rows)[1, 1] for _ in range(n)]), (cell[:2], cell), draws=100
    )


def columns() -> bool:
    """A histogram, a mean and a median of a frame: replayed without each person, on incomes far outside."""
    import pandas as pd

    def released(people: Any) -> list[Any]:
        found = ran("dataframe_histogram.py", people=people)
        return [found["ages"].value, found["income"].value, found["median"].value]

    people = pd.DataFrame(
        {
            "age": [18, 89, 44, 45, 300, -5, 60],
            "income": [0.0, 2e5, 1e9, -1e9, 3e4, 3e4, 5e4],
            "city": ["A", "B", "A", "A", "B", "B", "A"],
        }
    )
    others = [people.drop(index=i) for i in people.index]
    return audit_code(released, people, others, accounted=EpsilonDeltaEvent(epsilon=2.0)).violation


def survey() -> bool:
    """One answer against another, by their rates; and replayed with each answer replaced."""

    def sent(answers: np.ndarray) -> np.ndarray:
        return ran("randomized_survey.py", answers=answers)["sent"]  # type: ignore[no-any-return]

    answers = np.array([0, 1, 2, 2, 0])
    others = [np.concatenate([answers[:i], [to], answers[i + 1 :]]) for i in range(5) for to in range(3)]
    accounted = EpsilonDeltaEvent(epsilon=1.0)
    return audit_code(sent, answers, others, accounted=accounted, neighboring_relation=REPLACE).violation or function(
        lambda value, n: sent(np.full(n, value)), (0, 2), draws=200_000
    )


def moments() -> bool:
    """A mechanism of one's own: its noised moments of a row, added up as the row moves them, against those of none."""
    found = ran("custom_mechanism.py", name="audited_example")
    mechanism = found["PrivateMoments"](rho=found["zcdp_rho"](epsilon=1.0, delta=1e-6))

    def many(rows: np.ndarray, n: int) -> np.ndarray:
        return np.array([np.tril(mechanism.release(rows)).sum() for _ in range(n)])

    def first(rows: np.ndarray, n: int) -> np.ndarray:
        return np.array([mechanism.release(rows)[0, 0] for _ in range(n)])

    corner, even = np.array([[9.0, 0.0, 0.0, 0.0]]), np.full((1, 4), 7.0)
    claim = {"epsilon": 1.0, "delta": 1e-6, "draws": 3000}
    return function(many, (even, 0 * even), **claim) or function(first, (corner, 0 * corner), **claim)


# ------------------------------------------------------------------------------------------------------------ trainings

_calibrated = functools.cache(calibrate_noise_multiplier)


def averaging() -> bool:
    """A round from files of clients: replayed with a client that is left out, which adds what zeros do."""

    def model(updates: np.ndarray) -> Any:
        parts = iter(part for row in updates for part in (row[:640].reshape(64, 10), row[640:]))
        rng = SimpleNamespace(normal=lambda *_: next(parts))  # the weights of a client, then its bias
        return ran("federated_round.py", rng=rng, numbers={"50": 6})["model"]

    updates = np.random.default_rng(3).standard_normal((6, 650)) * [[1e-3], [1.0], [30.0], [1e3], [0.02], [0.0]]
    updates[5, 0] = -1e30
    others = [np.where(np.arange(6)[:, None] == i, 0.0, updates) for i in range(6)]
    accounted = GaussianEvent(noise_multiplier=1.1)
    return audit_code(in_fresh_folder(model), updates, others, accounted=accounted).violation


def sgd() -> bool:
    """Steps of DP-SGD: replayed with an example that is left out, whose gradient is 0; and one step, its sample too."""
    examples, features = 30, 20

    def trained(data: np.ndarray, steps: int = 4, **given: Any) -> dict[str, Any]:
        labels = np.zeros(len(data), np.float32)
        given = {"calibrate_noise_multiplier": _calibrated, "features": data, "labels": labels} | given
        with np.errstate(over="ignore"):
            return ran("dp_sgd.py", EXAMPLES=len(data), STEPS=steps, **given)

    data = (np.random.default_rng(3).standard_normal((examples, features)) * 30.0).astype(np.float32)
    data[0] *= -1e6
    others = [np.where(np.arange(examples)[:, None] == i, np.float32(0.0), data) for i in range(5)]
    batch = np.arange(0, examples, 2)
    found = trained(data)
    if found["accountant"].epsilon(1e-5) > 3.0:
        return True
    steps = ComposedEvent(events=(GaussianEvent(noise_multiplier=found["noise_multiplier"]),) * 4)
    if audit_code(
        lambda rows: trained(rows, poisson_sample=lambda *_: batch)["weights"], data, others, accounted=steps
    ).violation:
        return True
    # With the noise of one step and of its sample, ε is that of the program.
    one = np.zeros((20, features), np.float32)
    one[3, 0] = 1e3

    def weights(rows: np.ndarray, n: int) -> np.ndarray:
        return np.array([trained(rows, 1)["weights"][0] for _ in range(n)])

    return function(weights, (one, 0 * one), epsilon=3.0, delta=1e-5, draws=100)


# ------------------------------------------------------------------------------------------------------------- ledgers


def shared() -> bool:
    """Counts from a shared budget, as one analyst spends all of it: replayed with a person less."""

    def released(answer: int) -> Any:
        import ferrodp as fd

        with fd.PrivacyLedger.open("budget.db") as ledger:
            ledger.create("survey/2026", epsilon=1.0, delta=0.0, measure="pure")
        clock = SimpleNamespace(sleep=lambda _: None)
        return ran("shared_budget.py", name="audited_example", time=clock, numbers={"250": answer})["analyst"]("Ada")

    code = in_fresh_folder(released)
    return audit_code(code, 250, [249, 251], accounted=EpsilonDeltaEvent(epsilon=1.0)).violation


def resumed() -> bool:
    """Rounds of a job that is started again after two: replayed with clients that are left out of each round."""

    def rounds(clients: np.ndarray) -> Any:
        import ferrodp as fd

        with fd.PrivacyLedger.open("budget.db") as ledger:
            ledger.create("keyboard/next-word", epsilon=4.0, delta=1e-6)
        generator = SimpleNamespace(standard_normal=lambda *_: clients.astype(np.float32))
        random = SimpleNamespace(default_rng=lambda _: generator)
        numpy = SimpleNamespace(random=random, zeros=np.zeros, float32=np.float32, save=np.save)
        for number in (2, 5):
            run = ran("crash_and_resume.py", name="audited_example", np=numpy, numbers={"5": number})["run"]
            with contextlib.redirect_stdout(io.StringIO()):
                run(None)
        return [np.load(f"{number}.npy") for number in range(5)]

    clients = np.zeros((4, 1000))
    clients[:, :4] = np.diag([0.5, 1e3, -1e6, 1.0])
    others = [np.delete(clients, i, axis=0) for i in range(4)]
    accounted = ComposedEvent(events=(GaussianEvent(noise_multiplier=5.0),) * 5)
    return audit_code(in_fresh_folder(rounds), clients, others, accounted=accounted).violation


AUDITS: dict[str, Callable[[], bool]] = {
    "release_a_table.py": table,
    "randomized_survey.py": survey,
    "custom_mechanism.py": moments,
    "federated_round.py": averaging,
    "dp_sgd.py": sgd,
    "shared_budget.py": shared,
    "crash_and_resume.py": resumed,
}
"""Each returns whether it raised an alarm."""
if importlib.util.find_spec("pandas"):
    AUDITS["dataframe_histogram.py"] = columns

RELEASE_NOTHING = {"compare_accountants.py", "trade_off_curve.py"}


def counted(audits: Mapping[str, Callable[[], bool]]) -> int:
    """Run what the command line asks for, print alarms and times, and return 1 if there was an alarm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", nargs="?", default="")
    parser.add_argument("--runs", type=int, default=1)
    args = parser.parse_args()
    chosen = {name: audit for name, audit in audits.items() if args.text in name}
    alarms, begin = dict.fromkeys(chosen, 0), time.process_time()
    for run in range(1, args.runs + 1):
        for name, audit in chosen.items():
            alarms[name] += audit()
        seconds = (time.process_time() - begin) / run
        print(f"{run} runs: {sum(alarms.values())} alarms, {seconds:.1f} s a run", flush=True)
    for name, count in alarms.items():
        print(f"{count:4} of {args.runs:3}  {name}")
    return int(any(alarms.values()))


if __name__ == "__main__":
    raise SystemExit(counted(AUDITS))
