"""Audits of the examples that need a framework, as in `example_audits`: for environments that have it.

`python framework_example_audits.py [TEXT] [--runs N]` runs those whose framework is installed; `./check frameworks`
runs each once, in tests beside those of the framework.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from alarms import function, independence, rates
from example_audits import EXAMPLES, REPLACE, counted, ran

from ferrodp.audit import audit_code

HERE = Path(__file__).resolve().parent
MANY = 30
"""Rounds of the jobs whose releases are counted; those that are replayed have three."""


def nvflare_job() -> bool:
    """What leaves a site, about its own digits and about others: all rounds replayed, and the law of one.

    The site's filter is that of the example's recipe, its trainer that of the example's client; any data may be
    replaced by any other, so two updates are up to two clip norms apart.
    """
    sys.path[:0] = [str(HERE.parent / "integrations" / "nvflare"), str(EXAMPLES / "nvflare_job")]
    import client
    import job
    from nvflare.apis.dxo import DataKind, from_shareable
    from sites import Site, result
    from sklearn.datasets import load_digits

    def options_of(rounds: int) -> dict[str, Any]:
        """Return what the example makes its filter of."""
        options: dict[str, Any] = {}
        made = job.GaussianUpdateFilter
        try:
            job.GaussianUpdateFilter = lambda **given: options.update(given) or made(**given)
            job.recipe(rounds)
        finally:
            job.GaussianUpdateFilter = made
        return options

    few, many = options_of(3), options_of(MANY)
    plan = job.GaussianUpdateFilter(**few).plan

    x, y = load_digits(return_X_y=True)
    images, labels = np.hstack([x / 16.0, np.ones((len(x), 1))]), np.eye(10)[y]
    own = images[::2], labels[::2]
    start = {"numpy_key": np.zeros((65, 10), np.float32)}

    def answers(data: Any, model: Any, options: dict[str, Any], *, goes_on: bool) -> list[Any]:
        """Return what leaves the site in all rounds of a job."""
        with tempfile.TemporaryDirectory() as folder:
            site = Site(Path(folder) / "site-1", **options)
            left = []
            for number in range(options["rounds"]):
                sent = site.task(
                    model,
                    lambda model: result(
                        DataKind.WEIGHTS, {name: client.trained(each, *data) for name, each in model.items()}
                    ),
                    number=number,
                )
                left.append(sent)
                model = from_shareable(sent).data if goes_on else model
            site.end()
        return left

    # Others: the other site's digits, wrong labels, one image, none that is finite, and steps the other way.
    others = [
        (images[1::2], labels[1::2]),
        (own[0], np.roll(own[1], 1, axis=1)),
        (images[:1], labels[:1]),
        (np.full((1, 65), np.nan), labels[:1]),
        (-own[0], own[1]),
    ]
    report = audit_code(
        lambda data: answers(data, start, few, goes_on=True),
        own,
        others,
        accounted=plan.event,
        neighboring_relation=REPLACE,
    )
    if report.violation:
        return True

    plan = job.GaussianUpdateFilter(**many).plan

    # One round about data whose updates are opposite: how far it lies in that direction.
    clipped = client.trained(start["numpy_key"], *own).astype(float).ravel()
    clipped /= np.linalg.norm(clipped)
    opposite = (-own[0], own[1])
    noise: list[np.ndarray] = []

    def along(side: int, n: int) -> np.ndarray:
        found = []
        for _ in range(math.ceil(n / MANY)):
            for sent in answers((own, opposite)[side], start, many, goes_on=False):
                released = from_shareable(sent).data["numpy_key"].astype(float).ravel()
                found.append(released @ clipped)
                noise.append((released - (1, -1)[side] * clipped) / plan.noise.noise_multiplier)
        return np.array(found[:n])

    first = client.trained(start["numpy_key"], *opposite).astype(float).ravel()
    assert first @ clipped < -0.99 * np.linalg.norm(first)
    if function(along, (0, 1), epsilon=plan.epsilon_after(1, 1e-5), delta=1e-5, draws=4 * MANY):
        return True

    # Coordinates of the noise are those of a standard normal, independent in a release and between releases.
    ends = np.array([-math.inf, -3.0, -2.0, -1.0, -0.3, 0.0, 0.3, 1.0, 2.0, 3.0, math.inf])
    below = np.array([0.5 * math.erfc(-end / math.sqrt(2.0)) for end in ends])
    drawn = np.concatenate(noise)
    if rates(np.digitize(drawn, ends[1:-1]), dict(enumerate(np.diff(below).tolist()))):
        return True
    taken = iter(range(drawn.size))
    return independence(lambda n: drawn[[next(taken) for _ in range(n)]], draws=drawn.size // 3)


def train_with_jax() -> bool:
    """Two steps of the training on twelve images: replayed without some of them, whose gradients are not finite.

    Steps take all images, as a secret sample would be another one in each run.
    """
    images, labels = np.random.default_rng(3).uniform(0.0, 16.0, (16, 64)), np.arange(16) % 10
    images[2] *= 1e4
    programs: list[dict[str, Any]] = []

    def trained(data: np.ndarray) -> dict[str, np.ndarray]:
        numbers = {"1437": 12, "40": 2, "256": 16, "0.5": 1.0}
        programs.append(ran("train_with_jax.py", load_digits=lambda **_: (data, labels), numbers=numbers))
        return {name: np.asarray(each) for name, each in programs[-1]["params"].items()}

    trained(images)
    plan = programs[0]["plan"]
    if plan.epsilon(1e-5) > 2.0:
        return True
    others = [np.where(np.arange(16)[:, None] == i, np.nan, images) for i in range(4)]
    return audit_code(trained, images, others, accounted=plan.event).violation


def flower_app() -> bool:
    """All rounds of the server, with two clients that train: replayed without one, and with other images of it.

    A client that sends nothing and one whose numbers are not finite add what one that is left out does.
    """
    sys.path.insert(0, str(EXAMPLES / "flower_app"))
    conftest = _module(HERE.parent / "integrations" / "flower" / "conftest.py")
    from digitsapp import client, server
    from flwr.app import Context, RecordDict
    from sklearn.datasets import load_digits

    config = {"clients": 2, "rounds": 4, "epsilon": 8.0, "delta": 1e-5, "clip-norm": 1.0, "ledger": "", "log": ""}
    images, labels = load_digits(return_X_y=True)
    plans: list[Any] = []

    def seen(second: Any) -> list[Any]:
        """Return all models that the first client is sent, where this is what the second one has."""

        def first_app(message: Any, context: Any) -> Any:
            models.append({name: array.numpy().copy() for name, array in message.content["arrays"].items()})
            return app(message, context, images)

        def app(message: Any, context: Any, data: Any) -> Any:
            if data is None:
                raise OSError("a client that sends nothing")
            context.node_config["num-partitions"] = 2
            client.load_digits = lambda **_: (data, labels)
            return client.app(message, context)

        models: list[Any] = []
        apps = {1: first_app, 2: lambda message, context: app(message, context, second)}
        with contextlib.redirect_stdout(io.StringIO()):
            server.app(conftest.MemoryGrid(apps), Context(1, 0, {}, RecordDict(), dict(config)))
        return models

    made = server.PrivateStrategy

    def strategy(*args: Any, **options: Any) -> Any:
        plans.append(options["plan"])
        return made(*args, **options, wait=0)

    try:
        server.PrivateStrategy = strategy
        seen(images)
        assert plans[0].epsilon(1e-5) <= 8.0
        return audit_code(seen, images, [None, np.nan * images], accounted=plans[0].event).violation or (
            # Two updates that both take part are up to two clip norms apart, as if one left and the other came.
            audit_code(seen, images, [-1e3 * images], neighboring_relation=REPLACE).violation
        )
    finally:
        server.PrivateStrategy = made
        client.load_digits = load_digits


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"audited_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


AUDITS: dict[str, Callable[[], bool]] = {
    "nvflare_job": nvflare_job,
    "train_with_jax.py": train_with_jax,
    "flower_app": flower_app,
}
"""Each returns whether it raised an alarm."""
NEEDED = {
    "nvflare_job": ("nvflare", "sklearn"),
    "train_with_jax.py": ("jax", "optax", "sklearn"),
    "flower_app": ("flwr", "sklearn"),
}


def installed() -> dict[str, Callable[[], bool]]:
    """Return the audits whose framework is installed."""
    return {
        name: audit for name, audit in AUDITS.items() if all(importlib.util.find_spec(each) for each in NEEDED[name])
    }


if __name__ == "__main__":
    raise SystemExit(counted(installed()))
