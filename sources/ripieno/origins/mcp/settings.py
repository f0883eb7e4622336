"""The keys of ``[connection]`` for a server of the Model Context Protocol."""

import dataclasses
import re
from typing import Any

from frozendict import frozendict

from ripieno.descriptors import EnsembleDescriptor, Path, Problems
from ripieno.descriptors.keys import Key, Table
from ripieno.descriptors.kinds import INVALID, Named, Number, Several, Text, refuse
from ripieno.origins.settings import VARIABLE_NAME, TemplateText, check_program
from ripieno.owning import OPEN_DEADLINE
from ripieno.templates import Template

#: An ensemble has ``OPEN_DEADLINE`` to connect; what remains is for ending a server that was too slow.
_LONGEST = OPEN_DEADLINE - 2
_SEED_FORM = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)\Z")


class Variable:
    """The value of a variable: a template without arguments, or the seed's form ``env:NAME``."""

    expected = "a string, with {env:NAME} where a variable goes"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not isinstance(value, str):
            return refuse(self, value, path, problems)
        match = _SEED_FORM.match(value)
        template = TemplateText(variables=True).read(f"{{env:{match[1]}}}" if match else value, path, problems)
        if isinstance(template, Template) and template.placeholders:
            message = f"{{{template.placeholders[0]}}} is the place of an argument, and a server has none"
            problems.add(path, message, 'Variables are "{env:NAME}"; write "{{" for a brace that is text.')
            return INVALID
        return template

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}


CONNECTION = Table(
    title="[connection]",
    documentation="A server of the Model Context Protocol.",
    keys=(
        Key(
            name="transport",
            kind=Text(choices=("stdio",)),
            documentation="How it is talked to.",
            default="stdio",
            example="stdio",
        ),
        Key(
            name="command",
            kind=Several(item=Text(blank=True), items="strings: a program and its arguments"),
            documentation="What starts it, as it is; no shell, no templates.",
            required=True,
            example=["python", "-m", "mcp_server_time"],
        ),
        Key(
            name="environment",
            kind=Named(name=VARIABLE_NAME, kind=Variable(), expected="a table of variables"),
            documentation="Variables that it gets beside PATH, LANG, TZ, TMPDIR and HOME.",
            example={"TOKEN": "{env:TIME_TOKEN}"},
        ),
        Key(
            name="directory",
            kind=Text(pattern=r"[^\x00-\x1f]+", shape="a path of a folder"),
            documentation="The folder that it runs in; a relative one begins at the workspace, which is the default.",
            example="/srv/server",
        ),
        Key(
            name="timeout",
            kind=Number(above=0, maximum=_LONGEST, unit="seconds"),
            documentation="Seconds in which it must have started and told its tools.",
            default=25,
            example=10,
        ),
    ),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings of one server."""

    command: tuple[str, ...]
    transport: str = "stdio"
    environment: frozendict[str, Template] = frozendict()  # noqa: RUF009
    directory: str = "."
    timeout: float = 25.0


def read_connection(descriptor: EnsembleDescriptor, problems: Problems) -> ServerSettings | None:
    """The settings of ``[connection]``, or None after what is wrong was added."""
    if descriptor.connection is None:
        return None
    before = len(problems)
    settings = CONNECTION.read(descriptor.connection.settings, ("connection",), problems)
    if settings is INVALID:
        return None
    command, at = settings["command"], ("connection", "command")
    if not command or not command[0].strip():
        problems.add(at, "command must name a program", 'For instance: command = ["python", "-m", "mcp_server_time"]')
    else:
        check_program(command[0], descriptor, (*at, 0), problems)
    if any("\0" in one for one in command):
        problems.add(at, "an argument of a program cannot hold NUL")
    return ServerSettings(**settings) if len(problems) == before else None
