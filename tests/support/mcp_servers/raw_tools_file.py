"""A server whose tools are in a JSON file, in raw lines of the handshake era: ``raw_tools_file.py FILE``.

It starts in a tenth of the time of one with an SDK. With ``ANNOUNCES`` in its environment, it notifies the client at
each call that its tools have changed.
"""

import json
import os
import pathlib
import sys

FILE = pathlib.Path(sys.argv[1])
if "STARTED" in os.environ:
    pathlib.Path(os.environ["STARTED"]).touch()


def answer(method: str) -> dict[str, object] | None:
    """The result of a request; None for an unknown one."""
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}}
        version = {"name": "reading", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": version}
    if method == "tools/list":
        return {"tools": json.loads(FILE.read_text())}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": "done"}]}
    return {} if method == "ping" else None


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request.get("method", ""))
        if request.get("method") == "tools/call" and "ANNOUNCES" in os.environ:
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
        said = {"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **said}), flush=True)
