"""From descriptors to openers: which origins are opened, what becomes of what they offer, and what they declare."""

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from ripieno.canisters.events import Alert
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.invokers import InvocableDescriptor
from ripieno.descriptors.policies import Hosted, Policy, RetryPolicy
from ripieno.descriptors.reader.alternatives import TemplateText
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import Named, Several, Text
from ripieno.ensembles import Connected, Context, Ensemble, Origin, Surroundings
from ripieno.ensembles.opener import needed_origins, opener
from ripieno.ensembles.origin import NeededProgram, check_origin, needed_programs, needed_variables, pin_programs
from ripieno.exceptions import ConnectionFailure, NameAbsence, Problem
from tests.support.toml_ensembles import describe, surround

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

        try:
            yield Connected(
                connection=f"connection of {self.name}",
                definitions=self.definitions(descriptor),
                bind=bind,
                hosted=self.hosted,
            )
        finally:
            self.log.append(f"close {self.name}")

    def definitions(self, descriptor: EnsembleDescriptor) -> tuple[InvokerDescriptor, ...]:
        return tuple(
            descriptor.discovered(name, arguments=schema, results=self.results) for name, schema in self.offers.items()
        )


def make(text: str, alerts: list[Alert], *origins: Recording) -> Ensemble:
    given = {one.name: one for one in origins}
    return Ensemble("it", opener=opener(describe(text), given, surround(Path("/"), alerts)))


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


@dataclasses.dataclass
class Own(Recording):
    """An origin that describes its tools itself, as one of a plugin may."""

    def definitions(self, descriptor: EnsembleDescriptor) -> tuple[InvokerDescriptor, ...]:
        assert descriptor.connection is not None
        invocable = InvocableDescriptor(origin=self.name)
        policy = Policy(timeout=7, retry=RetryPolicy(max_retries=2))
        return tuple(
            InvokerDescriptor(name=name, description="Its own.", policy=policy, invocable=invocable)
            for name in ("kept", "found", "gone")
        )


OVERRIDES = """
[overrides.found]
description = "The operator's."
effect = "read"
max_retries = 1
[overrides.gone]
enabled = false
"""


async def test_overrides_apply_whatever_describes_the_tools() -> None:
    connection = TEXT.partition("[[invokers]]")[0]
    async with make(connection + OVERRIDES, [], Own("network", [])) as ensemble:
        found, kept = ensemble.access_invoker("found"), ensemble.access_invoker("kept")
        with pytest.raises(NameAbsence, match="not enabled"):
            ensemble.access_invoker("gone")
    assert (kept.description, kept.policy.effect, kept.policy.retry.max_retries) == ("Its own.", "write", 2)
    assert (found.description, found.policy.effect, found.policy.retry.max_retries) == ("The operator's.", "read", 1)
    assert found.policy.timeout == 7


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


VALUE = TemplateText(variables=True)
INNER = Table(
    title="[connection.inner]",
    documentation="A table in it.",
    keys=(Key(name="secret", kind=VALUE, documentation="A value."),),
)
CONNECTION = Table(
    title="[connection]",
    documentation="A connection.",
    keys=(
        Key(name="plain", kind=Text(), documentation="No template."),
        Key(name="values", kind=Several(item=VALUE, items="values"), documentation="A list."),
        Key(name="named", kind=Named(name=Text(), kind=VALUE), documentation="A table."),
        Key(name="inner", kind=INNER, documentation="Another one."),
    ),
)
PIGEON_TEXT = """
[ensemble]
name = "it"
[connection]
origin = "pigeon"
plain = "{env:NONE}"
values = ["a", "{env:ONE}{env:TWO}"]
named = { a = "{env:THREE}" }
inner = { secret = "{env:FOUR}" }
"""


class Pigeon(Origin):
    """An origin with tables, and without methods of its own."""

    name = "pigeon"
    tables = MappingProxyType({"connection": CONNECTION})

    def check(self, descriptor: EnsembleDescriptor) -> Sequence[Problem]:
        # As one that reads its table itself would.
        again = [Problem(message="once more", key="connection.plian")]
        return [*again, Problem(message=f"{descriptor.name} is too fat", key="connection.values")]

    def open(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> Any:
        raise NotImplementedError


def test_variables_are_found_by_the_kinds_of_keys() -> None:
    found = {need.name: need.key for need in needed_variables(Pigeon(), describe(PIGEON_TEXT))}
    assert found == {"ONE": ("values", 1), "TWO": ("values", 1), "THREE": ("named", "a"), "FOUR": ("inner", "secret")}


def test_tables_and_the_origin_itself_are_both_heard_and_each_key_once() -> None:
    descriptor = describe(PIGEON_TEXT.replace("plain", "plian"))
    assert [problem.message for problem in check_origin(Pigeon(), descriptor)] == [
        "[connection] has no key plian",
        "it is too fat",
    ]
    assert needed_variables(Pigeon(), descriptor) == needed_programs(Pigeon(), descriptor) == ()


@pytest.mark.parametrize("table", ["connection", "invocable"])
def test_a_table_that_is_not_declared_is_refused(table: str) -> None:
    text = '[ensemble]\nname = "it"\n[[invokers]]\nname = "a"\ndescription = "A"\ninvocable = { origin = "pigeon" }'
    descriptor, origin = describe(PIGEON_TEXT if table == "connection" else text), Pigeon()
    origin.tables = MappingProxyType({"invocable" if table == "connection" else "connection": INNER})
    first, *_ = check_origin(origin, descriptor)
    assert (first.key or "").endswith(f"{table}.origin")
    assert "the origin pigeon" in first.message


def test_an_origin_that_declares_nothing_takes_any_keys_and_its_command_is_pinned() -> None:
    """As every origin of a plugin that knows ``name``, ``check`` and ``open`` only, and inherits from nothing."""
    origin: Any = Recording("pigeon", [])
    text = PIGEON_TEXT.replace(
        'plain = "{env:NONE}"', 'command = ["start", "it"]\nenvironment = { B = "{env:X}", A = "" }'
    )
    descriptor = describe(text)
    assert check_origin(origin, descriptor) == ()
    assert needed_variables(origin, descriptor) == ()
    (need,) = needed_programs(origin, descriptor)
    assert need == NeededProgram(argv=("start", "it"), key=("command", 0), environment=("B", "A"))
    pin = pin_programs(origin, descriptor)
    assert pin is not None
    assert '"environment": [\n    "A",\n    "B"\n  ]' in pin.text
    assert pin_programs(origin, describe(PIGEON_TEXT)) is None


def test_each_of_several_programs_is_pinned() -> None:
    class Two(Pigeon):
        def programs(self, descriptor: EnsembleDescriptor) -> Sequence[NeededProgram]:
            return [NeededProgram(argv=(one,), environment=(one,)) for one in descriptor.requires]

    pins = [
        pin_programs(Two(), describe(PIGEON_TEXT.replace("[connection]", f"requires = {names}\n[connection]")))
        for names in ('["a"]', '["a", "b"]', '["b", "a"]')
    ]
    assert len({pin.sha256 for pin in pins if pin is not None}) == 3
