"""Defects of events and accountants that must not pass, as fields of `mutants.Mutant`, and who has to notice them."""

PACKAGE = "python/ferrodp/"
ACCOUNTING = "python/ferrodp/accounting/"
SIMPLE = PACKAGE + "events/decomposition.py"
ACCOUNTANT = ACCOUNTING + "accountants/base.py"
TREE = PACKAGE + "events/tree.py"

KILLERS = {
    "events": "pytest tests/accounting/test_events.py tests/accounting/test_event_parameters.py",
    "simple events": "pytest tests/accounting/test_simple_events.py",
    "accountants": "pytest tests/accounting/test_accountant.py",
    "trees": "pytest tests/accounting/test_tree.py",
    "explanations": "pytest tests/accounting/test_explanation.py",
    "importers": "pytest tests/accounting/test_importers.py",
    "pictures": "pytest tests/accounting/test_plots.py",
    "enumeration": "pytest tests/accounting/test_enumerated_cells.py",
    "statistics' tickets": "pytest tests/test_ticketed_releases.py",
}

MUTANTS = [
    (
        "nested counts do not multiply",
        SIMPLE,
        "pending.append((event.event, count * event.count))",
        "pending.append((event.event, max(count, event.count)))",
        "simple events",
    ),
    (
        "the multiplier of a sum of events is rounded up",
        SIMPLE,
        "multiplier = sqrt_down(1 / inverse_square)",
        "multiplier = sqrt_down(1 / inverse_square) * (1 + 2**-52)",
        "simple events",
    ),
    (
        "samples of samples take the larger probability",
        SIMPLE,
        "        probability *= Fraction(inner.sampling_probability)\n",
        "        probability = max(probability, Fraction(inner.sampling_probability))\n",
        "simple events",
    ),
    (
        "several releases about one sample cost one",
        SIMPLE,
        "inverse_square += times / Fraction",
        "inverse_square += 1 / Fraction",
        "simple events",
    ),
    (
        "releases about one sample need not be Gaussian",
        SIMPLE,
        "if not all(isinstance(part, GaussianEvent) for part in parts):",
        "if not any(isinstance(part, GaussianEvent) for part in parts):",
        "simple events",
    ),
    (
        "a cut that can happen is taken for none",
        SIMPLE,
        "if event.truncated_batch_size > event.population_size:",
        "if event.truncated_batch_size >= event.population_size:",
        "simple events",
    ),
    (
        "a sensitivity is rounded down",
        PACKAGE + "events/correlated.py",
        '"sensitivity": base.POSITIVE_UP',
        '"sensitivity": base.POSITIVE_DOWN',
        "events",
    ),
    (
        "a discrete Gaussian is rounded like a continuous one",
        PACKAGE + "events/noise.py",
        '            base.exact_float("scale", stated_scale, "finite and > 0")\n',
        "",
        "events",
    ),
    (
        "a split clip gets too little noise",
        PACKAGE + "events/noise.py",
        "multiplier = sqrt_up(",
        "multiplier = sqrt_up((1 - Fraction(1, 2**52)) * ",
        "events",
    ),
    (
        "true counts as version 1",
        PACKAGE + "events/base.py",
        ' or isinstance(data.get("version"), bool)',
        "",
        "events",
    ),
    (
        "an event without support is added before it is refused",
        ACCOUNTANT,
        "                if part not in self._counts:\n",
        "                self._add(((part, 1),), 1)\n                if part not in self._counts or True:\n",
        "accountants",
    ),
    (
        "the remaining count is one too many",
        ACCOUNTING + "_solve/counts.py",
        "near, 1, _LIMIT) - 1\n",
        "near, 1, _LIMIT)\n",
        "accountants",
    ),
    (
        "charges are not locked",
        ACCOUNTANT,
        """        with self._lock:
            counts = self._counts
            for part, times in parts:
                if times:
                    counts[part] = counts.get(part, 0) + times * count
""",
        """        if True:
            counts = self._counts
            for part, times in parts:
                if times:
                    before = counts.get(part, 0)
                    threading.Event().wait(1e-6)
                    counts[part] = before + times * count
""",
        "accountants",
    ),
    (
        "merging forgets the relation",
        ACCOUNTANT,
        "if other._neighboring_relation is not self._neighboring_relation:",
        "if other._neighboring_relation is None:",
        "accountants",
    ),
    (
        "an accountant remembers events by a number that is used again",
        ACCOUNTANT,
        "self._seen[id(event)] = (event, parts)",
        "self._seen[id(event)] = (parts[0][0] if parts else event, parts)",
        "accountants",
    ),
    (
        "participations may be one step closer",
        TREE,
        "return _largest(steps, most, separation + 1)",
        "return _largest(steps, most, separation + 2)",
        "trees",
    ),
    (
        "of a tree's partial sums only the earliest are kept",
        TREE,
        "if not front or best[carry] > front[-1][1]:",
        "if not front:",
        "trees",
    ),
    (
        "the factor of an explanation is rounded to nearest",
        ACCOUNTING + "explanation.py",
        "Context(prec=digits, rounding=ROUND_CEILING)",
        "Context(prec=digits)",
        "explanations",
    ),
    (
        "an estimate is called a bound",
        ACCOUNTING + "explanation.py",
        "    if not explanation.is_bound:\n        return",
        "    if explanation.value < 0:\n        return",
        "explanations",
    ),
    (
        "the scale of an imported event is rounded up",
        ACCOUNTING + "reports/importers.py",
        '_validate.positive("1/noise_parameter", 1 / parameter, toward="down")',
        '_validate.positive("1/noise_parameter", 1 / parameter, toward="up")',
        "importers",
    ),
    (
        "of several trees the smallest is taken",
        ACCOUNTING + "reports/importers.py",
        "steps = max((_validate",
        "steps = min((_validate",
        "importers",
    ),
    (
        "the shade of a trade-off begins at the wrong side of a step",
        ACCOUNTING + "reports/_curves.py",
        "np.append(profile.lower[1:], 0.0)",
        "profile.lower",
        "pictures",
    ),
    (
        "a zeroed record costs one contribution in a sample of fixed size",
        ACCOUNTING + "_solve/dominating_pairs.py",
        "noise(inner, 1 if relation is NeighboringRelation.REPLACE_ONE else 2)",
        "noise(inner, 1)",
        "enumeration",
    ),
    (
        "every Gaussian sum is one of clipped contributions",
        ACCOUNTING + "_solve/dominating_pairs.py",
        "if additive and event.null_distance == 0.5 and isinstance(inner, GaussianEvent)",
        "if additive and isinstance(inner, GaussianEvent)",
        "enumeration",
    ),
    (
        "what a sample does not say of a missing record is taken to be little",
        ACCOUNTING + "_solve/dominating_pairs.py",
        "if additive and event.null_distance <= 1.0:",
        "if additive:",
        "enumeration",
    ),
    (
        "the same of Rényi curves",
        ACCOUNTING + "rdp/rules.py",
        "event.sampling_probability, event.null_distance <= 1.0",
        "event.sampling_probability, True",
        "enumeration",
    ),
    (
        "the same of pure epsilons",
        ACCOUNTING + "_solve/costs.py",
        "is_close = additive and (relation is NeighboringRelation.REPLACE_SPECIAL or event.null_distance <= 1.0)",
        "is_close = additive",
        "enumeration",
    ),
    (
        "nobody is added to a truncated sample",
        ACCOUNTING + "_solve/dominating_pairs.py",
        "more = sample_of(event.population_size + 1)",
        "more = sample",
        "enumeration",
    ),
    (
        "nobody is added to the curve of a truncated sample",
        ACCOUNTING + "rdp/_sampled_rules.py",
        "sizes.append(event.population_size + 1)",
        "sizes.append(event.population_size)",
        "enumeration",
    ),
    (
        "black boxes are amplified for null records",
        ACCOUNTING + "_solve/costs.py",
        "is_close = additive and (relation is NeighboringRelation.REPLACE_SPECIAL or event.null_distance <= 1.0)",
        "is_close = relation is NeighboringRelation.REPLACE_SPECIAL or (additive and event.null_distance <= 1.0)",
        "enumeration",
    ),
    (
        "a column's sum is paid for by any sample",
        "python/ferrodp/statistics/_budget.py",
        "        if null_distance > closest:\n",
        "        if null_distance > math.inf:\n",
        "statistics' tickets",
    ),
]
