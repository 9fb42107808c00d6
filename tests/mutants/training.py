"""Defects of trainings that must not pass, as fields of `mutants.Mutant`, and who notices."""

KILLERS = {
    "outer sums": "pytest tests/sums/test_outer_sums.py",
    "training": 'pytest tests/training -m "not slow"',
}

MUTANTS = [
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
