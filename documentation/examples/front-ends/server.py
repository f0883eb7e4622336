"""One chat with an interface for each front end, and beside them the pages that use these.

Run it with: python server.py settings.toml pages 8080
"""

import contextlib
import os
import pathlib
import sys
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

import ripieno
from ripieno.assembly.protection import secrets_among
from ripieno.servers.chat.ag_ui.application import create_application as create_ag_ui
from ripieno.servers.chat.ai_sdk.application import create_application as create_ai_sdk
from ripieno.servers.chat.application import create_application as create_native
from ripieno.servers.chat.chat import Chat
from ripieno.storage.journal import Journal

SETTINGS, PAGES, PORT = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])


async def user_of(_: Request) -> str:
    """The owner of all that a request asks for. Here, all who reach this port are Ada: put your sign-in here."""
    return "ada"


@contextlib.asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    """Connects the tools, and stops all runs at the end."""
    async with assembly, chat:
        yield


journal = Journal(pathlib.Path("journal.sqlite3").absolute(), secrets=secrets_among(os.environ))
assembly = ripieno.assemble(SETTINGS, workspace=pathlib.Path.cwd(), recorder=journal)
chat = Chat(assembly)
routes = [
    Mount("/api", create_ai_sdk(chat, authenticate=user_of, version=6)),
    Mount("/agui", create_ag_ui(chat, authenticate=user_of)),
    Mount("/native", create_native(chat, authenticate=user_of)),
    Mount("/", StaticFiles(directory=PAGES, html=True)),
]
uvicorn.run(Starlette(routes=routes, lifespan=lifespan), port=PORT)
