"""The command line, ``ripieno COMMAND``. Each command imports what it needs when it runs."""

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code (``cli/common/exit_codes.py``). Default arguments: ``sys.argv``."""
    from ripieno.cli.common.main import launch

    return launch(arguments)
