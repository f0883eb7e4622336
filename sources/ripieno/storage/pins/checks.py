"""Checks of foreign tools against the approved ones, by the mode of ``[ensemble] pin``.

``required`` disables changed, new and unpinned tools, and does not start a changed command. ``warn`` reports
differences from a record, and nothing without one. ``off`` compares nothing. Unreadable pins approve nothing. The
record is read at each check, so that an approval takes effect without a restart.
"""

from collections.abc import Callable, Iterable, Mapping

from frozendict import frozendict

from ripieno.canisters.events import Alert
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.exceptions import ConnectionFailure, InputError, JsonInvalidity
from ripieno.storage.pins.records import Comparison, Pin, PinRecord, changed_parts, compare, pin_tool
from ripieno.storage.pins.store import PinStore

#: Names that a message lists.
_LISTED = 8

AlertSink = Callable[[Alert], None]


class Pins:
    """The user's own records, and a trusted project's shared ones for other ensembles.

    ``compared`` has the last comparison of each ensemble with a record. Tools that the configuration disables are not
    in it.
    """

    def __init__(self, own: PinStore, shared: Mapping[str, PinRecord] = frozendict()) -> None:
        self.own = own
        self._shared = shared
        self.compared: dict[str, Comparison] = {}

    def record(self, ensemble: str) -> PinRecord | None:
        """The approved record of an ensemble, or None. Errors: ``InputError`` when the pins cannot be read."""
        return self.own.read().get(ensemble) or self._shared.get(ensemble)

    def conflict(self, ensemble: str) -> str:
        """The difference between the project's pins and the user's own, in words; empty if there is none."""
        own, shared = self.own.read().get(ensemble), self._shared.get(ensemble)
        if own is None or shared is None or own == shared:
            return ""
        difference = compare(own, shared)
        tools = [*difference.new, *difference.changed, *difference.gone]
        parts = ([] if difference.command == "same" else ["its command"]) + ([_listed(tools)] if tools else [])
        return f"The project's pins of {ensemble!r} differ from yours ({'; '.join(parts)}). Yours apply."


def check_command(descriptor: EnsembleDescriptor, command: Pin | None, pins: Pins | None, alert: AlertSink) -> None:
    """Compares a connection's command before it is started. Conflicts and differences are reported.

    Errors: ``ConnectionFailure`` when it must not be started.
    """
    if descriptor.pin == "off" or descriptor.connection is None or pins is None:
        return
    required = descriptor.pin == "required"
    try:
        record = pins.record(descriptor.name)
        conflict = pins.conflict(descriptor.name)
    except InputError as error:
        # ``admit`` reports the unreadable pins.
        if required and command is not None:
            raise ConnectionFailure(descriptor.name, f"the command cannot be compared. {error}") from error
        return
    if conflict:
        alert(Alert(message=conflict))
    if record is None or record.command == command:
        return
    if required:
        reason = "the command that starts its server differs from the approved one."
        raise ConnectionFailure(descriptor.name, reason, hint=advise(descriptor.name))
    message = f"The command of ensemble {descriptor.name!r} differs from the approved one."
    alert(Alert(message=f"{message} {advise(descriptor.name)}"))


def admit(
    descriptor: EnsembleDescriptor, found: Iterable[InvokerDescriptor], pins: Pins | None, alert: AlertSink
) -> tuple[InvokerDescriptor, ...]:
    """The tools of a connection that may be offered. Each one that differs from its approval is reported."""
    offered = tuple(found)
    required = descriptor.pin == "required"
    if descriptor.pin == "off":
        return offered
    try:
        record = None if pins is None else pins.record(descriptor.name)
    except InputError as error:
        state = "offered" if required else "compared"
        alert(Alert(message=f"No tool of {descriptor.name!r} is {state}. {error}"))
        return () if required else offered
    if record is None and not required:
        return offered
    kept: list[InvokerDescriptor] = []
    unknown: list[str] = []
    changed: list[str] = []
    for invoker in offered:
        if not invoker.enabled:
            kept.append(invoker)  # The configuration disables it.
            continue
        change = _change(descriptor.name, invoker, record or PinRecord())
        if change is None or not required:
            kept.append(invoker)
        if change == "":
            unknown.append(invoker.name)
        elif change is not None:
            changed.append(invoker.name)
            disabled = "The tool is disabled: it" if required else "The tool"
            message = f"{disabled} differs from the approved one ({change}). {advise(descriptor.name)}"
            alert(Alert(message=message, tool=f"{descriptor.name}.{invoker.name}"))
    if pins is not None and record is not None:
        gone = record.tools.keys() - {invoker.name for invoker in offered}
        pins.compared[descriptor.name] = Comparison(
            new=tuple(unknown), changed=tuple(changed), gone=tuple(sorted(gone))
        )
    if unknown:
        disabled = "disabled, because they are not pinned" if required else "not pinned"
        message = f"Tools of {descriptor.name!r} are {disabled}: {_listed(unknown)}. {advise(descriptor.name)}"
        alert(Alert(message=message))
    return tuple(kept)


def _change(ensemble: str, invoker: InvokerDescriptor, record: PinRecord) -> str | None:
    """The change of a tool, in words; empty for an unpinned one, None for an unchanged one."""
    before = record.tools.get(invoker.name)
    if before is None:
        return ""
    try:
        after = pin_tool(ensemble, invoker)
    except JsonInvalidity as invalidity:
        return f"it cannot be compared: {invalidity}"
    return None if before == after else f"changed: {changed_parts(before, after)}"


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _LISTED} more" if len(every) > _LISTED else ""
    return ", ".join(every[:_LISTED]) + more


def advise(ensemble: str) -> str:
    """The next commands for a difference."""
    return f"Show the difference: ripieno lock --check {ensemble}. Approve it: ripieno lock --approve {ensemble}"
