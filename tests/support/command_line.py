"""Runs the real command, as a process or in this one, for a user whose home is a temporary folder."""

import contextlib
import dataclasses
import io
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import ripieno
from ripieno.cli import main
from ripieno.storage.places import Places
from tests.support.forked_python import Forked

ROOT = pathlib.Path(__file__).parents[2]
#: How many ensembles come with the package.
BUNDLED = len(list((ROOT / "data" / "ensembles").glob("*.toml")))
#: Where the package is imported from, so that a process elsewhere finds the same one.
SOURCES = pathlib.Path(str(ripieno.__file__)).parents[1]
#: -P: the folder in which a command runs must not be where its modules come from.
COMMAND = (sys.executable, "-P", "-m", "ripieno")
_RIPIENO = ("-m", "ripieno")
#: Seconds after which a command of these tests counts as hung.
PATIENCE = 60
_VARIABLES = re.compile(r"[A-Z]+_(API_KEY|BASE_URL)|RIPIENO_.*|NO_COLOR|FORCE_COLOR|COLUMNS")


class _Shown(io.TextIOWrapper):
    """Stands in for a standard stream that is no terminal, and keeps what is written."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        super().__init__(self._bytes, encoding="utf-8", write_through=True)

    def text(self) -> str:
        return self._bytes.getvalue().decode()


@dataclasses.dataclass(frozen=True, slots=True)
class User:
    """A user with folders for configuration and state, and a workspace."""

    configuration: pathlib.Path
    state: pathlib.Path
    workspace: pathlib.Path

    @classmethod
    def living(cls, folder: pathlib.Path) -> "User":
        """A user whose home is that folder."""
        workspace, configuration = folder / "workspace", folder / "configuration"
        workspace.mkdir()
        configuration.mkdir()
        return cls(configuration, folder / "state", workspace)

    def configure(self, text: str) -> None:
        """Writes the user's own configuration."""
        (self.configuration / "config.toml").write_text(text)

    @property
    def places(self) -> Places:
        """The user's folders, for an assembly."""
        return Places(configuration=self.configuration, state=self.state)

    def ensemble(self, name: str, text: str, *, folder: pathlib.Path | None = None) -> pathlib.Path:
        """Writes an ensemble, into the user's own folder unless another is given."""
        file = (folder or self.configuration / "ensembles") / f"{name}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def environment(self, **extra: str) -> dict[str, str]:
        """The environment of this user's commands: no keys but those in ``extra``."""
        kept = {name: value for name, value in os.environ.items() if not _VARIABLES.fullmatch(name)}
        path = os.pathsep.join(one for one in (extra.pop("PYTHONPATH", ""), str(SOURCES)) if one)
        places = {"RIPIENO_CONFIG_HOME": str(self.configuration), "RIPIENO_STATE_HOME": str(self.state)}
        return {**kept, "PYTHONPATH": path, **places, **extra}

    def run(self, *arguments: str, text: str = "", **extra: str) -> subprocess.CompletedProcess[str]:
        """Runs one command to its end, without a terminal."""
        with self.start(*arguments, **extra) as process:
            out, err = process.communicate(text, PATIENCE)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def call(self, *arguments: str, text: str = "", **extra: str) -> subprocess.CompletedProcess[str]:
        """Does what ``run`` does in this process, which saves the second that starting one takes."""
        out, err = _Shown(), _Shown()
        with (
            mock.patch.dict(os.environ, self.environment(**extra), clear=True),
            mock.patch.object(sys, "stdin", io.StringIO(text)),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            contextlib.chdir(self.workspace),
        ):
            code = main(arguments)
        return subprocess.CompletedProcess(arguments, code, out.text(), err.text())

    @contextlib.contextmanager
    def start(self, *arguments: str, **extra: str) -> Iterator[subprocess.Popen[str]]:
        """Starts a command with pipes, and ends it at the end."""
        with self.python(*_RIPIENO, *arguments, **extra) as process:
            yield process

    @contextlib.contextmanager
    def python(self, *arguments: str, **extra: str) -> Iterator[subprocess.Popen[str]]:
        """Starts a program with pipes (``-m module``, ``-c code`` or a file), and ends it at the end.

        Variables of the interpreter itself need a whole one.
        """
        start = _whole if any(name.startswith("PYTHON") for name in extra) else Forked
        with start(arguments, cwd=self.workspace, env=self.environment(**extra)) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextlib.contextmanager
    def rehearse(self, *arguments: str, port: int = 0) -> Iterator[dict[str, str]]:
        """Rehearses a score while the block runs; gives the base URLs by protocol."""
        with self.start("rehearse", *arguments, "--port", str(port)) as process:
            assert process.stdout is not None
            urls: dict[str, str] = {}
            for line in process.stdout:
                if line.startswith("To use it from an SDK"):
                    break
                name, _, url = line.strip().partition(" ")
                urls[name] = url.strip()
            yield {name: url for name, url in urls.items() if url.startswith("http")}
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0


