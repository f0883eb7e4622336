"""Looks at foreign ensembles as they are now, beside what was recorded of them, and says what differs."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.assembly.configuration import Gathered
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.ensembles import Ensemble, Opened, Origin, Surroundings
from ripieno.exceptions import RipienoError
from ripieno.storage.pins import Comparison, Pin, PinRecord, compare, pin_command, pin_tools, show_difference


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One ensemble: what was recorded, what is there now, and what differs.

    ``started`` is false where its command is not the recorded one, so that nothing is known of its tools; ``failure``
    says why there is nothing to compare.
    """

    name: str
    before: PinRecord | None
    after: PinRecord = PinRecord()  # noqa: RUF009
    comparison: Comparison = Comparison()  # noqa: RUF009
    started: bool = True
    failure: RipienoError | None = None

    @property
    def refused(self) -> bool:
        """Whether something is not what was recorded, which only its user can agree to."""
        return bool(self.comparison.changed) or self.comparison.command in ("changed", "gone")

    def record(self, *, approved: bool) -> PinRecord | None:
        """What is to be recorded: all that is new, and what is changed or gone as far as it is approved."""
        if self.failure is not None or not self.started or (self.before is None and self.after == PinRecord()):
            return self.before
        if approved or self.before is None:
            return self.after
        tools = {**self.after.tools, **self.before.tools}
        command = self.after.command if self.comparison.command == "same" else self.before.command
        return PinRecord(tools=frozendict(tools), command=command)

    def differences(self) -> dict[str, list[str]]:
        """The lines of a diff for each thing that differs, by its name; of a first record none."""
        if self.before is None:
            return {}
        pairs: dict[str, tuple[Pin | None, Pin | None]] = {}
        if self.comparison.command != "same":
            pairs["command"] = (self.before.command, self.after.command)
        for name in (*self.comparison.changed, *self.comparison.new):
            pairs[f"{self.name}.{name}"] = (self.before.tools.get(name), self.after.tools[name])
        shown = {what: show_difference(_title(self.name, what), *pair) for what, pair in pairs.items()}
        return {what: lines for what, lines in shown.items() if lines}


def foreign(gathered: Gathered, names: Sequence[str]) -> list[EnsembleDescriptor]:
    """The ensembles that others define: those of ``names``, or all that play and are not exempt."""
    return [
        descriptor
        for descriptor in gathered.ensembles
        if (descriptor.name in names if names else descriptor.pin != "off") and is_foreign(descriptor)
    ]


def is_foreign(descriptor: EnsembleDescriptor) -> bool:
    """Whether others define its tools. What a function of ours connects to offers nothing by itself."""
    return descriptor.connection is not None and descriptor.connection.origin != "python"


async def look_at(
    descriptors: Iterable[EnsembleDescriptor], gathered: Gathered, surroundings: Surroundings, *, approved: bool
) -> list[Look]:
    """Connects them all at once, and disconnects. A command that is not the recorded one starts only when approved."""
    return await asyncio.gather(*(_look(one, gathered, surroundings, approved) for one in descriptors))


async def _look(descriptor: EnsembleDescriptor, gathered: Gathered, surroundings: Surroundings, approved: bool) -> Look:
    name = descriptor.name
    before = None if gathered.pins is None else gathered.pins.record(name)
    command = pin_command(descriptor)
    if not approved and before is not None and before.command != command:
        after = PinRecord(tools=before.tools, command=command)
        return Look(name=name, before=before, after=after, comparison=compare(before, after), started=False)
    try:
        found = await _discover(descriptor, gathered, surroundings)
        after = PinRecord(tools=pin_tools(descriptor, found), command=command)
    except RipienoError as error:
        return Look(name=name, before=before, failure=error)
    return Look(name=name, before=before, after=after, comparison=compare(before, after))


async def _discover(
    descriptor: EnsembleDescriptor, gathered: Gathered, surroundings: Surroundings
) -> tuple[InvokerDescriptor, ...]:
    """Everything that a connection offers, whatever the operator makes of it."""
    connection = descriptor.connection
    if connection is None:
        return ()
    origin: Origin = gathered.registry.resolve("origins", connection.origin)
    found: list[InvokerDescriptor] = []

    @contextlib.asynccontextmanager
    async def open_origin() -> AsyncGenerator[Opened, None]:
        async with origin.open(descriptor, surroundings) as connected:
            found.extend(connected.definitions)
            yield Opened(connection=None, definitions=())

    async with Ensemble(descriptor.name, opener=open_origin, recovery=None):
        return tuple(found)


def sentences(look: Look, *, recorded: bool, approved: bool) -> list[str]:
    """What a person reads of one ensemble, with its diffs; ``recorded`` when what can be recorded was."""
    if look.failure is not None:
        return [f"{look.name}: not compared, because it could not be connected."]
    new, changed, gone = look.comparison.new, look.comparison.changed, look.comparison.gone
    if look.before is None:
        if look.after == PinRecord():
            return [f"{look.name}: it offers nothing that could be pinned."]
        return [f"{look.name}: {_count(new)} {'recorded' if recorded else 'not recorded yet'}: {', '.join(new)}"]
    if look.comparison.same:
        return [f"{look.name}: as recorded, {_count(look.after.tools)}."]
    lines = [f"{look.name}:"]
    kept = "" if not recorded else ", approved now" if approved else ", not recorded"
    if look.comparison.command != "same":
        lines.append(
            f"  the command is {look.comparison.command}{kept}{'' if look.started else '; it was not started'}"
        )
    lines += [f"  changed{kept}: {', '.join(changed)}"] if changed else []
    lines += [f"  new{', recorded' if recorded else ''}: {', '.join(new)}"] if new else []
    lines += [f"  gone{', forgotten' if recorded and approved else ''}: {', '.join(gone)}"] if gone else []
    for one in look.differences().values():
        lines += ["", *one]
    if look.refused and not approved:
        lines += ["", f"When this is right, agree to it: ripieno lock --approve {look.name}"]
    return lines


def mapping(look: Look, record: PinRecord | None) -> dict[str, Any]:
    """The same as JSON. ``recorded`` is whether what is there now is what is recorded."""
    comparison = look.comparison
    differences: Mapping[str, Sequence[str]] = look.differences()
    return {
        "ensemble": look.name,
        "tools": sorted(look.after.tools),
        "new": list(comparison.new),
        "changed": list(comparison.changed),
        "gone": list(comparison.gone),
        "command": comparison.command,
        "started": look.started,
        "recorded": look.failure is None and record == look.after,
        "differences": {name: "\n".join(lines) for name, lines in differences.items()},
        "failure": None if look.failure is None else str(look.failure),
    }


def _title(ensemble: str, what: str) -> str:
    return f"command of {ensemble}" if what == "command" else what


def _count(tools: Iterable[str]) -> str:
    number = len(list(tools))
    return f"{number} tool{'' if number == 1 else 's'}"
