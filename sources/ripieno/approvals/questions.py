"""Questions that a tool asks during a call. The confirmer answers them, and the answers are validated.

Values come from a person, or not at all: a plain approval gives the defaults, if they suffice.
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from frozendict import frozendict

from ripieno.approvals.requests import Approve, ConfirmationRequest, Confirmer, Defer, Edit, Question, ask
from ripieno.canisters import InvocationCanister
from ripieno.canisters.events import ConfirmationRequested, Event
from ripieno.ensembles import Invoker
from ripieno.jsonvalues import EMPTY, freeze
from ripieno.schemas import Schema

#: What the model reads about questions for which no one was there, beside what the tool says.
DEFERRED = (
    "The tool asked the user a question, and no one can answer during this run. If you need the answer, end with the "
    "question as your own: the next message of the user has it."
)
#: Questions of one call that are passed on; further ones get no answer.
ROUNDS = 5
#: Asks instead of the confirmer, with text and schema; returns values, or None if there are none. It may raise
#: ``NobodyAsked``; then the confirmer is asked.
Inquire = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]


class NobodyAsked(Exception):
    """No person can be asked this question."""


class Inquirer:
    """Asks the questions of one call. Calling it returns values that match the schema, or None.

    Errors: ``SchemaInvalidity`` for a schema that cannot be used.
    """

    def __init__(
        self,
        confirmer: Confirmer,
        invocation: InvocationCanister,
        invoker: Invoker,
        conversation: str,
        notify: Callable[[Event], None] | None,
        *,
        inquire: Inquire | None = None,
    ) -> None:
        self._confirmer = confirmer
        self._invocation = invocation
        self._invoker = invoker
        self._conversation = conversation
        self._notify = notify
        self._inquire = inquire
        self._count = 0
        #: The questions for which no one was there. They got no answer.
        self.deferred: tuple[str, ...] = ()
        #: Entered while a person is asked, to stop the time of the call.
        self.pause: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext

    async def __call__(self, text: str, schema: Mapping[str, Any]) -> frozendict[str, object] | None:
        self._count += 1
        if self._count > ROUNDS:
            return None
        checked = Schema.of(schema, closed=False)
        with self.pause():
            if self._inquire is not None:
                with contextlib.suppress(NobodyAsked):
                    return _validated(checked, await self._inquire(text, checked.mapping))
            return _validated(checked, await self._confirm(text, checked))

    async def _confirm(self, text: str, checked: Schema) -> Mapping[str, Any] | None:
        """The values that the confirmer gives."""
        reason = "it asks a question"
        request = ConfirmationRequest(
            invocation=self._invocation.identifier,
            tool=self._invoker.identity,
            effect=self._invoker.policy.effect,
            arguments=freeze(checked.complete(EMPTY)),
            reason=reason,
            conversation=self._conversation,
            question=Question(text=text, schema=checked.mapping),
        )
        if self._notify is not None:
            self._notify(
                ConfirmationRequested(
                    invocation=self._invocation,
                    tool=request.tool,
                    effect=request.effect,
                    reason=f"{reason}: {text}",
                    request=freeze(request.mapping()),
                )
            )
        answer = await ask(self._confirmer, request)
        if isinstance(answer, Edit):
            return answer.arguments
        if isinstance(answer, Defer):
            # The call cannot wait: a tool that is under way cannot be stored, nor run again from its beginning.
            self.deferred = (*self.deferred, text)
        return request.arguments if isinstance(answer, Approve) else None


def _validated(checked: Schema, values: Mapping[str, Any] | None) -> frozendict[str, object] | None:
    """The values with defaults if they match the schema, else None."""
    if values is None:
        return None
    try:
        complete = freeze(checked.complete(freeze(dict(values))))
    except (TypeError, ValueError):
        return None
    return None if checked.validate(complete) else complete
