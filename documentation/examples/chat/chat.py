"""A chat server: conversations of several users, with streamed events, approvals and a journal."""

import contextlib
import json
import os
import pathlib
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

import ripieno
from ripieno.approvals import DeferredConfirmer, Given
from ripieno.approvals.grants import Binding
from ripieno.assembly.protection import secrets_among
from ripieno.canisters.serialization import deserialize_conversation, serialize
from ripieno.conducting.resume import resumable
from ripieno.exceptions import InputError, NameAbsence, RipienoError
from ripieno.storage.journal import Journal

SETTINGS, DATA, PORT = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
busy: set[str] = set()


def load(journal: Journal, file: pathlib.Path, identifier: str) -> ripieno.Conversation:
    """The conversation as it was left: it waits for an answer, has ended, or is new."""
    if file.exists():
        return deserialize_conversation(json.loads(file.read_text()))
    try:
        return resumable(journal, identifier).conversation
    except NameAbsence:
        return ripieno.Conversation(identifier=identifier)


def answers_to(conversation: ripieno.Conversation, given: Mapping[str, str]) -> dict[str, Given]:
    """A person's answers, each bound to the call that the person was shown."""
    answers: dict[str, Given] = {}
    for one in conversation.waiting:
        if answer := given.get(one.invocation):
            decided = ripieno.Approve() if answer == "approve" else ripieno.Deny("The user refused.")
            answers[one.invocation] = Given(answer=decided, binding=Binding(**one.binding))
    return answers


async def talk(state: State, user: str, identifier: str, message: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
    """One run of a conversation, as events for its user. Errors: ``RipienoError``."""
    if identifier in busy:
        raise InputError("This conversation has a run already. Wait for its end.")
    folder, file = DATA / "users" / user, DATA / "waiting" / f"{identifier}.json"
    folder.mkdir(parents=True, exist_ok=True)
    conversation = load(state.journal, file, identifier)
    answers = answers_to(conversation, message.get("answers", {}))
    conversation = conversation if answers else conversation.say(str(message.get("say") or "Go on."), declining=True)
    run = state.assembly.conduct(conversation, owner=user, workspace=folder, answers=answers)
    busy.add(identifier)
    try:
        async for event in run:
            yield event.mapping()
    finally:
        busy.discard(identifier)
        # The journal has the calls; the questions about them are only in the conversation.
        left = run.conversation
        file.write_text(json.dumps(serialize(left))) if left.open else file.unlink(missing_ok=True)


async def chat(request: Request) -> StreamingResponse:
    """Takes ``{"say": "text"}`` or ``{"answers": {"call": "approve"}}``; streams events as lines of JSON."""
    user, name, message = request.path_params["user"], request.path_params["name"], await request.json()

    async def lines() -> AsyncIterator[str]:
        try:
            if not re.fullmatch("[a-z]+/[a-z0-9]+", f"{user}/{name}"):
                raise InputError("Names consist of small letters; those of conversations may have digits.")
            async with contextlib.aclosing(talk(request.app.state, user, f"{user}-{name}", message)) as events:
                async for event in events:
                    yield json.dumps(event) + "\n"
        except RipienoError as error:
            yield json.dumps({"type": "Error", "message": str(error)}) + "\n"

    return StreamingResponse(lines(), media_type="application/x-ndjson")


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """One assembly and one journal for all users."""
    (DATA / "waiting").mkdir(parents=True, exist_ok=True)
    app.state.journal = kept = Journal(DATA / "journal.sqlite3", secrets=secrets_among(os.environ))
    ask = DeferredConfirmer()
    async with ripieno.assemble(SETTINGS, workspace=DATA, confirmer=ask, recorder=kept) as app.state.assembly:
        yield


uvicorn.run(Starlette(routes=[Route("/{user}/{name}", chat, methods=["POST"])], lifespan=lifespan), port=PORT)
