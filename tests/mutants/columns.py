"""Defects of statistics of columns that must not pass, as fields of `mutants.Mutant`, and who has to notice them."""

KILLERS = {
    "statistics": "pytest tests/statistics/test_statistics.py",
}

MUTANTS = [
    (
        "a column is clamped after it was summed",
        "column-clamped-after-it-summed",
        "steps = np.clip(values, self.lower, self.upper, out=values)",
        "total = min(max(float(values.sum()), values.size * self.lower), values.size * self.upper)\n"
        "        return math.trunc(total / self.width)",
        "statistics",
    ),
    (
        "values are rounded to the nearest step",
        "values-rounded-to-nearest-step",
        "(steps.astype(np.int64).sum())",
        "(np.rint(steps).astype(np.int64).sum())",
        "statistics",
    ),
    (
        "a replaced row moves a sum as little as one that comes",
        "distance-of-a-row-in-a-sum",
        "high - low if replaced else max(abs(low), abs(high))",
        "abs(low), abs(high)",
        "statistics",
    ),
    (
        "a row that comes moves a sum by half of what it can",
        "distance-of-a-row-in-a-sum",
        "max(abs(low), abs(high))",
        "(abs(low) + abs(high)) // 2",
        "statistics",
    ),
    (
        "several rows of a unit move a sum by one",
        "several-rows-of-unit-move-sum-by-one",
        "spent.max_contributions",
        "1",
        "statistics",
    ),
    (
        "the grid of a sum is derived from the column",
        "grid-of-sum-derived-from-column",
        "(lower, upper)",
        "(lower, max(lower + 1e-9, min(upper, float(np.max(finite_floats(array), initial=lower)))))",
        "statistics",
    ),
    (
        "number and sum of a mean get the whole budget each",
        "number-and-sum-of-mean-get-whole-budget-each",
        "spent if spent.replaces else spent.half()",
        "spent",
        "statistics",
    ),
    (
        "a mean is divided by the true number of rows",
        "mean-divided-by-true-number-of-rows",
        "rows = counter",
        "counter",
        "statistics",
    ),
    (
        "not-a-number is no missing value",
        "not-number-no-missing-value",
        "~np.isfinite",
        "np.isinf",
        "statistics",
    ),
    (
        "one row decides on the dtype of a list",
        "one-row-decides-on-dtype-of-list",
        "return _arrays.",
        "return np.asarray(values) if isinstance(values, (list, tuple)) else _arrays.",
        "statistics",
    ),
    (
        "nulls are counted as zeros",
        "nulls-counted-as-zeros",
        "nullable_column(values).present()",
        "[column(values)]",
        "statistics",
    ),
    (
        "columns with a mask of nulls are read without it",
        "columns-with-mask-of-nulls-read-without",
        "not isinstance(values.dtype, np.dtype)",
        "values.dtype is None",
        "statistics",
    ),
    (
        "a replaced row moves one bin",
        "replaced-row-moves-one-bin",
        "2 if spent.replaces and size > 1 else 1",
        "1",
        "statistics",
    ),
    (
        "rows of one unit are taken to fall into different bins",
        "rows-of-one-unit-taken-to-fall-into",
        "moved**2,",
        "moved,",
        "statistics",
    ),
    (
        "empty bins get no noise",
        "empty-bins-get-no-noise",
        "mechanism.release(counts, out=counts, source=source)",
        "counts = np.where(counts == 0, 0, mechanism.release(counts, source=source))",
        "statistics",
    ),
    (
        "the last bin lacks its upper edge",
        "last-bin-lacks-upper-edge",
        "place[part == edges[-1]] = edges.size - 2",
        "",
        "statistics",
    ),
    (
        "ranks move by the smaller share",
        "ranks-move-by-smaller-share",
        "max(below, above)",
        "min(below, above)",
        "statistics",
    ),
    (
        "rows equal to a candidate are above it",
        "rows-equal-to-candidate-above",
        '(rows, ascending, side="right")',
        '(rows, ascending, side="left")',
        "statistics",
    ),
    (
        "the square root of a sensitivity is rounded to nearest",
        "square-root-of-sensitivity-rounded",
        "nextafter(math.sqrt(squared_l2), math.inf)\n"
        "        while Fraction(sensitivity) ** 2 < squared_l2:\n"
        "            sensitivity = math.nextafter(sensitivity, math.inf",
        "sqrt(squared_l2) * (1 - 2**-53",
        "statistics",
    ),
]
