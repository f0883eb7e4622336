"""``ripieno chat``: a conversation at the terminal.

The event loop has a thread of its own, so that connections live on while somebody types, and the line that is typed
is edited as lines are everywhere.
"""

import asyncio
import concurrent.futures
import contextlib
import importlib
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from types import FrameType
from typing import Any, TypeVar

import click

from ripieno.assembly import Assembly
from ripieno.canisters import Conversation
from ripieno.cli.common.assembly import load_layers
from ripieno.cli.common.main import Interrupted, judge, say
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.common.terminal import ShownConfirmer, Terminal
from ripieno.cli.conversations.cassettes import begin
from ripieno.cli.conversations.conversation import Wanted, asking, follow
from ripieno.cli.conversations.persistence import Keeper, keeping
from ripieno.cli.conversations.recall import find, recall
from ripieno.conducting import Run
from ripieno.conducting.observers.console import brief
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import RipienoError
from ripieno.testing.cassettes import Replay

Value = TypeVar("Value")

#: Seconds after which a signal is handled at the latest.
_HEEDED = 0.2

_HELP = """\
/help    this
/tools   the tools that the model is offered
/new     begin again, with nothing said
/go      go on with calls that waited for somebody
/exit    end; so does Ctrl-D
Ctrl-C stops an answer; what was said stays. Anything else is said to the model."""


class Loop:
    """An event loop in a thread of its own. Whoever waits for it in the main thread can be interrupted."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ripieno chat", daemon=True)
        self._thread.start()

    def start(self, main: Coroutine[Any, Any, Value]) -> concurrent.futures.Future[Value]:
        """Starts a coroutine there."""
        return asyncio.run_coroutine_threadsafe(main, self._loop)

    def call(self, main: Coroutine[Any, Any, Value]) -> Value:
        """What a coroutine gives; an interruption cancels it, and is raised when it has ended."""
        tasks: list[asyncio.Task[Any]] = []

        async def noted() -> Value:
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
            future = self.start(noted())
            while not future.done():
                # A signal that comes just before the wait is handled after it: the wait must not be long.
                concurrent.futures.wait((future,), timeout=_HEEDED)
            return future.result()
        except (KeyboardInterrupt, Interrupted):
            # A second interruption does not wait.
            self.start(end()).result()
            raise

    def close(self) -> None:
        """Stops the loop; its tasks have ended."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@click.command()
@click.option("--resume", "before", metavar="ID", help="Go on with a conversation of the journal; see: journal list.")
@asking
@common
@pass_settings
def chat(settings: Settings, *, before: str | None, wanted: Wanted) -> None:
    """Talk with a model, which may call the tools.

    Lines are read from standard input. /help says what else can be typed.

    \b
    Example:
      ripieno chat -m PROVIDER/MODEL
      ripieno chat --resume 3f9a
    """
    loaded = load_layers(settings)
    with _terminated_in_order(), Terminal() as terminal, keeping(loaded) as keeper:
        conversation = Conversation()
        if before is not None:
            found = find(keeper, before)
            found.check(loaded)
            conversation, wanted = recall(keeper, found).conversation, wanted.like(found.model, found.tools)
        confirmer = ShownConfirmer(wanted.confirmer(terminal))
        renderer = wanted.renderer()
        assembly = wanted.assembly(loaded, confirmer, renderer, keeper)
        talking = Chat(wanted, assembly, terminal, keeper, lambda run: follow(run, assembly, renderer, confirmer))
        talking.talk(conversation)


