"""The relation of a request to the store: what it continues, and under which identifier its answer is stored."""

import dataclasses
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.exceptions import RequestInvalidity
from ripieno.jsonvalues import is_list, is_table
from ripieno.models.protocol import MADE, Asked, Native, Refusal
from ripieno.servers.http.limits import Refused
from ripieno.values import Value

#: Random bytes of an identifier: no client can guess another's.
_BYTES = 16
#: Digits of it in identifiers of items, which do not tell the rest.
_SHOWN = 20
RESPONSE, CONVERSATION = "resp_", "conv_"
_NAME = re.compile(r"(?:resp|conv)_[0-9a-f]{32}")
#: Items from here: their identifiers have digits of that of their response.
_ITEM = re.compile(rf"[a-z]+{MADE}(?:in)?([0-9a-f]{{{_SHOWN}}})_\d+")
#: The members of a reference to an item.
_BARE = frozenset({"type", "id"})
#: Members that refer to the store, and that no model sees.
_REFERRING = ("previous_response_id", "conversation", "background")
#: The same for what is foreign and what is unknown.
NO_RESPONSE = Refusal(status=404, message="There is no response with this identifier.", code="response_not_found")
NO_CONVERSATION = Refusal(
    status=404, message="There is no conversation with this identifier.", code="conversation_not_found"
)
NO_ITEM = Refusal(status=404, message="There is no item with this identifier.", code="item_not_found")
NOT_CONTINUED = Refusal(
    status=400,
    code="previous_response_not_found",
    message="The previous response is not stored here, or one that it continues is not. Send the whole conversation.",
    parameter="previous_response_id",
)
UNFINISHED = Refusal(
    status=400,
    code="previous_response_not_completed",
    message="The previous response has not ended, or has failed, so it cannot be continued. Wait for its end, or "
    "continue the one before.",
    parameter="previous_response_id",
)


def new_identifier(prefix: str) -> str:
    """An identifier of a response or a conversation."""
    return prefix + secrets.token_hex(_BYTES)


def is_identifier(value: object, prefix: str) -> bool:
    """Whether a client's text has the form of an identifier from here."""
    return isinstance(value, str) and value.startswith(prefix) and _NAME.fullmatch(value) is not None


class Waiting(Value, kw_only=True):
    """A conversation in which calls wait for a person: how many of its canisters a response has, and the calls."""

    conversation: str
    shown: int
    calls: tuple[str, ...]

    def mapping(self) -> dict[str, Any]:
        """Its JSON."""
        return {"conversation": self.conversation, "shown": self.shown, "calls": list(self.calls)}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "Waiting | None":
        """The claim of a stored response, if calls of it wait."""
        given = body.get("waiting")
        if given is None:
            return None
        return cls(conversation=given["conversation"], shown=given["shown"], calls=tuple(given["calls"]))


