"""Pins: formatting never alarms and any other change does; the file keeps them, and nobody else's."""

import json
import pathlib
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frozendict import frozendict
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.canisters.events import Alert
from ripieno.descriptors import EnsembleDescriptor
from ripieno.ensembles.origin import pin_programs
from ripieno.exceptions import ConnectionFailure, InputError
from ripieno.jsonvalues import canonical, freeze
from ripieno.origins.mcp import ORIGIN as MCP
from ripieno.storage.pins import (
    Comparison,
    Pin,
    PinRecord,
    Pins,
    PinStore,
    admit,
    check_command,
    compare,
    pin_tools,
    read_pins,
    show_difference,
    write_pins,
)
from tests.counts import count
from tests.support.command_line import SOURCES
from tests.support.json_strategies import objects, same, scalars, texts, values
from tests.support.toml_ensembles import describe

FEW = settings(max_examples=count(500))
names = st.text("abcXYZ09_.-", min_size=1, max_size=12)


def shuffled(value: Any, chance: random.Random) -> Any:
    """The same value with its keys in another order."""
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: shuffled(value[key], chance) for key in keys}
    return [shuffled(one, chance) for one in value] if isinstance(value, list) else value


def mutated(value: Any, other: Any, chance: random.Random) -> Any:
    """The value with something else at one place of it, with less, with more, or in another order."""
    if not isinstance(value, dict | list) or chance.random() < 0.2:
        return other
    keys = list(value) if isinstance(value, dict) else range(len(value))
    if not keys or chance.random() < 0.2:
        return {**value, "added": other} if isinstance(value, dict) else chance.choice([[*value, other], value[::-1]])
    copy, key = value.copy(), chance.choice(keys)
    if chance.random() < 0.2:
        del copy[key]
    else:
        copy[key] = mutated(value[key], other, chance)
    return copy


@FEW
@given(objects, st.randoms(), st.sampled_from([None, 1, 4]))
def test_key_order_and_whitespace_never_alarm(definition: dict[str, Any], chance: random.Random, indent: int) -> None:
    text = json.dumps(shuffled(definition, chance), indent=indent, ensure_ascii=bool(indent))
    again = json.loads(text)
    pin, other = Pin.of(definition), Pin.of(freeze(again))
    assert pin == other
    assert pin.text == other.text
    assert show_difference("it.tool", pin, other) == []


@FEW
@given(objects, scalars | values, st.randoms())
def test_any_other_change_does(definition: dict[str, Any], other: Any, chance: random.Random) -> None:
    changed = mutated(definition, other, chance)
    before, after = Pin.of({"definition": definition}), Pin.of({"definition": changed})
    assert (before == after) == same(definition, changed)
    record = PinRecord(tools=frozendict(tool=before))
    comparison = compare(record, PinRecord(tools=frozendict(tool=after)))
    assert comparison == Comparison(changed=() if before == after else ("tool",))
    assert bool(show_difference("it.tool", before, after)) == (before != after)


def test_the_hash_is_that_of_canonical_json() -> None:
    # Written down: whoever changes it makes every pin of every user alarm.
    descriptor = describe('[ensemble]\nname = "it"\n[connection]\norigin = "mcp"\n')
    offered = descriptor.discovered("tell", description="Tells", arguments={"type": "object"}, details={"title": "T"})
    pin = pin_tools(descriptor, [offered])["tell"]
    bare = '{"arguments":{"type":"object"},"description":"Tells","ensemble":"it","name":"tell","title":"T"}'
    assert canonical(json.loads(pin.text)).decode() == bare
    assert pin.sha256 == "4893dd592215e2316227bf4f5b61b2d596c76767aa6fb964bc9e35c03ea0d546"


def test_what_the_operator_knows_better_changes_nothing() -> None:
    plain = describe('[ensemble]\nname = "it"\n[connection]\norigin = "mcp"\n')
    text = '[overrides.tell]\ndescription = "Better"\nenabled = false\neffect = "read"\npresets = { a = 1 }\n'
    over = describe(f'[ensemble]\nname = "it"\n[connection]\norigin = "mcp"\n[defaults]\ntimeout = 3\n{text}')
    pins = [pin_tools(one, [one.discovered("tell", description="Tells")]) for one in (plain, over)]
    assert pins[0] == pins[1]
    assert "Better" not in pins[1]["tell"].text


