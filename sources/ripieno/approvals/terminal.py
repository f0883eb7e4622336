"""The confirmer at the terminal: shows a call, and asks for a yes, a no, advice, or other arguments."""

import asyncio
import dataclasses
import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from ripieno.approvals.allowances import ways
from ripieno.approvals.forms import Field, fields_of
from ripieno.approvals.presentation import Presentation
from ripieno.approvals.requests import Answer, Approve, ConfirmationRequest, Deny, Edit, Question
from ripieno.approvals.visible_text import visible
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import InputError, JsonInvalidity
from ripieno.jsonvalues import freeze, is_table, parse, thaw
from ripieno.schemas import Schema

#: Tries for one property of a tool's question, or for other arguments.
_TRIES = 3
#: Lines that a person may type for one request.
_LINES = 50
_COLUMNS = 80
_NOT_YET = "View the whole call first: v."
_EACH = "A rule requires confirmation of each call; it cannot be allowed for later calls."
_ONCE = "You edited this call, so a yes is for this call alone; there is no always."
_ONE_LINE = "Several lines are no answer. Nothing is decided; type one line."
_NO_TERMINAL = "There is no terminal on which to ask the user."


class TerminalConfirmer:
    """Asks the person at the terminal, one request at a time. Without a terminal, it denies.

    ``read`` shows a prompt and returns the typed line; several lines, which were pasted, are no answer. ``edit``
    returns the edited text, or None if it is unchanged. Without ``edit``, other arguments are typed as one line of
    JSON. ``single``: the person's own call, so there is no model to advise and no session.

    ::

        ripieno.assemble("ripieno.toml", confirmer=TerminalConfirmer())
    """

    def __init__(
        self,
        read: Callable[[str], str] | None = None,
        *,
        edit: Callable[[str], str | None] | None = None,
        single: bool = False,
    ) -> None:
        self._read = read or _read_line
        self._edit = edit
        self._single = single
        self._turn = asyncio.Lock()

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """The person's answer: a letter of the menu, advice for the model, or values, one per line."""
        if request.question is not None:
            return await self._inquire(request, request.question)
        async with self._turn:
            try:
                return await self._decide(request)
            except (EOFError, OSError):
                return Deny(_NO_TERMINAL)

    async def _decide(self, request: ConfirmationRequest) -> Answer:
        """Shows the call, and asks until there is an answer. An abridged call must be viewed before approval.

        A call with other arguments is shown like any other, and asked about again.
        """
        edited: dict[str, Any] | None = None
        shown, menu, prompt, seen = self._question(request)
        for _ in range(_LINES):
            line = await self._line(prompt)
            prompt = menu
            match line.casefold():
                case "y" | "yes" | "a" | "always" if not seen:
                    _print(_NOT_YET)
                case "y" | "yes":
                    return Approve() if edited is None else Edit(edited)
                case "a" | "always" if request.waivable and not self._single:
                    return Approve(always=True)
                case "v":
                    _print(shown.whole(_columns()))
                    seen = True
                case "e":
                    arguments = await self._other_arguments(request)
                    if arguments is not None:
                        allows = request.waivable and not self._single
                        edited, request = arguments
                        shown, menu, prompt, seen = self._question(request)
                        prompt = f"{prompt.removesuffix(menu)}{_ONCE}\n{menu}" if allows else prompt
                case "" | "n" | "no":
                    return Deny("The user said no.")
                case word:
                    reply = self._reply(word, request, _EACH if edited is None else _ONCE)
                    if not reply:
                        return Deny(f"The user said no, and adds: {line}")
                    _print(reply)
        return Deny("The user gave no answer.")

    def _reply(self, word: str, request: ConfirmationRequest, never: str) -> str:
        """The reply to a line that is no answer; empty if the line is advice. ``never``: why not always."""
        keys = _help(request, single=self._single)
        if "\n" in word:
            return _ONE_LINE
        if word in ("?", "help"):
            return keys
        if re.fullmatch(r"/\w*", word):
            return f"{keys}\nThis is no answer. Commands such as {word} are for the prompt of ripieno chat."
        if word in ("a", "always") and not self._single:
            return never
        if len(word) == 1:
            return f"{visible(word)} is no key here.\n{keys}"
        return f"{visible(word)!r} is no answer. Type y for yes, n for no." if self._single else ""

    def _question(self, request: ConfirmationRequest) -> tuple[Presentation, str, str, bool]:
        """The shown part of a call, the menu, the whole prompt, and whether nothing is left out."""
        shown = request.shown
        menu = _menu(request, abridged=shown.abridged, single=self._single)
        return shown, menu, f"\n{shown.render(_columns())}\n{menu}", not shown.abridged

    async def _other_arguments(self, request: ConfirmationRequest) -> tuple[dict[str, Any], ConfirmationRequest] | None:
        """The arguments that the person enters, with the request for them; None to return to the menu."""
        text = json.dumps(thaw(request.arguments), indent=2)
        for _ in range(_TRIES):
            entered: str | None
            if self._edit is None:
                entered = await self._line("The arguments, as one line of JSON (empty: unchanged): ")
            else:
                try:
                    entered = await run_in_thread(self._edit, text, name="editor", patient=False)
                except OSError as error:
                    _print(f"The editor failed: {visible(str(error))}")
                    return None
            if not entered:
                return None
            text = entered
            try:
                arguments = parse(text)
            except JsonInvalidity as invalidity:
                _print(f"That is not JSON: {visible(str(invalidity))}")
                continue
            if not is_table(arguments):
                _print("The arguments must be a JSON object, in braces.")
                continue
            plain: dict[str, Any] = thaw(arguments)
            if request.revise is None:
                return plain, dataclasses.replace(request, arguments=freeze(plain), presentation=None, waivable=False)
            try:
                return plain, await request.revise(plain)
            except InputError as error:
                _print(f"The tool would refuse these arguments: {visible(str(error))}")
        return None

    async def _inquire(self, request: ConfirmationRequest, question: Question) -> Answer:
        """Values for the properties of a schema, one by one; an invalid value is requested again."""
        prompt = f"\n{visible(request.tool)} asks (not verified):\n  {visible(question.text)}\n"
        values: dict[str, Any] = {}
        async with self._turn:
            try:
                answer = await self._line(f"{prompt}Answer it? [y/N] ")
                if answer.casefold() not in ("y", "yes"):
                    return _decline("The user did not answer.")
                for field in fields_of(question.schema):
                    line = await self._field(field)
                    if line is None:
                        return _decline(f"{field.name} was not answered in {_TRIES} tries.")
                    if line:
                        values[field.name] = field.read(line)
            except (EOFError, OSError):
                return _decline(_NO_TERMINAL)
        # Properties can be valid one by one, and not together.
        schema = Schema.of(question.schema, closed=False)
        for problem in schema.validate(schema.complete(values)):
            return _decline(f"The answers are invalid: {problem.message}")
        return Edit(values)

    async def _field(self, field: Field) -> str | None:
        """A valid line for the property, empty if it is left out; None after too many invalid ones."""
        for _ in range(_TRIES):
            line = await self._line(f"  {visible(field.label)}: ")
            complaint = _ONE_LINE if "\n" in line else field.complaint(line)
            if not complaint:
                return line
            _print(f"    {visible(complaint)}")
        return None

    async def _line(self, prompt: str) -> str:
        """The typed line, stripped; several that were pasted, as they are."""
        try:
            line = await run_in_thread(self._read, prompt, name="confirmation", patient=False)
        except (EOFError, asyncio.CancelledError):
            # Ends the line of the prompt, so that the next output begins on a new one.
            _print("")
            raise
        if not line.endswith("\n"):
            _print("")
        line = line.removesuffix("\n")
        return line if "\n" in line else line.strip()


