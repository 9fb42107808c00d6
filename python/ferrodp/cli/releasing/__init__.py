"""`ferrodp release`: its input files, its payment from a ledger, the command."""
