"""What sampling, grouping and selecting do to the cost of a release."""
