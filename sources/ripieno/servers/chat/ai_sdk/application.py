"""The ASGI sub-application for front ends of the Vercel AI SDK, such as ``useChat``.

Mounted beneath ``/api``, it is at ``/api/chat``, where the front end looks for it by itself.
"""

import contextlib
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ripieno.exceptions import Conflict, NameAbsence
from ripieno.servers.chat.ai_sdk.encoder import Encoder
from ripieno.servers.chat.ai_sdk.frames import DONE, Frame, Version, encoded
from ripieno.servers.chat.ai_sdk.history import messages_of
from ripieno.servers.chat.ai_sdk.request import Incoming, Settlement, read_incoming, settle
from ripieno.servers.chat.chat import Chat
from ripieno.servers.chat.downloads import download
from ripieno.servers.chat.held import UNDER_WAY
from ripieno.servers.chat.requests import (
    QUIET,
    STREAM_HEADERS,
    Answered,
    Authenticate,
    RequestChecks,
    identifier_of,
)
from ripieno.servers.chat.ring import Entry, EventsLost

_HEADERS = {**STREAM_HEADERS, "x-vercel-ai-ui-message-stream": "v1"}
_RECORDED = (
    "regenerate-message is possible only after a run that failed or was interrupted. This answer is recorded and "
    "stays: send another message instead."
)
_Batches = AsyncGenerator[Sequence[Entry], None]


def create_application(
    chat: Chat, *, authenticate: Authenticate, origins: Collection[str] = (), version: Version = 6
) -> Starlette:
    """The application over an entered ``Chat``.

    ``version`` is the major version of the front end's npm package ``ai``, which requests do not name.
    ``authenticate`` and ``origins`` are as for the native application.
    """
    checks = RequestChecks(authenticate, origins, body_bytes=chat.limits.body_bytes)
    endpoints = _Endpoints(chat, checks, version)
    return checks.application(
        [
            ("POST", "/chat", endpoints.submit),
            ("GET", "/chat/{identifier}/stream", endpoints.resume),
            ("GET", "/chat/{identifier}/messages", endpoints.messages),
            ("GET", "/chat/{identifier}/contents/{reference}", endpoints.content),
            ("POST", "/chat/{identifier}/stop", endpoints.stop),
        ]
    )


