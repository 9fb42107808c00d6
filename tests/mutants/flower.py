"""Defects of the Flower integration that must not pass, as fields of `mutants.Mutant`, and who notices."""

TESTS = "tests/integrations/flower"
KILLERS = {
    "flower": f"framework flower {TESTS}/test_strategy.py {TESTS}/test_mods_and_accountant.py",
    "correlated rounds": f"framework flower {TESTS}/test_correlated_rounds.py",
}

MUTANTS = [
    (
        "a client that comes back under another name takes part twice",
        "client-that-comes-back-takes-part-twice",
        "number - number % period",
        "number",
        "flower",
    ),
    (
        "counters of a client leave without noise",
        "counters-of-a-client-leave-without-noise",
        "model if noise else new",
        "new",
        "flower",
    ),
    (
        "configurations of a client leave without noise",
        "configurations-of-a-client-leave-without-noise",
        "list(reply.content.config_records)",
        "[]",
        "flower",
    ),
    (
        "a client's whole model is added, not its update",
        "whole-model-added-for-the-update",
        ", minus=self._base",
        "",
        "flower",
    ),
    (
        "a plan of records runs clients",
        "plan-of-records-runs-clients",
        'plan.unit != "client"',
        "False",
        "flower",
    ),
    (
        "one client replies twice",
        "one-client-replies-twice",
        "reply.metadata.src_node_id in waiting",
        "reply.metadata.src_node_id in self._asked",
        "flower",
    ),
    (
        "more clients than the plan knows",
        "more-clients-than-the-plan-knows",
        "> self._plan.population_size",
        "> 10**9",
        "flower",
    ),
    (
        "a client that comes back takes part too soon for correlated noise",
        "client-that-comes-back-takes-part-too-soon",
        "begun -= period",
        "pass",
        "correlated rounds",
    ),
    (
        "a client that lost its slot takes part twice",
        "client-that-lost-its-slot-takes-part-twice",
        "self._since.pop(gone, None)",
        "pass",
        "flower",
    ),
    (
        "a strategy that compares replies is accepted",
        "strategy-that-compares-replies-accepted",
        "names & _ORDER_STATISTICS",
        "False",
        "flower",
    ),
    (
        "local noise is for half the sensitivity",
        "local-noise-for-half-the-sensitivity",
        "2.0 * multiplier",
        "multiplier",
        "flower",
    ),
    (
        "a replaced client of Flower is counted once",
        "flower-replaced-client-counted-once",
        "2 if",
        "1 if",
        "flower",
    ),
    (
        "a checkpoint of Flower is taken with correlated noise that no ledger pays for",
        "flower-checkpoint-with-correlated-noise",
        "if checkpoint is not None and isinstance(plan.noise, CorrelatedNoise) and None in (ledger, key, noise_file):",
        "if False:",
        "correlated rounds",
    ),
]
