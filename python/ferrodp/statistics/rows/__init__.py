"""What stands in rows that is no plain number: times, bins of a calendar; and tables of what was released."""
