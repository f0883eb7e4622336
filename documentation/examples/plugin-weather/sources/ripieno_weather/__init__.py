"""A plugin: where its TOML is, its origins, transport and command. The tools are imported at their first call."""

import pathlib
from collections.abc import Mapping, Sequence

from ripieno.plugin import hookimpl


@hookimpl
def ripieno_data() -> Sequence[pathlib.Path]:
    """The folder with ``ensembles/``."""
    return (pathlib.Path(__file__).parent / "data",)


@hookimpl
def ripieno_origins() -> Mapping[str, str]:
    """The values of ``origin = "…"`` that it adds."""
    return {"weather-station": "ripieno_weather.station:ORIGIN", "weather-buoy": "ripieno_weather.buoy:ORIGIN"}


@hookimpl
def ripieno_transports() -> Mapping[str, str]:
    """The values of ``transport = "…"`` of MCP servers that it adds."""
    return {"unix-socket": "ripieno_weather.unix_socket:TRANSPORT"}


@hookimpl
def ripieno_commands() -> Mapping[str, str]:
    """The commands that it adds, as ``ripieno forecast``."""
    return {"forecast": "ripieno_weather.commands:forecast"}
