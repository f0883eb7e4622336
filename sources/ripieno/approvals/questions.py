"""Questions that a tool asks in the middle of a call: whoever confirms calls is asked, and what is said is validated.

Values come from a person, or not at all: approving without saying anything gives the defaults, where they suffice.
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from frozendict import frozendict

from ripieno.approvals.requests import Approve, ConfirmationRequest, Confirmer, Edit, Question, ask
from ripieno.canisters import InvocationCanister
from ripieno.canisters.events import ConfirmationRequested, Event
from ripieno.ensembles import Invoker
from ripieno.jsonvalues import EMPTY, freeze
from ripieno.schemas import Schema

#: Questions of one call that are passed on; a tool that asks more is answered for the person: no.
ROUNDS = 5
#: Asks somebody else than the confirmer: text and schema; values, or None where nobody gave any. It may raise
#: ``NobodyAsked``, and then the confirmer is asked.
Inquire = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]


class NobodyAsked(Exception):
    """There is nobody who could be asked that."""


class Inquirer:
    """Asks on behalf of one call. Calling it gives values that fit the schema, or None where nobody gave any.

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
        self._asked = 0
        #: Entered while somebody is asked: the time of the call does not pass.
        self.pause: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext

    async def __call__(self, text: str, schema: Mapping[str, Any]) -> frozendict[str, object] | None:
        self._asked += 1
        if self._asked > ROUNDS:
            return None
        checked = Schema.of(schema, closed=False)
        with self.pause():
            return await self._answer(text, checked)

    async def _answer(self, text: str, checked: Schema) -> frozendict[str, object] | None:
        """What the one who is to be asked says."""
        if self._inquire is not None:
            with contextlib.suppress(NobodyAsked):
                return _fitting(checked, await self._inquire(text, checked.mapping))
        return _fitting(checked, await self._confirm(text, checked))

    async def _confirm(self, text: str, checked: Schema) -> Mapping[str, Any] | None:
        """What whoever confirms calls says."""
        reason = "it asks something back"
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
                    invocation=self._invocation, tool=request.tool, effect=request.effect, reason=f"{reason}: {text}"
                )
            )
        answer = await ask(self._confirmer, request)
        if isinstance(answer, Edit):
            return answer.arguments
        # A question has no later: what is deferred is not answered.
        return request.arguments if isinstance(answer, Approve) else None


def _fitting(checked: Schema, values: Mapping[str, Any] | None) -> frozendict[str, object] | None:
    """The values, completed, if they fit."""
    if values is None:
        return None
    try:
        complete = freeze(checked.complete(freeze(dict(values))))
    except (TypeError, ValueError):
        return None
    return None if checked.validate(complete) else complete
