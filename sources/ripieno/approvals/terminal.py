"""The person at the terminal: shown a call whole, and asked for a yes, a no, advice, or other arguments."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from ripieno.approvals.forms import Field, fields_of
from ripieno.approvals.requests import Answer, Approve, ConfirmationRequest, Deny, Edit, Question
from ripieno.approvals.visible_text import visible
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import JsonInvalidity
from ripieno.jsonvalues import is_table, parse, thaw
from ripieno.schemas import Schema

#: How often a person is asked for one property of what a tool asks, or for other arguments.
_TRIES = 3
#: Lines that a person may type over one request.
_LINES = 50
_COLUMNS = 80
_NOT_YET = "Look at the whole of it first: v."


class TerminalConfirmer:
    """Asks the person at the terminal, one request at a time; no terminal means denied.

    ``read`` shows a prompt and gives the line that is typed; ``edit`` gives a text as it was edited, None where it was
    left alone. Without ``edit``, other arguments are typed as one line of JSON.

    ::

        ripieno.assemble("ripieno.toml", confirmer=TerminalConfirmer())
    """

    def __init__(
        self, read: Callable[[str], str] | None = None, *, edit: Callable[[str], str | None] | None = None
    ) -> None:
        self._read = read or _read_line
        self._edit = edit
        self._turn = asyncio.Lock()

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """What the person types: a letter of the menu, or advice to the model; or values, one a line."""
        if request.question is not None:
            return await self._inquire(request, request.question)
        async with self._turn:
            try:
                return await self._decide(request)
            except (EOFError, OSError):
                return Deny("Nobody is at the terminal to ask.")

    async def _decide(self, request: ConfirmationRequest) -> Answer:
        """Shows the call, and asks until there is an answer. What was not seen whole is not approved."""
        shown = request.shown
        menu = _menu(request, abridged=shown.abridged)
        prompt = f"\n{shown.render(_columns())}\n{menu}"
        seen = not shown.abridged
        for _ in range(_LINES):
            line = (await self._line(prompt)).strip()
            prompt = menu
            match line.casefold():
                case "y" | "yes" | "a" | "always" if not seen:
                    _say(_NOT_YET)
                case "y" | "yes":
                    return Approve()
                case "a" | "always" if request.waivable:
                    return Approve(always=True)
                case "v":
                    _say(shown.whole(_columns()))
                    seen = True
                case "e":
                    arguments = await self._other_arguments(request)
                    if arguments is not None:
                        return Edit(arguments)
                case "" | "n" | "no":
                    return Deny("The user said no.")
                case "a" | "always":
                    _say("It is always asked about; nothing here changes that.")
                case _:
                    return Deny(f"The user said no, and adds: {line}")
        return Deny("The user gave no answer.")

    async def _other_arguments(self, request: ConfirmationRequest) -> dict[str, Any] | None:
        """The arguments as the person would have them; None to be asked again."""
        text = json.dumps(thaw(request.arguments), indent=2)
        for _ in range(_TRIES):
            if self._edit is None:
                line = await self._line("The arguments, as one line of JSON (nothing: as they are): ")
                if not line.strip():
                    return None
                text = line
            else:
                edited = await run_in_thread(self._edit, text, name="editor", patient=False)
                if edited is None:
                    return None
                text = edited
            try:
                arguments = parse(text)
            except JsonInvalidity as invalidity:
                _say(f"That is no JSON: {visible(str(invalidity))}")
                continue
            if is_table(arguments):
                plain: dict[str, Any] = thaw(arguments)
                return plain
            _say("The arguments are an object, in braces.")
        return None

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


def _menu(request: ConfirmationRequest, *, abridged: bool) -> str:
    exact = "just this call" if request.effect == "destructive" else visible(request.tool)
    return "".join(
        (
            "Allow it? [y/N",
            ", v: view all" if abridged else "",
            f", a: always allow {exact} in this session" if request.waivable else "",
            ", e: edit, or advice for the model] ",
        )
    )


def _columns() -> int:
    """The width of the terminal on which prompts are shown."""
    try:
        return os.get_terminal_size(2).columns or _COLUMNS
    except OSError:
        return _COLUMNS


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
