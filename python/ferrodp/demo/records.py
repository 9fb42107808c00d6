"""Training on the images themselves, private for each: DP-SGD as a plan, beside the same training without privacy.

Softmax regression on oriented gradients, a public function of each image. All steps are those of one
`ferrodp.plan.PrivacyPlan`; with a ledger each is paid before it begins, and a checkpoint is saved after it, so that a
training that was killed goes on, and leaves out what was charged and lost.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp.budget import PrivacyLedger
from ferrodp.demo._data import NUM_TEST_IMAGES
from ferrodp.demo._training import Round, Training
from ferrodp.errors import BudgetExceeded, InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.files import Destination, FileRefused
from ferrodp.plan import ConstantNoise, FlatClipping, PlanRun, PlanStep, PoissonSampling, PrivacyPlan
from ferrodp.sums import ClippedSum
from ferrodp.training import BudgetStop, Callback, Momentum, Progress, fit, oriented_gradients

CHECKPOINT = "training.json"
_VERSION = 1
_CLASSES = 10
_SAMPLING_PROBABILITY, _CLIP_NORM, _MOMENTUM = 0.5, 0.1, 0.9
_RATE, _RATE_POWER = 10.0, 0.7
"""The learning rate is 10·ε^0.7 divided by the clip norm: weights may grow as far as the signal exceeds the noise."""
_OPEN_RATE = 20.0
"""Learning rate without privacy."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Images:
    """Features of unit norm and digits: of the images to train on, and of those to test with."""

    features: Floats
    digits: npt.NDArray[np.int64]
    test_features: Floats
    test_digits: npt.NDArray[np.int64]


def load_images(data_seed: int = 0) -> Images:
    """Return scikit-learn's 1797 handwritten digits, 360 of them to test with; `data_seed` decides which.

    Raises
    ------
    ModuleNotFoundError
        Without scikit-learn.
    """
    from sklearn import datasets  # heavy, and not needed by the rest of the package

    pixels, digits = datasets.load_digits(return_X_y=True)
    features = oriented_gradients(pixels / 16.0, shape=(8, 8))
    order = np.random.default_rng(data_seed).permutation(len(digits))
    test, training = order[:NUM_TEST_IMAGES], order[NUM_TEST_IMAGES:]
    return Images(features[training], digits[training], features[test], digits[test])


def plan_for(
    images: Images,
    *,
    epsilon: float,
    delta: float,
    num_steps: int,
    clip_norm: float | None = None,
    noise_multiplier: float | None = None,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    accountant: str = "pld",
) -> PrivacyPlan:
    """Return a plan of so many steps that keeps (ε, δ); one with a noise multiplier of its own may have to end earlier.

    Raises
    ------
    BudgetExceeded
        If the budget does not allow a single step with that noise multiplier.
    """
    plan = PrivacyPlan(
        population_size=len(images.digits),
        sampling=PoissonSampling(_SAMPLING_PROBABILITY),
        num_steps=num_steps,
        clipping=FlatClipping(_CLIP_NORM if clip_norm is None else clip_norm),
        noise=ConstantNoise(1.0 if noise_multiplier is None else noise_multiplier),
        neighboring_relation=neighboring_relation,
    )
    if noise_multiplier is None:
        return plan.calibrated(epsilon=epsilon, delta=delta, accountant=accountant)
    if not plan.max_steps(epsilon=epsilon, delta=delta, accountant=accountant):
        cost = plan.epsilon_after(1, delta, accountant=accountant)
        raise BudgetExceeded(f"one step costs epsilon {cost:.4g} at delta {delta:g}, the budget is {epsilon:g}")
    return plan


