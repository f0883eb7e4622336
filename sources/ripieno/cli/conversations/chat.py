"""``ripieno chat``: a conversation at the terminal.

The event loop has its own thread, so that connections stay alive while the user types, and line editing works.
"""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import functools
import importlib
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from types import FrameType
from typing import Any, TypeVar

import click

from ripieno.approvals.allowances import Allowance
from ripieno.assembly import Assembly
from ripieno.canisters import AssistantCanister, Conversation
from ripieno.canisters.display import brief
from ripieno.cli.common.layers import load_layers
from ripieno.cli.common.main import Interrupted, classify, say
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.common.terminal import Terminal
from ripieno.cli.conversations.cassettes import begin
from ripieno.cli.conversations.conversation import Wanted, follow, run_options, waits_for_client
from ripieno.cli.conversations.persistence import Keeper, open_keeper
from ripieno.cli.conversations.renewal import KnownRuns
from ripieno.cli.conversations.resume import recall
from ripieno.cli.conversations.selection import find, find_or_latest
from ripieno.conducting import Run
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import RipienoError
from ripieno.testing.cassettes import Replay

Result = TypeVar("Result")

#: Seconds until a signal is handled, at most.
_POLL = 0.2

_HELP = """\
/help    show this help
/tools   list the tools that are offered to the model
/new     start a new conversation
/go      continue with calls that waited for an answer; a message declines them
/allowed list what you have allowed without a question in this conversation
/revoke  take back what /allowed lists: /revoke 1
/exit    end the chat; so do /quit and Ctrl-D
Ctrl-C stops an answer and keeps the conversation. Any other line is sent to the model.
Pasted lines are one message."""


class Loop:
    """An event loop in its own thread. The main thread can be interrupted while it waits."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ripieno chat", daemon=True)
        self._thread.start()

    def start(self, main: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """Starts a coroutine in the loop."""
        return asyncio.run_coroutine_threadsafe(main, self._loop)

    def call(self, main: Coroutine[Any, Any, Result]) -> Result:
        """The result of a coroutine. An interruption cancels it, and is raised when it has ended."""
        tasks: list[asyncio.Task[Any]] = []

        async def record_task() -> Result:
            task = asyncio.current_task()
            assert task is not None
            tasks.append(task)
            return await main

        async def end() -> None:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        try:
            # An interruption may come before this thread has the future, and after the coroutine has begun.
            future = self.start(record_task())
            while not future.done():
                # A signal just before the wait is handled after it, so each wait is short.
                concurrent.futures.wait((future,), timeout=_POLL)
            return future.result()
        except (KeyboardInterrupt, Interrupted):
            # A second interruption ends the wait.
            self.start(end()).result()
            raise

    def close(self) -> None:
        """Stops the loop; its tasks have ended."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@click.command()
@click.option(
    "--resume", "before", metavar="ID", help="Continue a conversation of the journal (see: ripieno journal list)."
)
@run_options
@common
@pass_settings
def chat(settings: Settings, *, before: str | None, wanted: Wanted) -> None:
    """Chat with a model, which may call tools.

    Lines are read from standard input. To list the commands, type /help.

    \b
    Example:
      ripieno chat -m PROVIDER/MODEL
      ripieno chat --resume 3f9a
    """
    loaded = load_layers(settings)
    with _terminated_in_order(), Terminal() as terminal, open_keeper(loaded, settings) as keeper:
        conversation, known = Conversation(), KnownRuns(keeper)
        if before is not None:
            found = find_or_latest(keeper, before, loaded.workspace, ended=True)
            found.check(loaded)
            wanted = wanted.like(found.model, found.tools)
            with keeper.claimed(found.identifier):
                conversation = recall(keeper, find(keeper, found.identifier)).conversation
                known.note(found.identifier)
        renderer = wanted.renderer()
        confirmer = wanted.confirmer(terminal, renderer)
        assembly = wanted.assembly(loaded, confirmer, renderer, keeper)
        Chat(
            wanted=wanted,
            assembly=assembly,
            terminal=terminal,
            keeper=keeper,
            known=known,
            follow=lambda run: follow(run, assembly, renderer, confirmer),
            conversation=conversation,
        ).run()


