"""What all tests share. Its place puts this folder on the path, so that tests in subfolders find `reference` too."""

from hypothesis import settings

# The same examples on every run: a test passes or fails for ever. `--hypothesis-profile=default` explores further.
settings.register_profile("same examples", derandomize=True, deadline=None, database=None)
settings.load_profile("same examples")
