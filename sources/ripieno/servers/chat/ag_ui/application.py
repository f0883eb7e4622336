"""AG-UI over HTTP: another interface of a ``Chat``.

A thread of a client is a conversation of its owner. A run belongs to the server: a client that leaves does not stop
it, and one that runs again without a new message reads on.
"""

import contextlib
import json
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse

from ripieno.canisters import Conversation
from ripieno.exceptions import Conflict, InputError, RequestInvalidity
from ripieno.jsonvalues import freeze
from ripieno.servers.chat.ag_ui.encoder import RunEncoder
from ripieno.servers.chat.ag_ui.messages import Frame, interrupts_of, messages_of, pending_of
from ripieno.servers.chat.ag_ui.request import (
    RunRequest,
    only_cancels,
    read_answers,
    read_results,
    read_run,
    thread_in,
)
from ripieno.servers.chat.chat import Chat
from ripieno.servers.chat.contents import message_of
from ripieno.servers.chat.requests import QUIET, STREAM_HEADERS, Answered, Authenticate, RequestChecks
from ripieno.servers.chat.ring import Entry, EventsLost
from ripieno.servers.http.errors import refusal_of

#: Threads whose last message is known, so that a request that is sent again says nothing twice.
_THREADS = 1000


def create_application(chat: Chat, *, authenticate: Authenticate, origins: Collection[str] = ()) -> Starlette:
    """The application over an entered ``Chat``; a client's ``HttpAgent`` gets the address of ``/run``.

    ``authenticate`` and ``origins`` are those of the native application.
    """
    checks = RequestChecks(authenticate, origins, body_bytes=chat.limits.body_bytes)
    endpoints = _Endpoints(chat, checks)
    return checks.application(
        [("POST", "/run", endpoints.run), ("GET", "/messages", endpoints.messages), ("POST", "/stop", endpoints.stop)]
    )


