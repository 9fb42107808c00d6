"""`ferrodp demo --task training`: DP-SGD on images, private for each of them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ferrodp import files
from ferrodp._base import _validate
from ferrodp.budget import PrivacyLedger
from ferrodp.cli._command import Args
from ferrodp.cli._console import Console, Report, counted, rounded_up
from ferrodp.cli.ledger import common as _ledgers
from ferrodp.cli.printing.shapes import HEAD, INTEGER, NUMBER, TEXT, many, maybe, one_of, record
from ferrodp.demo import Settings, picture, records
from ferrodp.errors import InvalidParameter, MissingPackage
from ferrodp.events import NeighboringRelation

_EPSILON, _DELTA, _STEPS = 8.0, 1e-5, 120
_SCOPE = "demo"
_STEP = record({"step": INTEGER, "accuracy": NUMBER, "baseline_accuracy": NUMBER, "epsilon": NUMBER})
_PAID = record(
    {
        **dict.fromkeys(("where", "scope", "measure"), TEXT),
        "resumed_after_step": maybe(INTEGER),
        **dict.fromkeys(("lost_steps", "charges"), INTEGER),
        **dict.fromkeys(("epsilon_charged", "delta_charged"), NUMBER),
        "refusal": maybe(TEXT),
        "head": HEAD,
    }
)
FIELDS = {
    "task": one_of("training"),
    **dict.fromkeys(("accuracy", "baseline_accuracy", "epsilon", "delta", "epsilon_budget", "seconds"), NUMBER),
    **dict.fromkeys(("epsilon_after_one_more_step", "noise_multiplier", "clip_norm"), NUMBER),
    **dict.fromkeys(("steps", "training_images", "test_images"), INTEGER),
    "sampling_probability": NUMBER,
    "unit": TEXT,
    "neighboring_relations": many(TEXT),
    "history": many(_STEP),
    "ledger": maybe(_PAID),
    "files": record({"picture": TEXT, "model": TEXT}),
}
_SHOWN = 10
"""Lines of the table, about."""


@contextlib.contextmanager
def packages() -> Iterator[None]:
    """Say what to install if a package of the demo is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = "scikit-learn" if error.name == "sklearn" else error.name
        raise MissingPackage(f'the demo needs {package}, which is not installed: pip install "ferrodp[demo]"') from None


def report(args: Args, console: Console, started: float) -> Report:
    """Train, with and without privacy, and return what was measured."""
    steps = _validate.count("--rounds", _STEPS if args.rounds is None else args.rounds, maximum=1000)
    data_seed = _validate.count("--data-seed", args.data_seed, minimum=0)
    epsilon = _validate.positive("--epsilon", _EPSILON if args.epsilon is None else args.epsilon, toward="down")
    delta = _validate.delta(_DELTA if args.delta is None else args.delta, name="--delta")
    noise, clip = args.noise_multiplier, args.clip_norm
    options: dict[str, Any] = {
        "num_steps": steps,
        "noise_multiplier": None if noise is None else _validate.positive("--noise-multiplier", noise),
        "clip_norm": None if clip is None else _validate.positive("--clip-norm", clip, toward="down"),
    }
    folder = Path(args.output)
    with packages():
        images = records.load_images(data_seed)
        picture.check_installed()
    with contextlib.ExitStack() as stack:
        ledger = scope = None
        if args.ledger is None:
            plan = records.plan_for(images, epsilon=epsilon, delta=delta, **options)
            folder.mkdir(parents=True, exist_ok=True)
        else:
            scope = _SCOPE if args.scope is None else args.scope
            ledger = stack.enter_context(_opened(args.ledger, folder))
            epsilon, delta, relation = _budget(ledger, scope, args, epsilon, delta)
            options |= {"neighboring_relation": relation, "accountant": "rdp"}  # as the ledger adds up
            plan = records.plan_for(images, epsilon=epsilon, delta=delta, **options)
            if noise is None and records.load(folder / records.CHECKPOINT) is None:
                plan = records.fitted(plan, ledger, scope)
        training = records.RecordTraining(
            images, plan, epsilon=epsilon, delta=delta, data_seed=data_seed, ledger=ledger, scope=scope, folder=folder
        )
        with console.progress("private steps", training.plan.num_steps) as advance:
            done = training.train(advance)
        paid = None if ledger is None else _told(args.ledger, ledger, str(scope), training, done.refusal)
    with console.progress("steps without privacy", len(done.rounds)) as advance:
        baseline = records.train_without_privacy(images, len(done.rounds), advance)
    drawn, model = folder / "steps.png", folder / "model.npz"
    words = picture.Words("Handwritten digits, 1437 images", "private for every image", "step")
    settings = Settings(epsilon=epsilon, delta=delta)
    _save(drawn, picture.draw(done, baseline, settings, scope, words))
    with files.Destination(model, force=True) as destination:
        destination.commit(lambda stream: files.write(stream, ".npz", done.model))
    last = done.rounds[-1]
    return {
        "command": "demo",
        "task": "training",
        "accuracy": last.accuracy,
        "baseline_accuracy": baseline[-1],
        "epsilon": last.epsilon if paid is None else paid["epsilon_charged"],
        "delta": delta,
        "steps": len(done.rounds),
        "epsilon_budget": epsilon,
        "epsilon_after_one_more_step": done.next_epsilon,
        "noise_multiplier": training.plan.noise_multipliers[0],
        "clip_norm": training.plan.clipping.initial_norm,
        "sampling_probability": training.plan.sampling.to_dict()["probability"],
        "training_images": len(images.digits),
        "test_images": len(images.test_digits),
        "unit": "one image",
        "neighboring_relations": [training.plan.neighboring_relation.value],
        "history": [
            {"step": index + 1, "accuracy": each.accuracy, "baseline_accuracy": base, "epsilon": each.epsilon}
            for index, (each, base) in enumerate(zip(done.rounds, baseline, strict=True))
        ],
        "seconds": round(time.perf_counter() - started, 3),
        "ledger": paid,
        "files": {"picture": os.fspath(drawn), "model": os.fspath(model)},
    }