def wait_for(process: subprocess.Popen[str], pattern: str) -> re.Match[str]:
    """Reads what a process reports until a pattern matches."""
    assert process.stderr is not None
    said = ""
    while (found := re.search(pattern, said)) is None:
        line = process.stderr.readline()
        assert line, f"It has ended: {said}"
        said += line
    return found


def _whole(arguments: Sequence[str], *, cwd: pathlib.Path, env: Mapping[str, str]) -> subprocess.Popen[str]:
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-P", *arguments]
    return subprocess.Popen(command, text=True, cwd=cwd, env=env, start_new_session=True, **pipes)


class Screen:
    """A command at a terminal of its own: tests read what it shows and type keys."""

    def __init__(self, user: User, *arguments: str, **extra: str) -> None:
        self._leader, follower = os.openpty()
        self.text = ""
        environment = user.environment(TERM="xterm", **extra)
        self.process = Forked([*_RIPIENO, *arguments], cwd=user.workspace, env=environment, terminal=follower)
        os.close(follower)

    def wait_for(self, text: str) -> None:
        """Reads until the text has been shown since the last time, and forgets what came before its end."""
        while text not in self.text:
            assert self._more(), f"{text!r} was not shown: {self.text!r}"
        self.text = self.text.partition(text)[2]

    def insist(self, typed: str, text: str) -> None:
        """Types again and again until the text is shown.

        CPython's line editor loses a Ctrl-C that comes between its prompt and its waiting for keys. A second one that
        is not needed would meet the program at its next step, so it is typed only after a silence.
        """
        for _ in range(PATIENCE):
            self.type(typed)
            while text not in self.text and self._more(seconds=3):
                pass
            if text in self.text:
                break
        self.wait_for(text)

    def _more(self, seconds: float = PATIENCE) -> bool:
        ready, _, _ = select.select((self._leader,), (), (), seconds)
        try:
            data = os.read(self._leader, 65536) if ready else b""
        except OSError:  # Linux: the other side is closed.
            data = b""
        self.text += data.decode("utf-8", "replace")
        return bool(data)

    def type(self, text: str) -> None:
        """Types keys; \\x03 is Ctrl-C, \\x04 is Ctrl-D."""
        os.write(self._leader, text.encode())

    @property
    def echoes(self) -> bool:
        """Whether the terminal shows what is typed, as it did before the command."""
        return bool(termios.tcgetattr(self._leader)[3] & termios.ECHO)

    def close(self) -> int:
        """Closes the terminal, as its window does, and waits for the command to end."""
        leader, self._leader = self._leader, -1
        os.close(leader)
        return self.process.wait(PATIENCE)

    def end(self) -> int:
        """Waits for the command to end; ``text`` has the rest of what it showed."""
        while self._more():
            pass
        return self.process.wait(PATIENCE)

    def __enter__(self) -> "Screen":
        return self

    def __exit__(self, *details: object) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        if self._leader >= 0:
            os.close(self._leader)
