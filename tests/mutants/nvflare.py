"""Defects of the NVFlare filter and server that must not pass, as fields of `mutants.Mutant`, and who notices."""

KILLERS = {
    "nvflare": "framework nvflare tests/integrations/nvflare/test_update_filter.py",
    "nvflare-server": "framework nvflare tests/integrations/nvflare/test_private_server.py",
}

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
    (
        "a model of NVFlare is shown before it is saved",
        "nvflare-model-shown-before-it-is-saved",
        "if kept is not None:",
        "self._keep(loaded, model)\n                if kept is not None:",
        "nvflare-server",
    ),
    (
        "more sites than the plan knows take part",
        "more-sites-than-the-plan-knows",
        "if len(names) > self.num_clients:",
        "if False:",
        "nvflare-server",
    ),
    (
        "a site's second or late result is added",
        "result-of-another-round-added",
        "if current is None or site not in self._waiting:",
        "if current is None:",
        "nvflare-server",
    ),
    (
        "the model of a site is added for its update",
        "model-of-a-site-added-for-its-update",
        "current.add(sent, minus=base)",
        "current.add(sent)",
        "nvflare-server",
    ),
]
