"""`ferrodp demo`: private trainings on real images, with or without a ledger."""
