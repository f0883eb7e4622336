"""The parts of a message while it streams: steps, texts, calls. What is opened here is closed here."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ripieno.servers.chat.ai_sdk.frames import Frame, Version, error_of, file_of, output_of


@dataclasses.dataclass(slots=True)
class Call:
    """A call of the message: its input is complete (``sealed``), the user was asked, it ended (``settled``).

    ``arguments`` is the input that the client shows.
    """

    identifier: str
    name: str
    arguments: Any = None
    sealed: bool = False
    asked: bool = False
    settled: bool = False


class MessageParts:
    """Writes the frames of a message's parts in an order that the client accepts. ``frames`` has those not yet taken.

    ``calls`` has the newest call of each identifier. ``address`` is where long contents are fetched.
    """

    def __init__(self, version: Version, address: str) -> None:
        self.version: Version = version
        self._address = address
        self.frames: list[Frame] = []
        self.calls: dict[str, Call] = {}
        #: Whether the client's last step has calls.
        self.step_calls = False
        self._in_step = False
        self._next_step = True
        self._texts: dict[str, tuple[str, list[str]]] = {}
        self._count = 0

    def emit(self, kind: str, **fields: Any) -> None:
        """Adds a frame."""
        self.frames.append({"type": kind, **fields})

    def next_step(self) -> None:
        """The next content begins another step."""
        self._next_step = True

    def write(self, kind: str, text: str) -> None:
        """Adds to a text or to reasoning; it begins with its first character."""
        if not text:
            return
        if kind not in self._texts:
            self._ensure_step()
            self._count += 1
            self._texts[kind] = (f"{kind}-{self._count}", [])
            self.emit(f"{kind}-start", id=self._texts[kind][0])
        identifier, parts = self._texts[kind]
        parts.append(text)
        self.emit(f"{kind}-delta", id=identifier, delta=text)

    def complete(self, text: str) -> None:
        """Ends a text. What was not streamed of it is added."""
        written = "".join(self._texts["text"][1]) if "text" in self._texts else ""
        if text.startswith(written):
            self.write("text", text[len(written) :])
        self.close("text")

    def close(self, kind: str) -> None:
        """Ends a text or reasoning, if it is open."""
        if kind in self._texts:
            identifier, _ = self._texts.pop(kind)
            self.emit(f"{kind}-end", id=identifier)

    def file(self, content: Mapping[str, Any]) -> None:
        """A content that is no text."""
        found = file_of(content, self._address)
        if found is not None:
            self._ensure_step()
            self.emit("file", **found)

    def begin_call(self, identifier: str, name: str, *, text: bool = False) -> Call:
        """Announces a call whose arguments stream. ``text``: they are not JSON."""
        self._ensure_step()
        self.step_calls = True
        call = self.calls[identifier] = Call(identifier, name)
        encoding = {"inputEncoding": "text"} if text and self.version >= 6 else {}
        self.emit("tool-input-start", toolCallId=identifier, toolName=name, dynamic=True, **encoding)
        return call

    def arguments(self, call: Call, text: str) -> None:
        """Adds to the arguments of a call."""
        if text and not call.sealed and not call.settled:
            self.emit("tool-input-delta", toolCallId=call.identifier, inputTextDelta=text)

    def seal_call(self, identifier: str, name: str, arguments: Any) -> None:
        """A call is complete."""
        call = self.calls.get(identifier)
        if call is None or call.sealed or call.settled:
            self._ensure_step()
            call = self.calls[identifier] = Call(identifier, name)
        call.sealed, self.step_calls, call.arguments = True, True, arguments
        self.emit("tool-input-available", toolCallId=identifier, toolName=name, input=arguments, dynamic=True)

    def ask(self, call: Call, identifier: str, question: Mapping[str, Any]) -> None:
        """A question whether a call may run, from version 6."""
        if self.version < 6:
            return
        call.asked = True
        reason = {"reason": question["reason"]} if self.version >= 7 and question.get("reason") else {}
        fields = {"approvalId": identifier, "toolCallId": call.identifier}
        self.emit("tool-approval-request", **fields, approvalDescriptor=dict(question), **reason)

    def begin(self, call: Call, arguments: Any) -> None:
        """A call begins. If its arguments were edited, the client gets them now."""
        if call.asked and not call.settled and call.arguments != arguments:
            call.arguments = arguments
            self.emit(
                "tool-input-available",
                toolCallId=call.identifier,
                toolName=call.name,
                input=arguments,
                dynamic=True,
            )

    def abandon(self, call: Call) -> None:
        """A call will not be completed."""
        if not call.settled:
            call.settled = True
            # An input error replaces the part of an incomplete call; a complete one has an output.
            fields = {} if call.sealed else {"toolName": call.name, "input": ""}
            kind = "tool-output-error" if call.sealed else "tool-input-error"
            text = "The call was not completed."
            self.emit(kind, toolCallId=call.identifier, errorText=text, dynamic=True, **fields)

    def settle(self, call: Call, contents: list[Any], error: Mapping[str, Any] | None) -> None:
        """A call has its result. A second one is left out."""
        if call.settled:
            return
        call.settled = True
        if error is None:
            self.emit(
                "tool-output-available",
                toolCallId=call.identifier,
                output=output_of(contents, self._address),
                dynamic=True,
            )
        elif error["category"] == "denied" and self.version >= 6:
            if not call.asked:
                # A rule has denied it. The client takes a denial only of what it was asked about.
                self.ask(call, call.identifier, {"reason": error_of(error)})
            self.emit("tool-output-denied", toolCallId=call.identifier)
        else:
            self.emit("tool-output-error", toolCallId=call.identifier, errorText=error_of(error), dynamic=True)

    def close_step(self) -> None:
        """Ends the texts, the calls that are incomplete, and the step."""
        for kind in tuple(self._texts):
            self.close(kind)
        for call in self.calls.values():
            if not call.sealed:
                self.abandon(call)
        if self._in_step:
            self.emit("finish-step")
        self._in_step = False

    def begin_step(self) -> None:
        """Begins another step."""
        self.close_step()
        self.emit("start-step")
        self._in_step, self._next_step, self.step_calls = True, False, False

    def _ensure_step(self) -> None:
        if self._next_step or not self._in_step:
            self.begin_step()
