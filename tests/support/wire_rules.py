"""The rules of each wire about roles, order, pairs, names and identifiers, as a strict server would check them.

They come from the vendors' documentation, not from our encoders. Each function returns complaints.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Native = dict[str, Any]
_MESSAGES_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_GEMINI_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")


def messages(body: Native) -> list[str]:
    """The Messages wire: a user begins, all results come first in the next message, and nothing is empty."""
    said: list[str] = []
    waiting: list[str] = []
    everything: set[str] = set()
    if not body["messages"] or body["messages"][0]["role"] != "user":
        said.append("the first message is not the user's")
    for number, message in enumerate(body["messages"]):
        content = message["content"]
        blocks: list[Native] = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks:
            said.append(f"message {number} is empty")
        said += [
            f"message {number}: an empty text" for one in blocks if one["type"] == "text" and not one["text"].strip()
        ]
        results = [one["tool_use_id"] for one in blocks if one["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            said.append(f"message {number}: results {results} for the calls {waiting}")
        if any(one["type"] != "tool_result" for one in blocks[: len(results)]):
            said.append(f"message {number}: results do not stand first")
        if results and message["role"] != "user":
            said.append(f"message {number}: results of the {message['role']}")
        waiting = []
        for call in (one for one in blocks if one["type"] == "tool_use"):
            said += _call(call["id"], call["name"], call["input"], everything, _MESSAGES_NAME)
            waiting.append(call["id"])
            if message["role"] != "assistant":
                said.append(f"message {number}: calls of the {message['role']}")
        kinds = {one["type"] for one in blocks} - {"text"} if message["role"] == "assistant" else set[str]()
        if kinds & {"tool_result", "image", "document"}:
            said.append(f"message {number}: the assistant has {kinds}")
    return said + ([f"calls without results: {waiting}"] if waiting else [])


def chat(body: Native) -> list[str]:
    """The chat completions wire: results are messages directly after the calls."""
    said: list[str] = []
    waiting: list[str] = []
    everything: set[str] = set()
    for number, message in enumerate(body["messages"]):
        role = message["role"]
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                said.append(f"message {number}: a result of {message['tool_call_id']!r}, which is not waited for")
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            said.append(f"message {number}: {waiting} have no results")
            waiting = []
        if role == "assistant":
            calls = message.get("tool_calls")
            if calls == []:
                said.append(f"message {number}: an empty list of calls")
            if not calls and not message.get("content") and len(message) == 2:
                said.append(f"message {number}: nothing is said")
            for call in calls or ():
                inner = call[call["type"]]
                sent = inner["arguments"] if call["type"] == "function" else {}
                said += _call(call["id"], inner["name"], sent, everything, _NAME)
                waiting.append(call["id"])
        elif role not in ("user", "system", "developer"):
            said.append(f"message {number}: the role {role!r}")
        elif not message["content"]:
            said.append(f"message {number}: nothing is said")
    return said + ([f"calls without results: {waiting}"] if waiting else [])


def responses(body: Native) -> list[str]:
    """The Responses wire: each call has one later output, and the kind of a text fits its role."""
    said: list[str] = []
    calls: dict[str, str] = {}
    answered: set[str] = set()
    everything: set[str] = set()
    kinds = {"user": "input_text", "system": "input_text", "developer": "input_text", "assistant": "output_text"}
    for number, item in enumerate(body["input"] if isinstance(body["input"], list) else ()):
        match item.get("type", "message"):
            case "message":
                texts = [] if isinstance(item["content"], str) else [one["type"] for one in item["content"]]
                wrong = [one for one in texts if one.endswith("_text") and one != kinds[item["role"]]]
                said += [f"item {number}: {one} of the {item['role']}" for one in wrong]
                if not item["content"]:
                    said.append(f"item {number}: nothing is said")
            case "function_call":
                said += _call(item["call_id"], item["name"], item["arguments"], everything, _NAME)
                calls[item["call_id"]] = "function_call_output"
            case "custom_tool_call":
                said += _call(item["call_id"], item["name"], {}, everything, _NAME)
                calls[item["call_id"]] = "custom_tool_call_output"
            case "function_call_output" | "custom_tool_call_output" as kind:
                if calls.get(item["call_id"]) != kind or item["call_id"] in answered:
                    said.append(f"item {number}: a {kind} of {item['call_id']!r}, which is not waited for")
                answered.add(item["call_id"])
            case _:
                pass
    unanswered = calls.keys() - answered
    return said + ([f"calls without outputs: {sorted(unanswered)}"] if unanswered else [])


def gemini(body: Native) -> list[str]:
    """The Gemini wire: a user begins, roles alternate, and the turn after calls has a response for each, in order."""
    said: list[str] = []
    waiting: list[str] = []
    roles = [content["role"] for content in body["contents"]]
    if not roles or roles[0] != "user":
        said.append("the first content is not the user's")
    said += [
        f"content {number}: {one} twice" for number, one in enumerate(roles) if number and roles[number - 1] == one
    ]
    for number, content in enumerate(body["contents"]):
        if not content["parts"]:
            said.append(f"content {number} is empty")
        found = [one["functionResponse"] for one in content["parts"] if "functionResponse" in one]
        if [one["name"] for one in found] != waiting:
            said.append(f"content {number}: responses {[one['name'] for one in found]} for the calls {waiting}")
        said += [
            f"content {number}: a response that is no object" for one in found if not isinstance(one["response"], dict)
        ]
        waiting = []
        for call in (one["functionCall"] for one in content["parts"] if "functionCall" in one):
            waiting.append(call["name"])
            if not _GEMINI_NAME.fullmatch(call["name"]):
                said.append(f"content {number}: the name {call['name']!r}")
            if not isinstance(call.get("args", {}), dict):
                said.append(f"content {number}: arguments that are no object")
            if content["role"] != "model":
                said.append(f"content {number}: calls of the {content['role']}")
    return said + ([f"calls without responses: {waiting}"] if waiting else [])


def _call(identifier: str, name: str, sent: object, everything: set[str], names: re.Pattern[str]) -> Sequence[str]:
    said: list[str] = []
    if identifier in everything or not identifier or len(identifier) > 256:
        said.append(f"the identifier {identifier!r} is taken, blank or too long")
    everything.add(identifier)
    if not names.fullmatch(name):
        said.append(f"the name {name!r}")
    arguments = json.loads(sent) if isinstance(sent, str) else sent
    if not isinstance(arguments, dict):
        said.append(f"arguments of {identifier} that are no object")
    return said


CHECKERS: Mapping[str, Callable[[Native], list[str]]] = {
    "anthropic": messages,
    "openai-chat": chat,
    "openai-responses": responses,
    "gemini": gemini,
}
