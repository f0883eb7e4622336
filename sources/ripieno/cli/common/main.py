"""Execution of a command: errors become one message and an exit code, and signals cancel it."""

import contextlib
import contextvars
import dataclasses
import io
import itertools
import os
import re
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import click

from ripieno.canisters.display import clean
from ripieno.cli.common import exit_codes
from ripieno.cli.common.blocked_loop import Blockade
from ripieno.cli.common.options import Settings
from ripieno.exceptions import (
    AssemblyFailure,
    ConfigurationInvalidity,
    ConnectionFailure,
    InputError,
    ProviderFailure,
    RipienoError,
    ToolExecutionFailure,
    ToolFault,
)
from ripieno.lazy.expressions import expression

Result = TypeVar("Result")
#: What a command does at a signal: it is cancelled, ends by itself, or goes on as if there was none.
Reaction: TypeAlias = Literal["cancel", "end", "ignore"]

#: Groups, whose commands have two words.
ADVISED_GROUPS = ("approvals", "import", "journal", "new", "responses", "runs", "serve")
#: A command that a message advises, without the options that select the configuration. ``trust FOLDER`` needs none.
_ADVISED = expression(
    rf"(?<=:)( +ripieno (?!trust [/'])(?:(?:{'|'.join(ADVISED_GROUPS)}) (?=[a-z]))?[a-z]+)\b"
    r"(?![^\n]*--(?:config|profile|workspace)\b)"
)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal ended the command, and everything that it had started has ended."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def launch(arguments: Sequence[str] | None) -> int:
    """Runs the command that the arguments name, and returns its exit code. Raises no error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Unencodable characters are written as escapes, instead of raising.
            stream.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if arguments is None else list(arguments)
    # An error may come before the options are read.
    wants_json = "--format=json" in given or ("--format", "json") in itertools.pairwise(given)
    settings = Settings(debug="--debug" in given, json=wants_json)
    _SETTINGS.set(settings)
    try:
        _invoke(given, settings)
        sys.stdout.flush()
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except BaseException as error:
        return _explain(error, settings)
    return exit_codes.GOOD


def _invoke(arguments: list[str], settings: Settings) -> None:
    """Runs the command. Replaces click's own ``main``, so that all errors are handled in one place."""
    from ripieno.cli.common.group import GROUP

    if "_RIPIENO_COMPLETE" in os.environ:
        from ripieno.cli.common.bash_completion import register

        register()
        GROUP.main(arguments, prog_name="ripieno", obj=settings)
    named = os.environ.get("RIPIENO_CONFIG_HOME")
    if named and not os.path.isdir(named):
        # Its configuration may name another journal, so that a list would be empty without a word.
        say(f"! RIPIENO_CONFIG_HOME names {named}, which is not a folder: no configuration of yours is read.")
    with GROUP.make_context("ripieno", arguments, obj=settings) as context:
        GROUP.invoke(context)


def _explain(error: BaseException, settings: Settings) -> int:
    if isinstance(error, BrokenPipeError):
        # The reader of our output has gone. The flush of the buffer at exit must not fail.
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
    code, message = classify(error)
    if settings.json:
        import json

        from ripieno.cli.common.json_errors import error_object

        _writer(json.dumps(error_object(error, code)))
    elif isinstance(error, click.ClickException):
        error.show()
    else:
        say(message)
    return code


def classify(error: BaseException) -> tuple[int, str]:
    """The exit code and the message for an error."""
    if isinstance(error, click.ClickException):
        return exit_codes.INPUT, error.format_message()
    if isinstance(error, ProviderFailure):
        return exit_codes.PROVIDER, f"Error: {error}"
    if isinstance(error, ToolFault | ToolExecutionFailure):
        return exit_codes.REFUSED, f"Error: {error}{_where(error.__cause__)}"
    if isinstance(error, RipienoError):
        text = error.text if isinstance(error, AssemblyFailure) else str(error)
        if isinstance(error, AssemblyFailure) and error.subgroup(ConfigurationInvalidity) is not None:
            text += "\nTo check all files, also for warnings: ripieno check"
        if isinstance(error, AssemblyFailure) and error.subgroup(ConnectionFailure) is not None:
            text += "\nTo start without an ensemble that cannot connect: required = false under its [ensemble]"
        # Each line of a list of problems has its own "error: ".
        return exit_codes.INPUT, text if "error: " in text else f"Error: {text}"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename is not None else ""
        return exit_codes.INPUT, f"Error: {where}{error.strerror or error}"
    place = _place(error)
    whose = "ripieno" if place is None else f"a command, at {place}"
    where = f"{type(error).__name__}: {error}\nFor the traceback, run it again with --debug."
    return exit_codes.INTERNAL, f"Bug in {whose}: {where}"


