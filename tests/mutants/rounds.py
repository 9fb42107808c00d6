"""Defects of the engine that must not pass, as fields of `mutants.Mutant`, and the commands that notice them."""

ENGINE = "python/ferrodp/engine/"
ACCOUNTS = ENGINE + "_accounts.py"
COUNTER = ENGINE + "_counter.py"
STEP = ENGINE + "_step.py"
SUMS = ENGINE + "_sums.py"
ROUNDS = ENGINE + "engine.py"
MODEL = ENGINE + "model.py"
SPENDING = ENGINE + "_spending.py"

KILLERS = {
    "rounds": "pytest tests/engine/test_rounds.py",
    "round sums": "pytest tests/engine/test_round_sums.py",
    "ledger rounds": "pytest tests/engine/test_ledger_rounds.py",
    "spending": "pytest tests/engine/test_spending.py",
    "engine calibration": "pytest tests/engine/test_engine_calibration.py",
    "discrete rounds": "pytest tests/engine/test_discrete_rounds.py",
    "gradients": "pytest tests/engine/test_gradients.py",
    "model": "pytest tests/engine/test_named_model.py",
}

MUTANTS = [
    ("one round too many is allowed", COUNTER, "if self._taken >= allowed:", "if self._taken > allowed:", "rounds"),
    ("a round that drew is not counted", COUNTER, "            self._spent += 1\n", "            pass\n", "rounds"),
    (
        "a round that failed is not given back",
        COUNTER,
        "            self._taken -= 1\n",
        "            pass\n",
        "rounds",
    ),
    (
        "threads count rounds without a lock",
        COUNTER,
        "        with self._lock:\n            if self._taken >= allowed:",
        "        if True:\n            import time\n\n            time.sleep(self._taken < 0)\n"
        "            before, self._taken = self._taken, self._taken\n            time.sleep(0.001)\n"
        "            self._taken = before\n            if self._taken >= allowed:",
        "rounds",
    ),
    (
        "a forked child counts on",
        COUNTER,
        "        if self._process != _fork.generation():",
        "        if False:",
        "rounds",
    ),
    (
        "the updates are looked at before the round is reserved",
        ROUNDS,
        "        with self._reserved(self._step.sampled(total.event), key) as ticket:\n"
        "            _add_all(total, updates())\n",
        "        _add_all(total, updates())\n"
        "        with self._reserved(self._step.sampled(total.event), key) as ticket:\n",
        "rounds",
    ),
    (
        "a run begins that the budget does not allow",
        ROUNDS,
        "            if num_rounds > left:",
        "            if num_rounds > left + 1:",
        "rounds",
    ),
    (
        "the ledger is not asked",
        ROUNDS,
        "        if self._ledger is None or self._scope is None:",
        "        if True:",
        "rounds",
    ),
    (
        "a scope of another relation is taken",
        ROUNDS,
        "        if ticket.neighboring_relation is not self._step.relation:",
        "        if False:",
        "ledger rounds",
    ),
    (
        "rounds that a ledger paid for are not counted",
        ROUNDS,
        "if self._ledger is not None and ticket.state is TicketState.ARMED:",
        "if self._ledger is not None and ticket.state is TicketState.SPENT:",
        "ledger rounds",
    ),
    (
        "what the ledger cannot bound is found out in the first round",
        ROUNDS,
        "        if ledger is not None and scope is not None:\n",
        "        if ledger is None and scope is not None:\n",
        "ledger rounds",
    ),
    (
        "replacing a client costs what removing one does",
        STEP,
        "        return 1 if self.population_size is None else 2",
        "        return 1",
        "spending",
    ),
    (
        "a sample of fixed size is accounted as a Poisson sample",
        STEP,
        "        if self.population_size is None:\n            return PoissonSampledEvent",
        "        if True:\n            return PoissonSampledEvent",
        "spending",
    ),
    (
        "the sample is larger than what is accounted",
        STEP,
        "    return Step(config, population_size, min(sample_size, population_size))",
        "    return Step(config, population_size, min(sample_size + 1, population_size))",
        "samples",
    ),
    (
        "all of δ is given to every round",
        ACCOUNTS,
        '_validate.rounded(share * Fraction(delta) / count, "down")',
        '_validate.rounded(share * Fraction(delta), "down")',
        "spending",
    ),
    (
        "advanced composition spends δ twice",
        ACCOUNTS,
        '_validate.rounded(Fraction(delta) - count * Fraction(each.delta), "down")',
        "delta",
        "spending",
    ),
    (
        "optimal composition forgets the failures of the rounds",
        ACCOUNTS,
        "compose_optimal([each], delta=delta, count=count)",
        "compose_optimal([(each.epsilon, 0.0)], delta=delta, count=count)",
        "spending",
    ),
    (
        "discrete noise is amplified before its ε is known",
        ACCOUNTS,
        "    amplified = amplify_by_sampling(epsilon=whole, delta=inner, sampling_probability=chance)",
        "    amplified = amplify_by_sampling(epsilon=whole, delta=inner, sampling_probability=chance**2)",
        "spending",
    ),
    (
        "the stand-in is used between whole orders",
        ACCOUNTS,
        "    return all(float(order).is_integer() for order in orders)",
        "    return True",
        "discrete rounds",
    ),
    (
        "the stand-in of discrete noise is asked at all orders",
        ACCOUNTS,
        "return RdpAccountant(step.config.renyi_orders, neighboring_relation=relation)",
        "return RdpAccountant(neighboring_relation=relation)",
        "spending",
    ),
    (
        "the noise multiplier is what just missed",
        ACCOUNTS,
        "narrow(excess, low, high, _ACCURACY)[1]",
        "narrow(excess, low, high, _ACCURACY)[0]",
        "engine calibration",
    ),
    (
        "budget left is rounded up",
        SPENDING,
        '_validate.rounded(Fraction(target) - Fraction(spent), "down")',
        '_validate.rounded(Fraction(target) - Fraction(spent), "up")',
        "spending",
    ),
    (
        "a budget may be exceeded in δ",
        SPENDING,
        " and budget.consumed_delta <= budget.delta",
        "",
        "spending",
    ),
    (
        "updates for Laplace noise are clipped in L2",
        SUMS,
        "clip_norm=self._clip_norm, ord=1)",
        "clip_norm=self._clip_norm, ord=2)",
        "round sums",
    ),
    (
        "updates for Laplace noise are rounded to the nearest",
        SUMS,
        "            np.trunc(units, out=units)",
        "            np.rint(units, out=units)",
        "round sums",
    ),
    (
        "an update that changed while it was clipped is added",
        SUMS,
        "            if not (np.abs(units).sum(axis=1) <= self._bound).all():",
        "            if False:",
        "round sums",
    ),
    (
        "the noise of integers is scaled for floats",
        SUMS,
        " + math.isqrt(max(values.size - 1, 0)) + 1\n",
        "\n",
        "gradients",
    ),
    ("floats are cut to the nearest integer", SUMS, "np.clip(np.trunc(scaled)", "np.clip(np.rint(scaled)", "gradients"),
    (
        "discrete noise forgets the grid",
        SUMS,
        "        units = math.ceil(total.clip_norm / total.granularity)  # a power of two: the quotient is exact\n",
        "        units = math.ceil(total.clip_norm)\n",
        "round sums",
    ),
    (
        "the denominator is forgotten",
        SUMS,
        "        return _trees.split(_as(values, denominator, self._like.dtype), self._like._structure)",
        "        return _trees.split(_as(values, None, self._like.dtype), self._like._structure)",
        "round sums",
    ),
    (
        "a model is told apart from its opposite at the price of zeros",
        MODEL,
        "distance = 2.0 if neighboring_relation is NeighboringRelation.REPLACE_ONE else 1.0",
        "distance = 1.0",
        "model",
    ),
    (
        "a model is noised before it is clipped",
        MODEL,
        "        clipped, _ = clip_by_global_norm(model, clip_norm=self._clip_norm)\n",
        "        clipped = model\n",
        "model",
    ),
    (
        "the cost of a model is charged after its noise",
        MODEL,
        "            self._charge(mechanism, allowed)\n            mechanism.release(values, out=values)\n",
        "            mechanism.release(values, out=values)\n            self._charge(mechanism, allowed)\n",
        "model",
    ),
    (
        "failures of models do not add up",
        MODEL,
        "            self._delta += Fraction(delta)",
        "            self._delta = max(self._delta, Fraction(delta))",
        "model",
    ),
]
