"""``origin = "weather-station"``: tools that are the gauges of a station, read by a driver that is a program."""

import contextlib
import os
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ripieno.plugin import (
    Connected,
    Context,
    EnsembleDescriptor,
    InvokerDescriptor,
    Key,
    NeededProgram,
    Origin,
    Problem,
    ProcessLimits,
    ResourceFault,
    Several,
    Surroundings,
    Table,
    Template,
    TemplateText,
    Text,
)

CONNECTION = Table(
    title="[connection]",
    documentation="A weather station.",
    keys=(
        Key(
            name="driver",
            kind=Several(item=Text(), items="strings: a program and its arguments"),
            documentation="What reads a gauge; the name of the gauge is added to its arguments.",
            required=True,
            example=["read-gauge", "--port", "/dev/ttyUSB0"],
        ),
        Key(
            name="password",
            kind=TemplateText(variables=True),
            documentation="What the station asks for; the driver gets it as the variable PASSWORD.",
            example="{env:STATION_PASSWORD}",
        ),
    ),
)
GAUGE = Table(
    title="[invocable]",
    documentation="A gauge of the station.",
    keys=(
        Key(
            name="gauge",
            kind=Text(choices=("rain", "temperature", "wind")),
            documentation="Which one.",
            required=True,
            example="rain",
        ),
    ),
)


class StationOrigin(Origin):
    """Descriptors are checked against ``tables``, and editors know their keys from ``ripieno schema``."""

    name = "weather-station"
    tables = MappingProxyType({"connection": CONNECTION, "invocable": GAUGE})

    def check(self, descriptor: EnsembleDescriptor) -> Sequence[Problem]:
        """Says what tables cannot say; here nothing."""
        del descriptor
        return ()

    def programs(self, descriptor: EnsembleDescriptor) -> Iterator[NeededProgram]:
        """The driver: ``ripieno check`` looks for it, and ``ripieno lock`` pins it."""
        if descriptor.connection is not None and descriptor.connection.origin == self.name:
            yield NeededProgram(
                argv=tuple(descriptor.connection.settings["driver"]), key=("driver", 0), environment=("PASSWORD",)
            )

    @contextlib.asynccontextmanager
    async def open(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> AsyncGenerator[Connected, None]:
        """Connects. A station that keeps a connection opens it here and closes it after the ``yield``."""
        settings: Mapping[str, Any] = {} if descriptor.connection is None else descriptor.connection.settings
        password = Template.parse(settings.get("password", ""), variables=True).text({}, surroundings.secrets)

        def bind(invoker: InvokerDescriptor) -> Any:
            argv = [*settings["driver"], invoker.invocable.settings["gauge"]]

            async def read(_: Context, __: dict[str, Any]) -> str:
                environment = {"PATH": os.environ.get("PATH", os.defpath), "PASSWORD": password}
                started = await surroundings.spawner.start(argv, environment, surroundings.workspace, ProcessLimits())
                async with started as process:
                    text = b""
                    while part := await process.stdout.read():
                        text += part
                    if await process.wait():
                        raise ResourceFault("The gauge could not be read.")
                return text.decode()

            return read

        yield Connected(bind=bind)


ORIGIN = StationOrigin()