@dataclasses.dataclass(kw_only=True)
class Chat:
    """One conversation with the person at the terminal."""

    wanted: Wanted
    assembly: Assembly
    terminal: Terminal
    keeper: Keeper
    known: KnownRuns
    follow: Callable[[Run], Coroutine[Any, Any, Conversation]]
    conversation: Conversation
    loop: Loop = dataclasses.field(default_factory=Loop)
    #: A line that was not sent: the next prompt has it.
    unsent: str = ""

    def run(self) -> None:
        """Continues the conversation with lines from the terminal until they end. Errors: those of start-up."""
        loop, assembly = self.loop, self.assembly
        try:
            loop.call(assembly.__aenter__())
            try:
                if self.conversation.open:
                    self._answer(None)
                self._replay()
                while (line := self._read()) is not None:
                    if not self._handle(line):
                        break
            finally:
                loop.call(assembly.__aexit__(None, None, None))
        finally:
            loop.close()

    def _replay(self) -> None:
        """Shows the runs of a cassette that is replayed."""
        cassette = self.wanted.cassette
        while isinstance(cassette, Replay) and cassette.left:
            self.conversation = begin(cassette, self.conversation)
            self._answer(None)

    def _read(self) -> str | None:
        """The next line, or None at the end of input. Ctrl-C discards the typed text."""
        attended, unsent, readline = sys.stdin.isatty(), self.unsent, None
        self.unsent = ""
        if attended:
            with contextlib.suppress(ImportError):
                # Its import enables line editing in input(); the setting, pasted lines as one text in old versions.
                readline = importlib.import_module("readline")
                readline.parse_and_bind("set enable-bracketed-paste on")
        if unsent and (readline is None or not sys.stdout.isatty()):
            say(f"Not sent: {unsent}")
        while True:
            try:
                if readline is not None:
                    readline.set_startup_hook(functools.partial(readline.insert_text, unsent))
                return input("you: " if attended else "").strip()
            except EOFError:
                return None
            except KeyboardInterrupt:
                unsent = ""
                say("\n(to end: /exit or Ctrl-D)")

    def _handle(self, line: str) -> bool:
        """Handles a line. Returns whether to continue."""
        match line:
            case "":
                pass
            case "/exit" | "/quit":
                return False
            case "/help":
                say(_HELP)
            case "/new":
                self.conversation = Conversation()
            case "/go":
                self._answer(None, waiting=True)
            case "/allowed":
                self._list_allowed()
            case revoke if revoke.split()[0] == "/revoke":
                self._revoke(revoke.removeprefix("/revoke").strip())
            case "/tools":
                patterns = self.wanted.patterns(self.assembly.loaded)
                for invoker in Offer.of(self.assembly.ensembles, tools=patterns).invokers:
                    say(f"{invoker.identity} ({invoker.policy.effect}): {brief(invoker.description)}")
            case command if command.startswith("/"):
                say(f"Unknown command {command.split()[0]}.\n{_HELP}")
            case _:
                self._answer(line)
        return True

    @property
    def _waits(self) -> bool:
        """Whether calls wait, or the model has not answered what was last said, after an error for example."""
        canisters = self.conversation.canisters
        return bool(self.conversation.open or (canisters and not isinstance(canisters[-1], AssistantCanister)))

    def _allowed(self) -> list[tuple[str, Allowance]]:
        """The allowances of this conversation, each with its owner."""
        conversation = self.conversation.identifier
        owners = dict.fromkeys(("", self.keeper.owner(conversation)))
        given = self.assembly.execution.allowances
        return [(owner, one) for owner in owners for one in given.of(owner).get(conversation, ())]

    def _list_allowed(self) -> None:
        allowed = self._allowed()
        for number, (_, one) in enumerate(allowed, 1):
            say(f"{number}. {one}")
        say("To take one back: /revoke NUMBER" if allowed else "Nothing is allowed without a question here.")

    def _revoke(self, number: str) -> None:
        chosen = dict(enumerate(self._allowed(), 1)).get(int(number) if number.isdecimal() else 0)
        if chosen is None:
            say(f"/revoke takes a number of this list, not {number!r}:")
            self._list_allowed()
            return
        (owner, one), name, execution = chosen, self.conversation.identifier, self.assembly.execution
        execution.allowances.take_back(owner, name, one.identifier)
        say(f"Taken back: {one}. The next call is asked about again.")
        if (recorder := execution.reporter.recorder) is not None:
            try:
                recorder.record([one.revocation(owner, name)])
            except RipienoError as error:
                say(classify(error)[1])

    def _answer(self, line: str | None, *, waiting: bool = False) -> None:
        """Conducts one line, or the waiting calls, after what other processes have added to the conversation.

        ``waiting``: only if something waits. After an error, which is reported, the chat continues.
        """
        self.terminal.resume()
        self.unsent = line or ""
        try:
            with self.keeper.claimed(self.conversation.identifier):
                renewed = self.known.renew(self.conversation)
                # A question that this terminal has not shown comes before the line.
                asks = renewed is not self.conversation and bool(renewed.open)
                self.conversation = renewed
                if waiting and not self._waits:
                    say("Nothing waits for an answer here.")
                elif line is None or asks:
                    self._run(None)
                else:
                    self.unsent = ""
                    self._run(line)
        except RipienoError as error:
            say(classify(error)[1])

    def _run(self, line: str | None) -> None:
        """Conducts one line, or the waiting calls, of a claimed conversation. Errors: those of its beginning."""
        run = self.loop.call(self._conduct(line))
        if (waiting := waits_for_client(run.conversation, self.assembly, self.wanted)) is not None:
            self.keeper.wait(waiting, run.model.identity, self.wanted.tools)
            return
        count = len(run.conversation.canisters)
        try:
            self._show(run, count)
        finally:
            with _uninterrupted():
                self.keeper.keep(run.conversation, run.model.identity, self.wanted.tools)
                self.known.note(run.conversation.identifier)

    def _show(self, run: Run, count: int) -> None:
        """Shows a run until it ends; ``count`` is the number of earlier canisters."""
        future = self.loop.start(self.follow(run))
        try:
            self.conversation = self._result(future)
        except RipienoError as error:
            say(classify(error)[1])
            # Without any answer, the prompt is dropped; the user can type it again.
            if len(run.conversation.canisters) > count:
                self.conversation = run.conversation
        except (KeyboardInterrupt, Interrupted) as interruption:
            # A call that is being asked about stays open if the chat ends, and the run ends by itself.
            if not isinstance(interruption, Interrupted) or self.terminal.react(interruption.number) == "cancel":
                self.terminal.interrupt()
                self.loop.call(_cancel(run))
            with contextlib.suppress(RipienoError):
                future.result()
            self.conversation = run.conversation
            if isinstance(interruption, Interrupted):
                raise
            say("(stopped)")

    def _result(self, future: concurrent.futures.Future[Conversation]) -> Conversation:
        while True:
            try:
                return future.result()
            except KeyboardInterrupt:
                if not self.terminal.editor.has_keys:
                    raise

    async def _conduct(self, line: str | None) -> Run:
        owner = self.keeper.owner(self.conversation.identifier)
        if line is None:
            conversation, answers = self.keeper.answered(self.conversation)
            return self.wanted.conduct(self.assembly, conversation, answers=answers, owner=owner)
        if declined := ", ".join(one.name for one in self.conversation.open):
            say(f"Declined, because you say something else: {declined}")
        return self.wanted.conduct(self.assembly, self.conversation.say(line, declining=True), owner=owner)


async def _cancel(run: Run) -> None:
    run.cancel()


@contextlib.contextmanager
def _terminated_in_order() -> Generator[None]:
    """Makes SIGTERM and SIGHUP end the command in order: calls that are asked about wait, others are cancelled."""

    def interrupt(number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP:
            # The shell of a closed terminal sends it, and the system once more.
            signal.signal(number, signal.SIG_IGN)
        raise Interrupted(number)

    with _handled(interrupt):
        yield


@contextlib.contextmanager
def _uninterrupted() -> Generator[None]:
    """Lets SIGTERM and SIGHUP end the command only after the block."""
    received: list[int] = []
    with _handled(lambda number, _: received.append(number)):
        yield
    if received:
        raise Interrupted(received[0])


@contextlib.contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Generator[None]:
    # Signals that the caller ignores (nohup) stay ignored.
    handled = (one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN)
    before = {one: signal.signal(one, handler) for one in handled}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