class Chat:
    """One conversation with whoever types."""

    def __init__(
        self,
        wanted: Wanted,
        assembly: Assembly,
        terminal: Terminal,
        keeper: Keeper,
        follow: Callable[[Run], Coroutine[Any, Any, Conversation]],
    ) -> None:
        self._wanted = wanted
        self._assembly = assembly
        self._terminal = terminal
        self._keeper = keeper
        self._follow = follow
        self._conversation = Conversation()
        self._loop = Loop()

    def talk(self, conversation: Conversation) -> None:
        """Reads lines until they end, and goes on with a conversation. Errors: those of start-up."""
        self._conversation = conversation
        loop, assembly = self._loop, self._assembly
        try:
            loop.call(assembly.__aenter__())
            try:
                if conversation.open:
                    self._answer(None)
                self._begin()
                while (line := self._read()) is not None:
                    if not self._obey(line):
                        break
            finally:
                loop.call(assembly.__aexit__(None, None, None))
        finally:
            loop.close()

    def _begin(self) -> None:
        """Says what a cassette has, as far as it is replayed."""
        cassette = self._wanted.cassette
        while isinstance(cassette, Replay) and cassette.left:
            self._conversation = begin(cassette, self._conversation)
            self._answer(None)

    def _read(self) -> str | None:
        """The next line, or None at the end of input. Ctrl-C takes back what was typed."""
        attended = sys.stdin.isatty()
        if attended:
            with contextlib.suppress(ImportError):
                # Importing it is what gives input() its editing.
                importlib.import_module("readline")
        while True:
            try:
                return input("you: " if attended else "").strip()
            except EOFError:
                return None
            except KeyboardInterrupt:
                say("\n(/exit or Ctrl-D ends)")

    def _obey(self, line: str) -> bool:
        """Does what a line says; whether to go on."""
        match line:
            case "":
                pass
            case "/exit" | "/quit":
                return False
            case "/help":
                say(_HELP)
            case "/new":
                self._conversation = Conversation()
            case "/go":
                self._answer(None)
            case "/tools":
                patterns = self._wanted.patterns(self._assembly.loaded)
                for invoker in Offer.of(self._assembly.ensembles, tools=patterns).invokers:
                    say(f"{invoker.identity} ({invoker.policy.effect}): {brief(invoker.description)}")
            case command if command.startswith("/"):
                say(f"There is no command {command.split()[0]}.\n{_HELP}")
            case _:
                self._answer(line)
        return True

    def _answer(self, line: str | None) -> None:
        """Conducts one line, or what waits. What goes wrong is said, and it goes on from where it stood."""
        self._terminal.resume()
        try:
            run = self._loop.call(self._conduct(line))
        except RipienoError as error:
            say(judge(error)[1])
            return
        said = len(run.conversation.canisters)
        with self._keeper.conducting(run.conversation.identifier):
            self._attend(run, said)
        self._keeper.keep(run.conversation, run.model.identity, self._wanted.tools)

    def _attend(self, run: Run, said: int) -> None:
        """Shows a run until it ends; ``said`` canisters were there before."""
        future = self._loop.start(self._follow(run))
        try:
            self._conversation = future.result()
        except RipienoError as error:
            say(judge(error)[1])
            # What was never answered is said again by whoever wants it.
            if len(run.conversation.canisters) > said:
                self._conversation = run.conversation
        except (KeyboardInterrupt, Interrupted) as interruption:
            self._terminal.interrupt()
            self._loop.call(_cancel(run))
            with contextlib.suppress(RipienoError):
                future.result()
            self._conversation = run.conversation
            if isinstance(interruption, Interrupted):
                raise
            say("(stopped)")

    async def _conduct(self, line: str | None) -> Run:
        if line is None:
            answers = self._keeper.answers(self._conversation)
            caller = self._keeper.caller(self._conversation)
            return self._wanted.conduct(self._assembly, self._conversation, answers=answers, caller=caller)
        return self._wanted.conduct(self._assembly, self._conversation.say(line))


async def _cancel(run: Run) -> None:
    run.cancel()


@contextlib.contextmanager
def _terminated_in_order() -> Generator[None]:
    """Makes SIGTERM and SIGHUP end the command as Ctrl-C would: with everything that it started."""

    def interrupt(number: int, _: FrameType | None) -> None:
        raise Interrupted(number)

    # What the caller ignores (nohup) stays ignored.
    heeded = (one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN)
    before = {one: signal.signal(one, interrupt) for one in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
