"""Chats over scripted models, with their journals."""

import contextlib
import json
import pathlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from ripieno.assembly import Assembly, assemble
from ripieno.ensembles import Context, Definition, Ensemble
from ripieno.jsonvalues import EMPTY
from ripieno.models import Model
from ripieno.servers.chat.chat import Chat
from ripieno.servers.chat.ring import EventsLost
from ripieno.storage.journal import Journal
from tests.support.chat_schemas import check_event
from tests.support.scripted_models import invoke, invokes, says, scripted, tool


@contextlib.asynccontextmanager
async def assembled(
    folder: pathlib.Path,
    model: Model,
    *definitions: Definition,
    configuration: Mapping[str, Any] = EMPTY,
    place: pathlib.Path | str | None = None,
) -> AsyncGenerator[Assembly, None]:
    """An assembly whose runs have this model and these tools. Its journal is at a place, or in the folder ``state``."""
    state, workspace = folder / "state", folder / "workspace"
    workspace.mkdir(exist_ok=True)
    tools = (Ensemble.of("mine", definitions),)
    with Journal(place or state / "journal.sqlite3") as journal:
        async with assemble({"ensembles": [], **configuration}, workspace=workspace, recorder=journal) as assembly:
            # Descriptors have neither scripted models nor tools that a test controls.
            assembly.ensembles = tools
            setattr(assembly, "_named", lambda *_: model)  # noqa: B010
            yield assembly


@contextlib.asynccontextmanager
async def chatting(
    folder: pathlib.Path,
    model: Model,
    *definitions: Definition,
    configuration: Mapping[str, Any] = EMPTY,
    place: pathlib.Path | str | None = None,
    **settings: Any,
) -> AsyncGenerator[Chat, None]:
    """A chat over such an assembly."""
    async with (
        assembled(folder, model, *definitions, configuration=configuration, place=place) as assembly,
        Chat(assembly, **settings) as chat,
    ):
        yield chat


class Written:
    """A tool of effect ``write`` that notes its texts."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def __call__(self, context: Context, arguments: dict[str, Any]) -> str:
        self.texts.append(arguments["text"])
        return "written"

    @property
    def definition(self) -> Definition:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        return tool("write", self, schema=schema, effect="write")


def writing(*identifiers: str) -> Model:
    """A model that wants to write once for each identifier, and then says that it is done."""
    return scripted(invokes(*(invoke("write", one, text=one) for one in identifiers)), says("Done."))


class Reader:
    """Follows a conversation from a position, as a page does. ``taken`` has its events, which fit their schemas."""

    def __init__(self, chat: Chat, owner: str, identifier: str, position: str | None = None) -> None:
        self._chat = chat
        self._of = (owner, identifier)
        self.position = position
        self.taken: list[Any] = []
        self.lost = 0

    async def until(self, kind: str, count: int = 1) -> Any:
        """Reads until it has another ``count`` events of a kind, and returns the last of them."""
        wanted = sum(type(one).__name__ == kind for one in self.taken) + count
        async with contextlib.aclosing(await self._chat.read(*self._of, self.position)) as batches:
            async for batch in batches:
                for entry in batch:
                    check_event(json.loads(entry.data))
                    self.position = entry.position
                    self.taken.append(entry.event)
                    wanted_now = type(entry.event).__name__ == kind
                    if wanted_now and sum(type(one).__name__ == kind for one in self.taken) >= wanted:
                        return entry.event
        raise EventsLost

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds of the events."""
        return [type(one).__name__ for one in self.taken]
