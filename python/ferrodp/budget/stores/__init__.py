"""Where a ledger's rows and records are kept."""
