"""From descriptors to openers: which origins are opened, in which order, and what becomes of what they offer."""

import contextlib
import dataclasses
import tomllib
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ripieno.canisters.events import Alert
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.ensembles import read_ensemble
from ripieno.descriptors.policies import Hosted
from ripieno.ensembles import Connected, Context, Ensemble, Surroundings
from ripieno.ensembles.opener import needed_origins, opener
from ripieno.exceptions import ConnectionFailure, NameAbsence, Problem
from ripieno.sandbox.processes import LocalSpawner

TEXT = """
[ensemble]
name = "it"
[defaults]
timeout = 5
[connection]
origin = "network"
[configuration]
root = 1
[[invokers]]
name = "declared"
description = "Declared"
invocable = { origin = "local" }
configuration = { own = 2 }
[invokers.arguments]
type = "object"
properties = { a = { type = "integer" } }
[[invokers]]
name = "off"
description = "Off"
enabled = false
invocable = { origin = "absent" }
"""


@dataclasses.dataclass
class Recording:
    """An origin that writes down what is done to it, and offers what it is told to."""

    name: str
    log: list[str]
    offers: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    results: Mapping[str, Any] | None = None
    hosted: Hosted = "here"
    fails: bool = False

    def check(self, descriptor: EnsembleDescriptor) -> Sequence[Problem]:
        return ()

    @contextlib.asynccontextmanager
    async def open(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> AsyncGenerator[Connected, None]:
        if self.fails:
            raise ConnectionFailure(descriptor.name, "no luck.")
        self.log.append(f"open {self.name}")

        def bind(invoker: InvokerDescriptor) -> Any:
            async def invoke(context: Context, arguments: dict[str, Any]) -> str:
                return f"{self.name}: {invoker.name}"

            return invoke

        definitions = tuple(
            descriptor.discovered(name, arguments=schema, results=self.results) for name, schema in self.offers.items()
        )
        try:
            yield Connected(
                connection=f"connection of {self.name}", definitions=definitions, bind=bind, hosted=self.hosted
            )
        finally:
            self.log.append(f"close {self.name}")


def describe(text: str) -> EnsembleDescriptor:
    descriptor, problems = read_ensemble(tomllib.loads(text))
    assert descriptor is not None, problems
    return descriptor


def make(text: str, alerts: list[Alert], *origins: Recording) -> Ensemble:
    surroundings = Surroundings(workspace=Path("/"), spawner=LocalSpawner(), secrets={}, alert=alerts.append)
    return Ensemble("it", opener=opener(describe(text), {one.name: one for one in origins}, surroundings))


async def test_origins_are_opened_once_in_order_and_closed_in_reverse() -> None:
    log: list[str] = []
    alerts: list[Alert] = []
    network = Recording("network", log, {"found": {"type": "object", "properties": {}}})
    ensemble = make(TEXT, alerts, Recording("local", log), network)
    assert log == []
    async with ensemble:
        assert log == ["open network", "open local"]
        assert ensemble.connection == "connection of network"
        declared, found = ensemble.invokers.values()
        assert (declared.name, found.name) == ("declared", "found")
        assert (declared.policy.timeout, found.policy.timeout) == (5, 5)
        assert (declared.configuration, found.configuration) == ({"root": 1, "own": 2}, {"root": 1})
        # Ours are closed, foreign ones stay as they are.
        assert declared.schema.validate({"b": 1})
        assert not found.schema.validate({"b": 1})
    assert log == ["open network", "open local", "close local", "close network"]
    assert alerts == []


async def test_what_cannot_be_used_is_left_out_with_a_reason() -> None:
    alerts: list[Alert] = []
    offers: dict[str, dict[str, Any]] = {
        "declared": {"type": "object"},
        "broken": {"type": "object", "properties": {"a": {"type": "nonsense"}}},
        "remote": {"type": "object", "properties": {"a": {"$ref": "https://example.org/schema.json"}}},
        "fine": {"type": "object"},
    }
    network = Recording("network", [], offers, results={"type": "nonsense"})
    async with make(TEXT, alerts, Recording("local", []), network) as ensemble:
        assert list(ensemble.invokers) == ["declared", "fine"]
        assert await ensemble.access_invoker("declared").perform(None, {}) == "local: declared"  # type: ignore[arg-type]
        assert ensemble.access_invoker("fine").results is None
        with pytest.raises(NameAbsence, match=r"The tool 'it\.broken' is left out: the schema of its arguments"):
            ensemble.access_invoker("broken")
    assert [(alert.tool, alert.message.partition(":")[0]) for alert in alerts] == [
        ("it.declared", "The tool is left out"),
        ("it.broken", "The tool is left out"),
        ("it.remote", "The tool is left out"),
        ("it.fine", "The results of the tool are not checked"),
    ]


async def test_tools_of_callers_have_no_invocable_here() -> None:
    async with make(TEXT, [], Recording("local", [], hosted="caller"), Recording("network", [])) as ensemble:
        assert ensemble.access_invoker("declared").hosted == "caller"


async def test_an_origin_that_nobody_provides() -> None:
    log: list[str] = []
    ensemble = make(TEXT, [], Recording("locale", log), Recording("network", log))
    with pytest.raises(NameAbsence, match=r"There is no origin named 'local'\. Did you mean 'locale'"):
        await ensemble.connect()
    assert log == []


async def test_when_one_origin_fails_the_others_are_closed() -> None:
    log: list[str] = []
    ensemble = make(TEXT, [], Recording("local", log, fails=True), Recording("network", log))
    with pytest.raises(ConnectionFailure, match=r"^Ensemble 'it': no luck\.$"):
        await ensemble.connect()
    assert (log, ensemble.state) == (["open network", "close network"], "failed")


def test_origins_of_invokers_that_are_off_are_not_needed() -> None:
    assert needed_origins(describe(TEXT)) == ("network", "local")
