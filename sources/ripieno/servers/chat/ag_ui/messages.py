"""The messages of a conversation in the form of AG-UI, with the identifiers that the stream uses too.

The identifier of an assistant's message is its number in the conversation; that of a call is the call's own.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ripieno.jsonvalues import is_list, is_table, thaw
from ripieno.servers.chat.ag_ui.request import text_of_parts
from ripieno.servers.chat.parts import unfinished_of
from ripieno.servers.chat.questions import question_id

#: A message, or an event: JSON.
Frame = dict[str, Any]
#: Bytes of a snapshot's messages; the real client takes events of at most 10 MB.
SNAPSHOT_BYTES = 4 * 1024 * 1024
_SPOKEN = ("assistant", "invocation")


def assistant_id(identifier: str, number: int) -> str:
    """The identifier of the assistant's message with this number, from 0."""
    return f"{identifier[:12]}-a{number}"


def result_id(call: str) -> str:
    """The identifier of the message with the result of a call."""
    return f"{call}-result"


def text_of(canister: Mapping[str, Any]) -> str:
    """The text of a message of a snapshot: of a result with an error, the error first. Other contents are named.

    Reasoning is left out.
    """
    error = canister.get("error")
    parts = [_text(one) for one in canister.get("content", ()) if one["type"] != "reasoning"]
    if error is not None:
        parts.insert(0, "\n".join(one for one in (f"Error: {error['message']}", error.get("suggestion")) if one))
        return "\n".join(one for one in parts if one)
    return "".join(parts)


def messages_of(
    snapshot: Mapping[str, Any], sent: Sequence[Mapping[str, Any]] = (), *, reasoning: bool = True
) -> list[Frame]:
    """The messages of a snapshot, newest ones that fit into ``SNAPSHOT_BYTES``, also of answers that were cut off.

    ``sent`` are the client's messages. Nothing but identifiers is taken from them: the n-th message of the user keeps
    the client's if its text is ours, and so does the result of a call. Without ``reasoning``, it is left out.
    """
    found = [one for one in _messages(snapshot, sent) if reasoning or one["role"] != "reasoning"]
    size, first = 0, len(found)
    while first and size <= SNAPSHOT_BYTES:
        first -= 1
        size += len(json.dumps(found[first]))
    if size > SNAPSHOT_BYTES:
        first += 1
        while first < len(found) and found[first]["role"] == "tool":
            first += 1
    return found[first:]


def count_answers(snapshot: Mapping[str, Any]) -> int:
    """The number of the assistant's answers in a snapshot, also of those that were cut off."""
    kinds = ["", *(one["type"] for one in snapshot["messages"])]
    whole = sum(kind in _SPOKEN and before not in _SPOKEN for before, kind in itertools.pairwise(kinds))
    return whole + sum(map(len, unfinished_of(snapshot).values()))


def has_same(sent: Sequence[Mapping[str, Any]], ours: Sequence[Frame]) -> bool:
    """Whether a client shows our messages, so that it needs no snapshot. Reasoning and progress are not compared."""
    theirs, mine = (
        [_outline(one) for one in messages if one.get("role") not in ("reasoning", "activity")]
        for messages in (sent, ours)
    )
    return theirs == mine


def interrupts_of(snapshot: Mapping[str, Any]) -> list[Frame]:
    """The interrupts for the open questions of a snapshot, without those for results of the client."""
    return [
        _approval(one) if one["kind"] == "approval" else _input(one)
        for one in map(thaw, snapshot["questions"])
        if one["kind"] != "client"
    ]


def pending_of(snapshot: Mapping[str, Any]) -> list[str]:
    """The calls whose results the client owes."""
    return [one["invocation"] for one in snapshot["questions"] if one["kind"] == "client"]


def result_message(one: Mapping[str, Any]) -> Frame:
    """The message with a result."""
    call = one["invocation_id"]
    found = {"id": result_id(call), "role": "tool", "toolCallId": call, "content": text_of(one)}
    return found if one.get("error") is None else {**found, "error": one["error"]["message"]}


