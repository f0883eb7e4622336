"""The option that names a wire format."""

from collections.abc import Callable

import click

from ripieno.assembly.builtins import ripieno_protocols
from ripieno.cli.common.options import Command


def protocols(text: str, *, default: str | None = None) -> Callable[[Command], Command]:
    """Adds ``--protocol``. Its help lists the bundled wire formats; plugins may add others."""
    text = f"{text} Bundled: {', '.join(sorted(ripieno_protocols()))}."
    return click.option("--protocol", metavar="P", default=default, show_default=default is not None, help=text)
