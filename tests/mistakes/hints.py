"""What a refusal offers, and a call that does it: the mistake is made, then the way out is taken, which has to pass.

Each row stands for the places in the sources whose words its message has; `test_hints.py` sees that no place with a way
out is left over. Conversions of columns and arrays have tables of their own (`test_conversions.py`), and so have values
that are offered for single parameters (`test_every_parameter.py`). What the programs print is in
`hints_of_programs.py`.
"""

from hints_of_ledgers import HINTS as OF_LEDGERS
from hints_of_plans import HINTS as OF_PLANS
from hints_of_releases import HINTS as OF_RELEASES

HINTS = [*OF_RELEASES, *OF_LEDGERS, *OF_PLANS]
