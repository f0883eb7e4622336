"""Conversations: what may be said when, what they say, and where the namespaces of their tools live."""

import pickle

import pytest
from frozendict import frozendict
from hypothesis import given

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Conversation,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.conversation import NO_USAGE, Usage, assistant_messages
from ripieno.exceptions import InputError
from tests.canisters.test_canisters import copies
from tests.support.canister_strategies import usages


def invoke(identifier: str) -> InvocationCanister:
    return InvocationCanister(identifier=identifier, name="look")


def result(identifier: str) -> ResultCanister:
    return ResultCanister(invocation_id=identifier, content=(TextualContent(text="seen"),))


WAITING = Conversation(
    canisters=(UserCanister.of("Go."), AssistantCanister(), invoke("a"), invoke("b")),
    open=(invoke("a"), invoke("b")),
    finish="open",
)
THOUGHT = OpaqueContent(protocol="x", kind="thinking", data=frozendict())


def test_a_conversation_begins_with_anything() -> None:
    said = UserCanister.of("Hi.")
    assert Conversation.of("Hi.").canisters == (said,)
    assert Conversation.of(said).canisters == (said,)
    assert Conversation.of([said, AssistantCanister.of("Yes?")]).canisters == (said, AssistantCanister.of("Yes?"))
    whole = Conversation.of("Hi.")
    assert Conversation.of(whole) is whole
    assert whole.identifier != Conversation.of("Hi.").identifier


def test_saying_goes_on_and_leaves_the_former_alone() -> None:
    first = Conversation(
        canisters=(UserCanister.of("Hi."),), finish="terminal", submission=invoke("a"), usage=Usage(input_tokens=3)
    )
    second = first.say("And?")
    assert first.canisters == (UserCanister.of("Hi."),)
    assert second.canisters == (UserCanister.of("Hi."), UserCanister.of("And?"))
    assert second.identifier == first.identifier
    assert second.usage == first.usage
    assert second.finish is None
    assert second.submission is None
    assert second.say([SupervisorCanister.of("x"), UserCanister.of("y")]).canisters[-1] == UserCanister.of("y")


def test_open_invocations_wait_for_their_results() -> None:
    with pytest.raises(InputError, match=r"wait for their results: look \(a\), look \(b\)"):
        WAITING.say("Never mind.")
    half = WAITING.say(result("b"))
    assert [one.identifier for one in half.open] == ["a"]
    assert half.canisters[-1] == result("b")
    with pytest.raises(InputError, match=r"wait for their results: look \(a\)\. "):
        half.say([UserCanister.of("Well?"), result("a")])
    whole = half.say([result("a"), UserCanister.of("Well?")])
    assert whole.open == ()
    assert WAITING.open == (invoke("a"), invoke("b"))


def test_open_invocations_can_be_declined() -> None:
    with pytest.raises(InputError, match=r"decline_open\(\"reason\"\), or say\(…, declining=True\)"):
        WAITING.say("Never mind.")
    declined = WAITING.decline_open("Not today.")
    assert (declined.open, declined.waiting, declined.finish) == ((), (), None)
    assert [one.text for one in declined.canisters[-2:] if isinstance(one, ResultCanister)] == [
        "Error: The call of 'look' was declined.\nNot today."
    ] * 2
    assert declined.say("Well?").canisters[-1] == UserCanister.of("Well?")
    assert declined.decline_open().canisters == declined.canisters


def test_saying_may_decline_what_stays_open() -> None:
    said = WAITING.say([result("b"), UserCanister.of("Never mind.")], declining=True)
    assert said.open == ()
    kinds = [(type(one), getattr(one, "invocation_id", "")) for one in said.canisters[4:]]
    assert kinds == [(ResultCanister, "b"), (ResultCanister, "a"), (UserCanister, "")]
    assert "something else" in said.canisters[5].text
    assert Conversation.of("Hi.").say("And?", declining=True).canisters[-1] == UserCanister.of("And?")


def test_a_result_belongs_to_an_open_invocation() -> None:
    for talk, said in ((WAITING, ["c"]), (WAITING, ["a", "a"]), (Conversation.of("Hi."), ["a"])):
        with pytest.raises(InputError, match="No open invocation has the identifier"):
            talk.say([result(identifier) for identifier in said])


@pytest.mark.parametrize(
    ("canisters", "text"),
    [
        ((), ""),
        ((UserCanister.of("Hi."),), ""),
        ((UserCanister.of("Hi."), AssistantCanister.of("Hello.")), "Hello."),
        ((AssistantCanister.of("Hello."), UserCanister.of("And?")), ""),
        ((AssistantCanister.of("I look."), invoke("a")), "I look."),
        ((AssistantCanister.of("I look."), invoke("a"), result("a")), "I look."),
        ((AssistantCanister.of("One "), invoke("a"), AssistantCanister.of("two")), "One two"),
        ((AssistantCanister.of("Old."), invoke("a"), result("a"), AssistantCanister(), invoke("b"), result("b")), ""),
        ((AssistantCanister.of("Old."), invoke("a"), result("a"), invoke("b"), result("b")), ""),
        ((AssistantCanister.of("Old."), UserCanister.of("?"), AssistantCanister.of("New.")), "New."),
        ((AssistantCanister(content=(THOUGHT, TextualContent(text="Yes."))),), "Yes."),
    ],
)
def test_the_text_is_what_the_assistant_said_last(canisters: tuple[Canister, ...], text: str) -> None:
    assert Conversation(canisters=canisters).text == text


def test_messages_are_runs_of_what_the_assistant_made() -> None:
    talk = (UserCanister.of("?"), AssistantCanister(), invoke("a"), invoke("b"), result("a"), AssistantCanister.of("."))
    assert [len(message) for message in assistant_messages(talk)] == [3, 1]


# Namespaces.


def test_namespaces_go_on_with_the_conversation() -> None:
    first = Conversation.of("Hi.")
    first.namespaces["mine"] = {"seen": 1}
    second = first.say("And?")
    assert second.namespaces is first.namespaces
    assert second.replace(finish="stop").namespaces["mine"] == {"seen": 1}
    assert WAITING.say(result("a")).namespaces is WAITING.namespaces


def test_whoever_copies_or_loads_starts_with_empty_namespaces() -> None:
    conversation = Conversation.of("Hi.")
    conversation.namespaces["mine"] = {"secret": "xyzzy"}
    for other in copies(conversation):
        assert (other, hash(other)) == (conversation, hash(conversation))
        assert other.namespaces == {}
        assert other.namespaces is not conversation.namespaces
    assert b"xyzzy" not in pickle.dumps(conversation)
    assert "xyzzy" not in repr(conversation)


# Usage.


@given(usages, usages)
def test_usages_add_up(one: Usage, other: Usage) -> None:
    both = one + other
    assert both.total_tokens == one.total_tokens + other.total_tokens
    assert both.cache_read_tokens == one.cache_read_tokens + other.cache_read_tokens
    assert one + NO_USAGE == one
