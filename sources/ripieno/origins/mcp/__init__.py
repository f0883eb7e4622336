"""Invokers that a server of the Model Context Protocol offers: a process of its own, or somewhere behind a URL.

A command runs as it is written, without a shell and without templates; ``./name`` is a file beneath the
descriptor's folder. One exception: ``python``, where ``PATH`` has none, is the Python that runs this program. The
server gets PATH, LANG, TZ, TMPDIR, HOME and what ``environment`` says, nothing else of ours.

Only the rooms of this package know the SDK, and it is imported when the first server connects, while that starts.
"""

import asyncio
import contextlib
import importlib
import shutil
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor, Path, Problems, Source
from ripieno.ensembles import Connected, Surroundings
from ripieno.exceptions import ConfigurationInvalidity, ConnectionFailure, Problem, ToolFault
from ripieno.origins.mcp.cleaning import clean
from ripieno.origins.mcp.peers import Peer
from ripieno.origins.mcp.servers import Server, run_server
from ripieno.origins.mcp.settings import ServerSettings, read_connection
from ripieno.origins.settings import check_connection, check_invocables, locate_program, require_variables
from ripieno.owning import reason
from ripieno.processes import clean_environment
from ripieno.threads import run_in_thread

#: The room that imports the SDK.
_SESSIONS = "ripieno.origins.mcp.sessions"

#: Characters that are shown of what a server said, or of what was wrong with it.
_SHOWN = 500


def _refuse_invocable(_: EnsembleDescriptor, invoker: InvokerDescriptor, path: Path, problems: Problems) -> None:
    hint = f"The server defines its tools: delete this one, and say what you know better in [overrides.{invoker.name}]."
    problems.add((*path, "origin"), "an invoker cannot be declared for the origin mcp", hint)


class McpOrigin:
    """``origin = "mcp"``."""

    name = "mcp"

    def check(self, descriptor: EnsembleDescriptor) -> Sequence[Problem]:
        return (
            *check_connection(self.name, descriptor, read_connection),
            *check_invocables(self.name, descriptor, _refuse_invocable),
        )

    @contextlib.asynccontextmanager
    async def open(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> AsyncGenerator[Connected, None]:
        problems = self.check(descriptor)
        settings = read_connection(descriptor, Problems(Source()))
        if settings is None or problems:
            raise ConfigurationInvalidity(problems)
        async with _reach(settings, descriptor, surroundings) as peer, contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(settings.timeout):
                    if not hasattr(sys.modules.get(_SESSIONS), "open_session"):
                        # In a thread, while the server starts: it takes most of a second.
                        await run_in_thread(importlib.import_module, _SESSIONS, patient=False, name="import of mcp")
                    from ripieno.origins.mcp.sessions import open_session

                    connected = await stack.enter_async_context(open_session(peer, descriptor, surroundings.alert))
            except Exception as error:
                raise ConnectionFailure(descriptor.name, await _explain(peer, error, settings)) from error
            async with _kept(peer):
                yield connected


def _reach(
    settings: ServerSettings, descriptor: EnsembleDescriptor, surroundings: Surroundings
) -> AbstractAsyncContextManager[Peer]:
    """The other side, as far as it can be there before it is talked to."""
    variables = settings.headers if settings.command is None else settings.environment
    secrets = [] if settings.oauth is None else [settings.oauth.client_secret]
    require_variables(descriptor.name, (*variables.values(), *secrets), surroundings.secrets)
    values = {name: template.text({}, surroundings.secrets) for name, template in variables.items()}
    if settings.command is None:
        from ripieno.origins.mcp.remotes import reach

        secret = secrets[0].text({}, surroundings.secrets) if secrets else ""
        return reach(settings, values, secret, ensemble=descriptor.name)
    return _start(settings.command, settings.directory, values, descriptor, surroundings)


@contextlib.asynccontextmanager
async def _start(
    command: Sequence[str],
    directory: str,
    variables: Mapping[str, str],
    descriptor: EnsembleDescriptor,
    surroundings: Surroundings,
) -> AsyncGenerator[Server, None]:
    environment = clean_environment(variables)
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
    # What pydantic says goes over lines, the last of which is an address.
    what = " ".join(clean(reason(error))[0].partition("\n    For further information")[0].split())
    return await peer.explain(None if peer.ended.is_set() else f"could not be understood: {what[:_SHOWN]}")


@contextlib.asynccontextmanager
async def _kept(peer: Peer) -> AsyncGenerator[None, None]:
    """As long as the server is there. When it is lost, whoever waits inside is cancelled, and the failure is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(peer.lost())
            try:
                yield
            finally:
                watcher.cancel()
                # From here on, calls are told that the connection is gone.
                peer.ended.set()
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


ORIGIN = McpOrigin()
