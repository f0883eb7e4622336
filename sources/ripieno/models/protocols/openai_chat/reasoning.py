"""Additions of providers to an assistant's text: reasoning, and its return to them; probabilities of tokens."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import Content, OpaqueContent
from ripieno.jsonvalues import freeze, is_list, is_table
from ripieno.models.protocols.openai_chat.invocations import NAME

#: The keys, and whether the capability ``reasoning_replay`` decides on their return; the others always return.
KEYS: Mapping[str, bool] = {
    "reasoning_details": False,
    "reasoning_content": True,
    "reasoning": True,
    "extra_content": False,
}
#: The key of the text that fragments of ``reasoning_details`` extend, by their type.
_GROWING: Mapping[object, str] = {"reasoning.text": "text", "reasoning.summary": "summary"}
#: The kind of the content with the probabilities of tokens. It never returns to the provider.
_PROBABILITIES = "logprobs"
#: The keys of a message or delta without additions.
ORDINARY = frozenset({"role", "content", "tool_calls", "refusal"})


def opaque(additions: Mapping[str, Any]) -> OpaqueContent:
    return OpaqueContent(protocol=NAME, kind="reasoning", data=freeze(additions))


def probabilities(pieces: Sequence[Mapping[str, Any]]) -> OpaqueContent:
    """The probabilities of an answer's tokens, from those of its chunks: lists by name, ``content`` or ``refusal``."""
    names = dict.fromkeys(name for piece in pieces for name in piece)
    lists = {name: [piece[name] for piece in pieces if piece.get(name)] for name in names}
    data = {name: merge(found) if found else None for name, found in lists.items()}
    return OpaqueContent(protocol=NAME, kind=_PROBABILITIES, data=freeze(data))


def probabilities_of(contents: Iterable[Content]) -> Mapping[str, Any] | None:
    """The probabilities of tokens in contents, in the wire's form; None if there are none."""
    own = (content for content in contents if isinstance(content, OpaqueContent) and content.protocol == NAME)
    pieces = [content.data for content in own if content.kind == _PROBABILITIES]
    return probabilities(pieces).data if pieces else None


def merge(pieces: Sequence[Any]) -> Any:
    """Several values of one addition as one: texts and lists are joined; in objects, later keys win."""
    if len(pieces) == 1:
        return pieces[0]
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    if all(is_list(piece) for piece in pieces):
        return [item for piece in pieces for item in piece]
    if all(is_table(piece) for piece in pieces):
        return {key: value for piece in pieces for key, value in piece.items()}
    return pieces[-1]


def joined(pieces: Sequence[Any]) -> Any:
    """The pieces of a streamed addition as one, with streamed details joined to complete ones."""
    merged = merge(pieces)
    if len(pieces) == 1 or not is_list(merged):
        return merged
    runs: list[list[Any]] = []
    for detail in merged:
        if runs and _goes_on(runs[-1][-1], detail):
            runs[-1].append(detail)
        else:
            runs.append([detail])
    return [run[0] if len(run) == 1 else _grown(run) for run in runs]


def _goes_on(last: Any, detail: Any) -> bool:
    """Whether a detail continues the one before it: same type and index, and that one is not signed."""
    if not is_table(last) or not is_table(detail) or last.get("type") not in _GROWING:
        return False
    same = last.get("type") == detail.get("type") and last.get("index") == detail.get("index")
    return same and not last.get("signature")


def _grown(run: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    key = _GROWING[run[0]["type"]]
    members: dict[str, Any] = {}
    for detail in run:
        members.update({name: value for name, value in detail.items() if value is not None or name not in members})
    return {**members, key: "".join(detail.get(key) or "" for detail in run)}


def additions_in(message: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return [(name, value) for name in KEYS if (value := message.get(name))]


def additions_of(contents: Sequence[Content], *, replay: bool) -> dict[str, Any]:
    """The additions that return with the message; with ``replay``, all of them."""
    found: dict[str, list[Any]] = {}
    for content in contents:
        if isinstance(content, OpaqueContent) and content.protocol == NAME and content.kind != _PROBABILITIES:
            for name, value in content.data.items():
                if replay or not KEYS.get(name, False):
                    found.setdefault(name, []).append(value)
    return {name: merge(values) for name, values in found.items()}
