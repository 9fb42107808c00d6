"""Defects of the sparse vector technique that must not pass, as fields of `mutants.Mutant`, and who notices."""

FILE = "python/ferrodp/mechanisms/sparse_vector.py"
ANSWER = "above = noisy.is_reached(number, self._source._key(), integer)"

KILLERS = {"sparse vector": "pytest tests/mechanisms/test_sparse_vector.py"}

MUTANTS = [
    (
        "the noise of the threshold is drawn for every query",
        FILE,
        ANSWER,
        "scales = (self._threshold_scale, self._query_scale)\n"
        "                noisy = _native.NoisyThreshold(self._threshold, *scales, self._source._key())\n"
        f"                {ANSWER}",
        "sparse vector",
    ),
    (
        "the noise of a query serves all",
        FILE,
        ANSWER,
        "above = noisy.is_reached(number, bytes(32), integer)",
        "sparse vector",
    ),
    (
        "scales are those for one answer fewer",
        FILE,
        "answers if monotonic else 2 * answers)",
        "max(answers - 1, 1) if monotonic else 2 * max(answers - 1, 1))",
        "sparse vector",
    ),
    (
        "queries that need not move together are treated as if they did",
        FILE,
        "answers if monotonic else 2 * answers)",
        "answers)",
        "sparse vector",
    ),
    ("answers are not counted", FILE, "self._remaining -= 1", "self._remaining -= 0", "sparse vector"),
]
