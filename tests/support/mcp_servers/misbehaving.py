"""A server of raw JSON lines, of the handshake era; its first argument names its misbehaviour."""

import json
import os
import sys
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
SCHEMA = {"type": "object", "properties": {}}
NAMES = ("echo", "die", "garbage", "huge", "deaf", "nonsense", "refuse", "ask", "lie", "cancelled")
NAMES += ("nan", "rich", "poor", "kill", "leave")
if "ALIVE" in os.environ:
    os.set_inheritable(os.open(os.environ["ALIVE"], os.O_WRONLY), True)


def write(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def answer(request: dict[str, Any], result: Any) -> None:
    write({"jsonrpc": "2.0", "id": request["id"], "result": result})


def say(request: dict[str, Any], text: str, **more: Any) -> None:
    answer(request, {"content": [{"type": "text", "text": text}], **more})


def raw(data: str) -> None:
    print(data, end="", flush=True)


def list_tools(request: dict[str, Any]) -> None:
    tools: list[Any] = [{"name": name, "inputSchema": SCHEMA} for name in NAMES]
    if MODE == "odd":
        page = int(request.get("params", {}).get("cursor", "0"))
        tools = [
            {"name": f"page{page}", "inputSchema": SCHEMA},
            {"name": "unschemed"},
            {"name": "two words", "inputSchema": SCHEMA},
            {"name": "page0", "inputSchema": SCHEMA},
            {"name": f"broken{page}", "inputSchema": {"type": "object", "properties": {"a": {"type": "nonsense"}}}},
            {"name": f"results{page}", "inputSchema": SCHEMA, "outputSchema": {"type": "array"}},
            {"name": f"task{page}", "inputSchema": SCHEMA, "execution": {"taskSupport": "required"}},
            {"name": f"nan{page}", "inputSchema": {"type": "object", "default": float("nan")}},
            {"name": f"both{page}", "outputSchema": {"type": "array"}},
            "no tool at all",
        ]
        answer(request, {"tools": tools, "nextCursor": str(page + 1)} if page < 2 else {"tools": tools})
    elif MODE == "endless":
        cursor = request.get("params", {}).get("cursor", "x")
        many = [{"name": f"tool_{len(cursor)}_{index}", "inputSchema": SCHEMA} for index in range(10)]
        answer(request, {"tools": many, "nextCursor": cursor + "x"})
    elif MODE == "many":
        answer(request, {"tools": [{"name": f"tool_{index}", "inputSchema": SCHEMA} for index in range(600)]})
    else:
        lying = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        for tool in tools:
            if tool["name"] in ("lie", "rich", "poor"):
                tool["outputSchema"] = lying
        answer(request, {"tools": tools})


CANCELLED: list[Any] = []


def call_tool(request: dict[str, Any]) -> None:  # noqa: PLR0912  one case a behaviour
    match request["params"]["name"]:
        case "echo":
            say(request, json.dumps(request["params"]["arguments"]))
        case "die":
            sys.stderr.write("\x1b[31mdying\u202e now\n")
            os._exit(5)
        case "garbage":
            sys.stdout.buffer.write(b"this is no message\n\n{}\n[1]\n\xff\n")
            say(request, "sorry")
        case "huge":
            raw('{"jsonrpc": "2.0", "id": "x", "result": {"a": "' + "x" * (17 * 1024 * 1024) + '"}}\n')
            say(request, "that was much")
        case "deaf":
            token = request["params"]["_meta"]["progressToken"]
            progress = {"progressToken": token, "progress": 0}
            write({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
        case "nonsense":
            answer(request, {"content": [{"type": "hologram"}]})
        case "refuse":
            write({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32602, "message": "bad \x1b[1mcolour"}})
        case "ask":
            sample = {"messages": [], "maxTokens": 1}
            write({"jsonrpc": "2.0", "id": "s1", "method": "sampling/createMessage", "params": sample})
            reply = json.loads(sys.stdin.readline())
            say(request, f"refused with {reply['error']['code']}")
        case "lie":
            say(request, '{"n": "one"}', structuredContent={"n": "one"})
        case "nan":
            say(request, "not a number", structuredContent={"n": float("nan")})
        case "rich":
            say(request, "one", structuredContent={"n": 1})
        case "poor":
            say(request, "one", structuredContent={"n": "one"})
        case "kill":
            os.kill(os.getpid(), 9)
        case "leave":
            os.close(1)
        case "cancelled":
            say(request, json.dumps(CANCELLED))


def serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method")
        if method == "initialize":
            version = request["params"]["protocolVersion"]
            server = {"name": "rude", "version": "0"}
            answer(request, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server})
        elif method == "tools/list":
            list_tools(request)
        elif method == "tools/call":
            call_tool(request)
        elif method == "notifications/cancelled":
            CANCELLED.append(request["params"]["requestId"])
        elif "id" in request and method is not None:
            write({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "Method not found"}})


if MODE == "dead":
    sys.stderr.write("".join(f"line {number}\n" for number in range(30)) + "no such key: TOKEN\n")
    sys.exit(7)
elif MODE == "mute":
    sys.stderr.write("thinking ...\n")
    sys.stderr.flush()
    for _ in sys.stdin:
        pass
else:
    serve()
