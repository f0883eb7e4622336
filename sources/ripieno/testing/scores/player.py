"""The next turn of a score, its answer with the actual results, and the answer's events."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Controls,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    UserCanister,
)
from ripieno.canisters.contents import text_of
from ripieno.canisters.controls import Finish, Format
from ripieno.canisters.conversation import NO_USAGE, Usage, assistant_messages
from ripieno.canisters.events import (
    ArgumentsDelta,
    ContentSealed,
    Event,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.exceptions import InputError, JsonInvalidity
from ripieno.jsonvalues import encode, freeze, is_table, parse
from ripieno.models.protocol import SCORED
from ripieno.schemas.schema import Schema
from ripieno.testing.scores.templates import error_of, failed, fill, fill_all
from ripieno.testing.scores.turns import ScoredCall, Turn
from ripieno.values import Value

#: Characters per streamed piece.
CHUNK = 24
#: The value for an answer in one piece.
WHOLE = sys.maxsize


class Answer(Value, kw_only=True):
    """One answer of a score. ``pace`` is in seconds between streamed pieces. ``halted``: a turn could not be played."""

    canisters: tuple[AssistantCanister | InvocationCanister, ...]
    finish: Finish
    reasoning: str = ""
    pace: float = 0.0
    usage: Usage = NO_USAGE
    halted: bool = False


def follow(turns: Sequence[Turn], canisters: Sequence[Canister]) -> tuple[int, dict[str, ResultCanister]]:
    """The index of the next turn, or the number of turns at the end, and the results so far by label.

    Calls are identified by their position in their message, since their identifiers may have been replaced.
    """
    answers = {canister.invocation_id: canister for canister in canisters if isinstance(canister, ResultCanister)}
    results: dict[str, ResultCanister] = {}
    index = _due(turns, 0, results)
    for message in assistant_messages(canisters):
        if index >= len(turns):
            break
        invocations = [canister for canister in message if isinstance(canister, InvocationCanister)]
        for call, invocation in zip(turns[index].calls, invocations, strict=False):
            result = answers.get(invocation.identifier)
            if call.label is not None and result is not None:
                results[call.label] = result
        index = _due(turns, index + 1, results)
    return index, results


def _due(turns: Sequence[Turn], index: int, results: Mapping[str, ResultCanister]) -> int:
    """The first turn from ``index`` on whose condition holds."""
    while index < len(turns):
        condition = turns[index].on_error
        if condition is None or failed(results.get(condition)):
            break
        index += 1
    return index


def since_prompt(canisters: Sequence[Canister]) -> Sequence[Canister]:
    """The canisters after the last user canister.

    One without text right after a result does not count: some wires send the images of results so.
    """
    for index in range(len(canisters) - 1, -1, -1):
        canister = canisters[index]
        if isinstance(canister, UserCanister) and (
            text_of(canister.content) or not isinstance(canisters[index - 1], ResultCanister)
        ):
            return canisters[index + 1 :]
    return canisters


def play_turn(
    turn: Turn, number: int, results: Mapping[str, ResultCanister], tools: Collection[str], message: int
) -> Answer:
    """The answer of a turn, or one that says why the turn cannot be played.

    ``number`` counts turns from 1. ``message`` counts the conversation's assistant messages, for identifiers.
    """
    for label in turn.expect:
        result = results.get(label)
        if result is None or failed(result):
            why = "has no result." if result is None else f"failed: {error_of(result)}"
            return say(f"Turn {number} of the score expects {label!r} to have succeeded, but it {why}", halted=True)
    for call in turn.calls:
        if call.tool not in tools:
            offered = ", ".join(sorted(tools)) or "none"
            text = f"Turn {number} of the score calls {call.tool!r}, which is not offered. Offered: {offered}."
            return say(text, halted=True)
    text = fill(turn.text, results)
    canisters: list[AssistantCanister | InvocationCanister] = [
        AssistantCanister.of(text) if text else AssistantCanister()
    ]
    canisters += [_invoke(call, results, f"call_{message}_{index}") for index, call in enumerate(turn.calls, 1)]
    return Answer(
        canisters=tuple(canisters),
        finish=turn.finish or ("invocations" if turn.calls else "stop"),
        reasoning=fill(turn.reasoning, results),
        pace=turn.pace,
    )


def check_form(answer: Answer, form: Format | None, number: int) -> None:
    """Refuses an answer without calls whose text has not the form that a provider would enforce.

    ``number`` counts turns from 1. Errors: ``InputError``.
    """
    if form is None or answer.halted or answer.finish != "stop":
        return
    refused = f"The text of turn {number} of the score does not have the form that the request asks for: "
    try:
        value = parse("".join(text_of(one.content) for one in answer.canisters if isinstance(one, AssistantCanister)))
    except JsonInvalidity as error:
        raise InputError(f"{refused}it is not JSON. {error}") from None
    if form.schema is not None:
        problems = Schema.of_results(form.schema).validate(value)
        if problems:
            raise InputError(f"{refused}{problems[0]}.")
    elif not is_table(value):
        raise InputError(f"{refused}it is not a JSON object.")


def _invoke(call: ScoredCall, results: Mapping[str, ResultCanister], identifier: str) -> InvocationCanister:
    arguments = freeze({name: fill_all(value, results) for name, value in call.arguments.items()})
    return InvocationCanister(
        identifier=identifier, name=call.tool, arguments=arguments, raw=encode(arguments).decode()
    )


def callable_names(offered: Collection[str], controls: Controls) -> Collection[str]:
    """The names of the tools that may be called with these controls."""
    if controls.tool_choice == "none":
        return ()
    allowed = controls.allowed_tools
    return offered if allowed is None else [name for name in offered if name in allowed]


def say(text: str, *, halted: bool = False) -> Answer:
    return Answer(canisters=(AssistantCanister.of(text),), finish="stop", halted=halted)


def events_of(answer: Answer, *, model: str = "", chunk: int = CHUNK) -> Iterator[Event]:
    """The events of an answer, with texts and arguments in pieces of ``chunk`` characters."""
    yield TurnBegan(model=model)
    for piece in _cut(answer.reasoning, chunk):
        yield ReasoningDelta(piece)
    if answer.reasoning:
        data = freeze({"text": answer.reasoning})
        yield ContentSealed(OpaqueContent(protocol=SCORED, kind="reasoning", data=data))
    index = 0
    for canister in answer.canisters:
        if isinstance(canister, AssistantCanister):
            for content in canister.content:
                for piece in _cut(text_of((content,)), chunk):
                    yield TextDelta(piece)
                yield ContentSealed(content)
            continue
        yield InvocationBegan(index=index, identifier=canister.identifier, name=canister.name)
        for piece in _cut(canister.raw or "", chunk):
            yield ArgumentsDelta(index=index, text=piece)
        yield InvocationSealed(index=index, invocation=canister)
        index += 1
    yield TurnEnded(finish=answer.finish, usage=answer.usage)


async def perform(answer: Answer, *, model: str = "", chunk: int = CHUNK) -> AsyncGenerator[Event, None]:
    """The events of an answer, with the answer's pace as a pause after each piece.

    Even without a pace, other tasks run between pieces, so that a disconnected client is noticed.
    """
    for event in events_of(answer, model=model, chunk=chunk):
        yield event
        if isinstance(event, TextDelta | ReasoningDelta | ArgumentsDelta):
            await asyncio.sleep(answer.pace)


def _cut(text: str, chunk: int) -> Iterator[str]:
    return (text[at : at + chunk] for at in range(0, len(text), chunk))
