"""The public compliance tests of the Responses API's open specification, against a gateway before each backend."""

import asyncio
import json
import pathlib
from typing import Any

import pytest
from frozendict import frozendict

from ripieno.canisters import AssistantCanister, Canister, InvocationCanister, UserCanister
from ripieno.canisters.events import Event
from ripieno.models.protocol import Asked
from tests.real.installing import compliance_tests
from tests.support.gateways import MODEL, Kind, before, kinds, says

#: All of them; whoever adds one makes this fail, to be looked at.
OURS = {
    "basic-response",
    "assistant-phase",
    "response-output-phase-schema",
    "streaming-response",
    "system-prompt",
    "tool-calling",
    "image-input",
    "multi-turn",
    "compact-response",
    "compact-missing-model",
    "websocket-response",
    "websocket-sequential-responses",
    "websocket-continuation",
    "websocket-reconnect-store-false-recovery",
    "websocket-previous-response-not-found",
    "websocket-failed-continuation-evicts-cache",
    "websocket-compact-new-chain",
}


@pytest.fixture(scope="session")
def command() -> list[str]:
    return compliance_tests()


def answering(kind: Kind) -> Any:
    """A model that calls a tool where it has one and was just asked, and says something otherwise."""

    def speak(asked: Asked) -> list[Event]:
        said: Canister = AssistantCanister.of("Hello there, friend.")
        if asked.tools and isinstance(asked.canisters[-1], UserCanister):
            name = str(asked.tools[0].exposed)
            said = InvocationCanister(identifier="call_1", name=name, arguments=frozendict({"location": "Wien"}))
        return says(kind, [said])

    return speak


@kinds
async def test_the_public_compliance_tests(kind: Kind, tmp_path: pathlib.Path, command: list[str]) -> None:
    async with before(tmp_path, kind, answering(kind)) as (front, backend):
        options = ("--base-url", f"{front.url}/v1", "--api-key", "none", "--model", MODEL, "--json")
        process = await asyncio.create_subprocess_exec(*command, *options, stdout=-1, stderr=-1)
        out, err = await process.communicate()
    results = json.loads(out)["results"] if out else pytest.fail(err.decode())
    mine = {one["id"]: one for one in results}
    assert mine.keys() == OURS
    failed = {name: one.get("errors") for name, one in mine.items() if one["status"] != "passed"}
    assert not failed
    assert backend.asked
