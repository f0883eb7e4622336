"""What becomes of tools that are not what was approved, in each mode."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ripieno.canisters.events import Alert
from ripieno.descriptors import EnsembleDescriptor
from ripieno.ensembles.origin import pin_programs
from ripieno.exceptions import ConnectionFailure
from ripieno.origins.mcp import ORIGIN as MCP
from ripieno.storage.pins import PinRecord, Pins, PinStore, admit, check_command, pin_tools
from tests.ensembles.test_opener import describe
from tests.storage.test_pins import record

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
