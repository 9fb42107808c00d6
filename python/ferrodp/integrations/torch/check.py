"""Whether gradients of single examples are right for a model and a loss, before a training begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ferrodp._base import _validate
from ferrodp._base._public import suggesting
from ferrodp._base._validate import Real
from ferrodp.errors import FerroError, InvalidParameter
from ferrodp.integrations.torch._ghost import written_out
from ferrodp.integrations.torch._losses import seed_of
from ferrodp.integrations.torch._modules import Module
from ferrodp.integrations.torch.gradients import Gradients, Loss

if TYPE_CHECKING:
    from torch.nn import Module as TorchModule

__all__ = ["GradientCheck", "check"]

_WAYS = ("start", "make_private")


@dataclass(frozen=True)
class GradientCheck:
    """What `check` found.

    Attributes
    ----------
    differences : dict of str to float
        For "start" and "make_private": by how much the gradient of an example differs from that of a backward pass of
        its own, in norms of that; the largest of the examples. Missing for a way that refuses the model.
    ways : dict of str to str
        "together" or "one by one".
    reasons : dict of str to str
        Why one by one.
    refusals : dict of str to str
        What a way says that refuses the model, the loss or the batch.
    wrong : dict of str to list of str
        Parameters whose gradients differ by more than the tolerance.
    unused : list of str
        Trained parameters that the loss does not depend on: noise alone would move them.
    is_in_evaluation : bool
        The model draws random numbers, and so all was compared in evaluation mode.

    Examples
    --------
    >>> import torch
    >>> from ferrodp.integrations.torch import check
    >>> found = check(torch.nn.GRU(3, 2, batch_first=True), (torch.ones(4, 5, 3),), lambda m, x: m(x)[0].sum())
    >>> found.passed, found.ways["make_private"]
    (True, 'one by one')
    >>> print(found)
    start: one by one, as torch.func.vmap cannot run the model or the loss: RuntimeError; right
    make_private: one by one, as a parameter is used by gru; right
    """

    differences: dict[str, float] = field(default_factory=dict)
    ways: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, list[str]] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)
    is_in_evaluation: bool = False

    @property
    def passed(self) -> bool:
        """Whether neither way refuses the model, and the gradients of both are right."""
        return not self.refusals and not self.wrong and self.differences.keys() == set(_WAYS)

    def __str__(self) -> str:
        lines = []
        for way in _WAYS:
            if way in self.refusals:
                lines.append(f"{way}: refused: {self.refusals[way]}")
                continue
            how = self.ways[way] + (f", as {self.reasons[way]}" if way in self.reasons else "")
            wrong = self.wrong.get(way)
            if wrong:
                listed = ", ".join(map(repr, wrong[:3])) + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else "")
                lines.append(f"{way}: {how}; WRONG by {self.differences[way]:.1g} of its norm, for {listed}")
            else:
                lines.append(f"{way}: {how}; right")
        if self.unused:
            lines.append("the loss does not depend on " + ", ".join(map(repr, self.unused)))
        if self.is_in_evaluation:
            lines.append("compared in evaluation mode, as the model draws random numbers")
        return "\n".join(lines)


@suggesting
def check(model: TorchModule, batch: Any, loss: Loss, *, tolerance: Real = 1e-4) -> GradientCheck:
    """Compare gradients of single examples with those of one backward pass for each, and say what is refused.

    Nothing is charged, drawn or changed. The result shows differences of gradients of the batch, and is as private as
    the batch: use made-up or public examples.

    Parameters
    ----------
    model : torch.nn.Module
        In the memory of the CPU.
    batch : tensor, or a tuple of tensors
        A few examples, along the first axis of each tensor; two at least.
    loss : callable
        ``loss(model, *batch)`` returns the scalar loss of a batch, a mean or a sum over its examples.
    tolerance : float
        Differences above are wrong, in norms of the gradient of the example; > 0. Half precision needs about 0.1.

    Returns
    -------
    GradientCheck
        What holds for `start`, where the loss is called with one example at a time, and for `make_private`, where the
        model is called with a batch. ``print`` shows it in a few lines.

    Raises
    ------
    InvalidParameter, InvalidType, InvalidArrayType
        If the arguments are not what `per_example_gradients` takes, or the batch has one example. What a way refuses is
        in the result, and does not raise.
    MissingPackage
        If PyTorch is not installed.

    Notes
    -----
    The comparison is with a loop: the loss of one example by itself, by PyTorch's own backward pass. A model that mixes
    the examples of a batch, such as one that subtracts their mean, has other gradients in a batch, and is named.

    Examples
    --------
    >>> import torch
    >>> from ferrodp.integrations.torch import check
    >>> def loss(model, x):
    ...     return model(x).square().mean()
    >>> print(check(torch.nn.Linear(3, 2), torch.randn(4, 3), loss))
    start: together; right
    make_private: together; right
    >>> class Centered(torch.nn.Linear):
    ...     def forward(self, x):
    ...         return super().forward(x - x.mean(0))
    >>> found = check(Centered(3, 2), torch.randn(4, 3), loss)
    >>> found.passed, found.wrong
    (False, {'make_private': ['weight', 'bias']})
    """
    limit = _validate.positive("tolerance", tolerance)
    examples = batch if isinstance(batch, tuple) else (batch,)
    gradients = Gradients(model, loss)
    if gradients.length(examples) < 2:
        raise InvalidParameter("batch must have two examples at least, to see whether they are mixed")
    return _Check(gradients, examples, loss, limit).run()


class _Check:
    def __init__(self, gradients: Gradients, batch: tuple[Any, ...], loss: Loss, tolerance: float) -> None:
        self._gradients, self._batch, self._loss, self._tolerance = gradients, batch, loss, tolerance
        self._torch, self._model = gradients._torch, gradients.model
        self._length = gradients.length(batch)

    def run(self) -> GradientCheck:
        torch, model = self._torch, self._model
        found = GradientCheck()
        with torch.random.fork_rng(devices=[]):
            try:
                self._gradients.check_layers()
                expected = self._loop()
                draws = any(not torch.equal(one, other) for one, other in zip(expected, self._loop(), strict=True))
            except FerroError as error:
                found.refusals.update(dict.fromkeys(_WAYS, str(error)))
                return found
            modes = [(module, module.training) for module in model.modules()]
            try:
                if draws:
                    model.eval()
                    expected = self._loop()
                    found = GradientCheck(is_in_evaluation=True)
                for way, gradients in (("start", self._of_start), ("make_private", self._of_loops)):
                    try:
                        self._compare(found, way, expected, gradients(found))
                    except FerroError as error:
                        found.refusals[way] = str(error)
            finally:
                for module, mode in modes:
                    module.training = mode
        return found

    def _flat(self, gradients: dict[str, Any]) -> Any:
        """Return gradients as one row for each example, in float64."""
        parts = [gradients[name].reshape(len(gradients[name]), -1).double() for name in self._gradients.parameters]
        return self._torch.cat(parts, 1)

    def _loop(self) -> Any:
        reference = Gradients(self._model, self._loss)
        reference.takes_reentrant = True
        return self._flat(reference._one_by_one(self._batch, self._length))

    def _compare(self, found: GradientCheck, way: str, expected: Any, given: Any) -> None:
        torch = self._torch
        norms = torch.linalg.vector_norm(expected, dim=1, keepdim=True)
        apart = (given - expected) / torch.where(norms > 0, norms, 1.0)
        worst = torch.linalg.vector_norm(apart, dim=1).nan_to_num(nan=torch.inf).max()
        found.differences[way] = float(worst)
        if worst > self._tolerance:
            sizes = [each.numel() for each in self._gradients.parameters.values()]
            pieces = apart.split_with_sizes(sizes, 1)
            found.wrong[way] = [
                name
                for name, piece in zip(self._gradients.parameters, pieces, strict=True)
                if not bool((torch.linalg.vector_norm(piece, dim=1) <= self._tolerance / len(sizes)).all())
            ]

    def _of_start(self, found: GradientCheck) -> Any:
        gradients = Gradients(self._model, self._loss)
        flat = self._flat(gradients(*self._batch))
        found.ways["start"] = "together" if gradients.reason is None else "one by one"
        if gradients.reason is not None:
            found.reasons["start"] = gradients.reason
        gradients.check_use(self._batch)
        found.unused.extend(gradients.unused)
        return flat

    def _of_loops(self, found: GradientCheck) -> Any:
        """Return what a private loop makes of the batch, its gradients written out."""
        torch, parameters = self._torch, self._gradients.parameters
        run = Module(self._model, parameters)
        plain, before = self._model.forward, vars(self._model).get("forward")

        def forward(*args: Any, **kwargs: Any) -> Any:
            if run.is_inside:
                return plain(*args, **kwargs)
            return run.run(plain, args, kwargs, self._length)

        kept = {name: each.grad for name, each in parameters.items()}
        vars(self._model)["forward"] = forward
        try:
            with torch.enable_grad():
                for each in parameters.values():
                    each.grad = None
                value = self._loss(self._model, *self._batch)
                if run.way is None:
                    raise InvalidParameter("the loss must be of outputs of the model, and never calls it")
                seed = seed_of(value, self._length)
                with seed.corrected():
                    uses = run.backward(value, seed.value)
            besides = [name for name, each in parameters.items() if each.grad is not None]
        finally:
            if before is None:
                del vars(self._model)["forward"]
            else:
                vars(self._model)["forward"] = before
            for name, each in parameters.items():
                each.grad = kept[name]
        if besides:
            raise InvalidParameter(
                f"the loss depends on parameter {besides[0]!r} besides outputs of the model, which gives no gradients "
                "of single examples: leave penalties on parameters to the optimizer, as in weight_decay=0.01, and "
                "write checkpoint(..., use_reentrant=False)"
            )
        found.ways["make_private"] = run.way
        if run.reason is not None:
            found.reasons["make_private"] = run.reason
        sums = {}
        for name, each in parameters.items():
            gradients = [written_out(torch, use, each.shape) for use in uses.get(name, [])]
            zeros = each.new_zeros((self._length, *each.shape))
            sums[name] = seed.scale * sum((one.reshape(zeros.shape).double() for one in gradients), zeros.double())
        return self._flat(sums)
