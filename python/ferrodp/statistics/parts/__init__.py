"""Tables in parts: the exact integers of each part, which add up to those of the whole table."""
