"""The ASGI sub-application of a chat: conversations over HTTP with JSON, and their events as server-sent events.

Starlette, FastAPI and Django mount it beneath any path. It has no user accounts: the application that mounts it names
the owner of each request.
"""

import contextlib
import functools
import json
from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ripieno.canisters import ResultCanister, TextualContent
from ripieno.canisters.faults import Fault
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import RequestInvalidity
from ripieno.jsonvalues import thaw
from ripieno.servers.chat.chat import Chat
from ripieno.servers.chat.downloads import download
from ripieno.servers.chat.messages import read_message
from ripieno.servers.chat.requests import (
    QUIET,
    STREAM_HEADERS,
    UPLOAD,
    Answered,
    Authenticate,
    RequestChecks,
    identifier_of,
    number_in,
    required,
    text,
    type_in,
)
from ripieno.servers.chat.ring import EventsLost
from ripieno.servers.chat.uploads import read_upload
from ripieno.servers.http.bodies import json_response

_TITLE = 200
#: Messages in a part of a conversation, at most.
_PART = 500


def create_application(chat: Chat, *, authenticate: Authenticate, origins: Collection[str] = ()) -> Starlette:
    """The application over an entered ``Chat``.

    ``authenticate`` names the owner of a request. ``origins`` are pages of other origins that may use it, such as
    ``https://app.example.com``; a page of its own origin always may.
    """
    checks = RequestChecks(authenticate, origins, body_bytes=chat.limits.body_bytes)
    endpoints = _Endpoints(chat, checks)
    one = "/conversations/{identifier}"
    routes = [
        ("GET", "/conversations", endpoints.index),
        ("POST", "/conversations", endpoints.create),
        ("GET", one, endpoints.open),
        ("PATCH", one, endpoints.rename),
        ("DELETE", one, endpoints.delete),
        ("GET", f"{one}/messages", endpoints.earlier),
        ("POST", f"{one}/messages", endpoints.say),
        (UPLOAD, f"{one}/attachments", endpoints.attach),
        ("DELETE", f"{one}/attachments/{{reference}}", endpoints.detach),
        ("GET", f"{one}/contents/{{reference}}", endpoints.content),
        ("POST", f"{one}/answers", endpoints.answer),
        ("POST", f"{one}/revisions", endpoints.revise),
        ("POST", f"{one}/results", endpoints.deliver),
        ("POST", f"{one}/stop", endpoints.stop),
        ("POST", f"{one}/resume", endpoints.resume),
        ("GET", f"{one}/events", endpoints.events),
        ("GET", "/questions", endpoints.questions),
        ("GET", "/allowances", endpoints.allowances),
        ("DELETE", f"{one}/allowances/{{allowance}}", endpoints.take_back),
        ("GET", "/usage", endpoints.usage),
    ]
    return checks.application(routes, Route("/openapi.json", _describe, methods=["GET"]))


async def _describe(_: Request) -> Response:
    """The OpenAPI document. It is public: it is the same everywhere, and names no owner and no tool."""
    return json_response(await run_in_thread(_document, name="openapi"))


def _document() -> bytes:
    # Making the forms takes 0.5 s, and nothing else needs them.
    from ripieno.servers.chat.openapi import document

    return document()


