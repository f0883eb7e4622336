"""The events of a conversation as the frames of a UI message stream.

A stream has one message of the assistant: all that follows a message of the user. A message that waits for an answer
ends, and goes on in the next stream under the same identifier.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.canisters import InvocationCanister, OpaqueContent, TextualContent
from ripieno.canisters.contents import Content
from ripieno.canisters.events import (
    Alert,
    ArgumentsDelta,
    ConductEnded,
    ContentSealed,
    ExecutionBegan,
    ExecutionProgress,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    ResultReady,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.canisters.serialization import describe
from ripieno.jsonvalues import thaw
from ripieno.servers.chat.ai_sdk.frames import Frame, Version, finish_reason, message_id
from ripieno.servers.chat.ai_sdk.parts import Call, MessageParts
from ripieno.servers.chat.contents import content_of
from ripieno.servers.chat.events import ChatEvent, QuestionsAsked, Said
from ripieno.servers.chat.parts import unfinished_of
from ripieno.servers.chat.questions import question_id
from ripieno.storage.dispatch.events import QuestionAnswered, RunFailed


class Encoder:
    """Makes frames of events. It begins with ``Said``, or with ``go_on`` or ``replay``; ``ended`` is set at its end.

    ``address`` is where the client fetches contents that are too long for a frame, by their references.
    """

    def __init__(self, identifier: str, version: Version = 6, address: str = "") -> None:
        self.ended = False
        self._identifier = identifier
        self._parts = MessageParts(version, address)
        #: The calls that are being written, by their indexes in the turn.
        self._written: dict[int, Call] = {}
        self._asked: set[tuple[str, str]] = set()
        self._notes: set[str] = set()

    def go_on(self, snapshot: Mapping[str, Any]) -> Sequence[Frame]:
        """The beginning of a stream that continues the message of a snapshot, which the client has."""
        self._begin(snapshot)
        clients = {one["invocation"] for one in snapshot["questions"] if one["kind"] == "client"}
        if self._parts.version == 5:
            self._notes |= {one["invocation"] for one in snapshot["questions"]} - clients
        for message in _newest(snapshot["messages"]):
            if message["type"] == "invocation":
                identifier = message["identifier"]
                # The client has the results of its own calls.
                own = identifier in clients
                self._parts.calls[identifier] = Call(
                    identifier, message["name"], _input(message), sealed=True, asked=not own, settled=own
                )
                self._parts.step_calls = True
            elif message["type"] == "result":
                self._parts.calls.pop(message["invocation_id"], None)
        return self._taken()

    def ask_again(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Frame]:
        """The questions about edited calls: the client shows their arguments, and asks for another answer."""
        for question in questions:
            self._parts.begin(self._parts.calls[question["invocation"]], question["arguments"])
        self._ask(questions)
        return self._taken()

    def replay(self, snapshot: Mapping[str, Any]) -> Sequence[Frame]:
        """The message of a snapshot from its beginning, with the turn under way; the snapshot's events follow."""
        self._begin(snapshot)
        newest, unfinished = _newest(snapshot["messages"]), unfinished_of(snapshot)
        first = len(snapshot["messages"]) - len(newest)
        self._replay_texts(unfinished.get(first, ()))
        for place, message in enumerate(newest, first + 1):
            self._replay_message(message)
            self._replay_texts(unfinished.get(place, ()))
        began = False
        for item in snapshot["turn"] if snapshot["state"] == "running" else ():
            known = item["type"] == "call" and item["identifier"] in self._open
            if not known and not began:
                self._parts.next_step()
                began = True
            if item["type"] == "call":
                self._replay_call(item, known=known)
            elif item["type"] in ("text", "reasoning"):
                self._parts.write(item["type"], item["text"])
                if item["sealed"]:
                    self._parts.close(item["type"])
            else:
                self._parts.file(item)
        self._ask(snapshot["questions"])
        return self._taken()

    def finish(self, reason: str) -> Sequence[Frame]:
        """The end of a stream."""
        self.ended = True
        self._parts.close_step()
        self._parts.emit("finish", finishReason=reason)
        return self._taken()

    def fail(self, message: str) -> Sequence[Frame]:
        """The end of a stream by an error. A stream that ends without a word counts as complete."""
        self.ended = True
        self._parts.close_step()
        self._parts.emit("error", errorText=message)
        return self._taken()

    def take(self, event: ChatEvent) -> Sequence[Frame]:
        """The frames of the next event."""
        parts = self._parts
        match event:
            case Said():
                parts.emit("start", messageId=f"{self._identifier}-{event.place}")
            case TurnBegan():
                self._written.clear()
                parts.close_step()
                parts.next_step()
            case TextDelta():
                parts.close("reasoning")
                parts.write("text", event.text)
            case ReasoningDelta():
                parts.write("reasoning", event.text)
            case ContentSealed():
                self._seal(event.content)
            case TurnEnded():
                parts.close("reasoning")
                parts.close("text")
            case QuestionsAsked():
                self._ask([thaw(one) for one in event.questions])
            case QuestionAnswered() if event.invocation in self._notes:
                parts.emit("data-question", id=event.invocation, data={"answered": event.answer})
            case RunFailed():
                return self.fail(event.message)
            case ConductEnded():
                return self._conclude(event)
            case _:
                self._take_call(event)
        return self._taken()

    def _take_call(self, event: ChatEvent) -> None:
        parts = self._parts
        match event:
            case InvocationBegan() if event.identifier:
                text = event.kind == "freeform"
                self._written[event.index] = parts.begin_call(event.identifier, event.name, text=text)
            case ArgumentsDelta() if event.index in self._written:
                parts.arguments(self._written[event.index], event.text)
            case InvocationSealed():
                written = self._written.pop(event.index, None)
                if written is not None and written.identifier != event.invocation.identifier:
                    parts.abandon(written)
                self._seal_call(event.invocation)
            case ExecutionBegan():
                call = parts.calls.get(event.invocation.identifier)
                if call is not None:
                    parts.begin(call, thaw(event.invocation.arguments))
            case ExecutionProgress():
                fields = {"toolCallId": event.invocation_id, "done": event.done, "message": event.message}
                total = {} if event.total is None else {"total": event.total}
                parts.emit("data-progress", id=event.invocation_id, data={**fields, **total}, transient=True)
            case ResultReady():
                call = parts.calls.get(event.invocation.identifier)
                if call is None or not call.sealed:
                    self._seal_call(event.invocation)
                result = event.result
                contents = [form for form in map(content_of, result.content) if form is not None]
                error = None if result.error is None else describe(result.error)
                parts.settle(parts.calls[event.invocation.identifier], contents, error)
            case Alert():
                parts.emit("data-notice", data={"message": event.message}, transient=True)
            case _:
                pass

    def _begin(self, snapshot: Mapping[str, Any]) -> None:
        self._parts.emit("start", messageId=message_id(self._identifier, snapshot["messages"]))

    def _conclude(self, event: ConductEnded) -> Sequence[Frame]:
        if event.finish != "open":
            for call in self._parts.calls.values():
                self._parts.abandon(call)
            if self._parts.step_calls:
                # A client that sends by itself when the calls of the last step are complete would send again, and
                # again: the last step is one without calls.
                self._parts.begin_step()
        return self.finish(finish_reason(event.finish))

    def _seal(self, content: Content) -> None:
        if isinstance(content, TextualContent):
            self._parts.complete(content.text)
        elif isinstance(content, OpaqueContent):
            self._parts.close("reasoning")
        elif (form := content_of(content)) is not None:
            self._parts.file(form)

    def _seal_call(self, invocation: InvocationCanister) -> None:
        arguments = invocation.raw if invocation.fault is not None else None
        self._parts.seal_call(
            invocation.identifier, invocation.name, thaw(invocation.arguments) if arguments is None else arguments
        )

    def _ask(self, questions: Sequence[Mapping[str, Any]]) -> None:
        """Questions about calls are the protocol's, from version 6; others are data that the page shows."""
        for question in questions:
            invocation, kind = str(question["invocation"]), question["kind"]
            if kind == "client" or (kind, invocation) in self._asked:
                continue
            self._asked.add((kind, invocation))
            call = self._parts.calls.get(invocation)
            if kind == "approval" and call is not None and self._parts.version >= 6:
                self._parts.ask(call, question_id(question), question)
            else:
                self._notes.add(invocation)
                name = {"approvalId": question_id(question)} if kind == "approval" else {}
                self._parts.emit("data-question", id=invocation, data={**question, **name})

    def _replay_message(self, message: Mapping[str, Any]) -> None:
        parts = self._parts
        match message["type"]:
            case "assistant":
                for content in message["content"]:
                    if content["type"] == "text":
                        parts.complete(content["text"])
                    elif content["type"] == "reasoning":
                        parts.write("reasoning", content["text"])
                        parts.close("reasoning")
                    else:
                        parts.file(content)
            case "invocation":
                self._replay_seal(message)
            case "result":
                call = parts.calls.get(message["invocation_id"])
                if call is not None:
                    parts.settle(call, message["content"], message.get("error"))
                parts.next_step()
            case _:
                pass

    def _replay_texts(self, answers: Sequence[Sequence[Mapping[str, Any]]]) -> None:
        """Answers that were cut off. The next one begins another step."""
        for texts in answers:
            self._parts.next_step()
            for one in texts:
                self._parts.write(one["type"], one["text"])
                self._parts.close(one["type"])
            self._parts.next_step()

    def _replay_call(self, item: Mapping[str, Any], *, known: bool) -> None:
        parts = self._parts
        if not known:
            call = parts.begin_call(item["identifier"], item["name"])
            parts.arguments(call, item["arguments"])
            if item["invocation"] is not None:
                self._replay_seal(item["invocation"])
            elif item["index"] is not None:
                self._written[item["index"]] = call
        if item["result"] is not None:
            parts.settle(parts.calls[item["identifier"]], item["result"]["content"], item["result"].get("error"))

    def _replay_seal(self, message: Mapping[str, Any]) -> None:
        self._parts.seal_call(message["identifier"], message["name"], _input(message))

    @property
    def _open(self) -> set[str]:
        return {one.identifier for one in self._parts.calls.values() if one.sealed and not one.settled}

    def _taken(self) -> Sequence[Frame]:
        frames, self._parts.frames = self._parts.frames, []
        return frames


def _newest(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The messages after the last one of the user."""
    places = [place for place, message in enumerate(messages) if message["type"] == "user"]
    return messages[places[-1] + 1 :] if places else messages


def _input(message: Mapping[str, Any]) -> Any:
    """The input of a call as a client shows it: its arguments, or the text that could not be read."""
    unread = message.get("fault") is not None and message.get("raw") is not None
    return message["raw"] if unread else message.get("arguments", {})
