"""Resources in descriptors: what may be written, and what their places are for."""

import re
from typing import Any

import pytest

from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.ensembles import read_ensemble
from ripieno.descriptors.policy_keys import POLICY_KEYS


def read(**keys: Any) -> tuple[EnsembleDescriptor | None, list[str]]:
    mapping = {
        "ensemble": {"name": "mine", "module": "m", **keys.pop("ensemble", {})},
        "defaults": keys.pop("defaults", {}),
        "invokers": [
            {
                "name": "work",
                "description": "Works",
                "arguments": {"type": "object", "properties": {"path": {"type": "string"}}, **keys.pop("schema", {})},
                **keys,
            }
        ],
    }
    descriptor, problems = read_ensemble(mapping)
    return descriptor, [f"{problem.message} {problem.hint or ''}".strip() for problem in problems]


def test_what_is_declared_is_kept_and_an_empty_list_is_no_absence() -> None:
    descriptor, problems = read(reads=[], writes=["file:{path}", "network", "file:{path}/../{{x}}"])
    assert problems == []
    assert descriptor is not None
    policy = descriptor.invokers[0].policy
    assert (policy.reads, policy.writes) == ((), ("file:{path}", "network", "file:{path}/../{{x}}"))
    other, _ = read()
    assert other is not None
    assert (other.invokers[0].policy.reads, other.invokers[0].policy.writes) == (None, None)
    assert read_ensemble(descriptor.mapping())[0] == descriptor


@pytest.mark.parametrize("key", ["reads", "writes"])
def test_a_place_that_is_none_of_the_arguments_is_told_with_the_nearest(key: str) -> None:
    _, problems = read(**{key: ["file:{pth}"]})
    assert len(problems) == 1
    assert "'pth' is not an argument" in problems[0]
    assert "path" in problems[0]


@pytest.mark.parametrize("text", ["", ":", "file:", "file:{", "file:{path", "file:}", "File:x", "{path}", "file:{a b}"])
def test_what_is_no_resource_is_told(text: str) -> None:
    _, problems = read(writes=[text])
    assert len(problems) == 1
    pattern = next(key.kind.schema()["anyOf"][1]["pattern"] for key in POLICY_KEYS if key.name == "writes")
    assert re.search(pattern, text) is None


def test_arguments_that_cannot_be_seen_are_taken_on_trust() -> None:
    descriptor, problems = read(writes=["file:{other}"], schema={"allOf": [{"properties": {"other": {}}}]})
    assert (descriptor is not None, problems) == (True, [])


def test_defaults_are_for_all_and_need_not_fit_each() -> None:
    descriptor, problems = read(defaults={"writes": ["file:{directory}"], "max_parallel": 2})
    assert problems == []
    assert descriptor is not None
    assert descriptor.invokers[0].policy.writes == ("file:{directory}",)
    assert descriptor.invokers[0].policy.max_parallel == 2
