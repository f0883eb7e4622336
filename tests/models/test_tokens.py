"""Tokens: what was counted is exact, what was not is an estimate and says so."""

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    ImageContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    UserCanister,
)
from ripieno.canisters.controls import Limits
from ripieno.canisters.conversation import Usage
from ripieno.canisters.faults import Fault
from ripieno.conducting import conduct
from ripieno.ensembles import Definition, Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.jsonvalues import freeze
from ripieno.models.tokens import EstimatingTokenizer, ReportedTokenizer, TokenCount
from ripieno.schemas import Schema
from tests.support.scripted_models import Scripted, ensemble, invoke, invokes, says, scripted, tool

ESTIMATE = EstimatingTokenizer()


def tokens(text: str) -> int:
    return ESTIMATE.count([UserCanister.of(text)]).tokens


@pytest.mark.parametrize(
    ("text", "counted"),
    [  # As o200k_base counts them.
        ("今天天气很好,我们一起去公园散步吧。机器学习是人工智能的一个重要分支。" * 20, 500),
        ("Съешь же ещё этих мягких французских булок, да выпей чаю. " * 20, 381),
        ("Die Straßenbahn fährt über die Brücke, während größere Schiffe darunter vorüberziehen. " * 20, 361),
        ("The quick brown fox jumps over the lazy dog. " * 20, 201),
    ],
)
def test_an_estimate_is_near_what_a_tokenizer_counts(text: str, counted: int) -> None:
    assert 0.7 * counted < tokens(text) < 1.35 * counted


@given(st.text(), st.text())
def test_more_text_is_never_fewer_tokens(one: str, other: str) -> None:
    assert tokens(one + other) >= max(tokens(one), tokens(other)) - 1
    assert ESTIMATE.count([UserCanister.of(one)]).estimated


def test_everything_counts() -> None:
    call = InvocationCanister(identifier="a", name="read", arguments=freeze({"path": "x" * 350}))
    assert ESTIMATE.count([call]).tokens > 100
    failed = ResultCanister(invocation_id="a", error=Fault(category="network", message="y" * 400))
    assert ESTIMATE.count([failed]).tokens > 100
    picture = UserCanister(content=(ImageContent(data=b"", mime_type="image/png"),))
    assert ESTIMATE.count([picture]).tokens > 1000
    tool = Definition(name="add", description="z" * 400, schema=Schema.of({"type": "object"}))
    offer = Offer.of([Ensemble.of_request([tool])])
    assert ESTIMATE.count([], offer).tokens > 100


def opaque(protocol: str = "anthropic", /, **data: str) -> OpaqueContent:
    return OpaqueContent(protocol=protocol, kind="thinking", data=freeze({"type": "thinking", **data}))


def estimated(content: OpaqueContent) -> int:
    return ESTIMATE.count([AssistantCanister(content=(content,))]).tokens


def test_what_is_opaque_counts_by_its_text() -> None:
    assert estimated(opaque(thinking="Let me look.")) < 15
    words = "The quick brown fox jumps over the lazy dog. " * 20
    assert 200 < estimated(opaque(thinking=words)) < 270
    assert estimated(opaque(thinking=words, signature="c2ln" * 250)) - estimated(
        opaque(thinking=words)
    ) == pytest.approx(1000 / 5.5, abs=2)
    # A picture in base64 is no novel.
    assert estimated(opaque(data="A" * 10**7)) < 2000
    nested = OpaqueContent(protocol="p", kind="k", data=freeze({"summary": [{"text": "x" * 100}, 7, None]}))
    assert 25 <= estimated(nested) <= 30


def test_what_is_not_sent_takes_no_tokens() -> None:
    contents = (opaque("anthropic", thinking="x y " * 100), opaque("openai-chat", thinking="x y " * 100))
    said = [AssistantCanister(content=contents)]
    both = ESTIMATE.count(said).tokens
    one = EstimatingTokenizer(lambda content: not isinstance(content, OpaqueContent) or content.protocol == "anthropic")
    assert both == pytest.approx(2 * one.count(said).tokens, abs=5)
    assert EstimatingTokenizer(lambda _: False).count(said).tokens == ESTIMATE.count([AssistantCanister()]).tokens


async def test_a_run_counts_what_its_model_is_sent() -> None:
    class Deaf(Scripted):
        def left_out(self, canisters: Iterable[Canister]) -> Mapping[str, int]:
            return {"foreign": 1} if any(getattr(one, "content", ()) for one in canisters) else {}

    thought = AssistantCanister(content=(opaque(thinking="x y " * 1000),))
    said = [UserCanister.of("Hi."), thought]
    hears = conduct(scripted(says()), said)
    model = Deaf(provider=scripted(says()).provider, name="deaf", turns=(tuple(says()),))
    assert hears.context.tokens > 1000
    assert conduct(model, said).context.tokens < 20


def test_what_the_provider_counted_is_exact_until_something_is_said() -> None:
    tokenizer = ReportedTokenizer()
    said = [UserCanister.of("Hello"), AssistantCanister.of("Good morning")]
    assert tokenizer.count(said).estimated
    tokenizer.learn(said, Usage())
    assert tokenizer.count(said).estimated
    tokenizer.learn(said, Usage(input_tokens=1000, output_tokens=50))
    assert tokenizer.count(said) == TokenCount(tokens=1050, estimated=False)
    more = [*said, UserCanister.of("w" * 400)]
    count = tokenizer.count(more)
    assert count.estimated
    assert 1150 <= count.tokens <= 1160
    # Another conversation is not the one that was counted.
    assert tokenizer.count(more[1:]).tokens < 200


async def test_a_run_knows_how_full_its_context_is() -> None:
    run = conduct(scripted(says("Hello.", usage=Usage(input_tokens=900, output_tokens=9))), "Hi.")
    assert run.context.estimated
    await run
    assert run.context == TokenCount(tokens=909, estimated=False)


async def test_a_limit_of_tokens_holds_where_nobody_counts() -> None:
    turns = [invokes(invoke("look", path="x" * 400 + str(number))) for number in range(9)]
    conversation = await conduct(
        scripted(*turns), "Look.", ensembles=[ensemble(tool("look"))], limits=Limits(tokens=1000)
    )
    assert conversation.finish == "limit"
    # Each turn reads all that was said before it.
    assert 2 <= len([one for one in conversation.canisters if isinstance(one, InvocationCanister)]) <= 4
    unlimited = await conduct(scripted(says("Done.")), "Look.")
    assert unlimited.usage == Usage()
