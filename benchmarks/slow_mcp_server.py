"""A small MCP server of the handshake era, standard library only: it waits as long as its argument says, then serves.

A call of ``crash`` ends it, one of ``hang`` is never answered; any other returns at once.
"""

import json
import os
import sys
import time

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "crash", "hang")]


def answer(method: str, parameters: dict[str, object]) -> dict[str, object] | None:
    """The result of a request; None for a method that it does not know."""
    if method == "initialize":
        information = {"name": "waiting", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": information}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        if parameters["name"] == "crash":
            os._exit(3)
        return {"content": [{"type": "text", "text": "done"}]}
    return None


def main() -> None:
    """Serves lines until the end of standard input."""
    time.sleep(float(sys.argv[1]))
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        result = answer(asked["method"], asked.get("params") or {})
        if asked.get("params", {}).get("name") == "hang":
            continue
        said = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)


if __name__ == "__main__":
    main()
