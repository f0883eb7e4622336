"""Which of several variables a provider takes, and what it says where none is set."""

from collections.abc import Mapping
from typing import Any

import pytest

from ripieno.assembly.configuration import load_configuration
from ripieno.descriptors import ProviderDescriptor
from ripieno.exceptions import ConfigurationInvalidity
from ripieno.models.protocols.openai_chat import PROTOCOL
from ripieno.models.providers import Providers
from tests.models.transport.test_clouds import HI, answer_chat
from tests.support.command_line import User
from tests.support.loopback_servers import serving

CHOICE = ("{env:FIRST}", "{env:SECOND_NAME}:{env:SECOND_WORD}", "{env:THIRD}")


def providers_of(secrets: Mapping[str, str], **fields: Any) -> Providers:
    fields = {"base_url": "http://127.0.0.1:9/v1", "api_key": CHOICE, **fields}
    house = ProviderDescriptor(name="house", protocol="openai-chat", **fields)
    return Providers({"house": house}, protocol=lambda _: PROTOCOL, secrets=secrets)


@pytest.mark.parametrize(
    ("secrets", "key"),
    [
        ({"FIRST": "a", "THIRD": "d"}, "a"),
        ({"SECOND_NAME": "b", "SECOND_WORD": "c", "THIRD": "d"}, "b:c"),
        ({"SECOND_NAME": "b", "THIRD": "d"}, "d"),
        ({"FIRST": "", "THIRD": "d"}, "d"),
    ],
    ids=["first", "second", "half", "empty"],
)
async def test_the_first_that_is_set_is_sent(secrets: dict[str, str], key: str) -> None:
    async with serving(answer_chat) as (url, asked):
        providers = providers_of(secrets, base_url=f"{url}/v1")
        await providers.access_model("house/m").converse(HI)
        await providers.close()
    assert asked[0].headers["authorization"] == f"Bearer {key}"


async def test_a_header_whose_variables_are_not_set_is_left_out() -> None:
    async with serving(answer_chat) as (url, asked):
        for secrets in ({"FIRST": "k"}, {"FIRST": "k", "TEAM": "cellar"}):
            headers = {"X-Team": ("{env:TEAM}", ""), "X-Plain": "yes"}
            providers = providers_of(secrets, base_url=f"{url}/v1", headers=headers)
            await providers.access_model("house/m").converse(HI)
            await providers.close()
    assert [one.headers.get("x-team") for one in asked] == [None, "cellar"]
    assert [one.headers["x-plain"] for one in asked] == ["yes", "yes"]


def test_where_none_is_set_all_are_named() -> None:
    with pytest.raises(ConfigurationInvalidity) as caught:
        providers_of({"SECOND_NAME": "b"}).access_provider("house")
    (problem,) = caught.value.problems
    assert problem.message == (
        "provider 'house': api_key needs the variable FIRST or SECOND_WORD or THIRD, none of which is set"
    )
    assert "export FIRST=" in (problem.hint or "")
    with pytest.raises(ConfigurationInvalidity, match="needs the variable HERE, which is not set"):
        providers_of({"FIRST": "a"}, region="{env:HERE}").access_provider("house")


def test_the_last_one_may_need_nothing() -> None:
    assert providers_of({}, api_key=("{env:FIRST}", "none")).access_provider("house").name == "house"


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
        ("anthropic", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")),
        ("vertex", ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT")),
    ],
)
def test_what_a_vendors_own_client_reads_will_do(user: User, name: str, variables: tuple[str, ...]) -> None:
    needs = load_configuration(places=user.places).providers[name].needs
    assert tuple((variable,) for variable in variables) in needs
