"""The forms of messages, questions and events, of which JSON Schemas are made. Importing it takes 60 ms.

Those of messages and events are derived from their dataclasses. The others have no classes of their own: they are here.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypeAlias, Union

from frozendict import frozendict
from pydantic import create_model
from typing_extensions import TypedDict

from ripieno.canisters import (
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from ripieno.canisters.contents import Content
from ripieno.canisters.events import ConfirmationRequested, InvocationBegan, ResultReady
from ripieno.canisters.faults import Effect, Fault
from ripieno.servers.chat.events import ChatEvent, Said


class Text(TypedDict):
    """A text. Of a long one, this is the beginning; ``bytes`` is its size, and ``/contents/REFERENCE`` has it."""

    type: Literal["text"]
    text: str
    mime_type: str
    bytes: NotRequired[int]
    reference: NotRequired[str]


class ReasoningText(TypedDict):
    """Reasoning of the model before its answer."""

    type: Literal["reasoning"]
    text: str


class Binary(TypedDict):
    """An image, a sound or a document: a URL, or its size and the reference; of a short one also the data in base64."""

    type: Literal["image", "audio", "document"]
    mime_type: str
    name: NotRequired[str]
    url: NotRequired[str]
    bytes: NotRequired[int]
    reference: NotRequired[str]
    data: NotRequired[str]


class Shown(TypedDict):
    """A question as a person is shown it: in these texts every character is visible."""

    description: str
    arguments: str
    change: str | None
    notes: list[str]
    claim: dict[str, str] | None


class Way(TypedDict):
    """A way to allow later calls: an answer with ``always`` and this ``exact``. Show ``calls`` and ``terms``."""

    exact: bool
    calls: str
    terms: str


class ApprovalQuestion(TypedDict):
    """May this call run? An answer names the ``digest``. ``always`` has the ways to allow later calls, too."""

    kind: Literal["approval"]
    invocation: str
    tool: str
    digest: str
    effect: Effect
    reason: str
    arguments: dict[str, Any]
    shown: Shown
    choices: list[Literal["approve", "always", "edit", "deny"]]
    always: list[Way]


class InputQuestion(TypedDict):
    """A tool asks for values of this ``schema``. An answer names the ``digest``; ``edit`` has them as ``arguments``."""

    kind: Literal["input"]
    invocation: str
    tool: str
    digest: str
    text: str
    schema: dict[str, Any]
    defaults: dict[str, Any]


class ClientQuestion(TypedDict):
    """The client runs this call, and sends its result."""

    kind: Literal["client"]
    invocation: str
    name: str
    arguments: dict[str, Any]


class Resync(TypedDict):
    """Events were lost. The stream ends: load the conversation again, and read on from its position."""

    type: Literal["Resync"]


Question: TypeAlias = ApprovalQuestion | InputQuestion | ClientQuestion
#: Events that no client gets: ``QuestionsAsked`` has what this one says.
UNSENT = (ConfirmationRequested,)


def form(name: str, description: str | None, /, **fields: Any) -> Any:
    """The form of an object with fields of these types. One with a default value may be absent: ``(int, None)``."""
    pairs: dict[str, Any] = {key: one if isinstance(one, tuple) else (one, ...) for key, one in fields.items()}
    made: Any = create_model(name, __doc__=description, **pairs)
    return made


def derived(kind: Any, name: str, /, *, label: str = "", whole: bool = False, **changed: Any) -> Any:
    """The form of a dataclass, with ``label`` as its ``type``, if it has one.

    ``whole``: fields with their default value are written, too. ``changed`` has other types of some fields; None leaves
    a field out.
    """
    hints = typing.get_type_hints(kind)
    fields: dict[str, Any] = {"type": Literal[label]} if label else {}
    for field in dataclasses.fields(kind):
        written = changed[field.name] if field.name in changed else _written(hints[field.name])
        if written is not None:
            fields[field.name] = written if whole or field.default is dataclasses.MISSING else (written, None)
    return form(name, kind.__doc__, **fields)


def _written(hint: Any) -> Any:
    """The type of a field as it is written in JSON."""
    if hint in _FORMS:
        return _FORMS[hint]
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin in (frozendict, Mapping):
        return dict[str, Any]
    if origin is tuple:
        return list.__class_getitem__(Question if members[0] in _QUESTION else _written(members[0]))
    if origin in (Union, types.UnionType):
        return Union[tuple(map(_written, members))]  # noqa: UP007  a union that is computed
    if dataclasses.is_dataclass(hint):
        _FORMS[hint] = derived(hint, getattr(hint, "__name__"))  # noqa: B009
        return _FORMS[hint]
    return hint


def _event(kind: Any) -> Any:
    if kind is Said:
        return form("Said", Said.__doc__, type=Literal["Said"], place=int, message=USER)
    left_out: dict[Any, tuple[str, ...]] = {InvocationBegan: ("opaque",), ResultReady: ("invocation", "seal")}
    changed = dict.fromkeys(left_out.get(kind, ()))
    return derived(kind, kind.__name__, label=kind.__name__, whole=True, **changed)


#: The only field of events whose mappings have a form: questions.
_QUESTION = (frozendict[str, object],)
#: The forms of types that are not written as their dataclasses say.
_FORMS: dict[Any, Any] = {Content: Text | Binary}
USER = derived(UserCanister, "UserMessage", label="user")
CALL = derived(InvocationCanister, "Invocation", label="invocation", opaque=None)
RESULT = derived(ResultCanister, "Result", label="result", error=derived(Fault, "WholeFault", whole=True))
_FORMS.update({InvocationCanister: CALL, ResultCanister: RESULT})
_OTHERS = (
    derived(
        AssistantCanister,
        "AssistantMessage",
        label="assistant",
        content=list.__class_getitem__(Text | ReasoningText | Binary),
    ),
    derived(SupervisorCanister, "SupervisorMessage", label="supervisor"),
    derived(DocumentCanister, "DocumentMessage", label="document"),
)
MESSAGE: Any = Union[(USER, CALL, RESULT, *_OTHERS)]
#: The forms of all events that clients get, by their dataclasses.
EVENTS: Mapping[Any, Any] = {kind: _event(kind) for kind in typing.get_args(ChatEvent) if kind not in UNSENT}
EVENT: Any = Union[(*EVENTS.values(), Resync)]
