"""When a call is sealed and an answer ends, and what else servers send."""

from typing import Any

import pytest

from ripieno.canisters import AssistantCanister, InvocationCanister, TextualContent
from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import ArgumentsDelta, InvocationSealed, ReasoningDelta, collect
from ripieno.exceptions import ProviderFailure, ProviderRefusal, WireInvalidity
from ripieno.models import Protocol
from ripieno.models.protocol import Identifiers, Native
from ripieno.models.protocols.anthropic import PROTOCOL as MESSAGES
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.transport.sse import DONE
from tests.models.protocols.listening import Listening
from tests.models.protocols.wire_strategies import opaque
from tests.support.wire_requests import both


def chunk(*fragments: Any, reason: str | None = None, **delta: Any) -> Native:
    if fragments:
        delta["tool_calls"] = list(fragments)
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def part(index: int | None = None, name: str | None = None, arguments: object = None, **more: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"function": function, **({} if index is None else {"index": index}), **more}


def start(index: int | None, block: Any) -> Native:
    return {"type": "content_block_start", "index": index, "content_block": block}


def use(index: int | None, name: str, **block: Any) -> Native:
    return start(index, {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}, **block})


def more(index: int | None, text: str) -> Native:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}}


def stop(index: int | None) -> Native:
    return {"type": "content_block_stop", "index": index}


def reason(word: str) -> Native:
    return {"type": "message_delta", "delta": {"stop_reason": word}, "usage": {"output_tokens": 1}}


def test_a_call_of_messages_is_sealed_where_its_block_stops() -> None:
    heard = Listening(MESSAGES).hear(use(0, "f"), more(0, '{"a":1}'))
    assert heard.sealed == []  # Not when its JSON parses.
    assert heard.hear(stop(0)).sealed == [("f", {"a": 1})]
    with pytest.raises(WireInvalidity, match="no block 0 is open"):
        heard.hear(more(0, "{}"))


def test_a_call_that_may_have_been_cut_waits_for_what_comes_next() -> None:
    for text in ("", "{}", '{"a'):
        heard = Listening(MESSAGES).hear(use(0, "f"), more(0, text), stop(0))
        assert heard.sealed == []
        assert heard.hear(use(1, "g")).sealed == [("f", {})]
        heard = Listening(MESSAGES).hear(use(0, "f"), more(0, text), stop(0), reason("max_tokens"))
        heard.end()
        assert heard.faults == ["cut_off"]
    heard = Listening(MESSAGES).hear(use(0, "f"), stop(0), reason("tool_use"))
    assert heard.end().finish == "invocations"
    assert (heard.sealed, heard.faults) == ([("f", {})], [""])


def test_blocks_of_messages_that_nobody_stops() -> None:
    heard = Listening(MESSAGES).hear(use(0, "f"), more(0, '{"a":1}'), use(1, "g"), more(1, '{"b'), reason("tool_use"))
    assert heard.end().finish == "invocations"
    assert heard.sealed == [("f", {"a": 1}), ("g", {})]
    assert heard.faults == ["", "arguments_unreadable"]
    heard = Listening(MESSAGES).hear(
        start(0, {"type": "thinking", "thinking": "Hm", "signature": ""}), reason("max_tokens")
    )
    heard.end()
    assert collect(heard.events) == (AssistantCanister(),)  # Without its signature it would be refused.


def test_a_call_of_chat_is_sealed_where_the_next_block_begins() -> None:
    heard = Listening(CHAT).hear(chunk(part(0, "f", '{"a":1}')))
    assert heard.sealed == []  # Not when its JSON parses.
    assert heard.hear(chunk(part(1, "g"))).sealed == [("f", {"a": 1})]
    assert Listening(CHAT).hear(chunk(part(0, "f", '{"a":1}')), chunk(content="And")).sealed == [("f", {"a": 1})]


def test_what_goes_on_after_a_call_was_sealed() -> None:
    def heard() -> Listening:
        return Listening(CHAT).hear(chunk(part(0, "f", '{"a":1}', id="c")), chunk(part(1, "g", "{")))

    # Nothing more is said of it: its names again, nothing, and blanks.
    quiet = [part(0), part(0, "f", ""), part(0, None, " \n"), part(0, "f", None, id="c"), part(0, None, {})]
    assert heard().hear(*map(chunk, quiet)).sealed == [("f", {"a": 1})]
    # It may run already: what it is cannot change.
    for fragment in (part(0, None, ',"b":2}'), part(0, None, {"b": 2})):
        with pytest.raises(WireInvalidity, match=r"continued a call \('f'\) that was complete"):
            heard().hear(chunk(fragment))


