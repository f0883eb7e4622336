"""The client that the conformance suite starts: a scripted model calls all tools of the server.

The suite names the scenario in ``MCP_CONFORMANCE_SCENARIO``, may say more in ``MCP_CONFORMANCE_CONTEXT`` (JSON), and
gives the server's URL as the last argument. Everything between the script and the wire is what an application has.
"""

import asyncio
import json
import os
import pathlib
import sys
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from typing import Any

import ripieno
from ripieno.approvals import Approve, CallbackConfirmer
from ripieno.ensembles import Ensemble
from ripieno.exceptions import AssemblyFailure, ConnectionFailure
from ripieno.jsonvalues import thaw
from ripieno.origins.mcp.oauth.sign_in import sign_in
from ripieno.storage.places import Places
from ripieno.testing import call, turn
from ripieno.testing.scores.turns import ScoredCall
from ripieno.testing.wires import model_of

#: What the suite takes for the description of a client; nobody fetches it.
METADATA = "https://conformance-test.local/client-metadata.json"
#: How often a person signs in before they have had enough.
SIGN_INS = 3
#: Arguments by the type of a parameter.
_VALUES = {"string": "some text", "number": 1.5, "integer": 3, "boolean": True, "object": {}, "array": [], "null": None}


async def main(url: str) -> None:
    """Connects, and lets the model call in one turn what the scenario wants called."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    connection: dict[str, Any] = {"origin": "mcp", "url": url}
    secrets = {"CLIENT_SECRET": context.get("client_secret", "")}
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    if scenario.startswith("auth/"):
        connection["oauth"] = choose_oauth(scenario, context, url)
    personal = "grant" in connection.get("oauth", {})
    table = {"ensemble": {"name": "suite", "prefix": "", "pin": "off"}, "connection": connection}
    with tempfile.TemporaryDirectory() as folder:
        places = Places(configuration=pathlib.Path(folder, "configuration"), state=pathlib.Path(folder, "state"))
        assembly = ripieno.assemble(
            {"ensembles": [table]},
            workspace=folder,
            places=places,
            confirmer=CallbackConfirmer(lambda _: Approve()),
            secrets=secrets,
        )
        for last in (False,) * (SIGN_INS - 1) + (True,) if personal else (True,):
            try:
                if personal:
                    done = await sign_in(assembly.loaded.known["suite"], assembly.surroundings, follow, patience=60)
                    print(f"Signed in at {done.sign_in.issuer}, scope: {done.sign_in.scope}", file=sys.stderr)
                if not await play(assembly, context):
                    return
            except (AssemblyFailure, ConnectionFailure) as failure:
                text = failure.text if isinstance(failure, AssemblyFailure) else str(failure)
                print(text, file=sys.stderr)
                if last or "ripieno login" not in text:
                    raise


async def play(assembly: ripieno.Assembly, context: Mapping[str, Any]) -> bool:
    """Lets the model call what the scenario wants called. Whether a call said that somebody has to sign in for more."""
    async with assembly:
        ensemble = assembly.access_ensemble("suite")
        print(f"{ensemble.connection.protocol}: {', '.join(ensemble.invokers) or 'no tools'}", file=sys.stderr)
        calls = list(choose(ensemble, context))
        if not calls:
            return False
        model = model_of([turn(calls=calls), turn("Done.")])
        conversation = await assembly.conduct("Call them.", model=model, ensembles=[ensemble])
        for canister in conversation.canisters:
            print(canister, file=sys.stderr)
        faults = [getattr(canister, "error", None) for canister in conversation.canisters]
        return any(fault is not None and fault.code == "sign_in_needed" for fault in faults)


def choose_oauth(scenario: str, context: Mapping[str, Any], url: str) -> dict[str, Any]:
    """How a token is had in a scenario: what an operator would have written."""
    if scenario == "auth/client-credentials-basic":
        known = {"client_id": context["client_id"], "client_secret": "{env:CLIENT_SECRET}"}
        return {**known, "issuer": find_issuer(url)}
    oauth: dict[str, Any] = {"grant": "authorization_code"}
    if scenario == "auth/pre-registration":
        oauth |= {"client_id": context["client_id"], "client_secret": "{env:CLIENT_SECRET}", "issuer": find_issuer(url)}
    if scenario == "auth/basic-cimd":
        oauth["client_metadata_url"] = METADATA
    return oauth


async def follow(url: str) -> None:
    """The person: agrees to everything, and follows the way back to this machine."""

    def visit() -> None:
        urllib.request.urlopen(url).close()

    await asyncio.to_thread(visit)


def find_issuer(url: str) -> str:
    """The authorization server of a scenario, which an operator would know: the suite does not say it."""
    place = urllib.parse.urlsplit(url)._replace(path="/.well-known/oauth-protected-resource/mcp").geturl()
    with urllib.request.urlopen(place) as answer:
        return str(json.load(answer)["authorization_servers"][0])


def choose(ensemble: Ensemble, context: Mapping[str, Any]) -> Iterable[ScoredCall]:
    """The calls of a scenario: those that it lists, or else one of each tool, with arguments that fit its schema."""
    if "toolCalls" in context:
        for listed in context["toolCalls"]:
            # Nothing is said by leaving it out: null is refused where a schema does not have it.
            given = {name: value for name, value in listed["arguments"].items() if value is not None}
            yield call(listed["name"], **given)
        return
    for invoker in ensemble.invokers.values():
        schema = thaw(invoker.arguments_schema)
        properties = schema.get("properties", {})
        arguments = {name: _VALUES[properties[name].get("type", "string")] for name in schema.get("required", ())}
        if invoker.name == "json_schema_echo":
            # It wants to see what has become of another tool's schema.
            arguments["schema"] = thaw(ensemble.access_invoker("json_schema_2020_12_tool").arguments_schema)
        yield call(invoker.exposed, **arguments)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
