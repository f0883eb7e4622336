"""The MCP server over standard streams, as raw lines: what it writes, and how it ends."""

import json
import os
import signal
import subprocess
from typing import Any

import pytest

from tests.support.command_line import COMMAND, PATIENCE, User
from tests.support.mcp_server_process import appear, play_band, read_line

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CHILD = """
[ensemble]
name = "child"
[[invokers]]
name = "linger"
description = "Starts a program that stays."
effect = "read"
timeout = 600
[invokers.invocable]
origin = "command"
argv = ["sh", "-c", "echo $$ > number; mv number child; exec sleep 600"]
"""


def send(process: subprocess.Popen[str], *messages: Any) -> None:
    assert process.stdin is not None
    process.stdin.write("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in messages))
    process.stdin.flush()


def receive(process: subprocess.Popen[str]) -> Any:
    return json.loads(read_line(process))


def call(number: int | str, name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def greet(process: subprocess.Popen[str]) -> None:
    send(process, INITIALIZE)
    assert receive(process)["result"]["protocolVersion"] == "2025-06-18"
    send(process, INITIALIZED)


def test_standard_output_has_messages_only(user: User) -> None:
    play_band(user)
    with user.start("serve", "mcp") as process:
        greet(process)
        send(process, call("a", "shout"), "")
        assert receive(process)["id"] == "a"
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert out == ""
    for word in ("imported", "LOUD 1", "LOUD 2", "LOUD 3"):
        assert word in err


def test_lines_that_are_no_messages_are_answered_and_the_server_goes_on(user: User) -> None:
    with user.start("serve", "mcp") as process:
        greet(process)
        for line, identifier, code in (
            ("nonsense", None, -32700),
            ('{"jsonrpc": "2.0", "id": 7, "id": 7, "method": "ping"}', 7, -32700),
            ('{"jsonrpc": "2.0", "id": 8, "method": "ping", "params": {"a": NaN}}', 8, -32700),
            ("[" * 100_000, None, -32700),
            ("[]", None, -32600),
            ('{"jsonrpc": "2.0", "id": 9}', 9, -32600),
            (
                f'{{"jsonrpc": "2.0", "id": "many", "method": "ping", "params": {{"a": [{"[]," * 200_000}0]}}}}',
                "many",
                -32600,
            ),
        ):
            send(process, line)
            refused = receive(process)
            assert (refused["id"], refused["error"]["code"]) == (identifier, code), line
        send(process, {"jsonrpc": "2.0", "id": 10, "method": "ping"})
        assert receive(process) == {"jsonrpc": "2.0", "id": 10, "result": {}}


def test_a_peer_is_told_once_of_a_change(user: User) -> None:
    play_band(user)
    with user.start("serve", "mcp") as process:
        greet(process)
        send(process, INITIALIZED, call(2, "reconnect"))
        told = [receive(process), receive(process)]
        send(process, {"jsonrpc": "2.0", "id": 3, "method": "ping"})
        told.append(receive(process))
    assert sorted(one.get("method") or f"answer {one['id']}" for one in told) == [
        "answer 2",
        "answer 3",
        "notifications/tools/list_changed",
    ]


def test_a_bug_is_told_to_the_operator_and_not_to_the_client(user: User) -> None:
    play_band(user)
    with user.start("serve", "mcp") as process:
        greet(process)
        send(process, call(2, "crash"))
        result = receive(process)["result"]
        _, err = process.communicate(timeout=PATIENCE)
    assert result["isError"]
    assert "secret" not in json.dumps(result)
    assert "Traceback" not in json.dumps(result)
    assert "secret of /etc/shadow" in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, None])
async def test_it_ends_with_its_children(user: User, number: signal.Signals | None) -> None:
    user.ensemble("child", CHILD)
    with user.start("serve", "mcp") as process:
        greet(process)
        send(process, call(2, "linger"))
        await appear(user.workspace / "child")
        child = int((user.workspace / "child").read_text())
        os.kill(child, 0)
        if number is None:
            assert process.stdin is not None
            process.stdin.close()
        else:
            process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


async def test_it_ends_when_nobody_reads_its_answers(user: User) -> None:
    play_band(user)
    with user.start("serve", "mcp") as process:
        greet(process)
        send(process, call(2, "wait"))
        await appear(user.workspace / "began")
        assert process.stdout is not None
        process.stdout.close()
        send(process, call(3, "add", first=1))
        assert process.wait(PATIENCE) == 0
    assert (user.workspace / "cancelled").exists()


async def test_a_client_that_does_not_read_holds_nobody_up_at_the_end(user: User) -> None:
    play_band(user)
    with user.start("serve", "mcp") as process:
        greet(process)
        # More than a pipe holds.
        send(process, *(call(number, "flood") for number in range(5)), call(5, "wait"))
        await appear(user.workspace / "began")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert (user.workspace / "cancelled").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--ensemble", "oi"], ["oi", "io"]),
        (["--approve", "io.write_fil"], ["io.write_fil", "io.write_file"]),
        (["--port", "1"], ["--port", "--transport http"]),
        (["--key-variable", "KEY"], ["--key-variable", "--transport http"]),
        (["--transport", "http", "--key-variable", "NO_SUCH"], ["NO_SUCH", "export"]),
        (["--transport", "http", "--host", "0.0.0.0"], ["0.0.0.0", "key"]),
        (["--transport", "http", "--host", "example.org"], ["example.org", "key"]),
        (["--transport", "http", "--key-variable", "SHORT"], ["16 characters"]),
    ],
)
def test_slips_are_answered_with_what_to_do(user: User, arguments: list[str], words: list[str]) -> None:
    done = user.call("serve", "mcp", *arguments, SHORT="short")
    assert (done.returncode, done.stdout) == (2, "")
    for word in words:
        assert word in done.stderr


def test_a_closed_stream_is_said(user: User) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "serve", "mcp"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=PATIENCE,
        env=user.environment(),
    )
    assert done.returncode == 2
    assert "must be open" in done.stderr
