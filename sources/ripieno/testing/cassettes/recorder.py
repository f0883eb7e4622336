"""Writes runs, and the messages of MCP servers, into a cassette. MCP messages are only for people to read."""

import contextlib
import itertools
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from ripieno.approvals import Answer, ConfirmationRequest
from ripieno.approvals.requests import checked
from ripieno.canisters import Canister, Controls, Conversation
from ripieno.canisters.events import Alert, Event
from ripieno.canisters.serialization import serialize, write
from ripieno.ensembles.offers import Offer
from ripieno.ensembles.placed import workspace_of
from ripieno.ensembles.surroundings import Tap
from ripieno.exceptions import InputError, ProviderFailure
from ripieno.execution import Execution
from ripieno.jsonvalues import is_list, is_table, thaw
from ripieno.models.protocol import Native
from ripieno.storage.redaction import Redactor
from ripieno.testing.cassettes.file import Writer
from ripieno.testing.cassettes.redaction import Held, StreamRedactor
from ripieno.testing.cassettes.requests import digest, read_body, shorten
from ripieno.testing.cassettes.values import (
    RecordedEnsemble,
    RecordedEvent,
    RecordedFailure,
    RecordedModel,
    RecordedSettings,
    record_offer,
)


class RedactingWriter:
    """Writes lines in order, without secrets. A line that may contain part of a secret delays later ones."""

    def __init__(self, file: Writer, redactor: Redactor) -> None:
        self.file = file
        self.redactor = redactor
        self._waiting: list[tuple[dict[str, Any], Held | None]] = []
        self.requests = 0

    def put(self, line: dict[str, Any], held: Held | None = None) -> None:
        self._waiting.append((line, held))
        self.flush()

    def flush(self, *, all_of_it: bool = False) -> None:
        while self._waiting and (all_of_it or self._waiting[0][1] is None or not self._waiting[0][1].open):
            line, held = self._waiting.pop(0)
            if self.file.closed:
                continue
            fields: dict[str, Any] = line if held is None else {**line, "events": held.events}
            fixed: dict[str, Any] = {
                name: fields[name] for name in ("kind", "run", "ms", "request", "digest") if name in fields
            }
            self.file.write({**self.redactor.value(fields), **fixed})


class RunRecorder:
    """The recorder of one run."""

    def __init__(self, writer: RedactingWriter, number: int) -> None:
        self._writer = writer
        self.number = number
        self._began = time.monotonic()
        self._offer: Offer | None = None
        self._offered: object = None
        self._body: dict[str, Any] = {}
        self._asked: dict[int, float] = {}
        self._streams: dict[int, StreamRedactor] = {}

    def _ms(self) -> float:
        return round((time.monotonic() - self._began) * 1000, 3)

    def _put(self, kind: str, held: Held | None = None, **fields: Any) -> None:
        self._writer.put({"kind": kind, "run": self.number, "ms": self._ms(), **fields}, held)

    def begin(
        self,
        conversation: Conversation,
        kept: int,
        models: tuple[RecordedModel, ...],
        execution: Execution,
        settings: Mapping[str, Any],
    ) -> None:
        """Records the beginning. The first ``kept`` canisters are those at the end of the conversation's last run."""
        stored = serialize(conversation.replace(canisters=conversation.canisters[kept:]))
        recorded = RecordedSettings(
            controls=settings.get("controls") or Controls(),
            limits=settings.get("limits") or execution.limits,
            rules=execution.rules,
            execution_limits=execution.limits,
            tools=None if settings.get("tools") is None else tuple(settings["tools"]),
            workspace=workspace_of(settings.get("ensembles", ()), execution.surroundings),
        )
        self._put(
            "conduct",
            conversation=stored,
            kept=kept,
            models=write(tuple[RecordedModel, ...], models),
            settings=write(RecordedSettings, recorded),
        )

    def offer(self, offer: Offer) -> None:
        """Records the offered tools, if they have changed."""
        if offer is self._offer:
            return
        self._offer, offered = offer, record_offer(offer)
        if offered != self._offered:
            self._offered = offered
            self._put("ensemble", ensembles=write(tuple[RecordedEnsemble, ...], offered))

    def request(self, model: str, path: str, stream: bool, body: bytes) -> int:
        self._writer.requests += 1
        number = self._writer.requests
        redacted = self._writer.redactor.value(read_body(body))
        new = shorten(redacted, self._body)
        self._body = redacted
        self._asked[number] = self._ms()
        self._streams[number] = StreamRedactor(self._writer.redactor)
        self._put("request", request=number, model=model, path=path, stream=stream, digest=digest(redacted), body=new)
        return number

    def natives(self, number: int, events: Iterable[Native]) -> None:
        held = self._streams[number].feed(events)
        self._put("native", held, request=number, since=round(self._ms() - self._asked[number], 3))

    def ended(self, number: int, how: str) -> None:
        """Records that the answer was received completely (``whole``) or abandoned (``left``)."""
        self._streams[number].close()
        self._put("native", request=number, ended=how)

    def failed(self, number: int, error: ProviderFailure) -> None:
        self._streams[number].close()
        self._put("failure", request=number, failure=write(RecordedFailure, RecordedFailure.of(error)))

    def alert(self, alert: Alert) -> None:
        self._put("alert", event=write(RecordedEvent, alert))

    def event(self, invocation: str, event: Event) -> None:
        if isinstance(event, RecordedEvent):
            self._put("event", invocation=invocation, event=write(RecordedEvent, event))

    def result(self, fields: Mapping[str, Any]) -> None:
        self._put("result", **fields)

    def decision(self, request: ConfirmationRequest, answer: object) -> None:
        """Records the answer about a call, or to a question of its tool."""
        self._put(
            "decision",
            invocation=request.invocation,
            tool=request.tool,
            question=request.question is not None,
            arguments=thaw(request.arguments),
            answer=write(Answer, checked(answer)),
        )


