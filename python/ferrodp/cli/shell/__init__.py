"""Commands about the command line itself: completion of words in shells, the schema of JSON output."""
