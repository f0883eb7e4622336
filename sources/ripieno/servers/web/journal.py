"""The journal for the page: conversations, transcripts, calls, tokens, verification and forks.

A session whose owner is the person of this machine ("") sees all that the file has, as on the command line; any other
owner only what is theirs.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from starlette.requests import Request

from ripieno.canisters import Canister
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import InputError, NameAbsence, RequestInvalidity
from ripieno.servers.chat.contents import message_of
from ripieno.servers.chat.requests import Answered, RequestChecks, identifier_of
from ripieno.storage.journal import InvocationState, Journal, Line, Summary
from ripieno.storage.journal.restoration import Restored, check_cut, fold

#: Conversations in a list at most, and messages in a part of a transcript.
_LISTED, _PAGE = 200, 100

Value = TypeVar("Value")


class JournalPages:
    """One method for each route about the journal. It is read in threads, one request at a time."""

    def __init__(self, journal: Journal, checks: RequestChecks) -> None:
        self._journal = journal
        self._body = checks.body
        self._one = asyncio.Semaphore(1)

    async def index(self, request: Request, owner: str) -> Answered:
        asked = request.query_params
        whose = owner or asked.get("owner")
        limit = min(_number(asked.get("limit"), "limit") or 50, _LISTED)
        return await self._read(self._list, whose, asked.get("search", ""), asked.get("before", ""), limit)

    async def transcript(self, request: Request, owner: str) -> Answered:
        before = _number(request.query_params.get("before"), "before")
        return await self._read(self._transcript, owner, identifier_of(request), before)

    async def calls(self, request: Request, owner: str) -> Answered:
        return await self._read(self._calls, owner, identifier_of(request))

    async def verify(self, request: Request, owner: str) -> Answered:
        return await self._read(self._verify, owner, identifier_of(request))

    async def fork(self, request: Request, owner: str) -> Answered:
        at = (await self._body(request)).get("at")
        if at is not None and (not isinstance(at, int) or isinstance(at, bool)):
            raise RequestInvalidity("at is the number of a message.", parameter="at")
        return await self._read(self._fork, owner, identifier_of(request), at)

    async def _read(self, function: Callable[..., Value], *arguments: object) -> Value:
        async with self._one:
            return await run_in_thread(function, *arguments, name="journal", patient=False)

    def _list(self, owner: str | None, search: str, before: str, limit: int) -> dict[str, Any]:
        found: set[tuple[str, str]] | None = None
        if search:
            found = {(one.conversation, one.owner) for one in self._journal.lines(owner=owner, text=search)}
        listed: list[Summary] = []
        for one in self._journal.conversations(owner=owner):
            fits = found is None or (one.identifier, one.owner) in found
            if one.deleted or not fits or (before and one.last >= before):
                continue
            listed.append(one)
            if len(listed) > limit:
                break
        return {"conversations": [self._short(one) for one in listed[:limit]], "more": len(listed) > limit}

    def _short(self, summary: Summary) -> dict[str, Any]:
        total = self._journal.statistics(conversation=summary.identifier, owner=summary.owner).total
        return {
            "identifier": summary.identifier,
            "title": summary.title or summary.words,
            "created": summary.first,
            "changed": summary.last,
            "model": summary.model,
            "turns": summary.turns,
            "calls": summary.calls,
            "tokens": {"input": total.input_tokens, "output": total.output_tokens},
            "finish": summary.finish or ("" if not summary.conducted else None),
            "caller": summary.owner,
        }

    def _transcript(self, owner: str, identifier: str, before: int | None) -> dict[str, Any]:
        summary = self._find(owner, identifier)
        restored = self._journal.restore(summary.identifier, owner=summary.owner)
        canisters = restored.conversation.canisters
        end = len(canisters) if before is None else min(before, len(canisters))
        place = max(end - _PAGE, 0)
        own = summary.conducted and summary.owner == owner and not restored.missing
        return {
            **self._short(summary),
            "messages": [message_of(one) for one in canisters[place:end]],
            "place": place,
            "more": place > 0,
            "count": len(canisters),
            "cuts": [at for at in range(max(place, 1), end + 1) if _can_cut(restored, canisters, at)] if own else [],
            "chat": own,
        }

    def _calls(self, owner: str, identifier: str) -> dict[str, Any]:
        summary = self._find(owner, identifier)
        lines = list(self._journal.lines(summary.identifier, owner=summary.owner))
        starts = _starts(lines)
        return {
            "calls": [_call(state, starts.get((state.turn, state.identifier))) for state in fold(lines)],
            "turns": list(_turns(lines)),
        }

    def _verify(self, owner: str, identifier: str) -> dict[str, Any]:
        self._find(owner, identifier)
        found, end = self._journal.verify(), self._journal.anchor()
        if found is None:
            limit = "Truncation can be detected only with: ripieno journal verify --anchor FILE"
            return {"valid": True, "message": f"Verified {end.number} lines, none altered. {limit}"}
        where = "The journal" if found.number is None else f"Line {found.number}"
        return {"valid": False, "message": f"{where}: {found.reason}"}

    def _fork(self, owner: str, identifier: str, at: int | None) -> dict[str, Any]:
        summary = self._journal.summary(identifier, owner=owner)
        forked = self._journal.fork(summary.identifier, owner=owner, until=at)
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


def _number(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise RequestInvalidity(f"{name} is a number.", parameter=name)
    return int(text)


def _can_cut(restored: Restored, canisters: tuple[Canister, ...], at: int) -> bool:
    if at == len(canisters) and restored.conversation.open:
        return False
    try:
        check_cut(canisters[:at], at, canisters)
    except InputError:
        return False
    return True


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
