"""Conversations that another program, another provider or an accident has made, mended so that any wire takes them.

What is mended depends on the canisters alone: the same conversation is mended in the same way each time. One that was
conducted here needs nothing, and is given back as it is.
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

C = TypeVar("C", bound=Canister)

_LOST = Fault(
    category="outcome_unknown",
    code="result_missing",
    message="The result of this call was lost.",
    suggestion="Whether it had an effect is not known: look before you call again.",
)
#: Digests that are tried; a wire that takes none of them takes nothing.
_ATTEMPTS = 1000
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
#: What is said first where the assistant spoke first.
_BEGINNING = "(The conversation goes on.)"
#: Where a run's memory has how much of its conversation is in order, and what was made instead of what.
_FOUND, _MADE = "conversation in order", "conversation mended"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What a wire wants of a conversation. Patterns are those of whole names and identifiers."""

    names: re.Pattern[str] = re.compile(r"[A-Za-z0-9_-]{1,64}")
    identifiers: re.Pattern[str] = re.compile(r"(?s:.{1,64})")
    #: Whether somebody else must have spoken before the assistant.
    asked_first: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """The canisters as a wire takes them, and what was done to them, in words."""

    canisters: Sequence[Canister]
    repairs: tuple[str, ...] = ()


def mend(canisters: Sequence[Canister], requirements: Requirements, memory: dict[object, Any] | None = None) -> Mended:
    """The same conversation, in which each call has one result, before the assistant speaks again.

    * A result that is missing is made: what became of the call is not known.
    * A result at the wrong place, or behind a word of the supervisor's, is moved to its call. One of no call is left
      out, and a second one of a call, too.
    * A call whose identifier is taken, or that the wire would refuse, gets another, and its result with it; so does a
      name that the wire would refuse.

    ``memory`` is what a run's last request left, and takes what this one leaves.
    """
    kept: dict[object, Any] = {} if memory is None else memory
    if _is_sound(canisters, requirements, kept):
        return Mended(canisters=canisters)
    mender = _Mender(requirements, kept.setdefault(_MADE, {}))
    mended = tuple(mender.mend(canisters))
    return Mended(
        canisters=mended, repairs=tuple(f"{what}: {count}" for what, count in mender.repairs.items() if count)
    )


def _is_sound(canisters: Sequence[Canister], requirements: Requirements, memory: dict[object, Any]) -> bool:
    """Whether nothing is to be mended. What the last request of the same run has found is not looked at again."""
    known, taken = memory.get(_FOUND, ((), set[str]()))
    seen = len(known)
    # Tuples compare the same objects without looking into them. A history's strategy may have changed the beginning.
    if tuple(canisters[:seen]) != known:
        seen, taken = 0, set[str]()
    if requirements.asked_first and _begins_with_assistant(canisters):
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
        # Nobody speaks between results: where supervisors have messages of their own, a word would part them.
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
        memory[_FOUND] = (tuple(canisters), taken)
    return True


def _begins_with_assistant(canisters: Iterable[Canister]) -> bool:
    """Whether the assistant speaks before anybody else, results not counted: before its call, none will stay there."""
    begun = False
    for canister in canisters:
        # A supervisor behind words that say nothing is no leading one: it would have the first message.
        if _is_of_assistant(canister) or (begun and isinstance(canister, SupervisorCanister)):
            return True
        if isinstance(canister, UserCanister | DocumentCanister):
            begun = True
            if any(map(_says_something, canister.content)):
                return False
    return False


def _says_something(content: Content) -> bool:
    return bool(content.text.strip()) if isinstance(content, TextualContent) else not isinstance(content, OpaqueContent)


class _Mender:
    """Mends one conversation. ``made`` has what was made before: the same objects keep their encodings."""

    def __init__(self, requirements: Requirements, made: dict[object, Any]) -> None:
        self.repairs: collections.Counter[str] = collections.Counter()
        self._requirements = requirements
        self._made = made
        self._taken: set[str] = set()
        self._substitutes: dict[str, Iterator[str]] = {}

    def mend(self, canisters: Sequence[Canister]) -> Iterator[Canister]:
        if self._requirements.asked_first and _begins_with_assistant(canisters):
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
            self.repairs["results of no call left out"] += left

    def _begun(self, canisters: Sequence[Canister]) -> Sequence[Canister]:
        """With a word of the user before the assistant's."""
        self.repairs["the assistant began, and so something stands before it"] += 1
        leading = sum(1 for _ in itertools.takewhile(lambda one: isinstance(one, SupervisorCanister), canisters))
        timestamp = canisters[leading].timestamp
        said = UserCanister(content=(TextualContent(text=_BEGINNING),), timestamp=timestamp)
        return (*canisters[:leading], self._remember(_BEGINNING, lambda: said, None), *canisters[leading:])

    def _call(self, call: InvocationCanister) -> InvocationCanister:
        """The call under an identifier and a name that the wire takes."""
        names = self._requirements.names
        name = call.name if names.fullmatch(call.name) else next(_substitutes(call.name or "unnamed", names))
        identifier = call.identifier
        if identifier in self._taken or not self._requirements.identifiers.fullmatch(identifier):
            # One iterator for each: where a server uses one identifier turn after turn, none is tried twice.
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
        """The result of a call, under its identifier."""
        identifier = call.identifier
        if result is None:
            self.repairs["results that were lost"] += 1
            lost = ResultCanister(invocation_id=identifier, error=_LOST, timestamp=call.timestamp)
            return self._remember(("lost", identifier), lambda: lost, None)
        if result.invocation_id == identifier:
            return result
        made = (id(result), identifier)
        return self._remember(made, lambda: dataclasses.replace(result, invocation_id=identifier), result)

    def _remember(self, key: object, make: Callable[[], C], original: object) -> C:
        """What was made under this key, or is now. The original is kept with it: its address is its name."""
        if key not in self._made:
            self._made[key] = (make(), original)
        made: C = self._made[key][0]
        return made


def _is_of_assistant(canister: Canister) -> bool:
    return isinstance(canister, AssistantCanister | InvocationCanister)


def _substitutes(original: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """Texts that a pattern takes instead of another one, best first. Errors: ``InputError``."""
    clean = _ILLEGAL.sub("_", original)
    yield from filter(pattern.fullmatch, (clean[:64], f"_{clean}"[:64]) if clean else ())
    for number in range(_ATTEMPTS):
        digest = hashlib.sha256(f"{number} {original}".encode(errors="surrogatepass")).hexdigest()
        yield from filter(pattern.fullmatch, (f"{clean[:31]}_{digest[:8]}", f"call_{digest[:24]}", digest[:9]))
    raise InputError(f"No text was found that the wire takes for {original[:100]!r}: it must fit {pattern.pattern}.")
