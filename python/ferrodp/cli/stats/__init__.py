"""`ferrodp stats`: what is asked of a table, the table in its file, the command."""