class _Endpoints:
    """One method for each route."""

    def __init__(self, chat: Chat, checks: RequestChecks) -> None:
        self._chat = chat
        self._checks = checks
        #: The identifier of the newest message of each thread, as its client named it.
        self._newest: dict[tuple[str, str], str] = {}

    async def run(self, request: Request, owner: str) -> Answered:
        sent = await self._checks.body(request)
        asked = read_run(sent, self._chat.limits)
        snapshot = await self._snapshot(owner, asked.thread, create=True)
        identifier = str(snapshot["identifier"])
        encoder = RunEncoder(asked, snapshot, await self._chat.follow(owner, identifier))
        entries = await self._chat.read(owner, identifier, snapshot["position"], quiet=QUIET)
        is_new = self._is_new(owner, identifier, asked, snapshot)
        frames = list(encoder.begin(snapshot, asked.sent[-1:] if is_new else _new_results(asked, snapshot)))
        try:
            runs, said = await self._start(owner, identifier, asked, snapshot, is_new=is_new)
        except (Conflict, RequestInvalidity, InputError) as error:
            refusal = refusal_of(error)
            frames += encoder.fail(refusal.code or "invalid", refusal.message)
        else:
            if said is not None and snapshot["questions"]:
                # The calls that waited are denied now.
                messages = [message_of(one) for one in said.canisters]
                frames.append(encoder.messages({**snapshot, "messages": messages}))
            if not runs:
                frames += encoder.finish()
        body = self._stream(owner, identifier, encoder, frames, entries)
        return StreamingResponse(body, media_type="text/event-stream", headers=STREAM_HEADERS)

    async def messages(self, request: Request, owner: str) -> Answered:
        thread = thread_in(request.query_params)
        snapshot = await self._snapshot(owner, thread)
        return {
            "threadId": thread,
            "state": snapshot["state"],
            "messages": messages_of(snapshot),
            "interrupts": interrupts_of(snapshot),
            "pendingToolCallIds": pending_of(snapshot),
        }

    async def stop(self, request: Request, owner: str) -> Answered:
        sent = await self._checks.body(request)
        await self._chat.stop(owner, str((await self._snapshot(owner, thread_in(sent)))["identifier"]))
        return {}

    async def _snapshot(self, owner: str, thread: str, *, create: bool = False) -> dict[str, Any]:
        """The conversation of a thread."""
        return await self._chat.snapshot(owner, await self._chat.named(owner, thread, create=create))

    def _is_new(self, owner: str, identifier: str, asked: RunRequest, snapshot: Mapping[str, Any]) -> bool:
        """Whether the newest message was not said yet. A client sends a message again when a run failed."""
        if asked.message is None or self._newest.get((owner, identifier)) == asked.message_id:
            return False
        if not only_cancels(asked.resume):
            # Answers come first. A message that the client could not send before them would bar every answer.
            return False
        return all(one["id"] != asked.message_id for one in messages_of(snapshot))

    async def _start(
        self, owner: str, identifier: str, asked: RunRequest, snapshot: Mapping[str, Any], *, is_new: bool
    ) -> tuple[bool, Conversation | None]:
        """Passes the message, the answers and the results on. Errors: ``Conflict``, ``RequestInvalidity``.

        Returns whether a run is under way or was begun, whose events follow the snapshot, and the conversation with
        the message.
        """
        chat = self._chat
        tools, at = chat.declared(asked.tools), str(snapshot["position"])
        runs = snapshot["state"] == "running"
        questions: list[Any] = [freeze(one) for one in snapshot["questions"]]
        if is_new and asked.message is not None:
            said = await chat.say(owner, identifier, asked.message, tools=tools, at=at)
            self._newest.pop((owner, identifier), None)
            self._newest[owner, identifier] = asked.message_id
            if len(self._newest) > _THREADS:
                del self._newest[next(iter(self._newest))]
            return True, said
        if asked.resume:
            for answer in read_answers(asked.resume, questions):
                left = await chat.answer(
                    owner, identifier, answer.invocation, answer.sent, tools=tools, unseen=False, alone=True
                )
                runs = runs or not left
            # An edited call is asked about again. Results wait for the answer, and come with it once more.
            if interrupts_of(await chat.snapshot(owner, identifier)):
                return runs, None
        # A page that only connects sends no messages: it reads, and starts nothing.
        elif asked.sent and (snapshot["state"] == "interrupted" or _is_unanswered(snapshot)):
            await chat.resume(owner, identifier, tools=tools, at=at)
            return True, None
        if asked.resume or not interrupts_of(snapshot):
            for result in read_results(asked.sent, questions, chat.limits):
                runs = not await chat.deliver(owner, identifier, result, tools=tools) or runs
        return runs, None

    async def _stream(
        self,
        owner: str,
        identifier: str,
        encoder: RunEncoder,
        frames: Sequence[Frame],
        entries: AsyncGenerator[Sequence[Entry], None],
    ) -> AsyncGenerator[bytes, None]:
        """Server-sent events, until the run ends. When this generator is closed, the run goes on."""
        yield _encoded(frames)
        while not encoder.ended:
            try:
                async with contextlib.aclosing(entries):
                    async for batch in entries:
                        yield _encoded(_taken(encoder, batch)) or b":\n\n"
                        if encoder.ended:
                            break
            except EventsLost:
                snapshot = await self._chat.snapshot(owner, identifier)
                entries = await self._chat.read(owner, identifier, snapshot["position"], quiet=QUIET)
                yield _encoded(encoder.resync(snapshot))
            except Exception as error:
                # A clean end would count as success.
                refusal = refusal_of(error)
                yield _encoded(encoder.fail(refusal.code or "failed", refusal.message))


def _taken(encoder: RunEncoder, batch: Iterable[Entry]) -> Iterator[Frame]:
    for entry in batch:
        yield from encoder.take(entry.event)


def _new_results(asked: RunRequest, snapshot: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The messages of the client with results that are owed."""
    pending = pending_of(snapshot)
    return [one for one in asked.sent if one.get("role") == "tool" and one.get("toolCallId") in pending]


def _is_unanswered(snapshot: Mapping[str, Any]) -> bool:
    """Whether the newest message is the user's: the run that it began has failed. To run again is to try again."""
    return bool(snapshot["state"] == "idle" and snapshot["messages"] and snapshot["messages"][-1]["type"] == "user")


def _encoded(frames: Iterable[Frame]) -> bytes:
    # ASCII: halves of surrogate pairs, as models write them, have no UTF-8.
    return b"".join(b"data: %s\n\n" % json.dumps(one, separators=(",", ":")).encode() for one in frames)