def show(report: Report, console: Console) -> None:
    """Print the report for people: about ten of its steps."""
    every = max(1, round(len(report["history"]) / _SHOWN))
    chosen = [each for each in report["history"] if each["step"] % every == 0 or each["step"] == report["steps"]]
    rows = [
        [str(r["step"]), f"{r['accuracy']:.3f}", f"{r['baseline_accuracy']:.3f}", rounded_up(r["epsilon"])]
        for r in chosen
    ]
    console.table(["step", "accuracy", "without privacy", "epsilon"], rows, left=0)
    console.line()
    paid, following = report["ledger"], report["steps"] + 1
    after, budget = report["epsilon_after_one_more_step"], report["epsilon_budget"]
    if after > budget:
        console.line(f"A step {following} would make epsilon {rounded_up(after)}; the budget is {budget:g}.")
    if paid is not None:
        if paid["resumed_after_step"] is not None:
            console.line(f"Continued after step {paid['resumed_after_step']}.")
        lost = f", {paid['lost_steps']} of them for steps that were lost" if paid["lost_steps"] else ""
        console.line(
            f"Ledger {paid['where']}, scope {paid['scope']!r}: epsilon {rounded_up(paid['epsilon_charged'])} is "
            f"charged in {counted(paid['charges'], 'charge')}{lost}."
        )
    console.line(
        f"Test accuracy {report['accuracy']:.3f} with (epsilon = {rounded_up(report['epsilon'])}, "
        f"delta = {report['delta']:g})-differential privacy for {report['unit']};"
    )
    console.line(f"{report['baseline_accuracy']:.3f} without privacy. {report['seconds']:.1f} s.")
    console.line(f"Picture: {report['files']['picture']}")
    console.line(f"Model:   {report['files']['model']}")


def _opened(where: str, folder: Path) -> PrivacyLedger:
    """Open the ledger: where a training is continued, only one that paid for what was done."""
    saved = records.load(folder / records.CHECKPOINT)
    if saved is None:
        return _ledgers.opened(where, create=True)
    return _ledgers.opened(where, witness=saved["head"])


def _budget(
    ledger: PrivacyLedger, scope: str, args: Args, epsilon: float, delta: float
) -> tuple[float, float, NeighboringRelation]:
    """Return the budget of the scope, which is made if it is not there."""
    if scope not in ledger.scopes:
        ledger.create(scope, epsilon=epsilon, delta=delta)
    found = ledger.report(scope)
    for name, value in (("epsilon", float(found.epsilon)), ("delta", float(found.delta))):
        given = getattr(args, name)
        if given is not None and given != value:
            raise InvalidParameter(
                f"--{name} must be left out or {value!r}, the budget of scope {scope!r}, got {given!r}; "
                "'ferrodp ledger raise-cap' and 'lower-cap' change it"
            )
    return float(found.epsilon), float(found.delta), found.neighboring_relation


def _told(
    where: str, ledger: PrivacyLedger, scope: str, training: records.RecordTraining, refusal: str | None
) -> Report:
    found = ledger.report(scope)
    return {
        "where": _ledgers.shown(where),
        "scope": scope,
        "measure": found.measure,
        "resumed_after_step": training.resumed or None,
        "lost_steps": training.lost,
        **_ledgers.told(found, "epsilon_charged", "delta_charged"),
        "charges": found.held + found.armed + found.spent,
        "refusal": refusal,
        "head": str(ledger.head),
    }


def _save(path: Path, content: bytes) -> None:
    with files.Destination(path, force=True) as destination:
        destination.commit(lambda stream: stream.write(content))
