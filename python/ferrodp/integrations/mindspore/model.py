"""The private model under the name of the earlier toolkit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting import PldAccountant
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import ComposedEvent, PrivacyEvent
from ferrodp.integrations._processes import refuse_mindspore_world
from ferrodp.integrations.mindspore import _loaders, _plans, _settings
from ferrodp.integrations.mindspore.mechanisms import (
    AdaClippingWithGaussianRandom,
    NoiseCorrelatedGaussianRandom,
    NoiseGaussianRandom,
    NoiseLaplaceRandom,
)
from ferrodp.integrations.mindspore.optimizers import is_private
from ferrodp.plan import PlanRun, PrivacyPlan
from ferrodp.random import NoiseSource
from ferrodp.testing import SeededNoiseSource

if TYPE_CHECKING:
    from ferrodp.budget import PrivacyLedger

__all__ = ["DPModel"]


class DPModel:
    """Train a MindSpore network with differential privacy; evaluate it as `mindspore.train.Model` does.

    Every training is a run of a `ferrodp.plan.PrivacyPlan`: per-example gradients are computed in MindSpore, clipped
    and summed exactly, noised and charged by the plan, and handed to the optimizer. What the plan says about the cost
    holds for everybody who sees the network after any step. It does not hold for the loss that callbacks such as
    `LossMonitor` see, which is computed from private records without noise: do not publish it.

    Two kinds of datasets are accounted for as what they are. From an `IndexedDataset` the plan draws Poisson samples.
    A `mindspore.dataset` hands out batches in its own order, which amplifies nothing: each record costs as much as one
    release without sampling in each of its batches (`ferrodp.plan.GivenOrder`, for neighbors of which one has a null
    record in the place of a record).

    Parameters
    ----------
    micro_batches : int, optional
        Into how many groups a batch is cut, whose mean gradients are clipped; has to divide the batch size. Unless
        each record is a group of its own, one record can turn its group's gradient around: that is charged as half the
        noise multiplier. None (or the batch size) clips the gradient of each record.
    norm_bound : float
        L2 norm that each vector is clipped to, L1 norm with Laplace noise; finite, > 0; the same as the mechanism's.
    noise_mech : NoiseGaussianRandom or another noise mechanism of this module, optional
        The noise, unless the optimizer brings it.
    clip_mech : AdaClippingWithGaussianRandom, optional
        Makes the norm follow a quantile; the query that tells it is charged.
    optimizer : mindspore.nn.Optimizer
        Any optimizer, or with `noise_mech=None` one of a class of `DPOptimizerClassFactory`.
    network : mindspore.nn.Cell
        Takes the first column of the dataset, or if there is no `loss_fn` all of them, and returns a loss then.
    loss_fn : mindspore.nn.Cell, optional
        Takes the network's output and the second column.
    metrics : dict or set, optional
        As for `mindspore.train.Model`.
    ledger : PrivacyLedger, optional
        Charged for every step before it begins; its budget may end a training.
    scope : str or sequence of str, optional
        Of the ledger.
    key : str, optional
        Name of this training in the ledger. A program that was killed and is run again with the same key goes on: the
        first call of `train` continues the first one of before, and so on; steps that were charged are left out. Only
        for an `IndexedDataset`, whose samples the plan draws. Restore the network and the optimizer from a checkpoint.
    plan_delta : float, optional
        Charges all steps as one (ε, δ) before the first, each `train` for itself; see `PrivacyPlan.start`.
    noise_file : path, optional
        With `NoiseCorrelatedGaussianRandom` and a `key`: keeps the secret key of the noise, as for `PrivacyPlan.start`,
        so that a training that goes on draws the same noise. The n-th further call of `train` keeps its own beside it,
        under the name with ``.n`` appended.
    **kwargs
        `eval_network`, `eval_indexes`: as for `mindspore.train.Model`.

    Raises
    ------
    InvalidParameter, InvalidType
        If there is no optimizer; if there is a key and no ledger; if both or neither of `noise_mech` and a private
        optimizer are given; if the noise decays or cancels and the clip norm adapts; if two norm bounds or numbers of
        groups disagree; if a key has no noise file where the noise cancels, or a file is given where it does not; or if
        a parameter is out of its domain.
    MissingPackage
        If MindSpore is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from mindspore import nn
    >>> from ferrodp.integrations.mindspore import DPModel, IndexedDataset, NoiseMechanismsFactory
    >>> network = nn.Dense(4, 3)
    >>> model = DPModel(
    ...     micro_batches=None,
    ...     norm_bound=1.0,
    ...     noise_mech=NoiseMechanismsFactory().create("Gaussian", initial_noise_multiplier=2.0),
    ...     optimizer=nn.SGD(network.trainable_params(), learning_rate=0.1),
    ...     network=network,
    ...     loss_fn=nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
    ...     metrics={"Accuracy": nn.Accuracy()},
    ... )
    >>> images, labels = np.ones((60, 4), np.float32), np.zeros(60, np.int32)
    >>> dataset = IndexedDataset(images, labels, batch_size=20)
    >>> plan = model.privacy_plan(2, dataset)
    >>> model.train(2, dataset)
    >>> plan.num_steps, plan.epsilon(1e-3) == model.epsilon(1e-3)
    (6, True)
    >>> import mindspore
    >>> import mindspore.dataset as ds
    >>> model.predict(mindspore.Tensor(images[:2])).shape
    (2, 3)
    >>> sorted(model.eval(ds.NumpySlicesDataset((images, labels), ["image", "label"]).batch(20)))
    ['Accuracy']
    """

    def __init__(
        self,
        micro_batches: int | None = 2,
        norm_bound: Real = 1.0,
        noise_mech: NoiseGaussianRandom | None = None,
        clip_mech: AdaClippingWithGaussianRandom | None = None,
        optimizer: Any = None,
        *,
        network: Any = None,
        loss_fn: Any = None,
        metrics: Any = None,
        ledger: PrivacyLedger | None = None,
        scope: str | Sequence[str] | None = None,
        key: str | None = None,
        plan_delta: Real | None = None,
        noise_file: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self._micro_batches = None if not micro_batches else _validate.count("micro_batches", micro_batches)
        self._mechanism = _mechanism(noise_mech, optimizer)
        self._norm = _validate.positive("norm_bound", norm_bound)
        if self._mechanism.norm_bound != self._norm:
            raise InvalidParameter(
                f"norm_bound is {self._norm!r}, but {self._mechanism.norm_bound!r} in the noise mechanism: noise is "
                "scaled to the norm that vectors are clipped to"
            )
        if noise_mech is None and optimizer.micro_batches != self._micro_batches:
            raise InvalidParameter(
                f"micro_batches is {self._micro_batches!r}, but {optimizer.micro_batches!r} in the private optimizer"
            )
        if clip_mech is not None:
            if not isinstance(clip_mech, AdaClippingWithGaussianRandom):
                raise InvalidType(f"clip_mech must be a clip mechanism, got {type(clip_mech).__name__}")
            # mutant: laplace-noise-for-a-norm-that-adapts
            if isinstance(self._mechanism, NoiseLaplaceRandom):
                raise InvalidParameter(
                    "clip_mech must be None with Laplace noise: its norm follows a quantile of L2 norms"
                )
            if self._mechanism.is_adaptive:
                raise InvalidParameter("clip_mech must be None where the noise decays: only one of them may adapt")
            if isinstance(self._mechanism, NoiseCorrelatedGaussianRandom):
                raise InvalidParameter("clip_mech must be None where noise cancels over the steps: they share one norm")
        self._clip_mech = clip_mech
        self._source = _source(self._mechanism, clip_mech)
        if getattr(optimizer, "loss_scale", 1.0) != 1.0:
            raise InvalidParameter("the optimizer's loss_scale must be 1: gradients are never scaled here")
        unknown = sorted(set(kwargs) - {"eval_network", "eval_indexes", "amp_level"})
        if unknown or kwargs.pop("amp_level", "O0") != "O0":
            raise InvalidParameter(f"DPModel trains in float32 and takes neither amp_level nor {', '.join(unknown)}")
        framework = _settings.imported()
        if not isinstance(network, framework.nn.Cell):
            raise InvalidType(f"network must be a mindspore.nn.Cell, got {type(network).__name__}")
        self._network, self._loss_fn, self._optimizer = network, loss_fn, optimizer
        if key is not None and (not isinstance(key, str) or not key):
            raise InvalidType(f"key must be a str that is not empty, or None, got {type(key).__name__}")
        if key is not None and ledger is None:
            raise InvalidParameter("key must be None without a ledger: nothing else remembers what was charged")
        self._ledger, self._scope, self._key = ledger, scope, key
        self._plan_delta = None if plan_delta is None else _validate.delta(plan_delta, name="plan_delta")
        self._noise_file = self._checked_noise_file(noise_file)
        # Without an optimizer: this model evaluates, and cannot train.
        self._model = framework.train.Model(network, loss_fn, None, metrics, **kwargs)
        self._spent: list[tuple[PrivacyPlan, PlanRun[Any]]] = []
        self._last_run: PlanRun[Any] | None = None
        self._clip_norm = self._norm
        self._gradients: dict[int, Any] = {}

    def _checked_noise_file(self, file: str | os.PathLike[str] | None) -> str | None:
        """Return the path of the noise's key; the run of a plan asks the same, when a training begins."""
        if file is not None and not isinstance(file, (str, os.PathLike)):
            raise InvalidType(f"noise_file must be a path or None, got {type(file).__name__}")
        if not isinstance(self._mechanism, NoiseCorrelatedGaussianRandom):
            if file is not None:
                raise InvalidParameter(
                    "noise_file must be None: only NoiseCorrelatedGaussianRandom has a key that outlives a step"
                )
        elif (self._key is None) != (file is None):
            raise InvalidParameter(
                "key and noise_file must be given together where noise cancels over the steps: a training that goes on "
                "has to draw the same noise; for example key='training', noise_file='training.noise'"
            )
        return None if file is None else os.fsdecode(file)

    # what it costs

    def privacy_plan(
        self,
        epoch: int,
        train_dataset: Any,
        *,
        batch_size: int | None = None,
        steps_per_epoch: int | None = None,
        once_an_epoch: bool | None = None,
    ) -> PrivacyPlan:
        """Return the plan that `train` would run with these arguments; its `forecast` tells what it costs, and why.

        Parameters
        ----------
        epoch, train_dataset, batch_size, steps_per_epoch, once_an_epoch
            As for `train`.

        Returns
        -------
        PrivacyPlan

        Raises
        ------
        InvalidParameter, InvalidType
            If the arguments are not accepted, or the batch size is no multiple of `micro_batches`.
        """
        batches = _loaders.batches_of(
            train_dataset, batch_size=batch_size, steps_per_epoch=steps_per_epoch, once_an_epoch=once_an_epoch
        )
        return self._plan(batches, epoch)

    def _plan(self, batches: _plans.Batches, epoch: int) -> PrivacyPlan:
        return _plans.plan_of(
            batches,
            _plans.checked_epochs(epoch),
            schedule=self._mechanism.schedule(sum(run.step_number for _, run in self._spent)),
            norm_bound=self._clip_norm,
            clip_mech=self._clip_mech,
            micro_batches=self._micro_batches,
            clipping=self._mechanism.clipping() if self._clip_mech is None else None,
        )

    @property
    def event(self) -> PrivacyEvent:
        """What all trainings of this model were charged so far."""
        return ComposedEvent(events=tuple(run.event for _, run in self._spent))

    def epsilon(self, delta: Real) -> float:
        """Return an upper bound on the ε of all trainings of this model so far.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        float
            Infinite if a seeded source drew.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` is out of its domain.
        """
        _validate.delta(delta)
        if not self._spent:
            return 0.0
        accountant = PldAccountant(neighboring_relation=self._spent[0][0].neighboring_relation)
        accountant.compose(self.event)
        return accountant.epsilon(delta)

    # what MindSpore's model does

    def train(
        self,
        epoch: int,
        train_dataset: Any,
        callbacks: Any = None,
        dataset_sink_mode: bool = False,
        sink_size: int = -1,
        initial_epoch: int = 0,
        *,
        batch_size: int | None = None,
        steps_per_epoch: int | None = None,
        once_an_epoch: bool | None = None,
    ) -> None:
        """Train the network for some epochs; further trainings add to the cost.

        Parameters
        ----------
        epoch : int
            At least 1.
        train_dataset : IndexedDataset or mindspore.dataset.Dataset
            Private. Its columns are those that `network` and `loss_fn` take.
        callbacks : callback or list of callbacks, optional
            Monitors of this module, and those of MindSpore.
        dataset_sink_mode, sink_size
            Accepted; batches are always handed over step by step.
        initial_epoch : int
            0: trainings go on by themselves.
        batch_size : int, optional
            Largest batch of a loader; by default what the loader says.
        steps_per_epoch : int, optional
            Batches of an epoch of a loader; by default what it says.
        once_an_epoch : bool, optional
            Whether a loader gives each record at most once an epoch. By default True where every operation of the
            dataset is known to, else False: then each record is charged for every step. A caller who knows better may
            promise it.

        Raises
        ------
        InvalidParameter, InvalidType
            If an argument is not accepted, there is a key and a loader, the network has layers that mix examples, a
            monitor states other parameters than the training has, an earlier training was about other neighbors, or
            this is one of several processes that train together. Nothing was charged.
        FerroError
            If a loader hands out a batch of more than `batch_size` records. The step was not charged.
        BudgetExceeded, LedgerError, TicketError
            If the ledger fails. A budget that ends does not raise: see `PlanRun.stopped` of `last_run`.
        """
        from ferrodp.integrations.mindspore import _training
        from ferrodp.integrations.mindspore._gradients import PerExampleGradients

        if initial_epoch != 0:
            raise InvalidParameter("initial_epoch must be 0: a second training goes on where the first one ended")
        batches = _loaders.batches_of(
            train_dataset, batch_size=batch_size, steps_per_epoch=steps_per_epoch, once_an_epoch=once_an_epoch
        )
        plan = self._plan(batches, epoch)
        if self._spent and self._spent[0][0].neighboring_relation is not plan.neighboring_relation:
            raise InvalidParameter(
                "a model that was trained on an IndexedDataset cannot go on with a loader, nor the other way round: "
                "their guarantees are about different neighbors"
            )
        if self._key is not None and batches.population_size is None:
            raise InvalidParameter(
                "key must be None with a loader: it would begin anew and hand out records twice in an epoch that was "
                "charged once; use an IndexedDataset"
            )
        refuse_mindspore_world(_settings.imported())
        template = [_zeros(parameter) for parameter in self._optimizer.parameters]
        before = len(self._spent)
        name = None if self._key is None else f"{self._key}/{before}"
        file = self._noise_file if self._noise_file is None or not before else f"{self._noise_file}.{before}"
        run = plan.start(
            template,
            ledger=self._ledger,
            scope=self._scope,
            key=name,
            plan_delta=self._plan_delta,
            source=self._source,
            # mutant: mindspore-training-without-its-noise-file
            noise_file=file,
        )
        training = _plans.Training(
            batches=batches,
            mechanism=self._mechanism,
            micro_batches=self._micro_batches,
            plan=plan,
            run=run,
            earlier=tuple(earlier.event for _, earlier in self._spent),
        )
        size = _training.chunk_size(batches)
        if size not in self._gradients:
            parameters = self._optimizer.parameters
            self._gradients[size] = PerExampleGradients(self._network, self._loss_fn, parameters, chunk_size=size)
        loop = _training.Loop(
            training,
            self._gradients[size],
            network=self._network,
            loss_fn=self._loss_fn,
            optimizer=self._optimizer,
            callbacks=_listed(callbacks),
            dataset=train_dataset,
        )
        self._spent.append((plan, run))
        self._last_run = run
        try:
            loop()
        finally:
            self._clip_norm = run.clip_norm
            if run.step_number == 0 and run.event == ComposedEvent(events=()):
                self._spent.pop()  # nothing was charged

    @property
    def last_run(self) -> PlanRun[Any] | None:
        """The run of the last training: how far it came, and why it stopped."""
        return self._last_run

    def eval(self, valid_dataset: Any, callbacks: Any = None, dataset_sink_mode: bool = False) -> dict[str, Any]:
        """Return the metrics of the network on a dataset, as `mindspore.train.Model.eval`.

        What it returns about private records is not noised and not charged.

        Parameters
        ----------
        valid_dataset : mindspore.dataset.Dataset
            With batches.
        callbacks, dataset_sink_mode
            As for `mindspore.train.Model.eval`.

        Returns
        -------
        dict
            By the names of `metrics`.

        Raises
        ------
        ValueError
            If no metrics were given.
        """
        found: dict[str, Any] = self._model.eval(valid_dataset, callbacks, dataset_sink_mode)
        return found

    def predict(self, *predict_data: Any) -> Any:
        """Return the network's output, as `mindspore.train.Model.predict`.

        Parameters
        ----------
        *predict_data : Tensor
            What the network takes.

        Returns
        -------
        Tensor

        Raises
        ------
        ValueError
            If the network does not take the tensors.
        """
        return self._model.predict(*predict_data)