def fitted(plan: PrivacyPlan, ledger: PrivacyLedger, scope: str) -> PrivacyPlan:
    """Return the plan with as much more noise as all its steps need to fit into what a scope has left.

    A scope adds up at Rényi orders of its own, and may have paid for other things. At most four times the noise.

    Raises
    ------
    BudgetExceeded
        If that is not enough.
    """
    for _ in range(70):
        if ledger.remaining_count(scope, plan.event_after(1)) >= plan.num_steps:
            return plan
        plan = replace(plan, noise=plan.noise.scaled(1.02))
    raise BudgetExceeded(f"scope {scope!r} has no room for {plan.num_steps} steps with any useful noise")


class RecordTraining:
    """A training on images, from its beginning or from where a checkpoint stands.

    Parameters
    ----------
    images : Images
        What is learned.
    plan : PrivacyPlan
        Of a new training; that of a checkpoint goes on as it was.
    epsilon, delta : float
        The budget: no step is begun that would exceed it.
    ledger, scope : optional
        Pay for each step.
    folder : Path, optional
        Where the checkpoint is; needed with a ledger.

    Raises
    ------
    FileRefused
        If the checkpoint is of another kind.
    InvalidParameter
        If it is of a training with other images or in another scope.
    """

    def __init__(
        self,
        images: Images,
        plan: PrivacyPlan,
        *,
        epsilon: float,
        delta: float,
        data_seed: int = 0,
        ledger: PrivacyLedger | None = None,
        scope: str | None = None,
        folder: Path | None = None,
    ) -> None:
        self.images, self.epsilon, self.delta = images, epsilon, delta
        self._ledger, self._scope = ledger, scope
        self._path = None if ledger is None or folder is None else folder / CHECKPOINT
        self._fixed = {"data_seed": data_seed, "scope": scope}
        self.weights: Floats = np.zeros((_CLASSES, images.features.shape[1]))
        rate = _RATE * epsilon**_RATE_POWER / plan.clipping.initial_norm
        self._optimizer = Momentum(rate, _MOMENTUM, dampening=_MOMENTUM)
        self.history: list[Round] = []
        saved = None if self._path is None else load(self._path)
        if saved is None:
            self.run: PlanRun[Any] = plan.start(self.weights, ledger=ledger, scope=scope)
        else:
            self._resume(saved)
        assert isinstance(self.run.plan, PrivacyPlan)
        self.plan = self.run.plan
        self.resumed = len(self.history)

    @property
    def lost(self) -> int:
        """How many steps were charged and their results lost, in processes that died."""
        return self.run.step_number - len(self.history)

    def train(self, advance: Callable[[], None] = lambda: None) -> Training:
        """Train until the plan or the budget ends; save a checkpoint before the first step and after each.

        Raises
        ------
        BudgetExceeded
            If the ledger does not allow a single step, and none was done before.
        """
        for _ in self.history:
            advance()
        if self._path is not None and not self.history:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._save()
        stop = [BudgetStop(self.epsilon, self.delta)] if self._ledger is None else []
        done = fit(
            self.run, self.weights, self._add, optimizer=self._optimizer, callbacks=[*stop, _Notes(self, advance)]
        )
        if not self.history:
            raise BudgetExceeded(done.stop_reason or "no step is left of the plan")
        return Training({"weights": self.weights}, tuple(self.history), self.next_epsilon(), done.stop_reason)  # type: ignore[dict-item]

    def next_epsilon(self) -> float:
        """Return what ε would be after one more step of the same kind."""
        if self._ledger is not None and self._scope is not None:
            return self._ledger.epsilon_charged(self._scope, after=self.plan.event_after(1))
        following = self.run.step_number + 1
        return replace(self.plan, num_steps=max(following, self.plan.num_steps)).epsilon_after(following, self.delta)

    def _add(self, weights: Floats, step: PlanStep[Any]) -> None:
        """Add the gradients of the images that were drawn: outer products of errors and features."""
        self.weights = weights
        members = step.indices
        errors = _errors(self.images.features[members], self.images.digits[members], weights)
        total: ClippedSum[Any] = ClippedSum(weights, clip_norm=step.clip_norm)
        total.add_outer(errors, self.images.features[members])
        step.merge(total)

    def note(self, progress: Progress) -> None:
        """Measure and save."""
        self.weights = progress.parameters
        spent = self.run.epsilon(self.delta) if self._ledger is None else self._charged()
        self.history.append(Round(accuracy(self.weights, self.images), spent))
        if self._path is not None:
            self._save()

    def _charged(self) -> float:
        assert self._ledger is not None
        assert self._scope is not None
        return self._ledger.epsilon_charged(self._scope)

    def _save(self) -> None:
        assert self._path is not None
        optimizer = self._optimizer.state()
        plain = {
            "version": _VERSION,
            **self._fixed,
            "head": None if self._ledger is None else str(self._ledger.head),
            "run": self.run.state().decode(),
            "weights": self.weights.tolist(),
            "optimizer": {
                "num_steps": optimizer["num_steps"],
                "slots": [[slot.tolist() for slot in slots] for slots in optimizer["slots"]],
            },
            "history": [[each.accuracy, each.epsilon] for each in self.history],
        }
        with Destination(self._path, force=True) as destination:
            destination.commit(lambda stream: stream.write(json.dumps(plain).encode()))

    def _resume(self, saved: Mapping[str, Any]) -> None:
        for name, value in self._fixed.items():
            if saved[name] != value:
                option = f"--{name.replace('_', '-')}"
                raise InvalidParameter(
                    f"{self._path} holds a training with {option} {saved[name]}, not {value}: continue it with that, "
                    "or begin another with another --output"
                )
        self.run = PlanRun.from_state(saved["run"].encode(), self.weights, ledger=self._ledger, scope=self._scope)
        self.weights = np.array(saved["weights"], dtype=np.float64).reshape(self.weights.shape)
        self._optimizer.load_state(saved["optimizer"])
        self.history = [Round(float(each), float(epsilon)) for each, epsilon in saved["history"]]


