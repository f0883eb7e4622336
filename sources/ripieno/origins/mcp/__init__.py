"""The origin ``mcp``: invokers that an MCP server offers, as a process or behind a URL.

A command runs as written, without a shell and without templates; ``./name`` is a file beneath the descriptor's folder.
One exception: ``python``, if missing in ``PATH``, is the Python that runs this program. The server gets PATH, LANG, TZ,
TMPDIR, HOME and the variables of ``environment``, and no others of ours.

Only modules of this package import the SDK, and only when the first server connects, while that starts.
"""

import asyncio
import contextlib
import dataclasses
import functools
import shutil
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from types import MappingProxyType

from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.reader.problems import Problems, Source
from ripieno.ensembles import Connected, Origin, Surroundings
from ripieno.ensembles.origin import McpTransport, NeededProgram, check_origin, while_connected
from ripieno.ensembles.owner import reason
from ripieno.exceptions import ConfigurationInvalidity, ConnectionFailure, InputError, Problem, ToolFault
from ripieno.jsonvalues import EMPTY
from ripieno.origins.mcp.oauth.person import Person
from ripieno.origins.mcp.oauth.tokens import TokenStore
from ripieno.origins.mcp.peers import Peer
from ripieno.origins.mcp.sdk import import_sdk
from ripieno.origins.mcp.settings import ServerSettings, connection_table, filled, read_connection, templates_in
from ripieno.origins.mcp.text import clean
from ripieno.origins.mcp.transports.plugged import Plugged
from ripieno.origins.mcp.transports.stdio import Server, run_server
from ripieno.origins.settings import check_connection, locate_program, require_variables
from ripieno.sandbox.processes import clean_environment

#: Characters shown of a server's message or defect.
_SHOWN = 500


class McpOrigin(Origin):
    """``origin = "mcp"``."""

    name = "mcp"

    def __init__(self, transports: Mapping[str, McpTransport] = EMPTY) -> None:
        self._transports = transports
        self._read = functools.partial(read_connection, transports=transports)
        self.tables = MappingProxyType({"connection": connection_table(transports)})

    def with_transports(self, transports: Mapping[str, McpTransport]) -> "McpOrigin":
        """The origin with these transports of plugins, by name. Errors: ``PluginFailure`` for a name that is taken."""
        return McpOrigin(transports)

    def check(self, descriptor: EnsembleDescriptor) -> Sequence[Problem]:
        return check_connection(self.name, descriptor, self._read)

    def programs(self, descriptor: EnsembleDescriptor) -> Iterator[NeededProgram]:
        for program in super().programs(descriptor):
            # Our own interpreter starts it if there is none of that name.
            yield dataclasses.replace(program, replaced=program.argv[0] == "python")

    @contextlib.asynccontextmanager
    async def open(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> AsyncGenerator[Connected, None]:
        problems = check_origin(self, descriptor)
        settings = self._read(descriptor, Problems(Source()))
        if settings is None or problems:
            raise ConfigurationInvalidity(problems)
        transport = self._transports.get(settings.transport)
        async with connect(settings, descriptor, surroundings, transport=transport) as connected:
            yield connected


@contextlib.asynccontextmanager
async def connect(
    settings: ServerSettings,
    descriptor: EnsembleDescriptor,
    surroundings: Surroundings,
    person: Person | None = None,
    transport: McpTransport | None = None,
) -> AsyncGenerator[Connected, None]:
    """The connection to a server with these settings. A ``person`` signs in first, without a time limit.

    ``transport`` is that of a plugin, if the settings name one.

    Errors: ``ConnectionFailure``; with a person also ``SignInRefused``.
    """
    reaching = (
        _reach(settings, descriptor, surroundings, person)
        if transport is None
        else _plug(transport, settings, descriptor, surroundings)
    )
    async with reaching as peer, contextlib.AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(settings.timeout if person is None else None):
                await import_sdk()  # While the server starts.
                from ripieno.origins.mcp.session import open_session

                session = open_session(peer, descriptor, surroundings.alert, surroundings.tap)
                connected = await stack.enter_async_context(session)
        except Exception as error:
            failure = await _explain(peer, error, settings)
            raise ConnectionFailure(descriptor.name, failure, hint=peer.advice) from error
        async with while_connected(peer.lost()):
            try:
                yield connected
            finally:
                # Later calls fail because the connection is gone.
                peer.ended.set()


@contextlib.asynccontextmanager
async def _reach(
    settings: ServerSettings, descriptor: EnsembleDescriptor, surroundings: Surroundings, person: Person | None
) -> AsyncGenerator[Peer, None]:
    """The server's side of the connection, before the session starts."""
    variables = settings.headers if settings.command is None else settings.environment
    secret = None if settings.oauth is None else settings.oauth.client_secret
    require_variables(descriptor.name, (*variables.values(), *([] if secret is None else [secret])), surroundings)
    values = {name: template.text({}, surroundings.secrets) for name, template in variables.items()}
    if settings.command is not None:
        async with _start(settings.command, settings.directory, values, descriptor, surroundings) as server:
            yield server
        return
    await import_sdk()
    from ripieno.origins.mcp.transports.http import reach

    text = "" if secret is None else secret.text({}, surroundings.secrets)
    store = TokenStore.of(surroundings)
    async with reach(settings, values, text, ensemble=descriptor.name, store=store, person=person) as remote:
        yield remote


@contextlib.asynccontextmanager
async def _plug(
    transport: McpTransport, settings: ServerSettings, descriptor: EnsembleDescriptor, surroundings: Surroundings
) -> AsyncGenerator[Peer, None]:
    """The server's side of a connection over a plugin's transport."""
    require_variables(descriptor.name, templates_in(settings.own), surroundings)
    own = filled(settings.own, surroundings.secrets)
    yield Plugged(descriptor.name, settings.transport, transport.open(own, surroundings))


@contextlib.asynccontextmanager
async def _start(
    command: Sequence[str],
    directory: str,
    variables: Mapping[str, str],
    descriptor: EnsembleDescriptor,
    surroundings: Surroundings,
) -> AsyncGenerator[Server, None]:
    environment = clean_environment(variables)
    try:
        surroundings.named.check(descriptor.name)
    except InputError as error:
        raise ConnectionFailure(descriptor.name, f"the MCP server was not started: {error}") from None
    program, *arguments = command
    if program == "python" and shutil.which(program, path=environment["PATH"]) is None:
        program = sys.executable
    argv = [locate_program(program, descriptor.folder), *arguments]
    running = run_server(
        surroundings.spawner,
        argv,
        environment,
        surroundings.workspace / directory,
        ensemble=descriptor.name,
        alert=surroundings.alert,
    )
    async with contextlib.AsyncExitStack() as stack:
        try:
            server = await stack.enter_async_context(running)
        except ToolFault as fault:
            failure = f"the MCP server could not be started: {fault.message}"
            raise ConnectionFailure(descriptor.name, failure, hint=fault.suggestion or "") from fault
        yield server


async def _explain(peer: Peer, error: Exception, settings: ServerSettings) -> str:
    if isinstance(error, TimeoutError):
        return await peer.explain(f"was not ready within {settings.timeout:g} s")
    # The last line of a pydantic message is an address.
    what = " ".join(clean(reason(error))[0].partition("\n    For further information")[0].split())
    return await peer.explain(None if peer.ended.is_set() else f"could not be understood: {what[:_SHOWN]}")


ORIGIN = McpOrigin()
