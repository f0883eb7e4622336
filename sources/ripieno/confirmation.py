"""What may run, who is asked, and what they may answer.

Rules decide first; a confirmer is asked about the rest. Nobody to ask means denied.
"""

import asyncio
import contextlib
import dataclasses
import sys
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

from frozendict import frozendict

from ripieno import calls
from ripieno.controls import Rules
from ripieno.fields import Field, fields_of
from ripieno.jsonvalues import canonical
from ripieno.naming import is_wildcard, matches
from ripieno.policies import HARMLESS, Effect, Policy
from ripieno.schemas import Schema
from ripieno.threads import run_in_thread


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the rules say of a tool, and which of them said it."""

    action: Literal["run", "ask", "deny"]
    reason: str


_HARMLESS = {effect: Verdict(action="run", reason=f"its effect is {effect}") for effect in HARMLESS}


def judge(identity: str, policy: Policy, rules: Rules) -> Verdict:
    """Whether a tool runs, is asked about, or is denied. The stricter rule holds.

    A tool that can destroy is approved only by its full name, never by a wildcard; ``confirm = true`` always asks.
    """
    for pattern in rules.deny:
        if matches(pattern, identity):
            return Verdict(action="deny", reason=f"[confirmation] deny has {pattern!r}")
    if policy.confirm:
        return Verdict(action="ask", reason="its descriptor has confirm = true")
    for pattern in rules.ask:
        if matches(pattern, identity):
            return Verdict(action="ask", reason=f"[confirmation] ask has {pattern!r}")
    if policy.harmless:
        return _HARMLESS[policy.effect]
    for pattern in rules.approve:
        if matches(pattern, identity) and not (policy.effect == "destructive" and is_wildcard(pattern)):
            return Verdict(action="run", reason=f"[confirmation] approve has {pattern!r}")
    return Verdict(action="ask", reason=f"its effect is {policy.effect}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a tool asks in the middle of a call. ``text`` is the tool's, or its server's, and nobody has checked it.

    ``schema`` is a JSON Schema of the object of values that would answer it.
    """

    text: str
    schema: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationRequest:
    """A call that somebody is asked about: the full arguments, nothing left out.

    With a ``question`` it is the tool that asks: ``arguments`` are the defaults then, ``Edit`` gives other values,
    ``Approve`` gives the defaults, and ``Deny`` none.
    """

    invocation: str
    tool: str
    effect: Effect
    arguments: frozendict[str, object]
    reason: str
    conversation: str = ""
    question: Question | None = None

    @property
    def text(self) -> str:
        """The canonical arguments, with every character made visible."""
        return visible(canonical(self.arguments).decode())


@dataclasses.dataclass(frozen=True, slots=True)
class Approve:
    """The call may run, this once."""


@dataclasses.dataclass(frozen=True, slots=True)
class Deny:
    """The call may not run; a model reads ``advice``."""

    advice: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Edit:
    """The call may run with these arguments instead; they are validated like any others."""

    arguments: Mapping[str, Any]


Answer: TypeAlias = Approve | Deny | Edit


class Confirmer(Protocol):
    """Answers requests for confirmation. Applications write these."""

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """The answer. Raising, or answering anything else, counts as a denial."""
        ...


async def ask(confirmer: Confirmer, request: ConfirmationRequest) -> Answer:
    """What a confirmer answers. One that raises, is cancelled from within, or answers anything else, denies.

    It runs as a task of its own, and has the grace of a tool to end when this is cancelled.
    """
    try:
        task = asyncio.ensure_future(confirmer.confirm(request))
    except Exception as error:
        return Deny(f"The confirmation failed with {type(error).__name__}.")
    # An error that comes after we left is nobody's any more.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait((task,), timeout=calls.GRACE)
        raise
    if task.cancelled():
        return Deny("The confirmation was cancelled.")
    failure = task.exception()
    if failure is not None:
        return Deny(f"The confirmation failed with {type(failure).__name__}.")
    answer: Any = task.result()
    if isinstance(answer, Deny):
        return Deny(str(answer.advice))
    return answer if isinstance(answer, Approve | Edit) else Deny("The confirmation gave no answer.")


