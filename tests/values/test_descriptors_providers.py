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
from ripieno.descriptors.patience import Caution
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
        ("8192", '8\ncall_identifiers = "("', 11, "call_identifiers is no regular expression"),
        ("8192", '8\ncall_identifiers = ""', 11, "call_identifiers must be a regular expression"),
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


def test_how_patient_one_is_with_it() -> None:
    keys = (
        'retries = 0\ncloud = "nimbus"\nregion = "here"\nproject = "p"\napi_version = "{env:V}"\n'
        "timeouts = { between = 5, whole = 60.5 }\nbreaker = { failures = 0 }\n"
    )
    house = provider(PROVIDER.replace('api_key = "{env:HOUSE_KEY}"\n', keys))
    assert (house.retries, house.timeouts, house.breaker) == (0, {"between": 5, "whole": 60.5}, {"failures": 0})
    assert (house.cloud, house.region, house.project, house.api_version) == ("nimbus", "here", "p", "{env:V}")
    again, problems = read_provider(house.mapping())
    assert (again, problems) == (house, ())
    laid, _ = lay_over(house, "house", overrides(timeouts={"between": 9}, breaker={"cooldown": 1}, retries=4))
    assert laid is not None
    assert (laid.retries, laid.timeouts) == (4, {"between": 9, "whole": 60.5})
    assert laid.breaker == {"failures": 0, "cooldown": 1}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"retries": -1}, "retries must be a whole number from 0 to 10, not the number -1"),
        ({"timeouts": {"first": 1}}, "timeouts has no key first"),
        ({"timeouts": {"whole": 0}}, "whole must be a number of seconds above 0"),
        ({"timeouts": {"between": "5s"}}, "between must be a number of seconds above 0"),
        ({"breaker": {"failures": 1.5}}, "failures must be a whole number, at least 0"),
    ],
)
def test_problems_of_patience(keys: dict[str, Any], message: str) -> None:
    configuration, problems = read_configuration({"providers": {"house": keys}})
    assert configuration is None
    assert message in problems[0].message


def test_the_breaker_and_fallbacks_of_a_configuration() -> None:
    configuration, problems = read_configuration(
        {
            "model": {"default": "a/m", "fallback": ["b/m", "c/x/y"]},
            "breaker": {"failures": 3},
            "agents": {"one": {"fallback": []}, "two": {"model": "b/m"}},
        }
    )
    assert problems == ()
    assert configuration is not None
    assert configuration.fallback == ("b/m", "c/x/y")
    assert configuration.breaker == Caution(failures=3, cooldown=30)
    assert [configuration.agents[name].fallback for name in ("one", "two")] == [(), None]
    _, problems = read_configuration({"model": {"fallback": ["b/m", "b/m"]}})
    assert "stands twice" in problems[0].message
    _, problems = read_configuration({"model": {"fallback": ["m"]}})
    assert "must be a provider and a model" in problems[0].message
