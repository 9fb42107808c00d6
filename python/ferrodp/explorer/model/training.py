"""The playground's training: real data, real per-example gradients, private and not, step by step.

Several repeats run side by side, so that curves are drawn with a band; the guarantee is that of one of them. Noise and
samples are seeded, so that a page can be repeated: nothing here is private.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import ferrodp as fd
from ferrodp.accounting import PldAccountant, calibrate_noise_multiplier
from ferrodp.explorer.figures import Answer, Control, Figure, Plot, Role, Series, Value, brief, lower, shown, upper
from ferrodp.explorer.model.datasets import (
    DATASETS,
    MODELS,
    PICTURED,
    Floats,
    gradients,
    initial,
    load,
    outlier,
    probabilities,
    test_records,
)
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PlanRun, PoissonSampling, PrivacyPlan
from ferrodp.random import poisson_sample

MOST_STEPS = 2000
MOST_SHOWN = 60
"""Evaluated steps of a training that runs through."""
_BINS = 24
_IMAGES = 4
"""Images that the model is right about, and as many that it is wrong about."""
_WHITE = 16.0
_NO_GUARANTEE = "no guarantee"
_CELL = """\
from ferrodp.explorer.figures import shown
from ferrodp.explorer.model.training import numbers_after

# what the page runs: repeats of a ferrodp.PrivacyPlan on gradients of a small model, with seeded noise
for label, value in numbers_after({arguments}).items():
    print(f"{{label}}: {{shown(value)}}")
