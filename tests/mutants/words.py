"""Defects of the words of charges that must not pass, as fields of `mutants.Mutant`, and who has to notice them."""

KILLERS = {"words of charges": "pytest tests/budget/test_words_of_charges.py"}

MUTANTS = [
    (
        "a charge of a plan does not say what it is for",
        "charges-of-plans-recorded-without-words",
        "statistics=words, ",
        "",
        "words of charges",
    ),
    (
        "a training that goes on within other words is refused",
        "training-with-other-words-is-another",
        "return self._ledger.reserve(self._scope, event, **about)",
        "raise",
        "words of charges",
    ),
    (
        "the words of a plan do not say that units share a vector",
        "words-of-a-plan-forget-who-shares-a-vector",
        "if plan.records_per_group > 1",
        "if False",
        "words of charges",
    ),
    (
        "the words of a charge name another relation",
        "words-say-the-other-relation",
        "if relation is NeighboringRelation.REPLACE_ONE",
        "if relation is not NeighboringRelation.REPLACE_ONE",
        "words of charges",
    ),
    (
        "a round of an engine does not say what it is for",
        "rounds-of-an-engine-recorded-without-words",
        ", statistics=self._step.words",
        "",
        "words of charges",
    ),
    (
        "answers do not say whom their charge protects",
        "answers-recorded-without-their-unit",
        "if unit and",
        "if False and",
        "words of charges",
    ),
]
