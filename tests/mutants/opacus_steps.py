"""Defects of sums and accountants inside Opacus that must not pass, as fields of `mutants.Mutant`.

The killers run in the environment that `./check frameworks opacus` makes.
"""

KILLERS = {
    "opacus sums": "framework opacus tests/integrations/opacus/test_exact.py",
    "opacus accountants": "framework opacus tests/integrations/opacus/test_accountants.py",
}

MUTANTS = [
    (
        "a record in two accumulated batches is charged as if it were in one",
        "record-in-two-batches-counted-once",
        "if batches == 1:",
        "if True:",
        "opacus accountants",
    ),
    (
        "a step without noise has a finite epsilon",
        "step-without-noise-has-epsilon",
        "noise_multiplier == 0 for",
        "noise_multiplier < 0 for",
        "opacus accountants",
    ),
    (
        "a record in two accumulated batches is clipped twice, and summed twice",
        "record-in-two-batches-clipped-twice",
        "isinstance(parameter.grad_sample, list)",
        "False",
        "opacus sums",
    ),
    (
        "the gradients of a batch are summed twice",
        "gradients-summed-twice",
        'hasattr(parameter.grad_sample, "_processed")',
        "False",
        "opacus sums",
    ),
    (
        "gradients that were dropped stay in the sum",
        "dropped-gradients-stay-in-sum",
        "if not self._is_last_step_skipped:",
        "if False:",
        "opacus sums",
    ),
    (
        "the clip norm moves within a batch",
        "clip-norm-moves-within-batch",
        "self.total.clip_norm != float(self.max_grad_norm)",
        "False",
        "opacus sums",
    ),
]