def _place(error: BaseException) -> str | None:
    """The line of a plugin's command, or of a tool, that raised; None if it was our own."""
    from ripieno.cli.common.user_code import place_of_error

    return place_of_error(error)


def _where(bug: BaseException | None) -> str:
    """The line of a tool that raised, if a bug of it ended the run."""
    if bug is None:
        return ""
    place = _place(bug)
    at = "" if place is None else f", at {place}"
    return f"{at}\nThis is a bug in the tool. For the traceback, run it again with --debug."


def _write(text: str) -> None:
    # In one write: several workers share the pipe.
    sys.stderr.write(f"{clean(text)}\n")
    sys.stderr.flush()


#: The options of the running command.
_SETTINGS: contextvars.ContextVar[Settings] = contextvars.ContextVar("options of the command")
#: Writes messages. Not of a context: runs of a worker have the contexts of the engine that dispatches them.
_writer: Callable[[str], None] = _write


def say(text: str) -> None:
    """Writes a line to standard error, with control characters escaped, as ``advised``."""
    _writer(advised(text))


def advised(text: str) -> str:
    """The text, in which commands have the options with which this one was called: they are about the same files."""
    settings = _SETTINGS.get(None)
    if settings is None or not settings.given:
        return text
    # With a profile, ``check`` validates the environment instead of files.
    files = dataclasses.replace(settings, profile=None)

    def add_options(found: re.Match[str]) -> str:
        given = (files if found[1].endswith(" check") else settings).given
        return " ".join((found[1], *map(shlex.quote, given)))

    return _ADVISED.sub(add_options, text)


def confirm(question: str, declined: str) -> None:
    """Asks at the terminal before a command goes on. Errors: ``click.exceptions.Exit`` after a no, as ``declined``."""
    if not click.confirm(question, err=True):
        say(declined)
        raise click.exceptions.Exit(exit_codes.REFUSED)


def confirm_loss(question: str, verb: str, done: str) -> None:
    """Asks before something is lost for good, such as ``delete`` and ``deleted``; ``--yes`` answers beforehand.

    Errors: ``InputError`` without a terminal; those of ``confirm``.
    """
    if not sys.stdin.isatty():
        raise InputError(f"Nothing is {done} yet, because there is no terminal to ask. To {verb}, add: --yes")
    confirm(f"{question} This cannot be undone.", f"Nothing was {done}.")


@contextlib.contextmanager
def messages_to(writer: Callable[[str], None]) -> Generator[None, None, None]:
    """Passes all messages of ``say`` to ``writer`` inside the block."""
    global _writer  # noqa: PLW0603  one for the process
    before, _writer = _writer, writer
    try:
        yield
    finally:
        _writer = before


def run_async(
    main: Coroutine[Any, Any, Result],
    *,
    wake: Callable[[int], Reaction] | None = None,
    again: Callable[[int], None] | None = None,
) -> Result:
    """Runs a coroutine. A signal calls ``wake``, which says what happens; without it, the coroutine is cancelled.
    A second signal calls ``again``, or ends the process, also if a tool blocks the loop so that it gets none.

    Errors: ``Interrupted`` if a signal has ended it; the errors of the coroutine.
    """
    import asyncio  # A quarter of a start; help and completion do without.

    supervising = _supervise(main, wake, again)
    try:
        outcome = asyncio.run(supervising)
    finally:
        # A signal in the moment before the loop would leave them, with warnings.
        supervising.close()
        main.close()
    if isinstance(outcome, Interrupted):
        raise outcome
    return outcome


async def _supervise(
    main: Coroutine[Any, Any, Result], wake: Callable[[int], Reaction] | None, again: Callable[[int], None] | None
) -> Result | Interrupted:
    import asyncio

    loop = asyncio.get_running_loop()
    task = asyncio.create_task(main)
    received: list[tuple[int, Reaction]] = []
    blockade = Blockade(say)

    def handle(number: int, handler: Callable[[int], None]) -> None:
        def got() -> None:
            blockade.over()
            handler(number)

        loop.add_signal_handler(number, got)
        blockade.watch(number)

    def interrupt(number: int) -> None:
        reaction = "cancel" if wake is None else wake(number)
        if reaction == "ignore":
            return
        received.append((number, reaction))
        for one in _SIGNALS:
            if loop.remove_signal_handler(one) and again is not None:
                handle(one, again)
        if reaction == "cancel":
            task.cancel()

    for one in _SIGNALS:
        # What the caller ignores (nohup, background jobs of a script) stays ignored.
        if signal.getsignal(one) is not signal.SIG_IGN:
            handle(one, interrupt)
    try:
        value = await task
    except asyncio.CancelledError:
        if received:
            # Returned, not raised: after a second signal, asyncio would print it with a traceback.
            return Interrupted(received[0][0])
        raise
    return Interrupted(received[0][0]) if received and received[0][1] == "end" else value
