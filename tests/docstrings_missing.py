"""Public items whose docstring lacks a section, by room: see `test_docstrings`. The lists may only shrink."""

MISSING = {
    "_observer": {
        "Observation.is_within",
    },
    "budget": {
        "Head",
        "Head.parse",
        "Lease.close",
        "Lease.draw",
        "grant",
    },
    "engine": {
        "DifferentialPrivacyEngine.sample",
        "poisson_sample",
        "uniform_sample",
    },
    "testing": {
        "SeededNoiseSource",
        "record",
        "replay",
        "seeded",
    },
    "tickets": {
        "Ticket.arm",
        "Ticket.cancel",
        "Ticket.check_running",
        "Ticket.pays_for",
        "Ticket.permit",
        "Ticket.permits",
    },
}