def command(text: str, name: str = "it") -> Pin | None:
    return pin_programs(MCP, describe(f'[ensemble]\nname = "{name}"\n[connection]\norigin = "mcp"\n{text}'))


def test_a_command_is_its_arguments_and_the_names_of_its_variables() -> None:
    first = command('command = ["a", "b c"]\nenvironment = { ONE = "1", TWO = "2" }')
    assert first == command('environment = { TWO = "another", ONE = "{env:ONE}" }\ncommand = ["a", "b c"]')
    others = [
        command('command = ["a", "b", "c"]\nenvironment = { ONE = "1", TWO = "2" }'),
        command('command = ["b c", "a"]\nenvironment = { ONE = "1", TWO = "2" }'),
        command('command = ["a", "b c"]\nenvironment = { ONE = "1" }'),
        command('command = ["a", "b c"]\nenvironment = { ONE = "1", LD_PRELOAD = "2" }'),
        command('command = ["a", "b c"]\nenvironment = { ONE = "1", TWO = "2" }', "other"),
    ]
    assert first is not None
    assert first not in others
    assert "another" not in first.text
    assert command('url = "http://127.0.0.1/"') is None


def test_a_command_where_there_was_none_is_a_change() -> None:
    pin = command('command = ["a"]')
    assert compare(None, PinRecord(command=pin)).command == "new"
    assert compare(PinRecord(), PinRecord(command=pin)).command == "changed"
    assert compare(PinRecord(command=pin), PinRecord()).command == "gone"
    assert compare(PinRecord(command=pin), PinRecord(command=pin)).same


# --- The file -----------------------------------------------------------------------------------------


def record(ensemble: str, tools: dict[str, dict[str, Any]], argv: list[str] | None = None) -> PinRecord:
    """A record as it would be made."""
    return PinRecord(
        tools=frozendict({name: Pin.of({**one, "ensemble": ensemble, "name": name}) for name, one in tools.items()}),
        command=None if argv is None else Pin.of({"ensemble": ensemble, "command": argv, "environment": []}),
    )


@FEW
@given(
    st.dictionaries(
        names,
        st.tuples(st.dictionaries(names, objects, max_size=2), st.none() | st.lists(texts, max_size=3)),
        max_size=2,
    )
)
def test_what_is_written_is_read(drawn: dict[str, tuple[dict[str, dict[str, Any]], list[str] | None]]) -> None:
    records = {name: record(name, tools, argv) for name, (tools, argv) in drawn.items()}
    read = read_pins(write_pins(records).encode(), "the file", "")
    assert read == records
    for name, one in records.items():
        assert {tool: pin.text for tool, pin in read[name].tools.items()} == {
            tool: pin.text for tool, pin in one.tools.items()
        }
    assert write_pins(read) == write_pins(records)
    assert read_pins(write_pins(records, shared=True).encode(), "the file", "") == records


def test_what_is_shared_withholds_arguments_of_commands() -> None:
    records = {"it": record("it", {"tell": {"description": "Tells"}}, ["server", "--token=hunter2"])}
    assert "hunter2" in write_pins(records)
    shared = write_pins(records, shared=True)
    assert "hunter2" not in shared
    assert "Tells" in shared


GOOD = write_pins({"it": record("it", {"tell": {"description": "Tells"}}, ["server"])})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no toml", "Expected"),
        ("version = 1", "it lacks 'ensembles'"),
        (GOOD.replace("version = 1", "version = 2"), "version 2"),
        (GOOD.replace("Tells", "Tells all"), "it.tell has a definition that does not have its hash"),
        (GOOD.replace("server", "evil"), "the command of 'it' has a definition that does not have its hash"),
        (GOOD.replace("ensembles.it.", "ensembles.other."), "of something else"),
        (GOOD.replace("tools.tell", "tools.other"), "it.other has the definition of something else"),
        (GOOD.replace("definition", "text"), "it.tell has no definition"),
        (GOOD.replace("sha256", "sha1"), "it lacks 'sha256'"),
        ("version = 1\nensembles = []", "'list'"),
        ("version = 1\n[ensembles.it]\ntools = 1", "'int'"),
        ("version = 1\n[ensembles.it.tools.a]\nsha256 = 1\n", "the hash of it.a is not a text"),
        ('version = 1\n[ensembles.it.tools.a]\nsha256 = ""\ndefinition = "{"\n', "of the JSON text"),
        ("a = " + 100_000 * "[", "."),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: pathlib.Path, text: str, reason: str) -> None:
    store = PinStore(tmp_path)
    store.file.write_text(text)
    with pytest.raises(InputError) as caught:
        store.read()
    assert reason in str(caught.value)
    assert str(store.file) in str(caught.value)
    assert "ripieno lock" in str(caught.value)
    # Nothing is written over it either.
    with pytest.raises(InputError):
        store.replace({}, {"new": record("new", {})})
    assert store.file.read_text() == text


