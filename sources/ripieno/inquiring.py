"""Questions that a tool asks in the middle of a call: whoever confirms calls is asked, and what is said is validated.

Values come from a person, or not at all: approving without saying anything gives the defaults, where they suffice.
"""

from collections.abc import Callable, Mapping
from typing import Any

from frozendict import frozendict

from ripieno.canisters import InvocationCanister
from ripieno.confirmation import Approve, ConfirmationRequest, Confirmer, Deny, Question, ask
from ripieno.descriptors.tables import EMPTY
from ripieno.ensembles import Invoker
from ripieno.events import ConfirmationRequested, Event
from ripieno.jsonvalues import freeze
from ripieno.schemas import Schema

#: Questions of one call that are passed on; a tool that asks more is answered for the person: no.
ROUNDS = 5


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
    ) -> None:
        self._confirmer = confirmer
        self._invocation = invocation
        self._invoker = invoker
        self._conversation = conversation
        self._notify = notify
        self._asked = 0

    async def __call__(self, text: str, schema: Mapping[str, Any]) -> frozendict[str, object] | None:
        self._asked += 1
        if self._asked > ROUNDS:
            return None
        checked = Schema.of(schema, closed=False)
        defaults = checked.complete(EMPTY)
        reason = "it asks something back"
        request = ConfirmationRequest(
            invocation=self._invocation.identifier,
            tool=self._invoker.identity,
            effect=self._invoker.policy.effect,
            arguments=freeze(defaults),
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
        if isinstance(answer, Deny):
            return None
        try:
            values = request.arguments if isinstance(answer, Approve) else freeze(dict(answer.arguments))
            values = freeze(checked.complete(values))
        except (TypeError, ValueError):
            return None
        return None if checked.validate(values) else values
