"""The journal for the page: conversations, transcripts, calls, tokens, verification and forks.

A session whose owner is the person of this machine ("") sees all that the file has, as on the command line; any other
owner only what is theirs.
"""

import asyncio
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from starlette.requests import Request

from ripieno.canisters import Canister
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import NameAbsence, RequestInvalidity
from ripieno.jsonvalues import canonical
from ripieno.servers.chat.contents import message_of
from ripieno.servers.chat.requests import Answered, RequestChecks, identifier_of, number_in
from ripieno.storage.journal import InvocationState, Journal, Line, Summary
from ripieno.storage.journal.lines import excerpt
from ripieno.storage.journal.restoration import Restored, Unfinished, fold, is_cut
from ripieno.storage.records import Record

#: Conversations in a list at most, messages in a part of a transcript, and calls and turns in a part of these.
_LISTED, _PAGE, _CALLS = 200, 100, 500
#: Characters of an origin's title in that of a fork.
_TITLE = 160
#: What the titles of forks end with.
_FORK = re.compile(r"(?: \(fork(?: at \d+)?\))+$")
#: Conversations, restored or with their calls, that stay in memory for requests of other parts.
_RECENT = 4

Result = TypeVar("Result")


class JournalPages:
    """One method for each route about the journal. It is read in threads, one request at a time."""

    def __init__(self, journal: Journal, checks: RequestChecks) -> None:
        self._journal = journal
        self._body = checks.body
        self._one = asyncio.Semaphore(1)
        #: What was read last, with the number of lines that the conversation had.
        self._recent: dict[tuple[str, str, str], tuple[int, Any]] = {}

    async def index(self, request: Request, owner: str) -> Answered:
        asked = request.query_params
        whose = owner or asked.get("owner")
        limit = min(number_in(request, "limit") or 50, _LISTED)
        before = number_in(request, "before", digits=18)
        return await self._read(self._list, whose, asked.get("search", ""), before, limit)

    async def transcript(self, request: Request, owner: str) -> Answered:
        before = number_in(request, "before")
        return await self._read(self._transcript, owner, identifier_of(request), before)

    async def calls(self, request: Request, owner: str) -> Answered:
        part = number_in(request, "part")
        return await self._read(self._calls, owner, identifier_of(request), part)

    async def verify(self, request: Request, owner: str) -> Answered:
        return await self._read(self._verify, owner, identifier_of(request))

    async def fork(self, request: Request, owner: str) -> Answered:
        at = (await self._body(request)).get("at")
        if at is not None and (not isinstance(at, int) or isinstance(at, bool)):
            raise RequestInvalidity("at is the number of a message.", parameter="at")
        return await self._read(self._fork, owner, identifier_of(request), at)

    async def _read(self, function: Callable[..., Result], *arguments: object) -> Result:
        async with self._one:
            return await run_in_thread(function, *arguments, name="journal", patient=False)

    def _list(self, owner: str | None, search: str, before: int | None, limit: int) -> dict[str, Any]:
        page = self._journal.page(owner=owner, text=search, before=before, limit=limit)
        listed = [_short(one, page.tokens[one.identifier, one.owner]) for one in page.summaries]
        for one, summary in zip(listed, page.summaries, strict=True) if search else ():
            one["match"] = excerpt(page.matches[summary.identifier, summary.owner], search)
        return {"conversations": listed, "next": page.next}

    def _transcript(self, owner: str, identifier: str, before: int | None) -> dict[str, Any]:
        summary = self._find(owner, identifier)
        restored, tokens = self._kept("transcript", summary, self._restore)
        canisters = restored.conversation.canisters
        end = len(canisters) if before is None else min(before, len(canisters))
        place = max(end - _PAGE, 0)
        own = summary.conducted and summary.owner == owner and not restored.missing
        return {
            **_short(summary, tokens),
            "messages": [message_of(one) for one in canisters[place:end]],
            "place": place,
            "more": place > 0,
            "count": len(canisters),
            "unfinished": [one.mapping() for one in _unfinished(restored) if place < one.place <= end],
            "cuts": [at for at in range(max(place, 1), end + 1) if _can_cut(restored, canisters, at)] if own else [],
            "chat": own,
        }

    def _restore(self, summary: Summary) -> tuple[Restored, tuple[int, int]]:
        name, owner = summary.identifier, summary.owner
        total = self._journal.statistics(conversation=name, owner=owner).total
        return self._journal.restore(name, owner=owner), (total.input_tokens, total.output_tokens)

    def _calls(self, owner: str, identifier: str, part: int | None) -> dict[str, Any]:
        calls, turns, allowed = self._kept("calls", self._find(owner, identifier), self._fold)
        start = (part or 0) * _CALLS
        end = start + _CALLS
        return {
            "calls": calls[start:end],
            "turns": turns[start:end],
            "allowed": allowed,
            "count": len(calls),
            "tokens": {name: sum(one[name] for one in turns) for name in ("input", "output")},
            "more": end < max(len(calls), len(turns)),
        }

    def _fold(self, summary: Summary) -> tuple[list[dict[str, Any]], ...]:
        lines = list(self._journal.lines(summary.identifier, owner=summary.owner))
        starts = _starts(lines)
        calls = [_call(state, starts.get((state.turn, state.identifier))) for state in fold(lines)]
        return calls, list(_turns(lines)), list(_allowed(lines))

    def _kept(self, kind: str, summary: Summary, read: Callable[[Summary], Any]) -> Any:
        """The part of a conversation that was read for an earlier part of it, if no line was added since."""
        key = (kind, summary.identifier, summary.owner)
        lines, found = self._recent.pop(key, (0, None))
        if lines != summary.lines:
            found = read(summary)
        self._recent[key] = (summary.lines, found)
        while len(self._recent) > _RECENT:
            del self._recent[next(iter(self._recent))]
        return found

    def _verify(self, owner: str, identifier: str) -> dict[str, Any]:
        self._find(owner, identifier)
        found = self._journal.verify()
        if found is None:
            limit = "Truncation can be detected only with: ripieno journal verify --anchor FILE"
            return {"valid": True, "message": f"Verified {self._journal.length()} lines, none altered. {limit}"}
        where = "The journal" if found.number is None else f"Line {found.number}"
        return {"valid": False, "message": f"{where}: {found.reason}"}

    def _fork(self, owner: str, identifier: str, at: int | None) -> dict[str, Any]:
        summary = self._journal.summary(identifier, owner=owner)
        forked = self._journal.fork(summary.identifier, owner=owner, until=at)
        # Of a fork of a fork, only the last place is named.
        origin = _FORK.sub("", summary.title or summary.words)
        title = f"{origin[:_TITLE]} (fork{'' if at is None else f' at {at}'})"
        details = {"title": title}
        titled = Record(stage="titled", conversation=forked.identifier, turn=0, owner=owner, details=details)
        self._journal.record([titled])
        return {"identifier": forked.identifier}

    def _find(self, owner: str, identifier: str) -> Summary:
        """The summary of exactly this conversation. Errors: ``NameAbsence``."""
        try:
            return self._journal.summary(identifier, owner=owner)
        except NameAbsence:
            found = None if owner else next(self._journal.lines(identifier, limit=1), None)
            if found is None:
                raise
            return self._journal.summary(identifier, owner=found.owner)


