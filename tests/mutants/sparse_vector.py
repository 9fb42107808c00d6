"""Defects of the sparse vector technique that must not pass, as fields of `mutants.Mutant`, and who notices."""

KILLERS = {"sparse vector": "pytest tests/mechanisms/test_sparse_vector.py"}

MUTANTS = [
    (
        "the noise of the threshold is drawn for every query",
        "noisy-threshold",
        "above = noisy",
        "scales = (self.threshold_scale, self.query_scale)\n"
        "                noisy = _native.NoisyThreshold(self.threshold, *scales, run.source._key())\n"
        "                above = noisy",
        "sparse vector",
    ),
    (
        "the noise of a query serves all",
        "noisy-threshold",
        "run.source._key()",
        "bytes(32)",
        "sparse vector",
    ),
    (
        "scales are those for one answer fewer",
        "answers-that-share-epsilon",
        'answers if _validate.truth("monotonic", monotonic) else 2 * answers',
        "max(answers - 1, 1) if monotonic else 2 * max(answers - 1, 1)",
        "sparse vector",
    ),
    (
        "queries that need not move together are treated as if they did",
        "answers-that-share-epsilon",
        'answers if _validate.truth("monotonic", monotonic) else 2 * answers',
        "answers",
        "sparse vector",
    ),
    (
        "answers are not counted",
        "answers-not-counted",
        "remaining -= 1",
        "remaining -= 0",
        "sparse vector",
    ),
]
