"""A chat for the customers of a shop: its own users and tools, and a front end with ``useChat``.

Run it with: python application.py settings.toml data 8080
"""

import contextlib
import hashlib
import hmac
import os
import pathlib
import sys
from collections.abc import AsyncIterator
from typing import Annotated

import uvicorn
from fastapi import Body, FastAPI, HTTPException, Request
from fastapi.staticfiles import StaticFiles
from starlette.middleware.sessions import SessionMiddleware

import ripieno
from ripieno.assembly.protection import secrets_among
from ripieno.servers.chat.ai_sdk.application import create_application
from ripieno.servers.chat.chat import Chat
from ripieno.storage.journal import Journal

SETTINGS, DATA, PORT = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
PAGE = pathlib.Path(__file__).parent / "page" / "built"
# Users and their passwords; a real application has them in its database.
SALT = b"a salt of this shop"
USERS = {name: hashlib.scrypt(f"{name}'s password".encode(), salt=SALT, n=2**14, r=8, p=1) for name in ("ada", "bob")}


async def user_of(request: Request) -> str | None:
    """The owner of all that a request asks for. A request without one is refused."""
    return request.session.get("user")


@contextlib.asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Connects the tools, and stops all runs at the end."""
    async with assembly, chat:
        yield


DATA.mkdir(parents=True, exist_ok=True)
journal = Journal(DATA / "journal.sqlite3", secrets=secrets_among(os.environ))
assembly = ripieno.assemble(SETTINGS, workspace=DATA, recorder=journal)
chat = Chat(assembly)
app = FastAPI(lifespan=lifespan)
app.add_middleware(SessionMiddleware, secret_key=os.environ["SHOP_SECRET"], same_site="strict")


@app.post("/sign-in")
def sign_in(request: Request, user: Annotated[str, Body()], password: Annotated[str, Body()]) -> dict[str, str]:
    """Starts a session."""
    given = hashlib.scrypt(password.encode(), salt=SALT, n=2**14, r=8, p=1)
    if not hmac.compare_digest(given, USERS.get(user, b"")):
        raise HTTPException(401, "Wrong user or password.")
    request.session["user"] = user
    return {"user": user}


app.mount("/api", create_application(chat, authenticate=user_of, version=7))
if PAGE.is_dir():
    app.mount("/", StaticFiles(directory=PAGE, html=True))

uvicorn.run(app, port=PORT)
