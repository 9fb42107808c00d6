"""Let the tests here import `reference`, as those one folder up do."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
