"""The servers between load generator and backend: ours, the pass-through, and the LiteLLM proxy if installed."""

import asyncio
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import socket
import sys
import tempfile
import urllib.request
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import Any

#: Names the program of another environment: its pins (openai < 3, rich < 14) forbid that it shares ours.
LITELLM = "BENCH_LITELLM"
#: Seconds in which a side must listen; the LiteLLM proxy needs some twenty.
STARTING = 120.0
_ROOT = pathlib.Path(__file__).parents[1]
_TICKS = os.sysconf("SC_CLK_TCK")
_OURS = """
[gateway]
# Two thousand streams at once, and room.
concurrency = 4000
connections = 4000
[providers.bench]
protocol = "openai-chat"
base_url = "{backend}/v1"
api_key = "k"
"""
_LITELLM = """
model_list:
  - model_name: m
    litellm_params:
      model: openai/m
      api_base: {backend}/v1
      api_key: k
      use_chat_completions_api: true
general_settings:
  # As ours: no key on loopback. Checking one would be measured, too.
  dangerously_permit_weak_or_unset_master_key: true
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """How one of them is started: a command for a backend, a port, a number of workers and a folder of its own."""

    name: str
    wire: str
    command: Callable[[str, int, int, pathlib.Path], Sequence[str]]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A side that listens."""

    name: str
    wire: str
    url: str
    process: int

    def cpu(self) -> float:
        """Seconds of CPU, of all its processes that live."""
        return sum(sum(map(int, _stat(one)[11:13])) for one in _family(self.process)) / _TICKS

    def memory(self) -> float:
        """Megabytes that are resident, of all its processes."""
        return sum(_resident(one) for one in _family(self.process)) / 1000


def _ours(backend: str, port: int, workers: int, folder: pathlib.Path) -> Sequence[str]:
    file = folder / "ripieno.toml"
    file.write_text(_OURS.format(backend=backend))
    command = [sys.executable, "-m", "ripieno", "serve", "responses", "--config", str(file)]
    return [*command, "--map", "m=bench/m", "--port", str(port), "--workers", str(workers)]


def _passthrough(backend: str, port: int, _: int, __: pathlib.Path) -> Sequence[str]:
    return [sys.executable, "-m", "benchmarks.passthrough", backend, str(port)]


def _litellm(backend: str, port: int, workers: int, folder: pathlib.Path) -> Sequence[str]:
    file = folder / "litellm.yaml"
    file.write_text(_LITELLM.format(backend=backend))
    command = [litellm() or "litellm", "--config", str(file), "--host", "127.0.0.1", "--port", str(port)]
    return [*command, "--num_workers", str(workers), "--telemetry", "False"]


OURS = Side(name="ripieno", wire="responses", command=_ours)
PASSTHROUGH = Side(name="pass-through", wire="chat", command=_passthrough)
PROXY = Side(
    name="LiteLLM proxy",
    wire="responses",
    command=_litellm,
    environment={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"},
)


def litellm() -> str | None:
    """The LiteLLM program: what the environment names, or one on the path."""
    return os.environ.get(LITELLM) or shutil.which("litellm")


@contextlib.asynccontextmanager
async def backend() -> AsyncGenerator[str, None]:
    """The address of a model server in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.gateway_backend"),
        cwd=_ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    if process.stdout is None or process.stdin is None:
        raise RuntimeError("The backend has no pipes.")
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.stdin.close()
        await process.wait()


@contextlib.asynccontextmanager
async def running(side: Side, backend: str, *, workers: int = 1) -> AsyncGenerator[Running, None]:
    """Starts a side, and ends it. Errors: ``RuntimeError`` with what it wrote, when it does not listen."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile() as written:
        command = side.command(backend, port, workers, pathlib.Path(name))
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=_ROOT,
            env={**os.environ, **side.environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=written,
            stderr=written,
        )
        try:
            if not await _listens(process, port):
                written.seek(0)
                said = written.read().decode(errors="replace")[-2000:]
                raise RuntimeError(f"{side.name} does not listen: {' '.join(command)}\n{said}")
            yield Running(name=side.name, wire=side.wire, url=f"http://127.0.0.1:{port}", process=process.pid)
        finally:
            if process.returncode is None:
                process.terminate()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), 15)
            if process.returncode is None:
                process.kill()
                await process.wait()


async def ask(mode: str, running: Running, **options: Any) -> dict[str, Any]:
    """A run of the load generator, which is a process of its own. Errors: ``RuntimeError`` when it fails."""
    arguments = [mode, running.url, running.wire]
    for name, value in options.items():
        arguments += [f"--{name}"] if value is True else [] if value is False else [f"--{name}", str(value)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.load_generator", *arguments), cwd=_ROOT, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"The load generator failed with {process.returncode}: {' '.join(arguments)}")
    figures: dict[str, Any] = json.loads(said)
    return figures


async def state(backend: str, *, reset: bool = False) -> dict[str, Any]:
    """What the backend says of its requests; it may forget its maxima then."""

    def read() -> dict[str, Any]:
        with urllib.request.urlopen(f"{backend}/{'reset' if reset else 'state'}", timeout=30) as answer:
            figures: dict[str, Any] = json.load(answer)
            return figures

    return await asyncio.to_thread(read)


async def _listens(process: asyncio.subprocess.Process, port: int) -> bool:
    """Whether it comes to accept connections before its time is over, or it ends."""
    loop = asyncio.get_running_loop()
    until = loop.time() + STARTING
    while loop.time() < until and process.returncode is None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return True
    return False


def _family(process: int) -> Iterator[int]:
    """A process and those below it."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                parents.setdefault(int(_stat(int(entry))[1]), []).append(int(entry))
    found = [process]
    for one in found:
        found += parents.get(one, [])
    yield from found


def _stat(process: int) -> Sequence[str]:
    """The fields of ``/proc/PID/stat`` from the state on; a name before it can hold anything."""
    return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _resident(process: int) -> int:
    """Kilobytes."""
    status = pathlib.Path(f"/proc/{process}/status").read_text()
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), 0)
