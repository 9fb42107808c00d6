"""`ferrodp demo`: federated training on real images, private for every client."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ferrodp import demo as _demo
from ferrodp import files
from ferrodp._base import _validate
from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report, rounded_up
from ferrodp.cli.demo import ledger as _ledger
from ferrodp.cli.demo import training as _training
from ferrodp.cli.ledger import common as _ledgers
from ferrodp.cli.printing.shapes import INTEGER, NUMBER, TEXT, many, maybe, record
from ferrodp.demo import picture as _picture
from ferrodp.errors import InvalidParameter

_EPSILON, _DELTA = 8.0, 1e-5
_NOISE_MULTIPLIER, _CLIP_NORM, _ROUNDS = 3.3, 0.5, 100


_ROUND = record({"round": INTEGER, "accuracy": NUMBER, "baseline_accuracy": NUMBER, "epsilon": NUMBER})
_FIELDS = {
    **dict.fromkeys(("accuracy", "baseline_accuracy", "epsilon", "delta", "epsilon_budget", "seconds"), NUMBER),
    **dict.fromkeys(("epsilon_after_one_more_round", "noise_multiplier", "clip_norm"), NUMBER),
    **dict.fromkeys(("rounds", "clients", "training_images", "test_images"), INTEGER),
    "unit": TEXT,
    "neighboring_relations": many(TEXT),
    "history": many(_ROUND),
    "ledger": maybe(_ledger.FIELDS),
    "files": record({"picture": TEXT, "model": TEXT}),
}


def _show(report: Report, console: Console) -> None:
    """Print the report for people."""
    if "steps" in report:
        _training.show(report, console)
        return
    rows = [
        [str(r["round"]), f"{r['accuracy']:.3f}", f"{r['baseline_accuracy']:.3f}", rounded_up(r["epsilon"])]
        for r in report["history"]
    ]
    console.table(["round", "accuracy", "without privacy", "epsilon"], rows, left=0)
    console.line()
    following, budget = report["rounds"] + 1, report["epsilon_budget"]
    after = report["epsilon_after_one_more_round"]
    paid = report["ledger"]
    if after > budget:
        console.line(
            f"Stopped before round {following}: epsilon would be {rounded_up(after)}, the budget is {budget:g}."
        )
    elif paid is not None and paid["refusal"] is not None:
        console.line(f"Stopped before round {following}: {paid['refusal']}.")
    if paid is not None:
        _ledger.show(paid, console)
    console.line(
        f"Test accuracy {report['accuracy']:.3f} with (epsilon = {rounded_up(report['epsilon'])}, "
        f"delta = {report['delta']:g})-differential privacy for {report['unit']};"
    )
    console.line(f"{report['baseline_accuracy']:.3f} without privacy. {report['seconds']:.1f} s.")
    console.line(f"Picture: {report['files']['picture']}")
    console.line(f"Model:   {report['files']['model']}")


@command(
    option(
        "--output", default="ferrodp-demo", metavar="DIR", help="folder for picture and model (default: %(default)s)"
    ),
    option(
        "--task",
        choices=("federated", "training"),
        default="federated",
        help="what is private: every client of federated rounds, or every image of a training (default: %(default)s)",
    ),
    option("--epsilon", type=float, help=f"the budget (default: {_EPSILON}, or that of the scope)"),
    option("--delta", type=float, help=f"the delta of the budget (default: {_DELTA}, or that of the scope)"),
    option(
        "--noise-multiplier",
        type=float,
        metavar="Z",
        help=f"noise per round (default: {_NOISE_MULTIPLIER}; of a training, what makes all its steps fit the budget)",
    ),
    option(
        "--clip-norm", type=float, metavar="C", help=f"L2 norm of an update (default: {_CLIP_NORM}; of a training, 0.1)"
    ),
    option(
        "--rounds",
        type=int,
        help=f"rounds or steps at most; the budget ends it earlier (default: {_ROUNDS}; of a training, 120)",
    ),
    option(
        "--data-seed", type=int, default=0, metavar="N", help="deals the images to clients; never touches the noise"
    ),
    option("--ledger", metavar="LEDGER", help="pay each round from this ledger, a file or postgresql://..."),
    option("--scope", metavar="NAME", help="what to charge there; made if it is not there (default: demo)"),
    show=_show,
    fields=(_FIELDS, _training.FIELDS),
)
def demo(args: Args, console: Console) -> Report:
    r"""Train a classifier on real images with client-level privacy.

    Train a classifier of handwritten digits with 100 clients, private for every
    client: each round their updates are clipped, added and noised, and training
    stops before the round that would exceed the budget. The same training without
    privacy runs beside it. Prints a table, and saves a picture and the final
    model. All numbers are measured in this run; the noise is fresh, so no two runs
    are alike.

    With --ledger each round is paid from a ledger before its noise is drawn, and
    the model is saved after it. Interrupted at any moment, the same command goes on
    where it was; a round that was paid and lost is paid again, so the budget holds,
    and may allow a round less.

    With --task training the images themselves are protected, one by one: DP-SGD on
    Poisson samples of them, with noise that makes all steps fit the budget.

    examples:
      ferrodp demo --epsilon 4 --noise-multiplier 6 --output digits
      ferrodp demo --task training --epsilon 2
      ferrodp demo --ledger budget.db

    Needs scikit-learn and matplotlib: pip install "ferrodp[demo]".
    """
    started = time.perf_counter()
    if args.scope is not None and args.ledger is None:
        args.ledger = _ledgers.default()
        if args.ledger is None:
            raise InvalidParameter(f"--scope must come with --ledger, or with {_ledgers.DEFAULT} set")
    if args.task == "training":
        return _training.report(args, console, started)
    rounds = _validate.count("--rounds", _default(args.rounds, _ROUNDS), maximum=1000)
    data_seed = _validate.count("--data-seed", args.data_seed, minimum=0)
    folder = Path(args.output)
    with _training.packages():
        data = _demo.load_digits(data_seed)
        _picture.check_installed()
    settings = _demo.Settings(
        epsilon=_validate.positive("--epsilon", _default(args.epsilon, _EPSILON), toward="down"),
        delta=_validate.delta(_default(args.delta, _DELTA), name="--delta"),
        noise_multiplier=_validate.positive("--noise-multiplier", _default(args.noise_multiplier, _NOISE_MULTIPLIER)),
        clip_norm=_validate.positive("--clip-norm", _default(args.clip_norm, _CLIP_NORM), toward="down"),
        rounds=rounds,
    )
    if args.ledger is None:
        planned = _demo.allowed_rounds(settings)
        folder.mkdir(parents=True, exist_ok=True)
        with console.progress("private rounds", planned) as advance:
            training, paid = _demo.train(data, settings, advance), None
    else:
        settings, training, paid = _ledger.trained(args, settings, data, console)
    with console.progress("rounds without privacy", len(training.rounds)) as advance:
        without_privacy = _demo.train_without_privacy(data, len(training.rounds), advance)
    picture, model = folder / "rounds.png", folder / "model.npz"
    _save(picture, _picture.draw(training, without_privacy, settings, None if paid is None else paid["scope"]))
    with files.Destination(model, force=True) as destination:
        destination.commit(lambda stream: files.write(stream, ".npz", training.model))

    last = training.rounds[-1]
    return {
        "command": "demo",
        "accuracy": last.accuracy,
        "baseline_accuracy": without_privacy[-1],
        "epsilon": last.epsilon if paid is None else paid["epsilon_charged"],
        "delta": settings.delta,
        "rounds": len(training.rounds),
        "epsilon_budget": settings.epsilon,
        "epsilon_after_one_more_round": training.next_epsilon,
        "noise_multiplier": settings.noise_multiplier,
        "clip_norm": settings.clip_norm,
        "clients": len(data.clients),
        "training_images": sum(len(client.images) for client in data.clients),
        "test_images": len(data.test.images),
        "unit": "one client",
        "neighboring_relations": ["add_or_remove_one", "replace_special"] if paid is None else paid["relations"],
        "history": [
            {"round": index + 1, "accuracy": each.accuracy, "baseline_accuracy": base, "epsilon": each.epsilon}
            for index, (each, base) in enumerate(zip(training.rounds, without_privacy, strict=True))
        ],
        "seconds": round(time.perf_counter() - started, 3),
        "ledger": paid,
        "files": {"picture": os.fspath(picture), "model": os.fspath(model)},
    }


def _default(value: float | None, default: float) -> float:
    return default if value is None else value


def _save(path: Path, content: bytes) -> None:
    with files.Destination(path, force=True) as destination:
        destination.commit(lambda stream: stream.write(content))
