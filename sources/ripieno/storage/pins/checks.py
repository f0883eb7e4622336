"""What happens to foreign tools that are not what was approved, as ``[ensemble] pin`` says.

``required`` disables what is changed, new or not pinned at all, and starts no changed command; ``warn`` says what
differs from a record, and nothing where there is none; ``off`` compares nothing. Pins that cannot be read approve
nothing. The record is read at each check, so that an approval counts without a restart.
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

Tell = Callable[[Alert], None]


class Pins:
    """What counts: the user's own records, and for ensembles that those leave out, what a trusted project shares.

    ``compared`` has how the tools of each ensemble that has a record compared when they were offered last; tools that
    whoever defines the ensemble leaves out are in none of it.
    """

    def __init__(self, own: PinStore, shared: Mapping[str, PinRecord] = frozendict()) -> None:
        self.own = own
        self._shared = shared
        self.compared: dict[str, Comparison] = {}

    def record(self, ensemble: str) -> PinRecord | None:
        """What was approved of an ensemble, or None. Errors: ``InputError`` when the pins cannot be read."""
        return self.own.read().get(ensemble) or self._shared.get(ensemble)

    def conflict(self, ensemble: str) -> str:
        """What the project's pins say otherwise than the user's own, in words; empty where they agree."""
        own, shared = self.own.read().get(ensemble), self._shared.get(ensemble)
        if own is None or shared is None or own == shared:
            return ""
        difference = compare(own, shared)
        tools = [*difference.new, *difference.changed, *difference.gone]
        what = ([] if difference.command == "same" else ["its command"]) + ([_listed(tools)] if tools else [])
        return f"The project's pins of {ensemble!r} are not yours ({'; '.join(what)}). Yours count."


def check_command(descriptor: EnsembleDescriptor, command: Pin | None, pins: Pins | None, alert: Tell) -> None:
    """Compares the command that a connection would start, before it does. Pins that cannot be compared are told.

    Errors: ``ConnectionFailure`` when it must not be started.
    """
    if descriptor.pin == "off" or descriptor.connection is None or pins is None:
        return
    required = descriptor.pin == "required"
    try:
        record = pins.record(descriptor.name)
        conflict = pins.conflict(descriptor.name)
    except InputError as error:
        # What is offered is told of when it is compared.
        if required and command is not None:
            raise ConnectionFailure(descriptor.name, f"the command cannot be compared. {error}") from error
        return
    if conflict:
        alert(Alert(message=conflict))
    if record is None or record.command == command:
        return
    if required:
        reason = "the command that starts its server is not the one that was approved."
        raise ConnectionFailure(descriptor.name, reason, hint=advise(descriptor.name))
    what = f"The command of ensemble {descriptor.name!r} is not the one that was approved."
    alert(Alert(message=f"{what} {advise(descriptor.name)}"))


def admit(
    descriptor: EnsembleDescriptor, found: Iterable[InvokerDescriptor], pins: Pins | None, alert: Tell
) -> tuple[InvokerDescriptor, ...]:
    """What may be offered of what a connection offers now. Each tool that is not what was approved is told."""
    offered = tuple(found)
    required = descriptor.pin == "required"
    if descriptor.pin == "off":
        return offered
    try:
        record = None if pins is None else pins.record(descriptor.name)
    except InputError as error:
        disabled = (
            f"No tool of {descriptor.name!r} is offered" if required else f"No tool of {descriptor.name!r} is compared"
        )
        alert(Alert(message=f"{disabled}. {error}"))
        return () if required else offered
    if record is None and not required:
        return offered
    kept: list[InvokerDescriptor] = []
    unknown: list[str] = []
    changed: list[str] = []
    for invoker in offered:
        if not invoker.enabled:
            kept.append(invoker)  # Whoever defines it leaves it out.
            continue
        change = _change(descriptor.name, invoker, record or PinRecord())
        if change is None or not required:
            kept.append(invoker)
        if change == "":
            unknown.append(invoker.name)
        elif change is not None:
            changed.append(invoker.name)
            disabled = "The tool is disabled: it" if required else "The tool"
            what = f"{disabled} is not what was approved ({change}). {advise(descriptor.name)}"
            alert(Alert(message=what, tool=f"{descriptor.name}.{invoker.name}"))
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
    """What is changed of a tool, in words; empty for one that is not pinned, None for one that is as it was."""
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
    """What to do about a difference."""
    return f"See what it is: ripieno lock --check {ensemble}. Agree to it: ripieno lock --approve {ensemble}"
