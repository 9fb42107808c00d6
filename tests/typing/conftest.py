"""The reader of code blocks, which lies beside the pages of the documentation."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "_ext"))
