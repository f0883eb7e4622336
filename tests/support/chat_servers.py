"""Servers of chats whose runs workers conduct: in this process, and as processes that can be killed."""

import asyncio
import contextlib
import os
import pathlib
import signal
from collections.abc import AsyncGenerator
from typing import Any

import ripieno
from ripieno.assembly import Assembly
from ripieno.servers.chat.application import create_application
from ripieno.servers.chat.chat import Chat
from ripieno.servers.http.server import serve
from tests.support.workers import Site, configuration, forking, take_environment


def assembly_of_server(site: Site) -> Assembly:
    """The assembly of a server, which is not entered yet. ``XDG_STATE_HOME`` has a SQLite journal."""
    journal: dict[str, Any] = {"enabled": True}
    if not isinstance(site.place, pathlib.Path):
        os.environ["JOURNAL_URL"] = site.place
        journal["url"] = "{env:JOURNAL_URL}"
    # Nothing is there: workers have the models.
    provider = {"protocol": "openai-chat", "base_url": "http://127.0.0.1:9/v1"}
    settings = {
        "journal": journal,
        "durable": {"servers": True, "host": site.host},
        "providers": {"house": provider},
    }
    return ripieno.assemble({**configuration(site.folder, approved=False), **settings}, workspace=site.folder)


@contextlib.asynccontextmanager
async def chat_server(site: Site, **settings: Any) -> AsyncGenerator[Chat, None]:
    """A server in this process, without HTTP."""
    async with assembly_of_server(site) as assembly, Chat(assembly, **settings) as chat:
        yield chat


class ChatProcess:
    """A server in a process of its own. Its owners are what requests have in the header ``owner``."""

    def __init__(self, site: Site) -> None:
        context = forking()
        ours, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_serve, args=(site, dict(os.environ), theirs), daemon=True)
        self.process.start()
        theirs.close()
        #: The address, when it listens.
        self.url: str = ours.recv()

    def kill(self) -> None:
        """Ends it at once."""
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(60)


def _serve(site: Site, environment: dict[str, str], ready: Any) -> None:
    take_environment(environment)

    async def main() -> None:
        async with chat_server(site) as chat:
            application = create_application(chat, authenticate=lambda request: request.headers.get("owner"))
            async with serve(application, host="127.0.0.1", port=0) as url:
                ready.send(url)
                await asyncio.Event().wait()

    asyncio.run(main())
