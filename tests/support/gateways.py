"""A gateway on loopback in front of a backend of any protocol, and its official clients.

A backend is a rehearsal of a score, a function from requests to events, or a server of exact bytes.
"""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from frozendict import frozendict
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ripieno.approvals import Confirmer
from ripieno.assembly import Assembly, assemble
from ripieno.canisters import AssistantCanister, Canister, InvocationCanister, OpaqueContent
from ripieno.canisters.events import Event, play
from ripieno.conducting import Watcher
from ripieno.descriptors import GatewayDescriptor
from ripieno.jsonvalues import freeze
from ripieno.models import Protocol
from ripieno.models.protocol import Asked
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from ripieno.models.protocols.prompted.reader import in_words, recover
from ripieno.servers.gateway.application import create_application
from ripieno.servers.http.connections import Bounds
from ripieno.servers.http.server import serve
from ripieno.storage.places import Places
from ripieno.testing.rehearsal.server import base_url
from ripieno.testing.rehearsal.server import create_application as rehearse
from ripieno.testing.scores import Score
from ripieno.testing.scores.turns import Turn
from tests.support.loopback_servers import serving

Speaker = Callable[[Asked], Iterable[Event]]

#: The capabilities of backends in tests.
_ABLE = {
    "json_mode": True,
    "strict": True,
    "allowed_tools": True,
    "images_in_results": True,
    "reasoning_replay": "always",
}
MODEL = "small"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of backend: its wire, and the table of its provider."""

    name: str
    protocol: Protocol
    provider: Mapping[str, Any]


KINDS = {
    protocol.name: Kind(
        name=protocol.name, protocol=protocol, provider={"protocol": protocol.name, "capabilities": _ABLE}
    )
    for protocol in (CHAT, RESPONSES, ANTHROPIC, GEMINI)
}
KINDS["prompted"] = Kind(
    name="prompted", protocol=CHAT, provider={"protocol": "prompted", "carrier": CHAT.name, "capabilities": _ABLE}
)
kinds = pytest.mark.parametrize("kind", list(KINDS.values()), ids=lambda kind: kind.name)


def ways(kind: "Kind") -> tuple[str, ...]:
    """The ways to ask a gateway: all in front of one kind of backend, streamed in front of the others."""
    return ("whole", "raw", "helper") if kind.name == CHAT.name else ("helper",)


@dataclasses.dataclass(slots=True)
class Backend:
    """The server behind a gateway. ``asked`` are its requests, as its own wire reads them."""

    url: str
    kind: Kind
    asked: list[Asked] = dataclasses.field(default_factory=list[Asked])


class _Noting:
    """Reads the requests to an application as they pass."""

    def __init__(self, application: ASGIApp, backend: Backend) -> None:
        self._application = application
        self._backend = backend

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""

        async def noted() -> Message:
            nonlocal body
            message = await receive()
            if message["type"] == "http.request":
                body += message.get("body", b"")
                if not message.get("more_body"):
                    self._backend.asked.append(read(self._backend.kind, scope["path"], body))
            return message

        await self._application(scope, noted, send)


def read(kind: Kind, path: str, body: bytes) -> Asked:
    """A request, as a server of that kind understands it."""
    native = json.loads(body)
    if "{model" in kind.protocol.routes[0]:
        model, _, method = path.partition("/models/")[2].rpartition(":")
        native = {**native, "model": model, "method": method}
    asked = kind.protocol.parse(native)
    return recover(asked) or asked


@contextlib.asynccontextmanager
async def rehearsing(kind: Kind, score: Score | Iterable[Turn]) -> AsyncGenerator[Backend, None]:
    """A backend that rehearses a score."""
    whole = score if isinstance(score, Score) else Score.of_turns(tuple(score))
    backend = Backend("", kind)
    async with serve(_Noting(rehearse(whole, [kind.protocol]), backend)) as url:
        backend.url = base_url(url, kind.protocol)
        yield backend


@contextlib.asynccontextmanager
async def speaking(kind: Kind, speaker: Speaker) -> AsyncGenerator[Backend, None]:
    """A backend that answers each request with the events of a function."""
    backend = Backend("", kind)

    async def answer(request: Request) -> Response:
        asked = read(kind, request.url.path, await request.body())
        backend.asked.append(asked)
        events = list(speaker(asked))
        if not asked.controls.stream:
            return Response(kind.protocol.encode(events, asked), media_type="application/json")
        encoder = kind.protocol.encoder(asked)
        return Response(b"".join(map(encoder.feed, events)), media_type="text/event-stream")

    async with serving(answer) as (url, _):
        backend.url = base_url(url, kind.protocol)
        yield backend


def says(kind: Kind, canisters: Iterable[Canister]) -> list[Event]:
    """The events of an answer of that kind of backend. A prompted one writes its calls as text."""
    said = tuple(canisters)
    calls = any(isinstance(one, InvocationCanister) for one in said)
    if kind.name != "prompted":
        return list(play(said, finish="invocations" if calls else "stop", model=MODEL))
    beside = [
        AssistantCanister(content=opaque)
        for one in said
        if isinstance(one, AssistantCanister)
        and (opaque := tuple(content for content in one.content if isinstance(content, OpaqueContent)))
    ]
    return list(play((*beside, in_words(said)), finish="stop", model=MODEL))


@dataclasses.dataclass(frozen=True, slots=True)
class Front:
    """A gateway that is served, and clients of it."""

    url: str
    assembly: Assembly

    def openai(self, **settings: Any) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", **{"api_key": "none", "max_retries": 0, **settings})

    def anthropic(self, **settings: Any) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(base_url=self.url, **{"api_key": "none", "max_retries": 0, **settings})

    def plain(self, **settings: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.url, **settings)


@contextlib.asynccontextmanager
async def fronting(
    folder: pathlib.Path,
    kind: Kind,
    url: str,
    *,
    provider: Mapping[str, Any] | None = None,
    providers: Mapping[str, Any] | None = None,
    bounds: Bounds | None = None,
    confirmer: Confirmer | None = None,
    watchers: Sequence[Watcher] = (),
    journal: str | None = None,
    recorded: bool = False,
    clock: Callable[[], float] | None = None,
    **settings: Any,
) -> AsyncGenerator[Front, None]:
    """A gateway in front of the backend at a base URL. Every model name means ``back/small``.

    ``provider`` has keys of the backend's table, ``providers`` other tables, ``settings`` those of the gateway. There
    are no retries by default. ``watchers`` observe runs, and requests without one. ``journal`` is the address of the
    database, ``clock`` the clock of what is stored; ``recorded``: the journal is written.
    """
    fields: dict[str, Any] = {"map": frozendict({"*": f"back/{MODEL}"}), **settings}
    table = {**kind.provider, "base_url": url, "api_key": "key-of-the-backend", "retries": 0, **(provider or {})}
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    written: dict[str, Any] = {"journal": {"enabled": recorded}}
    if journal is not None:
        written["journal"]["url"] = journal
    assembly = assemble(
        {"providers": {"back": table, **(providers or {})}, **written},
        workspace=workspace,
        places=Places(configuration=folder / "configuration", state=folder / "state"),
        layers="user",
        confirmer=confirmer,
        watchers=watchers,
    )
    async with assembly:
        application = create_application(assembly, settings=GatewayDescriptor(**fields), watchers=watchers, clock=clock)
        async with serve(application, bounds=bounds or Bounds(message_bytes=2**20)) as served:
            yield Front(served, assembly)


@contextlib.asynccontextmanager
async def before(
    folder: pathlib.Path, kind: Kind, what: Score | Iterable[Turn] | Speaker, **settings: Any
) -> AsyncGenerator[tuple[Front, Backend], None]:
    """A gateway in front of a backend that rehearses a score, or answers with the events of a function."""
    making = speaking(kind, what) if callable(what) else rehearsing(kind, what)
    async with making as backend, fronting(folder, kind, backend.url, **settings) as front:
        yield front, backend


def thought(kind: Kind, text: str) -> OpaqueContent:
    """The reasoning of a backend of that kind, in the form of its wire."""
    forms: dict[str, tuple[str, dict[str, Any]]] = {
        CHAT.name: ("reasoning", {"reasoning_content": text}),
        ANTHROPIC.name: ("thinking", {"type": "thinking", "thinking": text, "signature": "of-the-backend"}),
        GEMINI.name: ("thought", {"text": text, "thought": True}),
        RESPONSES.name: (
            "reasoning",
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}]},
        ),
    }
    name, data = forms[kind.protocol.name]
    return OpaqueContent(protocol=kind.protocol.name, kind=name, data=freeze(data))
