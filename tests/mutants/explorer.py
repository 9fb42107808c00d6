"""Defects of the explorer's server that must not pass, as fields of `mutants.Mutant`, and who notices."""

KILLERS = {
    "explorer refuses": "pytest tests/explorer/test_explorer_security.py",
    "explorer connections": "pytest tests/explorer/test_explorer_connections.py",
    "explorer intervals": "pytest tests/explorer/test_first_answers.py -k in_its_interval",
    "few draws": "pytest tests/audit/test_audit.py -k 'few_draws or changes_little'",
    "explorer trains": "pytest tests/explorer/test_trainings.py",
}

MUTANTS = [
    (
        "rates of few draws are taken as normal",
        "few-draws-taken-as-normal",
        "if n <= _FEW:",
        "if n <= 0:",
        "few draws",
    ),
    (
        "one address may hold all connections",
        "connections-of-an-address-not-counted",
        ">= most",
        ">= 10**9",
        "explorer connections",
    ),
    (
        "half a header is waited for without end",
        "half-a-header-waited-for",
        "if self.cycle is None or self.cycle.response_complete:",
        "if self.cycle is not None and self.cycle.response_complete:",
        "explorer connections",
    ),
    (
        "the threshold of an attack counts as known",
        "threshold-taken-as-known",
        "1.0 - share), np.flatnonzero(at_most <= share)",
        "0.5), np.flatnonzero(at_most <= 0.5)",
        "explorer intervals",
    ),
    (
        "the explorer answers foreign origins",
        "foreign-origin-accepted",
        "if origin",
        "if False and origin",
        "explorer refuses",
    ),
    (
        "the explorer acts without a token",
        "token-not-compared",
        "if len(given) != 1 or not",
        "if len(given) != 1 and not",
        "explorer refuses",
    ),
    (
        "the explorer answers under foreign names",
        "foreign-host-accepted",
        "if found is None or (",
        "if found is None or False and (",
        "explorer refuses",
    ),
    (
        "any number of trainings runs at a time",
        "trainings-without-limit",
        "most=4, most_per_client=1 if public else 4",
        "most=400, most_per_client=400",
        "explorer trains",
    ),
]
