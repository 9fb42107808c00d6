"""Defects of random subsets that must not pass, as fields of `mutants.Mutant`, and who notices."""

SUBSET = "rust/ferrodp-core/src/subset.rs"

KILLERS = {
    "subsets": "cargo test -p ferrodp-core --lib -- subset",
    "samples": "pytest tests/random/test_samples.py",
}

MUTANTS = [
    (
        "a record joins at the threshold",
        SUBSET,
        "u64::from_le_bytes(*word) < threshold",
        "u64::from_le_bytes(*word) <= threshold",
        "samples",
    ),
    (
        "two members are never next to each other",
        SUBSET,
        "            position += 1;\n    }\n}",
        "            position += 2;\n    }\n}",
        "subsets",
    ),
    (
        "the rate of skipping is the probability",
        SUBSET,
        "        for i in (1..=12).rev() {",
        "        for i in (1..=1).rev() {",
        "subsets",
    ),
    (
        "uneven words are kept",
        SUBSET,
        "while (product as u64) < uneven {",
        "while (product as u64) < uneven && false {",
        "samples",
    ),
    (
        "one record too many can be drawn",
        SUBSET,
        "if !insert(draws.below(last + 1)) {",
        "if !insert(draws.below(last + 1) / 2) {",
        "samples",
    ),
    (
        "the first steps are chosen more often",
        SUBSET,
        "chosen.push(if taken { last as u32 } else { drawn });",
        "chosen.push(if taken { last as u32 } else { drawn.min(last as u32 / 2) });",
        "samples",
    ),
    (
        "exact comparisons stop one below",
        SUBSET,
        "                least = middle;\n",
        "                least = middle - 1;\n                if most == middle { return least; }\n",
        "subsets",
    ),
]
