"""``[history]``: what may stand in it, what may not together, and what an agent takes of it."""

from typing import Any

import pytest

from ripieno.descriptors import HistoryDescriptor
from ripieno.descriptors.configuration import combine, read_configuration, read_parts
from ripieno.descriptors.ensembles import read_ensemble
from ripieno.descriptors.json_schema import schema


def read(**history: Any) -> HistoryDescriptor:
    descriptor, problems = read_configuration({"history": history})
    assert not problems
    assert descriptor is not None
    return descriptor.history


def test_what_is_read() -> None:
    assert read() == HistoryDescriptor()
    assert read(strategy="none").strategy == ()
    assert read(strategy="summarize", model="house/small-1", tokens=9000) == HistoryDescriptor(
        strategy=("summarize",), model="house/small-1", tokens=9000
    )
    assert read(strategy=["sliding-window", "drop-oldest"], exchanges=3, tokens=9000, keep=0, supersession=False) == (
        HistoryDescriptor(
            strategy=("sliding-window", "drop-oldest"), exchanges=3, tokens=9000, keep=0, supersession=False
        )
    )


@pytest.mark.parametrize(
    ("history", "key", "hint"),
    [
        ({"strategy": "forget"}, "history.strategy", ""),
        ({"strategy": ["none"]}, "history.strategy", ""),
        ({"strategy": ["drop-oldest", "drop-oldest"]}, "history.strategy", ""),
        ({"tokens": 0}, "history.tokens", ""),
        ({"keep": 1}, "history.keep", ""),
        ({"model": "small"}, "history.model", ""),
        ({"strategy": "drop-oldest", "exchanges": 5}, "history.exchanges", "sliding-window"),
        ({"strategy": "drop-oldest", "model": "house/small"}, "history.model", "summarize"),
        ({"strategy": "none", "tokens": 5}, "history.tokens", "drop-oldest"),
        ({"strategy": "sliding-window", "tokens": 5, "exchanges": 5}, "history.tokens", "Delete one of them"),
        ({"tokns": 5}, "history.tokns", "tokens"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(history: Any, key: str, hint: str) -> None:
    for prefix, table in (("", {"history": history}), ("agents.x.", {"agents": {"x": {"history": history}}})):
        _, problems = read_configuration(table)
        (problem,) = problems
        assert (problem.key or "").startswith(f"{prefix}{key}")
        assert hint in (problem.hint or "")


def test_an_agent_and_a_later_file_say_otherwise_key_by_key() -> None:
    first, _ = read_parts({"history": {"strategy": "summarize", "tokens": 9000, "keep": 0.2}})
    later, _ = read_parts({"history": {"tokens": 7000}, "agents": {"x": {"history": {"strategy": "none"}}, "y": {}}})
    whole = combine([first, later])
    assert whole.history == HistoryDescriptor(strategy=("summarize",), tokens=7000, keep=0.2)
    assert whole.agents["x"].history == HistoryDescriptor(strategy=(), tokens=7000, keep=0.2)
    assert whole.agents["y"].history == whole.history


def test_editors_know_of_it() -> None:
    assert set(schema("config")["properties"]["history"]["properties"]) == {
        "strategy",
        "tokens",
        "exchanges",
        "keep",
        "model",
        "supersession",
    }


def test_an_ensemble_has_a_budget_or_none() -> None:
    table: dict[str, Any] = {"ensemble": {"name": "notes", "tokens": 500}, "invokers": []}
    ensemble, problems = read_ensemble(table)
    assert not problems
    assert ensemble is not None
    assert ensemble.tokens == 500
    assert read_ensemble(ensemble.mapping())[0] == ensemble
    table["ensemble"]["tokens"] = 0
    assert "tokens" in str(read_ensemble(table)[1][0])
