"""A recorded conversation as text: numbered messages, with the outcomes of calls beneath them; and found lines."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ripieno.approvals.visible_text import visible
from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Content,
    DocumentCanister,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
)
from ripieno.canisters.display import clean, count, label
from ripieno.jsonvalues import canonical
from ripieno.models.reasoning import reasoning_in
from ripieno.storage.journal import DELETED, Line, Summary
from ripieno.storage.journal.lines import excerpt, says
from ripieno.storage.journal.restoration import replay
from ripieno.storage.records import Record

#: Characters of an identifier in tables.
ABBREVIATED = 12
#: Lines and characters of each message that are shown without --full.
_LINES, _CHARACTERS = 6, 600
_Entry = tuple[Line, Record | None]
_KINDS: Mapping[type[Canister], str] = {
    AssistantCanister: "assistant",
    SupervisorCanister: "supervisor",
    DocumentCanister: "document",
}


def moment(at: str) -> str:
    """A recorded time for tables: UTC, to the second."""
    return at[:19].replace("T", " ")


def found_rows(lines: Iterable[Line], text: str) -> list[tuple[str, ...]]:
    """The rows of found lines: one for all stages of a call in which the text is the same."""
    same: dict[tuple[str, str, str], list[Line]] = {}
    for line in lines:
        found = visible(excerpt(says(line, text) or text, text))
        same.setdefault((line.conversation, line.invocation or str(line.number), found), []).append(line)
    return [
        (
            visible(conversation)[:ABBREVIATED],
            str(several[0].number),
            moment(several[0].at),
            ", ".join(dict.fromkeys(one.stage for one in several)),
            visible(several[-1].tool),
            found,
        )
        for (conversation, _, found), several in same.items()
    ]


def heading(summary: Summary) -> str:
    """One line about a conversation."""
    times = f"{moment(summary.first)} to {moment(summary.last)} UTC"
    if not summary.conducted:
        return f"Calls {visible(summary.identifier)} | no model | {count(summary.calls, 'call')} | {times}"
    parts = [
        f"Conversation {visible(summary.identifier)}",
        visible(summary.model or "model unknown"),
        f"{count(summary.turns, 'turn')}, {count(summary.calls, 'call')}",
        times,
        visible(summary.finish) if summary.finish else "deleted" if summary.deleted else "not ended",
    ]
    return " | ".join(parts)


def transcript(lines: Iterable[Line], *, full: bool) -> Iterator[str]:
    """The lines of a conversation as text. The numbers of messages are those of ``fork --at``.

    Messages without a number are not part of the conversation: the user went back, or no model requested the call.
    """
    entries = [(line, line.record) for line in lines]
    replayed = replay(record for _, record in entries if record is not None)
    numbers = {id(canister): str(number) for number, canister in enumerate(replayed.canisters, 1)}
    requested = {
        _key(record.canister): place
        for place, (_, record) in enumerate(entries)
        if record is not None and isinstance(record.canister, InvocationCanister)
    }
    shown: set[tuple[str, object]] = set()
    deleted = 0
    for line, record in _ordered(entries, requested):
        if line.stage == DELETED:
            yield f"- {moment(line.at)}  {deleted} bodies deleted"
        elif record is None:
            deleted += 1
        elif record.stage == "said" and record.canister is not None:
            yield _message(numbers.get(id(record.canister), "-"), record.canister, full=full)
        else:
            call, step = record.invocation, _step(record)
            alone = call is not None and _key(call) not in requested
            if call is not None and alone and _key(call) not in shown:
                shown.add(_key(call))
                yield _message("-", call, full=full) + (f", for {visible(record.owner)}" if record.owner else "")
            yield f"  - {line.at[11:23]}  {line.stage}{f': {step}' if step else ''}"
            # A result is part of the conversation without an entry of its own.
            if record.result is not None and (alone or id(record.result) in numbers):
                yield _message(numbers.get(id(record.result), "-"), record.result, full=full)


def _key(call: InvocationCanister) -> tuple[str, object]:
    """The key of a call: models repeat identifiers."""
    return call.identifier, call.timestamp


def _ordered(entries: Sequence[_Entry], requested: Mapping[tuple[str, object], int]) -> Iterator[_Entry]:
    """The entries, with those of calls that began or were refused while the model still answered after its messages.

    ``requested`` has the place of the entry in which the model requests each call.
    """
    early: list[_Entry] = []
    until = -1
    for place, entry in enumerate(entries):
        line, record = entry
        if early and place > until and line.stage != "said":
            yield from early
            early.clear()
        call = None if record is None else record.invocation
        at = -1 if call is None else requested.get(_key(call), -1)
        if at > place:
            early.append(entry)
            until = max(until, at)
        else:
            yield entry
    yield from early


def _message(number: str, canister: Canister, *, full: bool) -> str:
    if isinstance(canister, InvocationCanister):
        arguments = _short(visible(canonical(canister.arguments).decode()), full=full)
        return f"{number}  call {visible(canister.name)} {arguments} ({visible(canister.identifier)})"
    if isinstance(canister, ResultCanister):
        kind = f"result of {visible(canister.invocation_id)}"
        text = canister.text
    else:
        kind = _KINDS.get(type(canister), "user")
        text = ""
    body = clean(text or "\n".join(map(_content, canister.content)))
    shown = "\n".join(f"    {one}" for one in _short(body, full=full).split("\n")) if body else ""
    return f"{number}  {kind}\n{shown}".rstrip()


def _content(content: Content) -> str:
    if isinstance(content, TextualContent):
        return content.text
    reasoning = reasoning_in(content) if isinstance(content, OpaqueContent) else ""
    return f"(reasoning) {reasoning}" if reasoning else label(content)


def _short(text: str, *, full: bool) -> str:
    if full:
        return text
    lines = text[:_CHARACTERS].split("\n")[:_LINES]
    shown = "\n".join(lines)
    return shown if shown == text else f"{shown} ... (--full shows all {len(text)} characters)"


def _step(record: Record) -> str:
    name = visible(record.tool)
    if record.stage in ("began", "titled"):
        origin: Any = record.details.get("forked")
        forked = origin and f"forked from {visible(str(origin['conversation']))}, {origin['messages']} messages"
        owner = f", for {visible(record.owner)}" if record.owner else ""
        return forked or visible(str(record.details.get("model", record.details.get("title", "")))) + owner
    if record.stage == "turned":
        usage: Any = record.details.get("usage") or {}
        tokens = f"{usage.get('input_tokens', 0)} input tokens, {usage.get('output_tokens', 0)} output tokens"
        return f"{visible(str(record.details.get('finish', '')))}, {tokens}"
    if record.stage in ("finished", "refused", "discarded") and record.result is not None:
        report, error = record.result.report, record.result.error
        taken = f" in {report.duration_ms:.0f} ms" if record.stage == "finished" else ""
        again = f", attempt {report.attempts}" if report.attempts > 1 else ""
        edited = report.edited and visible(canonical(report.edited).decode())
        changed = f", with arguments that a person edited: {edited}" if edited else ""
        return f"{name}{taken}{again}{changed}" + (f": {error.category}: {visible(error.message)}" if error else "")
    if record.stage == "started" and "allowed" in record.details:
        return f"{name} ({visible(str(record.details['allowed']))})"
    if record.stage in ("ended", "revoked"):
        arguments: Any = record.details.get("arguments")
        exact = "" if arguments is None else f" {visible(canonical(arguments).decode())}"
        owner = f", by {visible(record.owner)}" if record.owner and record.stage == "revoked" else ""
        return visible(str(record.details.get("finish", record.details.get("rule", "")))) + exact + owner
    details = {key: value for key, value in record.details.items() if value not in (None, "")}
    shown = visible(json.dumps(json.loads(canonical(details)), ensure_ascii=False)) if details else ""
    return " ".join(part for part in (name, shown) if part)
