"""Generated conversations as they really stand: calls with their results, contents that a wire may lack."""

from collections.abc import Mapping, Sequence
from typing import Any

from frozendict import frozendict
from hypothesis import strategies as st

from ripieno.canisters import (
    AssistantCanister,
    AudioContent,
    Canister,
    Content,
    Controls,
    DocumentCanister,
    DocumentContent,
    ImageContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.faults import Fault
from ripieno.jsonvalues import encode, freeze
from tests.support.canister_strategies import objects, texts

textual = st.builds(TextualContent, text=texts, mime_type=st.sampled_from(["text/plain", "text/markdown"]))
images = st.builds(ImageContent, data=st.binary(min_size=1, max_size=9), mime_type=st.just("image/png"))
sounds = st.builds(AudioContent, data=st.binary(max_size=9), mime_type=st.sampled_from(["audio/mpeg", "audio/wav"]))
files = st.builds(DocumentContent, data=st.binary(max_size=9), mime_type=st.just("application/pdf"))
notes = st.builds(DocumentContent, data=texts.map(str.encode), mime_type=st.just("text/plain"))
links = st.builds(
    DocumentContent, url=st.just("https://example.org/a"), mime_type=st.sampled_from(["image/*", "application/pdf"])
)


def opaque(protocol: str, kind: str, **data: Any) -> OpaqueContent:
    return OpaqueContent(protocol=protocol, kind=kind, data=freeze(data))


def signed(text: str) -> OpaqueContent:
    """A detail of reasoning. Unsigned, it may go on, and streamed it would be one with the next."""
    detail = {"type": "reasoning.text", "text": text, "index": 0, "signature": "c2ln"}
    return opaque("openai-chat", "reasoning", reasoning_details=[detail])


def reasoned(text: str) -> OpaqueContent:
    item = {"id": "rs_1", "summary": [{"type": "summary_text", "text": text}], "encrypted_content": "c2ln"}
    return opaque("openai-responses", "reasoning", type="reasoning", **item)


foreign = st.just(opaque("elsewhere", "thinking", secret="no"))
thinking = texts.map(lambda text: opaque("anthropic", "thinking", type="thinking", thinking=text, signature="c2ln"))
details = texts.map(signed)
thoughts = texts.map(lambda text: opaque("gemini", "thought", text=text, thought=True, thoughtSignature="c2ln"))
signatures = st.just(opaque("gemini", "signature", thoughtSignature="c2ln"))
reasons = texts.map(reasoned)
search = {"id": "ws_1", "status": "completed", "action": {"type": "search", "query": "Wien"}}
searches = st.just(opaque("openai-responses", "web_search_call", type="web_search_call", **search))
#: What stands beside the text that follows it, if one does.
phases = st.just(opaque("openai-responses", "message", type="message", phase="commentary"))
#: What each wire keeps as it came, and would return.
OWN: Mapping[str, st.SearchStrategy[OpaqueContent]] = {
    "anthropic": thinking,
    "openai-chat": details,
    "gemini": thoughts | signatures,
    "openai-responses": reasons | searches,
}
said: st.SearchStrategy[Content] = st.one_of(textual, images, sounds, files, notes, links, foreign)
faults = st.builds(
    Fault, category=st.sampled_from(["execution", "denied"]), message=texts, code=texts, suggestion=st.none() | texts
)


def several(one: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(one, max_size=3).map(tuple)


names = st.sampled_from(["read_file", "time__tell_time"])
forms = st.sampled_from(["known", "unknown", "blank", "unreadable", "freeform"])
supervisors = st.builds(SupervisorCanister, content=several(textual))
speakers = st.one_of(
    st.builds(UserCanister, content=several(said)),
    supervisors,
    st.builds(
        DocumentCanister,
        content=several(st.one_of(textual, files, images)),
        identifier=st.just("doc-1"),
        title=st.none() | st.just("A title"),
    ),
)
before = st.lists(speakers, max_size=3)
assistants = st.builds(AssistantCanister, content=several(st.one_of(textual, foreign, phases, *OWN.values())))
outcomes = st.tuples(several(st.one_of(textual, images, sounds, foreign)), st.none() | faults)
few, some = st.lists(supervisors, max_size=2), st.integers(0, 3)


@st.composite
def calls(draw: st.DrawFn, identifier: str) -> InvocationCanister:
    """A call as a model made it: its text known, unknown, blank, or unreadable; or free-form."""
    name, form = draw(names), draw(forms)
    if form == "freeform":
        text = draw(texts)
        return InvocationCanister(
            identifier=identifier, name=name, kind="freeform", arguments=frozendict(input=text), raw=text
        )
    if form == "unreadable":
        return InvocationCanister(identifier=identifier, name=name, raw='{"a', fault=draw(faults))
    if form == "blank":
        return InvocationCanister(identifier=identifier, name=name, raw="")
    arguments = draw(objects)
    raw = encode(arguments).decode() if form == "known" else None
    return InvocationCanister(identifier=identifier, name=name, arguments=arguments, raw=raw)


@st.composite
def turns(draw: st.DrawFn, number: int) -> Sequence[Canister]:
    """What is said before an answer, the answer, and the results of its calls."""
    turn: list[Canister] = [*draw(before), draw(assistants)]
    results: list[Canister] = []
    for place in range(draw(some)):
        identifier = f"call_{number}_{place}"
        turn.append(draw(calls(identifier)))
        if draw(st.booleans()):
            turn.append(draw(assistants))
        content, error = draw(outcomes)
        results.append(ResultCanister(invocation_id=identifier, content=content, error=error))
    return [*turn, *results]


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Canister, ...]:
    return (
        *draw(few),
        UserCanister.of("Begin."),
        *(one for number in range(draw(some)) for one in draw(turns(number))),
    )


controls = st.builds(
    Controls,
    temperature=st.none() | st.floats(0, 2),
    output_tokens=st.none() | st.integers(1, 10**6),
    top_p=st.none() | st.floats(0, 1),
    stop=st.none() | st.lists(texts.filter(bool), min_size=1, max_size=3).map(tuple),
    reasoning=st.none() | st.sampled_from(["none", "low", "medium", "high"]),
    stream=st.booleans(),
    tool_choice=st.none() | st.sampled_from(["auto", "none", "required", "read_file"]),
    parallel=st.none() | st.booleans(),
)
