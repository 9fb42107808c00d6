"""Defects of the explorer's server that must not pass, as fields of `mutants.Mutant`, and who notices."""

KILLERS = {
    "explorer refuses": "pytest tests/explorer/test_explorer_security.py",
    "explorer trains": "pytest tests/explorer/test_trainings.py",
}

MUTANTS = [
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
