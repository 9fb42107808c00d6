"""What a change of a ledger does: scopes, their nesting and freezes, prices and charges, and the way to the store."""
