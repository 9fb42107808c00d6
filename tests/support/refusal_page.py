"""The page `docs/refusals.md`, made from what the accountants say.

Run ``PYTHONPATH=tests python -m support.refusal_page`` to write it.
"""

import re
from pathlib import Path

from ferrodp import accounting as ac
from ferrodp import events as event_kinds
from ferrodp.accounting import NeighboringRelation
from support.refusals import ROWS

PAGE = Path(__file__).parents[2] / "docs" / "refusals.md"
ACCOUNTANTS = (ac.PldAccountant, ac.RdpAccountant, ac.ZcdpAccountant, ac.PureDpAccountant)
SHORT = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "add",
    NeighboringRelation.REPLACE_ONE: "replace",
    NeighboringRelation.REPLACE_SPECIAL: "special",
}
OTHER_EVENTS = re.compile(r"\b(?!GaussianEvent)\w+Event\b")
HEAD = """\
# What accountants refuse

An accountant refuses an event for which it has no theorem. `UnsupportedEventError` says why, and names accountants that
do bound the event: for the same neighboring relation if there are any, otherwise for another one.

The table shows for which relations an event is bounded: `add` is `ADD_OR_REMOVE_ONE`, `replace` is `REPLACE_ONE`,
`special` is `REPLACE_SPECIAL`. Sensitivities have to be stated for the relation. `GdpAccountant` accepts Gaussian noise
and events that are equivalent to it, under every relation, and nothing else.

Where no dominating pair of distributions is known for an event, `PldAccountant` uses the bounds of the other measures;
`explain` says which.
"""
REASONS = "`PldAccountant` refuses events that have neither a dominating pair nor one of the Rényi curves below."
WAYS = """\
## Ways out

| refused | instead |
| --- | --- |
| a sample, in zCDP | `RdpAccountant` or `PldAccountant`, which account for amplification by sampling |
| a truncated Poisson sample | account for `REPLACE_ONE`, or for Poisson samples, and add `truncation_delta` to δ |
| a random allocation, one record replaced | state the sensitivities for adding and removing, or for a null record |
| randomized response, a record added or removed | `REPLACE_ONE`, or `REPLACE_SPECIAL` for a uniform answer |
| a sample of a sample | one sample with the product of the probabilities, where both are of one kind |
| the best of a Poisson number of runs, in pure ε | `RdpAccountant`, or a truncated negative binomial number |
| an (ε, δ)-private mechanism of your own | `EpsilonDeltaEvent`, which every accountant but `GdpAccountant` takes |
"""


def reason(accountant, event, relation):
    """Return why the event is refused, without the way out; None if it is not."""
    one = accountant(neighboring_relation=relation)
    parts = [part for part, _ in event_kinds.decompose(event)]
    return next((found for found in map(one._supports, parts) if found is not None), None)


def page():
    """Return the text."""
    lines = [HEAD, "| event | " + " | ".join(f"`{each.__name__}`" for each in ACCOUNTANTS) + " |", "| --- " * 5 + "|"]
    reasons = {}
    for name, event in ROWS.items():
        cells = []
        for accountant in ACCOUNTANTS:
            able = []
            for relation, short in SHORT.items():
                found = reason(accountant, event, relation)
                if found is None:
                    able.append(short)
                elif accountant is not ac.PldAccountant:
                    found = OTHER_EVENTS.sub("such an event", found)
                    reasons.setdefault((accountant.__name__, found), []).append(f"{name} ({short})")
            cells.append("all" if len(able) == len(SHORT) else ", ".join(able) or "–")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", "## Reasons", "", REASONS, ""]
    for (accountant, text), where in sorted(reasons.items()):
        more = f" and {len(where) - 1} more" if len(where) > 1 else ""
        lines.append(f"- `{accountant}`, {where[0]}{more}: {text}.")
    return "\n".join([*lines, "", WAYS])


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
