"""A program in which a person edits a text at the terminal: the one that VISUAL or EDITOR names, or a line editor."""

import contextlib
import importlib.util
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Sequence

_LINE_EDITOR = pathlib.Path(__file__).with_name("line_editor.py")
#: Seconds in which a program that was told to end gives the terminal back.
_PATIENCE = 3.0
#: Seconds for which a signal may be under way on a busy machine.
_LATE = 0.5
_PROMPT = "The arguments, as JSON (empty: unchanged): "


class Editor:
    """Starts the program for each text. ``end`` ends a program that runs."""

    def __init__(self) -> None:
        named = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
        #: Whether the person chose the program. It then has keys of its own, such as Ctrl-C.
        self._chosen = bool(named)
        self._program = named or [sys.executable, "-I", str(_LINE_EDITOR)]
        self._lock = threading.Lock()
        #: Held while a program has the terminal.
        self._editing = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        #: The time at which the last program ended.
        self._ended = -_LATE

    @property
    def usable(self) -> bool:
        """Whether there is a program: the line editor needs readline."""
        return self._chosen or importlib.util.find_spec("readline") is not None

    @property
    def has_keys(self) -> bool:
        """Whether a program that the person chose runs, or has run when a signal was sent: Ctrl-C is a key of it."""
        return self._chosen and (self._process is not None or time.monotonic() - self._ended < _LATE)

    def edit(self, text: str, device: int, ending: Callable[[], bool]) -> str | None:
        """The JSON as the person leaves it; None if it is unchanged, or the program was ended.

        ``device`` is the open terminal, and ``ending`` whether the program is to end already. Errors: ``OSError`` if
        the program cannot be started, or fails.
        """
        arguments: tuple[str, ...] = ()
        if not self._chosen:
            arguments = (_PROMPT,)
            with contextlib.suppress(ValueError):  # What was typed before may be no JSON.
                text = json.dumps(json.loads(text))
        with self._editing:
            return self._edit(text, device, ending, arguments)

    def _edit(self, text: str, device: int, ending: Callable[[], bool], arguments: Sequence[str]) -> str | None:
        before = termios.tcgetattr(device)
        with tempfile.TemporaryDirectory(prefix="ripieno-") as folder:
            file = pathlib.Path(folder) / "arguments.json"
            file.write_text(text, encoding="utf-8")
            with self._lock:
                self._process = subprocess.Popen(
                    [*self._program, str(file), *arguments],
                    stdin=device,
                    stdout=device,
                    # The line editor has nothing to say that the person could use.
                    stderr=device if self._chosen else subprocess.DEVNULL,
                )
            if ending():
                self.end()
            try:
                code = self._process.wait()
            finally:
                self._ended = time.monotonic()
                self._process = None
                termios.tcsetattr(device, termios.TCSADRAIN, before)
            if code > 0:
                raise OSError(f"{self._program[0]} ended with exit code {code}.")
            edited = file.read_text(encoding="utf-8", errors="replace")
        return edited if code == 0 and edited.strip() != text.strip() else None

    def end(self) -> None:
        """Ends the program, if one runs."""
        with self._lock:
            if self._process is not None:
                self._process.terminate()

    def close(self) -> None:
        """Ends the program, and waits until the terminal is as it was before, for a few seconds."""
        self.end()
        if self._editing.acquire(timeout=_PATIENCE):
            self._editing.release()
