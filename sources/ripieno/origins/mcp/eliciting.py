"""What a server asks back in the middle of a call, put to the person behind the call. Imports the SDK.

Only forms are passed on. A URL is never opened for a server; sampling and roots are refused.
"""

from collections.abc import Mapping
from typing import Any

import mcp_types as wire
from mcp.client.session import ClientRequestContext

from ripieno.ensembles import Context
from ripieno.exceptions import InputError
from ripieno.jsonvalues import thaw
from ripieno.origins.mcp.cleaning import clean, clean_schema

#: Characters of a question that are shown.
_LENGTH = 2000


class Asking:
    """The calls under way over one connection: a server of the handshake era does not say which of them it asks for."""

    def __init__(self) -> None:
        self._calls: list[Context] = []

    def begin(self, context: Context) -> None:
        """A call begins."""
        self._calls.append(context)

    def end(self, context: Context) -> None:
        """It has ended."""
        self._calls.remove(context)

    async def elicit(
        self,
        context: ClientRequestContext,  # noqa: ARG002
        params: wire.ElicitRequestParams,
    ) -> wire.ElicitResult | wire.ErrorData:
        """Answers a server that asks by itself: on behalf of the call that began last."""
        return await elicit(self._calls[-1], params) if self._calls else wire.ElicitResult(action="decline")


async def elicit(context: Context, parameters: wire.ElicitRequestParams) -> wire.ElicitResult:
    """The person's answer to a form; anything else is declined."""
    if not isinstance(parameters, wire.ElicitRequestFormParams):
        return wire.ElicitResult(action="decline")
    schema: Mapping[str, Any] = clean_schema(parameters.requested_schema)[0]
    try:
        values = await context.inquire(clean(parameters.message)[0][:_LENGTH], schema)
    except InputError:
        return wire.ElicitResult(action="cancel")
    if values is None:
        return wire.ElicitResult(action="decline")
    return wire.ElicitResult(action="accept", content=thaw(values))


async def respond(context: Context, requests: wire.InputRequests) -> wire.InputResponses | None:
    """Answers to all that a result of the newer era asks for, one after the other; None where one is refused."""
    responses: wire.InputResponses = {}
    for key, request in requests.items():
        if not isinstance(request, wire.ElicitRequest):
            return None
        responses[key] = await elicit(context, request.params)
    return responses
