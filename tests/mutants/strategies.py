"""Defects of strategies of correlated noise, as fields of `mutants.Mutant`, and who has to notice them."""

KILLERS = {
    "strategies": "pytest tests/correlated/test_strategies.py",
}

MUTANTS = [
    (
        "participations of a strategy are taken to be one step further apart",
        "participations-of-a-strategy-one-step-apart",
        "range(0, count * separation, separation)",
        "range(0, count * (separation + 1), separation + 1)",
        "strategies",
    ),
    (
        "coefficients that grow are taken as they are for the worst pattern",
        "coefficients-that-grow-taken-for-falling",
        "np.maximum.accumulate(np.abs(column)[::-1])[::-1]",
        "column",
        "strategies",
    ),
    (
        "the norm of a strategy's columns is rounded down",
        "norm-rounded-down",
        "* _hidden(2 * roundings + 2) + _TINY",
        "/ _hidden(2 * roundings + 2)",
        "strategies",
    ),
    (
        "columns that meet are counted as if they did not",
        "columns-that-meet-counted-apart",
        "width <= separation or count == 1",
        "width",
        "strategies",
    ),
    (
        "many participations are added up without those of the block before",
        "rows-of-the-block-before-left-out",
        "found[1:, :-1] += ends[:-1, 1:]",
        "found[1:, :-1] += 0.0",
        "strategies",
    ),
]
