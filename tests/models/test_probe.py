"""Probes of a real endpoint on loopback: what holds is found to hold, and what does not, not."""

from collections.abc import Mapping
from typing import Any

import pytest

from ripieno.descriptors import ProviderDescriptor
from ripieno.exceptions import ProviderRefusal, ProviderUnreachable
from ripieno.models.probe import QUESTIONS, Finding, probe
from ripieno.models.protocols.openai_chat import PROTOCOL
from ripieno.models.providers import Providers
from tests.support.obedient_server import Obedient, obeying

EVERYTHING = dict.fromkeys(
    (
        *("streaming", "stream_usage", "function_calling", "stream_calls", "parallel_calls", "tool_choice"),
        *("strict", "images_in_results", "sampling"),
    ),
    True,
)


async def found_at(url: str, capabilities: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], list[Finding]]:
    descriptor = ProviderDescriptor(name="house", protocol="openai-chat", base_url=url)
    providers = Providers({"house": descriptor}, protocol=lambda _: PROTOCOL, secrets={})
    findings: list[Finding] = []
    try:
        return await probe(providers.access_model("house/large"), findings.append), findings
    finally:
        await providers.close()


async def test_an_obedient_model_can_do_everything() -> None:
    model = Obedient()
    async with obeying(model) as url:
        settled, findings = await found_at(url)
    assert settled == EVERYTHING
    assert [finding.question for finding in findings] == [question for question, _, _ in QUESTIONS]
    assert all(finding.holds and not finding.note for finding in findings)
    assert len(model.requests) == 10
    assert all(request["max_completion_tokens"] == 300 for request in model.requests)


# Of strict, a model that calls well shows nothing, and of sampling only a refusal does.
@pytest.mark.parametrize("lacking", sorted(EVERYTHING.keys() - {"strict", "images_in_results", "sampling"}))
async def test_what_a_model_lacks_is_found(lacking: str) -> None:
    async with obeying(Obedient(lacking)) as url:
        settled, findings = await found_at(url)
    assert settled[lacking] is False
    others = {name for name, holds in settled.items() if not holds}
    dependent = {"function_calling": {"stream_calls", "parallel_calls", "tool_choice", "strict"}}
    assert others == {lacking} | dependent.get(lacking, set())
    if lacking != "stream_usage":
        assert any(finding.note for finding in findings if lacking in finding.capabilities)


@pytest.mark.parametrize(
    ("said", "seen"), [("Red.", True), ("It is RED", True), ("I am **red**", True), ("The items are ordered.", False)]
)
async def test_a_colour_is_a_word(said: str, seen: bool) -> None:
    async with obeying(Obedient(sees=said)) as url:
        settled, _ = await found_at(url)
    assert settled["images_in_results"] is seen


async def test_what_follows_from_another_answer_is_not_asked() -> None:
    model = Obedient("tool_choice")
    async with obeying(model) as url:
        settled, findings = await found_at(url)
    assert settled["tool_choice"] is False
    (forced,) = [finding for finding in findings if finding.question == "It calls the tool that it must"]
    assert (forced.holds, forced.note) == (False, "skipped: it makes no call when one is required")
    assert len(model.requests) == 9


async def test_what_an_endpoint_refuses_does_not_hold_and_its_words_are_kept() -> None:
    async with obeying(Obedient("images_in_results", refuses=("tool_choice", "temperature"))) as url:
        settled, findings = await found_at(url)
    assert {name for name, holds in settled.items() if not holds} == {"tool_choice", "images_in_results", "sampling"}
    assert any("Unsupported parameter: temperature" in finding.note for finding in findings)


async def test_the_word_for_the_length_of_an_answer_is_found() -> None:
    model = Obedient(refuses=("max_completion_tokens",))
    async with obeying(model) as url:
        settled, _ = await found_at(url)
    assert settled == {**EVERYTHING, "output_tokens_parameter": "max_tokens"}
    assert all("max_tokens" in request for request in model.requests[1:])


@pytest.mark.parametrize("status", [401, 403, 404, 402])
async def test_an_endpoint_that_answers_nobody_is_an_error(status: int) -> None:
    async with obeying(Obedient(status=status)) as url:
        with pytest.raises(ProviderRefusal):
            await found_at(url)


async def test_nobody_there_is_an_error() -> None:
    with pytest.raises(ProviderUnreachable):
        await found_at("http://127.0.0.1:9/v1")
