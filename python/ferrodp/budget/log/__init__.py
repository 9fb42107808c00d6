"""The log of a ledger: records, their verification, and copies of it."""
