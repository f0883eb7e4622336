"""``python -m ripieno``: the command line, for where the script is not in PATH."""

import sys

from ripieno.cli import main

if __name__ == "__main__":
    sys.exit(main())
