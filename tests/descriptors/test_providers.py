"""Descriptors of providers and profiles."""

import fnmatch
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.descriptors import ProfileDescriptor, ProviderDescriptor
from ripieno.descriptors.configuration import combine
from ripieno.descriptors.model_rows import find_idle
from ripieno.descriptors.profiles import read_profile
from ripieno.descriptors.providers import CAPABILITIES, lay_over, read_provider
from ripieno.descriptors.reader.problems import Source
from ripieno.descriptors.timeouts import Caution
from tests.descriptors.descriptor_examples import PROFILE, PROVIDER, read_configuration


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


KEY = '"{env:HOUSE_KEY}"'


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("strict = true", "strcit = true", 9, "[capabilities] has no key strcit"),
        ('match = "small-*"', "", 16, "[[models]] lacks match"),
        ('"example-chat"', '"prompted"', 4, 'protocol = "prompted" needs a carrier'),
        ('protocol = "example-chat"\n', "", 2, "[provider] lacks protocol"),
        ("http://localhost:8080/v1", "localhost", 5, "base_url must be a URL"),
        ('api_key = "{env:HOUSE_KEY}"', "headers = { 'X Y' = 'z' }", 6, "must be the name of an HTTP header"),
        ("8192", '8\ncall_identifiers = "("', 11, "call_identifiers is not a regular expression"),
        ("8192", '8\ncall_identifiers = ""', 11, "call_identifiers must be a regular expression"),
        ("8192", "0", 10, "output_tokens must be a whole number, at least 1"),
        (KEY, "[]", 6, "api_key is an empty list"),
        (KEY, "7", 6, "api_key must be a string, or a list of strings (the first whose variables are set is used)"),
        (KEY, '["{env:A}", 7]', 6, "api_key[1] must be a string"),
        (KEY, '["{env:A}", " "]', 6, "api_key[1] must be a string"),
        (KEY, '["{env:A}", "{env:A}"]', 6, "occurs twice in api_key"),
        (KEY, '["hush", "{env:A}"]', 6, "api_key[0] names no variable, so the strings after it are never used"),
        (KEY, '["{env:A}", "{env:B-C}"]', 6, "api_key[1] has braces that are not a variable"),
        (KEY, '"{HOUSE_KEY}"', 6, "{HOUSE_KEY} in api_key is an argument"),
        (KEY, '"k"\nregion = ["a", "b"]', 7, "region[0] names no variable"),
        (KEY, '"k"\nproject = "{"', 7, "project has braces"),
        (KEY, '"k"\napi_version = "{env:V"', 7, "api_version has braces"),
        (KEY, '"k"\nheaders = { A = "{env:V" }', 7, "A has braces"),
        ("http://localhost:8080/v1", "http://{HOST}/v1", 5, "{HOST} in base_url is an argument"),
        ("http://localhost:8080/v1", "{env:HOST", 5, "base_url has braces"),
        ('"small-*"', '"small-1*"', 17, 'two rows have match = "small-1*"; only the first would apply'),
    ],
)
def test_problems(old: str, new: str, line: int, message: str) -> None:
    text = PROVIDER.replace(old, new)
    descriptor, problems = read_provider(tomllib.loads(text), Source(file="p.toml", text=text))
    assert descriptor is None
    (problem,) = problems
    assert message in problem.message
    assert problem.line == line


def test_a_key_may_have_alternatives() -> None:
    text = PROVIDER.replace('"{env:HOUSE_KEY}"', '["{env:HOUSE_KEY}", "{env:A}:{env:B}", "none"]')
    house = provider(text)
    assert house.api_key == ("{env:HOUSE_KEY}", "{env:A}:{env:B}", "none")
    assert house.needs == ((("HOUSE_KEY",), ("A", "B"), ()),)
    assert provider().needs == ((("HOUSE_KEY",),),)
    assert provider(PROVIDER.replace('"{env:HOUSE_KEY}"', '"written"')).needs == ()
    # A list of the configuration takes the place of what was there.
    assert laid_over(house, api_key=["{env:OTHER}"]).api_key == ("{env:OTHER}",)
    assert laid_over(house, api_key="{env:OTHER}").needs == ((("OTHER",),),)


def overrides(**keys: Any) -> Any:
    """The read keys of ``[providers.house]``."""
    configuration, problems = read_configuration({"providers": {"house": keys}})
    assert problems == ()
    assert configuration is not None
    return configuration.providers["house"]


