"""``python -m ripieno``: the command line, for where the script is not in PATH.

Nothing is imported from the current folder, which Python puts first: a project's files there could pass for packages.
Before this runs, Python has imported ``ripieno`` itself and the modules that it imports at once, so those are few.
"""

import sys

if not sys.flags.safe_path:
    del sys.path[0]

from ripieno.cli import main

if __name__ == "__main__":
    sys.exit(main())
