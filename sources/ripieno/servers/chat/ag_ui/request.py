"""The body of a request to run: ``RunAgentInput`` of AG-UI.

Only the newest message, results, answers and tools that the client runs itself are read. The history, state and system
messages that a client sends are never used.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import ResultCanister, TextualContent, UserCanister
from ripieno.canisters.faults import Fault
from ripieno.ensembles import Definition
from ripieno.exceptions import Conflict, RequestInvalidity, SchemaInvalidity
from ripieno.jsonvalues import freeze, is_list, is_table, thaw
from ripieno.schemas import Schema
from ripieno.servers.chat.messages import ChatLimits, read_message
from ripieno.servers.chat.questions import Question, question_id, read_answer
from ripieno.servers.chat.requests import required, text
from ripieno.values import Value

#: Characters of an identifier that a client chooses.
_IDENTIFIER = 200
_TOOL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CANCELLED = "The user cancelled the question."


class RunRequest(Value, kw_only=True):
    """A request to run. ``message`` is the newest message, if it is the user's; ``message_id`` is the client's.

    ``first_version``: the client speaks AG-UI 1, not 0.0.59. ``sent`` are its messages, only to compare them.
    """

    thread: str
    run: str
    first_version: bool
    sent: Sequence[Mapping[str, Any]]
    message: UserCanister | None
    message_id: str
    tools: Sequence[Definition]
    resume: Sequence[Mapping[str, Any]]


class ReadAnswer(Value):
    """An answer that was checked: ``sent`` has the form of ``Chat.answer``."""

    invocation: str
    sent: Mapping[str, Any]


def thread_in(sent: Mapping[str, Any]) -> str:
    """The identifier of a thread. Errors: ``RequestInvalidity``."""
    return _identifier(sent, "threadId")


def read_run(sent: Mapping[str, Any], limits: ChatLimits) -> RunRequest:
    """Reads a request. Errors: ``RequestInvalidity``, which names the part."""
    messages, resume = _tables(sent, "messages"), _tables(sent, "resume")
    version = sent.get("protocolVersion")
    last: Mapping[str, Any] = messages[-1] if messages else {}
    is_user = last.get("role") == "user"
    return RunRequest(
        thread=thread_in(sent),
        run=_identifier(sent, "runId"),
        first_version=isinstance(version, str) and version.startswith("1."),
        sent=messages,
        message=read_message(_message(last, len(messages) - 1), limits) if is_user else None,
        message_id=_identifier(last, "id") if is_user else "",
        tools=_tools(sent, limits),
        resume=resume,
    )


def read_answers(resume: Sequence[Mapping[str, Any]], questions: Sequence[Question]) -> Sequence[ReadAnswer]:
    """The answers to all open questions, each checked.

    Errors: ``Conflict`` for unknown, partial or outdated answers; ``RequestInvalidity``.
    """
    open_ones = {question_id(one): one for one in questions if one["kind"] != "client"}
    given = [_identifier(one, "interruptId", most=_IDENTIFIER * 3) for one in resume]
    if len(set(given)) != len(given):
        raise RequestInvalidity("resume answers an interrupt twice.", parameter="resume")
    if set(given) - set(open_ones):
        raise Conflict("An interrupt was answered, has changed, or is unknown. Load the conversation again.")
    if set(given) != set(open_ones):
        raise Conflict("Answer all open interrupts at once.")
    answers: list[ReadAnswer] = []
    for name, entry in zip(given, resume, strict=True):
        question = open_ones[name]
        answer = {**_answer(question, entry), "digest": question["digest"]}
        # Checked here, so that either all answers are taken or none.
        read_answer(question, answer)
        answers.append(ReadAnswer(str(question["invocation"]), answer))
    return answers


def only_cancels(resume: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the user answers nothing, as one who writes a message instead."""
    return all(one.get("status") == "cancelled" for one in resume)


def read_results(
    messages: Sequence[Mapping[str, Any]], questions: Iterable[Question], limits: ChatLimits
) -> Sequence[ResultCanister]:
    """The results of open calls that the client runs. Others, such as results of calls that run here, are left out."""
    wanted = {str(one["invocation"]) for one in questions if one["kind"] == "client"}
    found: dict[str, ResultCanister] = {}
    for place, one in enumerate(messages):
        call = one.get("toolCallId")
        if one.get("role") == "tool" and isinstance(call, str) and call in wanted:
            found[call] = _result(one, call, f"messages[{place}]", limits)
    return list(found.values())


def text_of_parts(content: Any) -> str:
    """The text of a message as a client sends it: a text, or a list of parts."""
    if is_list(content):
        texts = [one.get("text") for one in content if is_table(one) and one.get("type") == "text"]
        return "\n".join(one for one in texts if isinstance(one, str))
    return content if isinstance(content, str) else ""