def _mechanism(noise_mech: Any, optimizer: Any) -> NoiseGaussianRandom:
    """Return the one mechanism that noise mechanism and optimizer bring."""
    if optimizer is None:
        raise InvalidParameter(
            "optimizer must be given, got None; for example one of DPOptimizerClassFactory().create('SGD')"
        )
    if noise_mech is None:
        if not is_private(optimizer):
            raise InvalidParameter(
                "noise_mech must be given, or an optimizer of DPOptimizerClassFactory: nothing adds noise"
            )
        mechanism: NoiseGaussianRandom = optimizer.noise_mech
        return mechanism
    if is_private(optimizer):
        raise InvalidParameter("noise_mech must be None where the optimizer is one of DPOptimizerClassFactory")
    if not isinstance(noise_mech, NoiseGaussianRandom):
        raise InvalidType(f"noise_mech must be a noise mechanism, got {type(noise_mech).__name__}")
    return noise_mech


def _source(mechanism: NoiseGaussianRandom, clip_mech: AdaClippingWithGaussianRandom | None) -> NoiseSource | None:
    """Return the source that a test passed, or None."""
    seeds = [each.seed for each in (mechanism, clip_mech) if each is not None]
    return next((seed for seed in seeds if isinstance(seed, SeededNoiseSource)), None)


def _zeros(parameter: Any) -> Any:
    return np.zeros(parameter.shape, dtype=np.float32)


def _listed(callbacks: Any) -> list[Any]:
    if callbacks is None:
        return []
    return list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
