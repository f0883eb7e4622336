"""The six canisters: immutable messages, the same for every provider.

A conversation is a sequence of canisters. Assistant and invocation canisters alternate as the model's
blocks did. All of them up to the next user or result canister form one assistant message.

Constructors freeze what they are given: lists become tuples, and dicts become ``frozendict``, at every level. Errors:
``JsonInvalidity`` for arguments or opaque data that are not JSON, ``TypeError`` for a content that is not a sequence.
"""

import datetime
from typing import Literal, Self, TypeAlias

import msgspec
from frozendict import frozendict

from ripieno.canisters.contents import Content, TextualContent, freeze_fields, text_of, tuple_fields
from ripieno.canisters.faults import NO_REPORT, Fault, Report
from ripieno.jsonvalues import thaw
from ripieno.values import Value, uncompared

InvocationKind = Literal["function", "freeform"]


def now() -> datetime.datetime:
    """The current time in UTC, with its zone."""
    return datetime.datetime.now(datetime.UTC)


class Encodable:
    """A hidden slot for a protocol's last encoding. It is not compared, printed, copied, pickled or serialized."""

    __slots__ = ("encoding",)
    encoding: tuple[object, bytes]


@uncompared("timestamp")
class _Message(Encodable, Value, kw_only=True):
    content: tuple[Content, ...]
    timestamp: datetime.datetime = msgspec.field(default_factory=now)

    def __post_init__(self) -> None:
        tuple_fields(self, "content")

    @classmethod
    def of(cls, text: str) -> Self:
        """A canister of one text."""
        return cls(content=(TextualContent(text=text),))


class UserCanister(_Message):
    """A message of the user."""


class AssistantCanister(_Message, kw_only=True):
    """A message of the model. Its content is empty if the model only makes calls."""

    content: tuple[Content, ...] = ()

    @property
    def text(self) -> str:
        """The textual contents, joined."""
        return text_of(self.content)


class SupervisorCanister(_Message):
    """Instructions of the application to the model (a system or developer message)."""


@uncompared("timestamp")
class DocumentCanister(Encodable, Value, kw_only=True):
    """A document that the conversation is about."""

    content: tuple[Content, ...]
    identifier: str
    title: str | None = None
    timestamp: datetime.datetime = msgspec.field(default_factory=now)

    def __post_init__(self) -> None:
        tuple_fields(self, "content")


@uncompared("timestamp")
class InvocationCanister(Encodable, Value, kw_only=True):
    """A call that the model requests.

    ``identifier`` is the provider's, or a deterministic one of ours if that is missing, blank or duplicated.
    ``name`` is the exposed name. ``raw`` is the text of the arguments, if they were sent as text;
    ``fault`` says why it could not be read. ``opaque`` is data that the provider requires back on the call.
    """

    identifier: str
    name: str
    arguments: frozendict[str, object] = frozendict()
    kind: InvocationKind = "function"
    raw: str | None = None
    fault: Fault | None = None
    opaque: frozendict[str, object] = frozendict()
    timestamp: datetime.datetime = msgspec.field(default_factory=now)

    def __post_init__(self) -> None:
        freeze_fields(self, "arguments", "opaque")

    def request_mapping(
        self, *, step_number: int = 0, task_id: str = "", working_directory: str = ""
    ) -> dict[str, object]:
        """The JSON of seed 000, section 6.1."""
        return {
            "tool_call_id": self.identifier,
            "name": self.name,
            "arguments": thaw(self.arguments),
            "timestamp": self.timestamp.isoformat().replace("+00:00", "Z"),
            "context": {"step_number": step_number, "task_id": task_id, "working_directory": working_directory},
        }


@uncompared("report", "timestamp")
class ResultCanister(Encodable, Value, kw_only=True):
    """The result of one call. ``report`` is not compared."""

    invocation_id: str
    content: tuple[Content, ...] = ()
    error: Fault | None = None
    report: Report = NO_REPORT
    timestamp: datetime.datetime = msgspec.field(default_factory=now)

    def __post_init__(self) -> None:
        tuple_fields(self, "content")

    @property
    def text(self) -> str:
        """The text for the model: the error, if there is one, then the textual contents."""
        output = text_of(self.content)
        if self.error is None:
            return output
        return f"{self.error.text()}\n{output}" if output else self.error.text()

    def response_mapping(self) -> dict[str, object]:
        """The JSON of seed 000, sections 6.2 (success) and 6.3 (failure)."""
        report = self.report
        mapping: dict[str, object] = {
            "tool_call_id": self.invocation_id,
            "success": self.error is None,
            "output": text_of(self.content),
            "error": None if self.error is None else self.error.mapping(),
            "exit_code": report.exit_code,
            "execution_time_ms": round(report.duration_ms),
            "state_changes": [change.mapping() for change in report.changes],
        }
        if report.changes_unknown:
            mapping["state_changes_unknown"] = report.changes_unknown
        if report.sandbox is not None:
            mapping["sandbox"] = report.sandbox
        if self.error is None:
            mapping["metadata"] = {
                "stdout_truncated": report.stdout_truncated,
                "stderr_truncated": report.stderr_truncated,
                "total_output_bytes": report.total_bytes,
            }
        else:
            mapping["recoverable"] = self.error.recoverable
            mapping["suggested_action"] = self.error.suggestion
        return mapping


Canister: TypeAlias = (
    UserCanister | AssistantCanister | SupervisorCanister | DocumentCanister | InvocationCanister | ResultCanister
)
