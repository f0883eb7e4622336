"""Arguments that clients repeat in headers (2026-07-28): our client sends them, and our server compares them."""

import pathlib
from typing import Any

import httpx2

from ripieno.canisters import ResultCanister
from ripieno.canisters.events import Alert
from ripieno.descriptors import Policy
from ripieno.ensembles import Context, Definition, Ensemble
from ripieno.schemas import Schema
from ripieno.servers.mcp.http import serve_http
from ripieno.servers.mcp.server import create_server
from ripieno.testing import call, turn
from ripieno.testing.wires import model_of
from tests.servers.mcp.test_server import entered

READ = Policy(effect="read")
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "where",
}


def where(context: Context, arguments: dict[str, Any]) -> str:
    return f"in {arguments['region']}"


def define(name: str, header: str) -> Definition:
    """A tool whose one parameter is repeated in a header of that name."""
    region = {"type": "string", "description": "Any region.", "x-mcp-header": header}
    schema = Schema.of({"type": "object", "properties": {"region": region}, "required": ["region"]})
    return Definition(name=name, schema=schema, invocable=where, policy=READ)


async def test_our_client_sends_what_our_server_wants(tmp_path: pathlib.Path) -> None:
    alerts: list[Alert] = []
    far = Ensemble.of("far", [define("where", "Region"), define("nowhere", "My Region")])
    async with entered(tmp_path) as serving, serve_http(create_server(serving, ensembles=[far])) as url:
        # Without the header the call would be refused.
        parameters = {"name": "where", "arguments": {"region": "Ærø"}, "_meta": META}
        async with httpx2.AsyncClient() as plain:
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters}
            refused = await plain.post(url, json=body, headers=HEADERS)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32020)

        connection = {"origin": "mcp", "url": url}
        table = {"ensemble": {"name": "near", "prefix": ""}, "connection": connection, "defaults": {"effect": "read"}}
        async with entered(tmp_path, {"ensembles": [table]}, alert=alerts.append) as assembly:
            near = assembly.access_ensemble("near")
            # A name that is none for a header takes one tool out, not all of them.
            assert list(near.invokers) == ["where"]
            model = model_of([turn(calls=[call("where", region="Ærø")]), turn("Done.")])
            conversation = await assembly.conduct("Where?", model=model, ensembles=[near])
    [result] = [one for one in conversation.canisters if isinstance(one, ResultCanister)]
    assert (result.error, result.text) == (None, "in Ærø")
    [left_out] = [alert.message for alert in alerts if alert.tool == "near.nowhere"]
    assert "the protocol does not allow its definition" in left_out
    assert "x-mcp-header" in left_out
