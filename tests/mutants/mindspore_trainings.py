"""Defects of trainings under the MindSpore names that must not pass, as fields of `mutants.Mutant`, and who notices."""

KILLERS = {
    "mindspore names": "pytest tests/test_mindspore_names.py",
    "mindspore correlated": "framework mindspore tests/integrations/mindspore/test_correlated_trainings.py",
    "mindspore processes": "framework mindspore tests/integrations/mindspore/test_mindspore_processes.py",
}

MUTANTS = [
    (
        "a list of records takes the dtype of one",
        "list-of-records-takes-the-dtype-of-one",
        "if not hasattr",
        "if False and not hasattr",
        "mindspore names",
    ),
    (
        "the first epoch that breaks the budget is suggested",
        "first-violating-epoch-suggested",
        "return low",
        "return high",
        "mindspore names",
    ),
    (
        "steps after the last report of a monitor are not reported",
        "last-window-of-a-monitor-not-counted",
        "!= self._printed",
        "< 0",
        "mindspore names",
    ),
    (
        "a monitor forgets what earlier trainings of the model cost",
        "earlier-trainings-forgotten",
        "*self.earlier, ",
        "",
        "mindspore names",
    ),
    (
        "the query of the quantile is taken out of the noise that the mechanism states",
        "quantile-paid-by-the-sum",
        "math.hypot(1.0 / schedule.noise_multiplier, 1.0 / adaptive.count_noise_multiplier)",
        "(1.0 / schedule.noise_multiplier)",
        "mindspore names",
    ),
    (
        "a loader's batches may be given by any number of epochs for the price of one",
        "participations-of-epochs-not-counted",
        "max_participations=epochs",
        "max_participations=1",
        "mindspore names",
    ),
    (
        "a monitor whose stated noise is not that of the training reports",
        "monitor-contradicts-mechanism",
        "stated != true",
        "False",
        "mindspore names",
    ),
    (
        "each of several processes of MindSpore releases the whole plan",
        "each-process-of-mindspore-releases-the-whole-plan",
        "size > 1",
        "False",
        "mindspore processes",
    ),
    (
        "a network of several devices is trained as if it were whole",
        "parallel-mode-of-mindspore-trained",
        'mode != "stand_alone"',
        "False",
        "mindspore processes",
    ),
    (
        "a training of MindSpore takes the noise of the one before",
        "mindspore-training-without-its-noise-file",
        "noise_file=file",
        "noise_file=self._noise_file",
        "mindspore correlated",
    ),
    (
        "gradients are clipped in L2 norm for Laplace noise",
        "laplace-noise-for-gradients-clipped-in-l2",
        "L1Clipping(self._norm_bound)",
        "FlatClipping(self._norm_bound)",
        "mindspore names",
    ),
    (
        "the norm of Laplace noise follows a quantile of L2 norms",
        "laplace-noise-for-a-norm-that-adapts",
        "isinstance(self._mechanism, NoiseLaplaceRandom)",
        "False",
        "mindspore names",
    ),
]
