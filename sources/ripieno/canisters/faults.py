"""Faults, reports and changes: why a call failed, how it ran, what it changed."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args

from frozendict import frozendict

from ripieno.canisters.contents import freeze_fields, legible, tuple_fields
from ripieno.exceptions import ToolFault
from ripieno.jsonvalues import encode, freeze, thaw
from ripieno.values import Value

Category = Literal[
    "validation",
    "execution",
    "timeout",
    "permission",
    "resource",
    "network",
    "quota",
    "fatal",
    "unknown_tool",
    "denied",
    "cancelled",
    "limit",
    "outcome_unknown",
]
#: The effect of a call on the world, from the mildest to the strictest.
Effect = Literal["none", "read", "write", "destructive"]

#: The category names of seed 000, section 7.1 (``outcome_unknown``: ``OutcomeUnknownError``); ours follow its form.
CATEGORY_NAMES: Mapping[str, str] = {name: name.title().replace("_", "") + "Error" for name in get_args(Category)}

#: What to try after a fault whose tool does not say it (seed 000, sections 7.1 and 7.3). A fatal one ends the run.
SUGGESTIONS: Mapping[str, str] = {
    "validation": "Fix the arguments, and call it again.",
    "execution": "Check the arguments, or try another way.",
    "timeout": "Break the operation into smaller steps, or allow it more time.",
    "permission": "It is not accessible: try another way, or ask the user.",
    "resource": "Verify that it exists and is available before you use it again.",
    "network": "Check the address and try again later, or try another way.",
    "quota": "Wait before the next call.",
    "outcome_unknown": "It may have done part of its work: check before repeating it.",
}

ChangeKind = Literal[
    "FileCreated", "FileModified", "FileDeleted", "DirectoryCreated", "ProcessStarted", "ProcessTerminated", "EnvVarSet"
]


class Change(Value, kw_only=True):
    """A state change that a call made: one of the seven kinds of seed 000, section 3.3.

    ``data`` has the keys of its kind: ``path``; ``pid`` and ``command`` or ``exit_code``; ``key`` and ``value``.
    """

    kind: ChangeKind
    data: frozendict[str, object]

    def __post_init__(self) -> None:
        freeze_fields(self, "data")

    @classmethod
    def of(cls, kind: ChangeKind, **data: object) -> "Change":
        """A change with its data as keywords."""
        return cls(kind=kind, data=frozendict(data))

    def mapping(self) -> dict[str, object]:
        """The JSON form of seed 000, section 6.2."""
        return {"type": self.kind, **thaw(self.data)}


@dataclasses.dataclass(slots=True)
class Changes:
    """The changes that the programs of a running call made; ``unknown`` is why some may be missing."""

    found: list[Change] = dataclasses.field(default_factory=list[Change])
    unknown: str = ""


class Fault(Value, kw_only=True):
    """The reason why a call failed, in words that let a model fix it (seed 000, section 6.3)."""

    category: Category
    message: str
    code: str = ""
    details: frozendict[str, object] = frozendict()
    recoverable: bool = True
    suggestion: str | None = None

    def __post_init__(self) -> None:
        freeze_fields(self, "details")

    @classmethod
    def raised(cls, fault: ToolFault) -> "Fault":
        """The fault that a tool raised. Its parts may be of any type; they are converted to plain values."""
        named: Any = fault.category
        category: Category = named if named in CATEGORY_NAMES else "execution"
        suggestion: Any = fault.suggestion or SUGGESTIONS.get(category)
        return cls(
            category=category,
            message=legible(str(fault.message)),
            code=legible(str(fault.code)),
            details=_plain(fault.details),
            recoverable=bool(fault.recoverable),
            suggestion=None if suggestion is None else legible(str(suggestion)),
        )

    def text(self) -> str:
        """The text for the model: what failed, on what, what to try (seed 000, section 7.3)."""
        # The message of an MCP server may begin so, too.
        message = f"Error: {self.message.removeprefix('Error: ')}"
        return f"{message}\n{self.suggestion}" if self.suggestion else message

    def mapping(self) -> dict[str, object]:
        """The ``error`` object of seed 000, section 6.3."""
        return {
            "type": CATEGORY_NAMES[self.category],
            "message": self.message,
            "code": (self.code or self.category).upper(),
            "details": thaw(self.details),
        }


def _plain(details: Mapping[str, Any]) -> frozendict[str, object]:
    """The details as JSON; as ``repr`` if they are not JSON."""
    try:
        frozen: frozendict[str, object] = freeze(details)
        encode(frozen)
    except ValueError:
        return frozendict({legible(str(name)): legible(repr(value)) for name, value in details.items()})
    return frozen


class Report(Value, kw_only=True):
    """Measurements of a call. Durations are in milliseconds, sizes in bytes."""

    duration_ms: float = 0.0
    exit_code: int | None = None
    changes: tuple[Change, ...] = ()
    #: Why changes of files may be missing in ``changes``.
    changes_unknown: str = ""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    total_bytes: int = 0
    #: How often the tool was started.
    attempts: int = 0
    #: The failure of each attempt that was to be retried: ``category`` or ``category/code``.
    retried: tuple[str, ...] = ()
    #: Whether the result is that of an earlier call.
    cached: bool = False
    sandbox: str | None = None
    #: The exposed name of the tool, in results of ``execute_invocations``: some wires need it without the call.
    tool: str = ""
    #: The arguments that ran, if a person edited those of the model.
    edited: Mapping[str, Any] | None = None
    #: What it would change, as the person who approved it was shown: usually a unified diff, at most 64 KB of it.
    change: str = ""

    def __post_init__(self) -> None:
        tuple_fields(self, "changes", "retried")


NO_REPORT = Report()
