"""Bundled invocables, and the data that declares them: ensembles, providers, profiles."""

import pathlib
from collections.abc import Sequence

from ripieno.plugin import hookimpl

DATA = pathlib.Path(__file__).parent.parent / "data"


@hookimpl
def ripieno_data() -> Sequence[pathlib.Path]:
    """The data that comes with the package."""
    return (DATA,)
