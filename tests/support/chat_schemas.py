"""The OpenAPI document of the native chat, against which tests check all requests, answers and events."""

import functools
import json
import re
from typing import Any

import httpx2
import jsonschema_rs

from ripieno.servers.chat.openapi import document

DOCUMENT: dict[str, Any] = json.loads(document())


@functools.cache
def validator(pointer: str) -> Any:
    """The validator of a schema in the document, by its JSON pointer."""
    return jsonschema_rs.Draft202012Validator({"$ref": pointer, "components": DOCUMENT["components"]})


def check(schema: dict[str, Any], value: Any) -> None:
    """Fails if the value does not fit a schema of the document."""
    problems = [f"{one.instance_path}: {one.message}" for one in validator(schema["$ref"]).iter_errors(value)]
    assert not problems, (problems[:3], value)


def check_event(event: dict[str, Any]) -> dict[str, Any]:
    """The event, which fits the schema of its own type, and that of all events."""
    check({"$ref": f"#/components/schemas/{event['type']}"}, event)
    check({"$ref": "#/components/schemas/Event"}, event)
    return event


def operation(method: str, path: str) -> dict[str, Any]:
    """The operation of a route of the application, which may be mounted beneath a path."""
    for pattern, methods in DOCUMENT["paths"].items():
        if re.search(re.sub(r"\{\w+\}", r"[^/]+", pattern) + "$", path) and method.lower() in methods:
            found: dict[str, Any] = methods[method.lower()]
            return found
    raise AssertionError(f"{method} {path} is not described.")


def checking() -> dict[str, Any]:
    """The settings of a client that checks each answer, and each request that was not refused."""

    async def check_answer(answer: httpx2.Response) -> None:
        described = operation(answer.request.method, answer.request.url.path)
        expected = described["responses"]["2XX" if answer.is_success else "default"]["content"]
        kind = answer.headers["content-type"].partition(";")[0]
        if kind == "application/json" and expected[kind]:
            check(expected[kind]["schema"], json.loads(await answer.aread()))
        assert kind in expected
        if answer.is_success and "requestBody" in described:
            sent = described["requestBody"]["content"]
            if "application/json" in sent:
                check(sent["application/json"]["schema"], json.loads(answer.request.content or b"{}"))

    return {"event_hooks": {"response": [check_answer]}}