class _Endpoints:
    """One method for each route. ``identifier`` is the client's, or that of one of the owner's conversations."""

    def __init__(self, chat: Chat, checks: RequestChecks, version: Version) -> None:
        self._chat = chat
        self._body = checks.body
        self._version: Version = version

    async def submit(self, request: Request, owner: str) -> Answered:
        incoming = read_incoming(await self._body(request), self._chat.limits)
        if incoming.again:
            return await self._again(request, owner, incoming)
        if incoming.message is None:
            return await self._settle(request, owner, incoming)
        identifier = await self._chat.named(owner, incoming.name, create=True)
        # From before the message: its first event is the message.
        at = await self._chat.position(owner, identifier)
        batches = await self._chat.read(owner, identifier, at, quiet=QUIET)
        await self._chat.say(owner, identifier, incoming.message, model=incoming.model, agent=incoming.agent, at=at)
        return _stream(self._encoder(request, identifier), (), batches)

    async def _again(self, request: Request, owner: str, incoming: Incoming) -> Response:
        """Gives the answer that a run did not give. Errors: ``Conflict`` if there is an answer: it stays recorded."""
        identifier = await self._chat.named(owner, incoming.name)
        snapshot = await self._chat.snapshot(owner, identifier)
        try:
            await self._chat.resume(owner, identifier, at=snapshot["position"])
        except Conflict as error:
            if snapshot["state"] == "running":
                raise
            raise Conflict(_RECORDED) from error
        encoder = self._encoder(request, identifier)
        return _stream(
            encoder,
            encoder.replay(snapshot),
            await self._chat.read(owner, identifier, snapshot["position"], quiet=QUIET),
        )

    async def _settle(self, request: Request, owner: str, incoming: Incoming) -> Response:
        identifier = await self._chat.named(owner, incoming.name)
        snapshot = await self._chat.snapshot(owner, identifier)
        if snapshot["state"] == "running":
            raise Conflict(UNDER_WAY)
        settlement = settle(incoming, snapshot["questions"])
        batches = await self._chat.read(owner, identifier, snapshot["position"], quiet=QUIET)
        left, at = 1, snapshot["position"]
        for invocation, answer in settlement.answers.items():
            left = await self._chat.answer(owner, identifier, invocation, answer, at=at, unseen=False, alone=True)
            at = None
        edited = await self._edited(owner, identifier, settlement)
        # Results wait for the answers to edited calls, and come with them once more.
        for result in settlement.results if not edited else ():
            left, at = await self._chat.deliver(owner, identifier, result, at=at), None
        encoder = self._encoder(request, identifier)
        began = (*encoder.go_on(snapshot), *encoder.ask_again(edited))
        return _stream(encoder, (*began, *encoder.finish("tool-calls")) if left else began, batches)

    async def _edited(self, owner: str, identifier: str, settlement: Settlement) -> Sequence[Mapping[str, Any]]:
        """The questions about calls that were edited in this request, and are shown before they run."""
        edits = {name for name, answer in settlement.answers.items() if answer["answer"] == "edit"}
        if not edits:
            return ()
        snapshot = await self._chat.snapshot(owner, identifier)
        return [one for one in snapshot["questions"] if one["kind"] == "approval" and one["invocation"] in edits]

    async def resume(self, request: Request, owner: str) -> Answered:
        try:
            identifier = await self._chat.named(owner, identifier_of(request))
            snapshot = await self._loaded(owner, identifier)
        except NameAbsence:
            # A front end asks before its first message.
            return Response(status_code=204)
        if snapshot["state"] not in ("running", "waiting"):
            return Response(status_code=204)
        encoder = self._encoder(request, identifier)
        replayed = encoder.replay(snapshot)
        if snapshot["state"] == "waiting":
            replayed = (*replayed, *encoder.finish("tool-calls"))
        batches = await self._chat.read(owner, identifier, snapshot["position"], quiet=QUIET)
        return _stream(encoder, replayed, batches)

    async def messages(self, request: Request, owner: str) -> Answered:
        identifier = await self._chat.named(owner, identifier_of(request))
        snapshot = await self._loaded(owner, identifier)
        return {"messages": messages_of(identifier, snapshot, self._version, _address(request, identifier))}

    async def _loaded(self, owner: str, identifier: str) -> Mapping[str, Any]:
        """The snapshot. A run of another process has no stream here: what it has added so far is shown as it is."""
        snapshot = await self._chat.snapshot(owner, identifier)
        return {**snapshot, "state": "idle"} if snapshot["elsewhere"] else snapshot

    async def content(self, request: Request, owner: str) -> Answered:
        identifier = await self._chat.named(owner, identifier_of(request))
        content = await self._chat.content(owner, identifier, str(request.path_params["reference"]))
        return download(content, request.headers.get("range"))

    async def stop(self, request: Request, owner: str) -> Answered:
        await self._chat.stop(owner, await self._chat.named(owner, identifier_of(request)))
        return {}

    def _encoder(self, request: Request, identifier: str) -> Encoder:
        return Encoder(identifier, self._version, _address(request, identifier))


def _address(request: Request, identifier: str) -> str:
    """The address of long contents: a path on its own server, beneath the mount of this application."""
    return f"{quote(str(request.scope.get('root_path', '')))}/chat/{quote(identifier, safe='')}/contents/"


def _stream(encoder: Encoder, began: Sequence[Frame], batches: _Batches) -> Response:
    return StreamingResponse(_data(encoder, began, batches), media_type="text/event-stream", headers=_HEADERS)


async def _data(encoder: Encoder, began: Sequence[Frame], batches: _Batches) -> AsyncGenerator[bytes, None]:
    """The server-sent events until the run ends. A run goes on if its reader leaves."""
    if began:
        yield encoded(began)
    try:
        async with contextlib.aclosing(batches):
            while not encoder.ended:
                entries: Sequence[Any] = await anext(batches)
                frames: list[Frame] = []
                for entry in entries:
                    if not encoder.ended:
                        frames += encoder.take(entry.event)
                yield encoded(frames) or b":\n\n"
    except EventsLost:
        yield encoded(encoder.fail("The conversation went on elsewhere, or the stream was too slow. Load it again."))
    yield DONE
