"""A coding agent that others wrote, run on a task as a user would: in its own folders, with a gateway as its model."""

import asyncio
import contextlib
import dataclasses
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

import tomli_w

from tests.real.playing import marked
from tests.support.command_line import PATIENCE, User, wait_for

#: A server on the official SDK, one of whose tools adds numbers.
_SERVER = pathlib.Path(__file__).parents[1] / "support" / "mcp_servers" / "well_behaved.py"
#: A variable that the agent has, and all that it starts.
_MARK = "RIPIENO_TESTS_MARK"
_SETTINGS: Mapping[str, Any] = {
    "model_provider": "gateway",
    "check_for_update_on_startup": False,
    "web_search": "disabled",
    "analytics": {"enabled": False},
    "feedback": {"enabled": False},
    # Left as they are, it looks for hosts of its vendor, and waits for ever for one that refuses connections.
    "features": {"plugins": False, "unbounded_connection_retries": False},
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A task that has ended: ``said`` is the agent's last message, ``told`` all that it wrote beside it.

    ``calls`` are the items of calls as it received them.
    """

    code: int
    said: str
    told: str
    calls: Sequence[Mapping[str, Any]]


@dataclasses.dataclass(slots=True)
class Gateway:
    """A gateway that is served. ``log`` is what it wrote on standard error until its end, and empty before."""

    url: str
    log: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The agent's program, and the folder in which it has all of its own."""

    program: pathlib.Path
    folder: pathlib.Path
    #: Whether it sends its requests on a WebSocket, if the gateway has them.
    sockets: bool = False

    @property
    def workspace(self) -> pathlib.Path:
        """The folder that it works in."""
        return self.folder / "project"

    def _configure(self, url: str, model: str, mark: str, settings: Mapping[str, Any]) -> pathlib.Path:
        home = self.folder / "agent"
        for folder in (home, self.workspace, self.folder / "home"):
            folder.mkdir(exist_ok=True)
        provider = {
            "name": "gateway",
            "base_url": f"{url}/v1",
            "wire_api": "responses",
            "request_max_retries": 0,
            "stream_max_retries": 0,
            "stream_idle_timeout_ms": PATIENCE * 1000,
            "supports_websockets": self.sockets,
        }
        # Without ``required`` its tools are missing until it has started, which may be too late.
        server = {
            "command": sys.executable,
            "args": [str(_SERVER)],
            "env": {_MARK: mark},
            "required": True,
            "startup_timeout_sec": PATIENCE,
        }
        tables = {"model_providers": {"gateway": provider}, "mcp_servers": {"kind": server}}
        (home / "config.toml").write_text(tomli_w.dumps({**_SETTINGS, "model": model, **settings, **tables}))
        return home

    async def do(self, task: str, url: str, *, model: str = "local-model", **settings: Any) -> Done:
        """Lets it do a task, with what a gateway serves as its model; nothing that it started may outlive it.

        ``settings`` are keys of its configuration.
        """
        mark = uuid.uuid4().hex
        home = self._configure(url, model, mark, settings)
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            self.program,
            "exec",
            # Its folder is enough: the kernel of a machine that runs tests may have no sandbox.
            "--dangerously-bypass-approvals-and-sandbox",
            "--skip-git-repo-check",
            "--strict-config",
            task,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.workspace,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder / "home"), "CODEX_HOME": str(home), _MARK: mark},
            start_new_session=True,
        )
        assert process.stderr is not None
        try:
            async with asyncio.timeout(PATIENCE):
                first = await process.stderr.readline()
                assert str(process.pid) in marked(mark), "Its mark is not seen: that of others would not be."
                out, err = await process.communicate()
            print(f"the agent took {time.monotonic() - began:.1f} s")
            _wait_for(marked(mark))
            assert marked(mark) == {}
        finally:
            for number in marked(mark):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(number), signal.SIGKILL)
            code = await process.wait()
        return Done(code=code, said=out.decode().strip(), told=(first + err).decode(), calls=_calls(home))


def _wait_for(processes: Iterable[str]) -> None:
    """Waits until they have ended: a server does when its client is gone, which is a moment later."""
    for number in processes:
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(int(number))
            try:
                select.select([descriptor], [], [], PATIENCE)
            finally:
                os.close(descriptor)


def _calls(home: pathlib.Path) -> list[Mapping[str, Any]]:
    """The calls in the agent's own record of its session."""
    (record,) = (home / "sessions").rglob("*.jsonl")
    entries = [json.loads(line) for line in record.read_text().splitlines()]
    items = [entry["payload"] for entry in entries if entry["type"] == "response_item"]
    return [item for item in items if item["type"].endswith("_call")]


@contextlib.contextmanager
def serving_responses(user: User, *options: str) -> Generator[Gateway, None, None]:
    """``ripieno serve responses`` for this user, whose model ``local/small`` has every name."""
    with user.start("serve", "responses", "--port", "0", "--map", "*=local/small", *options) as process:
        served = wait_for(process, r"Serving .* at (http://\S+)/v1")
        gateway = Gateway(served[1])
        try:
            yield gateway
        finally:
            process.send_signal(signal.SIGINT)
            gateway.log = served.string + process.communicate(timeout=PATIENCE)[1]
            print(gateway.log)
