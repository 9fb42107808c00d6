"""The process of one training: settings and commands come in as lines of JSON, answers go out as lines of JSON.

It ends when its input is closed, so it outlives neither the page nor the server that started it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import IO, Any

from ferrodp.explorer.model import datasets
from ferrodp.explorer.model.training import MOST_SHOWN, PLAYGROUND, Training

_MOST_CPU_SECONDS = 600


class Commands:
    """What the page asks for: reads the input in a thread of its own."""

    def __init__(self, lines: IO[str], *, single: bool) -> None:
        self._lines, self._changed = lines, threading.Condition()
        self.is_paused, self._single = single, int(single)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._lines:
            with self._changed:
                command = line.strip()
                self.is_paused = command != "resume" if command in ("pause", "resume", "step") else self.is_paused
                self._single += command == "step"
                self._changed.notify_all()
        os._exit(0)  # nobody listens any more

    def wait(self) -> bool:
        """Wait until a step may be taken; return whether it was requested by itself."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_paused or self._single)
            if self._single:
                self._single -= 1
                return True
            return False


def main() -> None:
    """Run one training; its settings are the first line."""
    _limit()
    for name, _ in datasets.DATASETS:
        datasets.load(name)  # before anybody waits for it
    say({"type": "ready"})
    first = sys.stdin.readline()
    if not first:
        return
    asked = json.loads(first)
    commands = Commands(sys.stdin, single=asked.pop("mode") == "step")
    repeats = int(asked.pop("repeats"))
    settings: dict[str, Any] = PLAYGROUND.read(asked)
    training = Training(**settings, repeats=repeats)
    every = max(1, training.num_steps // MOST_SHOWN)
    show("step", training)
    while training.step < training.num_steps:
        by_itself = commands.wait()
        training.advance()
        if by_itself or commands.is_paused or training.step % every == 0 or training.step in (1, training.num_steps):
            training.evaluate()
            show("step", training)
    show("end", training)


def show(kind: str, training: Training) -> None:
    """Write where the training stands."""
    say({"type": kind, "step": training.step, "num_steps": training.num_steps, "answer": training.answer().as_json()})


def say(message: dict[str, Any]) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(message, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _limit() -> None:
    """Yield to the server, and end if something never ends."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (_MOST_CPU_SECONDS, _MOST_CPU_SECONDS + 1))
        os.nice(5)
    except (ImportError, OSError, ValueError):  # not everywhere
        pass


if __name__ == "__main__":
    main()
