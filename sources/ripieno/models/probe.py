"""Detects a model's capabilities with ten short questions, each for one or two of them."""

import dataclasses
import re
import struct
import zlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.canisters import (
    Canister,
    Controls,
    ImageContent,
    InvocationCanister,
    ResultCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.conversation import NO_USAGE
from ripieno.canisters.events import Event, InvocationSealed, TextDelta, TurnEnded
from ripieno.ensembles import Definition, Ensemble
from ripieno.exceptions import InputError, ProviderRefusal, WireInvalidity
from ripieno.models.model import Model
from ripieno.models.protocol import Capabilities
from ripieno.schemas import Schema
from ripieno.values import Value

#: Statuses that refuse one question, not all of them.
_REFUSING = frozenset({400, 404, 405, 413, 415, 422, 500, 501})
#: Output tokens of each question.
_TOKENS = 300


def _tool(name: str, description: str, kind: str, *parameters: str) -> Definition:
    """A tool whose parameters are all required and of one type."""
    properties = {one: {"type": kind} for one in parameters}
    schema = {"type": "object", "properties": properties, "required": parameters, "additionalProperties": False}
    return Definition(name=name, description=description, schema=Schema.of(schema))


_ADD = _tool("add", "Adds two whole numbers.", "integer", "first", "second")
_SAY = _tool("say", "Says a word aloud.", "string", "word")
_ONE_CALL = "Use the tool add to add 2 and 3. Do not calculate yourself."
_TWO_CALLS = (
    "Use the tool add twice, in one and the same answer: for 1 and 2, and for 3 and 4. Do not calculate yourself."
)
#: Capabilities that a probe assumes, so that each request is sent.
_ASSUMED = dict.fromkeys(
    (
        *("function_calling", "parallel_calls", "streaming", "stream_calls", "stream_usage"),
        *("tool_choice", "strict", "images_in_results", "sampling"),
    ),
    True,
)


class Finding(Value, kw_only=True):
    """The result of one question: the capabilities that it settles, and in ``note`` why one does not hold."""

    question: str
    holds: bool
    capabilities: frozendict[str, Any]
    note: str = ""


class _Answer(Value):
    events: Sequence[Event]

    @property
    def calls(self) -> list[InvocationCanister]:
        return [one.invocation for one in self.events if isinstance(one, InvocationSealed)]

    def adds(self, *pairs: tuple[int, int]) -> bool:
        wanted = sorted({"first": one, "second": other}.items() for one, other in pairs)
        return sorted(dict(call.arguments).items() for call in self.calls if call.name == "add") == wanted


#: Whether it holds, the capabilities that this settles, and why not.
_Result = tuple[bool, dict[str, Any], str]
_Question = Callable[["Prober"], Awaitable[_Result]]


class Prober:
    """Asks one model. ``capabilities`` are updated with each finding."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.capabilities: dict[str, Any] = {**model.provider.capabilities(model.name), **_ASSUMED}

    async def ask(
        self, what: str | Sequence[Canister], *tools: Definition, controls: Controls | None = None, **assumed: Any
    ) -> _Answer:
        """Asks one question. Errors: ``ProviderFailure``."""
        capabilities: frozendict[str, Any] = frozendict({**self.capabilities, **assumed})

        def give(_: str) -> Capabilities:
            return capabilities

        provider = dataclasses.replace(self._model.provider, capabilities=give)
        canisters = (UserCanister.of(what),) if isinstance(what, str) else what
        wanted = dataclasses.replace(controls or Controls(stream=False), output_tokens=_TOKENS)
        ensembles = [Ensemble.of_request(tools)] if tools else []
        stream = Model(provider=provider, name=self._model.name).stream(canisters, ensembles=ensembles, controls=wanted)
        return _Answer([event async for event in stream])


async def _answers(prober: Prober) -> _Result:
    """Whether it answers, and which of the wire's two parameters for the length of an answer it accepts."""
    try:
        await prober.ask("Say the word ready.")
    except ProviderRefusal as refusal:
        if refusal.status not in _REFUSING or "output_tokens_parameter" not in prober.capabilities:
            raise
        other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
        word = other[prober.capabilities["output_tokens_parameter"]]
        try:
            await prober.ask("Say the word ready.", output_tokens_parameter=word)
        except ProviderRefusal:
            raise refusal from None
        return True, {"output_tokens_parameter": word}, ""
    return True, {}, ""


async def _streams(prober: Prober) -> _Result:
    events = (await prober.ask("Count from one to twelve, in words.", controls=Controls())).events
    streams = sum(isinstance(one, TextDelta) for one in events) > 1
    counted = any(isinstance(one, TurnEnded) and one.usage != NO_USAGE for one in events)
    note = "" if streams else "the answer came in one piece"
    return streams, {"streaming": streams, "stream_usage": counted}, note


def _adds(
    capability: str, prompt: str = _ONE_CALL, pairs: Sequence[tuple[int, int]] = ((2, 3),), **controls: Any
) -> _Question:
    """The question whether it adds these pairs with these controls."""

    async def ask(prober: Prober) -> _Result:
        answer = await prober.ask(prompt, _ADD, controls=Controls(**controls))
        return _verdict(capability, answer.adds(*pairs), answer)

    return ask


_parallel = _adds("parallel_calls", _TWO_CALLS, ((1, 2), (3, 4)), stream=False, parallel=True)


async def _required(prober: Prober) -> _Result:
    answer = await prober.ask("Good morning!", _ADD, _SAY, controls=Controls(stream=False, tool_choice="required"))
    return _verdict("tool_choice", bool(answer.calls), answer)


async def _forced(prober: Prober) -> _Result:
    if not prober.capabilities["tool_choice"]:
        return False, {"tool_choice": False}, "skipped: it makes no call when one is required"
    answer = await prober.ask(_ONE_CALL, _ADD, _SAY, controls=Controls(stream=False, tool_choice="say"))
    forced = [call.name for call in answer.calls] == ["say"]
    return _verdict("tool_choice", forced, answer)


async def _images(prober: Prober) -> _Result:
    call = InvocationCanister(identifier="call_probe", name="look", arguments=frozendict())
    content = (TextualContent(text="The picture:"), ImageContent(data=_red(), mime_type="image/png"))
    look = Definition(name="look", description="Looks at the picture.", schema=Schema.of({"type": "object"}))
    question = (UserCanister.of("Which colour has the picture? One word."), call)
    answer = await prober.ask((*question, ResultCanister(invocation_id="call_probe", content=content)), look)
    text = "".join(one.text for one in answer.events if isinstance(one, TextDelta))
    # Whole words only: "ordered" and "shared" end in "red", too.
    seen = re.search(r"\bred\b", text, re.IGNORECASE) is not None
    return seen, {"images_in_results": seen}, "" if seen else f"it did not name the colour: {text[:60]!r}"


async def _sampling(prober: Prober) -> _Result:
    await prober.ask("Say the word ready.", controls=Controls(stream=False, temperature=0.0))
    return True, {"sampling": True}, ""


def _verdict(capability: str, holds: bool, answer: _Answer) -> _Result:
    if holds:
        return True, {capability: True}, ""
    made = ", ".join(
        f"{call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"
        for call in answer.calls
    )
    return False, {capability: False}, f"it called {made}" if made else "it made no call"


#: The questions, with the capabilities that are false if the endpoint refuses them.
QUESTIONS: tuple[tuple[str, tuple[str, ...], _Question], ...] = (
    ("It answers", (), _answers),
    ("It streams", ("streaming", "stream_usage"), _streams),
    ("It calls a tool", ("function_calling",), _adds("function_calling", stream=False)),
    ("It calls a tool in a stream", ("stream_calls",), _adds("stream_calls")),
    ("It makes two calls at once", ("parallel_calls",), _parallel),
    ("It calls some tool when it must", ("tool_choice",), _required),
    ("It calls the tool that it must", ("tool_choice",), _forced),
    ("It is held to a schema", ("strict",), _adds("strict", stream=False, strict=True)),
    ("It sees images in results", ("images_in_results",), _images),
    ("It takes a temperature", ("sampling",), _sampling),
)


async def probe(model: Model, found: Callable[[Finding], None]) -> dict[str, Any]:
    """Asks the questions in order, and returns the capabilities that they settle.

    ``found`` receives each finding. Errors: ``ProviderFailure`` if no question can be answered: a wrong key, an
    unknown model, a quota that is used up.
    """
    prober = Prober(model)
    settled: dict[str, Any] = {}
    for question, capabilities, run in QUESTIONS:
        try:
            holds, results, note = await run(prober)
        except ProviderRefusal as refusal:
            if not capabilities or refusal.status not in _REFUSING:
                raise
            holds, results, note = False, dict.fromkeys(capabilities, False), refusal.reason
        except (InputError, WireInvalidity) as error:
            holds, results, note = False, dict.fromkeys(capabilities, False), str(error)
        prober.capabilities.update(results)
        settled.update(results)
        found(Finding(question=question, holds=holds, capabilities=frozendict(results), note=note))
    return settled


def _red() -> bytes:
    rows = (b"\0" + b"\xff\x00\x00" * 16) * 16
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    parts = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
