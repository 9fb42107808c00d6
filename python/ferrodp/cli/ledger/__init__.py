"""`ferrodp ledger`: one file per group of its actions."""
