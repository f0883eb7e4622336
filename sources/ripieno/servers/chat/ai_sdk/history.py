"""The messages of a conversation as a front end begins with them, when a page is loaded."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ripieno.servers.chat.ai_sdk.frames import Version, error_of, file_of, output_of
from ripieno.servers.chat.parts import unfinished_of
from ripieno.servers.chat.questions import question_id


def messages_of(
    identifier: str, snapshot: Mapping[str, Any], version: Version, address: str
) -> Sequence[dict[str, Any]]:
    """The messages of a snapshot, with the same identifiers as in streams. ``address`` is that of long contents.

    While a run is under way, the last one is the user's: the stream has the whole answer.
    """
    found: list[dict[str, Any]] = []
    unfinished = unfinished_of(snapshot)
    for place, message in enumerate(snapshot["messages"]):
        if message["type"] == "user":
            found.append(
                {"id": f"{identifier}-{place}-user", "role": "user", "parts": list(_contents(message, address))}
            )
            found.append({"id": f"{identifier}-{place}", "role": "assistant", "parts": []})
        elif found:
            _add(found[-1]["parts"], message, version, address, begins=place in unfinished)
        for texts in unfinished.get(place + 1, ()):
            parts = [{"type": one["type"], "text": one["text"], "state": "done"} for one in texts]
            _extend(found[-1]["parts"], parts, begins=True)
    if snapshot["state"] == "running":
        del found[-1:]
    elif found:
        _ask(found[-1]["parts"], snapshot["questions"], version)
    return [message for message in found if message["parts"]]


def _contents(message: Mapping[str, Any], address: str) -> Iterator[dict[str, Any]]:
    for content in message["content"]:
        if content["type"] in ("text", "reasoning"):
            yield {"type": content["type"], "text": content["text"], "state": "done"}
        elif (file := file_of(content, address)) is not None:
            name = {"filename": content["name"]} if "name" in content else {}
            yield {"type": "file", **file, **name}


def _add(
    parts: list[dict[str, Any]], message: Mapping[str, Any], version: Version, address: str, *, begins: bool
) -> None:
    """Adds a message of the answer, which may follow one that was cut off."""
    if message["type"] == "result":
        _settle(_call(parts, message["invocation_id"]), message, version, address)
        return
    added = list(_contents(message, address)) if message["type"] == "assistant" else []
    if message["type"] == "invocation":
        unread = message.get("fault") is not None and message.get("raw") is not None
        added = [
            {
                "type": "dynamic-tool",
                "toolCallId": message["identifier"],
                "toolName": message["name"],
                "state": "input-available",
                "input": message["raw"] if unread else message.get("arguments", {}),
            }
        ]
    _extend(parts, added, begins=begins)


def _extend(parts: list[dict[str, Any]], added: Sequence[dict[str, Any]], *, begins: bool) -> None:
    """Adds contents. A step begins with the first one after results."""
    if added and (begins or not parts or parts[-1].get("state", "").startswith("output-")):
        parts.append({"type": "step-start"})
    parts += added


def _call(parts: Sequence[dict[str, Any]], identifier: str) -> dict[str, Any]:
    """The newest call of an identifier."""
    nothing: dict[str, Any] = {}
    return next((part for part in reversed(parts) if part.get("toolCallId") == identifier), nothing)


def _settle(part: dict[str, Any], result: Mapping[str, Any], version: Version, address: str) -> None:
    error = result.get("error")
    if error is None:
        part |= {"state": "output-available", "output": output_of(result["content"], address)}
    elif error["category"] == "denied" and version >= 6:
        # The question is not kept: its identifier is of no use any more.
        approval = {"id": result["invocation_id"], "approved": False, "reason": error_of(error)}
        part |= {"state": "output-denied", "approval": approval}
    else:
        part |= {"state": "output-error", "errorText": error_of(error)}


def _ask(parts: list[dict[str, Any]], questions: Sequence[Mapping[str, Any]], version: Version) -> None:
    for question in questions:
        if question["kind"] != "approval":
            continue
        identifier = question_id(question)
        if version >= 6:
            approval = {"id": identifier, "descriptor": question}
            _call(parts, question["invocation"]).update(state="approval-requested", approval=approval)
        else:
            data = {**question, "approvalId": identifier}
            parts.append({"type": "data-question", "id": question["invocation"], "data": data})
