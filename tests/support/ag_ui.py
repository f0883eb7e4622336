"""What the real client of AG-UI checks and shows: an order checker as strict, and the messages that it builds."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

#: The fields of each frame: those that must be there, and those that may. Unknown fields and nulls are errors here.
_FIELDS: Mapping[str, tuple[str, str]] = {
    "RUN_STARTED": ("threadId runId protocolVersion", ""),
    "RUN_FINISHED": ("threadId runId", "result outcome usage"),
    "RUN_ERROR": ("message code", ""),
    "STEP_STARTED": ("stepName", ""),
    "STEP_FINISHED": ("stepName", ""),
    "TEXT_MESSAGE_START": ("messageId role", ""),
    "TEXT_MESSAGE_CONTENT": ("messageId delta", ""),
    "TEXT_MESSAGE_END": ("messageId", ""),
    "REASONING_START": ("messageId", ""),
    "REASONING_MESSAGE_START": ("messageId role", ""),
    "REASONING_MESSAGE_CONTENT": ("messageId delta", ""),
    "REASONING_MESSAGE_END": ("messageId", ""),
    "REASONING_END": ("messageId", ""),
    "TOOL_CALL_START": ("toolCallId toolCallName parentMessageId", ""),
    "TOOL_CALL_ARGS": ("toolCallId delta", ""),
    "TOOL_CALL_END": ("toolCallId", ""),
    "TOOL_CALL_RESULT": ("messageId toolCallId content role", ""),
    "ACTIVITY_SNAPSHOT": ("messageId activityType content replace", ""),
    "MESSAGES_SNAPSHOT": ("messages", ""),
}
_OPENED = {
    "STEP_STARTED": ("step", "stepName"),
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "REASONING_START": ("span", "messageId"),
    "REASONING_MESSAGE_START": ("reasoning", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
}
_CLOSED = {
    "STEP_FINISHED": ("step", "stepName"),
    "TEXT_MESSAGE_END": ("text", "messageId"),
    "REASONING_MESSAGE_END": ("reasoning", "messageId"),
    "REASONING_END": ("span", "messageId"),
    "TOOL_CALL_END": ("call", "toolCallId"),
}
_WITHIN = {
    "TEXT_MESSAGE_CONTENT": ("text", "messageId"),
    "REASONING_MESSAGE_CONTENT": ("reasoning", "messageId"),
    "TOOL_CALL_ARGS": ("call", "toolCallId"),
}
_OUTCOMES_1, _OUTCOMES_0 = ("success", "interrupt", "cancelled"), ("success", "interrupt")


class Page:
    """A front end: checks the frames of its runs, one after the other, and has the messages as the client does."""

    def __init__(self, *, first_version: bool = True) -> None:
        self.messages: list[dict[str, Any]] = []
        self.frames: list[dict[str, Any]] = []
        self._first_version = first_version

    @property
    def kinds(self) -> list[str]:
        """The kinds of the frames of the last run."""
        return [one["type"] for one in self.frames]

    @property
    def end(self) -> dict[str, Any]:
        """The last frame."""
        return self.frames[-1]

    @property
    def interrupts(self) -> list[dict[str, Any]]:
        """The interrupts with which the last run ended."""
        found: list[dict[str, Any]] = self.end.get("outcome", {}).get("interrupts", [])
        return found

    def texts(self) -> list[tuple[str, str]]:
        """The roles and texts of the messages; of calls, their names."""
        found: list[tuple[str, str]] = []
        for one in self.messages:
            if one["role"] not in ("reasoning", "activity"):
                found += [(one["role"], one["content"])] if one.get("content") else []
                found += [("call", call["function"]["name"]) for call in one.get("toolCalls", ())]
        return found

    def run(self, frames: Iterable[dict[str, Any]]) -> None:
        """Takes the frames of one run, which must be complete."""
        self.frames = list(frames)
        opened: set[tuple[str, str]] = set()
        ended = False
        for place, frame in enumerate(self.frames):
            kind = frame["type"]
            required, optional = (set(one.split()) for one in _FIELDS[kind])
            assert required <= set(frame) - {"type"} <= required | optional, frame
            assert None not in frame.values(), frame
            assert len(json.dumps(frame)) < 10 * 1024 * 1024
            assert not ended, "a frame follows the end"
            assert (kind == "RUN_STARTED") == (place == 0), "RUN_STARTED is first, and only there"
            self._check(kind, frame, opened)
            self._apply(kind, frame)
            ended = kind in ("RUN_FINISHED", "RUN_ERROR")
        assert ended, "a clean early end would count as success"

    def _check(self, kind: str, frame: Mapping[str, Any], opened: set[tuple[str, str]]) -> None:
        if kind in _OPENED:
            name, field = _OPENED[kind]
            assert (name, frame[field]) not in opened, f"{kind} twice"
            opened.add((name, frame[field]))
        elif kind in _CLOSED or kind in _WITHIN:
            name, field = (_CLOSED | _WITHIN)[kind]
            assert (name, frame[field]) in opened, f"{kind} of what is not open"
            if kind in _CLOSED:
                opened.remove((name, frame[field]))
        elif kind in ("RUN_FINISHED", "RUN_ERROR"):
            assert not opened, f"{kind} while something is open"
        if kind == "TOOL_CALL_RESULT":
            assert self._call(frame["toolCallId"]) is not None, "a result without a call"
            assert ("call", frame["toolCallId"]) not in opened
        if kind == "RUN_FINISHED" and "outcome" in frame:
            outcome = frame["outcome"]
            assert outcome["type"] in (_OUTCOMES_1 if self._first_version else _OUTCOMES_0)
            assert self._first_version or "pendingToolCallIds" not in outcome
            assert (outcome["type"] == "interrupt") == bool(outcome.get("interrupts"))

    def _call(self, identifier: str) -> dict[str, Any] | None:
        calls = (call for one in self.messages for call in one.get("toolCalls", ()))
        return next((call for call in calls if call["id"] == identifier), None)

    def _message(self, identifier: str, role: str) -> dict[str, Any]:
        for one in self.messages:
            if one["id"] == identifier:
                assert one["role"] == role, "an identifier has two roles"
                return one
        message: dict[str, Any] = {"id": identifier, "role": role}
        self.messages.append(message)
        return message

    def _apply(self, kind: str, frame: Mapping[str, Any]) -> None:
        match kind:
            case "TEXT_MESSAGE_START":
                self._message(frame["messageId"], "assistant").setdefault("content", "")
            case "REASONING_MESSAGE_START":
                self._message(frame["messageId"], "reasoning").setdefault("content", "")
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                role = "assistant" if kind.startswith("TEXT") else "reasoning"
                self._message(frame["messageId"], role)["content"] += frame["delta"]
            case "TOOL_CALL_START":
                assert self._call(frame["toolCallId"]) is None, "the client would add arguments to the earlier call"
                function = {"name": frame["toolCallName"], "arguments": ""}
                calls = self._message(frame["parentMessageId"], "assistant").setdefault("toolCalls", [])
                calls.append({"id": frame["toolCallId"], "type": "function", "function": function})
            case "TOOL_CALL_ARGS":
                call = self._call(frame["toolCallId"])
                assert call is not None
                call["function"]["arguments"] += frame["delta"]
            case "TOOL_CALL_RESULT":
                places = [
                    place
                    for place, one in enumerate(self.messages)
                    if any(call["id"] == frame["toolCallId"] for call in one.get("toolCalls", ()))
                ]
                place = places[0] + 1
                while place < len(self.messages) and self.messages[place]["role"] == "tool":
                    place += 1
                message = {"id": frame["messageId"], "role": "tool", "toolCallId": frame["toolCallId"]}
                self.messages.insert(place, {**message, "content": frame["content"]})
            case "MESSAGES_SNAPSHOT":
                new = {one["id"]: one for one in json.loads(json.dumps(frame["messages"]))}
                assert len(new) == len(frame["messages"]), "an identifier is there twice"
                own = ("reasoning", "activity")
                kept = [new.get(one["id"], one) for one in self.messages if one["id"] in new or one["role"] in own]
                there = {one["id"] for one in kept}
                self.messages = [*kept, *(one for name, one in new.items() if name not in there)]
            case "ACTIVITY_SNAPSHOT":
                self._message(frame["messageId"], "activity")["content"] = frame["content"]
            case _:
                pass