def test_the_file_is_the_users_alone_and_replaced_as_a_whole(tmp_path: pathlib.Path) -> None:
    store = PinStore(tmp_path / "state")
    first, second = record("one", {"a": {}}), record("two", {"b": {}})
    assert store.read() == {}
    store.replace({}, {"one": first})
    store.replace({}, {"two": second})
    assert store.read() == {"one": first, "two": second}
    assert store.file.stat().st_mode & 0o777 == 0o600
    assert store.file.parent.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in store.file.parent.iterdir()} == {"pins.toml", "pins.lock"}
    # Only what is known is replaced.
    with pytest.raises(InputError, match="'one' were changed by another program"):
        store.replace({}, {"one": None, "two": None})
    store.replace({"one": first}, {"one": None})
    assert PinStore(tmp_path / "state").read() == {"two": second}


def test_a_file_that_is_still_the_same_is_not_read_again(tmp_path: pathlib.Path) -> None:
    store, other = PinStore(tmp_path), PinStore(tmp_path)
    store.replace({}, {"one": PinRecord()})
    first = store.read()
    assert store.read() is first
    assert store.read(fresh=True) is not first
    other.replace({}, {"two": record("two", {"a": {}})})
    assert set(store.read()) == {"one", "two"}
    store.file.write_text("nonsense")
    for _ in range(2):
        with pytest.raises(InputError):
            store.read()
    store.file.unlink()
    assert store.read() == {}


def test_programs_that_write_at_once_lose_nothing(tmp_path: pathlib.Path) -> None:
    program = (
        "import pathlib, sys\n"
        "from ripieno.storage.pins import PinRecord, PinStore\n"
        "store = PinStore(pathlib.Path(sys.argv[1]))\n"
        "sys.stdin.read()\n"
        "for number in range(20):\n"
        "    store.replace({}, {f'e{sys.argv[2]}-{number}': PinRecord()})\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path), str(number)],
            stdin=subprocess.PIPE,
            env={"PYTHONPATH": str(SOURCES)},
        )
        for number in range(4)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(60) for process in running] == [0, 0, 0, 0]
    assert len(PinStore(tmp_path).read()) == 80


OFFERED = {"same": "As it was", "changed": "As it is now", "new": "New"}


def ensemble(pin: str, argv: str = "server") -> EnsembleDescriptor:
    line = f'pin = "{pin}"\n' if pin else ""
    return describe(f'[ensemble]\nname = "it"\n{line}[connection]\norigin = "mcp"\ncommand = ["{argv}"]\n')


def check(descriptor: EnsembleDescriptor, pins: Pins | None, alert: Callable[[Alert], None]) -> None:
    check_command(descriptor, pin_programs(MCP, descriptor), pins, alert)


def pins_of(folder: Path, *, shared: bool = False) -> Pins:
    """What was approved: other words of one tool, and nothing of another."""
    descriptor = ensemble("warn")
    found = [
        descriptor.discovered(name, description=text)
        for name, text in {**OFFERED, "changed": "As it was"}.items()
        if name != "new"
    ]
    known = {"it": PinRecord(tools=pin_tools(descriptor, found), command=pin_programs(MCP, descriptor))}
    store = PinStore(folder)
    if not shared:
        store.replace({}, known)
    return Pins(store, known if shared else {})