def test_an_empty_object_that_comes_first_is_not_the_whole() -> None:
    heard = Listening(CHAT).hear(chunk(part(0, "f", "{}", id="a")), chunk(part(1, "g", "{}", id="b")))
    assert heard.sealed == []
    heard.hear(chunk(part(0, None, '{"a"')), chunk(part(1, "g", '{"b":2}', id="b")), chunk(part(0, None, ":1}")))
    heard.hear(chunk(reason="tool_calls")).end()
    assert heard.sealed == [("f", {"a": 1}), ("g", {"b": 2})]
    shown = [(event.index, event.text) for event in heard.events if isinstance(event, ArgumentsDelta)]
    assert shown == [(0, '{"a"'), (1, '{"b":2}'), (0, ":1}")]


def test_calls_of_chat_that_no_number_tells_apart() -> None:
    heard = Listening(CHAT).hear(
        chunk(part(None, "f", '{"a":1}')),
        chunk(part(None, "f", '{"a":2}')),  # the name again, after whole arguments
        chunk(part(None, "g")),
        chunk(part(None, None, '{"b":')),
        chunk(part(None, "g", "3}")),  # the name again, in the middle
        chunk(part(None, "h")),
        chunk(part(None, "i", id="x")),
        chunk(part(None, "j", id="x")),  # the identifier again, and another name
        chunk(part(None, None, '{"c":4}', id="x")),
        chunk(reason="stop"),
    )
    assert heard.end().finish == "invocations"
    assert heard.sealed == [("f", {"a": 1}), ("f", {"a": 2}), ("g", {"b": 3}), ("h", {}), ("i", {}), ("j", {"c": 4})]
    identifiers = [event.invocation.identifier for event in heard.events if isinstance(event, InvocationSealed)]
    assert identifiers == ["call_0_0", "call_0_1", "call_0_2", "call_0_3", "x", "call_0_5"]


def test_free_form_calls() -> None:
    heard = Listening(CHAT).hear(
        chunk({"index": 0, "id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** "}}),
        chunk({"index": 0, "custom": {"input": "Begin {"}}),
        chunk(reason="tool_calls"),
    )
    heard.end()
    (canister,) = [one for one in collect(heard.events) if isinstance(one, InvocationCanister)]
    assert (canister.kind, canister.raw, canister.fault) == ("freeform", "*** Begin {", None)
    assert canister.arguments == {"input": "*** Begin {"}


# Ends.


@pytest.mark.parametrize(
    ("protocol", "word", "finish"),
    [
        (CHAT, "tool_calls", "invocations"),
        (CHAT, "stop", "invocations"),
        (CHAT, "length", "length"),
        (CHAT, "content_filter", "filter"),
        (CHAT, "eos", "invocations"),
        (MESSAGES, "tool_use", "invocations"),
        (MESSAGES, "end_turn", "stop"),
        (MESSAGES, "stop_sequence", "stop"),
        (MESSAGES, "max_tokens", "length"),
        (MESSAGES, "model_context_window_exceeded", "length"),
        (MESSAGES, "refusal", "filter"),
        (MESSAGES, "something_new", "invocations"),
    ],
)
def test_only_some_ends_allow_calls(protocol: Protocol, word: str, finish: Finish) -> None:
    chats = [chunk(part(0, "f", '{"a":1}')), chunk(reason=word)]
    blocks = [use(0, "f"), more(0, '{"a":1}'), stop(0), reason(word)]
    heard = Listening(protocol).hear(*(chats if protocol is CHAT else blocks))
    ended = heard.end()
    assert (ended.finish, ended.reason) == (finish, word)
    assert heard.faults == [""]  # It was whole, whatever the end allows.


def test_an_end_for_calls_without_any() -> None:
    with pytest.raises(WireInvalidity, match=r"'tool_calls' but sent no call.*stream_calls = false"):
        Listening(CHAT).hear(chunk(content="Hm."), chunk(reason="tool_calls")).end()
    with pytest.raises(WireInvalidity, match=r"'tool_use' but sent no call"):
        Listening(MESSAGES).hear(reason("tool_use")).end()
    # The provider's own tools take a break: it wants to be asked again.
    assert Listening(MESSAGES).hear(reason("pause_turn")).end().finish == "invocations"


