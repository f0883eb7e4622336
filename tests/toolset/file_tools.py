"""What the tests of the file tools share: all of them, connected, and a call of each by its name."""

import contextlib
import dataclasses
import pathlib
from collections.abc import AsyncIterator
from typing import Any

from frozendict import frozendict

from ripieno.assembly import Assembly, assemble
from ripieno.ensembles import Context, Invoker, Outcome, Surroundings
from ripieno.storage.places import Places
from ripieno.storage.undo import UndoLog
from tests.support.toml_ensembles import make_context

ENSEMBLES = ("file_read", "file_write", "file_manage", "directory")
#: The names of seed 000, sections 11.2 and 11.3.
NAMES = {
    "file_read": {"read_file", "read_lines", "head", "tail", "cat"},
    "file_write": {"write_file", "append_file", "create_file", "edit_file", "patch_file"},
    "file_manage": {"delete_file", "rename_file", "move_file", "copy_file", "chmod"},
    "directory": {"list_files", "list_dir", "mkdir", "rmdir", "tree"}
    | {"create_directory", "delete_directory", "move", "copy"},
}


@dataclasses.dataclass(slots=True)
class Tools:
    """Every file tool of one workspace, called as the pipeline calls them, in one conversation."""

    assembly: Assembly
    workspace: pathlib.Path
    conversation: str = "conversation"
    configuration: frozendict[str, Any] = dataclasses.field(default_factory=frozendict[str, Any])
    surroundings: Surroundings | None = None

    def elsewhere(self, workspace: pathlib.Path) -> "Tools":
        """The same tools in another workspace, without a journal."""
        around = dataclasses.replace(self.assembly.surroundings, workspace=workspace, journal=None)
        return dataclasses.replace(self, workspace=workspace, surroundings=around)

    def invoker(self, name: str) -> Invoker:
        return next(one.invokers[name] for one in self.assembly.ensembles if name in one.invokers)

    @property
    def journal(self) -> UndoLog:
        journal = self.assembly.surroundings.journal
        assert journal is not None
        return journal

    def context(self, name: str) -> Context:
        context = make_context(next(one for one in self.assembly.ensembles if name in one.invokers), name)
        return dataclasses.replace(
            context,
            conversation=self.conversation,
            configuration=context.configuration | self.configuration,  # type: ignore[operator]
            surroundings=self.surroundings or context.surroundings,
        )

    async def call(self, name: str, **arguments: Any) -> Any:
        """What the tool gives. Errors: ``ToolFault``."""
        return await self.invoker(name)(self.context(name), arguments)

    async def said(self, name: str, **arguments: Any) -> str:
        """What the tool says."""
        result = await self.call(name, **arguments)
        return str(result.content) if isinstance(result, Outcome) else str(result)


@contextlib.asynccontextmanager
async def file_tools(workspace: pathlib.Path, state: pathlib.Path) -> AsyncIterator[Tools]:
    """The tools, for a user whose state is kept there."""
    places = Places(configuration=state / "configuration", state=state / "state")
    settings = {"ensembles": {"enabled": list(ENSEMBLES)}}
    async with assemble(settings, workspace=workspace, places=places) as assembly:
        yield Tools(assembly, workspace)
