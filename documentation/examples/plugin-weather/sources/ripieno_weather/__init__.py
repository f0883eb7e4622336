"""A plugin: where its TOML is. The tools themselves are imported at their first call."""

import pathlib
from collections.abc import Sequence

from ripieno.plugin import hookimpl


@hookimpl
def ripieno_data() -> Sequence[pathlib.Path]:
    """The folder with ``ensembles/``."""
    return (pathlib.Path(__file__).parent / "data",)
