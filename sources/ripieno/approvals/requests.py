"""What somebody is asked, what they may answer, and how a confirmer is asked so that nothing but a yes is one."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from frozendict import frozendict

from ripieno.approvals.grants import Binding
from ripieno.approvals.presentation import Presentation, present
from ripieno.approvals.visible_text import visible
from ripieno.canisters.faults import Effect
from ripieno.canisters.serialization import register
from ripieno.ensembles import owner
from ripieno.jsonvalues import canonical, thaw


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a tool asks in the middle of a call. ``text`` is the tool's, or its server's, and nobody has checked it.

    ``schema`` is a JSON Schema of the object of values that would answer it.
    """

    text: str
    schema: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationRequest:
    """A call that somebody is asked about: the full arguments, presets too, nothing left out.

    ``presentation`` is what a person is shown. ``waivable``: ``Approve(always=True)`` would count. With a ``question``
    it is the tool that asks: ``arguments`` are the defaults then, ``Edit`` gives other values, ``Approve`` gives the
    defaults, and ``Deny`` none.
    """

    invocation: str
    tool: str
    effect: Effect
    arguments: frozendict[str, object]
    reason: str
    conversation: str = ""
    question: Question | None = None
    presentation: Presentation | None = None
    waivable: bool = False

    @property
    def text(self) -> str:
        """The canonical arguments, with every character made visible."""
        return visible(canonical(self.arguments).decode())

    @property
    def shown(self) -> Presentation:
        """What a person is shown; where none was made ahead, one of the call alone."""
        return self.presentation or present(
            tool=self.tool, effect=self.effect, reason=self.reason, arguments=self.arguments
        )

    def mapping(self) -> dict[str, Any]:
        """The JSON form, for whoever is asked elsewhere; texts in it are not made visible."""
        question = self.question
        return {
            "invocation": self.invocation,
            "tool": self.tool,
            "effect": self.effect,
            "arguments": thaw(self.arguments),
            "reason": self.reason,
            "conversation": self.conversation,
            "question": None if question is None else {"text": question.text, "schema": thaw(question.schema)},
            "presentation": self.shown.mapping(),
            "waivable": self.waivable,
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    """The call may run, this once. With ``always``, so may later calls of its tool in this process.

    ``exact`` narrows that to calls with just these arguments, as it always is for a tool that can destroy. What the
    rules ask about stays asked about.
    """

    always: bool = False
    exact: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Deny:
    """The call may not run; a model reads ``advice``."""

    advice: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Edit:
    """The call may run with these arguments instead; they are validated and judged like any others."""

    arguments: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Defer:
    """Nobody can answer now: the call stays open, and is neither run nor denied. ``reason`` is for people."""

    reason: str = ""


Answer: TypeAlias = Approve | Deny | Edit | Defer
register({Approve: "approve", Deny: "deny", Edit: "edit", Defer: "defer"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An answer that was given ahead, to a request of before, and the binding of the call that it is about.

    ``token`` is that of a grant, where one was issued for it: it is used up then, wherever it is kept.
    """

    answer: Answer
    binding: Binding | None = None
    token: str = dataclasses.field(default="", repr=False)


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
            await asyncio.wait((task,), timeout=owner.GRACE)
        raise
    if task.cancelled():
        return Deny("The confirmation was cancelled.")
    failure = task.exception()
    if failure is not None:
        return Deny(f"The confirmation failed with {type(failure).__name__}.")
    return checked(task.result())


def checked(answer: Any) -> Answer:
    """Whatever somebody answered, as an answer: anything else is a denial."""
    match answer:
        case Approve():
            # Nothing but a plain yes makes it last.
            return Approve(always=answer.always is True, exact=answer.exact is True)
        case Deny():
            return Deny(str(answer.advice))
        case Defer():
            return Defer(str(answer.reason))
        case Edit():
            return answer
        case _:
            return Deny("The confirmation gave no answer.")
