"""Defects of sums over machines and parties that must not pass, as fields of `mutants.Mutant`, and who notices."""

KILLERS = {
    "fast states": "pytest tests/sums/test_fast_states.py",
    "partitions": "pytest tests/distributed/test_executors.py",
    "secure units": "cargo test -p ferrodp-core --lib -- secure checksum",
}

MUTANTS = [
    (
        "states are opened whatever their checksum",
        "checksum-of-states-not-compared",
        "_native.has_checksum(view.obj) if fast",
        "True if fast",
        "fast states",
    ),
    (
        "states of other clip norms are merged",
        "states-of-other-clip-norms-merged",
        " or not same",
        "",
        "fast states",
    ),
    (
        "merging states forgets their count",
        "states-merged-without-their-count",
        "self.count = self.count_with(count)?;",
        "self.count_with(count)?;",
        "fast states",
    ),
    (
        "a partition that is given twice counts twice",
        "partition-counts-twice",
        "again = name is not None and (type(partition), name) in seen",
        "again = False",
        "partitions",
    ),
    (
        "a node of the tree forgets its last child",
        "node-without-its-last-child",
        "numbers[height + 1], nodes)",
        "numbers[height + 1], nodes[:-1])",
        "partitions",
    ),
    (
        "the count of updates is not compared with what is expected",
        "count-of-units-not-compared",
        "expected_count is not None and",
        "False and",
        "partitions",
    ),
    (
        "a checksum only adds its words",
        "checksum-forgets-words",
        "(h ^ word).wrapping_mul(K);",
        "h.wrapping_add(word);\n    return mixed;\n    #[allow(unreachable_code)]",
        "secure units",
    ),
    (
        "integers for secure sums are rounded down, not toward zero",
        "shortened-away-from-zero",
        "(*k + ((*k >> 63) & ((1 << shift) - 1)))",
        "(*k)",
        "secure units",
    ),
    (
        "negative numbers are off by one in Field64",
        "negative-numbers-in-the-field",
        "0xffff_ffff);",
        "0xffff_fffe);",
        "secure units",
    ),
    (
        "residues above a quarter of the modulus are negative",
        "centered-at-a-quarter",
        "FIELD64 / 2",
        "FIELD64 / 4",
        "secure units",
    ),
]
