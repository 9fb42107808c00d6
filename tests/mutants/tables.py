"""Defects of tables and models that must not pass, as fields of `mutants.Mutant`, and who has to notice them."""

KILLERS = {
    "tables": "pytest tests/statistics/test_marginals.py",
    "models": "pytest tests/statistics/test_models.py",
    "coded responses": "pytest tests/mechanisms/test_hadamard_response.py",
}

MUTANTS = [
    (
        "the weight of a response is rounded down",
        "weight-of-a-response-rounded-down",
        "math.ceil(Fraction(float_up(tight(enclose, _DIGITS).upper)) * _WORDS)",
        "math.floor(float(tight(enclose, _DIGITS).lower) * _WORDS) - 2**12",
        "coded responses",
    ),
    (
        "a response is paid for as if an answer came",
        "response-paid-for-as-if-an-answer-came",
        "payer.neighboring_relation is not NeighboringRelation.REPLACE_ONE",
        "payer.neighboring_relation is None",
        "coded responses",
    ),
    (
        "the product of a response has another law",
        "product-of-a-response-has-another-law",
        "np.uint64(each * self.weight)",
        "np.uint64(each * self.weight // 2)",
        "coded responses",
    ),
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
