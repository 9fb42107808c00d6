"""Defects of events and accountants that must not pass, as fields of `mutants.Mutant`, and who has to notice them."""

KILLERS = {
    "events": "pytest tests/events/test_events.py tests/events/test_event_parameters.py",
    "simple events": "pytest tests/events/test_simple_events.py",
    "accountants": "pytest tests/accounting/accountants/test_accountant.py",
    "trees": "pytest tests/events/test_tree.py",
    "explanations": "pytest tests/accounting/test_explanation.py",
    "importers": "pytest tests/accounting/reports/test_importers.py",
    "pictures": "pytest tests/accounting/reports/test_plots.py",
    "enumeration": "pytest tests/accounting/test_enumerated_cells.py",
    "statistics' tickets": "pytest tests/tickets/test_ticketed_releases.py",
}

MUTANTS = [
    (
        "nested counts do not multiply",
        "nested-counts-do-not-multiply",
        "count * event.count",
        "max(count, event.count)",
        "simple events",
    ),
    (
        "the multiplier of a sum of events is rounded up",
        "multiplier-of-sum-of-events-rounded-up",
        "(1 / inverse_square)",
        "(1 / inverse_square) * (1 + 2**-52)",
        "simple events",
    ),
    (
        "samples of samples take the larger probability",
        "samples-of-samples-take-larger-probability",
        "*= Fraction(inner.sampling_probability)",
        "= max(probability, Fraction(inner.sampling_probability))",
        "simple events",
    ),
    (
        "several releases about one sample cost one",
        "several-releases-about-one-sample-cost-one",
        "+= times /",
        "+= 1 /",
        "simple events",
    ),
    (
        "releases about one sample need not be Gaussian",
        "releases-about-one-sample-need-not-gaussian",
        "all(isinstance(part, GaussianEvent) for part in parts)",
        "any(isinstance(part, GaussianEvent) for part in parts)",
        "simple events",
    ),
    (
        "a cut that can happen is taken for none",
        "cut-that-can-happen-taken-for-none",
        "truncated_batch_size > event.",
        "truncated_batch_size >= event.",
        "simple events",
    ),
    (
        "a sensitivity is rounded down",
        "sensitivity-rounded-down",
        "POSITIVE_UP",
        "POSITIVE_DOWN",
        "events",
    ),
    (
        "a discrete Gaussian is rounded like a continuous one",
        "discrete-gaussian-rounded-like-continuous",
        'base.exact_float("scale", stated_scale, "finite and > 0")',
        "",
        "events",
    ),
    (
        "a split clip gets too little noise",
        "split-clip-gets-too-little-noise",
        "sqrt_up(1 / (1 / total**2 - 1 / share**2))",
        "sqrt_up((1 - Fraction(1, 2**52)) * 1 / (1 / total**2 - 1 / share**2))",
        "events",
    ),
    (
        "true counts as version 1",
        "true-counts-as-version-1",
        'or isinstance(data.get("version"), bool)',
        "",
        "events",
    ),
    (
        "an event without support is added before it is refused",
        "event-without-support-added",
        "if isinstance(event, NonPrivateEvent) or event in self._told:\n            return",
        "self._told.add(((event, 1),), 1)",
        "accountants",
    ),
    (
        "the remaining count is one too many",
        "remaining-count-one-too-many",
        "(lambda count: over(count) > 0.0, near, 1, _LIMIT) - 1",
        "(lambda count: over(count) > 0.0, near, 1, _LIMIT)",
        "accountants",
    ),
    (
        "charges are not locked",
        "charges-not-locked",
        "with self._lock:\n"
        "            counts = self._counts\n"
        "            for part, times in parts:\n"
        "                if times:\n"
        "                    counts[part] = counts.get(part, 0)",
        "if True:\n"
        "            counts = self._counts\n"
        "            for part, times in parts:\n"
        "                if times:\n"
        "                    before = counts.get(part, 0)\n"
        "                    threading.Event().wait(1e-6)\n"
        "                    counts[part] = before",
        "accountants",
    ),
    (
        "merging forgets the relation",
        "merging-forgets-relation",
        "not self._neighboring_relation",
        "None",
        "accountants",
    ),
    (
        "an accountant remembers events by a number that is used again",
        "accountant-remembers-events-by-number",
        "(event, parts)",
        "(parts[0][0] if parts else event, parts)",
        "accountants",
    ),
    (
        "participations may be one step closer",
        "participations-may-one-step-closer",
        "(steps, most, separation + 1)",
        "(steps, most, separation + 2)",
        "trees",
    ),
    (
        "of a tree's partial sums only the earliest are kept",
        "of-tree-partial-sums-only-earliest-kept",
        "front or best[carry] > front[-1][1]",
        "front",
        "trees",
    ),
    (
        "the factor of an explanation is rounded to nearest",
        "factor-of-explanation-rounded-to-nearest",
        ", rounding=ROUND_CEILING",
        "",
        "explanations",
    ),
    (
        "an estimate is called a bound",
        "estimate-called-bound",
        "not explanation.is_bound",
        "explanation.value < 0",
        "explanations",
    ),
    (
        "the scale of an imported event is rounded up",
        "scale-of-imported-event-rounded-up",
        '("1/noise_parameter", 1 / parameter, toward="down")',
        '("1/noise_parameter", 1 / parameter, toward="up")',
        "importers",
    ),
    (
        "of several trees the smallest is taken",
        "of-several-trees-smallest-taken",
        'max((_validate.count("step_counts", each, minimum=0) for each in counts), default=0)',
        'min((_validate.count("step_counts", each, minimum=0) for each in counts), default=0)',
        "importers",
    ),
    (
        "the shade of a trade-off begins at the wrong side of a step",
        "shade-of-trade-off-begins-at-wrong-side",
        "np.append(profile.lower[1:], 0.0)",
        "profile.lower",
        "pictures",
    ),
    (
        "a zeroed record costs one contribution in a sample of fixed size",
        "zeroed-record-costs-one-contribution",
        "1 if relation is NeighboringRelation.REPLACE_ONE else 2",
        "1",
        "enumeration",
    ),
    (
        "every Gaussian sum is one of clipped contributions",
        "every-gaussian-sum-one-of-clipped",
        "event.null_distance == 0.5 and isinstance",
        "isinstance",
        "enumeration",
    ),
    (
        "what a sample does not say of a missing record is taken to be little",
        "what-sample-does-not-say-of-missing-record",
        "additive and event.null_distance <= 1.0",
        "additive",
        "enumeration",
    ),
    (
        "the same of Rényi curves",
        "same-of-renyi-curves",
        "event.null_distance <= 1.0",
        "True",
        "enumeration",
    ),
    (
        "the same of pure epsilons",
        "pure-epsilon-amplified",
        "additive and (relation is NeighboringRelation.REPLACE_SPECIAL or event.null_distance <= 1.0)",
        "additive",
        "enumeration",
    ),
    (
        "nobody is added to a truncated sample",
        "nobody-added-to-truncated-sample",
        "sample_of(event.population_size + 1)",
        "sample",
        "enumeration",
    ),
    (
        "nobody is added to the curve of a truncated sample",
        "nobody-added-to-curve-of-truncated-sample",
        "population_size + 1",
        "population_size",
        "enumeration",
    ),
    (
        "black boxes are amplified for null records",
        "pure-epsilon-amplified",
        "additive and (relation is NeighboringRelation.REPLACE_SPECIAL or event.null_distance <= 1.0)",
        "relation is NeighboringRelation.REPLACE_SPECIAL or (additive and event.null_distance <= 1.0)",
        "enumeration",
    ),
    (
        "a column's sum is paid for by any sample",
        "column-sum-paid-for-by-any-sample",
        "> closest:",
        "> math.inf:",
        "statistics' tickets",
    ),
]
