"""Events of a conversation beside those of its runs, and the form in which clients get all of them."""

from typing import Any, TypeAlias

from frozendict import frozendict

from ripieno.canisters import Canister
from ripieno.canisters.events import (
    ConfirmationRequested,
    ContentSealed,
    Event,
    EventBase,
    ExecutionBegan,
    InvocationBegan,
    InvocationSealed,
    ResultReady,
)
from ripieno.servers.chat.contents import content_of, message_of, without
from ripieno.storage.dispatch.events import QuestionAnswered, RunFailed


class Said(EventBase, kw_only=True):
    """The user has said something; ``place`` counts the messages before it."""

    canister: Canister
    place: int

    def mapping(self) -> dict[str, object]:
        """The form for wires, with the message as clients get it."""
        return {"type": "Said", "place": self.place, "message": message_of(self.canister)}


class QuestionsAsked(EventBase, kw_only=True):
    """The calls that wait, for an approval, an answer, or a result of the client: those of the snapshot."""

    questions: tuple[frozendict[str, object], ...]


class Titled(EventBase, kw_only=True):
    """The conversation has another title."""

    title: str


ChatEvent: TypeAlias = Event | Said | QuestionsAsked | QuestionAnswered | RunFailed | Titled


def sent_form(event: ChatEvent) -> dict[str, Any] | None:
    """The JSON of an event; None for one that clients do not get.

    Left out are what only a provider understands, and questions about calls: ``QuestionsAsked`` has them with the
    digest to which an answer is bound. Long texts are abridged.
    """
    form: dict[str, Any] | None = None
    match event:
        case ContentSealed():
            content = content_of(event.content)
            form = None if content is None else {"type": "ContentSealed", "content": content}
        case ConfirmationRequested():
            pass
        case InvocationBegan():
            form = without(event.mapping(), "opaque")
        case InvocationSealed() | ExecutionBegan():
            form = {**event.mapping(), "invocation": message_of(event.invocation)}
        case ResultReady():
            form = {**without(event.mapping(), "invocation", "seal"), "result": message_of(event.result)}
        case _:
            form = event.mapping()
    return form