class References(Value, kw_only=True):
    """The references of a request to the store. ``stores``: whether its answer is to be stored."""

    stores: bool
    parent: str | None
    conversation: str | None
    background: bool

    @classmethod
    def read(cls, native: Native, *, default: bool) -> "References":
        """Errors: ``RequestInvalidity``."""
        stores = _flag(native, "store")
        stores = default if stores is None else stores
        background = _flag(native, "background") or False
        parent = _text(native, "previous_response_id", native.get("previous_response_id"))
        given = native.get("conversation")
        conversation = _text(native, "conversation", given.get("id") if is_table(given) else given)
        if parent is not None and conversation is not None:
            raise RequestInvalidity(
                "previous_response_id and conversation exclude each other: send one of them.",
                parameter="previous_response_id",
            )
        for name, used in (("background", background), ("conversation", conversation is not None)):
            if used and not stores:
                raise RequestInvalidity(f"{name} needs store = true: nothing else is stored.", parameter=name)
        return cls(stores=stores, parent=parent, conversation=conversation, background=background)


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class StoredRequest:
    """A request that the store knows. ``identifier`` is empty if its answer is not stored.

    ``own`` are the items of its input, ``history`` those before, with ``size`` bytes. ``claim`` is what waits in the
    response that it continues, ``waiting`` what waits after it. ``created`` is when it came, if that is stored; or 0.
    """

    caller: str
    references: References
    own: Sequence[Any]
    identifier: str = ""
    history: Sequence[Any] = ()
    size: int = 0
    links: int = 0
    chain: int = 0
    claim: Waiting | None = None
    waiting: Waiting | None = None
    created: int = 0
    #: Until when the end of its response is tried again, by the loop's clock, if it could not be stored at once.
    until: float | None = None
    #: The request as it came, without its input, if a worker answers it.
    native: Native = dataclasses.field(default_factory=dict[str, Any])

    def expanded(self, native: Native) -> dict[str, Any]:
        """The request without references, with the whole conversation."""
        rest = {key: value for key, value in native.items() if key not in _REFERRING}
        return {**rest, "input": [*self.history, *self.own]} if self.history else rest

    def restored(self, asked: Asked) -> Asked:
        """The request as the answer repeats it."""
        references = self.references
        said: dict[str, Any] = {"previous_response_id": references.parent, "background": references.background}
        if references.conversation is not None:
            said["conversation"] = {"id": references.conversation}
        native = {**asked.native, **said}
        return dataclasses.replace(asked, native=native, stored=self.identifier, created=self.created)

    def body(self, response: Mapping[str, Any]) -> dict[str, Any]:
        """The stored part of it, with its response."""
        # A waiting call that is shown again is in the history already.
        again = () if self.claim is None else self.claim.calls
        output = [one for one in response["output"] if not (one.get("call_id") in again and "output" not in one)]
        waiting = None if self.waiting is None else self.waiting.mapping()
        journal = [self.identifier, *(() if self.claim is None else (self.claim.conversation,))]
        return {
            "input": self.identified(),
            "output": output,
            "response": response,
            "waiting": waiting,
            "journal": journal,
        }

    def identified(self) -> list[dict[str, Any]]:
        """The items of its input, each with an identifier."""
        return identified(self.own, self.identifier)


def identified(items: Sequence[Any], identifier: str) -> list[dict[str, Any]]:
    """Items with an identifier for each that has none, or that of another one."""
    found: list[dict[str, Any]] = []
    seen: set[str] = set()
    token = "in" + identifier.rpartition("_")[2][:_SHOWN]
    for place, item in enumerate(items):
        one: dict[str, Any] = dict(item) if is_table(item) else {"content": item}
        one.setdefault("type", "message")
        name = one.get("id")
        if not isinstance(name, str) or not name or name in seen:
            name = f"{'msg' if one['type'] == 'message' else 'item'}{MADE}{token}_{place}"
        seen.add(name)
        if one["type"] == "message" and isinstance(one.get("content"), str):
            kind = "output_text" if one.get("role") == "assistant" else "input_text"
            one["content"] = [{"type": kind, "text": one["content"]}]
        found.append({**one, "id": name})
    return found


def items_in(given: object) -> list[Any]:
    """The input of a request as items."""
    if is_list(given):
        return list(given)
    return [] if given in (None, "") else [{"type": "message", "role": "user", "content": given}]


def reference_in(item: object) -> str | None:
    """The identifier of the stored item to which an item of the input refers; its type may be left out."""
    if not is_table(item) or "id" not in item or not {*item} <= _BARE:
        return None
    if item.get("type") not in (None, "item_reference"):
        return None
    name = item["id"]
    return name if isinstance(name, str) else ""


def response_of(item: str) -> str | None:
    """The beginning of the identifier of the response that has an item; None for an item that was not made here."""
    found = _ITEM.fullmatch(item)
    return None if found is None else RESPONSE + found[1]


def not_found(refusal: Refusal, parameter: str | None = None) -> Refused:
    """The error for what is foreign or unknown."""
    return Refused(dataclasses.replace(refusal, parameter=parameter or refusal.parameter))


def _flag(native: Native, name: str) -> bool | None:
    value = native.get(name)
    if value is not None and not isinstance(value, bool):
        raise RequestInvalidity(f"{name} is true or false.", parameter=name)
    return value


def _text(native: Native, name: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise RequestInvalidity(f"{name} is an identifier.", parameter=name)
    if value is None and native.get(name) is not None:
        raise RequestInvalidity(f"{name} has no id.", parameter=name)
    return value