def _short(summary: Summary, tokens: tuple[int, int]) -> dict[str, Any]:
    return {
        "identifier": summary.identifier,
        "title": summary.title or summary.words,
        "created": summary.first,
        "changed": summary.last,
        "model": summary.model,
        "turns": summary.turns,
        "calls": summary.calls,
        "refused": summary.refused,
        "tokens": {"input": tokens[0], "output": tokens[1]},
        "finish": summary.finish or ("" if not summary.conducted else None),
        "caller": summary.owner,
    }


def _unfinished(restored: Restored) -> Iterator[Unfinished]:
    """The answers that are not complete, also the last one. Places count the messages that the journal has."""
    for one in restored.unfinished:
        yield dataclasses.replace(one, place=one.place - restored.missing)
    if restored.cut:
        conversation = restored.conversation
        yield Unfinished(place=len(conversation.canisters), texts=restored.cut, finish=conversation.finish)


def _can_cut(restored: Restored, canisters: tuple[Canister, ...], at: int) -> bool:
    if at == len(canisters) and restored.conversation.open:
        return False
    return 0 < at <= len(canisters) and is_cut(canisters[:at], canisters)


def _starts(lines: list[Line]) -> Mapping[tuple[int, str], str]:
    """The time at which the last call of each turn and identifier was first started. Models repeat identifiers."""
    starts: dict[tuple[int, str], str] = {}
    ended: set[tuple[int, str]] = set()
    for line in lines:
        if line.invocation is None:
            continue
        key = (line.turn, line.invocation)
        if line.stage == "started" and (key in ended or key not in starts):
            starts[key] = line.at
            ended.discard(key)
        elif line.stage in ("finished", "refused", "discarded"):
            ended.add(key)
    return starts


def _call(state: InvocationState, start: str | None) -> dict[str, Any]:
    result = state.result
    report = None if result is None or start is None else result.report
    if state.status != "finished":
        name = "never started" if state.status == "never_started" else "failed: outcome unknown"
    elif result is None or result.error is None:
        name = "done"
    else:
        category = result.error.category
        name = category if category in ("denied", "cancelled", "timeout") else f"failed: {category}"
    return {
        "invocation": state.identifier,
        "name": state.tool or ("" if state.invocation is None else state.invocation.name),
        "start": start,
        "seconds": None if report is None else report.duration_ms / 1000,
        "attempts": None if report is None else report.attempts,
        "sandbox": None if report is None else report.sandbox,
        "state": name,
        "turn": state.turn,
    }


def _turns(lines: list[Line]) -> Iterator[dict[str, Any]]:
    """The tokens of each answer of a model."""
    for line in lines:
        record = line.record if line.stage == "turned" else None
        if record is not None:
            usage: Any = record.details.get("usage") or {}
            yield {
                "turn": record.turn,
                "model": record.details.get("model") or "",
                "input": usage.get("input_tokens", 0),
                "output": usage.get("output_tokens", 0),
            }


def _allowed(lines: list[Line]) -> Iterator[dict[str, Any]]:
    """A permission that a person gave with *always*, and took back. ``arguments`` are None for any."""
    for line in lines:
        record = line.record if line.stage in ("answered", "revoked") else None
        if record is None or (line.stage == "answered" and record.details.get("always") is not True):
            continue
        arguments: Any = record.details.get("arguments")
        if record.invocation is not None and record.details.get("exact"):
            arguments = record.invocation.arguments
        yield {
            "at": line.at,
            "tool": record.tool,
            "arguments": None if arguments is None else canonical(arguments).decode(),
            "state": "allowed" if line.stage == "answered" else "taken back",
            "caller": record.owner,
        }