def laid_over(house: ProviderDescriptor, **keys: Any) -> ProviderDescriptor:
    """The provider with these keys of a configuration."""
    laid, problems = lay_over(house, "house", overrides(**keys))
    assert problems == ()
    assert laid is not None
    return laid


def test_laid_over() -> None:
    house = laid_over(provider(), base_url="http://other/v1", capabilities={"json_mode": True}, headers={"A": "b"})
    assert house.base_url == "http://other/v1"
    assert house.capabilities == {"strict": True, "output_tokens": 8192, "json_mode": True}
    assert house.headers == {"A": "b"}
    assert house.models == provider().models
    assert (house.file, house.layer, house.api_key) == ("p.toml", "user", "{env:HOUSE_KEY}")
    replaced = laid_over(house, models=[{"match": "*", "strict": False}])
    assert [row.match for row in replaced.models] == ["*", "small-1*", "small-*"]
    assert replaced.capabilities_for("x")["strict"] is False
    assert laid_over(house) == house


def rows_of(*matches: str, **capabilities: Any) -> Any:
    return overrides(models=[{"match": match, **capabilities} for match in matches])


def test_rows_of_an_outer_layer_stand_before_those_that_are_known() -> None:
    house, _ = lay_over(provider(), "house", rows_of("small-1b", "small-*", streaming=False))
    assert house is not None
    # One of the same pattern takes the other's place.
    assert [row.match for row in house.models] == ["small-1b", "small-*", "small-1*"]
    assert house.row_for("small-1b") == {"streaming": False}
    assert house.row_for("large") == {}
    again, problems = read_provider(house.mapping())
    assert (again, problems) == (house, ())
    whole = combine([{"providers": {"house": rows_of(*matches)}} for matches in (("a", "b"), ("c", "b"))])
    assert [row["match"] for row in whole.providers["house"]["models"]] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("patterns", "idle"),
    [
        (("*", "small"), [(1, 0)]),
        (("large", "small-*", "small-1*", "small-[12]", "small-?"), [(2, 1), (3, 1), (4, 1)]),
        (("a?c", "abc", "a[b]c"), [(1, 0), (2, 0)]),
        # These are hard to compare, or do not cover: each "yes" here would be wrong.
        (("a?", "a*"), []),
        (("[!a]", "*"), []),
        (("*1]", "small-[1]"), []),
        (("small-*", "small", "SMALL-1"), []),
    ],
)
def test_rows_that_never_hold(patterns: tuple[str, ...], idle: list[tuple[int, int]]) -> None:
    assert list(find_idle(patterns)) == idle


NAMES_AND_PLACES = st.text("ab?*[]!", max_size=6)


@given(st.lists(NAMES_AND_PLACES, max_size=4, unique=True), st.lists(st.text("ab*[]!", max_size=5), max_size=30))
def test_what_is_said_never_to_hold_never_holds(patterns: list[str], names: list[str]) -> None:
    idle = {index for index, _ in find_idle(patterns)}
    for name in names:
        first = next((index for index, one in enumerate(patterns) if fnmatch.fnmatchcase(name, one)), None)
        assert first not in idle


def test_new_in_a_configuration() -> None:
    house, problems = lay_over(None, "house", overrides(protocol="example-chat"))
    assert problems == ()
    assert house == ProviderDescriptor(name="house", protocol="example-chat")
    house, problems = lay_over(None, "house", overrides(base_url="http://x"))
    assert house is None
    assert "lacks protocol" in problems[0].message
    house, problems = lay_over(provider(), "house", overrides(protocol="prompted"))
    assert house is None
    assert "needs a carrier" in problems[0].message


def test_profile() -> None:
    descriptor, problems = read_profile(tomllib.loads(PROFILE), layer="package")
    assert problems == ()
    known = {"name": "minimal", "description": "Files, and nothing else", "ensembles": ("io",)}
    assert descriptor == ProfileDescriptor(**known, layer="package")
    text = PROFILE.replace('["io"]', '["io", "git", "io"]')
    (problem,) = read_profile(tomllib.loads(text), Source(file="p.toml", text=text))[1]
    assert (problem.message, problem.line) == ('the string "io" occurs twice in ensembles', 5)


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
    laid = laid_over(house, timeouts={"between": 9}, breaker={"cooldown": 1}, retries=4)
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
    assert "occurs twice" in problems[0].message
    _, problems = read_configuration({"model": {"fallback": ["m"]}})
    assert "must be a provider and a model" in problems[0].message