class RulesConfirmer:
    """Nobody is there: what the rules do not approve is denied, and the text names the key to set."""

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """Denies, and says how it could be approved."""
        return Deny(
            f"Nobody is there to ask ({request.reason}). "
            f'The user can allow it with approve = ["{request.tool}"] under [confirmation].'
        )


#: How often a person is asked for one property of what a tool asks.
_TRIES = 3


class TerminalConfirmer:
    """Asks the person at the terminal, one request at a time; no terminal means denied."""

    def __init__(self, read: Callable[[str], str] | None = None) -> None:
        self._read = read or _read_line
        self._turn = asyncio.Lock()

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """What the person types: y, or n, with advice to the model after it if they like; or values, one a line."""
        if request.question is not None:
            return await self._inquire(request, request.question)
        prompt = (
            f"\n{visible(request.tool)} wants to run ({visible(request.reason)}).\n  {request.text}\n"
            "Allow it? [y/N, or advice for the model] "
        )
        async with self._turn:
            try:
                answer = (await self._line(prompt)).strip()
            except (EOFError, OSError):
                return Deny("Nobody is at the terminal to ask.")
        if answer.casefold() in ("y", "yes"):
            return Approve()
        if answer.casefold() in ("", "n", "no"):
            return Deny("The user said no.")
        return Deny(f"The user said no, and adds: {answer}")

    async def _inquire(self, request: ConfirmationRequest, question: Question) -> Answer:
        """Values for the properties of a schema, one by one; each is asked for again while it does not fit."""
        prompt = f"\n{visible(request.tool)} asks, in words of its own:\n  {visible(question.text)}\n"
        values: dict[str, Any] = {}
        async with self._turn:
            try:
                answer = await self._line(f"{prompt}Answer it? [y/N] ")
                if answer.strip().casefold() not in ("y", "yes"):
                    return _decline("The user did not answer.")
                for field in fields_of(question.schema):
                    line = await self._field(field)
                    if line is None:
                        return _decline(f"{field.name} was not answered in {_TRIES} tries.")
                    if line:
                        values[field.name] = field.read(line)
            except (EOFError, OSError):
                return _decline("Nobody is at the terminal to ask.")
        # Properties can fit one by one, and not together.
        schema = Schema.of(question.schema, closed=False)
        for problem in schema.validate(schema.complete(values)):
            return _decline(f"The answers do not fit: {problem.message}")
        return Edit(values)

    async def _field(self, field: Field) -> str | None:
        """A line that fits the property, empty where it is left out; None after some that do not fit."""
        for _ in range(_TRIES):
            line = (await self._line(f"  {visible(field.label)}: ")).strip()
            complaint = field.complaint(line)
            if not complaint:
                return line
            _say(f"    {visible(complaint)}")
        return None

    async def _line(self, prompt: str) -> str:
        try:
            line = await run_in_thread(self._read, prompt, name="confirmation", patient=False)
        except (EOFError, asyncio.CancelledError):
            # Nobody has ended the line of the prompt, and what is said next must not stand behind it.
            _say("")
            raise
        if not line.endswith("\n"):
            _say("")
        return line


def _decline(reason: str) -> Deny:
    """A question that stays unanswered, which the person is told."""
    _say(f"Declined: {visible(reason)}")
    return Deny(reason)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _read_line(prompt: str) -> str:
    """A line from the controlling terminal, which tools that inherit standard input cannot answer on."""
    with open("/dev/tty", encoding="utf-8") as terminal:
        sys.stderr.write(prompt)
        sys.stderr.flush()
        line = terminal.readline()
    if not line:
        raise EOFError
    return line


#: Letters without a shape.
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0")


def visible(text: str) -> str:
    """Text in which no character can hide, move the cursor or turn the direction of reading."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _is_plain(character) else _escaped(character) for character in text)


def _is_plain(character: str) -> bool:
    if character.isascii():
        return character.isprintable()
    # Letters that are written from right to left would turn their neighbours round.
    return character.isalnum() and unicodedata.bidirectional(character) == "L" and character not in _FILLERS


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
