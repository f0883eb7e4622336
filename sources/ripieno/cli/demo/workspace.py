"""What ``ripieno demo`` plays: with which tools, in which workspace, and what must be true of it afterwards."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Protocol

from ripieno.canisters import Conversation


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found in a workspace after a conversation. ``faults`` say what is not as it must be."""

    lines: Sequence[str] = ()
    faults: Sequence[str] = ()


class Play(Protocol):
    """A score with everything around it. All that it makes lies in the demo's temporary folder."""

    @property
    def score(self) -> str:
        """The name of its score."""
        ...

    @property
    def real(self) -> str:
        """What is real in it, beside the HTTP and the wire formats."""
        ...

    @property
    def question(self) -> str | None:
        """What to ask a real model instead; None when this needs more than a question."""
        ...

    @property
    def ensembles(self) -> Sequence[str]:
        """The ensembles that are played."""
        ...

    @property
    def approve(self) -> Sequence[str]:
        """The tools whose calls run without a question, although they change something."""
        ...

    @property
    def confined(self) -> bool:
        """Whether it is about programs that must run in a sandbox."""
        ...

    def surround(self, folder: pathlib.Path, /) -> contextlib.AbstractContextManager[None]:
        """The environment while it is played; ``folder`` is the demo's own."""
        ...

    async def prepare(self, workspace: pathlib.Path) -> None:
        """Fills a new workspace."""
        ...

    async def look(self, workspace: pathlib.Path, conversation: Conversation) -> Findings:
        """Looks at the workspace itself, whatever the conversation says of it."""
        ...

    def clear(self, workspace: pathlib.Path) -> None:
        """Removes what a conversation has made, so that the next begins as it did."""
        ...
