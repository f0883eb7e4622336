"""Bundled ensembles as an application has them, and calls of their tools through the whole pipeline."""

import contextlib
import dataclasses
import itertools
import json
import pathlib
import sys
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from ripieno.assembly import Assembly, assemble
from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.events import Event
from ripieno.ensembles import Ensemble
from ripieno.execution import Circumstances, Execution
from ripieno.jsonvalues import freeze
from ripieno.storage.places import Places

_DATA = pathlib.Path(__file__).parents[2] / "data" / "ensembles"


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Tools:
    """The tools of one ensemble, called on behalf of one conversation."""

    ensemble: Ensemble
    execution: Execution
    workspace: pathlib.Path
    events: list[Event] = dataclasses.field(default_factory=list[Event])
    namespaces: dict[str, dict[str, object]] = dataclasses.field(default_factory=dict[str, dict[str, object]])
    #: What is left for each call, when that is less than its policy allows.
    seconds: float | None = None
    numbers: "itertools.count[int]" = dataclasses.field(default_factory=itertools.count)

    async def __call__(self, tool: str, /, **arguments: Any) -> ResultCanister:
        """The result of a call, whatever it is."""
        invoker = self.ensemble.access_invoker(tool)
        invocation = InvocationCanister(
            identifier=f"call_{next(self.numbers)}", name=invoker.exposed, arguments=freeze(arguments)
        )
        around = Circumstances(
            conversation="one", namespaces=self.namespaces, notify=self.events.append, seconds=self.seconds
        )
        return await self.execution.execute(invocation, ensembles=[self.ensemble], circumstances=around)

    def elsewhere(self) -> "Tools":
        """The same tools in another conversation."""
        return dataclasses.replace(self, events=[], namespaces={})


async def execute(assembly: Assembly, tool: str, /, **arguments: Any) -> ResultCanister:
    """The result of one call of an assembly."""
    invocation = InvocationCanister(identifier="call_1", name=tool, arguments=freeze(arguments))
    return await assembly.execution.execute(invocation, ensembles=assembly.ensembles)


def write_program(path: pathlib.Path, script: str) -> pathlib.Path:
    """An executable file with that text, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


def install_pytest(workspace: pathlib.Path) -> pathlib.Path:
    """A pytest of a project: that of these tests, without their plugins."""
    script = f'#!/bin/sh\nPYTEST_DISABLE_PLUGIN_AUTOLOAD=1 exec {sys.executable} -m pytest "$@"\n'
    return write_program(workspace / ".venv" / "bin" / "pytest", script)


def text_of(result: ResultCanister) -> str:
    """What a model reads of a result."""
    if result.error is not None:
        return result.error.text()
    return "".join(getattr(one, "text", "") for one in result.content)


def json_of(result: ResultCanister) -> Any:
    """The structure of a good result."""
    assert result.error is None, result.error
    return json.loads(text_of(result))


def code_of(result: ResultCanister) -> str | None:
    """The code of a fault; None for a good result."""
    return None if result.error is None else result.error.code


@contextlib.asynccontextmanager
async def tools_of(
    name: str,
    workspace: pathlib.Path,
    configuration: Mapping[str, Any] | None = None,
    *,
    sandbox: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> AsyncGenerator[Tools, None]:
    """A bundled ensemble beneath a workspace; without a sandbox unless one is asked for."""
    beside = workspace.parent / f"{workspace.name}-user"
    settings: dict[str, Any] = {
        "ensembles": {"enabled": [name]},
        "confirmation": {"approve": [f"{name}.{path.stem}" for path in (_DATA / name / "invokers").glob("*.toml")]},
        "sandbox": sandbox or {"level": "off"},
    }
    if configuration is not None:
        settings["configuration"] = {name: dict(configuration)}
    places = Places(configuration=beside / "configuration", state=beside / "state")
    async with assemble(settings, workspace=workspace, places=places, secrets=secrets or {}) as assembly:
        yield Tools(ensemble=assembly.access_ensemble(name), execution=assembly.execution, workspace=workspace)
