"""Blocks of code that spend one budget: ``with ferrodp.budget(epsilon=…):``.

`Spending` is the block, and `SpendingReport` says what was spent in it.
"""

from ferrodp.budget.blocks.block import Spending
from ferrodp.budget.blocks.report import SpendingReport

__all__ = ["Spending", "SpendingReport"]
