"""Defects of the NVFlare filter that must not pass, as fields of `mutants.Mutant`, and who notices."""

KILLERS = {"nvflare": "framework nvflare tests/integrations/nvflare/test_update_filter.py"}

MUTANTS = [
    (
        "a site is protected against its absence alone",
        "site-protected-against-absence-alone",
        "NeighboringRelation.REPLACE_ONE",
        "NeighboringRelation.REPLACE_SPECIAL",
        "nvflare",
    ),
    (
        "a result that is no update leaves",
        "result-that-is-no-update-leaves",
        "if exchange is None:",
        "if exchange is None:\n            return shareable\n        if exchange is None:",
        "nvflare",
    ),
    (
        "a result leaves after a refusal",
        "result-leaves-after-a-refusal",
        "if self._refusal is not None:",
        "if False:",
        "nvflare",
    ),
]