class RunEnds:
    """The last canisters of each conversation's runs, since a cassette has only new ones."""

    def __init__(self) -> None:
        self._runs: dict[str, Any] = {}

    def kept(self, conversation: Conversation) -> int:
        """The number of canisters at the end of the last run that the conversation still begins with."""
        run = self._runs.get(conversation.identifier)
        before: tuple[Canister, ...] = () if run is None else run.conversation.canisters
        pairs = enumerate(zip(before, conversation.canisters, strict=False))
        return next(
            (at for at, (one, other) in pairs if one is not other), min(len(before), len(conversation.canisters))
        )

    def canisters(self, identifier: str, kept: int) -> tuple[Canister, ...]:
        """The first of those canisters."""
        run = self._runs.get(identifier)
        found: tuple[Canister, ...] = () if run is None else run.conversation.canisters[:kept]
        return found

    def note(self, run: Any) -> None:
        """Sets the newest run of its conversation."""
        self._runs[run.conversation.identifier] = run


#: Bytes of the largest message that is kept completely, in the file's form.
LIMIT = 256 * 1024
#: Of a larger one: maximum characters of texts, and items of tables and lists, that are kept.
_TEXT = 200
_ITEMS = 20


def traffic_recorder(writer: RedactingWriter) -> Tap:
    """Records MCP messages. A write error is not the server's failure: the next line of a run reports it."""
    began = time.monotonic()

    def record(ensemble: str, message: Mapping[str, Any]) -> None:
        line: dict[str, Any] = {
            "kind": "mcp",
            "ms": round((time.monotonic() - began) * 1000, 3),
            "ensemble": ensemble,
            "direction": message["direction"],
            **_bounded(message["message"]),
        }
        with contextlib.suppress(InputError):
            writer.put(line)

    return record


def _bounded(message: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a message's line. ``abridged`` is the size in bytes of a message that is too large."""
    size = _size(message)
    if size <= LIMIT:
        return {"message": message}
    shown = _abridge(message)
    if _size(shown) > LIMIT:
        shown = {name: _abridge(message[name]) for name in ("jsonrpc", "id", "method") if name in message}
    return {"abridged": size, "message": shown}


def _abridge(value: Any) -> Any:
    """A value with marks for long parts. A long text is left out completely: half of a secret is not recognized."""
    if isinstance(value, str):
        return value if len(value) <= _TEXT else f"[{len(value)} characters]"
    if is_table(value):
        kept = {_abridge(name): _abridge(item) for name, item in itertools.islice(value.items(), _ITEMS)}
        return kept if len(value) <= _ITEMS else {**kept, "…": f"[{len(value) - _ITEMS} more]"}
    if is_list(value):
        items = [_abridge(item) for item in value[:_ITEMS]]
        return items if len(value) <= _ITEMS else [*items, f"[{len(value) - _ITEMS} more]"]
    return value


def _size(message: Mapping[str, Any]) -> int:
    return len(json.dumps(message, separators=(",", ":")))