def admitted(descriptor: EnsembleDescriptor, pins: Pins | None) -> tuple[list[str], list[Alert]]:
    alerts: list[Alert] = []
    found = [descriptor.discovered(name, description=text) for name, text in OFFERED.items()]
    return [one.name for one in admit(descriptor, found, pins, alerts.append)], alerts


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("mode", "kept"), [("required", ["same"]), ("warn", list(OFFERED)), ("", list(OFFERED)), ("off", list(OFFERED))]
)
def test_modes(tmp_path: Path, mode: str, kept: list[str], shared: bool) -> None:
    offered, alerts = admitted(ensemble(mode), pins_of(tmp_path, shared=shared))
    assert offered == kept
    if mode == "off":
        assert alerts == []
        return
    changed, new = alerts
    assert changed.tool == "it.changed"
    assert "differs from the approved one (changed: description)" in changed.message
    assert "Tools of 'it' are " in new.message
    assert "not pinned: new." in new.message
    for alert in alerts:
        assert ("disabled" in alert.message) == (mode == "required")
        assert alert.message.endswith("ripieno lock --approve it")


@pytest.mark.parametrize("nothing", [False, True])
def test_without_a_record_only_required_says_something(tmp_path: Path, nothing: bool) -> None:
    pins = None if nothing else Pins(PinStore(tmp_path))
    for mode in ("warn", "off"):
        assert admitted(ensemble(mode), pins) == (list(OFFERED), [])
    offered, (alert,) = admitted(ensemble("required"), pins)
    assert offered == []
    assert "disabled, because they are not pinned: same, changed, new." in alert.message
    assert not list(tmp_path.iterdir())


def test_pins_that_cannot_be_read_approve_nothing(tmp_path: Path) -> None:
    pins = Pins(PinStore(tmp_path))
    pins.own.file.write_text("nonsense")
    offered, (alert,) = admitted(ensemble("required"), pins)
    assert offered == []
    assert "No tool of 'it' is offered" in alert.message
    assert "pins.toml" in alert.message
    offered, (alert,) = admitted(ensemble("warn"), pins)
    assert offered == list(OFFERED)
    assert "No tool of 'it' is compared" in alert.message
    assert admitted(ensemble("off"), pins) == (list(OFFERED), [])
    with pytest.raises(ConnectionFailure, match=r"the command cannot be compared\. The pins in"):
        check(ensemble("required"), pins, print)


def test_many_names_are_not_all_listed(tmp_path: Path) -> None:
    descriptor, alerts = ensemble("required"), list[Alert]()
    found = [descriptor.discovered(f"t{number}") for number in range(10)]
    assert admit(descriptor, found, Pins(PinStore(tmp_path)), alerts.append) == ()
    assert "t6, t7 and 2 more." in alerts[0].message


def test_a_changed_command_is_refused_or_told(tmp_path: Path) -> None:
    pins = pins_of(tmp_path)
    alerts: list[Alert] = []
    for mode in ("required", "warn", "off"):
        check(ensemble(mode), pins, alerts.append)
        check(ensemble(mode, "evil"), Pins(PinStore(tmp_path / "empty")), alerts.append)
        check(ensemble(mode, "evil"), None, alerts.append)
    check(ensemble("off", "evil"), pins, alerts.append)
    assert alerts == []
    with pytest.raises(ConnectionFailure, match=r"differs from the approved one\. Show .*--approve it$"):
        check(ensemble("required", "evil"), pins, alerts.append)
    check(ensemble("warn", "evil"), pins, alerts.append)
    assert [alert.message.partition(".")[0] for alert in alerts] == [
        "The command of ensemble 'it' differs from the approved one"
    ]


def test_the_users_own_record_wins_and_a_conflict_is_told(tmp_path: Path) -> None:
    own = pins_of(tmp_path).own
    shared = {"it": record("it", {"same": {"description": "Smuggled in"}, "new": {}}, ["evil"])}
    pins = Pins(own, shared)
    assert pins.record("it") == own.read()["it"]
    alerts: list[Alert] = []
    check(ensemble("warn"), pins, alerts.append)
    assert [alert.message for alert in alerts] == [
        "The project's pins of 'it' differ from yours (its command; new, same, changed). Yours apply."
    ]
    with pytest.raises(ConnectionFailure):
        check(ensemble("required", "evil"), pins, alerts.append)