def test_an_end_without_its_word() -> None:
    assert Listening(CHAT).hear(chunk(content="Hi."), DONE).end().finish == "stop"
    assert Listening(CHAT).hear(chunk(part(0, "f", "{}")), DONE).end().finish == "invocations"
    with pytest.raises(WireInvalidity, match="without its terminal event"):
        Listening(CHAT).hear(chunk(content="Hi.")).end()
    with pytest.raises(WireInvalidity, match="without a stop reason"):
        Listening(MESSAGES).hear({"type": "message_stop"}).end()
    with pytest.raises(WireInvalidity, match="without its terminal event"):
        Listening(MESSAGES).hear(start(0, {"type": "text", "text": "Hi."}), stop(0)).end()
    with pytest.raises(ProviderRefusal, match="broke off its answer"):
        Listening(CHAT).hear(chunk(content="Hi."), chunk(reason="error")).end()


def test_usage_is_what_was_said_last() -> None:
    first, last = {"input_tokens": 5, "cache_read_input_tokens": 3}, {"input_tokens": None, "output_tokens": 9}
    heard = Listening(MESSAGES).hear(
        {"type": "message_start", "message": {"usage": {**first, "output_tokens": 1}}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 7}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last},
    )
    assert heard.end().usage == Usage(input_tokens=8, output_tokens=9, cache_read_tokens=3)
    counted = [{"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": n}} for n in (1, 9)]
    ended = Listening(CHAT).hear(chunk(content="Hi."), *counted, DONE).end()
    assert ended.usage == Usage(input_tokens=5, output_tokens=9)


# What else servers send.


def test_what_chat_servers_send_beside() -> None:
    heard = Listening(CHAT).hear(
        {"choices": [], "prompt_filter_results": []},
        {"choices": [{"index": 1, "delta": {"content": "another choice"}}, {"delta": {"content": "No index. "}}]},
        {"choices": [{"index": 0, "delta": None, "finish_reason": None}], "error": None},
        chunk(content=[{"type": "thinking", "thinking": []}, {"type": "text", "text": "In parts."}]),
        chunk(reasoning="Hm.", reasoning_content="Hm.", audio={"id": "a"}),
        chunk(role="assistant", reason="stop"),
    )
    heard.end()
    thought = opaque("openai-chat", "reasoning", reasoning_content="Hm.", reasoning="Hm.")
    contents = (thought, TextualContent(text="No index. In parts."))
    assert collect(heard.events) == (AssistantCanister(content=contents),)
    assert [event.text for event in heard.events if isinstance(event, ReasoningDelta)] == ["Hm."]


def test_what_messages_servers_send_beside() -> None:
    heard = Listening(MESSAGES).hear(
        {"type": "ping"},
        {"type": "something_new", "index": 9},
        start(0, {"type": "text", "text": "Begun. "}),
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {"url": "x"}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Done."}},
        stop(0),
        start(1, {"type": "compaction", "content": None}),
        {"type": "content_block_delta", "index": 1, "delta": {"type": "compaction_delta", "content": "Short"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "compaction_delta", "content": "er."}},
        stop(1),
        start(2, {"type": "text", "text": ""}),
        stop(2),
        reason("end_turn"),
    )
    heard.end()
    compaction = opaque("anthropic", "compaction", type="compaction", content="Shorter.")
    contents = (TextualContent(text="Begun. Done."), compaction)
    assert collect(heard.events) == (AssistantCanister(content=contents),)


def test_whole_answers_with_nothing_in_them() -> None:
    empty = {"type": "message", "role": "assistant", "content": None, "stop_reason": "end_turn"}
    events = list(MESSAGES.decoder("house", Identifiers()).play(empty))
    assert collect(events) == (AssistantCanister(),)
    silent = {"choices": [{"message": {"role": "assistant", "content": None}, "finish_reason": "stop"}]}
    assert collect(CHAT.decoder("house", Identifiers()).play(silent)) == (AssistantCanister(),)


@both
@pytest.mark.parametrize("native", [{}, {"message": "We moved."}, {"choices": []}, {"type": "error"}, {"content": 7}])
def test_what_is_no_answer(protocol: Protocol, native: Native) -> None:
    with pytest.raises(ProviderFailure, match="'house'"):
        list(protocol.decoder("house", Identifiers()).play(native))
