"""Hosted runs of the gateway over a real assembly, and requests of its clients."""

import base64
import contextlib
import dataclasses
import json
import pathlib
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.approvals import Confirmer
from ripieno.approvals.confirmers import ServingConfirmer
from ripieno.assembly import Assembly, assemble
from ripieno.canisters import Canister, Controls, InvocationCanister, TextualContent, UserCanister
from ripieno.canisters.events import ContentSealed, Event, InvocationSealed, ResultReady, TurnEnded
from ripieno.descriptors import GatewayDescriptor
from ripieno.ensembles import Context, Definition, Ensemble
from ripieno.exceptions import ExecutionFault
from ripieno.jsonvalues import canonical
from ripieno.models import Model
from ripieno.models.protocol import Asked, HostedTool
from ripieno.models.protocols.openai_responses import PROTOCOL
from ripieno.schemas import Schema
from ripieno.servers.gateway.run import HostedRuns
from ripieno.servers.gateway.stored.requests import StoredRequest
from ripieno.storage.places import Places

SECRET = b"a secret of the tests"
CALLER = "ada"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@dataclasses.dataclass(frozen=True, slots=True)
class Played:
    """Hosted runs, their assembly, and the warnings to the operator."""

    stage: HostedRuns
    assembly: Assembly
    warnings: list[str]

    async def answer(
        self,
        model: Model,
        asked: Asked,
        *,
        shows: bool = True,
        caller: str = CALLER,
        stored: StoredRequest | None = None,
    ) -> list[Event]:
        """All events of the answer. Calls may wait if it is stored, or if they are not shown, as over other wires."""
        plan = self.stage.plan(asked, caller, stored, defers=stored is not None or not shows)
        assert plan is not None
        async with contextlib.aclosing(plan.respond(model, wire=PROTOCOL.name if shows else None)) as batches:
            return [event async for batch in batches for event in batch]


@contextlib.asynccontextmanager
async def staged(
    folder: pathlib.Path,
    *ensembles: Ensemble,
    configuration: Mapping[str, Any] | None = None,
    confirmer: Confirmer | None = None,
    **settings: Any,
) -> AsyncGenerator[Played, None]:
    """Hosted runs that offer these ensembles in every request, unless ``settings`` have others."""
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    assembly = assemble(
        configuration or {},
        workspace=workspace,
        places=Places(configuration=folder / "configuration", state=folder / "state"),
        layers="user",
        confirmer=confirmer or ServingConfirmer("ripieno serve responses"),
    )
    warnings: list[str] = []
    async with assembly:
        assembly.ensembles = (*assembly.ensembles, *ensembles)
        fields: dict[str, Any] = {"ensembles": tuple(one.name for one in ensembles), **settings}
        for name in ("hosted", "map", "keys"):
            if name in fields:
                fields[name] = frozendict(fields[name])
        stage = HostedRuns(assembly, GatewayDescriptor(**fields), warnings.append, SECRET)
        yield Played(stage, assembly, warnings)


def asks(*what: str | Canister, tools: Iterable[str] = (), hosted: Iterable[HostedTool] = (), **controls: Any) -> Asked:
    """A request: texts of the user, or canisters; the client's own tools by their names."""
    return Asked(
        model="small",
        canisters=tuple(UserCanister.of(one) if isinstance(one, str) else one for one in what or ("Go.",)),
        tools=tuple(Definition(name=name, exposed=name, schema=Schema.of({}), hosted="caller") for name in tools),
        hosted=tuple(hosted),
        controls=Controls(**controls),
    )


def items_of(events: Iterable[Event]) -> list[dict[str, Any]]:
    """The items of an answer, as a client of the Responses wire gets them."""
    items: list[dict[str, Any]] = []
    for event in events:
        if isinstance(event, ContentSealed) and isinstance(event.content, TextualContent):
            items.append({"role": "assistant", "content": event.content.text})
        elif isinstance(event, InvocationSealed):
            call = event.invocation
            text = canonical(call.arguments).decode() if call.raw is None else call.raw
            items.append({"type": "function_call", "call_id": call.identifier, "name": call.name, "arguments": text})
        elif isinstance(event, ResultReady):
            call_id = event.result.invocation_id
            items.append(
                {"type": "function_call_output", "id": event.seal, "call_id": call_id, "output": event.result.text}
            )
    return items


def output(call_id: str, text: str, **members: Any) -> dict[str, Any]:
    """The item of a result."""
    return {"type": "function_call_output", "call_id": call_id, "output": text, **members}


def sends(
    items: Sequence[Mapping[str, Any]], *, tools: Iterable[str | Mapping[str, Any]] = (), **members: Any
) -> Asked:
    """A request of these items over the Responses wire, as the gateway reads it. A tool may be only a name."""
    function = {"type": "function", "parameters": {"type": "object"}}
    declared = [{**function, "name": one} if isinstance(one, str) else one for one in tools]
    body = {"model": "small", "input": [{"role": "user", "content": "Go."}, *items], "tools": declared, **members}
    return PROTOCOL.parse(json.loads(json.dumps(body)))


def calls_in(events: Iterable[Event]) -> list[InvocationCanister]:
    """The calls of an answer."""
    return [event.invocation for event in events if isinstance(event, InvocationSealed)]


def results_in(events: Iterable[Event]) -> list[tuple[str, str]]:
    """The results in an answer: identifier of the call, and text."""
    return [(one.result.invocation_id, one.result.text) for one in events if isinstance(one, ResultReady)]


def end_of(events: Sequence[Event]) -> TurnEnded:
    """The one end of an answer."""
    (ended,) = [event for event in events if isinstance(event, TurnEnded)]
    assert events[-1] is ended
    return ended


class Counted:
    """A tool that counts how often it runs."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []

    async def __call__(self, context: Context, arguments: dict[str, Any]) -> str:
        self.runs.append(arguments)
        return f"result {len(self.runs)}"


async def fail(context: Context, arguments: dict[str, Any]) -> str:
    """A tool that fails."""
    raise ExecutionFault("no")
