"""Descriptors of providers and profiles."""

import tomllib
from typing import Any

import pytest

from ripieno.descriptors import (
    CAPABILITIES,
    ProfileDescriptor,
    ProviderDescriptor,
    Source,
    lay_over,
    read_configuration,
    read_profile,
    read_provider,
)
from tests.values.descriptor_examples import PROFILE, PROVIDER


def provider(text: str = PROVIDER) -> ProviderDescriptor:
    descriptor, problems = read_provider(tomllib.loads(text), Source(file="p.toml", text=text), layer="user")
    assert problems == ()
    assert descriptor is not None
    return descriptor


def test_provider() -> None:
    house = provider()
    assert (house.name, house.protocol, house.base_url) == ("house", "example-chat", "http://localhost:8080/v1")
    assert (house.api_key, house.headers, house.carrier) == ("{env:HOUSE_KEY}", {}, None)
    assert (house.file, house.layer) == ("p.toml", "user")


def test_capabilities_first_match_wins() -> None:
    house = provider()
    assert house.capabilities_for("large") == CAPABILITIES | {"strict": True, "output_tokens": 8192}
    small = house.capabilities_for("small-1b")
    assert (small["parallel_calls"], small["function_calling"], small["output_tokens"]) == (False, True, 8192)
    other = house.capabilities_for("small-2")
    assert (other["parallel_calls"], other["function_calling"], other["output_tokens"]) == (True, False, 1024)
    assert house.capabilities_for("SMALL-2") == house.capabilities_for("large")


def test_every_capability_has_a_default() -> None:
    assert set(CAPABILITIES) >= {
        "function_calling",
        "parallel_calls",
        "streaming",
        "stream_calls",
        "json_mode",
        "tool_choice",
        "strict",
        "images_in_results",
        "reasoning_replay",
        "text_calls",
        "output_tokens",
    }


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("strict = true", "strcit = true", 9, "[capabilities] has no key strcit"),
        ('match = "small-*"', "", 16, "[[models]] lacks match"),
        ('"example-chat"', '"prompted"', 4, 'protocol = "prompted" needs a carrier'),
        ('protocol = "example-chat"\n', "", 2, "[provider] lacks protocol"),
        ("http://localhost:8080/v1", "localhost", 5, "base_url must be a URL"),
        ('api_key = "{env:HOUSE_KEY}"', "headers = { 'X Y' = 'z' }", 6, "must be the name of an HTTP header"),
        ("8192", "0", 10, "output_tokens must be a whole number, at least 1"),
    ],
)
def test_problems(old: str, new: str, line: int, message: str) -> None:
    text = PROVIDER.replace(old, new)
    descriptor, problems = read_provider(tomllib.loads(text), Source(file="p.toml", text=text))
    assert descriptor is None
    (problem,) = problems
    assert message in problem.message
    assert problem.line == line


def overrides(**keys: Any) -> Any:
    """The read keys of ``[providers.house]``."""
    configuration, problems = read_configuration({"providers": {"house": keys}})
    assert problems == ()
    assert configuration is not None
    return configuration.providers["house"]


def test_laid_over() -> None:
    house, problems = lay_over(
        provider(), "house", overrides(base_url="http://other/v1", capabilities={"json_mode": True}, headers={"A": "b"})
    )
    assert problems == ()
    assert house is not None
    assert house.base_url == "http://other/v1"
    assert house.capabilities == {"strict": True, "output_tokens": 8192, "json_mode": True}
    assert house.headers == {"A": "b"}
    assert house.models == provider().models
    assert (house.file, house.layer, house.api_key) == ("p.toml", "user", "{env:HOUSE_KEY}")
    replaced, _ = lay_over(house, "house", overrides(models=[{"match": "*", "strict": False}]))
    assert replaced is not None
    assert [row.match for row in replaced.models] == ["*"]
    assert replaced.capabilities_for("x")["strict"] is False
    assert lay_over(house, "house", overrides())[0] == house


def test_new_in_a_configuration() -> None:
    house, problems = lay_over(None, "house", overrides(protocol="example-chat"), file="c.toml", layer="user")
    assert problems == ()
    assert house == ProviderDescriptor(name="house", protocol="example-chat")
    assert (house.file, house.layer) == ("c.toml", "user")
    house, problems = lay_over(None, "house", overrides(base_url="http://x"))
    assert house is None
    assert "lacks protocol" in problems[0].message
    house, problems = lay_over(provider(), "house", overrides(protocol="prompted"))
    assert house is None
    assert "needs a carrier" in problems[0].message


def test_profile() -> None:
    descriptor, problems = read_profile(tomllib.loads(PROFILE), layer="package")
    assert problems == ()
    assert descriptor == ProfileDescriptor(
        name="minimal", description="Files, and nothing else", ensembles=("io",), layer="package"
    )
    text = PROFILE.replace('["io"]', '["io", "git", "io"]')
    _, problems = read_profile(tomllib.loads(text), Source(file="p.toml", text=text))
    assert [(problem.message, problem.line) for problem in problems] == [
        ('the string "io" stands twice in ensembles', 5)
    ]
