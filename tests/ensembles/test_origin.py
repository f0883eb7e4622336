"""The contract of origins: what one declares, and what holds for one that declares nothing."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import pytest

from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.reader.alternatives import TemplateText
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import Named, Several, Text
from ripieno.ensembles import Origin, Surroundings
from ripieno.ensembles.origin import NeededProgram, check_origin, needed_programs, needed_variables, pin_programs
from ripieno.exceptions import Problem
from tests.ensembles.test_opener import Recording, describe

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
TEXT = """
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
    found = {need.name: need.key for need in needed_variables(Pigeon(), describe(TEXT))}
    assert found == {"ONE": ("values", 1), "TWO": ("values", 1), "THREE": ("named", "a"), "FOUR": ("inner", "secret")}


def test_tables_and_the_origin_itself_are_both_heard_and_each_key_once() -> None:
    descriptor = describe(TEXT.replace("plain", "plian"))
    assert [problem.message for problem in check_origin(Pigeon(), descriptor)] == [
        "[connection] has no key plian",
        "it is too fat",
    ]
    assert needed_variables(Pigeon(), descriptor) == needed_programs(Pigeon(), descriptor) == ()


@pytest.mark.parametrize("table", ["connection", "invocable"])
def test_a_table_that_is_not_declared_is_refused(table: str) -> None:
    text = '[ensemble]\nname = "it"\n[[invokers]]\nname = "a"\ndescription = "A"\ninvocable = { origin = "pigeon" }'
    descriptor, origin = describe(TEXT if table == "connection" else text), Pigeon()
    origin.tables = MappingProxyType({"invocable" if table == "connection" else "connection": INNER})
    first, *_ = check_origin(origin, descriptor)
    assert (first.key or "").endswith(f"{table}.origin")
    assert "the origin pigeon" in first.message


def test_an_origin_that_declares_nothing_takes_any_keys_and_its_command_is_pinned() -> None:
    """As every origin of a plugin that knows ``name``, ``check`` and ``open`` only, and inherits from nothing."""
    origin: Any = Recording("pigeon", [])
    text = TEXT.replace('plain = "{env:NONE}"', 'command = ["start", "it"]\nenvironment = { B = "{env:X}", A = "" }')
    descriptor = describe(text)
    assert check_origin(origin, descriptor) == ()
    assert needed_variables(origin, descriptor) == ()
    (need,) = needed_programs(origin, descriptor)
    assert need == NeededProgram(argv=("start", "it"), key=("command", 0), environment=("B", "A"))
    pin = pin_programs(origin, descriptor)
    assert pin is not None
    assert '"environment": [\n    "A",\n    "B"\n  ]' in pin.text
    assert pin_programs(origin, describe(TEXT)) is None


def test_each_of_several_programs_is_pinned() -> None:
    class Two(Pigeon):
        def programs(self, descriptor: EnsembleDescriptor) -> Sequence[NeededProgram]:
            return [NeededProgram(argv=(one,), environment=(one,)) for one in descriptor.requires]

    pins = [
        pin_programs(Two(), describe(TEXT.replace("[connection]", f"requires = {names}\n[connection]")))
        for names in ('["a"]', '["a", "b"]', '["b", "a"]')
    ]
    assert len({pin.sha256 for pin in pins if pin is not None}) == 3
