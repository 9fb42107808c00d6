"""What a module does with its parameters, noted while it runs: pairs of rows whose products are gradients.

Within `Watch`, which PyTorch asks about each of its functions, a layer of a known kind runs as a function whose
backward pass notes its input and the gradient of its output, and gives its parameters no gradient. A parameter that is
added or multiplied elementwise is replaced by one copy for each example, in the same memory. Any other use of a
parameter raises `Unknown`: such modules run one example at a time.

Along which axis the examples are is not guessed from a length that may be found twice: the module is run on two and on
three examples of zeros, and the axis is where shapes differ. So it is a matter of the module and of shapes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ferrodp.integrations._tensors import framework

_NAMES_WITHOUT_VALUES = frozenset(
    {"size", "dim", "numel", "is_contiguous", "stride", "is_floating_point", "is_complex", "data_ptr", "element_size"}
    | {"storage_offset", "get_device", "requires_grad_", "detach", "__len__", "__repr__", "untyped_storage"}
)
_VALUES = frozenset({"item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "equal", "allclose"})


class Unknown(Exception):  # noqa: N818  # no error: the module runs one example at a time then
    """A parameter is used in a way of which no gradients of single examples are known; says by what."""


@dataclass(slots=True)
class Pairs:
    """A use of a matrix: the gradient of an example is the sum over its pairs of left ⊗ right, perhaps transposed."""

    left: Any
    """(n, T, rows)"""
    right: Any
    """(n, T, columns)"""


@dataclass(slots=True)
class Lookups:
    """A use of a table: row `indices[i, t]` of the gradient of example i has `values[i, t]` added."""

    indices: Any
    """(n, T)"""
    values: Any
    """(n, T, columns)"""


@dataclass(slots=True)
class Rows:
    """Gradients of examples as they are, of any use: (n, *shape)."""

    gradients: Any


@dataclass
class Tape:
    """Which tensors are parameters, and what was noted about their uses."""

    names: dict[int, str]
    """Of trained parameters, by the address of each."""
    axes: dict[str, int] | None = None
    """The axis of the examples in what each parameter meets; None while shapes are looked at."""
    length: int = 0
    shapes: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    uses: dict[str, list[Any]] = field(default_factory=dict)
    copies: list[tuple[str, Any]] = field(default_factory=list)
    """One copy of a parameter for each example, whose gradients are read after the backward pass."""

    def name(self, value: Any) -> str | None:
        """Return the name of a trained parameter; None for anything else."""
        return self.names.get(id(value))

    def note(self, name: str, use: Any) -> None:
        """Remember a use."""
        self.uses.setdefault(name, []).append(use)

    def see(self, name: str, shape: Any) -> None:
        """Remember the shape of what a parameter met."""
        self.shapes.setdefault(name, []).append(tuple(shape))

    def axis(self, name: str, shape: Any) -> int:
        """Return along which axis the examples are, or raise `Unknown` for a shape of another kind."""
        assert self.axes is not None
        axis = self.axes.get(name)
        if axis is None or axis >= len(shape) or shape[axis] != self.length:
            raise Unknown(f"parameter {name!r} meets a tensor in which the examples have no axis of their own")
        return axis

    def collect(self) -> None:
        """Take the gradients of the copies, once the backward pass is over."""
        for name, copy in self.copies:
            if copy.grad is not None:
                self.note(name, Rows(copy.grad.detach()))
        self.copies = []

    def clear(self) -> None:
        """Forget what was noted."""
        self.uses, self.copies = {}, []


def axes_of(two: Tape, three: Tape) -> dict[str, int]:
    """Return the axis of the examples for each parameter, from what was seen of two and of three examples."""
    found: dict[str, int] = {}
    for name, shapes in three.shapes.items():
        others = two.shapes.get(name, [])
        if len(others) != len(shapes):
            raise Unknown(f"parameter {name!r} is used as often as there are examples")
        for small, large in zip(others, shapes, strict=True):
            differing = [axis for axis, pair in enumerate(zip(small, large, strict=False)) if pair[0] != pair[1]]
            if len(small) != len(large) or len(differing) != 1 or (small[differing[0]], large[differing[0]]) != (2, 3):
                raise Unknown(f"parameter {name!r} meets a tensor in which the examples have no axis of their own")
            # mutant: axis-of-one-use-taken-for-all
            if found.setdefault(name, differing[0]) != differing[0]:
                raise Unknown(f"parameter {name!r} meets tensors with the examples along different axes")
    return found


def _examples_first(tape: Tape, name: str, tensor: Any) -> Any:
    """Return a tensor as (n, T, width): the examples first, everything else but the last axis as T."""
    axis = tape.axis(name, tensor.shape)
    if axis == tensor.ndim - 1:
        raise Unknown(f"parameter {name!r} meets a tensor with the examples along the last axis")
    first = tensor.detach().movedim(axis, 0)
    return first.reshape(first.shape[0], -1, first.shape[-1])


@cache
def machinery() -> Any:
    """Return the functions that note what layers do, which need PyTorch to be defined."""
    torch = framework("torch", extra="torch")
    functional = torch.nn.functional
    aten = torch.ops.aten
    is_autocast = torch.is_autocast_enabled

    class Linear(torch.autograd.Function):  # type: ignore[name-defined,misc]
        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any, bias: Any, tape: Tape, names: tuple[str | None, str | None]) -> Any:
            ctx.save_for_backward(x, weight)
            ctx.tape, ctx.names = tape, names
            return functional.linear(x, weight, bias)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            x, weight = ctx.saved_tensors
            _note_linear(ctx.tape, ctx.names, x, gradient)
            needs = ctx.needs_input_grad[0]
            return (gradient @ weight if needs else None), None, None, None, None

    class Matrix(torch.autograd.Function):  # type: ignore[name-defined,misc]
        """x @ weight + bias, as some libraries write a linear layer."""

        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any, bias: Any, tape: Tape, names: tuple[str | None, str | None]) -> Any:
            ctx.save_for_backward(x, weight)
            ctx.tape, ctx.names = tape, names
            out = x @ weight
            return out if bias is None else out + bias

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            x, weight = ctx.saved_tensors
            _note_linear(ctx.tape, ctx.names, x, gradient, transposed=True)
            return (gradient @ weight.t() if ctx.needs_input_grad[0] else None), None, None, None, None

    class Embedding(torch.autograd.Function):  # type: ignore[name-defined,misc]
        @staticmethod
        def forward(ctx: Any, indices: Any, weight: Any, padding_idx: int | None, tape: Tape, name: str) -> Any:
            ctx.save_for_backward(indices)
            ctx.tape, ctx.name, ctx.padding = tape, name, padding_idx
            return functional.embedding(indices, weight)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            (indices,) = ctx.saved_tensors
            axis = ctx.tape.axis(ctx.name, indices.shape)
            first = indices.movedim(axis, 0).reshape(ctx.tape.length, -1)
            values = gradient.detach().movedim(axis, 0).reshape(*first.shape, -1)
            if ctx.padding is not None:
                # mutant: padding-of-a-table-trained
                values = values.masked_fill((first == ctx.padding).unsqueeze(-1), 0.0)
            ctx.tape.note(ctx.name, Lookups(first, values))
            return None, None, None, None, None

    class Convolution(torch.autograd.Function):  # type: ignore[name-defined,misc]
        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any, bias: Any, tape: Tape, names: Any, options: Any) -> Any:
            ctx.save_for_backward(x, weight)
            ctx.tape, ctx.names, ctx.options = tape, names, options
            return torch.convolution(x, weight, bias, *options)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            x, weight = ctx.saved_tensors
            _note_convolution(ctx.tape, ctx.names, x, gradient.detach(), weight, ctx.options)
            own = None
            if ctx.needs_input_grad[0]:
                mask = [True, False, False]
                own = aten.convolution_backward(gradient, x, weight, None, *ctx.options, mask)[0]
            return own, None, None, None, None, None

    def _note_linear(tape: Tape, names: Any, x: Any, gradient: Any, *, transposed: bool = False) -> None:
        weight, bias = names
        name = weight or bias
        errors = _examples_first(tape, name, gradient)
        if weight is not None:
            rows = _examples_first(tape, name, x)
            tape.note(weight, Pairs(rows, errors) if transposed else Pairs(errors, rows))
        if bias is not None:
            tape.note(bias, Rows(errors.sum(1, dtype=_wide(torch, errors))))

    def _note_convolution(tape: Tape, names: Any, x: Any, gradient: Any, weight: Any, options: Any) -> None:
        name, bias = names
        n = tape.length
        if bias is not None:
            tape.note(bias, Rows(gradient.flatten(2).sum(2, dtype=_wide(torch, gradient))))
        if name is None:
            return
        stride, padding, dilation, is_transposed, _, groups = options
        places, width = gradient[0, 0].numel(), weight[0].numel()
        if x.ndim == 4 and not is_transposed and groups == 1 and 2 * places * places <= width * len(weight):
            patches = functional.unfold(x.detach(), weight.shape[2:], dilation, padding, stride)
            tape.note(name, Pairs(gradient.flatten(2).transpose(1, 2), patches.transpose(1, 2)))
            return
        if x.ndim == 4 and not is_transposed and groups == 1:
            patches = functional.unfold(x.detach(), weight.shape[2:], dilation, padding, stride)
            tape.note(name, Rows(torch.bmm(gradient.flatten(2), patches.transpose(1, 2)).view(n, *weight.shape)))
            return
        mask = [False, True, False]
        each = [
            aten.convolution_backward(gradient[i : i + 1], x[i : i + 1].detach(), weight, None, *options, mask)[1]
            for i in range(n)
        ]
        tape.note(name, Rows(torch.stack(each)))

    def cast(x: Any, *others: Any) -> tuple[Any, ...]:
        """Do what autocast does to the operands of a product, in sight of what is noted."""
        kind = x.device.type
        if not is_autocast(kind):
            return (x, *others)
        wanted = torch.get_autocast_dtype(kind)
        return tuple(each if each is None else each.to(wanted) for each in (x, *others))

    def names_of(tape: Tape, *values: Any) -> tuple[str | None, ...]:
        return tuple(None if value is None else tape.name(value) for value in values)

    def linear(tape: Tape, x: Any, weight: Any, bias: Any = None) -> Any:
        names = names_of(tape, weight, bias)
        if tape.axes is None:
            for name in filter(None, names):
                tape.see(name, x.shape)
            return functional.linear(x, weight, bias)
        for name in filter(None, names):
            tape.axis(name, x.shape)
        operands = cast(x, weight, bias)
        with torch.autocast(x.device.type, enabled=False):
            return Linear.apply(*operands, tape, names)

    def matrix(tape: Tape, x: Any, weight: Any, bias: Any = None) -> Any:
        names = names_of(tape, weight, bias)
        if weight.ndim != 2 or tape.name(x) is not None or x.ndim < 2:
            raise Unknown("a parameter is a factor of a product of other shapes than rows and a matrix")
        if tape.axes is None:
            for name in filter(None, names):
                tape.see(name, x.shape)
            out = x @ weight
            return out if bias is None else out + bias
        for name in filter(None, names):
            tape.axis(name, x.shape)
        operands = cast(x, weight, bias)
        with torch.autocast(x.device.type, enabled=False):
            return Matrix.apply(*operands, tape, names)

    def unflattened(run: Any) -> Any:
        """Let a product see its rows with the axes that they had before they were put into one."""

        def seen(tape: Tape, x: Any, *rest: Any, **named: Any) -> Any:
            before = getattr(x, "shape_before", None)
            # mutant: rows-of-a-batch-in-one-axis
            if before is None:
                return run(tape, x, *rest, **named)
            return run(tape, x.view(before), *rest, **named).flatten(0, -2)

        return seen

    rows_matrix, rows_linear = unflattened(matrix), unflattened(linear)

    def addmm(tape: Tape, bias: Any, x: Any, weight: Any, *, beta: float = 1, alpha: float = 1) -> Any:
        if (beta, alpha) != (1, 1) or tape.name(weight) is None:
            raise Unknown("a parameter is used by torch.addmm in another way than a bias and a matrix")
        return rows_matrix(tape, x, weight, bias)

    def matmul(tape: Tape, x: Any, weight: Any) -> Any:
        return rows_matrix(tape, x, weight)

    def embedding(
        tape: Tape,
        indices: Any,
        weight: Any,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Any:
        name = tape.name(weight)
        assert name is not None
        if max_norm is not None or scale_grad_by_freq:
            raise Unknown(f"parameter {name!r} is a table that is changed by what is looked up, or by how often")
        if padding_idx is not None and padding_idx < 0:
            padding_idx += len(weight)
        if indices.ndim == 2 and len(indices) == 1 and tape.axes is not None and tape.axes.get(name) == 0:
            indices = indices.expand(tape.length, -1)  # the same for all examples, such as places in a text
        if tape.axes is None:
            shape = indices.shape
            tape.see(name, (tape.length, shape[1]) if indices.ndim == 2 and len(indices) == 1 else shape)
            return functional.embedding(indices, weight)
        tape.axis(name, indices.shape)
        return Embedding.apply(indices, weight, padding_idx, tape, name)

    def convolution(function: Any, dims: int, is_transposed: bool) -> Any:
        def run(
            tape: Tape,
            x: Any,
            weight: Any,
            bias: Any = None,
            stride: Any = 1,
            padding: Any = 0,
            *rest: Any,
            **named: Any,
        ) -> Any:
            names = names_of(tape, weight, bias)
            if x.ndim != dims + 2:
                raise Unknown("a convolution of one example without an axis of examples")
            if tape.axes is None:
                for name in filter(None, names):
                    tape.see(name, x.shape)
                return function(x, weight, bias, stride, padding, *rest, **named)
            if any(tape.axis(name, x.shape) for name in filter(None, names)):
                raise Unknown("a convolution with the examples along another axis than the first")
            order = ("output_padding", "groups", "dilation") if is_transposed else ("dilation", "groups")
            more = dict(zip(order, rest, strict=False)) | named

            def many(value: Any) -> list[int]:
                return [value] * dims if isinstance(value, int) else list(value)

            dilation, groups = many(more.get("dilation", 1)), more.get("groups", 1)
            if padding == "valid":
                padding = 0
            if padding == "same":
                total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
                if any(each % 2 for each in total):
                    sides = [part for each in reversed(total) for part in (each // 2, each - each // 2)]
                    x, padding = functional.pad(x, sides), 0
                else:
                    padding = [each // 2 for each in total]
            if padding == 0 or isinstance(padding, int) or not isinstance(padding, str):
                padding = many(padding)
            options = (many(stride), padding, dilation, is_transposed, many(more.get("output_padding", 0)), groups)
            operands = cast(x, weight, bias)
            with torch.autocast(x.device.type, enabled=False):
                return Convolution.apply(*operands, tape, names, options)

        return run

    def copies(tape: Tape, parameter: Any, axis: int, ndim: int, offset: int) -> Any:
        """Return a parameter with the axis of examples, each with a copy of its own.

        What it meets has `ndim` axes, with the examples along `axis`; its own first axis is there at `offset`.
        """
        name = tape.name(parameter)
        assert name is not None
        shape = [1] * ndim
        shape[offset : offset + parameter.ndim] = parameter.shape
        if shape[axis] != 1:
            raise Unknown(f"parameter {name!r} has entries of its own along the axis of the examples")
        one = parameter.detach().expand(tape.length, *parameter.shape).requires_grad_()
        tape.copies.append((name, one))
        spread = one.reshape(tape.length, *shape[:axis], *shape[axis + 1 :])
        return spread.movedim(0, axis)

    def normalized(function: Any, first: str) -> Any:
        """Return a normalization whose weight and bias are applied afterwards; `first` says where they are."""

        def run(tape: Tape, x: Any, *args: Any, **named: Any) -> Any:
            given = _bound_arguments(function, x, *args, **named)
            weight, bias = given.get("weight"), given.get("bias")
            known = [each for each in (weight, bias) if each is not None and tape.name(each) is not None]
            if tape.axes is None:
                for each in known:
                    tape.see(str(tape.name(each)), x.shape)
                return function(**given)
            without: dict[str, Any] = {key: None for key in ("weight", "bias") if key in given}
            plain = function(**{**given, **without})
            for each, is_weight in ((weight, True), (bias, False)):
                if each is None:
                    continue
                name = tape.name(each)
                offset = 1 if first == "channel" else x.ndim - each.ndim
                if name is not None:
                    value = copies(tape, each, tape.axis(name, x.shape), x.ndim, offset)
                else:
                    at = [1] * x.ndim
                    at[offset : offset + each.ndim] = each.shape
                    value = each.reshape(at)
                plain = plain * value if is_weight else plain + value
            return plain

        return run

    def elementwise(function: Any) -> Any:
        def run(tape: Tape, *args: Any, **named: Any) -> Any:
            tensors = [each for each in args if isinstance(each, torch.Tensor)]
            found = [each for each in tensors if tape.name(each) is not None]
            others = [each for each in tensors if tape.name(each) is None]
            if any(isinstance(each, torch.Tensor) for each in named.values()) or not others:
                raise Unknown(f"parameter {tape.name(found[0]) if found else ''!r} is used by itself")
            ndim = max(each.ndim for each in tensors)
            full = torch.broadcast_shapes(*(each.shape for each in tensors))
            if tape.axes is None:
                for each in found:
                    tape.see(str(tape.name(each)), full)
                return function(*args, **named)
            changed = []
            for each in args:
                name = tape.name(each) if isinstance(each, torch.Tensor) else None
                if name is not None:
                    each = copies(tape, each, tape.axis(name, full), ndim, ndim - each.ndim)
                changed.append(each)
            return function(*changed, **named)

        return run

    def expand(tape: Tape, parameter: Any, *sizes: Any) -> Any:
        sizes = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
        name = tape.name(parameter)
        if name is None:
            raise Unknown("a parameter gives a tensor its shape")
        full = torch.broadcast_shapes(parameter.shape, [1 if size == -1 else size for size in sizes])
        if tape.axes is None:
            tape.see(name, full)
            return parameter.expand(*sizes)
        return copies(tape, parameter, tape.axis(name, full), len(sizes), len(sizes) - parameter.ndim).expand(*sizes)

    table: dict[Any, Any] = {
        functional.linear: rows_linear,
        functional.embedding: embedding,
        torch.addmm: addmm,
        torch.matmul: matmul,
        torch.Tensor.matmul: matmul,
        torch.Tensor.__matmul__: matmul,
        torch.mm: matmul,
        torch.Tensor.mm: matmul,
        functional.layer_norm: normalized(functional.layer_norm, "last"),
        functional.rms_norm: normalized(functional.rms_norm, "last"),
        torch.rms_norm: normalized(torch.rms_norm, "last"),
        functional.group_norm: normalized(functional.group_norm, "channel"),
        functional.batch_norm: normalized(functional.batch_norm, "channel"),
        functional.instance_norm: normalized(functional.instance_norm, "channel"),
        torch.Tensor.expand: expand,
    }
    for dims in (1, 2, 3):
        for prefix, is_transposed in (("conv", False), ("conv_transpose", True)):
            function = getattr(functional, f"{prefix}{dims}d")
            table[function] = convolution(function, dims, is_transposed)
    for name in ("add", "sub", "mul", "div", "true_divide", "__add__", "__sub__", "__mul__", "__truediv__"):
        for place in (torch, torch.Tensor):
            if hasattr(place, name):
                table[getattr(place, name)] = elementwise(getattr(place, name))
    for name in ("__radd__", "__rmul__", "__rsub__"):
        table[getattr(torch.Tensor, name)] = elementwise(getattr(torch.Tensor, name))

    same = {torch.Tensor.float, torch.Tensor.to, torch.Tensor.type_as, torch.Tensor.contiguous}
    reshaping = {torch.Tensor.view, torch.Tensor.reshape, torch.reshape, torch.Tensor.flatten, torch.flatten}
    composite = functional.multi_head_attention_forward

    class Watch(torch.overrides.TorchFunctionMode):  # type: ignore[name-defined,misc]
        """Runs each function on a parameter so that it is noted."""

        def __init__(self, tape: Tape) -> None:
            super().__init__()
            self.tape = tape

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            tape = self.tape
            names = tape.names
            # mutant: decisions-of-a-batch-taken-for-each-example
            if _called(function) in _VALUES:
                if _called(function) == "__bool__" and _asks_for_padding():
                    return False
                raise Unknown(f"the model looks at values of a batch, by {_called(function)}")
            if not any(id(each) in names for each in args) and not any(id(each) in names for each in kwargs.values()):
                for each in (*args, *kwargs.values()):
                    if isinstance(each, (list, tuple)) and any(id(item) in names for item in each):
                        raise Unknown(f"a parameter is used by {_called(function)}")
                found = function(*args, **kwargs)
                if (
                    function in reshaping
                    and found.ndim == 2
                    and args[0].ndim > 2
                    and found.shape[1] == args[0].shape[-1]
                ):
                    found.shape_before = args[0].shape  # rows in the same order: `matrix` looks for it
                return found
            if (not torch.is_grad_enabled() and tape.axes is not None) or _called(function) in _NAMES_WITHOUT_VALUES:
                return function(*args, **kwargs)
            if getattr(function, "__name__", "") in ("__get__", "__set__"):
                owner = getattr(getattr(function, "__self__", None), "__name__", "")
                if owner in ("T", "mT", "H", "mH", "real", "imag", "data", "grad"):
                    raise Unknown(f"a parameter is used by Tensor.{owner}")
                return function(*args, **kwargs)
            if function is composite:
                return attention(tape, *args, **kwargs)
            handler = table.get(function)
            if handler is None and function in same:
                found = function(*args, **kwargs)
                if found is args[0]:  # the parameter itself, as where it has the type already
                    return found
            if handler is None:
                raise Unknown(f"a parameter is used by {_called(function)}")
            return handler(tape, *args, **kwargs)

    def attention(tape: Tape, *args: Any, **kwargs: Any) -> Any:
        """Multi-head attention whose projections are linear layers, and are noted."""
        given = _bound_arguments(composite, *args, **kwargs)
        query, key, value = given["query"], given["key"], given["value"]
        odd = given.get("use_separate_proj_weight") or given.get("add_zero_attn") or query.ndim != 3
        if odd or any(given.get(each) is not None for each in ("bias_k", "bias_v", "static_k", "static_v")):
            raise Unknown("multi_head_attention_forward with extra keys, separate projections or without a batch")
        width, heads = query.shape[-1], given["num_heads"]
        weight, bias = given["in_proj_weight"], given["in_proj_bias"]

        def project(x: Any) -> Any:
            known = any(tape.name(each) is not None for each in (weight, bias))
            return linear(tape, x, weight, bias) if known else functional.linear(x, weight, bias)

        if key is value and query is key:
            parts = project(query).chunk(3, -1)
        else:
            parts = tuple(project(x)[..., i * width : (i + 1) * width] for i, x in enumerate((query, key, value)))
        # (L, n, width) -> (n, heads, L, width / heads)
        q, k, v = (each.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3) for each in parts)
        mask = _added_mask(torch, given.get("attn_mask"), given.get("key_padding_mask"), q, k)
        rate = given["dropout_p"] if given.get("training", True) else 0.0
        weights = None
        if given.get("need_weights", True):
            scores = (q * (q.shape[-1] ** -0.5)) @ k.transpose(-1, -2)
            weights = torch.softmax(scores if mask is None else scores + mask, -1)
            weights = functional.dropout(weights, rate) if rate else weights
            out = weights @ v
        else:
            out = functional.scaled_dot_product_attention(q, k, v, mask, rate)
        out = out.permute(2, 0, 1, 3).flatten(2)
        last, own = given["out_proj_weight"], given["out_proj_bias"]
        known = any(tape.name(each) is not None for each in (last, own))
        out = linear(tape, out, last, own) if known else functional.linear(out, last, own)
        if weights is not None and given.get("average_attn_weights", True):
            weights = weights.mean(1)
        return out, weights

    return Watch


def _added_mask(torch: Any, mask: Any, padding: Any, q: Any, k: Any) -> Any:
    """Return the masks of attention as one that is added to scores of shape (n, heads, L, S); None without any."""

    def added(each: Any) -> Any:
        return (
            torch.zeros_like(each, dtype=q.dtype).masked_fill_(each, -torch.inf) if each.dtype is torch.bool else each
        )

    total = None
    if mask is not None:
        total = added(mask)
        total = total if total.ndim == 2 else total.view(q.shape[0], q.shape[1], *total.shape[1:])
    if padding is not None:
        of_keys = added(padding)[:, None, None, :]
        total = of_keys if total is None else total + of_keys
    return total


def _asks_for_padding() -> bool:
    """Whether transformers asks if a batch has padding, to leave the mask out: it is not left out, whatever is there.

    With a mask the outcome is the same, and an example's is then no matter of what else is in its batch.
    """
    frame: Any = sys._getframe(2)
    return frame is not None and frame.f_globals.get("__name__") == "transformers.masking_utils"


def _called(function: Any) -> str:
    return str(getattr(function, "__name__", function))


def _wide(torch: Any, tensor: Any) -> Any:
    return torch.float64 if tensor.device.type != "mps" else torch.float32


@cache
def _order(function: Any) -> tuple[str, ...]:
    import inspect

    try:
        return tuple(inspect.signature(function).parameters)
    except ValueError:  # torch.rms_norm, which is built in
        return ("input", "normalized_shape", "weight", "eps")


def _bound_arguments(function: Any, *args: Any, **named: Any) -> dict[str, Any]:
    """Return the arguments of a call by name."""
    return dict(zip(_order(function), args, strict=False)) | named
