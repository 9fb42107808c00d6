"""Continual counters: running totals that are released day after day, all of them under one payment.

`Counter`
    What is released and what it costs: how many days, what a unit can add, the noise, errors and intervals.
`CounterStream`
    The stream itself, of up to a million counters. In a file it outlives the process, and goes on with the same noise.

The noise of days is correlated, so that a total has little more noise after a year than after a day: see
`ferrodp.correlated`.
"""

from ferrodp.counters.counter import Counter
from ferrodp.counters.stream import CounterStream

__all__ = ["Counter", "CounterStream"]
