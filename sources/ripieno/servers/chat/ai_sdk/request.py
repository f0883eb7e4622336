"""The content of a request of the AI SDK: the newest message of the user, or answers and results for calls that wait.

The client sends its whole history. Nothing of it is used but these, and answers only for questions that are open here.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ripieno.canisters import ResultCanister, TextualContent, UserCanister
from ripieno.canisters.faults import Fault
from ripieno.exceptions import Conflict, RequestInvalidity
from ripieno.jsonvalues import freeze, is_list, is_table
from ripieno.servers.chat.messages import ChatLimits, read_message
from ripieno.servers.chat.questions import question_id, read_answer
from ripieno.servers.chat.requests import required, text
from ripieno.values import Value

#: Characters of the identifier that a client gives to a conversation.
_NAME = 200


class Incoming(Value, kw_only=True):
    """A request: a ``message`` of the user, or else the ``parts`` of the assistant's message with answers in them.

    ``name`` is the client's identifier of the conversation. ``again``: it has neither, and asks for the answer that a
    failed run did not give. ``approvals`` are answers outside of a message, ``edits``
    and ``always`` what the protocol has no place for: by calls, and the calls.
    """

    name: str
    again: bool = False
    message: UserCanister | None = None
    parts: Sequence[Mapping[str, Any]] = ()
    approvals: Sequence[Any] = ()
    edits: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    always: Sequence[Any] = ()
    model: str | None = None
    agent: str | None = None


class Settlement(Value, kw_only=True):
    """Answers to open questions, by their calls, and results of the client's calls."""

    answers: Mapping[str, Mapping[str, Any]]
    results: Sequence[ResultCanister]


def read_incoming(sent: Mapping[str, Any], limits: ChatLimits) -> Incoming:
    """Reads the body of a request. Errors: ``RequestInvalidity``."""
    name = required(sent, "id")
    if not 0 < len(name) <= _NAME:
        raise RequestInvalidity(f"id has 1 to {_NAME} characters.", parameter="id")
    trigger = text(sent, "trigger")
    if trigger == "regenerate-message":
        return Incoming(name=name, again=True)
    if trigger not in (None, "submit-message"):
        raise RequestInvalidity("trigger is submit-message or regenerate-message.", parameter="trigger")
    newest = _newest(sent)
    edits, always, approvals = sent.get("edits", {}), sent.get("always", []), sent.get("approvals", [])
    if not is_table(edits) or not is_list(always) or not is_list(approvals):
        raise RequestInvalidity("edits is an object by calls, always and approvals are lists.", parameter="edits")
    parts = newest.get("parts")
    tables = [part for part in parts if is_table(part)] if is_list(parts) else []
    if newest.get("role") not in ("user", "assistant") or not tables:
        raise RequestInvalidity("The newest message is of the user or the assistant, with parts.", parameter="messages")
    common: dict[str, Any] = {"name": name, "model": text(sent, "model"), "agent": text(sent, "agent")}
    if newest["role"] == "user":
        return Incoming(message=_user_message(tables, limits), **common)
    return Incoming(parts=tables, approvals=approvals, edits=edits, always=always, **common)


def settle(incoming: Incoming, questions: Sequence[Mapping[str, Any]]) -> Settlement:
    """The answers and results for questions that are open here; all others are left out.

    Results wait for the last answer, as the client sends them again. Errors: ``Conflict`` for an answer to a question
    that has changed, or if nothing is answered; ``RequestInvalidity``.
    """
    responses, outputs = _responses(incoming), _outputs(incoming)
    answers: dict[str, Mapping[str, Any]] = {}
    results: list[ResultCanister] = []
    approvals = [one for one in questions if one["kind"] == "approval"]
    for question in approvals:
        invocation, identifier = question["invocation"], question_id(question)
        if identifier in responses:
            answer = _answer(responses[identifier], question, incoming)
            read_answer(freeze(question), answer)
            answers[invocation] = answer
        elif any(one.partition(".")[2] == invocation for one in responses):
            raise Conflict("The question has changed since it was shown. Load it again.")
    if len(answers) == len(approvals):
        waiting = [one["invocation"] for one in questions if one["kind"] == "client"]
        results = [_result(one, outputs[one]) for one in waiting if one in outputs]
    if not answers and not results:
        raise Conflict("Nothing in this message answers what is open: it was answered, or the conversation went on.")
    return Settlement(answers=answers, results=results)


