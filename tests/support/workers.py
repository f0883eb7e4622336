"""Workers as processes, which can be killed, and conversations for them: their tools append lines to files.

A worker process is forked from one that has imported everything, so that a storm of hundreds is affordable.
"""

import asyncio
import contextlib
import dataclasses
import functools
import itertools
import multiprocessing
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from typing import Any

import ripieno
from ripieno.assembly import Assembly
from ripieno.assembly.submissions import dispatcher_beside
from ripieno.canisters import Conversation, InvocationCanister, ResultCanister, UserCanister
from ripieno.conducting.paused import PausedStore
from ripieno.ensembles import Context
from ripieno.models import Model
from ripieno.servers.worker.worker import Worker
from ripieno.storage.databases import claims
from ripieno.storage.dispatch import leases
from ripieno.storage.dispatch.contract import Dispatcher, Submission
from ripieno.storage.journal import Journal
from ripieno.testing import call, model_of, turn

#: The turns of a conversation, each with three calls.
STEPS = 4
#: Seconds of leases in tests, and between their renewals: those of a busy machine.
LEASE, RENEWAL = 3.0, 0.5
#: The place of a process's death: its tool has acted, and has not returned.
IN_A_TOOL = -1
_deadly = False


def append(context: Context, arguments: dict[str, Any]) -> str:
    """Appends a word to the file of the tool, with the name of its conversation, in one write."""
    path = pathlib.Path(context.configuration["folder"]) / context.invoker.name
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{context.conversation}:{arguments['word']}\n".encode())
    os.close(descriptor)
    if _deadly and context.invoker.name == "append":
        os.kill(os.getpid(), signal.SIGKILL)
    return "Written."


async def hang(context: Context, arguments: dict[str, Any]) -> str:
    """Waits until it is cancelled."""
    del context, arguments
    await asyncio.Event().wait()
    return "Never."


async def inquire(context: Context, arguments: dict[str, Any]) -> str:
    """Asks the user."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    values = await context.inquire(f"Which {arguments['word']}?", schema)
    return "The user declined." if values is None else str(values["name"])


def gate(context: Context, arguments: dict[str, Any]) -> str:
    """Waits until a test has opened the pipe of this name to write."""
    with open(pathlib.Path(context.configuration["folder"]) / arguments["word"], "rb"):
        return "Open."


#: Models by their names.
_MODELS: Mapping[str, Any] = {
    "house/text": [turn("Good morning.")],
    "house/ask": [turn("I write.", calls=[call("append", word="w")]), turn("Done.")],
    "house/two": [turn("I write.", calls=[call("note", word="v"), call("note", word="w")]), turn("Done.")],
    "house/hang": [turn("I wait.", calls=[call("hang", word="x")])],
    "house/gate": [turn("I wait.", calls=[call("gate", word="pipe")]), turn("It is open.")],
    "house/fail": [],
    "house/client": [turn("You do it.", calls=[call("draw", shape="round")]), turn("Thank you.")],
}


def model(name: str = "") -> Model:
    """A model that appends and looks, and says at the end that all is written; or the one with this name."""
    if name in _MODELS:
        return model_of(_MODELS[name])
    turns = []
    for step in range(STEPS):
        calls = [call(("append", "look")[(step + number) % 3 == 2], word=f"{step}.{number}") for number in range(3)]
        turns.append(turn(f"Step {step}.", calls=calls))
    return model_of([*turns, turn("All is written.")])


def configuration(folder: pathlib.Path, *, approved: bool = True) -> dict[str, Any]:
    """The configuration of a worker whose tools write to the folder."""
    arguments = {"type": "object", "required": ["word"], "properties": {"word": {"type": "string"}}}
    tools = [
        {
            "name": name,
            "description": name,
            "effect": effect,
            "arguments": arguments,
            "invocable": {"origin": "python", "function": f"{__name__}:{function}"},
        }
        for name, effect, function in (
            ("append", "write", "append"),
            ("look", "read", "append"),
            ("note", "write", "append"),
            ("hang", "read", "hang"),
            ("gate", "read", "gate"),
            ("inquire", "read", "inquire"),
        )
    ]
    # Two notes do not wait for each other.
    tools[2]["writes"] = ["word:{word}"]
    return {
        "ensembles": [
            {"ensemble": {"name": "mine"}, "configuration": {"folder": str(folder)}, "invokers": tools},
        ],
        "confirmation": {"approve": ["mine.*"] if approved else []},
        "limits": {"turns": 50},
    }


def submission(name: str, host: str, text: str = "Write.", **fields: Any) -> Submission:
    """The submission that begins a conversation of this name, for the workers of a host."""
    settings = {"identifier": f"submission of {name}", "canisters": (UserCanister.of(text),), **fields}
    return Submission(**{"conversation": name, "model": "score/it", "host": host, **settings})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A journal with its queue, and the folder of the tools. ``host`` is of this site alone."""

    place: pathlib.Path | str
    folder: pathlib.Path
    host: str

    @contextlib.contextmanager
    def journal(self) -> Iterator[Journal]:
        with Journal(self.place) as journal:
            yield journal

    @contextlib.contextmanager
    def dispatcher(self) -> Iterator[Dispatcher]:
        dispatcher = dispatcher_beside(self.place)
        try:
            yield dispatcher
        finally:
            dispatcher.close()

    def words(self, tool: str = "append") -> Sequence[str]:
        """What a tool has written."""
        path = self.folder / tool
        return path.read_text().split() if path.exists() else []

    @contextlib.asynccontextmanager
    async def worker(self, *, approved: bool = True, **settings: Any) -> Any:
        """A worker in this process, until the end of the block."""
        with self.journal() as journal, self.dispatcher() as dispatcher:
            async with assembly_of(self, journal, approved=approved) as assembly:
                model_of = settings.pop("model_of", model)
                worker = Worker(assembly, dispatcher, hosts=[self.host], model_of=model_of, **settings)
                task = asyncio.create_task(worker.run())
                try:
                    yield worker
                finally:
                    worker.stop()
                    await task


