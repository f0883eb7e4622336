"""The page of ``ripieno serve web`` over scripted models, on a real port of this process."""

import contextlib
import dataclasses
import pathlib
import socket
from collections.abc import AsyncGenerator
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from ripieno.ensembles import Definition
from ripieno.models import Model
from ripieno.servers.chat.chat import Chat
from ripieno.servers.http.server import serve
from ripieno.servers.web.application import create_application
from ripieno.servers.web.sessions import Sessions
from tests.support.chats import assembled

#: Bytes that a browser receives at most to open a conversation and chat, compressed and without headers.
FIRST = 40 * 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServedPage:
    """A page that is served. ``url`` ends in a slash; ``refused`` has one item for each invalid code."""

    url: str
    chat: Chat
    sessions: Sessions
    refused: list[None]

    def link(self, owner: str = "") -> str:
        """A link that signs in one browser, once, as an owner."""
        return f"{self.url}#code={self.sessions.make_code(owner)}"

    @property
    def port(self) -> int:
        """The port, for a server that is started again."""
        return int(self.url.split("/")[2].rpartition(":")[2])

    def headers(self, owner: str = "") -> dict[str, str]:
        """The headers of a program that has signed in."""
        return {"authorization": f"Bearer {self.sessions.exchange(self.sessions.make_code(owner))}"}


@contextlib.asynccontextmanager
async def serving_page(
    folder: pathlib.Path,
    model: Model,
    *definitions: Definition,
    port: int = 0,
    listener: socket.socket | None = None,
    path: str = "/",
    clock: Any = None,
    **settings: Any,
) -> AsyncGenerator[ServedPage, None]:
    """Serves the page for the duration of the block, beneath ``path``, which ends in a slash.

    Conversations are in ``folder``: served again with the same folder and port, it has them still. A ``listener``
    of ``bind`` keeps a port meanwhile. ``settings`` are those of ``create_application``.
    """
    async with assembled(folder, model, *definitions) as assembly, Chat(assembly) as chat:
        sessions = Sessions() if clock is None else Sessions(clock=clock)
        refused: list[None] = []
        application: ASGIApp = create_application(
            assembly, chat, sessions, refused=lambda: refused.append(None), **settings
        )
        if path != "/":
            application = Starlette(routes=[Mount(path.rstrip("/"), application)])
        async with serve(application, port=port, listener=listener) as url:
            yield ServedPage(url=f"{url}{path}", chat=chat, sessions=sessions, refused=refused)
