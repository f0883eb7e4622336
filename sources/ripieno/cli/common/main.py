"""Runs a command: errors become one message and an exit code here, and signals end what is under way."""

import asyncio
import contextlib
import contextvars
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, TextIO, TypeVar

import click

from ripieno.cli.common import exit_codes
from ripieno.cli.common.options import Settings
from ripieno.conducting.observers.console import clean
from ripieno.exceptions import AssemblyFailure, ProviderFailure, RipienoError, ToolExecutionFailure, ToolFault

Value = TypeVar("Value")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal ended the command; everything it had started has ended too."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def launch(arguments: Sequence[str] | None) -> int:
    """Runs the command that the arguments name, and gives its exit code. No error leaves here."""
    for stream in (sys.stdout, sys.stderr):
        _tolerate(stream)
    given = sys.argv[1:] if arguments is None else list(arguments)
    # An error may come before the options are read.
    settings = Settings(debug="--debug" in given)
    try:
        _invoke(given, settings)
        sys.stdout.flush()
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except BaseException as error:
        return _explain(error, settings)
    return exit_codes.GOOD


def _invoke(arguments: list[str], settings: Settings) -> None:
    """Runs the command. What click's own ``main`` would make of errors is made of them here, for all of them alike."""
    from ripieno.cli.common.group import GROUP

    if "_RIPIENO_COMPLETE" in os.environ:
        GROUP.main(arguments, prog_name="ripieno", obj=settings)
    with GROUP.make_context("ripieno", arguments, obj=settings) as context:
        GROUP.invoke(context)


def _tolerate(stream: TextIO) -> None:
    """Characters that a stream cannot write are written as escapes, instead of raising."""
    reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _explain(error: BaseException, settings: Settings) -> int:
    """Says what went wrong, on standard error, and gives the exit code for it."""
    if isinstance(error, BrokenPipeError):
        # Whoever read our output has gone. What is still buffered must not complain at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.SIGNAL + signal.SIGPIPE
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else exit_codes.REFUSED
    if isinstance(error, Interrupted):
        return exit_codes.SIGNAL + error.number
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return exit_codes.SIGNAL + signal.SIGINT
    if settings.debug:
        traceback.print_exception(error)
    if isinstance(error, click.ClickException):
        error.show()
        return exit_codes.INPUT
    code, message = judge(error)
    say(message)
    return code


def judge(error: BaseException) -> tuple[int, str]:
    """The exit code and the message of an error."""
    if isinstance(error, ProviderFailure):
        return exit_codes.PROVIDER, f"Error: {error}"
    if isinstance(error, ToolFault | ToolExecutionFailure):
        return exit_codes.REFUSED, f"Error: {error}"
    if isinstance(error, RipienoError):
        text = error.text if isinstance(error, AssemblyFailure) else str(error)
        # A list of problems says for each line that it is an error.
        return exit_codes.INPUT, text if "error: " in text else f"Error: {text}"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename is not None else ""
        return exit_codes.INPUT, f"Error: {where}{error.strerror or error}"
    kind = type(error).__name__
    return exit_codes.INTERNAL, f"Bug in ripieno: {kind}: {error}\nRun it again with --debug for the traceback."


def _write(text: str) -> None:
    # In one write: several workers say theirs on the same pipe.
    sys.stderr.write(f"{clean(text)}\n")
    sys.stderr.flush()


_VOICE: contextvars.ContextVar[Callable[[str], None]] = contextvars.ContextVar("voice of the command", default=_write)


def say(text: str) -> None:
    """A line for the person, on standard error, in which nothing can act on the terminal."""
    _VOICE.get()(text)


@contextlib.contextmanager
def voiced(voice: Callable[[str], None]) -> Generator[None, None, None]:
    """Gives what is said to somebody else, for as long as it is entered."""
    token = _VOICE.set(voice)
    try:
        yield
    finally:
        _VOICE.reset(token)


def run_async(
    main: Coroutine[Any, Any, Value],
    *,
    wake: Callable[[], None] | None = None,
    again: Callable[[int], None] | None = None,
) -> Value:
    """Runs a command's coroutine. A signal cancels it and calls ``wake``; a second ends at once, or calls ``again``.

    Errors: ``Interrupted`` when it was cancelled by a signal; whatever the coroutine raises.
    """
    return asyncio.run(_supervise(main, wake, again))


async def _supervise(
    main: Coroutine[Any, Any, Value], wake: Callable[[], None] | None, again: Callable[[int], None] | None
) -> Value:
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(main)
    received: list[int] = []

    def interrupt(number: int) -> None:
        received.append(number)
        for one in _SIGNALS:
            if loop.remove_signal_handler(one) and again is not None:
                loop.add_signal_handler(one, again, one)
        if wake is not None:
            wake()
        task.cancel()

    for one in _SIGNALS:
        # What the caller ignores (nohup, background jobs of a script) stays ignored.
        if signal.getsignal(one) is not signal.SIG_IGN:
            loop.add_signal_handler(one, interrupt, one)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise Interrupted(received[0]) from None
        raise