class _Endpoints:
    """One method for each route. Each gets the request and its owner, and returns JSON."""

    def __init__(self, chat: Chat, checks: RequestChecks) -> None:
        self._chat = chat
        self._checks = checks
        self._body = checks.body

    async def index(self, _: Request, owner: str) -> Answered:
        found = await self._chat.conversations(owner)
        return {
            "conversations": [
                {
                    "identifier": one.identifier,
                    "title": one.title or one.words,
                    "created": one.first,
                    "changed": one.last,
                    "model": one.model,
                    "turns": one.turns,
                    "calls": one.calls,
                }
                for one in found
            ]
        }

    async def create(self, request: Request, owner: str) -> Answered:
        title = _title(await self._body(request))
        return {"identifier": await self._chat.create(owner, title)}

    async def open(self, request: Request, owner: str) -> Answered:
        found = await self._chat.snapshot(owner, identifier_of(request), limit=number_in(request, "limit"))
        if len(found["messages"]) <= _PART:
            return found
        return json_response(await run_in_thread(lambda: json.dumps(found).encode(), name="snapshot"))

    async def earlier(self, request: Request, owner: str) -> Answered:
        before, limit = number_in(request, "before"), number_in(request, "limit")
        if before is None:
            raise RequestInvalidity("before is the place of a message.", parameter="before")
        part = min(limit or _PART, _PART)
        return await self._chat.messages(owner, identifier_of(request), before=before, limit=part)

    async def rename(self, request: Request, owner: str) -> Answered:
        await self._chat.rename(owner, identifier_of(request), _title(await self._body(request)))
        return {}

    async def delete(self, request: Request, owner: str) -> Answered:
        await self._chat.delete(owner, identifier_of(request))
        return {}

    async def say(self, request: Request, owner: str) -> Answered:
        sent = await self._body(request)
        model, agent = text(sent, "model"), text(sent, "agent")
        identifier = identifier_of(request)
        find = functools.partial(self._chat.uploads.find, owner, identifier)
        await self._chat.say(owner, identifier, read_message(sent, self._chat.limits, find), model=model, agent=agent)
        return {}

    async def attach(self, request: Request, owner: str) -> Answered:
        most, declared = self._chat.limits.upload_bytes, request.headers.get("content-length", "")
        size = min(int(declared), most) if declared.isascii() and declared.isdigit() else most
        await self._chat.require(owner, identifier_of(request))
        with self._chat.uploads.receiving(owner, size):
            data = await self._checks.raw_body(request, most=most)
        content = read_upload(data, type_in(request))
        reference = await self._chat.attach(owner, identifier_of(request), content)
        return {"reference": reference, "mime_type": content.mime_type, "bytes": len(data)}

    async def detach(self, request: Request, owner: str) -> Answered:
        self._chat.detach(owner, identifier_of(request), str(request.path_params["reference"]))
        return {}

    async def content(self, request: Request, owner: str) -> Answered:
        content = await self._chat.content(owner, identifier_of(request), str(request.path_params["reference"]))
        return download(content, request.headers.get("range"))

    async def answer(self, request: Request, owner: str) -> Answered:
        sent = await self._body(request)
        invocation = required(sent, "invocation")
        return {"left": await self._chat.answer(owner, identifier_of(request), invocation, sent)}

    async def revise(self, request: Request, owner: str) -> Answered:
        sent = await self._body(request)
        question = await self._chat.revise(owner, identifier_of(request), required(sent, "invocation"), sent)
        return {"question": thaw(question)}

    async def deliver(self, request: Request, owner: str) -> Answered:
        sent = await self._body(request)
        content, failed = required(sent, "text"), text(sent, "error")
        fault = None if failed is None else Fault(category="execution", message=failed)
        result = ResultCanister(
            invocation_id=required(sent, "invocation"), content=(TextualContent(text=content),), error=fault
        )
        return {"left": await self._chat.deliver(owner, identifier_of(request), result)}

    async def stop(self, request: Request, owner: str) -> Answered:
        await self._chat.stop(owner, identifier_of(request))
        return {}

    async def resume(self, request: Request, owner: str) -> Answered:
        await self._chat.resume(owner, identifier_of(request))
        return {}

    async def events(self, request: Request, owner: str) -> Answered:
        position = request.headers.get("last-event-id") or request.query_params.get("after")
        batches = await self._chat.read(owner, identifier_of(request), position, quiet=QUIET)
        return StreamingResponse(event_stream(batches), media_type="text/event-stream", headers=STREAM_HEADERS)

    async def questions(self, _: Request, owner: str) -> Answered:
        return {"conversations": await self._chat.questions(owner), **await self._chat.look(owner)}

    async def allowances(self, _: Request, owner: str) -> Answered:
        found = await self._chat.allowances(owner)
        return {"conversations": {name: [one.mapping() for one in given] for name, given in found.items()}}

    async def take_back(self, request: Request, owner: str) -> Answered:
        await self._chat.take_back(owner, identifier_of(request), str(request.path_params["allowance"]))
        return {}

    async def usage(self, request: Request, owner: str) -> Answered:
        since = request.query_params.get("since", "")
        return await self._chat.usage(owner, since)


async def event_stream(batches: AsyncGenerator[Any, None]) -> AsyncGenerator[bytes, None]:
    """Server-sent events: ``id`` is the position of a reader, ``data`` an event as JSON.

    A reader that needs a snapshot gets ``Resync``, and its stream ends.
    """
    yield b": ripieno\n\n"
    try:
        async with contextlib.aclosing(batches):
            async for batch in batches:
                yield b"".join(b"id: %s\ndata: %s\n\n" % (one.position.encode(), one.data) for one in batch) or b":\n\n"
    except EventsLost:
        yield b'data: {"type":"Resync"}\n\n'


def _title(sent: Mapping[str, Any]) -> str:
    title = text(sent, "title") or ""
    if len(title) > _TITLE:
        raise RequestInvalidity(f"A title has at most {_TITLE} characters.", parameter="title")
    return title
