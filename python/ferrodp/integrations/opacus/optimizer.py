"""Opacus' optimizer with sums of exact sensitivity and exact noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.integrations._processes import refuse_world
from ferrodp.integrations._tensors import check_place, common_dtype, framework
from ferrodp.random import NoiseSource
from ferrodp.random.noise import source_or_default

if TYPE_CHECKING:
    from opacus.optimizers import DPOptimizer

__all__ = ["make_exact"]

Optimizer = TypeVar("Optimizer", bound="DPOptimizer")


def make_exact(optimizer: Optimizer, *, source: NoiseSource | None = None) -> Optimizer:
    """Let an optimizer of Opacus clip, sum and noise exactly; everything else stays Opacus'.

    From then on the optimizer clips per-example gradients in exact arithmetic and sums them as integers, so that the
    sensitivity of the sum is ``max_grad_norm`` exactly, and releases the sum with exactly rounded Gaussian noise from
    the operating system's randomness. Opacus computes the clipping factors, the products and the sum in float32, so
    its sensitivity is larger by rounding errors, and the low-order bits of its noise can depend on the data ([Mir12]).

    Parameters
    ----------
    optimizer : opacus.optimizers.DPOptimizer
        What ``make_private`` returned; changed in place. Its class becomes a subclass of ``DPOptimizer``, and other
        objects that refer to it (schedulers, ``BatchMemoryManager``, the privacy engine) go on to work.
    source : NoiseSource, optional
        None, or a seeded source for tests.

    Returns
    -------
    DPOptimizer
        The same object.

    Raises
    ------
    InvalidType
        If it is not a ``DPOptimizer`` with flat clipping in one process: per-layer, adaptive, ghost and distributed
        clipping are other classes, and not supported.
    InvalidParameter
        If parameters are not in the memory of the CPU, if the optimizer has a noise generator, which would be ignored,
        or holds gradients that were clipped already; or if several processes work together by ``torch.distributed``.
    MissingPackage
        If Opacus is not installed.

    Notes
    -----
    ===============================  ================================================================
    non-finite per-example gradient  the example counts as zeros
    empty batch                      noised and charged like any other
    virtual steps                    the sum is kept until the last part of the batch
    float16, bfloat16                widened to float32, summed, rounded back after the noise
    several batches accumulated      refused: an example could be in two of them, and count twice
    ===============================  ================================================================

    Noise of standard deviation ``noise_multiplier * max_grad_norm`` is in every coordinate of the sum, which is divided
    by the expected batch size, for a loss that is a mean, before it is rounded to the type of ``p.grad``.

    References
    ----------
    [Mir12] Mironov, "On significance of the least significant bits for differential privacy", CCS 2012.

    Examples
    --------
    >>> import torch
    >>> from opacus import GradSampleModule
    >>> from opacus.optimizers import DPOptimizer
    >>> from ferrodp.integrations import opacus as exact
    >>> model = GradSampleModule(torch.nn.Linear(3, 1))
    >>> optimizer = exact.make_exact(
    ...     DPOptimizer(
    ...         torch.optim.SGD(model.parameters(), lr=0.1),
    ...         noise_multiplier=1.0,
    ...         max_grad_norm=1.0,
    ...         expected_batch_size=4,
    ...     )
    ... )
    >>> model(torch.ones(4, 3, requires_grad=True)).mean().backward()
    >>> optimizer.step()
    >>> type(optimizer).__name__
    'ExactOptimizer'
    """
    library = framework("opacus.optimizers.optimizer", extra="opacus")
    if type(optimizer) is not library.DPOptimizer:
        rule = "optimizer must be an opacus DPOptimizer with flat clipping in one process"
        raise InvalidType(f"{rule}, got {type(optimizer).__name__}; PrivacyEngine.make_private returns one")
    refuse_world()
    if optimizer.generator is not None and not optimizer.secure_mode:
        raise InvalidParameter("optimizer must have no noise generator: noise comes from the operating system")
    parameters = {f"parameter {i}": each for i, each in enumerate(optimizer.params)}
    for name, parameter in parameters.items():
        check_place(name, parameter)
    common_dtype(parameters)
    if any(parameter.summed_grad is not None for parameter in parameters.values()):
        raise InvalidParameter("optimizer must hold no clipped gradients: call make_exact before the first step")
    source_or_default(source)
    exact_class = framework("ferrodp.integrations.opacus._exact", extra="opacus").ExactOptimizer
    optimizer.__class__ = exact_class
    optimizer.total, optimizer.source, optimizer.memory = None, source, None
    return optimizer
