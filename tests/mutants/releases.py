"""Defects of mechanisms that must not pass, as fields of `mutants.Mutant`, and who has to notice them."""

MECHANISMS = "python/ferrodp/mechanisms/"
SELECTION = MECHANISMS + "selection.py"
RESPONSE = MECHANISMS + "randomized_response.py"
GAUSSIAN = MECHANISMS + "discrete_gaussian.py"
LAPLACE = MECHANISMS + "discrete_laplace.py"
RELEASE = MECHANISMS + "_release.py"
SELECT = "rust/ferrodp-core/src/select.rs"

KILLERS = {
    "equal numbers": "pytest tests/test_equal_numbers.py",
    "choices": "pytest tests/mechanisms/test_selection.py tests/mechanisms/test_selection_law.py",
    "responses": "pytest tests/mechanisms/test_randomized_response.py",
    "discrete mechanisms": "pytest tests/mechanisms/test_discrete_mechanisms.py",
    "discrete releases": "pytest tests/mechanisms/test_discrete_release.py",
    "labels": "pytest tests/mechanisms/test_labels.py",
}

MUTANTS = [
    (
        "utilities that move both ways cost what monotonic ones do",
        SELECTION,
        "        return (1 if self.monotonic else 2) * Fraction(self.sensitivity) / Fraction(self.scale)",
        "        return Fraction(self.sensitivity) / Fraction(self.scale)",
        "choices",
    ),
    (
        "the scale of a choice is rounded down",
        SELECTION,
        '* Fraction(bound) / target, "up")',
        '* Fraction(bound) / target, "down")',
        "choices",
    ),
    (
        "permute-and-flip passes for the exponential mechanism",
        SELECTION,
        '    _noise: ClassVar[str] = "exponential"',
        '    _noise: ClassVar[str] = "gumbel"',
        "choices",
    ),
    (
        "permute-and-flip is said to have a bounded range",
        SELECTION,
        '    _noise: ClassVar[str] = "exponential"\n\n    @property\n    def event(self) -> EpsilonDeltaEvent:\n'
        '        """What an accountant needs to know about one choice."""\n        return EpsilonDeltaEvent(',
        '    _noise: ClassVar[str] = "exponential"\n\n    @property\n    def event(self) -> EpsilonDeltaEvent:\n'
        '        """What an accountant needs to know about one choice."""\n        return ExponentialMechanismEvent(',
        "choices",
    ),
    (
        "integers between two floats are rounded",
        SELECTION,
        "integers = {i: int(array[i]) for i in large if int(array[i]) != int(floats[i])}",
        "integers = dict.fromkeys(large[:0], 0)",
        "equal numbers",
    ),
    (
        "a value between two floats is rounded before its release",
        "python/ferrodp/mechanisms/_release.py",
        "    integers = _arrays.long_integers(value)\n",
        "    integers = dict[int, int]()\n",
        "equal numbers",
    ),
    (
        "the curve of bounded range is that of a range half as wide",
        MECHANISMS + "_pure.py",
        "r.square(r.one_minus_exp(r.half(gap)))",
        "r.square(r.one_minus_exp(r.half(r.half(gap))))",
        "choices",
    ),
    (
        "bounds in floats are trusted far too far",
        SELECT,
        "(x.abs() + t) * exp2(-48) + widening",
        "(x.abs() + t) * -exp2(-3) + widening",
        "choices",
    ),
    (
        "the sign of Laplace noise is the first bit of its size",
        "rust/ferrodp-core/src/select/duel.rs",
        "self.block(0)[0] >> 63 == 1",
        "self.word >> 63 == 1",
        "choices",
    ),
    (
        "the noise of an answer is rounded down",
        RESPONSE,
        "parameter = min(float_up(tight(enclose, _DIGITS).upper), 1.0)",
        "parameter = math.nextafter(float_up(tight(enclose, _DIGITS).upper), 0.0)",
        "responses",
    ),
    (
        "truth and lie are told apart by half of what they are",
        RESPONSE,
        "ratio = 1 + allowed * self.num_categories / Fraction(self.noise_parameter)",
        "ratio = 1 + allowed * (self.num_categories - 1) / Fraction(self.noise_parameter)",
        "responses",
    ),
    (
        "a replaced answer is never the true one",
        "rust/ferrodp-core/src/respond.rs",
        "T::from_index(if replaced | self.always { other } else { own })",
        "T::from_index(if (replaced | self.always) & (other != own) { other } else if replaced { (own + 1) % "
        "self.categories } else { own })",
        "responses",
    ),
    (
        "a vector is accounted as one integer",
        GAUSSIAN,
        "return self.dimension == 1 and self.scale <= _WIDEST",
        "return self.scale <= _WIDEST",
        "discrete mechanisms",
    ),
    (
        "the discrete Gaussian is accounted as the continuous one",
        GAUSSIAN,
        "return discrete_gaussian_delta(epsilon=checked, scale=scale, l2_sensitivity=sensitivity)",
        "from ferrodp.accounting import gaussian_delta\n\n"
        "        return gaussian_delta(epsilon=checked, noise_multiplier=scale / sensitivity)",
        "discrete mechanisms",
    ),
    (
        "a fraction is rounded where the curve is exact",
        GAUSSIAN,
        "            if not isinstance(scale, float):\n",
        "            scale = float(scale)\n            if not isinstance(scale, float):\n",
        "discrete mechanisms",
    ),
    (
        "releases of another dimension are let through",
        RELEASE,
        "if dimension is not None and values.size != dimension:",
        "if dimension is not None and values.size > dimension > 1:",
        "discrete releases",
    ),
    (
        "the output holds the bare integers before they are noised",
        RELEASE,
        "    # noised apart, so that no error can leave `out` holding the bare value\n"
        '    noised = np.array(values, order="C", copy=True)\n',
        "    if target is not None:\n        np.copyto(target, values)\n    noised = np.array(values, copy=True)\n",
        "discrete releases",
    ),
    (
        "zeros are released without integer noise",
        RELEASE,
        "    return int(noised) if issubclass",
        "    noised = np.where(values == 0, values, noised)\n    return int(noised) if issubclass",
        "discrete releases",
    ),
    (
        "integer noise is drawn once per row",
        RELEASE,
        "    return int(noised) if issubclass",
        "    if noised.ndim > 1:\n        noised = values + (noised - values)[..., :1]\n"
        "    return int(noised) if issubclass",
        "discrete releases",
    ),
    (
        "epsilon and delta of integers are swapped in a calibration",
        GAUSSIAN,
        "        allowed = _validate.delta(delta)\n        least",
        "        allowed = _validate.delta(delta)\n        target, allowed = allowed, min(target, 0.5)\n        least",
        "discrete mechanisms",
    ),
    (
        "releases forget that their time was to be fixed",
        RELEASE,
        "drawn_from.add_discrete_gaussian_(array, scale=scale, fixed_time=fixed_time, threads=threads)",
        "drawn_from.add_discrete_gaussian_(array, scale=scale, threads=threads)",
        "discrete releases",
    ),
    (
        "the scale of two-sided geometric noise is rounded down",
        LAPLACE,
        'scale = max(_validate.rounded(sensitivity / target, "up"), 0.01)',
        'scale = max(_validate.rounded(sensitivity / target, "down"), 0.01)',
        "discrete mechanisms",
    ),
    (
        "the L1 distance is taken for one",
        LAPLACE,
        "        return self.l1_sensitivity / Fraction(self.scale)",
        "        return 1 / Fraction(self.scale)",
        "discrete mechanisms",
    ),
    (
        "a mechanism has another label than its row",
        LAPLACE,
        '    guarantee: ClassVar[str] = "exact"',
        '    guarantee: ClassVar[str] = "certified"',
        "labels",
    ),
]