def _messages(snapshot: Mapping[str, Any], sent: Sequence[Mapping[str, Any]]) -> Iterator[Frame]:
    names = [(str(one.get("id")), text_of_parts(one.get("content"))) for one in sent if one.get("role") == "user"]
    results = {str(one.get("toolCallId")): str(one.get("id")) for one in sent if one.get("role") == "tool"}
    identifier, unfinished = snapshot["identifier"], unfinished_of(snapshot)
    users, spoken = 0, list[Mapping[str, Any]]()
    names_of_answers = (assistant_id(identifier, number) for number in itertools.count())
    # The end of the messages ends the last answer.
    end: Mapping[str, Any] = {"type": ""}
    for place, one in enumerate([*snapshot["messages"], end]):
        cut = unfinished.get(place, ())
        if spoken and (cut or one["type"] not in _SPOKEN):
            yield from _answer(next(names_of_answers), spoken)
            spoken = []
        for texts in cut:
            yield from _answer(next(names_of_answers), [{"type": "assistant", "content": texts}])
        if one["type"] in _SPOKEN:
            spoken.append(one)
        elif one["type"] == "user":
            name, text = names[users] if users < len(names) else ("", "")
            own = f"{identifier[:12]}-u{users}"
            plain = "\n".join(part["text"] for part in one["content"] if part["type"] == "text")
            yield {"id": name if name and text == plain else own, "role": "user", "content": _said(one)}
            users += 1
        elif one["type"] == "result":
            message = result_message(one)
            yield {**message, "id": results.get(message["toolCallId"], message["id"])}


def _answer(name: str, parts: Sequence[Mapping[str, Any]]) -> Iterator[Frame]:
    """The messages of one answer: its reasoning, and its texts with its calls."""
    said = [one for one in parts if one["type"] == "assistant"]
    contents: list[Mapping[str, Any]] = [content for one in said for content in one.get("content", ())]
    thoughts = [one["text"] for one in contents if one["type"] == "reasoning"]
    for number, thought in enumerate(thoughts, 1):
        yield {"id": f"{name}-r{number}", "role": "reasoning", "content": thought}
    calls = [
        {
            "id": one["identifier"],
            "type": "function",
            "function": {"name": one["name"], "arguments": json.dumps(one.get("arguments", {}))},
        }
        for one in parts
        if one["type"] == "invocation"
    ]
    text = "".join(map(text_of, said))
    if text or calls:
        fields = {"content": text, "toolCalls": calls}
        yield {"id": name, "role": "assistant", **{key: value for key, value in fields.items() if value}}


def _said(message: Mapping[str, Any]) -> str | list[Frame]:
    """The content of a user's message: with short attachments, a list of parts; long ones are only named."""
    contents = message["content"]
    if not any("data" in one for one in contents):
        return text_of(message)
    return [_part(one) for one in contents]


def _part(content: Mapping[str, Any]) -> Frame:
    if "data" not in content:
        return {"type": "text", "text": _text(content)}
    source = {"type": "data", "value": content["data"], "mimeType": content["mime_type"]}
    name = {"metadata": {"filename": content["name"]}} if "name" in content else {}
    return {"type": content["type"], "source": source, **name}


def _text(content: Mapping[str, Any]) -> str:
    if content["type"] == "text":
        rest = f"\n… ({content['bytes']} bytes in total)" if "bytes" in content else ""
        return f"{content['text']}{rest}"
    return f"[{content['name']} ({content['mime_type']})]" if "name" in content else f"[{content['mime_type']}]"


def _outline(message: Mapping[str, Any]) -> tuple[object, ...]:
    calls: Any = message.get("toolCalls")
    names = [one.get("id") for one in calls if is_table(one)] if is_list(calls) else []
    role = message.get("role")
    # A user's attachments come back in another form than they were sent.
    text = text_of_parts(message.get("content")) if role != "user" else ""
    return message.get("id"), role, text, names


def _approval(question: Mapping[str, Any]) -> Frame:
    choices = question["choices"]
    properties: dict[str, Any] = {"approved": {"type": "boolean"}, "reason": {"type": "string"}}
    if "edit" in choices:
        properties["editedArgs"] = {"type": "object"}
    if "always" in choices:
        properties["always"] = {"type": "boolean"}
    return {
        "id": question_id(question),
        "reason": "tool_call",
        "message": f"May {question['tool']} run? {question['reason']}".rstrip(),
        "toolCallId": question["invocation"],
        # Plain: other forms get no buttons in assistant-ui.
        "responseSchema": {"type": "object", "properties": properties, "required": ["approved"]},
        "metadata": {
            **{name: question[name] for name in ("tool", "effect", "reason", "arguments", "choices", "always")},
            "shown": {name: one for name, one in question["shown"].items() if one is not None},
        },
    }


def _input(question: Mapping[str, Any]) -> Frame:
    return {
        "id": question_id(question),
        "reason": "input_required",
        "message": question["text"],
        "toolCallId": question["invocation"],
        "responseSchema": question["schema"],
        "metadata": {"tool": question["tool"], "defaults": question["defaults"]},
    }
