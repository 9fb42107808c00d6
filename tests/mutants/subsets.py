"""Defects of random subsets that must not pass, as fields of `mutants.Mutant`, and who notices."""

KILLERS = {
    "subsets": "cargo test -p ferrodp-core --lib -- subset",
    "samples": "pytest tests/random/test_samples.py",
}

MUTANTS = [
    (
        "a record joins at the threshold",
        "record-joins-at-threshold",
        "< threshold",
        "<= threshold",
        "samples",
    ),
    (
        "two members are never next to each other",
        "two-members-never-next-to-each",
        "position += 1;",
        "position += 2;",
        "subsets",
    ),
    (
        "the rate of skipping is the probability",
        "rate-of-skipping-probability",
        "(1..=12).rev",
        "(1..=1).rev",
        "subsets",
    ),
    (
        "uneven words are kept",
        "uneven-words-kept",
        "while (product as u64) < uneven {",
        "while (product as u64) < uneven && false {",
        "samples",
    ),
    (
        "one record too many can be drawn",
        "one-record-too-many-can-drawn",
        "if !insert(draws.below(last + 1)) {",
        "if !insert(draws.below(last + 1) / 2) {",
        "samples",
    ),
    (
        "the first steps are chosen more often",
        "first-steps-chosen-more-often",
        "(if taken { last as u32 } else { drawn })",
        "(if taken { last as u32 } else { drawn.min(last as u32 / 2) })",
        "samples",
    ),
    (
        "exact comparisons stop one below",
        "exact-comparisons-stop-one-below",
        "= middle;",
        "= middle - 1;\n                if most == middle { return least; }",
        "subsets",
    ),
]
