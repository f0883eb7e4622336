"""Controls, limits and rules: their defaults, and when a choice of tools is forced."""

import dataclasses

import pytest
from frozendict import frozendict

from ripieno.canisters import Controls
from ripieno.canisters.controls import Format, Limits, Rules
from ripieno.descriptors import Policy
from ripieno.descriptors.policies import EFFECTS, HARMLESS


def test_what_is_unset_is_left_to_the_provider() -> None:
    controls = Controls()
    unset = {name for name in controls.__slots__ if getattr(controls, name) is None}
    assert unset == {
        "temperature",
        "output_tokens",
        "top_p",
        "stop",
        "reasoning",
        "tool_choice",
        "allowed_tools",
        "parallel",
        "strict",
        "format",
        "tool_calls",
    }
    assert controls.stream is True


@pytest.mark.parametrize(
    ("choice", "forced"), [(None, False), ("auto", False), ("none", False), ("required", True), ("read_file", True)]
)
def test_a_forced_choice_is_relaxed_and_the_rest_stays(choice: str | None, forced: bool) -> None:
    controls = Controls(tool_choice=choice, temperature=0.5, allowed_tools=("read_file",))
    assert controls.forced() is forced
    relaxed = controls.relaxed()
    assert relaxed == dataclasses.replace(controls, tool_choice="auto" if forced else choice)
    assert not relaxed.forced()
    assert relaxed.relaxed() is relaxed


def test_none_and_empty_are_two_things() -> None:
    assert Controls(allowed_tools=()) != Controls()


def test_a_format_has_a_schema_where_it_is_one() -> None:
    assert Format(kind="json_schema", schema=frozendict(type="object")) != Format(kind="json_object")
    with pytest.raises(ValueError, match="has a schema if its kind is json_schema"):
        Format(kind="json_schema")
    with pytest.raises(ValueError, match="and no schema otherwise"):
        Format(kind="json_object", schema=frozendict(type="object"))


def test_the_limits_are_the_documented_ones() -> None:
    assert Limits() == Limits(turns=20, calls=100, wall=600.0, repeats=3, output=None, tokens=None)
    assert Rules() == Rules(approve=(), ask=(), deny=())


def test_an_undeclared_effect_is_a_write() -> None:
    assert Policy().effect == "write"
    assert not Policy().harmless
    assert [effect for effect in EFFECTS if Policy(effect=effect).harmless] == ["none", "read"]
    assert set(EFFECTS) >= HARMLESS


@pytest.mark.parametrize("value", [Controls(), Limits(), Rules(), Policy()], ids=lambda one: type(one).__name__)
def test_they_are_frozen(value: object) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, None)  # type: ignore[arg-type]
