"""Defects of tables and models that must not pass, as fields of `mutants.Mutant`, and who has to notice them."""

KILLERS = {
    "tables": "pytest tests/statistics/test_marginals.py",
    "models": "pytest tests/statistics/test_models.py",
}

MUTANTS = [
    (
        "several sums of a model cost more than the one they share",
        "shares-of-several-sums-cost-more-than-one",
        "Fraction(whole) ** 2 / part",
        "Fraction(whole) ** 2",
        "models",
    ),
    (
        "a model of replaced rows costs what one of rows that come does",
        "model-of-replaced-rows-costs-what-one-costs-that-comes",
        "(2 if spent.replaces else 1)",
        "1",
        "models",
    ),
    (
        "a null of one row decides on the type of a table",
        "null-of-one-row-decides-on-the-type-of-a-table",
        "np.column_stack([_column_of(values, each) for each in names_of(values)])",
        "np.asarray(values.to_numpy(), float)",
        "models",
    ),
    (
        "other values of a column count as its first one",
        "other-values-of-a-column-counted-as-the-first",
        "self.size - 1",
        "0",
        "tables",
    ),
    (
        "missing values of tables fall into a bin",
        "missing-values-of-tables-fall-into-a-bin",
        " | nulls",
        "",
        "tables",
    ),
    (
        "a row outside of one column counts elsewhere",
        "row-outside-of-one-column-counts-elsewhere",
        "inside &= cells >= 0",
        "cells[cells < 0] = 0",
        "tables",
    ),
    (
        "the residuals of a table cost as much as one number",
        "residuals-of-a-table-cost-as-much-as-one",
        "w * w * math.prod(self.sizes[i] * (self.sizes[i] - 1) for i in of)",
        "w * w",
        "tables",
    ),
    (
        "a replaced row moves residuals as far as one that comes",
        "replaced-row-moves-residuals-as-a-new-one",
        "2 * w * w * norm // (least - 1) * least",
        "w * w * norm",
        "tables",
    ),
    (
        "tables of several rows of a unit cost those of one",
        "tables-of-several-rows-cost-those-of-one",
        "rows**2 * apart",
        "apart",
        "tables",
    ),
    (
        "residuals lack the size of a column",
        "residuals-lack-the-size-of-a-column",
        "table *= size",
        "table *= size + 1",
        "tables",
    ),
]