def _tools(sent: Mapping[str, Any], limits: ChatLimits) -> Sequence[Definition]:
    """The tools that the client declares for this run. Errors: ``RequestInvalidity``, which names the tool."""
    declared = _tables(sent, "tools")
    size = len(json.dumps([thaw(freeze(one)) for one in declared]))
    if len(declared) > limits.client_tools or size > limits.client_tool_bytes:
        most = f"{limits.client_tools} tools and {limits.client_tool_bytes} bytes of them"
        raise RequestInvalidity(f"At most {most} are taken: declare fewer or shorter ones.", parameter="tools")
    found: dict[str, Definition] = {}
    for place, one in enumerate(declared):
        parameter, name = f"tools[{place}]", required(one, "name")
        parameters: Any = one.get("parameters", {})
        if not _TOOL.fullmatch(name) or name in found:
            message = "The name of a tool has 1 to 64 letters, digits, _ or -, and no other tool has it."
            raise RequestInvalidity(message, parameter=f"{parameter}.name")
        try:
            schema = Schema.of({"type": "object", **parameters} if is_table(parameters) else parameters)
        except SchemaInvalidity as error:
            message = f"The schema of {name!r} cannot be used: {error}"
            raise RequestInvalidity(message, parameter=f"{parameter}.parameters") from error
        found[name] = Definition(name=name, description=text(one, "description") or "", schema=schema)
    return list(found.values())


def _result(one: Mapping[str, Any], call: str, place: str, limits: ChatLimits) -> ResultCanister:
    content, error = one.get("content"), one.get("error")
    if not isinstance(content, str) and not is_list(content):
        raise RequestInvalidity("The content of a result is a text, or a list.", parameter=f"{place}.content")
    if error is not None and not isinstance(error, str):
        raise RequestInvalidity("error is a text.", parameter=f"{place}.error")
    text = text_of_parts(content)
    if len(text.encode("utf-8", "surrogatepass")) > limits.text_bytes:
        raise RequestInvalidity(f"A result has at most {limits.text_bytes} bytes.", parameter=f"{place}.content")
    fault = None if error is None else Fault(category="execution", message=error)
    return ResultCanister(invocation_id=call, content=(TextualContent(text=text),), error=fault)


def _answer(question: Question, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The answer in an entry of ``resume``, in the form of ``Chat.answer``."""
    status, payload = entry.get("status"), entry.get("payload")
    if status == "cancelled":
        return {"answer": "deny", "reason": _CANCELLED}
    if status != "resolved" or not is_table(payload):
        raise RequestInvalidity("status is resolved, with an object as payload, or cancelled.", parameter="resume")
    if question["kind"] == "input":
        return {"answer": "edit", "arguments": payload}
    approved, edited = payload.get("approved"), payload.get("editedArgs")
    if not isinstance(approved, bool):
        raise RequestInvalidity("approved is true or false.", parameter="resume.payload.approved")
    if not approved:
        return {"answer": "deny", "reason": payload.get("reason") or ""}
    always = {"always": payload["always"]} if payload.get("always") is not None else {}
    if edited is not None:
        return {"answer": "edit", "arguments": edited, **always}
    return {"answer": "approve", **always}


def _message(last: Mapping[str, Any], place: int) -> dict[str, Any]:
    """A user's message in the form that ``read_message`` takes."""
    content = last.get("content")
    if isinstance(content, str):
        return {"text": content}
    if not is_list(content) or not all(is_table(one) for one in content):
        raise RequestInvalidity("content is a text, or a list of parts.", parameter=f"messages[{place}].content")
    parts: Sequence[Any] = content
    attached = [_attachment(one) for one in parts if one.get("type") != "text"]
    return {"text": text_of_parts(content), "attachments": attached}


def _attachment(part: Mapping[str, Any]) -> dict[str, Any]:
    """An attachment in the form that ``read_message`` takes. Nothing is fetched from addresses that a client names."""
    if part.get("type") == "binary":
        return {"mime_type": part.get("mimeType"), "data": part.get("data"), "name": part.get("filename") or ""}
    source = part.get("source")
    if not is_table(source) or source.get("type") != "data":
        raise RequestInvalidity("An attachment is sent as data, not as an address.", parameter="messages.content")
    metadata = part.get("metadata")
    # The protocol leaves open what it has; assistant-ui and CopilotKit put the name there.
    name = metadata.get("filename") if is_table(metadata) else None
    return {"mime_type": source.get("mimeType"), "data": source.get("value"), "name": name or ""}


def _tables(sent: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    found = sent.get(name)
    if found is None and name in ("resume", "tools"):
        return ()
    if not is_list(found) or not all(is_table(one) for one in found):
        raise RequestInvalidity(f"{name} is a list of objects.", parameter=name)
    tables: list[Any] = list(found)
    return tables


def _identifier(sent: Mapping[str, Any], name: str, *, most: int = _IDENTIFIER) -> str:
    value = required(sent, name)
    if not 1 <= len(value) <= most:
        raise RequestInvalidity(f"{name} has 1 to {most} characters.", parameter=name)
    return value
