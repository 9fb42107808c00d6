"""Defects of statistics of columns that must not pass, as fields of `mutants.Mutant`, and who has to notice them."""

STATISTICS = "python/ferrodp/statistics/"
COLUMN = STATISTICS + "_column.py"
BUDGET = STATISTICS + "_budget.py"
COUNTS = STATISTICS + "counts.py"
SUMS = STATISTICS + "sums.py"
QUANTILES = STATISTICS + "quantiles.py"

KILLERS = {
    "statistics": "pytest tests/test_statistics.py",
}

MUTANTS = [
    (
        "a column is clamped after it was summed",
        SUMS,
        "        steps = np.clip(values, self.lower, self.upper, out=values)\n",
        "        total = min(max(float(values.sum()), values.size * self.lower), values.size * self.upper)\n"
        "        return math.trunc(total / self.width)\n",
        "statistics",
    ),
    (
        "values are rounded to the nearest step",
        SUMS,
        "        return int(steps.astype(np.int64).sum())",
        "        return int(np.rint(steps).astype(np.int64).sum())",
        "statistics",
    ),
    (
        "a replaced row moves a sum as little as one that comes",
        SUMS,
        "return rows * max(high - low if replaced else max(abs(low), abs(high)), 1)",
        "return rows * max(abs(low), abs(high), 1)",
        "statistics",
    ),
    (
        "a row that comes moves a sum by half of what it can",
        SUMS,
        "return rows * max(high - low if replaced else max(abs(low), abs(high)), 1)",
        "return rows * max(high - low if replaced else (abs(low) + abs(high)) // 2, 1)",
        "statistics",
    ),
    (
        "several rows of a unit move a sum by one",
        SUMS,
        "moved = grid.moved_by(spent.max_contributions, replaced=spent.replaces)",
        "moved = grid.moved_by(1, replaced=spent.replaces)",
        "statistics",
    ),
    (
        "the grid of a sum is derived from the column",
        SUMS,
        "    grid = _grid(lower, upper)\n    mechanism = _mechanism(spent, grid)\n",
        "    grid = _grid(lower, max(lower + 1e-9, min(upper, float(np.max(finite_floats(array), initial=lower)))))\n"
        "    mechanism = _mechanism(spent, grid)\n",
        "statistics",
    ),
    (
        "number and sum of a mean get the whole budget each",
        SUMS,
        "    part = spent if spent.replaces else spent.half()\n",
        "    part = spent\n",
        "statistics",
    ),
    (
        "a mean is divided by the true number of rows",
        SUMS,
        "        rows = counter.release(rows, source=of_rows)\n",
        "        counter.release(rows, source=of_rows)\n",
        "statistics",
    ),
    (
        "not-a-number is no missing value",
        COLUMN,
        "where=~np.isfinite(floats)",
        "where=np.isinf(floats)",
        "statistics",
    ),
    (
        "one row decides on the dtype of a list",
        COLUMN,
        "    return _arrays.base_array(values, name)\n",
        "    return np.asarray(values) if isinstance(values, (list, tuple)) else _arrays.base_array(values, name)\n",
        "statistics",
    ),
    (
        "nulls are counted as zeros",
        COUNTS,
        "    parts = nullable_column(values).present()\n",
        "    parts = [column(values)]\n",
        "statistics",
    ),
    (
        "columns with a mask of nulls are read without it",
        COLUMN,
        "    if not isinstance(values.dtype, np.dtype):  # extension",
        "    if values.dtype is None:  # extension",
        "statistics",
    ),
    (
        "a replaced row moves one bin",
        COUNTS,
        "    ends = 2 if spent.replaces and size > 1 else 1",
        "    ends = 1",
        "statistics",
    ),
    (
        "rows of one unit are taken to fall into different bins",
        COUNTS,
        "squared_l2_sensitivity=ends * moved**2",
        "squared_l2_sensitivity=ends * moved",
        "statistics",
    ),
    (
        "empty bins get no noise",
        COUNTS,
        "    mechanism.release(counts, out=counts, source=source)\n",
        "    counts = np.where(counts == 0, 0, mechanism.release(counts, source=source))\n",
        "statistics",
    ),
    (
        "the last bin lacks its upper edge",
        COUNTS,
        "        place[part == edges[-1]] = edges.size - 2\n",
        "",
        "statistics",
    ),
    (
        "ranks move by the smaller share",
        QUANTILES,
        "else max(below, above)",
        "else min(below, above)",
        "statistics",
    ),
    (
        "rows equal to a candidate are above it",
        QUANTILES,
        'more += rows.size - np.searchsorted(rows, ascending, side="right")',
        'more += rows.size - np.searchsorted(rows, ascending, side="left")',
        "statistics",
    ),
    (
        "the square root of a sensitivity is rounded to nearest",
        BUDGET,
        "        sensitivity = math.nextafter(math.sqrt(squared_l2), math.inf)\n"
        "        while Fraction(sensitivity) ** 2 < squared_l2:\n"
        "            sensitivity = math.nextafter(sensitivity, math.inf)\n",
        "        sensitivity = math.sqrt(squared_l2) * (1 - 2**-53)\n",
        "statistics",
    ),
]
