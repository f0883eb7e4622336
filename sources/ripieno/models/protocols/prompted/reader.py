"""Recovers the tools, calls and results of a prompted request, for models that are simulated in tests."""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.contents import text_of
from ripieno.canisters.controls import Finish
from ripieno.canisters.events import collect, play
from ripieno.ensembles import Definition
from ripieno.exceptions import RipienoError
from ripieno.jsonvalues import is_table, parse
from ripieno.models.protocol import Asked, Identifiers
from ripieno.models.protocols.common.tools import client_function
from ripieno.models.protocols.prompted.prompt import CLOSING, HERMES, OPENING
from ripieno.models.protocols.prompted.writer import written_call
from ripieno.models.protocols.text_calls.interpreter import Interpreter

_LIST = re.compile(rf"^{re.escape(OPENING)}\n(.*?)\n{re.escape(CLOSING)}$", re.MULTILINE | re.DOTALL)
_RESULT = re.compile(r'<tool_result id="([^"]*)" name="([^"]*)">\n(.*?)\n</tool_result>\s*', re.DOTALL)


def recover(asked: Asked) -> Asked | None:
    """The request with the tools, calls and results in its text; None if there are no tools."""
    prompt = next((one for one in asked.canisters if isinstance(one, SupervisorCanister)), None)
    listed = None if prompt is None else _LIST.search(text_of(prompt.content))
    if listed is None or asked.tools:
        return None
    tools = tuple(filter(None, map(_definition, listed[1].split("\n"))))
    if not tools:
        return None
    schemas = {tool.name: tool.schema.mapping for tool in tools}
    return dataclasses.replace(asked, tools=tools, canisters=tuple(_canisters(asked.canisters, schemas)))


def _definition(line: str) -> Definition | None:
    try:
        value: Any = parse(line)
        return client_function(value, value.get("parameters"), "A tool has no name.") if is_table(value) else None
    except (RipienoError, TypeError):
        return None


def _canisters(canisters: Sequence[Canister], schemas: Mapping[str, Mapping[str, Any]]) -> Iterator[Canister]:
    """The canisters with calls and results. Calls get the identifiers of their results, in order."""
    waiting: list[InvocationCanister] = []
    for canister in canisters:
        if isinstance(canister, AssistantCanister):
            answer = collect(Interpreter(schemas, Identifiers()).hear(play([canister], finish="stop")))
            yield from (one for one in answer if not isinstance(one, InvocationCanister))
            waiting = [one for one in answer if isinstance(one, InvocationCanister)]
        elif isinstance(canister, UserCanister) and waiting:
            found = list(_RESULT.finditer(text_of(canister.content)))
            for call, match in zip(waiting, found, strict=False):
                yield dataclasses.replace(call, identifier=match[1])
            for match in found:
                yield ResultCanister(invocation_id=match[1], content=(TextualContent(text=match[3]),))
            waiting = []
            rest = _RESULT.sub("", text_of(canister.content))
            if rest.strip() or not found:
                yield UserCanister.of(rest)
        else:
            yield canister
    yield from waiting


def in_words(canisters: Iterable[Canister]) -> AssistantCanister:
    """An answer as a prompted model writes it, with calls in its text."""
    texts: list[str] = []
    for canister in canisters:
        if isinstance(canister, InvocationCanister):
            texts.append(written_call(canister, HERMES))
        elif text := text_of(canister.content):
            texts.append(text)
    return AssistantCanister.of("\n".join(texts)) if texts else AssistantCanister()


def ended(finish: Finish) -> Finish:
    """The finish of such an answer: its wire has no calls."""
    return "stop" if finish == "invocations" else finish
