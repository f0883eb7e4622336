"""Conversations with calls and results as texts, for wires that get no tools."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Content,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.jsonvalues import encode
from ripieno.models.protocols.prompted.prompt import HERMES, Style
from ripieno.models.protocols.text_calls.openings import neutralize

#: Key in a run's memory of the canisters made before: the same canisters give the same ones again.
_WRITTEN = "conversation in words"
C = TypeVar("C", bound=Canister)
_UNSAFE = str.maketrans({'"': "'", "<": "(", ">": ")", "\n": " ", "\r": " "})


def write(canisters: Sequence[Canister], prompt: str, style: Style, memory: dict[object, Any]) -> tuple[Canister, ...]:
    """The conversation with calls and results as text. The prompt joins the leading supervisor's text."""
    kept: dict[object, tuple[tuple[Canister, ...], Canister]] = memory.setdefault(_WRITTEN, {})
    names = {one.identifier: one.name for one in canisters if isinstance(one, InvocationCanister)}

    def made(group: tuple[Canister, ...], key: object, make: Callable[[], Canister]) -> Canister:
        under = (key, *map(id, group))
        found = kept.get(under)
        if found is None:
            # The group is kept, so that its ids stay unique.
            found = kept[under] = (group, make())
        return found[1]

    written: list[Canister] = []
    leading = tuple(itertools.takewhile(lambda one: isinstance(one, SupervisorCanister), canisters))
    if leading or prompt:
        written.append(made(leading, prompt, lambda: _instructed(leading, prompt)))
    for group in _groups(canisters[len(leading) :]):
        if any(isinstance(one, InvocationCanister) for one in group):
            written.append(made(group, style.name, lambda group=group: _assistant(group, style)))  # type: ignore[misc]
        elif any(isinstance(one, ResultCanister) for one in group):
            written.append(made(group, "results", lambda group=group: _user(group, names)))  # type: ignore[misc]
        else:
            written.extend(group)
    return tuple(written)


def _groups(canisters: Sequence[Canister]) -> Iterator[tuple[Canister, ...]]:
    """Groups that become one message: the assistant's contents and calls; results with the user's contents."""
    for assisted, run in itertools.groupby(
        canisters, lambda one: isinstance(one, AssistantCanister | InvocationCanister)
    ):
        if assisted:
            yield tuple(run)
            continue
        for spoken, part in itertools.groupby(run, lambda one: isinstance(one, ResultCanister | UserCanister)):
            if spoken:
                yield tuple(part)
            else:
                yield from ((one,) for one in part)


def _instructed(leading: Sequence[Canister], prompt: str) -> SupervisorCanister:
    contents = [content for one in leading if isinstance(one, SupervisorCanister) for content in one.content]
    if prompt:
        contents.append(TextualContent(text=f"\n\n{prompt}" if contents else prompt))
    return SupervisorCanister(content=_joined(contents))


def _assistant(group: Sequence[Canister], style: Style) -> AssistantCanister:
    contents: list[Content] = []
    for canister in group:
        if isinstance(canister, InvocationCanister):
            text = written_call(canister, style)
            contents.append(TextualContent(text=f"\n{text}" if contents else text))
        elif isinstance(canister, AssistantCanister):
            contents.extend(canister.content)
    return AssistantCanister(content=_joined(contents))


def written_call(call: InvocationCanister, style: Style) -> str:
    """A call in a style; unreadable arguments stay as they came."""
    if call.fault is not None and call.raw is not None and not call.arguments:
        text = style.write(call.name, call.arguments, call.raw)
        return text if call.raw in text else HERMES.write(call.name, call.arguments, call.raw)
    return style.write(call.name, call.arguments, encode(call.arguments).decode())


def _user(group: Sequence[Canister], names: Mapping[str, str]) -> UserCanister:
    contents: list[Content] = []
    for canister in group:
        if isinstance(canister, ResultCanister):
            text = written_result(canister, names.get(canister.invocation_id, canister.report.tool))
            contents.append(TextualContent(text=f"\n{text}" if contents else text))
            contents.extend(one for one in canister.content if not isinstance(one, TextualContent))
        elif isinstance(canister, UserCanister):
            if contents and canister.content:
                contents.append(TextualContent(text="\n\n"))
            contents.extend(canister.content)
    return UserCanister(content=_joined(contents))


def written_result(result: ResultCanister, name: str) -> str:
    """A result in its frame: nothing in it can be mistaken for a call or for the end of the frame."""
    identifier = result.invocation_id.translate(_UNSAFE)
    return (
        f'<tool_result id="{identifier}" name="{name.translate(_UNSAFE)}">\n{neutralize(result.text)}\n</tool_result>'
    )


def _joined(contents: Sequence[Content]) -> tuple[Content, ...]:
    """The contents with adjacent texts joined."""
    joined: list[Content] = []
    for content in contents:
        last = joined[-1] if joined else None
        if isinstance(content, TextualContent) and isinstance(last, TextualContent):
            joined[-1] = TextualContent(text=last.text + content.text)
        else:
            joined.append(content)
    return tuple(joined)
