"""The loop over the rounds of a server app: it goes on where a checkpoint ends, and ends where the budget does."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable
from typing import Any

from ferrodp.integrations.flower._library import library

_INFO = logging.INFO


def run_rounds(
    strategy: Any,
    grid: Any,
    arrays: Any,
    *,
    done: int,
    num_rounds: int,
    timeout: float,
    train_config: Any,
    evaluate_config: Any,
    evaluate_fn: Callable[[int, Any], Any] | None,
) -> Any:
    """Return the `Result` of the rounds after the first `done`, up to `num_rounds` or the end of the budget."""
    log, app = library("flwr.supercore").log, library("flwr.app")
    result = library("flwr.serverapp.strategy").Result(arrays=arrays)
    train_config = app.ConfigRecord() if train_config is None else train_config
    evaluate_config = app.ConfigRecord() if evaluate_config is None else evaluate_config
    began = time.monotonic()

    def evaluated(number: int) -> None:
        found = None if evaluate_fn is None else evaluate_fn(number, result.arrays)
        if found is not None:
            log(_INFO, "\tModel after round %d: %s", number, found)
            result.evaluate_metrics_serverapp[number] = found

    strategy.summary()
    if done:
        log(_INFO, "Going on after round %d of %d, with the model of the checkpoint", done, num_rounds)
    evaluated(done)
    for number in range(done + 1, num_rounds + 1):
        messages = strategy.configure_train(number, result.arrays, train_config, grid)
        # mutant: flower-rounds-go-on-after-the-budget
        if strategy.run.stopped is not None:
            break
        log(_INFO, "[ROUND %d/%d]", number, num_rounds)
        new, metrics = strategy.aggregate_train(number, grid.send_and_receive(messages, timeout=timeout))
        if new is not None:
            result.arrays = new
        if metrics is not None:
            log(_INFO, "\t%s", metrics)
            result.train_metrics_clientapp[number] = metrics
        messages = list(strategy.configure_evaluate(number, result.arrays, evaluate_config, grid))
        replies = grid.send_and_receive(messages, timeout=timeout) if messages else []
        metrics = strategy.aggregate_evaluate(number, replies)
        if metrics is not None:
            log(_INFO, "\t%s", metrics)
            result.evaluate_metrics_clientapp[number] = metrics
        evaluated(number)
    log(_INFO, "Rounds ended after %.2f s", time.monotonic() - began)
    for line in io.StringIO(str(result)):
        log(_INFO, "\t%s", line.rstrip("\n"))
    return result


def exhausted(reason: str) -> Exception:
    """Return Flower's error for a budget that is spent: a server app that raises it ends with exit code 200."""
    errors = library("flwr.serverapp.exception")
    known = getattr(errors, "PrivacyBudgetExhausted", None)
    if known is None:  # flwr 1.41 has none
        base = library("flwr.app.exception").AppExitException
        known = type("PrivacyBudgetExhausted", (base,), {"exit_code": 200})
    error: Exception = known(reason)
    return error
