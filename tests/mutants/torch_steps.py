"""Defects of steps in PyTorch that must not pass, as fields of `mutants.Mutant`, and who has to notice them.

The killers run in the environment that `./check frameworks torch` makes.
"""

KILLERS = {
    "torch steps": "framework torch tests/integrations/torch/test_run.py",
    "torch gradients": "framework torch tests/integrations/torch/test_gradients.py",
    "torch losses": "framework torch tests/integrations/torch/test_losses.py",
    "torch processes": "framework torch tests/integrations/torch/test_several_processes.py",
}

MUTANTS = [
    (
        "gradients are clipped with the scale of the loss in them",
        "loss-scale-clipped",
        "self._scale != 1.0",
        "False",
        "torch steps",
    ),
    (
        "a model whose parameters were exchanged is trained",
        "exchanged-parameter-trained",
        "now.get(name) is not parameter",
        "False",
        "torch steps",
    ),
    (
        "the optimizer moves by what was in .grad before the release",
        "release-not-written",
        "run._memory.write(release_flat(self._plan_step, denominator, run._memory.array()))",
        "release_flat(self._plan_step, denominator)",
        "torch steps",
    ),
    (
        "gradients that were kept are overwritten by the next release",
        "gradients-that-were-kept-overwritten",
        "_holders(self._pieces) != (self._held if are_pieces else self._cleared)",
        "False",
        "torch steps",
    ),
    (
        "memory that a view of a gradient shares is overwritten by the next release",
        "memory-that-others-share-overwritten",
        "self._flat if self._shared() == self._sharing else None",
        "self._flat",
        "torch steps",
    ),
    (
        "a state is continued under another plan",
        "state-of-another-plan-continued",
        "self._plan_run.plan != plan",
        "False",
        "torch steps",
    ),
    (
        "averages of examples are kept without noise",
        "averages-of-examples-kept-without-noise",
        "isinstance(module, keeping)",
        "isinstance(module, ())",
        "torch gradients",
    ),
    (
        "buffers keep what layers write about examples",
        "buffers-keep-what-layers-write-about-examples",
        "each.clone()",
        "each",
        "torch gradients",
    ),
    (
        "layers that normalize over the batch are trained",
        "batch-normalization-trained",
        "if isinstance(module, mixing)",
        "if isinstance(module, ())",
        "torch gradients",
    ),
    (
        "a layer that begins to mix examples after the start is not noticed",
        "layers-checked-once",
        "self.check_layers()",
        "pass",
        "torch steps",
    ),
    (
        "the second call of a layer is taken for the first",
        "second-call-of-a-layer-taken-for-the-first",
        "place in inputs or ",
        "",
        "torch gradients",
    ),
    (
        "gradients of other uses of a weight are dropped",
        "gradients-of-other-uses-dropped",
        "product + other if other[0].any() else product",
        "product",
        "torch gradients",
    ),
    (
        "gradients of other uses of a parameter are left out",
        "gradients-of-other-uses-left-out",
        "any(each is not None for each in others) or",
        "",
        "torch gradients",
    ),
    (
        "a loss that depends on no parameter is trained with noise alone",
        "loss-without-the-model-trained",
        "all(each is None for each in found)",
        "False",
        "torch losses",
    ),
    (
        "a loss that depends on no parameter is noticed by the first batch that is not empty",
        "empty-batch-hides-a-loss-without-the-model",
        "run._gradients.check_use(batch)",
        "pass",
        "torch losses",
    ),
    (
        "a loss gets a function in the place of the module",
        "loss-gets-a-stand-in",
        "loss(self.model, *batch)",
        "loss(self.model.__call__, *batch)",
        "torch losses",
    ),
    (
        "a model that is spread over processes is trained as if it were whole",
        "model-of-several-processes-trained",
        "isinstance(module, kinds)",
        "False",
        "torch processes",
    ),
    (
        "each of several processes releases the whole plan",
        "each-process-releases-the-whole-plan",
        "size > 1",
        "False",
        "torch processes",
    ),
    (
        "a step that moved no parameter goes unnoticed",
        "step-that-was-not-used-goes-unnoticed",
        "released is None",
        "True",
        "torch steps",
    ),
]
