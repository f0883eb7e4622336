"""Records what runs hear and do into one cassette.

Messages to and from servers of the Model Context Protocol as lines of a cassette. They are for people to read.
"""

import contextlib
import itertools
import json
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

from ripieno.approvals import Answer, ConfirmationRequest
from ripieno.approvals.requests import checked
from ripieno.assembly.protection import secrets_among
from ripieno.canisters import Canister, Controls, Conversation
from ripieno.canisters.events import Alert, Event
from ripieno.canisters.serialization import serialize, write
from ripieno.ensembles.offers import Offer
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


class Desk:
    """Writes lines in their order, without secrets. A line that may hold part of one makes later ones wait."""

    def __init__(self, writer: Writer, redactor: Redactor) -> None:
        self.writer = writer
        self.redactor = redactor
        self._waiting: list[tuple[dict[str, Any], Held | None]] = []
        self.requests = 0

    def put(self, line: dict[str, Any], held: Held | None = None) -> None:
        """Takes a line; ``held`` are its events."""
        self._waiting.append((line, held))
        self.flush()

    def flush(self, *, all_of_it: bool = False) -> None:
        """Writes what need not wait."""
        while self._waiting and (all_of_it or self._waiting[0][1] is None or not self._waiting[0][1].open):
            line, held = self._waiting.pop(0)
            if self.writer.closed:
                continue
            whole: dict[str, Any] = line if held is None else {**line, "events": held.events}
            fixed: dict[str, Any] = {
                name: whole[name] for name in ("kind", "run", "ms", "request", "digest") if name in whole
            }
            self.writer.write({**self.redactor.value(whole), **fixed})


class RunTape:
    """What is recorded of one run."""

    def __init__(self, desk: Desk, number: int) -> None:
        self._desk = desk
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
        self._desk.put({"kind": kind, "run": self.number, "ms": self._ms(), **fields}, held)

    def begin(
        self,
        conversation: Conversation,
        kept: int,
        models: tuple[RecordedModel, ...],
        execution: Execution,
        settings: Mapping[str, Any],
    ) -> None:
        """How the run begins. The first ``kept`` canisters are those with which the last run of it ended."""
        stored = serialize(conversation.replace(canisters=conversation.canisters[kept:]))
        recorded = RecordedSettings(
            controls=settings.get("controls") or Controls(),
            limits=settings.get("limits") or execution.limits,
            rules=execution.rules,
            execution_limits=execution.limits,
            tools=None if settings.get("tools") is None else tuple(settings["tools"]),
            workspace=None if execution.surroundings is None else str(execution.surroundings.workspace),
        )
        self._put(
            "conduct",
            conversation=stored,
            kept=kept,
            models=write(tuple[RecordedModel, ...], models),
            settings=write(RecordedSettings, recorded),
        )

    def offer(self, offer: Offer) -> None:
        """What is offered, when it is another than before."""
        if offer is self._offer:
            return
        self._offer, offered = offer, record_offer(offer)
        if offered != self._offered:
            self._offered = offered
            self._put("ensemble", ensembles=write(tuple[RecordedEnsemble, ...], offered))

    def request(self, model: str, path: str, stream: bool, body: bytes) -> int:
        """A request as it is sent; its number."""
        self._desk.requests += 1
        number = self._desk.requests
        redacted = self._desk.redactor.value(read_body(body))
        new = shorten(redacted, self._body)
        self._body = redacted
        self._asked[number] = self._ms()
        self._streams[number] = StreamRedactor(self._desk.redactor)
        self._put("request", request=number, model=model, path=path, stream=stream, digest=digest(redacted), body=new)
        return number

    def natives(self, number: int, events: Iterable[Native]) -> None:
        """Events of an answer, as they came together."""
        held = self._streams[number].feed(events)
        self._put("native", held, request=number, since=round(self._ms() - self._asked[number], 3))

    def ended(self, number: int, how: str) -> None:
        """The answer is ``whole``, or was ``left``."""
        self._streams[number].close()
        self._put("native", request=number, ended=how)

    def failed(self, number: int, error: ProviderFailure) -> None:
        """The request failed."""
        self._streams[number].close()
        self._put("failure", request=number, failure=write(RecordedFailure, RecordedFailure.of(error)))

    def alert(self, alert: Alert) -> None:
        """The model is asked again, and when."""
        self._put("alert", event=write(RecordedEvent, alert))

    def event(self, invocation: str, event: Event) -> None:
        """What a call told while it ran."""
        if isinstance(event, RecordedEvent):
            self._put("event", invocation=invocation, event=write(RecordedEvent, event))

    def result(self, fields: Mapping[str, Any]) -> None:
        """The result of a call."""
        self._put("result", **fields)

    def decision(self, request: ConfirmationRequest, answer: object) -> None:
        """What was answered about a call, or to a question that its tool asked."""
        self._put(
            "decision",
            invocation=request.invocation,
            tool=request.tool,
            question=request.question is not None,
            arguments=thaw(request.arguments),
            answer=write(Answer, checked(answer)),
        )


class Ends:
    """The canisters with which the runs of each conversation ended: a cassette has only what is new."""

    def __init__(self) -> None:
        self._runs: dict[str, Any] = {}

    def kept(self, conversation: Conversation) -> int:
        """How many canisters the last run of it ended with, as far as they still stand there."""
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
        """The newest run of a conversation."""
        self._runs[run.conversation.identifier] = run


def open_desk(path: str | os.PathLike[str], secrets: Iterable[str], variables: Mapping[str, str]) -> Desk:
    """A new cassette. ``variables`` are looked through for secrets."""
    redactor = Redactor((*secrets, *secrets_among(variables)))
    return Desk(Writer(path), redactor)


#: Bytes of the largest message that is kept whole, as it stands in the file.
LIMIT = 256 * 1024
#: Of a larger one: characters of the longest texts, and items of the longest tables and lists, that are kept.
_TEXT = 200
_ITEMS = 20


class Traffic:
    """Writes them down as they pass."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._began = time.monotonic()

    def record(self, ensemble: str, told: Mapping[str, Any]) -> None:
        """A message of the direction that is told, as a ``Tap``.

        A file that takes no more is no failure of the server: whoever records the next line of a run hears of it.
        """
        line: dict[str, Any] = {
            "kind": "mcp",
            "ms": round((time.monotonic() - self._began) * 1000, 3),
            "ensemble": ensemble,
            "direction": told["direction"],
            **_bounded(told["message"]),
        }
        with contextlib.suppress(InputError):
            self._desk.put(line)


def _bounded(message: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a line for a message. ``abridged`` are the bytes of one that is too large."""
    size = _size(message)
    if size <= LIMIT:
        return {"message": message}
    shown = _abridge(message)
    if _size(shown) > LIMIT:
        shown = {name: _abridge(message[name]) for name in ("jsonrpc", "id", "method") if name in message}
    return {"abridged": size, "message": shown}


def _abridge(value: Any) -> Any:
    """The same with marks for what is long: a text is left out whole, since half of a secret is not known for one."""
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