def assembly_of(site: Site, journal: Journal, *, approved: bool) -> Assembly:
    """The assembly of a worker, which is not entered yet."""
    grants = PausedStore(journal.database).grants
    return ripieno.assemble(configuration(site.folder, approved=approved), recorder=journal, grants=grants)


class WorkerProcess:
    """A worker in a process of its own.

    ``moment`` is the number of the function call at which it kills itself, or ``IN_A_TOOL``. ``clock`` is added to the
    clock of its machine.
    """

    def __init__(
        self, site: Site, *, moment: int | None = None, clock: float = 0.0, slots: int = 4, approved: bool = True
    ) -> None:
        context = forking()
        ours, theirs = context.Pipe(duplex=False)
        self._ready = ours
        given, settings = (site, dict(os.environ), theirs, moment, clock), {"slots": slots, "approved": approved}
        self.process: ForkServerProcess = context.Process(target=_work, args=given, kwargs=settings, daemon=True)
        self.process.start()
        theirs.close()

    def wait_until_ready(self) -> None:
        """Returns when it takes submissions, or has ended."""
        with contextlib.suppress(EOFError):
            self._ready.recv()

    def signal(self, number: int) -> None:
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, number)

    def end(self, *, seconds: float = 60) -> int | None:
        """Asks it to end, and waits; returns its exit code."""
        self.signal(signal.SIGTERM)
        self.process.join(seconds)
        assert self.process.exitcode is not None, "the worker does not end"
        return self.process.exitcode


@functools.cache
def forking() -> Any:
    """Processes that are forked from one that has imported everything.

    Its environment is that of the test that needed it first: a new process takes that of its own test.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.chat_servers", "ripieno.storage.dispatch.dbos"])
    return context


def take_environment(environment: Mapping[str, str]) -> None:
    """Gives a forked process the environment of its test, and nothing else."""
    os.environ.clear()
    os.environ.update(environment)


def _work(
    site: Site, environment: Mapping[str, str], ready: Any, moment: int | None, clock: float, **settings: Any
) -> None:
    """Works until SIGTERM. Runs in the process of the worker."""
    global _deadly  # noqa: PLW0603  of this process
    take_environment(environment)
    claims.LEASE = leases.LEASE = LEASE
    claims.RENEWAL = leases.RENEWAL = RENEWAL
    if clock:
        _shift(clock)
    _deadly = moment == IN_A_TOOL

    async def main() -> None:
        stopping = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
        async with site.worker(grace=20, **settings):
            ready.send(None)
            if moment is not None and moment >= 0:
                _die_at(moment)
            await stopping.wait()

    asyncio.run(main())


def _die_at(moment: int) -> None:
    """Kills this process at its so many-th call of a function, in whichever thread: time depends on the machine."""
    moments = itertools.count()

    def see(frame: Any, event: str, argument: Any) -> None:
        if next(moments) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(see)
    sys.setprofile(see)


def _shift(seconds: float) -> None:
    """Moves the clock of this process."""
    import time

    real = time.time
    time.time = lambda: real() + seconds


def check(site: Site, journal: Journal, name: str) -> int:
    """Checks a conversation that has ended; returns the number of its calls of unknown outcome."""
    conversation: Conversation = journal.restore(name).conversation
    assert conversation.finish == "stop", conversation.finish
    assert conversation.text == "All is written."
    said = [one for one in conversation.canisters if isinstance(one, UserCanister)]
    assert len(said) == 1, "the message is said once"
    calls = [one for one in conversation.canisters if isinstance(one, InvocationCanister)]
    results: Mapping[str, ResultCanister] = {
        one.invocation_id: one for one in conversation.canisters if isinstance(one, ResultCanister)
    }
    assert sorted(results) == sorted(one.identifier for one in calls), "the call law"
    unknown = 0
    for one in calls:
        if one.name == "append" and (error := results[one.identifier].error) is not None:
            assert error.category in ("outcome_unknown", "cancelled"), error
            unknown += error.category == "outcome_unknown"
    return unknown
