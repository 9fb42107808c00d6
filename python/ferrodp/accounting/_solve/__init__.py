"""Which method answers which question, and the specifications that the native code works on."""
