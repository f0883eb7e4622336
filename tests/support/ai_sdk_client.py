"""A client of UI message streams that is as strict as the npm package ``ai``, and in the order of frames stricter."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

#: The fields of each kind of frame: those that must be there, with their types, and those that may.
_FIELDS: Mapping[str, tuple[dict[str, type], dict[str, type]]] = {
    "start": ({"messageId": str}, {}),
    "start-step": ({}, {}),
    "finish-step": ({}, {}),
    "finish": ({"finishReason": str}, {}),
    "error": ({"errorText": str}, {}),
    "text-start": ({"id": str}, {}),
    "text-delta": ({"id": str, "delta": str}, {}),
    "text-end": ({"id": str}, {}),
    "reasoning-start": ({"id": str}, {}),
    "reasoning-delta": ({"id": str, "delta": str}, {}),
    "reasoning-end": ({"id": str}, {}),
    "file": ({"mediaType": str, "url": str}, {}),
    "tool-input-start": ({"toolCallId": str, "toolName": str, "dynamic": bool}, {"inputEncoding": str}),
    "tool-input-delta": ({"toolCallId": str, "inputTextDelta": str}, {}),
    "tool-input-available": ({"toolCallId": str, "toolName": str, "input": object, "dynamic": bool}, {}),
    "tool-input-error": (
        {"toolCallId": str, "toolName": str, "input": object, "errorText": str, "dynamic": bool},
        {},
    ),
    "tool-output-available": ({"toolCallId": str, "output": object, "dynamic": bool}, {}),
    "tool-output-error": ({"toolCallId": str, "errorText": str, "dynamic": bool}, {}),
    "tool-output-denied": ({"toolCallId": str}, {}),
    "tool-approval-request": (
        {"approvalId": str, "toolCallId": str, "approvalDescriptor": dict},
        {"reason": str},
    ),
}
_DATA: tuple[dict[str, type], dict[str, type]] = ({"data": dict}, {"id": str, "transient": bool})
_FINISHES = ("stop", "length", "content-filter", "tool-calls", "error", "other")
_ENDED = ("output-available", "output-error", "output-denied")


class Client:
    """Folds streams to messages, as ``AbstractChat`` does. ``data`` has the transient frames."""

    def __init__(self, version: int = 6) -> None:
        self.version = version
        self.message: dict[str, Any] = {"id": "", "role": "assistant", "parts": []}
        self.data: list[dict[str, Any]] = []
        self.reason = ""
        self.error: str | None = None
        self._kinds: list[str] = []
        self._texts: dict[str, dict[str, Any]] = {}
        self._step = False

    @property
    def kinds(self) -> list[str]:
        """The kinds of the frames of the last stream."""
        return self._kinds

    def parts(self, kind: str) -> list[dict[str, Any]]:
        """The message's parts of a kind."""
        return [part for part in self.message["parts"] if part["type"] == kind]

    def call(self, identifier: str) -> dict[str, Any]:
        """The newest part of a call."""
        return next(part for part in reversed(self.message["parts"]) if part.get("toolCallId") == identifier)

    def read(self, stream: bytes) -> "Client":
        """Reads a whole stream of server-sent events."""
        *events, done, rest = stream.decode("ascii").split("\n\n")
        assert (done, rest) == ("data: [DONE]", "")
        return self.take([json.loads(one.removeprefix("data: ")) for one in events if one != ":"])

    def take(self, frames: Iterable[dict[str, Any]]) -> "Client":
        """Takes the frames of a stream, from ``start`` to its end."""
        self._kinds, self._texts, self._step, self.reason, self.error = [], {}, False, "", None
        for frame in frames:
            self._check(frame)
            self._kinds.append(frame["type"])
            self._fold(frame)
        assert self._kinds[-1] in ("finish", "error"), f"The stream only stops, after {self._kinds[-1]}."
        assert not self._step
        assert not self._texts
        # Only a call that waits is open at the end.
        for part in self.message["parts"]:
            assert self.error or part.get("state") != "input-streaming", part
        return self

    @property
    def sends_again(self) -> bool:
        """``lastAssistantMessageIsCompleteWithToolCalls``: whether a client with this setting sends by itself."""
        parts = self.message["parts"]
        last = max((place for place, part in enumerate(parts) if part["type"] == "step-start"), default=-1)
        calls = [part for part in parts[last + 1 :] if part["type"] == "dynamic-tool"]
        return bool(calls) and all(part["state"] in _ENDED[:2] for part in calls)

    def _check(self, frame: dict[str, Any]) -> None:
        kind = frame["type"]
        must, may = _DATA if kind.startswith("data-") else _FIELDS[kind]
        fields = {name: value for name, value in frame.items() if name != "type"}
        assert set(must) <= set(fields) <= {*must, *may}, frame
        for name, value in fields.items():
            assert value is not None, frame
            assert isinstance(value, (must | may)[name]), frame
        assert not self._kinds or self._kinds[-1] not in ("finish", "error"), f"{kind} after the end"
        assert (kind == "start") == (not self._kinds), f"{kind} at {len(self._kinds)}"
        if self.version == 5:
            assert kind not in ("tool-approval-request", "tool-output-denied")
            assert "inputEncoding" not in frame
        assert self.version >= 7 or "reason" not in fields

    def _fold(self, frame: dict[str, Any]) -> None:
        parts: list[dict[str, Any]] = self.message["parts"]
        kind = frame["type"]
        if kind == "start":
            if self.message["id"] != frame["messageId"]:
                self.message = {"id": frame["messageId"], "role": "assistant", "parts": []}
        elif kind in ("start-step", "finish-step"):
            assert self._step == (kind == "finish-step")
            assert not self._texts
            self._step = kind == "start-step"
            if self._step:
                parts.append({"type": "step-start"})
        elif kind == "finish":
            assert frame["finishReason"] in _FINISHES
            self.reason = frame["finishReason"]
        elif kind == "error":
            self.error = frame["errorText"]
        elif kind.startswith("data-"):
            self._fold_data(frame)
        elif kind == "file":
            assert self._step
            parts.append(frame)
        elif kind.startswith("tool-"):
            self._fold_call(frame)
        else:
            self._fold_text(*kind.split("-"), frame)

    def _fold_data(self, frame: dict[str, Any]) -> None:
        if frame.get("transient"):
            self.data.append(frame)
            return
        for part in self.message["parts"]:
            if (part["type"], part.get("id")) == (frame["type"], frame.get("id")):
                part["data"] = frame["data"]
                return
        self.message["parts"].append(dict(frame))

    def _fold_text(self, kind: str, what: str, frame: dict[str, Any]) -> None:
        identifier = frame["id"]
        if what == "start":
            assert self._step
            assert identifier not in self._texts
            self._texts[identifier] = {"type": kind, "text": "", "state": "streaming"}
            self.message["parts"].append(self._texts[identifier])
        elif what == "delta":
            assert frame["delta"]
            self._texts[identifier]["text"] += frame["delta"]
        else:
            part = self._texts.pop(identifier)
            assert part["text"]
            part["state"] = "done"

    def _fold_call(self, frame: dict[str, Any]) -> None:
        kind, identifier = frame["type"], frame["toolCallId"]
        parts: list[dict[str, Any]] = self.message["parts"]
        last = max((place for place, part in enumerate(parts) if part["type"] == "step-start"), default=-1)
        in_step = [part for part in parts[last + 1 :] if part.get("toolCallId") == identifier]
        if kind == "tool-input-start" or (kind == "tool-input-available" and not in_step):
            assert self._step
            assert not in_step
            part = {"type": "dynamic-tool", "toolCallId": identifier, "text": ""}
            parts.append(part)
            in_step = [part]
        part = in_step[0] if in_step else self.call(identifier)
        assert part.get("state") not in _ENDED, f"{kind} after {part.get('state')}"
        match kind:
            case "tool-input-start":
                part |= {"state": "input-streaming", "toolName": frame["toolName"]}
            case "tool-input-delta":
                assert part["state"] == "input-streaming"
                assert frame["inputTextDelta"]
                part["text"] += frame["inputTextDelta"]
            case "tool-input-available":
                part |= {"state": "input-available", "toolName": frame["toolName"], "input": frame["input"]}
            case "tool-input-error":
                part |= {"state": "output-error", "errorText": frame["errorText"]}
            case "tool-approval-request":
                assert part["state"] == "input-available"
                part |= {"state": "approval-requested", "approval": {"id": frame["approvalId"]}}
                part["descriptor"] = frame["approvalDescriptor"]
            case "tool-output-denied":
                assert "approval" in part
                part["state"] = "output-denied"
            case "tool-output-error":
                part |= {"state": "output-error", "errorText": frame["errorText"]}
            case _:
                part |= {"state": "output-available", "output": frame["output"]}

    def respond(self, *approved: Any, reason: str | None = None) -> "Client":
        """Answers the requests for approval, one after the other."""
        asked = [part for part in self.message["parts"] if part.get("state") == "approval-requested"]
        for part, answer in zip(asked, approved, strict=False):
            given = {"approved": answer} if reason is None else {"approved": answer, "reason": reason}
            part |= {"state": "approval-responded", "approval": {**part["approval"], **given}}
        return self
