"""Repairs conversations so that every wire accepts them.

A repair depends only on the canisters, so the same conversation gets the same repairs. A conversation that was
conducted here needs none and is returned unchanged.
"""

import collections
import dataclasses
import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

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
    UserCanister,
)
from ripieno.canisters.faults import Fault
from ripieno.exceptions import InputError
from ripieno.lazy.expressions import expression
from ripieno.values import Value

C = TypeVar("C", bound=Canister)

_LOST = Fault(
    category="outcome_unknown",
    code="result_missing",
    message="The result of this call was lost.",
    suggestion="It is unknown whether the call had an effect. Check before you call again.",
)
#: Number of digests to try for a replacement.
_ATTEMPTS = 1000
_ILLEGAL = expression(r"[^A-Za-z0-9_-]")
#: The user's text before a conversation that the assistant begins.
_BEGINNING = "(The conversation goes on.)"
#: Keys in a run's memory: the part of the conversation known to be valid, and the replacements made.
_VALID, _MADE = "conversation valid", "conversation repaired"


class Requirements(Value, kw_only=True):
    """A wire's requirements on a conversation. The patterns match whole names and identifiers."""

    names: re.Pattern[str] = re.compile(r"[A-Za-z0-9_-]{1,64}")
    identifiers: re.Pattern[str] = re.compile(r"(?s:.{1,64})")
    #: Whether the assistant must not be first.
    user_first: bool = False


class Repaired(Value, kw_only=True):
    """The canisters in a form that a wire accepts, and descriptions of the repairs."""

    canisters: Sequence[Canister]
    repairs: tuple[str, ...] = ()


def repair(
    canisters: Sequence[Canister], requirements: Requirements, memory: dict[object, Any] | None = None
) -> Repaired:
    """The same conversation, in which each call has one result before the assistant speaks again.

    * A missing result is added: the outcome of the call is unknown.
    * A result in the wrong place, or after a supervisor's canister, is moved to its call. A result without a call is
      left out, as is a second result of a call.
    * A call with a duplicate or invalid identifier gets another, and so does its result. An invalid name is replaced.

    ``memory`` passes data from one request of a run to the next.
    """
    kept: dict[object, Any] = {} if memory is None else memory
    if _is_sound(canisters, requirements, kept):
        return Repaired(canisters=canisters)
    repairer = _Repairer(requirements, kept.setdefault(_MADE, {}))
    repaired = tuple(repairer.repair(canisters))
    return Repaired(
        canisters=repaired, repairs=tuple(f"{what}: {count}" for what, count in repairer.repairs.items() if count)
    )


def _is_sound(canisters: Sequence[Canister], requirements: Requirements, memory: dict[object, Any]) -> bool:
    """Whether no repair is needed. What the run's last request has checked is not checked again."""
    known, taken = memory.get(_VALID, ((), set[str]()))
    seen = len(known)
    # Tuples compare identical objects quickly. A history strategy may have changed the beginning.
    if tuple(canisters[:seen]) != known:
        seen, taken = 0, set[str]()
    if requirements.user_first and _begins_with_assistant(canisters):
        return False
    names, identifiers = requirements.names.fullmatch, requirements.identifiers.fullmatch
    waiting: set[str] = set()
    answered = False
    for canister in itertools.islice(canisters, seen, None):
        if isinstance(canister, ResultCanister):
            if canister.invocation_id not in waiting:
                return False
            waiting.discard(canister.invocation_id)
            answered = True
            continue
        # Nothing may separate results: some wires send a supervisor's canister as a message of its own.
        if waiting and (isinstance(canister, SupervisorCanister) or (answered and _is_of_assistant(canister))):
            return False
        answered = not _is_of_assistant(canister)
        if isinstance(canister, InvocationCanister):
            identifier = canister.identifier
            if identifier in taken or not identifiers(identifier) or not names(canister.name):
                return False
            taken.add(identifier)
            waiting.add(identifier)
    if waiting:
        return False
    if canisters:
        memory[_VALID] = (tuple(canisters), taken)
    return True


def _begins_with_assistant(canisters: Iterable[Canister]) -> bool:
    """Whether the assistant is first. Results are ignored: before their call, none remains."""
    begun = False
    for canister in canisters:
        # A supervisor after empty user content does not lead: it would be the first message.
        if _is_of_assistant(canister) or (begun and isinstance(canister, SupervisorCanister)):
            return True
        if isinstance(canister, UserCanister | DocumentCanister):
            begun = True
            if any(map(_says_something, canister.content)):
                return False
    return False


def _says_something(content: Content) -> bool:
    return bool(content.text.strip()) if isinstance(content, TextualContent) else not isinstance(content, OpaqueContent)


