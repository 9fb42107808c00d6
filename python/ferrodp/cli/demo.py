"""`ferrodp demo`: federated training on real images, private for every client."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ferrodp import _validate, files
from ferrodp import demo as _demo
from ferrodp.cli import _demo_ledger
from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report, rounded_up
from ferrodp.demo import picture as _picture
from ferrodp.errors import InvalidParameter, MissingPackage

_EPSILON, _DELTA = 8.0, 1e-5


def _show(report: Report, console: Console) -> None:
    """Print the report for people."""
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
        _demo_ledger.show(paid, console)
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
    option("--epsilon", type=float, help=f"the budget (default: {_EPSILON}, or that of the scope)"),
    option("--delta", type=float, help=f"the delta of the budget (default: {_DELTA}, or that of the scope)"),
    option("--noise-multiplier", type=float, default=3.3, metavar="Z", help="noise per round (default: %(default)s)"),
    option("--clip-norm", type=float, default=0.5, metavar="C", help="L2 norm of an update (default: %(default)s)"),
    option("--rounds", type=int, default=100, help="at most; the budget ends it earlier (default: %(default)s)"),
    option(
        "--data-seed", type=int, default=0, metavar="N", help="deals the images to clients; never touches the noise"
    ),
    option("--ledger", metavar="LEDGER", help="pay each round from this ledger, a file or postgresql://..."),
    option("--scope", metavar="NAME", help="what to charge there; made if it is not there (default: demo)"),
    show=_show,
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

    examples:
      ferrodp demo --epsilon 4 --noise-multiplier 6 --output digits
      ferrodp demo --ledger budget.db

    Needs scikit-learn and matplotlib: pip install "ferrodp[demo]".
    """
    started = time.perf_counter()
    rounds = _validate.count("--rounds", args.rounds, maximum=1000)
    data_seed = _validate.count("--data-seed", args.data_seed, minimum=0)
    folder = Path(args.output)
    try:
        data = _demo.load_digits(data_seed)
        _picture.check_installed()
    except ModuleNotFoundError as error:
        raise _missing(error.name) from None
    settings = _demo.Settings(
        epsilon=_validate.positive("--epsilon", _EPSILON if args.epsilon is None else args.epsilon, toward="down"),
        delta=_validate.delta(_DELTA if args.delta is None else args.delta, name="--delta"),
        noise_multiplier=_validate.positive("--noise-multiplier", args.noise_multiplier),
        clip_norm=_validate.positive("--clip-norm", args.clip_norm, toward="down"),
        rounds=rounds,
    )
    if args.ledger is None:
        if args.scope is not None:
            raise InvalidParameter("--scope must come with --ledger")
        planned = _demo.allowed_rounds(settings)
        folder.mkdir(parents=True, exist_ok=True)
        with console.progress("private rounds", planned) as advance:
            training, paid = _demo.train(data, settings, advance), None
    else:
        settings, training, paid = _demo_ledger.trained(args, settings, data, console)
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


def _missing(name: str | None) -> MissingPackage:
    package = "scikit-learn" if name == "sklearn" else name
    return MissingPackage(f'the demo needs {package}, which is not installed: pip install "ferrodp[demo]"')


def _save(path: Path, content: bytes) -> None:
    with files.Destination(path, force=True) as destination:
        destination.commit(lambda stream: stream.write(content))
