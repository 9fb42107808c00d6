"""`python -m ferrodp`: the command line."""

import sys

from ferrodp.cli import main

sys.exit(main())
