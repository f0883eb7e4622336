"""The SDK's rooms are imported once and in one order, however many servers connect at the same time."""

import pathlib
import subprocess
import sys

#: A process that has imported nothing yet connects several ensembles at once, each to a port where nobody is.
SCENE = """
import asyncio, pathlib, socket, sys
from ripieno.assembly import assemble

SIGNED = 'oauth = { grant = "client_credentials", client_id = "me", client_secret = "{env:SECRET}", issuer = "%s" }'

with socket.socket() as listener:
    listener.bind(("127.0.0.1", 0))
    closed = f"http://127.0.0.1:{listener.getsockname()[1]}"


def text(name, kind):
    target = f'command = [{sys.executable!r}, "-c", "pass"]' if kind == "process" else f'url = "{closed}/mcp"'
    more = {"signed": SIGNED % closed, "person": 'oauth = { grant = "authorization_code" }'}.get(kind, "")
    return f'[ensemble]\\nname = "{name}"\\nrequired = false\\n[connection]\\norigin = "mcp"\\n{target}\\n{more}\\n'


async def main():
    names = []
    for index, kind in enumerate(sys.argv[2:]):
        names.append(f"e{index}")
        (pathlib.Path(sys.argv[1]) / f"e{index}.toml").write_text(text(f"e{index}", kind))
    table = {"ensembles": {"paths": [sys.argv[1]], "enabled": names}}
    async with assemble(table, secrets={"SECRET": "s"}) as assembly:
        for absence in assembly.absences:
            print(absence.reason.replace("\\n", " "))

asyncio.run(main())
"""


def test_servers_of_every_kind_connect_at_once_in_a_fresh_process(tmp_path: pathlib.Path) -> None:
    kinds = ("plain", "signed", "process", "person", "plain", "signed")
    done = subprocess.run(
        [sys.executable, "-c", SCENE, str(tmp_path), *kinds], capture_output=True, text=True, check=False, timeout=60
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(kinds), done.stdout + done.stderr
    for line, kind in zip(lines, kinds, strict=True):
        assert ("ended with exit code 0" if kind == "process" else "cannot be reached") in line, line
