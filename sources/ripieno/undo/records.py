"""What the journal says: entries of steps, each of which turned one state of a path into another."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from ripieno.exceptions import InputError

Kind = Literal["file", "link", "directory"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a path was, or became. ``size`` is in bytes, ``mode`` the nine permission bits.

    ``digest`` is ``sha256:…`` of a file's content, empty where that was too large to be read; ``target`` is a link's.
    """

    kind: Kind
    mode: int = 0
    digest: str = ""
    size: int = 0
    target: str = ""

    def same(self, other: "State | None") -> bool:
        """Whether it is known to be the same. Modes count for files only: a folder's may depend on who made it."""
        if other is None or self.kind != other.kind:
            return False
        if self.kind == "file":
            return bool(self.digest) and (self.digest, self.mode) == (other.digest, other.mode)
        return self.target == other.target


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One path, relative to the workspace, without links. None is nothing there.

    ``source`` is set for a move: the path that it came from. ``kept`` says whether ``before`` can be restored.
    """

    path: str
    before: State | None
    after: State | None
    source: str = ""
    kept: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The call that changes something: a tool's identity, a conversation, and the call's identifier."""

    tool: str = ""
    conversation: str = ""
    invocation: str = ""


#: A change that nobody called for by name.
NOWHERE = Cause()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one call changed, or, with a ``label`` and no steps, a mark. ``time`` is ISO 8601, in UTC."""

    number: int
    time: str
    cause: Cause = NOWHERE
    steps: tuple[Step, ...] = ()
    label: str = ""
    undone: bool = False

    @property
    def kept(self) -> bool:
        """Whether all that it changed was kept. What was not can never be restored."""
        return all(step.kept for step in self.steps)

    def mapping(self) -> dict[str, Any]:
        """The JSON form."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, mapping: Mapping[str, Any], *, undone: bool) -> "Entry":
        """An entry of its JSON form. Errors: ``InputError``."""
        try:
            steps = tuple(_step(step) for step in mapping["steps"])
            return cls(
                number=mapping["number"],
                time=mapping["time"],
                cause=Cause(**mapping["cause"]),
                steps=steps,
                label=mapping["label"],
                undone=undone,
            )
        except (KeyError, TypeError) as error:
            raise InputError(f"The undo journal has an entry that cannot be read: {error}.") from error


def _step(mapping: Mapping[str, Any]) -> Step:
    return Step(
        path=mapping["path"],
        before=_state(mapping["before"]),
        after=_state(mapping["after"]),
        source=mapping["source"],
        kept=mapping["kept"],
    )


def _state(mapping: Mapping[str, Any] | None) -> State | None:
    return None if mapping is None else State(**mapping)
