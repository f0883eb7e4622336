"""Approval questions at the terminal, which a signal can end."""

import asyncio
import contextlib
import errno
import os
import select
import signal
import sys
import termios
import threading
from collections.abc import Generator
from typing import Self

from ripieno.approvals import (
    Answer,
    Approve,
    ConfirmationRequest,
    Confirmer,
    Defer,
    Deny,
    RulesConfirmer,
    TerminalConfirmer,
)
from ripieno.canisters.display import brief
from ripieno.canisters.events import ConfirmationRequested
from ripieno.cli.common.editor import Editor
from ripieno.cli.common.main import Reaction, say
from ripieno.conducting.observers.console import Renderer
from ripieno.jsonvalues import canonical
from ripieno.storage.places import Places

_DEVICE = "/dev/tty"
_LINE_BYTES = 4096
#: Seconds in which a terminal delivers the next line of a paste; nobody types one so soon.
_PASTE = 0.05
#: What the system says of a terminal whose window or connection was closed.
_CLOSED = (errno.EIO, errno.ENXIO)
#: Characters of an argument in the line about a denied call.
_VALUE = 60


class Terminal:
    """Reads lines from the controlling terminal. Tools inherit only standard input, so they cannot answer."""

    def __init__(self) -> None:
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waker, False)
        #: The calls for whose approval a person is being asked, and whether these stay open.
        self.asking = 0
        self.postponed = False
        #: Whether a call was denied because there is no terminal.
        self.lacking = False
        self.editor = Editor()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.editor.close()
        os.close(self._woken)
        os.close(self._waker)

    def read(self, prompt: str) -> str:
        """The line typed after the prompt, or pasted lines. Errors: ``EOFError``, also after ``interrupt``."""
        with self._device() as device:
            # Discard what was typed before the question.
            termios.tcflush(device, termios.TCIFLUSH)
            sys.stderr.write(prompt)
            sys.stderr.flush()
            ready, _, _ = select.select((device, self._woken), (), ())
            line = os.read(device, _LINE_BYTES) if self._woken not in ready else b""
            # The rest of a paste must not be lost unseen, nor answer the next question.
            while line and select.select((device,), (), (), _PASTE)[0] and (more := os.read(device, _LINE_BYTES)):
                line = (line + more)[: 2 * _LINE_BYTES]
            termios.tcgetattr(device)  # The end of input is Ctrl-D, or that of the terminal.
        if not line:
            raise EOFError
        return line.decode("utf-8", "replace")

    def edit(self, text: str) -> str | None:
        """The text as the person edits it; None if it is unchanged.

        Errors: ``EOFError`` after ``interrupt``; ``OSError``, also if the editor fails.
        """
        with self._device() as device:
            edited = self.editor.edit(text, device, self._interrupted)
        if self._interrupted():
            sys.stderr.write("\n")
            raise EOFError
        return edited

    @contextlib.contextmanager
    def _device(self) -> Generator[int]:
        """The open terminal. Errors: ``EOFError`` if it is closed, now or inside the block; the asked call stays open.

        What is shown afterwards goes nowhere, so that the command ends in order.
        """
        try:
            device = os.open(_DEVICE, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                yield device
                return
            finally:
                os.close(device)
        except (OSError, termios.error) as error:
            if error.args[0] not in _CLOSED:
                raise
        self.postponed = self.postponed or self.asking > 0
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        for stream in (1, 2):
            try:
                termios.tcgetattr(stream)
            except termios.error as error:
                if error.args[0] in _CLOSED:
                    os.dup2(nowhere, stream)
        os.close(nowhere)
        raise EOFError

    def _interrupted(self) -> bool:
        return bool(select.select((self._woken,), (), (), 0)[0])

    def interrupt(self) -> None:
        """Ends the current read or editor, and all reads until ``resume``."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._waker, b"!")
        self.editor.end()

    def react(self, number: int) -> Reaction:
        """Ends all reads. A call that is being asked about stays open, and its run ends by itself.

        Ctrl-C in an editor that the person has chosen is a key of it.
        """
        if number == signal.SIGINT and self.editor.has_keys:
            return "ignore"
        self.postponed = self.postponed or self.asking > 0
        self.interrupt()
        return "end" if self.postponed else "cancel"

    def resume(self) -> None:
        """Allows reads again."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._woken, _LINE_BYTES):
                pass


def is_attended() -> bool:
    """Whether a person can be asked: a controlling terminal exists, and standard error is a terminal."""
    if not sys.stderr.isatty():
        return False
    try:
        os.close(os.open(_DEVICE, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def has_browser() -> bool:
    """Whether a graphical browser can be opened; one in the terminal would hide the output."""
    return sys.platform == "darwin" or any(map(os.environ.get, ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")))


def open_page(url: str) -> None:
    """Opens a page in the browser."""
    import webbrowser  # It imports much.

    # In a thread, because for some browsers the call lasts until they end.
    threading.Thread(target=webbrowser.open, args=(url,), name="browser", daemon=True).start()


class YesConfirmer:
    """Approves every call, for ``--yes``."""

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """An approval."""
        del request
        return Approve()


class UnattendedConfirmer(RulesConfirmer):
    """Denies what needs a person, and writes to standard error what to do, once for each tool."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._explained: set[str] = set()

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """The denial of ``RulesConfirmer``."""
        if request.question is None:
            self._terminal.lacking = True
        if request.question is None and request.tool not in self._explained:
            self._explained.add(request.tool)
            # A rule, or the tool itself, may ask about calls that no setting approves.
            setting = f'approve = ["{request.tool}"] under [confirmation], in {Places.of_user().file}'
            allow = f" To allow each call of it: {setting}" if request.reason.startswith("its effect is") else ""
            values = [f"{name}={canonical(value).decode()}" for name, value in request.arguments.items()]
            # Short ones first, such as a path.
            shown = brief(" ".join(brief(value, _VALUE) for value in sorted(values, key=len)))
            say(
                f"! Denied, because there is no terminal to ask you at: {request.tool} {shown}\n"
                f"  To answer later, run it again with --defer, then: ripieno approvals list.{allow}"
            )
        return await super().confirm(request)


class ShownConfirmer:
    """Waits with each question until the earlier output has been shown, and holds back the later: they do not mix.

    ``announcing``: whether requests are shown, because no question shows them.
    """

    def __init__(self, inner: Confirmer, renderer: Renderer, *, announcing: bool) -> None:
        self._inner = inner
        self._renderer = renderer
        self._announcing = announcing
        self._shown: dict[str, asyncio.Event] = {}

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """The inner confirmer's answer."""
        await self._event(request.invocation).wait()
        with self._renderer.held():
            return await self._inner.confirm(request)

    def announce(self, event: ConfirmationRequested) -> None:
        """Lets the question of this event begin: what came before it has been shown."""
        if self._announcing:
            self._renderer.show(event)
        self._event(event.invocation.identifier).set()

    def _event(self, invocation: str) -> asyncio.Event:
        return self._shown.setdefault(invocation, asyncio.Event())


class PostponableConfirmer:
    """Leaves calls open when their question is interrupted: nothing was decided, and ``resume`` asks again."""

    def __init__(self, inner: Confirmer, terminal: Terminal) -> None:
        self._inner = inner
        self._terminal = terminal

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """The inner confirmer's answer. A question of a tool cannot stay open."""
        if request.question is not None:
            return await self._inner.confirm(request)
        self._terminal.asking += 1
        try:
            answer = Deny() if self._terminal.postponed else await self._inner.confirm(request)
        finally:
            self._terminal.asking -= 1
        if self._terminal.postponed and isinstance(answer, Deny):
            return Defer("The user interrupted the question.")
        return answer


def make_confirmer(terminal: Terminal, *, yes: bool = False, single: bool = False) -> Confirmer:
    """The confirmer of a command: ``--yes``, the person at the terminal, or the rules alone.

    ``single``: the person's own call, as in ``TerminalConfirmer``; it cannot be deferred.
    """
    if yes:
        return YesConfirmer()
    if is_attended():
        edit = terminal.edit if terminal.editor.usable else None
        asking = TerminalConfirmer(terminal.read, edit=edit, single=single)
        return asking if single else PostponableConfirmer(asking, terminal)
    return RulesConfirmer() if single else UnattendedConfirmer(terminal)
