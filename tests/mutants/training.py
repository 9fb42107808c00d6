"""Defects of trainings that must not pass, as fields of `mutants.Mutant`, and who notices."""

KILLERS = {
    "outer sums": "pytest tests/sums/test_outer_sums.py",
    "labels alone": "pytest tests/training/test_labels_alone.py",
    "estimators": "framework sklearn tests/integrations/sklearn/test_estimators.py -k raises_nothing",
    "training": 'pytest tests/training -m "not slow"',
}

MUTANTS = [
    (
        "labels are compared in the dtype of all",
        "labels-compared-in-the-dtype-of-all",
        "np.empty(0, object) if isinstance(labels, Sequence) else np.asarray(labels)",
        "np.asarray(list(labels))",
        "labels alone",
    ),
    (
        "one text in a list is refused with all records",
        "one-text-in-a-list-refused-with-all-records",
        "isinstance(value, (list, tuple)):",
        "not isinstance(value, (list, tuple)):",
        "labels alone",
    ),
    (
        "a list of rows takes the type of one entry",
        "list-of-rows-takes-the-type-of-one-entry",
        'array if array.dtype.kind in "biuf" else np.array(rows, dtype=object)',
        "array",
        "estimators",
    ),
    (
        "entries that are no numbers raise",
        "entries-that-are-no-numbers-raise",
        '"numeric" if texts else None',
        '"numeric"',
        "estimators",
    ),
    (
        "gradients of outer products are as long as they are",
        "outer-products-not-clipped",
        "np.minimum(products, clip_norm)",
        "products",
        "outer sums",
    ),
    (
        "a training goes on after a callback stopped it",
        "training-goes-on-after-a-callback-stopped-it",
        "None if progress.stop_reason else next(progress.run, None)",
        "next(progress.run, None)",
        "training",
    ),
    (
        "a budget stops after the step that exceeds it",
        "budget-stop-after-the-step",
        "progress.num_steps >= self._allowed",
        "progress.num_steps > self._allowed",
        "training",
    ),
    (
        "a search is paid for as one run",
        "search-paid-for-as-one-run",
        "ledger.reserve(scope, event, key=key)",
        "ledger.reserve(scope, cost, key=key)",
        "training",
    ),
    (
        "a label that is no class moves gradients",
        "label-that-is-no-class-moves-gradients",
        "errors[~classed] = 0.0",
        "pass",
        "training",
    ),
    (
        "a record's scores are rounded as it falls among others",
        "scores-rounded-among-others",
        "rows.integers @ np.rint(np.ldexp(weights.T, shift))",
        "rows.integers @ np.ldexp(weights.T, shift)",
        "training",
    ),
    (
        "a record's errors are rounded as it falls among others",
        "errors-rounded-among-others",
        "np.rint(np.ldexp(errors.astype(np.float64), 24)) @ np.rint(np.ldexp(self._basis.T, 26))",
        "np.ldexp(errors.astype(np.float64), 24) @ np.ldexp(self._basis.T, 26)",
        "training",
    ),
]
