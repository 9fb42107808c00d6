"""Defects of tickets and replays that must not pass, as fields of `mutants.Mutant`, and who has to notice them."""

KILLERS = {
    "tickets": "pytest tests/tickets/test_tickets.py",
    "payments": "pytest tests/tickets/test_ticket_payments.py",
    "ticketed": "pytest tests/tickets/test_ticketed_releases.py",
    "replay": "pytest tests/test_replay.py",
}

MUTANTS = [
    (
        "a ticket is armed after the key is drawn",
        "ticket-armed-before-the-key",
        "permit.get().arm(py)?,",
        "{\n"
        "                let key = Key::fresh()?;\n"
        "                permit.get().arm(py)?;\n"
        "                return Ok(key);\n"
        "            }",
        "ticketed",
    ),
    (
        "a ticket is not armed at all",
        "ticket-armed-before-the-key",
        "(permit) => permit.get().arm(py)?,",
        "(_) => {}",
        "tickets",
    ),
    (
        "a ticket that fails to arm is shrugged off",
        "ticket-armed",
        "self.arm.call0(py)?",
        "let _ = self.arm.call0(py)",
        "tickets",
    ),
    (
        "a permit that was refused lets later draws pass",
        "ticket-armed",
        "call0(py)?;",
        "call0(py).inspect_err(|_| self.state.store(STATE_ARMED, Ordering::Release))?;",
        "tickets",
    ),
    (
        "a permit lets others draw while it is being armed",
        "permit-lets-others-draw-while-it-being-armed",
        "STATE_FRESH, STATE_REQUESTED,",
        "STATE_FRESH, STATE_ARMED,",
        "tickets",
    ),
    (
        "noise is written before the ticket is armed",
        "noise-written-before-ticket-armed",
        "key = key.draw(py)?;\n    let threads = threads.unwrap_or_else(|| default_threads(values.len()))",
        "threads = threads.unwrap_or_else(|| default_threads(values.len()));\n"
        "    let early = Key::fresh()?;\n"
        "    py.detach(|| noise.add(isa, &early, values, threads));\n"
        "    let key = key.draw(py)?",
        "ticketed",
    ),
    (
        "a sum is not looked at again after its ticket was armed",
        "sum-not-looked-at-again-after-ticket-armed",
        "check::<T>(noise_multiplier, out.len())",
        "sum.clip().noise::<T>(noise_multiplier)",
        "ticketed",
    ),
    (
        "a ticket is armed before its sum is looked at",
        "ticket-armed-before-sum-looked",
        "py.detach(|| self.lock()?.check::<T>(noise_multiplier, out.len()))?;",
        "",
        "ticketed",
    ),
    (
        "a ticket is armed before the threshold is looked at",
        "ticket-armed-before-threshold-looked",
        "NoisyThreshold::check(threshold, threshold_scale, query_scale)?;",
        "",
        "tickets",
    ),
    (
        "armed twice is allowed",
        "armed-twice-allowed",
        "if part is not None and left[part] < 1:\n                self._refuse()",
        "",
        "tickets",
    ),
    (
        "a ticket that another process armed pays again",
        "ticket-that-another-process-armed-pays-again",
        "ARMED or not self._began_here",
        "ARMED",
        "tickets",
    ),
    (
        "an armed ticket can be cancelled",
        "armed-ticket-can-cancelled",
        "is not TicketState.HELD",
        "not in (TicketState.HELD, TicketState.ARMED)",
        "tickets",
    ),
    (
        "a ticket whose record failed can be tried again",
        "ticket-whose-record-failed-can-tried-again",
        "self._state = TicketState.SPENT  #",
        "#",
        "tickets",
    ),
    (
        "a ticket works in a forked child",
        "ticket-works-in-forked-child",
        "!= _fork.generation()",
        "< 0",
        "tickets",
    ),
    (
        "a forked child cannot leave the block of its parent's ticket",
        "forked-child-cannot-leave-block-of-parent",
        "_process == _fork.generation()",
        "_process",
        "tickets",
    ),
    (
        "the event is not compared",
        "event-not-compared",
        "== event:",
        "== event or type(paid) is not type(event):",
        "ticketed",
    ),
    (
        "a smaller noise multiplier is covered",
        "smaller-noise-multiplier-covered",
        "noise_multiplier <=",
        "noise_multiplier >=",
        "payments",
    ),
    (
        "a repeated event pays for one release more",
        "repeated-event-pays-for-one-release-more",
        "(inner, times * count)",
        "(inner, times * (count + 1))",
        "payments",
    ),
    (
        "several releases are promised one payment",
        "several-releases-promised-one-payment",
        "(event, Counter(parts))",
        "(event, Counter())",
        "payments",
    ),
    (
        "a cheap release takes the dearest part",
        "cheap-release-takes-dearest-part",
        "(best, part)",
        "(part, best)",
        "payments",
    ),
    (
        "a seeded source is allowed with a ticket",
        "seeded-source-allowed-with-ticket",
        "not source.is_private",
        "source is None",
        "ticketed",
    ),
    (
        "a sum of replaced rows costs what one of removed rows does",
        "sum-of-replaced-rows-costs-what-one",
        "/ 2.0 if",
        "if",
        "ticketed",
    ),
    (
        "the short way for single numbers forgets the ticket",
        "short-way-for-single-numbers-forgets-ticket",
        "not options",
        "not options.keys() - {'ticket'}",
        "ticketed",
    ),
    (
        "the short way for single integers forgets the ticket",
        "short-way-for-single-integers-forgets-ticket",
        "not options",
        "not options.keys() - {'ticket'}",
        "ticketed",
    ),
    (
        "randomized response forgets the ticket",
        "randomized-response-forgets-ticket",
        "(self, source, ticket)",
        "(self, source, None)",
        "ticketed",
    ),
    (
        "a sparse vector run forgets the ticket",
        "sparse-vector-run-forgets-ticket",
        "source_of(self, drawn_from, ticket)",
        "drawn_from",
        "ticketed",
    ),
    (
        "half a ticket begins a mean",
        "half-ticket-begins-mean",
        "of_rows, source = spent.sources(*event.events, null_distance=None)\n"
        "        rows = counter.release(rows, source=of_rows",
        "(of_rows,) = spent.sources(counter.event, null_distance=None)\n"
        "        rows = counter.release(rows, source=of_rows)\n"
        "        (source,) = spent.sources(mechanism.event, null_distance=None",
        "ticketed",
    ),
    (
        "a statistic does not ask which neighbors the ticket is about",
        "statistic-does-not-ask-which-neighbors",
        "not self.relation",
        "None",
        "ticketed",
    ),
    (
        "a replay does not look at inputs",
        "replay-does-not-look-at-inputs",
        "not now.is_within(then)",
        "now is then",
        "replay",
    ),
    (
        "distances are taken for the smallest of their steps",
        "distances-taken-for-smallest-of-steps",
        "max(steps, default=Fraction(0))",
        "min(steps, default=Fraction(0))",
        "replay",
    ),
    (
        "a replay may leave releases out",
        "replay-may-leave-releases-out",
        "replayer.finish()",
        "",
        "replay",
    ),
    (
        "a sum reports its sensitivity in steps of its grid",
        "sum-reports-sensitivity-in-steps-of-grid",
        "unit=total.granularity,",
        "",
        "replay",
    ),
    (
        "a replay answers with noise of its own",
        "replay-answers-with-noise-of-own",
        "int(seen)",
        "int(chosen)",
        "replay",
    ),
]
