"""The OpenAPI 3.1 document of the native interface, with JSON Schemas of all requests, answers and events."""

import functools
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from pydantic import TypeAdapter

from ripieno.schemas.functions import PlainSchemas
from ripieno.servers.chat import forms
from ripieno.servers.chat.event_forms import EVENT
from ripieno.servers.chat.uploads import TYPES
from ripieno.values import Value

_REFERENCE = "#/components/schemas/{model}"
_NAMES = re.compile(r"\{(\w+)\}")
_ONE = "/conversations/{identifier}"
_EVENTS = (
    "Server-sent events: `id` is the position of the reader, `data` an event. The header Last-Event-ID, or the "
    "parameter `after`, names the position after which to read; without one, events follow from now on."
)


class Operation(Value):
    """One route: what it does, the form of its answer, and that of its request, if it has a body.

    ``query`` describes the parameters after the path. ``answers`` and ``sends`` are the types of the bodies.
    """

    summary: str
    answer: Any
    request: Any = None
    query: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    answers: Sequence[str] = ("application/json",)
    sends: Sequence[str] = ("application/json",)


OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("GET", "/conversations"): Operation("Lists the conversations.", forms.ConversationList),
    ("POST", "/conversations"): Operation("Begins a conversation.", forms.Created, forms.Title),
    ("GET", _ONE): Operation(
        "Opens a conversation: all that a page shows.",
        forms.CONVERSATION,
        query={"limit": "A number: only the newest messages."},
    ),
    ("PATCH", _ONE): Operation("Gives a conversation another title.", forms.Done, forms.Title),
    ("DELETE", _ONE): Operation("Stops the run and deletes the conversation.", forms.Done),
    ("GET", f"{_ONE}/messages"): Operation(
        "The messages before those of a snapshot or of an earlier part.",
        forms.PART,
        query={"before": "The place of that part.", "limit": "A number of messages, at most 500."},
    ),
    ("POST", f"{_ONE}/messages"): Operation(
        "Says something. Calls that wait are denied, with the text as the reason.", forms.Done, forms.Message
    ),
    ("POST", f"{_ONE}/attachments"): Operation(
        "Uploads a file, as the body of the request. A message names it by its reference.",
        forms.Upload,
        Any,
        sends=TYPES,
    ),
    ("DELETE", f"{_ONE}/attachments/{{reference}}"): Operation("Drops an upload.", forms.Done),
    ("GET", f"{_ONE}/contents/{{reference}}"): Operation(
        "The bytes of an attachment or of a part of a result, or those of the header Range.",
        Any,
        answers=(*TYPES, "application/octet-stream"),
    ),
    ("POST", f"{_ONE}/revisions"): Operation(
        "Shows a call with other arguments, before an edit.", forms.Revision, forms.RevisionRequest
    ),
    ("POST", f"{_ONE}/answers"): Operation("Answers a question. 409: it has changed.", forms.Left, forms.AnswerRequest),
    ("POST", f"{_ONE}/results"): Operation("Sends the result of a client's call.", forms.Left, forms.Delivery),
    ("POST", f"{_ONE}/stop"): Operation("Stops the run.", forms.Done),
    ("POST", f"{_ONE}/resume"): Operation("Continues after an interruption or a failure.", forms.Done),
    ("GET", f"{_ONE}/events"): Operation(
        _EVENTS, EVENT, query={"after": "A position."}, answers=("text/event-stream",)
    ),
    ("GET", "/questions"): Operation("The open questions of all conversations.", forms.OpenQuestions),
    ("GET", "/allowances"): Operation("The calls that run without a question, because of always.", forms.AllowanceList),
    ("DELETE", f"{_ONE}/allowances/{{allowance}}"): Operation(
        "Takes an allowance back: the next call asks again.", forms.Done
    ),
    ("GET", "/usage"): Operation("Tokens and calls.", forms.USAGE, query={"since": "A time: ISO 8601, UTC."}),
}


@functools.cache
def document() -> bytes:
    """The document as JSON. It is the same for all installations."""
    forms_of_all = {form for one in OPERATIONS.values() for form in (one.request, one.answer)} - {None, Any}
    inputs: Any = [(form, "validation", TypeAdapter(form)) for form in (*forms_of_all, forms.Error)]
    made, definitions = TypeAdapter.json_schemas(inputs, schema_generator=PlainSchemas, ref_template=_REFERENCE)
    schemas = {name: _closed(one) for name, one in definitions["$defs"].items()}
    schemas["Event"] = {"oneOf": made[EVENT, "validation"]["anyOf"], "discriminator": {"propertyName": "type"}}

    def schema_of(form: Any) -> dict[str, Any]:
        return {"$ref": _REFERENCE.format(model="Event")} if form is EVENT else dict(made[form, "validation"])

    paths: dict[str, dict[str, Any]] = {}
    for (method, path), one in OPERATIONS.items():
        paths.setdefault(path, {})[method.lower()] = _operation(one, path, schema_of)
    return json.dumps(
        {
            "openapi": "3.1.0",
            "info": {"title": "Ripieno chat", "version": "1"},
            # Relative to this document: the application may be mounted beneath any path.
            "servers": [{"url": "."}],
            "paths": paths,
            "components": {"schemas": schemas},
        }
    ).encode()


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object without further fields. Its name in the document is its title."""
    description = {"description": inspect.cleandoc(schema["description"])} if "description" in schema else {}
    plain = {name: one for name, one in schema.items() if name != "title"}
    return {**plain, **description, "additionalProperties": False}


def _operation(one: Operation, path: str, schema_of: Callable[[Any], Any]) -> dict[str, Any]:
    def bodies(types: Sequence[str], form: Any) -> dict[str, Any]:
        return {kind: {} if form is Any else {"schema": schema_of(form)} for kind in types}

    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in _NAMES.findall(path)
    ]
    parameters += [
        {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
        for name, text in one.query.items()
    ]
    described: dict[str, Any] = {
        "summary": one.summary,
        "parameters": parameters,
        "responses": {
            "2XX": {"description": "Done.", "content": bodies(one.answers, one.answer)},
            "default": {"description": "Refused.", "content": bodies(("application/json",), forms.Error)},
        },
    }
    if one.request is not None:
        described["requestBody"] = {"required": True, "content": bodies(one.sends, one.request)}
    return described
