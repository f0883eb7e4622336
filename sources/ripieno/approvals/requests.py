"""Requests for confirmation and their answers; asks a confirmer so that only an explicit approval counts as one."""

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from frozendict import frozendict

from ripieno.approvals.grants import Binding
from ripieno.approvals.presentation import Presentation, present
from ripieno.approvals.visible_text import visible
from ripieno.canisters.faults import Effect
from ripieno.canisters.serialization import register
from ripieno.ensembles import owner
from ripieno.jsonvalues import canonical, thaw
from ripieno.values import Value, uncompared, unprinted


class Question(Value, kw_only=True):
    """A question that a tool asks during a call. ``text`` comes from the tool or its server and is not verified.

    ``schema`` is the JSON Schema of the object of values that answers it.
    """

    text: str
    schema: Mapping[str, Any]


@uncompared("revise")
@unprinted("revise")
class ConfirmationRequest(Value, kw_only=True):
    """A call that needs confirmation, with its full arguments and presets.

    A person is shown the ``presentation``. ``waivable``: ``Approve(always=True)`` is effective; with ``lasting``, in
    other programs, too. With a ``question``, the tool asks: ``arguments`` are the defaults, ``Edit`` gives other
    values, ``Approve`` the defaults, ``Deny`` none. ``revise`` makes the request for the call with other arguments, to
    show before an ``Edit`` with these; it raises ``InputError`` with the reason if they would be refused.
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
    lasting: bool = False
    revise: Callable[[Mapping[str, Any]], Awaitable["ConfirmationRequest"]] | None = None

    @property
    def text(self) -> str:
        """The canonical arguments, with every character made visible."""
        return visible(canonical(self.arguments).decode())

    @property
    def shown(self) -> Presentation:
        """The presentation; if there is none, one made from the call alone."""
        return self.presentation or present(
            tool=self.tool, effect=self.effect, reason=self.reason, arguments=self.arguments
        )

    @property
    def choices(self) -> tuple[str, ...]:
        """The answers that have an effect, of ``approve``, ``always``, ``edit``, ``deny`` and ``defer``."""
        if self.question is not None:
            return ("approve", "edit", "deny")
        return ("approve", *(("always",) if self.waivable else ()), "edit", "deny", "defer")

    def mapping(self) -> dict[str, Any]:
        """The JSON form, for confirmers in other programs; its texts are not made visible."""
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
            "lasting": self.lasting,
            "choices": list(self.choices),
        }


class Approve(Value, kw_only=True):
    """The call may run once. With ``always``, later calls of its tool in this conversation may run, too.

    ``exact`` narrows that to calls with exactly these arguments, as always for a destructive tool. It is an
    ``Allowance``: it ends with the program, that of a submitted run after seven days, and each when it is taken back.
    Rules that ask still apply.
    """

    always: bool = False
    exact: bool = False


class Deny(Value):
    """The call may not run; the model reads ``advice``."""

    advice: str = ""


class Edit(Value):
    """The call may run with these arguments instead, which are validated and judged like any others."""

    arguments: Mapping[str, Any]


class Defer(Value):
    """The call stays open for a later answer, and is neither run nor denied. ``reason`` is for people."""

    reason: str = ""


Answer: TypeAlias = Approve | Deny | Edit | Defer
register({Approve: "approve", Deny: "deny", Edit: "edit", Defer: "defer"})


@unprinted("token")
class Given(Value, kw_only=True):
    """An answer to an earlier request, with the binding of its call.

    ``token`` is that of a grant if one was issued for it; the grant is then used up. ``edited`` is the binding of the
    call with edited arguments, if it was shown before this answer.
    """

    answer: Answer
    binding: Binding | None = None
    edited: Binding | None = None
    token: str = ""


class Confirmer(Protocol):
    """Answers requests for confirmation. Applications write these."""

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """The answer. An exception, or any other value, counts as a denial."""
        ...


async def ask(confirmer: Confirmer, request: ConfirmationRequest) -> Answer:
    """The answer of a confirmer; a denial if it raises, is cancelled from within, or returns anything else.

    It runs in its own task, and has the grace period of a tool to end when this is cancelled. The handler of the event
    loop gets what it raises; by default that logs the traceback.
    """
    try:
        task = asyncio.ensure_future(confirmer.confirm(request))
    except Exception as error:
        return _failed(confirmer, error)
    # Retrieves an error that comes after this function has returned.
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
        return _failed(confirmer, failure)
    return checked(task.result())


def _failed(confirmer: Confirmer, error: BaseException) -> Deny:
    message = f"The confirmer {type(confirmer).__name__} failed with {owner.reason(error)}: the call is denied."
    if not inspect.iscoroutinefunction(getattr(confirmer, "confirm", None)):
        message += " It needs a method: async def confirm(self, request)"
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
    return Deny(f"The confirmation failed with {type(error).__name__}.")


def checked(answer: Any) -> Answer:
    """The answer with its fields checked; a denial for any other value."""
    match answer:
        case Approve():
            # Only an exact ``True`` makes it last.
            return Approve(always=answer.always is True, exact=answer.exact is True)
        case Deny():
            return Deny(str(answer.advice))
        case Defer():
            return Defer(str(answer.reason))
        case Edit():
            return answer
        case _:
            return Deny("The confirmation gave no answer.")
