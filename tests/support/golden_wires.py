"""The golden files of ``tests/data/wire``, and the known losses of each wire.

Beside each ``NAME.sse`` (a streamed answer) and ``NAME.json`` (a whole answer, or the messages of a request) is
``NAME.expected.json``. It has a description (``about``), and either the canisters of a ``request`` (with those that a
server reads, ``returned``, if the wire loses something), or the meaning of an answer::

    canisters, finish, reason, usage      as in the events; or
    error                                 class, and a part of the message
    stream, whole                         the differences there, or {"impossible": why}
    served                                the same for the output of our server half; "before" is its output
                                          before it failed

Canisters are written as in ``ripieno.canisters.serialization``, without version and timestamp. The files are written
and checked by hand: nothing regenerates them.
"""

import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.canisters import AssistantCanister, Canister, Content, InvocationCanister, OpaqueContent, TextualContent
from ripieno.canisters.canisters import now
from ripieno.canisters.conversation import Usage
from ripieno.canisters.serialization import VERSION, deserialize_canister
from ripieno.jsonvalues import encode
from ripieno.models import Protocol
from ripieno.models.protocol import Native
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES

FOLDER = pathlib.Path(__file__).parents[1] / "data" / "wire"
PROTOCOLS: Mapping[str, Protocol] = {protocol.name: protocol for protocol in (ANTHROPIC, CHAT, GEMINI, RESPONSES)}
#: Where a request has its conversation, if not under ``messages``.
CONVERSATIONS: Mapping[str, str] = {"gemini": "contents", "openai-responses": "input"}
#: The keys of a request that canisters become.
CANISTER_KEYS = ("system", "messages", "systemInstruction", "contents", "instructions", "input")


def messages_in(protocol: Protocol, native: Native) -> Any:
    """The conversation in a request."""
    return native[CONVERSATIONS.get(protocol.name, "messages")]


def addressed(protocol: Protocol, native: Native, *, stream: bool = False) -> Native:
    """A request as a server reads it: with the values in its path, if the wire has some there."""
    if "{model}" not in protocol.path:
        return native
    return {"model": "m", **native, "method": "streamGenerateContent" if stream else "generateContent"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scenario:
    """One golden scenario of one wire."""

    protocol: Protocol
    name: str
    expected: Mapping[str, Any]

    def data(self, kind: str) -> bytes:
        """The bytes of the ``sse`` or ``json`` file."""
        return (FOLDER / self.protocol.name / f"{self.name}.{kind}").read_bytes()

    def has(self, kind: str) -> bool:
        """Whether there is such a file."""
        return (FOLDER / self.protocol.name / f"{self.name}.{kind}").exists()

    def expectation(self, *modes: str) -> Mapping[str, Any]:
        """The expectation in these modes, each over the general one."""
        expected = dict(self.expected)
        for mode in modes:
            over = self.expected.get(mode, {})
            if "canisters" in over:
                expected.pop("error", None)
            expected.update(over)
        return expected


def load(protocol: str) -> list[Scenario]:
    """All scenarios of a wire."""
    files = sorted((FOLDER / protocol).glob("*.expected.json"))
    return [
        Scenario(
            protocol=PROTOCOLS[protocol],
            name=file.name.removesuffix(".expected.json"),
            expected=json.loads(file.read_text()),
        )
        for file in files
    ]


SCENARIOS = [scenario for name in PROTOCOLS for scenario in load(name)]
ANSWERS = [scenario for scenario in SCENARIOS if "request" not in scenario.expected]
REQUESTS = [scenario for scenario in SCENARIOS if "request" in scenario.expected]


def named(scenario: object) -> str | None:
    """The identifier of a test's parameter."""
    return f"{scenario.protocol.name}-{scenario.name}" if isinstance(scenario, Scenario) else None


def revive(mappings: Iterable[Mapping[str, Any]]) -> tuple[Canister, ...]:
    """The canisters that a golden file writes down."""
    timestamp = now().isoformat()
    return tuple(deserialize_canister({**one, "version": VERSION, "timestamp": timestamp}) for one in mappings)


def usage_in(expected: Mapping[str, Any]) -> Usage:
    """The usage that a golden file writes down."""
    return Usage(**expected["usage"])


# What a wire cannot carry in an answer, and nothing else: the docstring of each protocol has the same list.


def carried(
    protocol: Protocol, canisters: Sequence[Canister], *, whole: bool = False, deltas: bool = False
) -> tuple[Canister, ...]:
    """What is left of an answer that went over this wire: ``whole``, or streamed in ``deltas``."""
    match protocol.name:
        case "anthropic":
            return _with_raw(canisters, lambda call: None if whole or call.fault is None else call.raw)
        case "openai-responses":
            return _with_raw(canisters, _arguments)
        case "openai-chat":
            return _carried_by_chat(canisters, deltas)
        case _:
            return tuple(
                AssistantCanister(content=tuple(_joined(_unsigned(one.content, whole))))
                if isinstance(one, AssistantCanister)
                else one
                for one in _with_raw(canisters, lambda _: None)
            )


def _with_raw(canisters: Sequence[Canister], raw: Callable[[InvocationCanister], str | None]) -> tuple[Canister, ...]:
    return tuple(
        dataclasses.replace(one, raw=raw(one)) if isinstance(one, InvocationCanister) else one for one in canisters
    )


def _arguments(call: InvocationCanister) -> str:
    return call.raw if call.raw and call.raw.strip() else encode(dict(call.arguments)).decode()


def _carried_by_chat(canisters: Sequence[Canister], deltas: bool) -> tuple[Canister, ...]:
    """One text, then the calls. In ``deltas``, reasoning has one name."""
    contents = [content for one in canisters if isinstance(one, AssistantCanister) for content in one.content]
    opaque = [_renamed(one, deltas) for one in contents if isinstance(one, OpaqueContent)]
    text = "".join(one.text for one in contents if isinstance(one, TextualContent))
    calls = _with_raw([one for one in canisters if isinstance(one, InvocationCanister)], _arguments)
    return (AssistantCanister(content=(*opaque, *((TextualContent(text=text),) if text else ()))), *calls)


def _renamed(content: OpaqueContent, deltas: bool) -> OpaqueContent:
    if not deltas or "reasoning" not in content.data:
        return content
    data = dict(content.data)
    data["reasoning_content"] = data.pop("reasoning")
    return dataclasses.replace(content, data=frozendict(data))


def _unsigned(contents: Sequence[Content], whole: bool) -> list[Content]:
    """Signatures of texts in parts of their own, as streams have them, and as they are where they sign nothing."""
    parted: list[Content] = []
    signable = False
    for content in contents:
        if isinstance(content, OpaqueContent) and content.kind == "signature" and not (whole and signable):
            parted.append(dataclasses.replace(content, data=frozendict({"text": "", **content.data})))
        else:
            parted.append(content)
        signable = not isinstance(content, OpaqueContent)
    return parted


def _joined(contents: Sequence[Content]) -> list[Content]:
    """Texts side by side are one, but for one that is signed."""
    joined: list[Content] = []
    for place, content in enumerate(contents):
        last = joined[-1] if joined else None
        following = contents[place + 1] if place + 1 < len(contents) else None
        signed = isinstance(following, OpaqueContent) and following.kind == "signature" and "text" not in following.data
        if isinstance(content, TextualContent) and isinstance(last, TextualContent) and not signed:
            joined[-1] = TextualContent(text=last.text + content.text)
        else:
            joined.append(content)
    return joined
