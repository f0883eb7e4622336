"""Members of a request that a Responses answer repeats, in the form of the public schema of responses.

A missing member has the documented default. A member of a shape that the schema does not allow is left out.
"""

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from ripieno.jsonvalues import is_list, is_table
from ripieno.models.protocol import Asked, Native

#: Efforts that requests may have and answers may not, with the nearest one.
_EFFORTS: Mapping[object, str] = {"minimal": "low", "max": "xhigh"}
_KNOWN_EFFORTS = ("none", "low", "medium", "high", "xhigh")
_TEXTS = ("instructions", "previous_response_id", "prompt_cache_key", "safety_identifier")
_SUMMARIES = ("concise", "detailed", "auto")
_VERBOSITIES = ("low", "medium", "high")
_CHOICES = ("none", "auto", "required")
#: Keys of a tool that are secret.
_SECRETS = frozenset({"authorization", "headers"})
#: As many bytes as no client can guess, since a stored response is fetched by its identifier. In hexadecimal.
_TOKEN_BYTES = 16
#: The digits of it in the identifiers of items.
ITEM_DIGITS = 20
_RESPONSE = "resp_"


def new_token(stored: str = "") -> str:
    """The common part of the identifiers of a response and its items. ``stored`` is that of the response, if known."""
    return stored.removeprefix(_RESPONSE) or secrets.token_hex(_TOKEN_BYTES)


def head_of(asked: Asked, token: str) -> dict[str, Any]:
    """The members of a response that stay the same while it is streamed, except for its tools."""
    native = asked.native
    head = {
        "id": _RESPONSE + token,
        "object": "response",
        "created_at": asked.created or int(time.time()),
        "model": asked.model,
        "background": bool(asked.stored) and native.get("background") is True,
        "store": bool(asked.stored),
        **_DEFAULTS,
    }
    # Most requests have a few of them.
    for key, read in _READERS.items():
        if key in native:
            head[key] = read(native[key])
    user, conversation = native.get("user"), native.get("conversation")
    if isinstance(user, str):
        head["user"] = user
    if conversation is not None:
        head["conversation"] = {"id": conversation["id"] if is_table(conversation) else conversation}
    return head


def _checked(value: object, kinds: tuple[type, ...], default: Any = None) -> Any:
    """The value, if it is of one of these kinds. A boolean is no number."""
    return value if isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)) else default


def _only(*kinds: type, default: Any = None) -> Callable[[object], Any]:
    return lambda value: _checked(value, kinds, default)


def _value(native: Native, key: str, *kinds: type, default: Any = None) -> Any:
    return _checked(native.get(key), kinds, default)


def _table(value: object) -> Mapping[str, Any]:
    return value if is_table(value) else {}


def _reasoning(native: Native) -> dict[str, Any]:
    effort, summary = native.get("effort"), native.get("summary")
    effort = _EFFORTS.get(effort, effort) if isinstance(effort, str) else None
    return {
        "effort": effort if effort in _KNOWN_EFFORTS else None,
        "summary": summary if summary in _SUMMARIES else None,
    }


def _format(native: Native) -> dict[str, Any]:
    verbosity = native.get("verbosity")
    members = {"format": _format_of(_table(native.get("format")))}
    return {**members, "verbosity": verbosity} if verbosity in _VERBOSITIES else members


def _format_of(native: Native) -> dict[str, Any]:
    kind = native.get("type")
    if kind == "json_schema":
        # The public schema of answers allows only null for the schema.
        return {
            "type": kind,
            "name": _value(native, "name", str) or "",
            "description": _value(native, "description", str),
            "schema": None,
            "strict": _value(native, "strict", bool, default=False),
        }
    return {"type": kind if kind == "json_object" else "text"}


# Tools.


def tools_of(native: Native) -> list[Mapping[str, Any]]:
    """The tools of a request in the flat form of a response, without secrets."""
    tools = native.get("tools")
    return [_tool(tool, tool.get("type", "function")) for tool in tools if is_table(tool)] if is_list(tools) else []


def _tool(tool: Native, kind: object) -> Mapping[str, Any]:
    if kind != "function":
        return {key: value for key, value in tool.items() if key not in _SECRETS}
    inner = _flat(tool)
    name, described, parameters = inner.get("name"), inner.get("description"), inner.get("parameters")
    return {
        "type": kind,
        "name": name if isinstance(name, str) else "",
        "description": described if isinstance(described, str) else None,
        "parameters": parameters if is_table(parameters) else None,
        "strict": inner.get("strict") is True,
    }


def _flat(native: Native) -> Native:
    """A definition or a choice without the nesting of chat completions."""
    inner = native.get("function")
    return inner if is_table(inner) else native


def _choice(choice: object) -> object:
    if not is_table(choice):
        return choice if choice in _CHOICES else "auto"
    forced = choice.get("forced_tool")
    if is_table(forced):
        return _choice(forced)
    kind = choice.get("type")
    if kind in _CHOICES:
        return kind
    if kind == "function":
        return {"type": kind, "name": _value(_flat(choice), "name", str) or ""}
    if kind == "allowed_tools":
        inner = _table(choice.get(kind)) or choice
        tools, mode = inner.get("tools"), inner.get("mode")
        allowed = [_choice(tool) for tool in tools if is_table(tool)] if is_list(tools) else []
        return {"type": kind, "mode": mode if mode in _CHOICES else "auto", "tools": allowed}
    return dict(choice) if isinstance(kind, str) else "auto"


#: What the answer has for each of these members of a request; for None, if the request has no such member.
_READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_TEXTS, _only(str)),
    **dict.fromkeys(("max_output_tokens", "max_tool_calls"), _only(int)),
    **dict.fromkeys(("frequency_penalty", "presence_penalty"), _only(int, float, default=0.0)),
    **dict.fromkeys(("temperature", "top_p"), _only(int, float, default=1.0)),
    "metadata": _table,
    "parallel_tool_calls": _only(bool, default=True),
    "reasoning": lambda value: _reasoning(_table(value)),
    "service_tier": lambda value: _checked(value, (str,)) or "default",
    "text": lambda value: _format(_table(value)),
    "tool_choice": _choice,
    "top_logprobs": _only(int, default=0),
    "truncation": lambda value: "auto" if value == "auto" else "disabled",
}
_DEFAULTS: Mapping[str, Any] = {key: read(None) for key, read in _READERS.items()}
