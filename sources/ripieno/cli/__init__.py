"""The command line: ``ripieno COMMAND``. Whatever a command needs is imported when that command runs."""

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code (``ripieno.cli.common.options``). Reads ``sys.argv`` by default."""
    from ripieno.cli.common.main import launch

    return launch(arguments)
