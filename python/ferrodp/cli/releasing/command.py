"""`ferrodp release`: clip many update files, sum them, noise the sum, write one file."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp import distributed, files
from ferrodp._base import _arrays, _validate
from ferrodp.accounting import GdpAccountant
from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report, counted, rounded_up
from ferrodp.cli.printing.shapes import EVENT, FLAG, INTEGER, NUMBER, TEXT, many, maybe, named, record
from ferrodp.cli.releasing import inputs as _inputs
from ferrodp.cli.releasing import payment as _release_ledger
from ferrodp.clipping import ClippedSum
from ferrodp.errors import FerroError, InvalidParameter, MissingPackage
from ferrodp.files import Layout

_log = logging.getLogger(__name__)
WEAK_EPSILON = 20.0
_MARGIN = 1 << 12  # bytes reserved per array beside its elements: headers, twice the name, an entry of the directory
_FORMATS = ", ".join(files.EXTENSIONS)


_FIELDS = {
    "output": TEXT,
    "inputs": INTEGER,
    "inputs_protected": FLAG,
    "arrays": named(record({"shape": many(INTEGER), "dtype": TEXT})),
    **dict.fromkeys(("clip_norm", "noise_multiplier", "standard_deviation"), NUMBER),
    "denominator": maybe(NUMBER),
    "event": EVENT,
    "epsilon": NUMBER,
    "delta": NUMBER,
    "unit": TEXT,
    "neighboring_relations": many(TEXT),
    "ledger": maybe(_release_ledger.FIELDS),
}


def _show(report: Report, console: Console) -> None:
    """Print the report for people."""
    arrays, divided = report["arrays"], ""
    if report["denominator"] is not None:
        divided = f", then all divided by {report['denominator']:g}"
    values = sum(math.prod(array["shape"]) for array in arrays.values())
    weak = " (weak: an epsilon above 20 promises next to nothing)" if report["epsilon"] > WEAK_EPSILON else ""
    console.fields(
        {
            "written": f"{report['output']} ({counted(len(arrays), 'array')}, {counted(values, 'value')})",
            "inputs": f"{report['inputs']} (the count is not protected)",
            "clipped": f"each to L2 norm {report['clip_norm']:g}, all arrays as one vector",
            "noise": f"exact Gaussian of standard deviation {report['standard_deviation']:g} on the sum{divided}",
            "event": f"GaussianEvent(noise_multiplier={report['event']['noise_multiplier']!r})",
            "epsilon": f"{rounded_up(report['epsilon'])} at delta {report['delta']:g}{weak}",
            "unit": f"{report['unit']}, added, removed or replaced by zeros",
            **({} if report["ledger"] is None else _release_ledger.lines(report["ledger"])),
        }
    )


@command(
    option("inputs", nargs="+", metavar="IN", help=f"update files ({_FORMATS}), patterns, or @LIST"),
    option("-o", "--output", required=True, metavar="OUT", help=f"the file to write ({_FORMATS}), whole or not at all"),
    option("--clip-norm", type=float, required=True, metavar="C", help="L2 norm that every update is scaled down to"),
    option(
        "--noise-multiplier",
        type=float,
        required=True,
        metavar="Z",
        help="standard deviation of the noise, divided by C",
    ),
    option(
        "--mean",
        "--denominator",
        dest="denominator",
        type=float,
        metavar="N",
        help="divide the noised sum by this public number",
    ),
    option("--delta", type=float, default=1e-5, help="the delta for which epsilon is reported (default: %(default)s)"),
    option("--dtype", choices=("float32", "float64"), help="of the output (default: that of the first input)"),
    option("--workers", type=int, metavar="N", help="read and add files on N threads"),
    option("--dask", metavar="ADDRESS", help="read and add files on the workers of this Dask scheduler"),
    option("--threads", type=int, metavar="N", help="default: as many as the work is worth"),
    option("--force", action="store_true", help="replace OUT if it exists"),
    *_release_ledger.OPTIONS,
    show=_show,
    fields=_FIELDS,
)
def release(args: Args, console: Console) -> Report:
    r"""Clip, sum and noise update files.

    Clip every input as one vector to an L2 norm, sum them, add exact Gaussian
    noise once, and write the result.

    The result is (epsilon, delta)-differentially private for one input file as the
    unit of privacy: whether a file was there, or was all zeros, cannot be told
    beyond that. So put all that one person or client contributes into one file.
    The number of input files is not protected; the denominator of a mean must be a
    number you are free to publish.

    inputs:
      All files hold arrays of the same names, shapes and dtypes (float32 or
      float64) as the first one. Names may be patterns ('round-7/*.npz') or lists
      of paths (@paths.txt, one a line). An update that holds NaN or infinities
      counts as zeros, and the report does not tell. All headers are checked before
      noise is drawn; memory stays at one sum and one update.

    workers:
      With --workers, files are read and added on so many threads, and memory is
      that of a sum and an update for each, and one more sum. With --dask, the
      workers of a cluster do it, which must see the files under the same paths;
      sums without noise travel between them. The result of either is that of one
      process, and noise is drawn here, once.

    ledger:
      With --ledger the release is charged to a scope before any update is read, and
      refused if it does not fit. The charge is given back if the command fails
      before noise is drawn; from then on it is spent, whether OUT was written or
      not. If the command is killed, the charge stays: with --key, the same command
      takes it up again, unless noise was drawn.

    examples:
      ferrodp release round-7/*.npz --clip-norm 1.0 --noise-multiplier 1.1 \
          --mean 100 -o round-7.npz
      ferrodp release round-7/*.npz --clip-norm 1.0 --noise-multiplier 10 \
          -o round-7.npz --ledger budget.db --scope hospital --key round-7
    """
    clip_norm = _validate.positive("--clip-norm", args.clip_norm, toward="down")
    noise_multiplier = _validate.positive("--noise-multiplier", args.noise_multiplier)
    delta = _validate.delta(args.delta, name="--delta")
    denominator = None if args.denominator is None else _validate.positive("--mean", args.denominator)
    noise = {"noise_multiplier": noise_multiplier, "denominator": denominator, "threads": args.threads}
    _release_ledger.check(args)
    workers = None if args.workers is None else _validate.count("--workers", args.workers, maximum=1024)
    if workers is not None and args.dask is not None:
        raise InvalidParameter("--workers and --dask must not be given both")
    suffix = files.extension(args.output)
    paths = _inputs.expand(args.inputs)
    _inputs.check_distinct(paths, args.output)
    template = _common_layout(paths, console)
    files.check_writable(args.output, tuple(template))
    outputs = {name: np.dtype(args.dtype or entry.dtype) for name, entry in template.items()}
    summed = np.result_type(*(entry.dtype for entry in template.values()), *outputs.values())
    # The same release of no values at all: what it refuses is refused before any update is read.
    ClippedSum((0,), clip_norm=clip_norm, dtype=summed).release(**noise)

    with (
        files.Destination(args.output, force=args.force) as destination,
        _release_ledger.payment(args, noise_multiplier) as (told, paid),
    ):
        destination.reserve(sum(entry.size * outputs[entry.name].itemsize + _MARGIN for entry in template.values()))
        total = _clipped_sum(paths, template, summed, clip_norm, args, console)
        released = total.release(**noise, **paid)
        noised = {name: _narrowed(array, outputs[name]) for name, array in released.items()}
        destination.commit(lambda stream: files.write(stream, suffix, noised))
        ledger = told()

    accountant = GdpAccountant()
    accountant.compose(total.event)
    return {
        "command": "release",
        "output": args.output,
        "inputs": len(paths),
        "inputs_protected": False,
        "arrays": {name: {"shape": list(entry.shape), "dtype": str(outputs[name])} for name, entry in template.items()},
        "clip_norm": clip_norm,
        "noise_multiplier": noise_multiplier,
        "standard_deviation": noise_multiplier * clip_norm,
        "denominator": denominator,
        "event": total.event.to_dict(),
        "epsilon": accountant.epsilon(delta),
        "delta": delta,
        "unit": "one input file",
        "neighboring_relations": ["add_or_remove_one", "replace_special"],
        "ledger": ledger,
    }


def _common_layout(paths: list[str], console: Console) -> Layout:
    """Return the layout that all files share, from their headers alone."""
    template = files.describe(paths[0])
    with console.progress("checking", len(paths)) as advance:
        for path in paths:
            files.check_alike(path, files.describe(path), template)
            advance()
    return template


def _clipped_sum(
    paths: list[str], template: Layout, dtype: np.dtype[Any], clip_norm: float, args: Args, console: Console
) -> ClippedSum[dict[str, npt.NDArray[Any]]]:
    """Return the sum of the clipped updates in `dtype`, which holds each of theirs."""
    shapes = {name: entry.shape for name, entry in template.items()}
    updates = partial(_updates, template=template, dtype=dtype)
    with console.progress("adding", len(paths)) as advance:
        if args.workers is None and args.dask is None:
            total = ClippedSum(shapes, clip_norm=clip_norm, dtype=dtype)
            for update in updates(paths):
                total.add(update, threads=args.threads)
                advance()
            return total
        options: dict[str, Any] = {
            "clip_norm": clip_norm,
            "dtype": dtype,
            "load": updates,
            "expected_count": len(paths),
        }
        if args.dask is not None:
            found = _on_cluster(args.dask, paths, shapes, options)
        else:
            # Few shares a thread: each ends in a sum of its own, twice as large as an update of float32.
            with ThreadPoolExecutor(args.workers) as pool:
                found = distributed.clipped_sum(
                    _shares(paths, 4 * args.workers), shapes, executor=pool, max_pending=args.workers, **options
                )
        for _ in paths:
            advance()
        return found


def _on_cluster(
    address: str, paths: list[str], shapes: Any, options: dict[str, Any]
) -> ClippedSum[dict[str, npt.NDArray[Any]]]:
    """Return the sum that the workers of a Dask scheduler make."""
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingPackage('--dask needs Dask: pip install "ferrodp[dask]"') from error
    from ferrodp.integrations import dask

    try:
        client = Client(address)
    except OSError as error:
        raise FerroError(f"--dask: no scheduler answers at {address}") from error
    with client:
        workers = sum(client.nthreads().values())
        absolute = [os.path.abspath(path) for path in paths]
        return dask.clipped_sum(_shares(absolute, 4 * max(workers, 1)), shapes, client=client, **options)


def _shares(paths: list[str], number: int) -> list[tuple[str, ...]]:
    """Return the paths in at most `number` shares of nearly one size."""
    size = -(-len(paths) // min(number, len(paths)))
    return [tuple(paths[start : start + size]) for start in range(0, len(paths), size)]


def _updates(paths: Sequence[str], *, template: Layout, dtype: np.dtype[Any]) -> Iterator[dict[str, npt.NDArray[Any]]]:
    """Yield the updates of files in `dtype`, all in the same memory."""
    stored = {name: np.zeros(entry.shape, entry.dtype) for name, entry in template.items()}
    update = {name: array if array.dtype == dtype else np.zeros(array.shape, dtype) for name, array in stored.items()}
    for path in paths:
        _log.debug("reading %s", path)
        files.read_into(path, stored)
        for name, array in stored.items():
            if update[name] is not array:
                _copied(update[name], array)
        yield update


@_arrays.quiet
def _copied(out: npt.NDArray[Any], array: npt.NDArray[Any]) -> None:
    """Copy float32 into float64: exact."""
    np.copyto(out, array)


@_arrays.quiet
def _narrowed(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return a released array in `dtype`; what leaves its range becomes its largest number. Post-processing."""
    if array.dtype == dtype:
        return array
    largest = np.finfo(dtype).max
    narrowed: npt.NDArray[Any] = np.clip(array, -largest, largest).astype(dtype)
    return narrowed