class _Notes(Callback):
    def __init__(self, training: RecordTraining, advance: Callable[[], None]) -> None:
        self._training, self._advance = training, advance

    def _after(self, progress: Progress) -> None:
        self._training.note(progress)
        self._advance()


def load(path: Path) -> dict[str, Any] | None:
    """Return what a training saved, or None if there is no such file.

    Raises
    ------
    FileRefused
        If it holds anything else.
    """
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileRefused(os.fspath(path), f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        plain = None
    names = {"version", "data_seed", "scope", "head", "run", "weights", "optimizer", "history"}
    if not isinstance(plain, dict) or plain.keys() != names or plain["version"] != _VERSION:
        raise FileRefused(os.fspath(path), "is not a checkpoint of this version; move it away to begin anew")
    return plain


def train_without_privacy(images: Images, num_steps: int, advance: Callable[[], None] = lambda: None) -> list[float]:
    """Return the test accuracy after each step of the same training with all images, unclipped and without noise."""
    optimizer = Momentum(_OPEN_RATE, _MOMENTUM, dampening=_MOMENTUM)
    weights: Floats = np.zeros((_CLASSES, images.features.shape[1]))
    accuracies = []
    for _ in range(num_steps):
        gradient = _errors(images.features, images.digits, weights).T @ images.features / len(images.digits)
        weights = optimizer.step(weights, gradient)
        accuracies.append(accuracy(weights, images))
        advance()
    return accuracies


def accuracy(weights: Floats, images: Images) -> float:
    """Return the part of the test images whose digit the model names."""
    return float(np.mean(np.argmax(images.test_features @ weights.T, axis=1) == images.test_digits))


def _errors(features: Floats, digits: npt.NDArray[np.int64], weights: Floats) -> Floats:
    """Return predicted minus true probabilities."""
    scores = features @ weights.T
    errors: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
    errors /= errors.sum(axis=1, keepdims=True)
    errors[np.arange(len(digits)), digits] -= 1.0
    return errors
