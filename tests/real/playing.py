"""Declares a server as a user would, plays it through the public library, and looks at what it leaves behind."""

import contextlib
import dataclasses
import pathlib
import uuid
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import tomli_w

import ripieno
from ripieno.approvals import Confirmer
from ripieno.canisters import InvocationCanister
from ripieno.canisters.events import Alert, Event, ExecutionProgress
from ripieno.execution import Circumstances
from ripieno.jsonvalues import freeze
from ripieno.sandbox.zygote import ZYGOTES
from ripieno.storage.places import Places
from tests.support.open_files import open_files

#: A variable that every process of one server has, so that none of them can hide.
_MARK = "RIPIENO_TESTS_MARK"


@dataclasses.dataclass(slots=True, kw_only=True)
class Played:
    """A connected server. ``calls`` are counted for the report of the tests."""

    assembly: ripieno.Assembly
    ensemble: ripieno.Ensemble
    alerts: list[Alert]
    mark: str
    calls: int = 0
    events: list[Event] = dataclasses.field(default_factory=list[Event])

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that it lists."""
        return tuple(self.ensemble.invokers)

    @property
    def progress(self) -> list[tuple[float, float | None]]:
        """What the calls told of their progress."""
        return [(event.done, event.total) for event in self.events if isinstance(event, ExecutionProgress)]

    async def result(self, tool: str, **arguments: Any) -> ripieno.ResultCanister:
        """The result of one call through the whole pipeline."""
        self.calls += 1
        invocation = InvocationCanister(
            identifier=f"call_{self.calls}",
            name=self.ensemble.access_invoker(tool).exposed,
            arguments=freeze(arguments),
        )
        around = Circumstances(conversation="real", notify=self.events.append)
        return await self.assembly.execution.execute(invocation, ensembles=[self.ensemble], circumstances=around)

    async def call(self, tool: str, **arguments: Any) -> ripieno.ResultCanister:
        """The same; the call must be a good one."""
        result = await self.result(tool, **arguments)
        assert result.error is None, result.text
        return result

    async def fail(self, tool: str, **arguments: Any) -> str:
        """What a model reads of a call that must fail."""
        result = await self.result(tool, **arguments)
        assert result.error is not None, result.text
        return result.text


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """A user with folders of their own, and a folder that the servers may work in."""

    folder: pathlib.Path

    @property
    def workspace(self) -> pathlib.Path:
        return self.folder / "workspace"

    @property
    def configuration(self) -> pathlib.Path:
        """The file that names the folder of ensembles."""
        return self.folder / "ripieno.toml"

    def declare(self, name: str, command: Sequence[str | pathlib.Path], **environment: str) -> str:
        """Writes the descriptor of a server, and a configuration that plays it alone; gives its mark."""
        mark = uuid.uuid4().hex
        descriptor = {
            "ensemble": {"name": name},
            "connection": {
                "origin": "mcp",
                "command": [str(one) for one in command],
                "environment": {_MARK: mark, **environment},
            },
        }
        ensembles = self.folder / "ensembles"
        ensembles.mkdir(exist_ok=True)
        self.workspace.mkdir(exist_ok=True)
        (ensembles / f"{name}.toml").write_text(tomli_w.dumps(descriptor))
        tables = {
            "ensembles": {"paths": [str(ensembles)], "enabled": [name]},
            "confirmation": {"approve": [f"{name}.*"]},
        }
        self.configuration.write_text(tomli_w.dumps(tables))
        return mark

    @contextlib.asynccontextmanager
    async def play(
        self,
        name: str,
        command: Sequence[str | pathlib.Path],
        *,
        confirmer: Confirmer | None = None,
        **environment: str,
    ) -> AsyncGenerator[Played, None]:
        """The server while it is connected; at the end neither a process nor a descriptor of it may be left."""
        mark = self.declare(name, command, **environment)
        alerts: list[Alert] = []
        places = Places(configuration=self.folder / "configuration", state=self.folder / "state")
        before = descriptors()
        async with ripieno.assemble(
            self.configuration, workspace=self.workspace, places=places, alert=alerts.append, confirmer=confirmer
        ) as assembly:
            played = Played(assembly=assembly, ensemble=assembly.access_ensemble(name), alerts=alerts, mark=mark)
            assert marked(mark), "No process has the mark: its absence later would mean nothing."
            yield played
        assert marked(mark) == {}
        assert descriptors() == before
        print(f"{name}: {len(played.tools)} tools listed, {played.calls} calls made")


def descriptors() -> dict[str, str]:
    """What this process holds open now, without the supervisors of its programs."""
    ZYGOTES.drop()
    return open_files("self")


def marked(mark: str) -> dict[str, str]:
    """The processes that have this mark, by number, with their commands; those that are dead have none."""
    found: dict[str, str] = {}
    for folder in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and mark.encode() in (folder / "environ").read_bytes():
                found[folder.name] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found
