"""Defects of the accounting in Rust that must not pass, as fields of `mutants.Mutant`, and who has to notice them."""

KILLERS: dict[str, str] = {}

MUTANTS: list[tuple[str, str, str, str, str]] = []
