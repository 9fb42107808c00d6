"""Defects of private loops in PyTorch that must not pass, as fields of `mutants.Mutant`, and who has to notice them.

The killers run in the environment that `./check frameworks torch` makes.
"""

KILLERS = {
    "torch bound": "framework torch tests/integrations/torch/test_ghost_bound.py",
    "torch layers": "framework torch tests/integrations/torch/test_private_layers.py",
    "torch loops": "framework torch tests/integrations/torch/test_private_training.py",
    "torch transformers": "framework torch tests/integrations/torch/test_private_transformers.py",
}

MUTANTS = [
    (
        "terms of an example may be longer than the bound of its sum allows",
        "terms-of-an-example-without-a-bound",
        "_LARGEST_RATIO",
        "1e9 * _LARGEST_RATIO",
        "torch bound",
    ),
    (
        "the errors of one of two neighbors are taken off",
        "errors-of-one-of-two-neighbors",
        "2.0 * _SLACK",
        "0.5 * _SLACK",
        "torch bound",
    ),
    (
        "the residue is not taken off the clip norm",
        "residue-not-taken-off-the-clip-norm",
        "(1.0 - self.residue)",
        "1.0",
        "torch bound",
    ),
    (
        "the norms of terms cancel",
        "norms-of-terms-not-added-up",
        ".sum(1) *",
        ".amax(1) *",
        "torch bound",
    ),
    (
        "the norm of a pair is rounded down",
        "norm-of-a-pair-rounded-down",
        "(1.0 + (p",
        "(1.0 - (p",
        "torch bound",
    ),
    (
        "the error of a norm is left out",
        "error-of-a-norm-left-out",
        "square.clamp_min(0.0) +",
        "square.clamp_min(0.0) + 0.0 *",
        "torch bound",
    ),
    (
        "the same word twice counts as two words",
        "same-word-twice-counted-apart",
        "places[:, :, None] == places[:, None, :]",
        "torch.eye(t, dtype=torch.bool)[None].expand(len(places), t, t)",
        "torch bound",
    ),
    (
        "uses of a tied weight are taken as orthogonal",
        "tied-uses-taken-as-orthogonal",
        "2.0 * cross",
        "0.0 * cross",
        "torch bound",
    ),
    (
        "terms beyond the ratio are kept",
        "terms-beyond-the-ratio-kept",
        "bound.ratio * target",
        "1e30 * target",
        "torch bound",
    ),
    (
        "an example that is not finite is kept",
        "example-that-is-not-finite-kept",
        "torch.where(finite, factor * (1.0 - 4.0 * UNIT), 0.0)",
        "factor",
        "torch bound",
    ),
    (
        "a step may be added in any number of parts",
        "more-additions-than-the-bound-has",
        "done >= self._bound.most_additions",
        "False",
        "torch bound",
    ),
    (
        "padding of a table is trained",
        "padding-of-a-table-trained",
        "first == ctx.padding",
        "first == -1",
        "torch layers",
    ),
    (
        "what a model decides by values of a batch is taken for each example's",
        "decisions-of-a-batch-taken-for-each-example",
        "if _called(function) in _VALUES",
        "if False",
        "torch layers",
    ),
    (
        "the axis of the examples in one use is taken for that in all",
        "axis-of-one-use-taken-for-all",
        "found.setdefault(name, differing[0]) != differing[0]",
        "found.setdefault(name, differing[0]) < 0",
        "torch layers",
    ),
    (
        "rows that a batch was flattened to are not known by example",
        "rows-of-a-batch-in-one-axis",
        "before is None",
        "True",
        "torch transformers",
    ),
    (
        "a mean over the words of a batch stays one",
        "mean-over-words-of-a-batch-kept",
        "node._saved_total_weight, length / rows",
        "1.0 * length, 1.0",
        "torch loops",
    ),
    (
        "the loss of two private models is given to one of them",
        "loss-of-two-private-models-given-to-one",
        "if len(kinds) == 1 else PrivateTensor",
        "",
        "torch loops",
    ),
    (
        "an example that stands for nobody is added",
        "example-that-stands-for-none-added",
        "< part.count",
        "< part.length",
        "torch loops",
    ),
]