def _newest(sent: Mapping[str, Any]) -> Mapping[str, Any]:
    """The newest message, or the assistant's message that the client names. Errors: ``RequestInvalidity``."""
    messages, named = sent.get("messages"), text(sent, "messageId")
    if not is_list(messages) or not messages or not is_table(messages[-1]):
        raise RequestInvalidity("messages is a list of messages.", parameter="messages")
    for message in messages:
        if named is not None and is_table(message) and message.get("id") == named:
            if message.get("role") == "user":
                words = "An earlier message cannot be changed: the conversation is kept by the server."
                raise RequestInvalidity(words, parameter="messageId")
            found: Mapping[str, Any] = message
            return found
    newest: Mapping[str, Any] = messages[-1]
    return newest


def _user_message(parts: Sequence[Mapping[str, Any]], limits: ChatLimits) -> UserCanister:
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    if not all(isinstance(one, str) for one in texts):
        raise RequestInvalidity("text is a text.", parameter="messages")
    attachments: list[dict[str, str]] = []
    for part in parts:
        if part.get("type") == "file":
            head, comma, data = str(part.get("url")).partition(",")
            if not comma or not head.startswith("data:") or not head.endswith(";base64"):
                raise RequestInvalidity("A file has its content in a data: URL, in base64.", parameter="messages")
            name = text(part, "filename") or ""
            attachments.append({"mime_type": head[5:-7].partition(";")[0], "data": data, "name": name})
    return read_message({"text": "\n".join(map(str, texts)), "attachments": attachments}, limits)


def _responses(incoming: Incoming) -> dict[str, Mapping[str, Any]]:
    """The answers to questions about calls, by their identifiers. Errors: ``RequestInvalidity``."""
    found: dict[str, Mapping[str, Any]] = {}
    in_parts = (part.get("approval") for part in incoming.parts if part.get("state") == "approval-responded")
    for one in (*in_parts, *incoming.approvals):
        if not is_table(one) or not isinstance(one.get("id"), str):
            raise RequestInvalidity("An approval is an object with an id.", parameter="approval")
        if not isinstance(one.get("approved"), bool):
            raise RequestInvalidity("approved is true or false.", parameter="approval.approved")
        found[one["id"]] = one
    return found


def _outputs(incoming: Incoming) -> dict[str, Mapping[str, Any]]:
    """The parts with results, by their calls."""
    return {
        part["toolCallId"]: part
        for part in incoming.parts
        if part.get("state") in ("output-available", "output-error") and isinstance(part.get("toolCallId"), str)
    }


def _answer(response: Mapping[str, Any], question: Mapping[str, Any], incoming: Incoming) -> Mapping[str, Any]:
    """An answer in the form of the native interface."""
    invocation, answer = question["invocation"], {"digest": question["digest"]}
    if not response["approved"]:
        reason = response.get("reason")
        return {**answer, "answer": "deny", "reason": "" if reason is None else reason}
    if invocation in incoming.edits:
        return {**answer, "answer": "edit", "arguments": incoming.edits[invocation]}
    return {**answer, "answer": "approve", "always": invocation in incoming.always}


def _result(invocation: str, part: Mapping[str, Any]) -> ResultCanister:
    if part["state"] == "output-error":
        message = part.get("errorText")
        fault = Fault(category="execution", message=message if isinstance(message, str) else "The call failed.")
        return ResultCanister(invocation_id=invocation, error=fault)
    output = part.get("output")
    content = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    return ResultCanister(invocation_id=invocation, content=(TextualContent(text=content),))
