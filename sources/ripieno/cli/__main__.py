"""``python -m ripieno.cli``: the same as ``python -m ripieno``."""

import sys

from ripieno.cli import main

if __name__ == "__main__":
    sys.exit(main())
