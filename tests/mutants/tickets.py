"""Defects of tickets and replays that must not pass, as fields of `mutants.Mutant`, and who has to notice them."""

BINDING = "rust/ferrodp-py/src/"
PERMIT = BINDING + "permit.rs"
PACKAGE = "python/ferrodp/"
TICKETS = PACKAGE + "tickets/ticket.py"
MECHANISMS = PACKAGE + "mechanisms/"

KILLERS = {
    "tickets": "pytest tests/test_tickets.py",
    "payments": "pytest tests/test_ticket_payments.py",
    "ticketed": "pytest tests/test_ticketed_releases.py",
    "replay": "pytest tests/test_replay.py",
}

ASK = "            Self::Permitted(permit) => permit.get().arm(py)?,\n"

MUTANTS = [
    (
        "a ticket is armed after the key is drawn",
        PERMIT,
        ASK + "            Self::Fresh => {}\n        }\n        Ok(Key::fresh()?)",
        "            Self::Permitted(permit) => {\n"
        "                let key = Key::fresh()?;\n"
        "                permit.get().arm(py)?;\n"
        "                return Ok(key);\n"
        "            }\n"
        "            Self::Fresh => {}\n        }\n        Ok(Key::fresh()?)",
        "ticketed",
    ),
    ("a ticket is not armed at all", PERMIT, ASK, "            Self::Permitted(_) => {}\n", "tickets"),
    (
        "a ticket that fails to arm is shrugged off",
        PERMIT,
        "self.arm.call0(py)?;",
        "let _ = self.arm.call0(py);",
        "tickets",
    ),
    (
        "a permit that was refused lets later draws pass",
        PERMIT,
        "self.arm.call0(py)?;",
        "self.arm.call0(py).inspect_err(|_| self.state.store(ARMED, Ordering::Release))?;",
        "tickets",
    ),
    (
        "a permit lets others draw while it is being armed",
        PERMIT,
        "compare_exchange(FRESH, ASKED,",
        "compare_exchange(FRESH, ARMED,",
        "tickets",
    ),
    (
        "noise is written before the ticket is armed",
        BINDING + "noise.rs",
        "    let key = key.draw(py)?;\n    let threads = threads.unwrap_or_else(|| default_threads(values.len()));\n",
        "    let threads = threads.unwrap_or_else(|| default_threads(values.len()));\n"
        "    let early = Key::fresh()?;\n"
        "    py.detach(|| noise.add(isa, &early, values, threads));\n"
        "    let key = key.draw(py)?;\n",
        "ticketed",
    ),
    (
        "a sum is not looked at again after its ticket was armed",
        BINDING + "clip.rs",
        "            let noise = state.check(noise_multiplier, out.len())?;\n            state.released = true;\n",
        "            let noise = state.sum.clip().noise(noise_multiplier)?;\n            state.released = true;\n",
        "ticketed",
    ),
    (
        "a ticket is armed before its sum is looked at",
        BINDING + "clip.rs",
        "        py.detach(|| self.lock()?.check(noise_multiplier, out.len()))?;\n",
        "",
        "ticketed",
    ),
    (
        "a ticket is armed before the threshold is looked at",
        BINDING + "select.rs",
        "        NoisyThreshold::check(threshold, threshold_scale, query_scale)?;\n",
        "",
        "tickets",
    ),
    (
        "armed twice is allowed",
        TICKETS,
        "            if part is not None and left[part] < 1:\n                self._refuse()\n",
        "",
        "tickets",
    ),
    (
        "a ticket that another process armed pays again",
        TICKETS,
        "self._state is not TicketState.ARMED or not self._began_here:",
        "self._state is not TicketState.ARMED:",
        "tickets",
    ),
    (
        "an armed ticket can be cancelled",
        TICKETS,
        "            if self._state is not TicketState.HELD:\n                self._refuse()\n"
        "            self._cancel()",
        "            if self._state not in (TicketState.HELD, TicketState.ARMED):\n                self._refuse()\n"
        "            self._cancel()",
        "tickets",
    ),
    (
        "a ticket whose record failed can be tried again",
        TICKETS,
        "self._state = TicketState.SPENT  # if",
        "# if",
        "tickets",
    ),
    (
        "a ticket works in a forked child",
        TICKETS,
        "        if self._process != _fork.generation():\n            raise TicketError(",
        "        if self._process < 0:\n            raise TicketError(",
        "tickets",
    ),
    (
        "a forked child cannot leave the block of its parent's ticket",
        TICKETS,
        "        if self._process == _fork.generation():  # a",
        "        if self._process:  # a",
        "tickets",
    ),
    (
        "the event is not compared",
        PACKAGE + "tickets/payment.py",
        "    if paid == event:\n        return True\n",
        "    if paid == event or type(paid) is not type(event):\n        return True\n",
        "ticketed",
    ),
    (
        "a smaller noise multiplier is covered",
        PACKAGE + "tickets/payment.py",
        "return paid.noise_multiplier <= event.noise_multiplier",
        "return paid.noise_multiplier >= event.noise_multiplier",
        "payments",
    ),
    (
        "a repeated event pays for one release more",
        PACKAGE + "tickets/payment.py",
        "            case SelfComposedEvent(event=inner, count=count):\n"
        "                pending.append((inner, times * count))",
        "            case SelfComposedEvent(event=inner, count=count):\n"
        "                pending.append((inner, times * (count + 1)))",
        "payments",
    ),
    (
        "several releases are promised one payment",
        TICKETS,
        "self._part_for(event, Counter(parts))",
        "self._part_for(event, Counter())",
        "payments",
    ),
    (
        "a cheap release takes the dearest part",
        TICKETS,
        "part if covers(best, part) else best",
        "part if covers(part, best) else best",
        "payments",
    ),
    (
        "a seeded source is allowed with a ticket",
        TICKETS,
        "    if not source.is_private:\n",
        "    if source is None:\n",
        "ticketed",
    ),
    (
        "a sum of replaced rows costs what one of removed rows does",
        PACKAGE + "sums/clipped.py",
        "paid = multiplier / 2.0 if replaced else multiplier ",
        "paid = multiplier if replaced else multiplier ",
        "ticketed",
    ),
    (
        "the short way for single numbers forgets the ticket",
        MECHANISMS + "laplace.py",
        "out is None and source is None and ticket is None and",
        "out is None and source is None and",
        "ticketed",
    ),
    (
        "randomized response forgets the ticket",
        MECHANISMS + "randomized_response.py",
        "_release.source_of(self, source, ticket)",
        "_release.source_of(self, source, None)",
        "ticketed",
    ),
    (
        "a sparse vector run forgets the ticket",
        MECHANISMS + "sparse_vector.py",
        "key = _release.source_of(self, drawn_from, ticket)._key()",
        "key = drawn_from._key()",
        "ticketed",
    ),
    (
        "half a ticket begins a mean",
        PACKAGE + "statistics/sums.py",
        "        of_rows, source = spent.sources(*event.events, null_distance=None)\n"
        "        rows = counter.release(rows, source=of_rows)\n",
        "        (of_rows,) = spent.sources(counter.event, null_distance=None)\n"
        "        rows = counter.release(rows, source=of_rows)\n"
        "        (source,) = spent.sources(mechanism.event, null_distance=None)\n",
        "ticketed",
    ),
    (
        "a statistic does not ask which neighbors the ticket is about",
        PACKAGE + "statistics/_budget.py",
        "        if relation is not self.relation:\n",
        "        if relation is None:\n",
        "ticketed",
    ),
    (
        "a replay does not look at inputs",
        PACKAGE + "_observer.py",
        "        if not now.is_within(then):\n",
        "        if now is then:\n",
        "replay",
    ),
    (
        "distances are taken for the smallest of their steps",
        PACKAGE + "_observer.py",
        "return max(steps, default=Fraction(0)) <= bound",
        "return min(steps, default=Fraction(0)) <= bound",
        "replay",
    ),
    (
        "a replay may leave releases out",
        PACKAGE + "testing.py",
        "    replayer.finish()\n",
        "",
        "replay",
    ),
    (
        "a sum reports its sensitivity in steps of its grid",
        PACKAGE + "sums/clipped.py",
        "                unit=self.granularity,\n",
        "",
        "replay",
    ),
    (
        "a replay answers with noise of its own",
        PACKAGE + "mechanisms/selection.py",
        "            chosen = int(seen)\n",
        "            chosen = int(chosen)\n",
        "replay",
    ),
]
