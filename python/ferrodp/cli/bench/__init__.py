"""`ferrodp bench`: what it measures, with whom it compares, and how."""