"""

CONTROLS = (
    Control("dataset", "Dataset", "digits", choices=DATASETS),
    Control("model", "Model", "linear", choices=MODELS),
    Control(
        "clip_norm", "Clip norm C", 2.0, 0.01, 10.0, "log", low_label="bias: all clipped", high_label="none clipped"
    ),
    Control("noise_by", "Noise from", "epsilon", choices=(("epsilon", "target ε"), ("noise", "σ"))),
    Control(
        "noise_multiplier",
        "Noise multiplier σ",
        1.5,
        0.0,
        20.0,
        step=0.05,
        low_label="no guarantee",
        high_label="noise",
    ),
    Control("epsilon", "Target ε", 3.0, 0.1, 20.0, "log", low_label="much noise", high_label="little noise"),
    Control(
        "batch_size", "Expected batch", 128, 8, 1438, "log", integer=True, low_label="noisy", high_label="full batch"
    ),
    Control("learning_rate", "Learning rate", 2.0, 0.01, 50.0, "log", low_label="slow", high_label="unstable"),
    Control("epochs", "Epochs", 10, 1, 50, "log", integer=True, low_label="undertrained", high_label="costs more"),
    Control("delta", "δ", 1e-5, 1e-9, 1e-2, "log", low_label="far below 1/N", high_label="above 1/N"),
)
PLAYGROUND = Figure(
    "playground",
    CONTROLS,
    lambda parameters: Training(**parameters).answer(),
    seeded=True,
    main=("epsilon", "noise_multiplier", "clip_norm", "batch_size", "epochs"),
)


class Training:
    """Repeats of a private training, of the same clipped alone, without privacy, and private without one record.

    Parameters are those of `CONTROLS` and ``seed``; `repeats` is how many of each run side by side.
    """

    def __init__(self, *, seed: int, repeats: int = 4, **settings: Any) -> None:
        self.settings = settings | {"seed": seed, "repeats": repeats}
        self.data, self.kind = load(settings["dataset"]), settings["model"]
        self.clip_norm, self.delta, self.rate = settings["clip_norm"], settings["delta"], settings["learning_rate"]
        size, batch = len(self.data.features), settings["batch_size"]
        self.is_full = batch >= size
        self.probability = min(batch / size, 1.0)
        wanted = settings["epochs"] if self.is_full else round(settings["epochs"] * size / batch)
        self.num_steps = min(max(wanted, 1), MOST_STEPS)
        self.plan = self._plan(settings)
        start = initial(self.kind, self.data, seed)
        self.target = outlier(settings["dataset"])
        self._models = {
            name: [start.copy() for _ in range(repeats)] for name in ("private", "clipped", "public", "without")
        }
        self._runs: dict[str, list[PlanRun[Any] | None]] = {}
        for place, name in enumerate(("private", "without")):
            sources = [fd.testing.seeded(f"{seed} {repeat} {place}".encode().ljust(32)) for repeat in range(repeats)]
            self._runs[name] = [self.plan.start(start, source=s) if self.plan else None for s in sources]
            if self.plan is None:
                self._sources = getattr(self, "_sources", {}) | {name: sources}
        self._draws = [np.random.default_rng([seed, repeat]) for repeat in range(repeats)]
        self.step = 0
        self.norms: Floats = np.zeros(0)
        self.signal = 0.0
        self.history: list[dict[str, Any]] = []
        self.evaluate()

    def _plan(self, settings: Mapping[str, Any]) -> PrivacyPlan | None:
        """Return what is run, or None without noise."""
        by_epsilon = settings["noise_by"] == "epsilon"
        if not by_epsilon and settings["noise_multiplier"] == 0.0:
            return None
        noise = settings["noise_multiplier"]
        if by_epsilon:
            target = {"target_epsilon": settings["epsilon"], "target_delta": self.delta}
            noise = float(
                calibrate_noise_multiplier(sampling_probability=self.probability, count=self.num_steps, **target)
            )
        return PrivacyPlan(
            population_size=len(self.data.features),
            sampling=FullBatch() if self.is_full else PoissonSampling(self.probability),
            num_steps=self.num_steps,
            clipping=FlatClipping(self.clip_norm),
            noise=ConstantNoise(noise),
        )

    @property
    def noise_multiplier(self) -> float:
        """The noise multiplier of each step; 0 without noise."""
        return self.plan.noise_multipliers[0] if self.plan else 0.0

    def model(self, world: str) -> Floats:
        """Return the parameters of the first repeat: "private", "public" or "without" the record."""
        return self._models[world][0]

    def advance(self) -> None:
        """Take one step in every repeat."""
        data, classes = self.data, self.data.num_classes
        found = []
        for name, runs in self._runs.items():
            for repeat, run in enumerate(runs):
                model = self._models[name][repeat]
                step = next(run) if run is not None else None
                chosen = step.indices if step is not None else self._sample(name, repeat)
                rows = gradients(self.kind, model, data.features[chosen], data.labels[chosen], classes)
                if name == "private":
                    norms = np.linalg.norm(rows, axis=1)
                    found.append(norms)
                    if repeat == 0:
                        factors = np.minimum(1.0, self.clip_norm / np.maximum(norms, 1e-300))
                        self.signal = float(np.linalg.norm(factors @ rows))
                else:
                    rows[chosen == self.target] = 0.0  # the record is not there: it adds nothing
                if step is not None:
                    step.add(rows)
                    mean = step.release()
                else:
                    clipped, _ = fd.clip_rows(rows, clip_norm=self.clip_norm)
                    mean = clipped.sum(axis=0) / (self.probability * len(data.features))
                self._models[name][repeat] = model - self.rate * mean
        for repeat, draws in enumerate(self._draws):
            drawn = draws.random(len(data.features)) < self.probability
            for name in ("public", "clipped"):
                model = self._models[name][repeat]
                rows = gradients(self.kind, model, data.features[drawn], data.labels[drawn], classes)
                if name == "clipped":
                    rows, _ = fd.clip_rows(rows, clip_norm=self.clip_norm)
                self._models[name][repeat] = model - self.rate * rows.sum(axis=0) / (
                    self.probability * len(data.features)
                )
        self.norms = np.concatenate(found)
        self.step += 1

    def _sample(self, name: str, repeat: int) -> Any:
        """Return who takes part in a step without noise."""
        size = len(self.data.features)
        return poisson_sample(size, self.probability, source=self._sources[name][repeat])

    def evaluate(self) -> None:
        """Record accuracy, loss, ε and what both worlds say of the record that is switched off."""
        data, classes = self.data, self.data.num_classes
        found: dict[str, Any] = {"step": self.step}
        for name in ("private", "clipped", "public"):
            results = [probabilities(self.kind, m, data.test_features, classes) for m in self._models[name]]
            found[f"{name} accuracy"] = [float(np.mean(p.argmax(axis=1) == data.test_labels)) for p in results]
            right = [p[np.arange(len(p)), data.test_labels] for p in results]
            found[f"{name} loss"] = [float(-np.log(np.maximum(p, 1e-12)).mean()) for p in right]
        one, label = data.features[self.target : self.target + 1], data.labels[self.target]
        for name in ("private", "without"):
            found[f"{name} record"] = [
                float(probabilities(self.kind, m, one, classes)[0, label]) for m in self._models[name]
            ]
        found["bounds"] = self.epsilon_bounds()
        if self.history and self.history[-1]["step"] == self.step:
            self.history.pop()
        self.history.append(found)

    def epsilon_bounds(self) -> tuple[float, float]:
        """Return certified bounds on the ε of the steps so far."""
        if self.plan is None:
            return (np.inf, np.inf)
        accountant = PldAccountant(neighboring_relation=self.plan.neighboring_relation)
        accountant.compose(self.plan.event_after(self.step))
        bounds = accountant.epsilon_bounds(self.delta)
        return bounds.lower, bounds.upper

    def numbers(self) -> dict[str, Value]:
        """Return what is printed, by label."""
        last = self.history[-1]
        low, high = last["bounds"]
        clipped = float((self.norms > self.clip_norm).mean()) if self.norms.size else 0.0
        return {
            "Accuracy, private": float(np.mean(last["private accuracy"])),
            "Accuracy, without privacy": float(np.mean(last["public accuracy"])),
            "ε of one training, certified": upper(high) if self.plan else _NO_GUARANTEE,
            "ε, lower bound": lower(low) if self.plan else _NO_GUARANTEE,
            "δ": self.delta,
            "Noise multiplier σ": upper(self.noise_multiplier),
            "Steps": self.step,
            "Accuracy, clipped without noise": float(np.mean(last["clipped accuracy"])),
            "Loss, private": float(np.mean(last["private loss"])),
            "Loss, clipped without noise": float(np.mean(last["clipped loss"])),
            "Loss, without privacy": float(np.mean(last["public loss"])),
            "Share of gradients clipped": clipped if self.step else "not yet measured",
        }

    def answer(self) -> Answer:
        """Return what the page shows now."""
        numbers = self.numbers()
        arguments = ", ".join(f"{name}={value!r}" for name, value in {**self.settings, "steps": self.step}.items())
        cell = _CELL.format(arguments=arguments)
        return Answer(self._sentence(numbers), numbers, self._plots(), cell, self._warnings())

    def _sentence(self, numbers: Mapping[str, Value]) -> str:
        last, count = self.history[-1], self.settings["repeats"]
        how = "every record in every step" if self.is_full else f"about {self.settings['batch_size']} records a step"
        if not self.step:
            return f"{self.num_steps} steps with {how}, on {len(self.data.features)} records, are ready to run."
        private, clipped, public = (
            100 * float(np.mean(last[f"{name} accuracy"])) for name in ("private", "clipped", "public")
        )
        by_clipping, by_noise = public - clipped, clipped - private
        cost = f"ε = {brief(numbers['ε of one training, certified'])} at δ = {shown(self.delta)}"
        told = f"After {self.step} of {self.num_steps} steps with {how}, {private:.0f} of 100 are right with "
        told += f"{cost}, over {count} repeats" if self.plan else "no guarantee, as nothing is noised"
        costs = f"Clipping costs {_points(by_clipping)}" + (f", noise {_points(by_noise)}" if self.plan else "")
        if max(by_clipping, by_noise) < 1.0:
            return f"{told}. {costs}: little to gain here."
        if by_clipping > by_noise:
            return f"{told}. {costs}: raise C, or the learning rate."
        return f"{told}. {costs}: a larger batch or a smaller C makes noise matter less."

    def _warnings(self) -> tuple[str, ...]:
        found = []
        if self.plan is None:
            found.append("σ = 0: no guarantee. Clipping alone hides nobody.")
        if self.is_full:
            found.append("The batch is all records: accounted as a full batch, without amplification by sampling.")
        if self.delta * len(self.data.features) >= 1.0:
            found.append("δ is at least 1/N: a mechanism that publishes one random record would meet it.")
        wanted = self.settings["epochs"] * len(self.data.features) / self.settings["batch_size"]
        if not self.is_full and wanted > MOST_STEPS:
            found.append(f"The page runs at most {MOST_STEPS} steps.")
        return tuple(found)

    def _plots(self) -> tuple[Plot, ...]:
        if not self.step:
            return (*((self._forecast(),) if self.plan is not None else ()), self._records())
        steps = [each["step"] for each in self.history]
        plots = [self._pair("Accuracy on the test records", "accuracy", steps), self._records()]
        plots.append(self._pair("Loss", "loss", steps))
        if self.norms.size:
            plots.append(self._histogram())
        if self.plan is not None:
            low, high = zip(*(each["bounds"] for each in self.history), strict=True)
            series = (
                Series("between the bounds", steps, low, "band", "private", y2=high),
                Series("certified ε", steps, high, "line", "private"),
            )
            title = f"ε of one training at δ = {shown(self.delta)}"
            plots.append(Plot(title, "steps", "ε", series))
        worlds: list[Series] = []
        both: tuple[tuple[str, Role, str], ...] = (
            ("private", "a", "world with the record"),
            ("without", "b", "world without it"),
        )
        for name, role, label in both:
            values = np.array([each[f"{name} record"] for each in self.history])
            band = Series(
                f"{label}, range of repeats",
                steps,
                values.min(axis=1).tolist(),
                "band",
                role,
                y2=values.max(axis=1).tolist(),
            )
            worlds += [band, Series(f"{label}, mean", steps, values.mean(axis=1).tolist(), "line", role)]
        title = "Two neighboring worlds: what the model says of the most unusual record"
        plots.append(Plot(title, "steps", "probability of its label", tuple(worlds)))
        return tuple(plots)

    def _forecast(self) -> Plot:
        """Return what the training will cost, which is known before it runs."""
        assert self.plan is not None
        counts = sorted({max(1, round(self.num_steps * (i / 15) ** 2)) for i in range(16)})
        accountant = PldAccountant(neighboring_relation=self.plan.neighboring_relation)
        found = accountant.epsilon_over_counts(self.plan.event_after(1), counts, delta=self.delta)
        series = (
            Series("between the bounds", counts, found.lower.tolist(), "band", "private", y2=found.upper.tolist()),
            Series("certified ε", counts, found.upper.tolist(), "line", "private"),
        )
        return Plot(f"What one training will cost: ε at δ = {shown(self.delta)}", "steps", "ε", series)

    def _pair(self, title: str, what: str, steps: list[int]) -> Plot:
        series: list[Series] = []
        kinds: tuple[tuple[str, Role, str], ...] = (
            ("public", "non-private", "without privacy"),
            ("clipped", "b", "clipped, without noise"),
            ("private", "private", "private: clipped and noised"),
        )
        for name, role, label in kinds:
            values = np.array([each[f"{name} {what}"] for each in self.history])
            low, high = values.min(axis=1).tolist(), values.max(axis=1).tolist()
            if name == "private":
                series.append(Series(f"{label}, range of repeats", steps, low, "band", role, y2=high))
            series.append(Series(label, steps, values.mean(axis=1).tolist(), "line", role))
        return Plot(title, "steps", what, tuple(series))

    def _records(self) -> Plot:
        """Return test records, and whether a private model is right about them: images, or points in two columns."""
        name, data = self.settings["dataset"], self.data
        found = probabilities(self.kind, self.model("private"), data.test_features, data.num_classes).argmax(axis=1)
        is_right, rows = found == data.test_labels, test_records(name)
        title = "Test records, and what a private model says of them" if self.step else "Some of the test records"
        if name in PICTURED:
            (first, x_label), (second, y_label) = PICTURED[name]
            groups: tuple[tuple[str, Any, Role], ...] = (
                ("the model is right", is_right, "private"),
                ("the model is wrong", ~is_right, "non-private"),
            )
            if not self.step:
                groups = (("a record", is_right | True, "private"),)
            points = (
                Series(label, rows[of, first], rows[of, second], "points", role)
                for label, of, role in groups
                if of.any()
            )
            return Plot(title, x_label, y_label, tuple(points))
        wrong, right = (np.flatnonzero(each)[:_IMAGES] for each in (~is_right, is_right))
        chosen = np.concatenate([wrong, right]) if self.step else np.arange(2 * _IMAGES)
        images = []
        for place in chosen:
            label = f"a {data.test_labels[place]}"
            if self.step:
                label += ", right" if is_right[place] else f", called {found[place]}"
            images.append(Series(label, [8], rows[place] / _WHITE, "image"))
        return Plot(title, "column", "row", tuple(images))

    def _histogram(self) -> Plot:
        top = max(float(self.norms.max()), self.clip_norm)
        width = self.clip_norm / max(1, round(_BINS * self.clip_norm / top))  # C lies between two bars
        width *= max(1.0, np.ceil(top / width / (4 * _BINS)))
        edges = width * np.arange(np.ceil(top / width) + 1)
        middle = ((edges[1:] + edges[:-1]) / 2).tolist()
        before = np.histogram(self.norms, edges)[0].tolist()
        after = np.histogram(np.minimum(self.norms, self.clip_norm * (1 - 1e-9)), edges)[0].tolist()
        series = (
            Series("before clipping", middle, before, "bars", "non-private"),
            Series("after clipping", middle, after, "bars", "private"),
        )
        title = f"Norms of the {self.norms.size} per-example gradients of the last step"
        mark = ((self.clip_norm, f"C = {shown(self.clip_norm)}"),)
        return Plot(title, "L2 norm", "gradients", series, marks=mark)


def _points(cost: float) -> str:
    """Return a loss of accuracy in points of 100; chance may make it a gain, which is none."""
    return f"{cost:.0f} points of 100" if cost >= 0.5 else "nothing"


def numbers_after(*, steps: int, **settings: Any) -> dict[str, Value]:
    """Train so many steps and return the numbers of the page."""
    training = Training(**settings)
    for _ in range(steps):
        training.advance()
    training.evaluate()
    return training.numbers()
