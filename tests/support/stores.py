"""Gateways that store responses, and the state that is behind them."""

import contextlib
import dataclasses
import pathlib
import threading
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import Any

import openai
import pytest
from frozendict import frozendict

from ripieno.canisters import AssistantCanister, UserCanister
from ripieno.canisters.contents import text_of
from ripieno.canisters.events import Event
from ripieno.descriptors.gateway import StoreDescriptor
from ripieno.models.protocol import Asked
from ripieno.servers.gateway.stored.library import database_of
from ripieno.servers.http.keys import digest_of
from ripieno.storage.databases.contract import Database
from tests.support.gateways import KINDS, MODEL, Backend, Front, before, fronting, says

KEYS = {"ada": "key-of-ada-1234567890", "eve": "key-of-eve-1234567890"}
SECRET = "a secret of sixteen bytes or more"
CHAT = KINDS["openai-chat"]
TABLES = ("responses", "response_events", "response_conversations", "conversation_items", "caller_keys")


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def count_messages(asked: Asked) -> list[Event]:
    """Tells which messages of the user it was sent."""
    said = [text_of(one.content) for one in asked.canisters if isinstance(one, UserCanister)]
    return says(CHAT, [AssistantCanister.of(f"I read {' '.join(said)}")])


@dataclasses.dataclass(frozen=True, slots=True)
class Storing:
    """A gateway that stores, its backend, its clock, and its state folder."""

    front: Front
    backend: Backend
    clock: Clock
    state: pathlib.Path
    database: Database

    @contextlib.asynccontextmanager
    async def client(self, caller: str = "ada", **settings: Any) -> AsyncGenerator[openai.AsyncOpenAI, None]:
        """The official client, with the key of a caller."""
        async with self.front.openai(api_key=KEYS[caller], **settings) as client:
            yield client

    def rows(self) -> dict[str, int]:
        """The number of rows of each table."""
        with self.database.using("read") as connection:
            return {
                table: int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for table in TABLES[:-1]
            }

    def files(self) -> dict[str, bytes]:
        """The files of the state folder, with their content."""
        return {path.name: path.read_bytes() for path in sorted(self.state.iterdir()) if path.is_file()}

    def settled_files(self) -> dict[str, bytes]:
        """The files, after what was written before has reached them."""
        self.database.clean()
        return self.files()

    @contextlib.contextmanager
    def watched(self) -> Generator[list[str], None, None]:
        """The statements of all connections to the database that have begun in the block, in order."""
        found: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            database = type(self.database)
            original = database.using

            @contextlib.contextmanager
            def using(one: Any, action: str) -> Generator[Any, None, None]:
                with original(one, action) as connection:
                    yield _Watched(connection, found)

            patch.setattr(database, "using", using)
            yield found

    @contextlib.contextmanager
    def waits(self) -> Generator[list[str], None, None]:
        """The uses, by the thread of this block, of a database beyond a network."""
        found: list[str] = []
        here = threading.current_thread()
        with pytest.MonkeyPatch.context() as patch:
            for name in ("using", "writing", "snapshot", "claimed") if self.database.remote else ():
                original = getattr(type(self.database), name)

                def used(one: Any, *given: Any, original: Any = original, name: str = name, **more: Any) -> Any:
                    if threading.current_thread() is here:
                        found.append(name)
                    return original(one, *given, **more)

                patch.setattr(type(self.database), name, used)
            yield found


class _Watched:
    """A connection whose statements are noted."""

    def __init__(self, connection: Any, found: list[str]) -> None:
        self._connection = connection
        self._found = found

    def execute(self, query: str, parameters: Sequence[Any] = (), /) -> Any:
        self._found.append(query)
        return self._connection.execute(query, parameters)


def files_of(folder: pathlib.Path) -> bytes:
    """All bytes of the files in a folder."""
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file())


@contextlib.asynccontextmanager
async def storing(
    folder: pathlib.Path,
    what: Any = count_messages,
    *,
    store: StoreDescriptor | None = None,
    place: pathlib.Path | str | None = None,
    clock: Clock | None = None,
    renamed: Mapping[str, str] = KEYS,
    without: bool = False,
    map_only: str = "",
    url: str = "",
    **settings: Any,
) -> AsyncGenerator[Storing, None]:
    """A gateway that stores, in front of a backend. ``place`` is the address of its database, if it is not a file.

    ``renamed`` are other keys of callers. ``without``: nothing is stored after all. ``map_only`` is the only name of a
    model. ``url`` is that of another backend.
    """
    named = frozendict({name: digest_of(key) for name, key in renamed.items()})
    moved = clock or Clock()
    given: dict[str, Any] = {"keys": named, "secret": SECRET, "store": store or StoreDescriptor(), **settings}
    if without:
        given["store"] = None
    if isinstance(place, str):
        given["journal"] = place
    if map_only:
        given["map"] = frozendict({map_only: f"back/{MODEL}"})
    async with contextlib.AsyncExitStack() as stack:
        if url:
            backend = Backend(url, CHAT)
            front = await stack.enter_async_context(fronting(folder, CHAT, url, clock=moved, **given))
        else:
            front, backend = await stack.enter_async_context(before(folder, CHAT, what, clock=moved, **given))
        database = database_of(front.assembly)
        stack.callback(database.close)
        yield Storing(front, backend, moved, folder / "state", database)