class _Repairer:
    """Repairs one conversation. ``made`` keeps earlier replacements, so that their encodings stay valid."""

    def __init__(self, requirements: Requirements, made: dict[object, Any]) -> None:
        self.repairs: collections.Counter[str] = collections.Counter()
        self._requirements = requirements
        self._made = made
        self._taken: set[str] = set()
        self._substitutes: dict[str, Iterator[str]] = {}

    def repair(self, canisters: Sequence[Canister]) -> Iterator[Canister]:
        if self._requirements.user_first and _begins_with_assistant(canisters):
            canisters = self._begun(canisters)
        results: dict[str, collections.deque[ResultCanister]] = collections.defaultdict(collections.deque)
        for canister in canisters:
            if isinstance(canister, ResultCanister):
                results[canister.invocation_id].append(canister)
        messages = [(one, tuple(group)) for one, group in itertools.groupby(canisters, _is_of_assistant)]
        for (of_assistant, group), (_, others) in itertools.pairwise([*messages, (False, ())]):
            if not of_assistant:
                yield from (one for one in group if not isinstance(one, ResultCanister))
                continue
            following = [*itertools.takewhile(lambda one: not isinstance(one, SupervisorCanister), others)]
            answers: list[Canister] = []
            for canister in group:
                if not isinstance(canister, InvocationCanister):
                    yield canister
                    continue
                waiting = results[canister.identifier]
                result = waiting.popleft() if waiting else None
                if result is not None and not any(one is result for one in following):
                    self.repairs["results moved to their calls"] += 1
                call = self._call(canister)
                yield call
                answers.append(self._answer(call, result))
            yield from answers
        if left := sum(map(len, results.values())):
            self.repairs["results without a call left out"] += left

    def _begun(self, canisters: Sequence[Canister]) -> Sequence[Canister]:
        self.repairs["a user message added before the assistant's first"] += 1
        leading = sum(1 for _ in itertools.takewhile(lambda one: isinstance(one, SupervisorCanister), canisters))
        timestamp = canisters[leading].timestamp
        user = UserCanister(content=(TextualContent(text=_BEGINNING),), timestamp=timestamp)
        return (*canisters[:leading], self._remember(_BEGINNING, lambda: user, None), *canisters[leading:])

    def _call(self, call: InvocationCanister) -> InvocationCanister:
        """The call with an identifier and a name that the wire accepts."""
        names = self._requirements.names
        name = call.name if names.fullmatch(call.name) else next(_substitutes(call.name or "unnamed", names))
        identifier = call.identifier
        if identifier in self._taken or not self._requirements.identifiers.fullmatch(identifier):
            # One iterator per identifier: if a server repeats one in every turn, no substitute is tried twice.
            if identifier not in self._substitutes:
                self._substitutes[identifier] = _substitutes(identifier, self._requirements.identifiers)
            identifier = next(one for one in self._substitutes[identifier] if one not in self._taken)
            self.repairs["calls given another identifier"] += 1
        self._taken.add(identifier)
        self.repairs["calls given another name"] += name != call.name
        if (identifier, name) == (call.identifier, call.name):
            return call
        made = (id(call), identifier, name)
        return self._remember(made, lambda: dataclasses.replace(call, identifier=identifier, name=name), call)

    def _answer(self, call: InvocationCanister, result: ResultCanister | None) -> ResultCanister:
        identifier = call.identifier
        if result is None:
            self.repairs["missing results added"] += 1
            lost = ResultCanister(invocation_id=identifier, error=_LOST, timestamp=call.timestamp)
            return self._remember(("lost", identifier), lambda: lost, None)
        if result.invocation_id == identifier:
            return result
        made = (id(result), identifier)
        return self._remember(made, lambda: dataclasses.replace(result, invocation_id=identifier), result)

    def _remember(self, key: object, make: Callable[[], C], original: object) -> C:
        """The value under a key, made once. ``original`` is kept alive, since its address is part of the key."""
        if key not in self._made:
            self._made[key] = (make(), original)
        made: C = self._made[key][0]
        return made


def _is_of_assistant(canister: Canister) -> bool:
    return isinstance(canister, AssistantCanister | InvocationCanister)


def _substitutes(original: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """Replacements that fit a pattern, best first. Errors: ``InputError``."""
    clean = _ILLEGAL.sub("_", original)
    yield from filter(pattern.fullmatch, (clean[:64], f"_{clean}"[:64]) if clean else ())
    for number in range(_ATTEMPTS):
        digest = hashlib.sha256(f"{number} {original}".encode(errors="surrogatepass")).hexdigest()
        yield from filter(pattern.fullmatch, (f"{clean[:31]}_{digest[:8]}", f"call_{digest[:24]}", digest[:9]))
    raise InputError(f"No valid replacement was found for {original[:100]!r}: the wire needs {pattern.pattern}.")
