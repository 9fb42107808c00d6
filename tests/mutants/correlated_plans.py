"""Defects of plans with correlated noise that must not pass, as fields of `mutants.Mutant`, and who notices."""

KILLERS = {
    "correlated plans": "pytest tests/plan/test_correlated_plans.py",
}

MUTANTS = [
    (
        "correlated noise is charged under samples that no theorem covers",
        "correlated-noise-under-samples-it-does-not-cover",
        "not isinstance(sampling, (FullBatch, GivenOrder, CyclicPoisson))",
        "sampling is None",
        "correlated plans",
    ),
    (
        "samples amplify correlated noise of more bands than parts",
        "correlated-noise-amplified-across-its-bands",
        "_bands(noise) > sampling.num_parts",
        "_bands(noise) > plan.num_steps",
        "correlated plans",
    ),
    (
        "the buffers of a strategy are taken for its bands",
        "buffers-taken-for-bands",
        "isinstance(strategy, (BandedToeplitz, SquareRoot, BandedMatrix))",
        "True",
        "correlated plans",
    ),
    (
        "the participation in a last round that is not whole is forgotten",
        "participation-in-the-last-round-forgotten",
        "-(-steps // sampling.num_parts)",
        "steps // sampling.num_parts",
        "correlated plans",
    ),
    (
        "correlated noise of units that are replaced is charged as if they came",
        "correlated-noise-of-replaced-units-charged-once",
        "Fraction(noise.noise_multiplier) / distance",
        "Fraction(noise.noise_multiplier)",
        "correlated plans",
    ),
    (
        "a round of amplified samples is charged once for all rounds",
        "amplified-rounds-charged-once",
        "([charge, *rest] * rounds)",
        "([charge, *rest] + [_FREE] * plan.num_steps)",
        "correlated plans",
    ),
    (
        "noise is not multiplied by the clip norm",
        "correlated-noise-without-its-clip-norm",
        "product_up(noise.noise_multiplier, clip_norm)",
        "noise.noise_multiplier",
        "correlated plans",
    ),
    (
        "the noise of steps that were left out is drawn for the next ones",
        "noise-of-a-step-left-out-drawn-for-the-next",
        "self.step < step",
        "False",
        "correlated plans",
    ),
    (
        "a run whose noise is lost goes on with another",
        "run-goes-on-with-another-noise",
        "not is_new",
        "False",
        "correlated plans",
    ),
    (
        "the noise of another training is taken",
        "noise-of-another-training-taken",
        'plain["run"] != name or plain["plan"] != fingerprint',
        "False",
        "correlated plans",
    ),
    (
        "the key of a run's noise is not kept",
        "noise-key-not-kept",
        "key_in(noise_file, name, plan.fingerprint, is_new=not self._next)",
        "(key_in(noise_file, name, plan.fingerprint, is_new=not self._next) and None)",
        "correlated plans",
    ),
    (
        "a sum that a framework bounds is noised as if steps were independent",
        "sum-of-a-framework-noised-as-if-steps-were-independent",
        "self._steps.add_to(total)",
        "super()._noise(total, multiplier, source)",
        "correlated plans",
    ),
    (
        "a sum of compiled code is noised as if steps were independent",
        "sum-of-compiled-code-noised-as-if-steps-were-independent",
        "correlated is not None",
        "False",
        "correlated plans",
    ),
]
