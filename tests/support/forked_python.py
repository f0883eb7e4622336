"""Python programs as processes, forked from one that has already imported the package.

The import takes half a second of processor time, and tests start hundreds of commands. A forked process has its own
session, streams, environment, signals and exit code.
"""

import array
import atexit
import concurrent.futures
import contextlib
import functools
import gc
import importlib
import json
import os
import pathlib
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

ROOT = pathlib.Path(__file__).parents[2]
#: Packages that commands import. Each process itself imports the rest, and modules that read variables on import.
_PRELOADED = ("ripieno.cli", "ripieno.assembly", "ripieno.servers", "ripieno.testing", "ripieno.models.protocols")
_LEFT_OUT = ("__main__", ".metrics")
#: What commands import when they first ask a model.
_LIBRARIES = ("aiohttp",)
_SERVER = f"import sys; sys.path.append({str(ROOT)!r}); from tests.support.forked_python import serve; serve(0)"


class Forked(subprocess.Popen[str]):
    """``Popen`` of ``[sys.executable, "-P", *arguments]`` with text pipes, without the imports.

    ``terminal`` is an open terminal, which becomes the controlling one, in place of the pipes.
    """

    def __init__(
        self, arguments: Sequence[str], *, cwd: pathlib.Path, env: Mapping[str, str], terminal: int | None = None
    ) -> None:
        self.args = list(arguments)
        self.returncode: int | None = None  # type: ignore[assignment]
        self.stdin = self.stdout = self.stderr = None
        given = [terminal] * 3 if terminal is not None else self._pipes()
        self._channel, theirs = socket.socketpair()
        with theirs:
            _fork_server().sendmsg(
                [b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [*given, theirs.fileno()]))]
            )
        for descriptor in given if terminal is None else ():
            os.close(descriptor)
        name = None if terminal is None else os.ttyname(terminal)
        request = {"arguments": self.args, "cwd": str(cwd), "env": dict(env), "terminal": name}
        self._channel.sendall(json.dumps(request).encode() + b"\n")
        self._answers = self._channel.makefile()
        self.pid = int(self._answers.readline())

    def _pipes(self) -> list[int]:
        (input_, write), (read_out, output), (read_error, error) = os.pipe(), os.pipe(), os.pipe()
        self.stdin: IO[str] | None = os.fdopen(write, "w")
        self.stdout: IO[str] | None = os.fdopen(read_out)
        self.stderr: IO[str] | None = os.fdopen(read_error)
        return [input_, output, error]

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._channel, select.POLLIN)
            if not poll.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = os.waitstatus_to_exitcode(int(self._answers.readline()))
            self._answers.close()
            self._channel.close()
        return self.returncode

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def communicate(self, input: str | None = None, timeout: float | None = None) -> tuple[Any, Any]:
        assert self.stdin is not None
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            out, error = (pool.submit(one.read) for one in (self.stdout, self.stderr) if one is not None)
            pool.submit(self._feed, self.stdin, input or "")
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            return out.result(), error.result()

    def _feed(self, stream: IO[str], text: str) -> None:
        with contextlib.suppress(BrokenPipeError), stream:
            stream.write(text)


@functools.cache
def _fork_server() -> socket.socket:
    """A socket to the forking process, which ends with this one."""
    ours, theirs = socket.socketpair()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "sources")}
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVER], stdin=theirs, env=environment, cwd="/", start_new_session=True
        )

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def serve(descriptor: int) -> None:
    """Forks for every request, and reports the exit status of each process. Returns at the end, in the server only."""
    _preload()
    gc.collect()
    gc.freeze()
    requests = socket.socket(fileno=os.dup(descriptor))
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([requests, ended], (), ())
        if ended in ready:
            os.read(ended, 4096)
            while running and (found := os.waitpid(-1, os.WNOHANG))[0]:
                with running.pop(found[0]) as channel, contextlib.suppress(OSError):
                    channel.sendall(b"%d\n" % found[1])
        if requests in ready:
            data, descriptors, _, _ = socket.recv_fds(requests, 1, 4)
            if not data:
                return
            *streams, number = descriptors
            channel = socket.socket(fileno=number)
            with channel.makefile() as lines:
                request = json.loads(lines.readline())
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                for one in (*running.values(), requests):
                    one.close()
                for inner in (ended, wake):
                    os.close(inner)
                _become(request, streams, channel)
            running[pid] = channel
            for stream in streams:
                os.close(stream)


def _preload() -> None:
    for name in _LIBRARIES:
        importlib.import_module(name)
    for name in _PRELOADED:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith(_LEFT_OUT):
                importlib.import_module(module.name)
    assert "prometheus_client" not in sys.modules


def _become(request: dict[str, Any], streams: list[int], channel: socket.socket) -> None:
    """Runs the requested program in this process, and ends it."""
    for name in (signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM):
        signal.signal(name, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    if request["terminal"]:
        # The controlling terminal of a session is the first one that it opens.
        os.close(os.open(request["terminal"], os.O_RDWR))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        shown = os.fdopen(
            number,
            "w" if number else "r",
            buffering=1 if number == 2 or os.isatty(number) else -1,
            errors="backslashreplace" if number == 2 else None,
            closefd=False,
        )
        setattr(sys, name, shown)
        setattr(sys, f"__{name}__", shown)
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None
    time.tzset()
    os.chdir(request["cwd"])
    sys.path.remove(str(ROOT))
    with channel:
        channel.sendall(b"%d\n" % os.getpid())
    first, *arguments = request["arguments"]
    if first == "-m":
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *arguments[1:]]
        exec(compile(arguments[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [first, *arguments]
        runpy.run_path(first, run_name="__main__")
    sys.exit()
