"""Modifiers of client apps: clip an update on the client, or clip and noise it there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferrodp._base._casting import casting, widest
from ferrodp.errors import InvalidParameter
from ferrodp.integrations.flower._library import array_of, array_record, library, model_of, only_record
from ferrodp.sums import ClippedSum

__all__ = ["clip_mod", "local_noise_mod"]


def clip_mod(message: Any, context: Any, call_next: Callable[[Any, Any], Any]) -> Any:
    """Clip the update of a client before it is sent; the server clips it again.

    Use as ``@app.train(mods=[clip_mod])``. Reads ``clip-norm`` and ``skip`` (names of arrays that are left as they are,
    separated by commas) of the run's configuration at every call.

    Parameters
    ----------
    message, context, call_next
        As for every modifier of Flower.

    Returns
    -------
    Message
        The reply, whose update has an L2 norm of at most ``clip-norm``.

    Raises
    ------
    InvalidParameter
        If ``clip-norm`` is missing or not accepted. Flower makes an error reply of it.

    Examples
    --------
    >>> from flwr.clientapp import ClientApp
    >>> app = ClientApp(mods=[clip_mod])
    """
    return _modified(message, context, call_next, noise=False)


def local_noise_mod(message: Any, context: Any, call_next: Callable[[Any, Any], Any]) -> Any:
    """Clip the update of a client and add noise before it is sent: private against the server, too.

    Use as ``@app.train(mods=[local_noise_mod])``. Reads ``clip-norm``, ``noise-multiplier`` and ``skip`` of the run's
    configuration at every call. The noise has standard deviation ``noise-multiplier`` times 2·``clip-norm``, the L2
    sensitivity if a client's data is replaced, so each reply costs what
    ``GaussianEvent(noise_multiplier=noise-multiplier)`` says, per client and round. Nothing else of the client leaves:
    arrays in ``skip`` go back as the server sent them, and metrics and configurations of the reply are dropped.

    Parameters
    ----------
    message, context, call_next
        As for every modifier of Flower.

    Returns
    -------
    Message
        The reply, noised, with the weight 1.

    Raises
    ------
    InvalidParameter
        If ``clip-norm`` or ``noise-multiplier`` is missing or not accepted. Flower makes an error reply of it.

    Examples
    --------
    >>> from flwr.clientapp import ClientApp
    >>> app = ClientApp(mods=[local_noise_mod])
    """
    return _modified(message, context, call_next, noise=True)


def _modified(message: Any, context: Any, call_next: Callable[[Any, Any], Any], *, noise: bool) -> Any:
    settings = context.run_config
    norm = _setting(settings, "clip-norm")
    multiplier = _setting(settings, "noise-multiplier") if noise else None
    skipped = tuple(name.strip() for name in str(settings.get("skip", "")).split(",") if name.strip())
    _, sent = only_record(message.content.array_records, "ArrayRecord")
    model = model_of(sent, skipped)
    cast_as = casting(model, widest(model, skipped), skipped)
    reply = call_next(message, context)
    if reply.has_error():
        return reply
    name, record = only_record(reply.content.array_records, "ArrayRecord")
    if set(record) != set(sent):
        raise InvalidParameter("a reply must have the arrays that were sent")
    new = {key: array_of(array) for key, array in record.items()}
    total: ClippedSum[Any] = ClippedSum(cast_as.template, clip_norm=norm)
    total.add(cast_as.cast(new, "reply"), minus=cast_as.cast(model, "model"))
    # mutant: local-noise-for-half-the-sensitivity
    moved: Any = total.to_float() if multiplier is None else total.release(noise_multiplier=2.0 * multiplier)
    # mutant: counters-of-a-client-leave-without-noise
    new = {**(model if noise else new), **cast_as.moved(model, moved)}
    reply.content.array_records[name] = array_record(new)
    if noise:
        app = library("flwr.app")
        for key in list(reply.content.metric_records):
            reply.content.metric_records[key] = app.MetricRecord({"num-examples": 1})
        # mutant: configurations-of-a-client-leave-without-noise
        for key in list(reply.content.config_records):
            del reply.content[key]
    return reply


def _setting(settings: Any, name: str) -> float:
    value = settings.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidParameter(f"run_config must have a number {name!r}, got {type(value).__name__}")
    return float(value)