def _menu(request: ConfirmationRequest, *, abridged: bool, single: bool) -> str:
    exact = "just this call" if request.effect == "destructive" else visible(request.tool)
    view = ", v: view all" if abridged else ""
    if single:
        return f"Allow it? [y/N{view}, e: edit] "
    always = f", a: always allow {exact} in this conversation" if request.waivable else ""
    return f"Allow it? [y/N{view}{always}, e: edit, or advice for the model] "


def _help(request: ConfirmationRequest, *, single: bool) -> str:
    """The possible answers. The call stays open."""
    lines = [
        "y    run this call",
        "n    deny it; so does an empty line",
        "v    view the whole call",
        "e    edit its arguments",
    ]
    if not single:
        way = ways(request.tool, request.effect)[0]
        lines += [f"a    run this call, and allow: {way.calls}. {way.terms}"] if request.waivable else []
        lines += ["Any longer line denies the call and is advice for the model."]
    return "\n".join(lines)


def _columns() -> int:
    """The width of the terminal on which prompts are shown."""
    try:
        return os.get_terminal_size(2).columns or _COLUMNS
    except OSError:
        return _COLUMNS


def _decline(reason: str) -> Deny:
    """A denial of a question, which is also printed for the person."""
    _print(f"Declined: {visible(reason)}")
    return Deny(reason)


def _print(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _read_line(prompt: str) -> str:
    """A line from the controlling terminal; tools that inherit standard input cannot answer there."""
    with open("/dev/tty", encoding="utf-8") as terminal:
        sys.stderr.write(prompt)
        sys.stderr.flush()
        line = terminal.readline()
    if not line:
        raise EOFError
    return line
