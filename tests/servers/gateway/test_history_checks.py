"""Calls and results of a request belong together, however clients order them; what does not is refused by name."""

import dataclasses
import json
import random
from typing import Any

import pytest
from frozendict import frozendict
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import (
    AssistantCanister,
    AudioContent,
    Canister,
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
from ripieno.exceptions import InputError
from ripieno.jsonvalues import encode
from ripieno.models.protocols.openai_responses import PROTOCOL
from ripieno.servers.gateway.history_checks import check
from ripieno.servers.gateway.one_answer import carried
from ripieno.servers.gateway.signatures import Signer, signatures_in
from tests.support.hosted_runs import CALLER, PIXEL, SECRET, sends


def call(identifier: str, name: str = "look", **arguments: Any) -> InvocationCanister:
    return InvocationCanister(identifier=identifier, name=name, arguments=frozendict(arguments))


def result(identifier: str, text: str = "seen") -> ResultCanister:
    return ResultCanister(invocation_id=identifier, content=(TextualContent(text=text),))


ASKED, SAID = UserCanister.of("Go."), AssistantCanister.of("I look.")

FITTING: dict[str, list[Canister]] = {
    "with a text between": [ASKED, call("a"), SAID, call("b"), result("a"), result("b"), SAID],
    "with an instruction between": [ASKED, call("a"), SupervisorCanister.of("Mind."), result("a")],
    "the same identifier turn after turn": [ASKED, call("a"), result("a"), SAID, call("a"), result("a")],
}


@pytest.mark.parametrize("canisters", FITTING.values(), ids=FITTING)
def test_what_clients_send_passes(canisters: list[Canister]) -> None:
    check(canisters)


REFUSED: dict[str, tuple[list[Canister], list[str]]] = {
    "unknown": ([ASKED, result("x")], ["'x'", "no earlier call", "Send the call"]),
    "before its call": ([ASKED, result("a"), call("a")], ["'a'", "no earlier call"]),
    "second": ([ASKED, call("a"), result("a"), result("a")], ["'look' ('a')", "second result"]),
    "missing at the end": ([ASKED, call("a")], ["no result for 'look' ('a')", "Send one for each call"]),
    "missing before a word": ([ASKED, call("a", "find"), UserCanister.of("Well?")], ["no result for 'find' ('a')"]),
    "some missing": ([call("a"), call("b"), call("c", "f"), result("b")], ["'look' ('a') and 'f' ('c')."]),
    "many missing": ([call(str(one)) for one in range(9)], ["'look' ('4') and 4 more"]),
    "one identifier for two": ([call("a"), call("a", "find"), result("a")], ["'a'", "'look' and 'find'", "its own"]),
    "long names": ([call("i" * 5000, "n" * 5000)], ["…"]),
}


@pytest.mark.parametrize(("canisters", "words"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_by_name(canisters: list[Canister], words: list[str]) -> None:
    with pytest.raises(InputError) as raised:
        check(canisters)
    message = str(raised.value)
    assert [word for word in words if word not in message] == []
    assert len(message) < 1000


@given(st.integers(1, 8), st.randoms(use_true_random=False), st.sampled_from(("fits", "drop", "double", "stray")))
def test_any_order_behind_the_calls_fits_and_one_change_does_not(count: int, dice: random.Random, change: str) -> None:
    canisters: list[Canister] = [ASKED]
    waiting: list[str] = []
    unnamed = iter(range(count))
    left = count
    while left or waiting:
        if left and (not waiting or dice.random() < 0.5):
            waiting.append(f"c{next(unnamed)}")
            canisters.append(call(waiting[-1]))
            left -= 1
        else:
            canisters.append(result(waiting.pop(dice.randrange(len(waiting)))))
    places = [place for place, one in enumerate(canisters) if isinstance(one, ResultCanister)]
    place = dice.choice(places)
    chosen = canisters[place]
    assert isinstance(chosen, ResultCanister)
    if change == "fits":
        check(canisters)
        return
    if change == "drop":
        del canisters[place]
    elif change == "double":
        canisters.append(chosen)
    else:
        canisters[place] = dataclasses.replace(chosen, invocation_id="other")
    with pytest.raises(InputError, match="'other'" if change == "stray" else chosen.invocation_id):
        check(canisters)


# Signatures.

IMAGE = ImageContent(data=PIXEL, mime_type="image/png")
FAULT = Fault(category="execution", message="It broke.", suggestion="Mend it.")
RESULTS: dict[str, ResultCanister] = {
    "text": result("a"),
    "nothing": ResultCanister(invocation_id="a"),
    "several texts": ResultCanister(
        invocation_id="a", content=(TextualContent(text="one\n"), TextualContent(text=""), TextualContent(text="two"))
    ),
    "failed": ResultCanister(invocation_id="a", error=FAULT),
    "failed with words": ResultCanister(invocation_id="a", error=FAULT, content=(TextualContent(text="half"),)),
    "failed with an image": ResultCanister(invocation_id="a", error=FAULT, content=(IMAGE,)),
    "image": ResultCanister(invocation_id="a", content=(TextualContent(text="See:"), IMAGE, TextualContent(text="."))),
    "document": ResultCanister(
        invocation_id="a", content=(DocumentContent(mime_type="application/pdf", data=b"%PDF-1.7 x"),)
    ),
    "address": ResultCanister(
        invocation_id="a", content=(DocumentContent(mime_type="text/html", url="https://example.org/a"),)
    ),
    "sound": ResultCanister(invocation_id="a", content=(AudioContent(data=b"x", mime_type="audio/wav"),)),
    "opaque": ResultCanister(
        invocation_id="a",
        content=(OpaqueContent(protocol="other", kind="x", data=frozendict()), TextualContent(text="t")),
    ),
    "every character": result("a", '\u2028\u0000é𝄞\\"\r\n\t'),
}


def returned(call_item: InvocationCanister, given: ResultCanister, identifier: str) -> tuple[Any, Any]:
    """Call and result as they come back over the wire: the canisters, and the signatures."""
    items = [
        {
            "type": "function_call",
            "call_id": call_item.identifier,
            "name": call_item.name,
            "arguments": encode(call_item.arguments).decode(),
        },
        *PROTOCOL.invocations.nativize_results([given]),
    ]
    items[1] = {**items[1], "id": identifier}
    asked = sends(items)
    return asked.canisters, signatures_in(asked.native)


@pytest.mark.parametrize("given_result", RESULTS.values(), ids=RESULTS)
def test_a_result_is_known_again_when_it_comes_back(given_result: ResultCanister) -> None:
    signer, asked = Signer(SECRET), call("a", path="x", depth=1.5)
    told = carried(given_result)
    signature = signer.sign(asked, told, CALLER)
    assert (len(signature), signature[:4]) == (47, "fco_")
    canisters, signatures = returned(asked, told, signature)
    signer.check(canisters, {"look"}, signatures, CALLER)


OPAQUE = OpaqueContent(
    protocol=PROTOCOL.name, kind="input_file", data=frozendict({"type": "input_file", "file_id": "f"})
)
ARGUED = call("a", path="x")
CHANGES: dict[str, tuple[InvocationCanister, ResultCanister]] = {
    "another text": (ARGUED, result("a", "something else")),
    "more text": (ARGUED, result("a", "seen!")),
    "less text": (ARGUED, result("a", "see")),
    "an image": (ARGUED, ResultCanister(invocation_id="a", content=(TextualContent(text="seen"), IMAGE))),
    "an opaque part": (ARGUED, ResultCanister(invocation_id="a", content=(TextualContent(text="seen"), OPAQUE))),
    "other arguments": (call("a", path="y"), result("a")),
    "another tool": (call("a", "find", path="x"), result("a")),
    "another call": (call("b", path="x"), result("b")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_was_changed_on_the_way_is_refused_by_name(change: tuple[InvocationCanister, ResultCanister]) -> None:
    signer = Signer(SECRET)
    signature = signer.sign(ARGUED, result("a"), CALLER)
    asked, told = change
    canisters, signatures = returned(asked, told, signature)
    with pytest.raises(InputError, match=f"{asked.name!r} runs here.*{asked.identifier}.*neither"):
        signer.check(canisters, {"look", "find"}, signatures, CALLER)


def test_no_signature_one_of_another_caller_and_one_of_another_secret_are_refused() -> None:
    signer, asked, told = Signer(SECRET), call("a"), result("a")
    good = signer.sign(asked, told, CALLER)
    canisters: tuple[Canister, ...] = (asked, told)
    for signatures, caller in (
        ({}, CALLER),
        ({"a": [""]}, CALLER),
        ({"a": ["fco_\ud800é"]}, CALLER),
        ({"b": [good]}, CALLER),
        ({"a": [good]}, "eve"),
        ({"a": [Signer(b"another secret of the tests").sign(asked, told, CALLER)]}, CALLER),
    ):
        with pytest.raises(InputError, match="'look' runs here"):
            signer.check(canisters, {"look"}, signatures, caller)
    signer.check(canisters, {"look"}, {"a": ["no", good]}, CALLER)
    # A client's own tool needs none.
    signer.check(canisters, {"find"}, {}, CALLER)


def test_requests_of_any_shape_have_signatures_or_none() -> None:
    natives: list[dict[str, Any]] = [{}, {"input": "Hi."}, {"input": [1, "x", None, {"output": 1}]}, {"messages": []}]
    for native in natives:
        assert signatures_in(native) == {}
    item = {"call_id": "a", "id": "x", "output": json.dumps({})}
    assert signatures_in({"input": [item, {**item, "id": "y"}, {**item, "id": 3}]}) == {"a": ["x", "y"]}


def test_a_secret_that_could_be_guessed_is_refused() -> None:
    for secret in (b"", b"fifteen bytes .."[:15]):
        with pytest.raises(InputError, match=f"has {len(secret)} bytes. Use 16"):
            Signer(secret)
