"""Values: frozen, compared by their fields, and accepted by the functions of ``dataclasses``."""

import copy
import dataclasses
import functools
import gc
import importlib
import pathlib
import pickle
import re
import weakref
from typing import Any

import msgspec
import pytest
from msgspec.structs import force_setattr
from rich.pretty import pretty_repr

import ripieno
from ripieno.canisters import Conversation
from ripieno.values import Value, uncompared, unprinted


@uncompared("at")
@unprinted("key")
class Entry(Value, kw_only=True):
    name: str
    at: int = 0
    key: str = ""
    tags: list[str] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.name:
            force_setattr(self, "name", "unnamed")


@unprinted("key", "more")
class Longer(Entry, kw_only=True):
    more: int = 0


class Twin(Value, kw_only=True, dict=True):
    name: str

    @functools.cached_property
    def upper(self) -> str:
        return self.name.upper()


def test_a_value_cannot_change() -> None:
    entry: Any = Entry(name="a")
    for name in ("name", "colour"):
        with pytest.raises(AttributeError):
            setattr(entry, name, "b")
    with pytest.raises(AttributeError):
        del entry.name
    assert not hasattr(entry, "__dict__")
    with pytest.raises(TypeError):
        Entry("a")  # type: ignore[misc, call-arg]


def test_values_are_equal_if_their_type_and_compared_fields_are() -> None:
    frozen = Twin(name="a")
    assert frozen == Twin(name="a") != Twin(name="b")
    assert hash(frozen) == hash(Twin(name="a"))
    assert frozen.upper == "A"
    assert frozen == Twin(name="a")
    assert Entry(name="a", at=1) == Entry(name="a", at=2) != Entry(name="a", key="k")
    assert Entry(name="a") != Longer(name="a")
    assert Longer(name="a", at=1, more=1) == Longer(name="a", at=2, more=1) != Longer(name="a", more=2)
    assert Entry(name="a") != "a"
    assert hash(Longer(name="a", at=1, tags=())) == hash(Longer(name="a", at=2, tags=()))  # type: ignore[arg-type]


def test_hidden_fields_are_never_printed() -> None:
    entry, longer = Entry(name="a", key="secret"), Longer(name="a", key="secret", more=7)
    assert repr(entry) == pretty_repr(entry) == "Entry(name='a', at=0, tags=[])"
    assert repr(longer) == pretty_repr(longer) == "Longer(name='a', at=0, tags=[])"
    assert "secret" not in f"{[entry]} {entry!s} {(longer,)}"
    with pytest.raises(TypeError, match="Entry has no field kee"):
        unprinted("kee")(Entry)


def test_hidden_slots_keep_nothing_alive() -> None:
    conversation, kept = Conversation(), set[object]()
    kept_alive = weakref.ref(kept)
    conversation.namespaces["notes"] = {"kept": kept, "conversation": conversation}
    del conversation, kept
    gc.collect()
    assert kept_alive() is None


def test_the_functions_of_dataclasses_accept_values() -> None:
    entry = Entry(name="a", at=1, key="k")
    assert dataclasses.is_dataclass(Entry)
    assert [one.name for one in dataclasses.fields(Longer)] == ["name", "at", "key", "tags", "more"]
    name, at, key, tags = dataclasses.fields(entry)
    assert name.default is name.default_factory is tags.default is dataclasses.MISSING
    assert (at.default, key.default, tags.default_factory) == (0, "", list)
    assert dataclasses.asdict(entry) == {"name": "a", "at": 1, "key": "k", "tags": []}
    assert dataclasses.astuple(Longer(name="b", more=1)) == ("b", 0, "", [], 1)
    changed = dataclasses.replace(entry, name="")
    assert (changed.name, changed.at, changed.key) == ("unnamed", 1, "k")
    with pytest.raises(TypeError):
        dataclasses.replace(entry, colour=1)  # type: ignore[call-arg]
    for twin in (copy.copy(entry), copy.deepcopy(entry), pickle.loads(pickle.dumps(entry))):
        assert dataclasses.astuple(twin) == dataclasses.astuple(entry)


def _classes(kind: type[Value]) -> set[type[Value]]:
    return {kind}.union(*map(_classes, kind.__subclasses__()))


def test_every_value_has_its_fields_also_for_dataclasses() -> None:
    for name in ("assembly", "cli.check.command", "conducting", "servers.chat.events", "toolset.workspace"):
        importlib.import_module(f"ripieno.{name}")
    classes = _classes(Value)
    assert len(classes) > 150
    for kind in classes:
        assert tuple(one.name for one in dataclasses.fields(kind)) == kind.__struct_fields__


#: Classes that stay frozen dataclasses: those of processes without site-packages, and one that makes its own fields.
_DATACLASSES = {"Settings", "Confinement", "Invoker"}


def test_what_is_frozen_is_a_value() -> None:
    root = pathlib.Path(ripieno.__file__).parent
    pattern = re.compile(r"@dataclasses\.dataclass\([^)]*frozen=True[^)]*\)\nclass (\w+)")
    texts = (path.read_text() for path in root.rglob("*.py"))
    assert {name for text in texts for name in pattern.findall(text)} == _DATACLASSES
