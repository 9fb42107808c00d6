"""Its place puts this folder on the path, so that tests in subfolders find `reference` too."""
