"""The events of a run as frames of AG-UI, in the order that its real client demands.

``RUN_STARTED`` is first. Everything opened is closed before ``RUN_FINISHED`` or ``RUN_ERROR``, of which exactly one is
last. Fields without a value are absent.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ripieno.canisters import InvocationCanister, TextualContent
from ripieno.canisters.conversation import NO_USAGE, Usage
from ripieno.canisters.events import (
    ArgumentsDelta,
    ConductEnded,
    ContentSealed,
    ExecutionProgress,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    ResultReady,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.jsonvalues import thaw
from ripieno.servers.chat.ag_ui.messages import (
    Frame,
    assistant_id,
    count_answers,
    has_same,
    interrupts_of,
    messages_of,
    pending_of,
    result_id,
    result_message,
)
from ripieno.servers.chat.ag_ui.request import RunRequest
from ripieno.servers.chat.contents import message_of
from ripieno.servers.chat.events import ChatEvent, QuestionsAsked
from ripieno.storage.dispatch.events import RunFailed

VERSION = "1.0"
#: Characters of one delta: an event of more than 10 MB kills the client.
_PIECE = 256 * 1024
_LOST = "Some events were lost, and the run has ended. Load the conversation again."
_FAILURES = {
    "error": "The model failed.",
    "aborted": "The run was aborted.",
}


class RunEncoder:
    """Gives the frames of one run.

    ``snapshot`` is the conversation when the request came, ``now`` gives it as it is later. Both are ``Chat.snapshot``.
    ``ended``: the last frame was given; there are none after it.
    """

    def __init__(self, request: RunRequest, snapshot: Mapping[str, Any], now: Callable[[], Mapping[str, Any]]) -> None:
        self._request = request
        self._now = now
        self.ended = False
        self._identifier = str(snapshot["identifier"])
        self._load(snapshot)
        #: The open things: a step, a text, a span of reasoning, and calls with the text of their arguments by index.
        self._step = self._text = self._reasoning = ""
        self._calls: dict[int, tuple[str, list[str]]] = {}
        #: The deltas of the content that is not sealed yet.
        self._content: list[str] = []
        self._steps = self._spans = 0
        #: Whether the client shows something else than the conversation has: it needs a snapshot at the end.
        self._deviates = False

    def begin(self, snapshot: Mapping[str, Any], added: Sequence[Mapping[str, Any]] = ()) -> Iterator[Frame]:
        """The first frames: the beginning of the run, the messages if the client shows others, the turn under way.

        ``added`` are the messages of the client that are new: the snapshot does not have them yet.
        """
        request = self._request
        yield {
            "type": "RUN_STARTED",
            "threadId": request.thread,
            "runId": request.run,
            "protocolVersion": VERSION,
        }
        known = [one for one in request.sent if not any(one is other for other in added)]
        if snapshot["state"] == "running" or not has_same(known, messages_of(snapshot, known)):
            # A client that has messages keeps the reasoning that it has, and does not send it.
            yield self._messages(snapshot, added, reasoning=not known)
        if snapshot["state"] == "running":
            yield from self._replay(snapshot)

    def take(self, event: ChatEvent) -> Iterator[Frame]:
        """The frames of the next event."""
        if self.ended:
            return
        match event:
            case TextDelta():
                yield from self._say(event.text)
            case ReasoningDelta():
                yield from self._reason(event.text)
            case ContentSealed():
                yield from self._seal(event)
            case ExecutionProgress():
                yield self._progress(event.mapping())
            case ResultReady():
                yield from self._result(event)
            case RunFailed():
                yield from self.fail(event.code, event.message)
            case QuestionsAsked():
                # A tool asks during the run, which waits here. For the client this run ends.
                if any(one["kind"] == "input" for one in event.questions):
                    yield from self.finish()
            case ConductEnded():
                yield from self._end(event)
            case _:
                yield from self._take_turn(event)

    def messages(self, snapshot: Mapping[str, Any]) -> Frame:
        """The messages of a snapshot."""
        return self._messages(snapshot)

    def resync(self, snapshot: Mapping[str, Any]) -> Iterator[Frame]:
        """The frames after events were lost: everything is closed, and the conversation is sent as it is now."""
        yield from self._close()
        if snapshot["state"] != "running" and not snapshot["questions"]:
            # Whether the run failed is not known any more: a success must not be claimed.
            yield from self.fail("events_lost", _LOST)
            return
        self._load(snapshot)
        yield self._messages(snapshot)
        if snapshot["state"] == "running":
            yield from self._replay(snapshot)
        else:
            yield from self.finish()

    def fail(self, code: str, message: str) -> Iterator[Frame]:
        """The end with an error."""
        yield from self._close()
        self.ended = True
        yield {"type": "RUN_ERROR", "message": message, "code": code}

    def finish(self, finish: str = "", usage: Usage = NO_USAGE) -> Iterator[Frame]:
        """The end without an error. Questions make it an interrupt; calls of the client are named."""
        yield from self._close()
        snapshot = self._now()
        interrupts, pending = interrupts_of(snapshot), pending_of(snapshot)
        if self._deviates or (interrupts and snapshot["state"] != "running"):
            yield self._messages(snapshot)
        self.ended = True
        # The 0.0.59 client knows neither cancelled nor pendingToolCallIds, and both kill it.
        outcome: Frame | None = {"type": "success"}
        if interrupts:
            outcome = {"type": "interrupt", "interrupts": interrupts}
        elif finish == "cancelled":
            outcome = {"type": "cancelled"} if self._request.first_version else None
        elif pending and self._request.first_version:
            outcome = {"type": "success", "pendingToolCallIds": pending}
        yield {
            "type": "RUN_FINISHED",
            "threadId": self._request.thread,
            "runId": self._request.run,
            **({"result": {"finish": finish}} if finish and not interrupts else {}),
            **({} if outcome is None else {"outcome": outcome}),
            **_usage(usage),
        }

    def _load(self, snapshot: Mapping[str, Any]) -> None:
        """Takes over the position of a snapshot."""
        self._number, self._used = count_answers(snapshot), False
        self._known = {one["identifier"] for one in snapshot["messages"] if one["type"] == "invocation"}

    def _take_turn(self, event: ChatEvent) -> Iterator[Frame]:
        """The frames of an event about turns and calls."""
        match event:
            case TurnBegan():
                yield from self._close()
                self._number += self._used
                self._used = False
                self._steps += 1
                self._step = f"turn {self._steps}"
                yield {"type": "STEP_STARTED", "stepName": self._step}
            case TurnEnded():
                self._used = True
                yield from self._close()
            case InvocationBegan():
                yield from self._call(event.index, event.identifier, event.name)
            case ArgumentsDelta():
                if event.index in self._calls:
                    yield from self._arguments(event.index, event.text)
            case InvocationSealed():
                yield from self._seal_call(event.index, event.invocation)
            case _:
                pass

    def _replay(self, snapshot: Mapping[str, Any]) -> Iterator[Frame]:
        """The turn under way, as far as the snapshot has it."""
        for place, item in enumerate(snapshot["turn"]):
            if item["type"] == "call":
                # Later deltas name the index, which the snapshot has for calls that are not sealed.
                yield from self._replay_call(item, place)
            elif item["type"] == "text":
                yield from self._say(item["text"])
                if item["sealed"]:
                    self._content.clear()
            elif item["type"] == "reasoning":
                yield from self._reason(item["text"])
                if item["sealed"]:
                    yield from self._end_reasoning()

    def _replay_call(self, item: Mapping[str, Any], place: int) -> Iterator[Frame]:
        call, sealed = item["identifier"], item["invocation"]
        if call not in self._known:
            index = item["index"] if item["index"] is not None else -1 - place
            yield from self._call(index, call, item["name"])
            arguments = item["arguments"] or ("" if sealed is None else json.dumps(sealed.get("arguments", {})))
            yield from self._arguments(index, arguments)
            if sealed is not None:
                yield from self._end_call(index)
        if item["progress"] is not None:
            yield self._progress(item["progress"])
        if item["result"] is not None:
            yield self._result_frame(item["result"])

    def _say(self, text: str) -> Iterator[Frame]:
        if not text:
            return
        yield from self._end_reasoning()
        if not self._text:
            self._used = True
            self._text = assistant_id(self._identifier, self._number)
            yield {"type": "TEXT_MESSAGE_START", "messageId": self._text, "role": "assistant"}
        self._content.append(text)
        for piece in _pieces(text):
            yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": self._text, "delta": piece}

    def _seal(self, event: ContentSealed) -> Iterator[Frame]:
        """The rest of a content, without its deltas. An opaque content ends the reasoning before it."""
        if isinstance(event.content, TextualContent):
            sealed, streamed = event.content.text, "".join(self._content)
            if sealed.startswith(streamed):
                yield from self._say(sealed[len(streamed) :])
            else:
                self._deviates = True
        yield from self._end_reasoning()
        self._content.clear()

    def _reason(self, text: str) -> Iterator[Frame]:
        if not text:
            return
        if not self._reasoning:
            self._spans += 1
            self._reasoning = f"{self._request.run}-r{self._spans}"
            yield {"type": "REASONING_START", "messageId": self._reasoning}
            yield {"type": "REASONING_MESSAGE_START", "messageId": self._reasoning, "role": "reasoning"}
        for piece in _pieces(text):
            yield {"type": "REASONING_MESSAGE_CONTENT", "messageId": self._reasoning, "delta": piece}

    def _end_reasoning(self) -> Iterator[Frame]:
        if self._reasoning:
            yield {"type": "REASONING_MESSAGE_END", "messageId": self._reasoning}
            yield {"type": "REASONING_END", "messageId": self._reasoning}
            self._reasoning = ""

    def _call(self, index: int, call: str, name: str) -> Iterator[Frame]:
        yield from self._end_reasoning()
        if index in self._calls:
            yield from self._end_call(index)
        if call in self._known:
            # A provider may begin two calls with one identifier; the sealed ones have distinct ones.
            self._deviates = True
            return
        self._used = True
        self._known.add(call)
        self._calls[index] = (call, [])
        yield {
            "type": "TOOL_CALL_START",
            "toolCallId": call,
            "toolCallName": name,
            # Without it, each call would become a message.
            "parentMessageId": assistant_id(self._identifier, self._number),
        }

    def _arguments(self, index: int, text: str) -> Iterator[Frame]:
        call, streamed = self._calls[index]
        streamed.append(text)
        for piece in _pieces(text):
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": piece}

    def _end_call(self, index: int) -> Iterator[Frame]:
        call, _ = self._calls.pop(index)
        yield {"type": "TOOL_CALL_END", "toolCallId": call}

    def _seal_call(self, index: int, invocation: InvocationCanister) -> Iterator[Frame]:
        """The rest of a call; the whole call if nothing of it was streamed."""
        call, streamed = self._calls.get(index, ("", []))
        if call != invocation.identifier:
            self._deviates |= bool(call)
            yield from self._call(index, invocation.identifier, invocation.name)
            streamed = []
        if index not in self._calls:
            return
        text = "".join(streamed)
        if not text:
            yield from self._arguments(index, json.dumps(thaw(invocation.arguments)))
        elif not _is_json_of(text, invocation):
            self._deviates = True
        yield from self._end_call(index)

    def _result(self, event: ResultReady) -> Iterator[Frame]:
        call = event.invocation
        if event.discarded:
            self._deviates = True
            return
        if call.identifier not in self._known:
            # A result without its call passes the client, and shows nothing.
            yield from self._seal_call(-1, call)
        if any(one == call.identifier for one, _ in self._calls.values()):
            (index,) = (index for index, (one, _) in self._calls.items() if one == call.identifier)
            yield from self._seal_call(index, call)
        yield self._result_frame(message_of(event.result))

    def _result_frame(self, result: Mapping[str, Any]) -> Frame:
        call = result["invocation_id"]
        content = result_message(result)["content"]
        return {
            "type": "TOOL_CALL_RESULT",
            "messageId": result_id(call),
            "toolCallId": call,
            "content": content,
            "role": "tool",
        }

    def _progress(self, progress: Mapping[str, Any]) -> Frame:
        call = progress["invocation_id"]
        names = ("tool", "done", "total", "message")
        content = {name: progress[name] for name in names if progress[name] is not None}
        return {
            "type": "ACTIVITY_SNAPSHOT",
            "messageId": f"{call}-progress",
            "activityType": "progress",
            "content": {"toolCallId": call, **content},
            "replace": True,
        }

    def _end(self, event: ConductEnded) -> Iterator[Frame]:
        if event.finish in _FAILURES:
            yield from self.fail(event.finish, _FAILURES[event.finish])
        else:
            yield from self.finish(event.finish, event.usage)

    def _close(self) -> Iterator[Frame]:
        """Ends everything that is open."""
        yield from self._end_reasoning()
        for index in list(self._calls):
            yield from self._end_call(index)
        if self._text:
            yield {"type": "TEXT_MESSAGE_END", "messageId": self._text}
            self._text = ""
        self._content.clear()
        if self._step:
            yield {"type": "STEP_FINISHED", "stepName": self._step}
            self._step = ""

    def _messages(
        self, snapshot: Mapping[str, Any], added: Sequence[Mapping[str, Any]] = (), *, reasoning: bool = False
    ) -> Frame:
        self._deviates = False
        messages = messages_of(snapshot, self._request.sent, reasoning=reasoning)
        return {"type": "MESSAGES_SNAPSHOT", "messages": [*messages, *added]}


def _pieces(text: str) -> Iterator[str]:
    for place in range(0, len(text), _PIECE):
        yield text[place : place + _PIECE]


def _is_json_of(text: str, invocation: InvocationCanister) -> bool:
    """Whether streamed text is the JSON of the arguments of a call."""
    try:
        return bool(json.loads(text) == thaw(invocation.arguments))
    except (ValueError, RecursionError):
        return False


def _usage(usage: Usage) -> Frame:
    if not usage.total_tokens:
        return {}
    counts = {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens}
    return {"usage": [{**counts, "totalTokens": usage.total_tokens}]}
