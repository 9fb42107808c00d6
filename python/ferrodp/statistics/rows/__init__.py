"""What the rows of a column are: whose they are, and times as numbers."""
